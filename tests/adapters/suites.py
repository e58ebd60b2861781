"""Fetch the suites of agent frameworks and run them in a process of their own. Nothing of them is copied."""

import os
import re
import signal
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import holdfast.blocking

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
# Beside the environment of the lane, so that a second run does not fetch again.
FETCHED = Path(sys.prefix) / "fetched"


def fetched_sdist(name: str, version: str) -> Path:
    """Return the folder of a source distribution, fetched from the package index by its pinned version."""
    folder = FETCHED / f"{name.replace('-', '_')}-{version}"
    if not folder.exists():
        FETCHED.mkdir(exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*pip, "--dest", str(FETCHED), f"{name}=={version}"], check=True)
        with tarfile.open(f"{folder}.tar.gz") as archive:
            archive.extractall(FETCHED, filter="data")
    return folder


def run_suite(folder: Path, plugin: str, files: Sequence[str], options: Sequence[str]) -> tuple[int, list[str]]:
    """Run tests of a folder with a plugin of ours. Return how many passed, and the names of those that failed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", plugin, "-p", "no:cacheprovider", "-o", "addopts="]
    command += ["--tb=line", *options, *files]
    # Only our plugins: the folder has tests of its own under the same name as ours.
    environment = os.environ | {"PYTHONPATH": str(HERE), "NO_DOCKER": "true"}
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", run.stdout, re.MULTILINE)
    passed = re.search(r"(\d+) passed", run.stdout)
    assert passed, run.stdout[-2_000:] + run.stderr[-2_000:]
    return int(passed[1]), failed


# Moments of a kill: after an acknowledged write, wherever the next one is; in a write, with its rows in an open
# transaction; and after a commit of which the caller does not know yet.
KILLS = ("between", "in a write", "committed")
# Writes before a kill at one of the last two moments.
_WRITES = 31
# Kills the program that follows it at such a moment.
_DYING = """
import os, signal
from holdfast.stores.sqlite import batch
class_, name = {moment}
original, left = getattr(class_, name), [{writes}]
def dying(self, *arguments):
    original(self, *arguments)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
setattr(class_, name, dying)
"""
_MOMENTS = {"in a write": '(batch.Batch, "flush")', "committed": '(batch.RowCache, "committed")'}


def killed_writer(program: str, *arguments: str, lines: int, kill: str = "between") -> list[str]:
    """Run a program that prints a line per acknowledged write, kill it with -9 at a moment, and return its lines."""
    if kill in _MOMENTS:
        program = _DYING.format(moment=_MOMENTS[kill], writes=_WRITES) + program
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as writer:
        assert writer.stdout is not None
        seen = [writer.stdout.readline().strip() for _ in range(lines if kill == "between" else 0)]
        if kill == "between":
            os.kill(writer.pid, signal.SIGKILL)
        rest = writer.stdout.read().split()
    assert (writer.returncode, bool(seen or rest)) == (-signal.SIGKILL, True)
    return [*seen, *rest]


def at_once(program: str, *arguments: str, processes: int = 2) -> None:
    """Run a program in several processes at once. The number of each is its last argument."""
    commands = [[sys.executable, "-c", program, *arguments, str(number)] for number in range(processes)]
    running = [subprocess.Popen(command, cwd=ROOT) for command in commands]
    assert [one.wait() for one in running] == [0] * processes


def run_page(page: str, folder: Path, **environment: str) -> tuple[str, str]:
    """Run the program of a page of docs/adapters, and return its output and the output that the page shows."""
    text = (ROOT / "docs" / "adapters" / page).read_text()
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    shown = "".join(re.findall(r"```text\n(.*?)```", text, re.DOTALL))
    given = os.environ | {"PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout, shown


def count_reads(client: holdfast.blocking.Client, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the records that the store reads, in the last number of the list that is returned."""
    store, counts = client.client.engine.store, [0]
    read = store.read

    async def counted(key: str, *, after: int = 0, limit: int | None = None) -> Any:
        found = await read(key, after=after, limit=limit)
        counts[-1] += len(found)
        return found

    monkeypatch.setattr(store, "read", counted)
    return counts
