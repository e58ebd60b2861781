"""Committed files name no registry and no home folder, and every pin has its hash."""

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.house.committed import check_addresses, check_lock
from tests.house.places import ROOT

LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


@cache
def _committed() -> dict[str, str]:
    """The text of every committed file as it stands now; files that are not text are left out."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("this is no git checkout, so nothing tells which files are committed")
    listed = subprocess.run([git, "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("git cannot list the committed files here")
    texts = {}
    for path in listed.stdout.decode().split("\0"):
        if path and (ROOT / path).is_file():
            raw = (ROOT / path).read_bytes()
            if b"\0" not in raw:
                texts[path] = raw.decode(errors="replace")
    return texts


def test_no_committed_file_names_a_registry_or_a_home_folder() -> None:
    files = _committed()
    assert "pyproject.toml" in files
    assert check_addresses(files) == []


def test_there_are_lock_files() -> None:
    frameworks = ("adk", "agent-framework", "claude-sdk", "clients", "crewai", "langgraph", "llama-index")
    adapters = [f"adapters-{name}.txt" for name in (*frameworks, "openai-agents", "pydantic-ai", "strands")]
    assert [path.name for path in LOCKS] == [*adapters, "build.txt", "dev.txt", "image.txt", "run.txt", "site.txt"]


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_pin_has_a_hash_and_no_address(path: Path) -> None:
    assert check_lock(path.name, path.read_text()) == []


def test_the_check_of_addresses_tells_right_from_wrong() -> None:
    registry, home = "files.python" + "hosted.org", "/ho" + "me/ada"
    text = f"see https://{registry}/x\nor {home}/notes\nnot pypi, not /homes/x, not my.org, not ~/notes\n"
    assert check_addresses({"a.md": text}) == [
        f"a.md:1 names {registry}: a mirror or another registry must do as well",
        f"a.md:2 names {home}: a path of one machine means nothing on another",
    ]


def test_the_check_of_locks_tells_right_from_wrong() -> None:
    hashes = f"--hash=sha256:{'0' * 64} \\\n    --hash=sha256:{'1' * 64}"
    good = f"# a comment\na==1.0 ; python_version < '4' \\\n    {hashes}\n"
    assert check_lock("x.txt", good) == []
    assert check_lock("x.txt", good + "b==2\nc>=1\n--index-url https://x.y/simple\n") == [
        "x.txt names an address: --index-url",
        "x.txt names an address: https://x.y/simple",
        "x.txt: b==2 has no hash",
        "x.txt: 'c>=1' pins no version",
        "x.txt: '--index-url https://x.y/simple' pins no version",
    ]
    assert check_lock("x.txt", f"a==1 --hash=sha256:{'0' * 63}\n") == ["x.txt: a==1 has no hash"]
