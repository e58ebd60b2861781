"""What the docs show works, and what they name exists."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

from holdfast.cli import BENCHES, COMMANDS
from tests.house.places import ROOT

PAGES = (
    *sorted(ROOT.glob("*.md")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "adapters"),
)
GUARANTEES = (ROOT / "docs" / "guarantees.md").read_text("utf-8")

_FENCE = re.compile(r"^```(?P<words>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)
_TEST_ID = re.compile(r"`(?P<path>[\w/]+\.py)::(?P<names>[\w:]+)`")
_NUMBER = re.compile(r"FM-\d{3}")
_COMMAND = re.compile(r"(?:^|`)(?:\.venv/bin/)?holdfast (?P<name>[a-z]+)(?: (?P<next>[a-z]+))?", re.MULTILINE)
# Nobody waits longer for an example; the quick start takes a second.
_SECONDS_MAX = 60


@dataclass(frozen=True)
class Block:
    """Code of a page, and what the page says that it prints; None where it does not say."""

    page: str
    line: int
    code: str
    printed: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def runnable_blocks(page: str, text: str) -> Iterator[Block]:
    """Yield the Python of a page that is to be run: all of README.md, elsewhere what is marked `python runnable`."""
    fences = list(_FENCE.finditer(text))
    for place, fence in enumerate(fences):
        words = fence["words"].split()
        if words[:1] == ["python"] and (page == "README.md" or "runnable" in words):
            line = text.count("\n", 0, fence.start()) + 1
            yield Block(page, line, fence["text"], _printed(text, fences, place))


def _printed(text: str, fences: list[re.Match[str]], place: int) -> str | None:
    """Return the text block behind a block of code, where only "It prints:" stands between them."""
    if place + 1 == len(fences):
        return None
    between = text[fences[place].end() : fences[place + 1].start()].strip()
    return fences[place + 1]["text"] if between == "It prints:" else None


BLOCKS = [block for page in PAGES for block in runnable_blocks(page.name, page.read_text("utf-8"))]


def without_keys_and_network(folder: Path) -> dict[str, str]:
    """Return an environment in which an example can reach nothing but its own folder and the simulated model."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    # A proxy that nobody serves: whoever tries to reach a provider fails at once.
    proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
    return {**kept, **proxies, "HOLDFAST_STORE": str(folder / "default.db"), "HOME": str(folder)}


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_what_a_page_shows_runs_and_prints_what_it_says(block: Block, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block.code],
        cwd=tmp_path,
        env=without_keys_and_network(tmp_path),
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert block.printed in {None, done.stdout}


def test_the_readme_has_an_example_and_says_what_it_prints() -> None:
    assert [block.printed is None for block in BLOCKS if block.page == "README.md"] == [False]


def test_only_blocks_that_are_meant_to_be_run_are_run() -> None:
    text = "```python\na\n```\nIt prints:\n```text\nb\n```\n```sh\nc\n```\n```python runnable\nd\n```\n"
    assert list(runnable_blocks("README.md", text)) == [
        Block("README.md", 1, "a\n", "b\n"),
        Block("README.md", 11, "d\n", None),
    ]
    assert list(runnable_blocks("other.md", text)) == [Block("other.md", 11, "d\n", None)]


def anchors(text: str) -> set[str]:
    """Return the anchors that a page's headings have where it is shown."""
    titles = _HEADING.findall(_FENCE.sub("", text))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(page: Path) -> list[str]:
    """Return the links of a page that lead to no file, or to no heading in it."""
    broken = []
    for link in _LINK.finditer(_FENCE.sub("", page.read_text("utf-8"))):
        path, _, anchor = link["target"].partition("#")
        if "://" in path:
            continue
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text("utf-8"))):
            broken.append(link["target"])
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_a_link_to_no_file_or_no_heading_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One, two\n[a](#one-two) [b](page.md#one-two) [c](https://example.com/x) [d](none.md) [e](#three)", "utf-8"
    )
    assert broken_links(page) == ["none.md", "#three"]


def is_test(path: str, names: str) -> bool:
    """Return whether a test of this id exists; one that a class inherits counts."""
    if not (ROOT / "tests" / path).is_file():
        return False
    found: object = import_module(f"tests.{path.removesuffix('.py').replace('/', '.')}")
    for name in names.split("::"):
        found = getattr(found, name, None)
    return callable(found)


def test_every_test_that_the_guarantees_name_exists() -> None:
    security = (ROOT / "docs" / "security.md").read_text("utf-8")
    named = sorted({(found["path"], found["names"]) for found in _TEST_ID.finditer(GUARANTEES + security)})
    assert len(named) > 50
    assert ("proxy/test_access.py", "test_with_the_clients_own_provider_key_every_path_passes") in named
    assert [f"{path}::{names}" for path, names in named if not is_test(path, names)] == []


def test_a_test_that_does_not_exist_is_told_from_one_that_does() -> None:
    own = "docs/test_examples.py"
    assert is_test(own, "test_links_lead_somewhere")
    assert is_test("stores/test_memory.py", "TestMemoryStore::test_a_feed_may_start_anywhere")
    assert not is_test(own, "test_that_was_renamed")
    assert not is_test("docs/test_gone.py", "test_links_lead_somewhere")


def numbers_named_by_tests() -> set[str]:
    """Return the numbers of failures that a test names in its docstring."""
    docstrings = (
        ast.get_docstring(node) or ""
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    )
    return {number for docstring in docstrings for number in _NUMBER.findall(docstring)}


def test_a_failure_that_a_test_names_is_not_called_a_gap() -> None:
    rows = [line.split("|") for line in GUARANTEES.splitlines() if line.startswith("| FM-")]
    states = {number: row[3].strip() for row in rows for number in _NUMBER.findall(row[1])}
    gaps = ("not yet", "does not apply", "by construction")
    stale = [number for number in sorted(numbers_named_by_tests()) if states.get(number, gaps[0]).startswith(gaps)]
    assert stale == [], "name the test in docs/guarantees.md"


def test_every_command_that_a_page_names_exists() -> None:
    named = {
        (found["name"], found["next"] if found["name"] == "bench" else None)
        for page in PAGES
        for found in _COMMAND.finditer(page.read_text("utf-8"))
    }
    assert named
    assert {name for name, _ in named} - COMMANDS.keys() == set()
    assert {bench for _, bench in named if bench} - BENCHES.keys() == set()
