"""Crash tests: a short run with real processes, and a store check that finds lost, duplicated and invalid state."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import msgspec
import pytest
from click.testing import CliRunner

from holdfast.cli.commands.lab import crashlab
from holdfast.lab.crashlab.lane import Figures, Report, Timing, percentile, report
from holdfast.lab.crashlab.store_check import Checkpoint, Expected, Verdict, check_store
from holdfast.lab.crashlab.workload import (
    EFFECTS,
    SESSIONS,
    STORE,
    Accepted,
    ChildMessage,
    Completed,
    Kind,
    Recovered,
    Script,
    Task,
    append_line,
    run_workload,
    step_of,
)

SCRIPT = Script(prefill=3, own=3)
STEPS = 8


async def a_life(folder: Path, *, steps: int = STEPS) -> list[ChildMessage]:
    messages: list[ChildMessage] = []
    await run_workload(Task(str(folder), SCRIPT, {}, {}, steps), messages.append, time.monotonic)
    return messages


def expected_from(
    messages: list[ChildMessage], *, is_idle: bool = True, checkpoints: dict[str, Checkpoint] | None = None
) -> Expected:
    accepted: dict[str, dict[int, int]] = {session: {} for session in SESSIONS}
    for message in messages:
        if isinstance(message, Accepted):
            accepted[message.session][message.number] = message.turn
    return Expected(SCRIPT, accepted, checkpoints or {}, is_idle)


async def test_a_life_that_nobody_kills_is_judged_clean_and_its_past_does_not_change(tmp_path: Path) -> None:
    messages = await a_life(tmp_path)

    verdict = await check_store(tmp_path, expected_from(messages))

    assert isinstance(messages[0], Recovered)
    assert sum(isinstance(message, Accepted | Completed) for message in messages) == STEPS * len(SESSIONS)
    assert verdict.is_clean, verdict
    again = await check_store(tmp_path, expected_from(messages, checkpoints=verdict.checkpoints))
    assert again.is_clean
    assert again.checkpoints == verdict.checkpoints


async def test_a_life_begun_again_accepts_nothing_twice(tmp_path: Path) -> None:
    first = await a_life(tmp_path)
    second = await a_life(tmp_path)

    assert [one for one in second if isinstance(one, Accepted)] != []
    assert expected_from(second).accepted == expected_from(first).accepted
    assert (await check_store(tmp_path, expected_from(second))).is_clean


def on(folder: Path, *statements: str) -> None:
    db = apsw.Connection(str(folder / STORE))
    for statement in statements:
        db.execute(statement)
    db.close()


OF_A = f"session = (SELECT number FROM sessions WHERE key = '{SESSIONS[0]}')"


def take_the_last_record(folder: Path, _said: list[ChildMessage]) -> None:
    on(folder, f"DELETE FROM recent WHERE {OF_A} AND seq = (SELECT max(seq) FROM recent WHERE {OF_A})")


def take_a_record_from_the_middle(folder: Path, _said: list[ChildMessage]) -> None:
    on(folder, f"DELETE FROM recent WHERE {OF_A} AND seq = (SELECT max(seq) - 2 FROM recent WHERE {OF_A})")


def pay_once_more(folder: Path, messages: list[ChildMessage]) -> None:
    paid = (folder / EFFECTS).read_text().splitlines()
    assert paid, messages
    append_line(folder / EFFECTS, paid[0])


def forget_a_payment(folder: Path, _said: list[ChildMessage]) -> None:
    paid = (folder / EFFECTS).read_text().splitlines()
    (folder / EFFECTS).write_text("".join(f"{line}\n" for line in paid[1:]))


def acknowledge_what_never_was(_folder: Path, messages: list[ChildMessage]) -> None:
    number = next(n for n in range(1, 99) if step_of(SCRIPT.own, SESSIONS[0], n).text)
    messages.append(Accepted(SESSIONS[0], number, 10_000))


def count_another_outcome_owed(folder: Path, _said: list[ChildMessage]) -> None:
    on(folder, f"UPDATE sessions SET owed = owed + 1 WHERE key = '{SESSIONS[0]}'")


@pytest.mark.parametrize(
    ("harm", "found"),
    [
        (take_the_last_record, lambda verdict: verdict.lost),
        (take_a_record_from_the_middle, lambda verdict: verdict.third_states),
        (pay_once_more, lambda verdict: verdict.duplicated),
        (forget_a_payment, lambda verdict: verdict.lost),
        (acknowledge_what_never_was, lambda verdict: verdict.lost),
        (count_another_outcome_owed, lambda verdict: verdict.third_states),
    ],
)
async def test_the_oracle_notices(
    tmp_path: Path, harm: Callable[[Path, list[ChildMessage]], None], found: Callable[[Verdict], list[str]]
) -> None:
    messages = await a_life(tmp_path)
    before = await check_store(tmp_path, expected_from(messages))
    assert before.is_clean

    harm(tmp_path, messages)

    after = await check_store(tmp_path, expected_from(messages, checkpoints=before.checkpoints))
    assert found(after), after


def test_the_workload_is_the_same_for_the_same_seed_and_has_every_kind_of_step() -> None:
    steps = [step_of(1, SESSIONS[0], number) for number in range(1, 200)]

    assert steps == [step_of(1, SESSIONS[0], number) for number in range(1, 200)]
    assert {step.kind for step in steps} == set(Kind)
    assert steps != [step_of(2, SESSIONS[0], number) for number in range(1, 200)]


def crashlab_says(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "holdfast", "crashlab", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


# The long form of this is the command itself; here it is enough to see that it kills, recovers and counts.
KILLS = 60


async def test_a_store_whose_processes_are_killed_at_random_loses_nothing(tmp_path: Path) -> None:
    """FM-101, FM-102, FM-103."""
    told = tmp_path / "report.json"

    ended = await asyncio.to_thread(
        crashlab_says, "--kills", str(KILLS), "--seed", "7", "--folder", str(tmp_path), "--report", str(told), "--json"
    )

    assert ended.returncode == 0, ended
    figures = msgspec.json.decode(told.read_bytes(), type=Report)
    assert msgspec.json.decode(ended.stdout, type=Report) == figures
    assert figures.kills == KILLS
    assert figures.acknowledged > 0
    assert figures.judged > 0
    assert (figures.lost, figures.duplicated, figures.third_states, figures.broken) == (0, 0, 0, [])
    assert list(tmp_path.iterdir()) == [told], "nothing is left behind"


def test_figures_of_lanes_add_up() -> None:
    total = Figures(seconds=2.0)
    total.add(
        Figures(kills=3, stores=1, judged=2, acknowledged=5, recoveries_ms=[10.0, 30.0], kinds={"ToolStarted": 2})
    )
    total.add(Figures(kills=1, lost=["a message"], recoveries_ms=[20.0], kinds={"ToolStarted": 1}))

    told = report(total, seed=9)

    assert (told.kills, told.stores, told.judged, told.acknowledged, told.lost) == (4, 1, 2, 5, 1)
    assert (told.recovery_p50_ms, told.recovery_max_ms, told.survived["tools"]) == (20.0, 30.0, 3)
    assert told.broken == ["lost: a message"]
    assert ("lost", "1") in told.rows()


def test_a_percentile_of_nothing_is_nothing() -> None:
    assert percentile([], 0.5) == 0.0
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.99) == 4.0


def test_a_broken_promise_is_told_and_exits_with_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(folder: Path, *_: object) -> Figures:
        (folder / "kept").mkdir()
        return Figures(kills=1, seconds=1.0, duplicated=["a payment"])

    monkeypatch.setattr("holdfast.cli.commands.lab.run", broken)

    ended = CliRunner().invoke(crashlab, ["--folder", str(tmp_path)])

    assert ended.exit_code == 1
    assert "BROKEN: duplicated: a payment" in ended.output
    assert len(list(tmp_path.glob("*/kept"))) == 1, "what is broken is kept"


def test_kills_follow_the_pace_of_the_machine() -> None:
    pace = Timing()
    for _ in range(100):
        pace.learn(start_seconds=2.0, work_seconds=3.0, steps=2)

    assert pace.start_seconds == pytest.approx(2.0, rel=0.01)
    assert pace.step_seconds == pytest.approx(1.5, rel=0.01)
    for _ in range(100):
        pace.learn(start_seconds=0.02, work_seconds=0.1, steps=4)
    assert pace.start_seconds == pytest.approx(0.02, rel=0.01)
    assert pace.step_seconds == pytest.approx(0.025, rel=0.01)


def test_lives_that_get_nowhere_do_not_make_the_next_ones_last_for_ever() -> None:
    pace = Timing()
    for _ in range(1_000):
        pace.learn(start_seconds=1.0, work_seconds=1.0, steps=0)

    assert pace.step_seconds < 60
