"""The demo: its figures, and that it leaves nothing behind."""

import os
import signal
import subprocess
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.cli.demo.reckoning import Figures, table
from tests.cli.programs import DEADLINE_SECONDS, PROGRAM, bounded, environment, holdfast

KEPT = Figures(
    sent=30,
    answered=30,
    lost=0,
    doubled=0,
    tools_run=3,
    tools_run_twice=0,
    compactions=3,
    kills=("while a tool ran", "while a compaction was under way"),
    facts_planted=6,
    facts_recalled=6,
    seconds=9.5,
)


def test_the_demo_keeps_every_promise_and_leaves_nothing_behind(tmp_path: Path) -> None:
    ended = holdfast("demo", "--fast", "--json", settings={"TMPDIR": str(tmp_path)})

    assert (ended.returncode, ended.stderr) == (0, b"")
    figures = msgspec.json.decode(ended.stdout, type=Figures)
    assert figures.broken() == []
    assert figures.sent == figures.answered
    assert (figures.lost, figures.doubled, figures.tools_run, figures.tools_run_twice) == (0, 0, 3, 0)
    assert figures.compactions >= 3
    assert figures.kills[0] == "while a tool ran"
    assert all("compaction" in kill for kill in figures.kills[1:])
    assert figures.facts_recalled == figures.facts_planted >= 6
    assert list(tmp_path.iterdir()) == []


def test_a_demo_that_is_ended_takes_its_processes_with_it(tmp_path: Path) -> None:
    started = subprocess.Popen(
        [*PROGRAM, "demo", "--fast"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(TMPDIR=str(tmp_path)),
        start_new_session=True,
    )
    with bounded(started) as program:
        assert program.stdout is not None
        assert any(line.startswith(b"  Another process") for line in program.stdout)
        program.send_signal(signal.SIGTERM)
        _, told = program.communicate(timeout=DEADLINE_SECONDS)
        assert (program.returncode, told) == (128 + signal.SIGTERM, b"")
    with pytest.raises(ProcessLookupError):
        os.killpg(program.pid, 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("figures", "broken"),
    [
        (KEPT, []),
        (replace(KEPT, lost=1), ["1 accepted messages have no outcome, or more than one"]),
        (replace(KEPT, answered=29), ["1 messages were not answered"]),
        (replace(KEPT, doubled=2), ["2 messages stand in the log twice"]),
        (replace(KEPT, tools_run_twice=1), ["1 tool calls ran twice"]),
        (replace(KEPT, compactions=0), ["nothing was compacted"]),
        (replace(KEPT, kills=("while a tool ran",)), ["1 processes were killed instead of two"]),
        (replace(KEPT, facts_recalled=4), ["2 of 6 facts were forgotten"]),
    ],
)
def test_a_broken_promise_is_told(figures: Figures, broken: list[str]) -> None:
    assert figures.broken() == broken


def test_the_table_names_what_was_killed() -> None:
    assert ("processes killed", "2 (while a tool ran, while a compaction was under way)") in table(KEPT)
