"""Compare Holdfast with the stores of agent frameworks in one run: `make compare`, or `python -m tests.compare`.

Each store is measured in the environment of its framework (`.venv-adapters`), in alternating rounds with the reference
and Holdfast. `--write` puts the tables into docs/comparison.md and the plots into docs/images.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from tests.adapters.provider import MESSAGES
from tests.compare.peers import PEERS
from tests.compare.report import Cell, Report, Row, Survived, markdown, plots
from tests.house.places import ROOT

_ENVIRONMENTS = ROOT / ".venv-adapters"
# Conversations are compared in the environments of these frameworks; each has one or more clients.
_TALKING = ("openai-agents", "pydantic-ai", "strands", "agent-framework", "llama-index", "clients", "crewai")
_OURS = ("plain", "holdfast")
_LENGTHS, _QUICK = (1_000, 10_000), (1_000,)
_LONG = (1_000, 10_000, 100_000)
# Filling 100,000 messages one file each, or rewriting them all with each append, takes hours: those stop here.
_FILLED_MAX = {"strands": 10_000, "pydantic-ai": 10_000, "langgraph": 10_000, "adk": 10_000}
_KILLS, _KILL_SECONDS = 5, (0.3, 1.2)
_HANGS_SECONDS = 1_800.0
BEGIN, END = "<!-- measured: written by `make compare` -->", "<!-- end of measured -->"


def python_of(peer: str) -> Path:
    """Return the interpreter that has a framework."""
    return Path(sys.executable) if peer in _OURS else _ENVIRONMENTS / peer / "bin" / "python"


def installed() -> list[str]:
    """Return the stores whose environment exists, reference and Holdfast first."""
    return [peer for peer in PEERS if python_of(peer).exists()]


def _child(step: str, peer: str, folder: Path, records: int) -> dict[str, Any]:
    command = [str(python_of(peer)), "-m", "tests.compare.child", step, peer, str(folder), str(records)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=_HANGS_SECONDS)
    if ran.returncode != 0:
        sys.exit(f"{peer}: {step} at {records:,} failed: {ran.stderr.strip()[-600:]}")
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def measure(peer: str, lengths: Sequence[int]) -> dict[str, float | str]:
    """Measure one store once at every length."""
    found: dict[str, float | str] = {}
    for length in lengths:
        if length > _FILLED_MAX.get(peer, length):
            continue
        with tempfile.TemporaryDirectory(prefix="holdfast-compare-") as folder:
            written = _child("write", peer, Path(folder), length)
            loaded = _child("load", peer, Path(folder), length)
        found |= {f"{name}@{length}": value for name, value in (written | loaded).items() if name != "version"}
        found["version"] = written.get("version", "")
    with tempfile.TemporaryDirectory(prefix="holdfast-compare-") as folder:
        found["import_ms"] = _child("import", peer, Path(folder), 0)["import_ms"]
    return found


def kill(peer: str, rounds: int, seed: int) -> int:
    """Kill a process that appends, again and again; return how many acknowledged messages are gone."""
    chance, lost = random.Random(seed), 0
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="holdfast-compare-") as folder:
            command = [str(python_of(peer)), "-m", "tests.compare.child", "live", peer, folder, "0"]
            with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                acknowledged = _acknowledged(process, chance.uniform(*_KILL_SECONDS))
            held = _held(peer, Path(folder))
            lost += max(acknowledged - held, 0)
    return lost


def _acknowledged(process: subprocess.Popen[str], seconds: float) -> int:
    """Read what a process acknowledges, and kill it some time after the first line; return the last number."""
    assert process.stdout is not None
    last = int(process.stdout.readline() or 0)
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    for line in process.stdout:
        last = int(line) if line.endswith("\n") else last
    timer.join()
    process.wait()
    return last


def _held(peer: str, folder: Path) -> int:
    command = [str(python_of(peer)), "-m", "tests.compare.child", "count", peer, str(folder), "0"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=_HANGS_SECONDS)
    # A store that cannot be opened any more holds nothing.
    return int(json.loads(ran.stdout.splitlines()[-1])["messages"]) if ran.returncode == 0 else 0


def survivals() -> Iterator[Survived]:
    """Run the conversations of every environment."""
    for name in _TALKING:
        python = _ENVIRONMENTS / name / "bin" / "python"
        if not python.exists():
            continue
        command = [str(python), "-m", "tests.compare.survival"]
        environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
        ran = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=_HANGS_SECONDS, env=environment
        )
        if ran.returncode != 0:
            sys.exit(f"{name}: conversations failed: {ran.stderr.strip()[-600:]}")
        for line in ran.stdout.splitlines():
            if line.startswith("{"):
                yield msgspec.json.decode(line, type=Survived)


def collected(peers: Sequence[str], rounds: Sequence[Mapping[str, Mapping[str, float | str]]]) -> tuple[Row, ...]:
    """Return one row per store with its figures over all rounds."""
    rows = []
    for peer in peers:
        found: dict[str, list[float]] = {}
        version = ""
        for one in rounds:
            for name, value in one[peer].items():
                if isinstance(value, str):
                    version = value
                else:
                    found.setdefault(name, []).append(value)
        cells = {name: Cell(tuple(values)) for name, values in found.items()}
        rows.append(Row(peer, PEERS[peer][1], version, cells))
    return tuple(rows)


def written(page: str, tables: str) -> str:
    """Return a page with the tables between the two marks."""
    before, _, rest = page.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        sys.exit(f"docs/comparison.md has no section between {BEGIN!r} and {END!r}; restore it from the repository")
    return f"{before}{BEGIN}\n\n{tables.strip()}\n\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.compare", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round at 1,000 messages")
    parser.add_argument("--long", action="store_true", help="also 100,000 messages, where a store can be filled")
    parser.add_argument("--no-conversations", action="store_true", help="only the stores")
    parser.add_argument("--only", action="append", choices=list(PEERS), help="only this store; repeatable")
    parser.add_argument("--write", action="store_true", help="write docs/comparison.md and the plots")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    chosen = parser.parse_args()
    lengths = _QUICK if chosen.quick else _LONG if chosen.long else _LENGTHS
    peers = [peer for peer in installed() if not chosen.only or peer in chosen.only]
    rounds = []
    for number in range(1 if chosen.quick else chosen.rounds):
        one = {}
        for peer in peers:
            sys.stderr.write(f"round {number + 1}: {peer}\n")
            one[peer] = measure(peer, lengths) | {"lost": kill(peer, _KILLS, number)}
        rounds.append(one)
    report = Report(
        date=datetime.now(UTC).date().isoformat(),
        system=platform.platform(),
        python=platform.python_version(),
        cores=os.cpu_count() or 0,
        rounds=len(rounds),
        lengths=lengths,
        rows=collected(peers, rounds),
        survival=() if chosen.no_conversations else tuple(survivals()),
        messages=MESSAGES,
    )
    tables = markdown(report)
    sys.stdout.write(tables + "\n")
    if chosen.json:
        chosen.json.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
    if chosen.write:
        page = ROOT / "docs/comparison.md"
        page.write_text(written(page.read_text(), tables))
        for name, text in plots(report).items():
            (ROOT / "docs/images" / name).write_text(text)


if __name__ == "__main__":
    main()
