"""One lane of a crash test: a store, and a series of processes on it, each killed at a random instant.

The lane is the oracle: it outlives every process, knows what was acknowledged, and has the store checked between two
processes. After a number of kills one process runs until every message has its outcome; then the store is checked for
the last time. The next store keeps the check of all records from the first on cheap.
"""

import asyncio
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from holdfast.lab.crashlab.children import Child, decode_messages, freeze_heap, run_here, run_in_child, start_child
from holdfast.lab.crashlab.store_check import Checkpoint, Expected, Verdict, check_store
from holdfast.lab.crashlab.workload import (
    PREFILL_STEPS,
    SESSIONS,
    Accepted,
    ChildMessage,
    Completed,
    Recovered,
    Script,
    Task,
)

# Kills per store: a few thousand records, which are checked in about 0.1 s.
KILLS_PER_STORE = 100
# Average number of kills between two checks. A check takes 0.1 s; at ten kills, checks took an eighth of the time.
_KILLS_PER_CHECK = 16
# Share of processes that are killed while they open the store and recover; the others are killed during their work.
_SHARE_OF_STARTS = 0.6
# Most steps of both sessions before such a process is killed. A step costs as much as two starts: with 6 a kill took
# 0.22 s of a core, with 2 half of that.
_STEPS_MAX = 2.0
# First estimates for this machine, and the number of processes over which they are averaged.
_START_SECONDS_FIRST, _STEP_SECONDS_FIRST = 0.1, 0.05
_LIVES_AVERAGED = 8
_STEPS_MIN = 0.25
# A process that is not killed answers everything within two seconds. Longer than this, it hangs.
HANGS_SECONDS = 60.0
# Interval of progress reports.
_REPORT_SECONDS = 0.5


# --- Figures ---


# Records that show what the kills could hit, with their printed names: work that survived, and work that was
# interrupted and then closed or started again.
_SURVIVED = {
    "TurnEnded": "turns",
    "ToolStarted": "tools",
    "CompactionApplied": "compactions",
    "PartReplaced": "scrubs",
    "SegmentSealed": "seals",
    "GenerationStarted": "roll-overs",
}
_CUT_OFF = {"AttemptAbandoned": "attempts", "tool cut off": "tools", "rung cut off": "rungs"}
# Broken promises in a report.
_SENTENCES_MAX = 20


class Figures(msgspec.Struct):
    """Figures of a run or of one lane."""

    kills: int = 0
    stores: int = 0
    judged: int = 0
    acknowledged: int = 0
    seconds: float = 0.0
    lost: list[str] = []
    duplicated: list[str] = []
    third_states: list[str] = []
    # Milliseconds from the start of a process until every earlier message had its outcome.
    recoveries_ms: list[float] = []
    kinds: dict[str, int] = {}

    def add(self, other: "Figures") -> None:
        """Add the figures of another lane."""
        self.kills += other.kills
        self.stores += other.stores
        self.judged += other.judged
        self.acknowledged += other.acknowledged
        self.lost += other.lost
        self.duplicated += other.duplicated
        self.third_states += other.third_states
        self.recoveries_ms += other.recoveries_ms
        self.kinds = dict(Counter(self.kinds) + Counter(other.kinds))

    def broken(self) -> list[str]:
        """Return the broken promises as sentences."""
        return [
            *(f"lost: {one}" for one in self.lost),
            *(f"duplicated: {one}" for one in self.duplicated),
            *(f"invalid state: {one}" for one in self.third_states),
        ][:_SENTENCES_MAX]


class Report(msgspec.Struct, frozen=True):
    """JSON output of a run."""

    kills: int
    acknowledged: int
    lost: int
    duplicated: int
    third_states: int
    recoveries: int
    recovery_p50_ms: float
    recovery_p99_ms: float
    recovery_max_ms: float
    stores: int
    judged: int
    seconds: float
    seed: int
    survived: dict[str, int]
    cut_off: dict[str, int]
    broken: list[str]

    def rows(self) -> list[tuple[str, str]]:
        """Return the rows of the printed table."""
        recovery = (
            f"p50 {self.recovery_p50_ms:.0f} ms, p99 {self.recovery_p99_ms:.0f} ms, max {self.recovery_max_ms:.0f} ms"
        )
        return [
            ("kills", f"{self.kills:,} in {self.seconds:.0f} s ({self.kills / max(self.seconds, 1e-9):.1f}/s)"),
            ("acknowledged", f"{self.acknowledged:,} messages"),
            ("lost", f"{self.lost:,}"),
            ("duplicated", f"{self.duplicated:,}"),
            ("invalid states", f"{self.third_states:,}"),
            ("recovery", f"{recovery} ({self.recoveries:,} completed)"),
            ("survived", ", ".join(f"{count:,} {word}" for word, count in self.survived.items())),
            ("interrupted", ", ".join(f"{count:,} {word}" for word, count in self.cut_off.items())),
            ("checks", f"{self.judged:,}, {self.stores:,} stores completed"),
            ("seed", str(self.seed)),
        ]


def report(figures: Figures, seed: int) -> Report:
    """Build the report of a run."""
    times = sorted(figures.recoveries_ms)
    return Report(
        kills=figures.kills,
        acknowledged=figures.acknowledged,
        lost=len(figures.lost),
        duplicated=len(figures.duplicated),
        third_states=len(figures.third_states),
        recoveries=len(times),
        recovery_p50_ms=percentile(times, 0.5),
        recovery_p99_ms=percentile(times, 0.99),
        recovery_max_ms=percentile(times, 1.0),
        stores=figures.stores,
        judged=figures.judged,
        seconds=figures.seconds,
        seed=seed,
        survived={word: figures.kinds.get(kind, 0) for kind, word in _SURVIVED.items()},
        cut_off={word: figures.kinds.get(kind, 0) for kind, word in _CUT_OFF.items()},
        broken=figures.broken(),
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return a percentile of sorted values; 0 if there are none."""
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0


class LaneConfig(msgspec.Struct, frozen=True):
    """Settings of a lane: its seed, and its end."""

    seed: int
    kills_max: int | None
    # By `time.monotonic()`.
    deadline: float | None


class Lane:
    """Kills processes and checks stores until it is done."""

    def __init__(self, prefilled: "Oracle", config: LaneConfig, report_figures: Callable[[Figures], None]) -> None:
        self._prefilled, self._config, self._report = prefilled, config, report_figures
        self._chance = random.Random(config.seed)  # noqa: S311 - repeatable by its seed
        # Figures since the last report, and the kills in earlier reports.
        self.figures = Figures()
        self._kills_reported = 0
        self._is_broken = False
        self._reported_at = time.monotonic()
        self._timing = Timing()

    def run(self) -> None:
        """Run one store after the other to its end."""
        number = 0
        while not self._is_done:
            number += 1
            self._run_store(number)
            self._report_figures()

    @property
    def _is_done(self) -> bool:
        """Whether the limits are reached, or a promise was broken: the store is then left for inspection."""
        kills = self._kills_reported + self.figures.kills
        enough = self._config.kills_max is not None and kills >= self._config.kills_max
        late = self._config.deadline is not None and time.monotonic() >= self._config.deadline
        return enough or late or self._is_broken

    def _report_figures(self) -> None:
        self._is_broken = self._is_broken or bool(self.figures.broken())
        self._kills_reported += self.figures.kills
        self._report(self.figures)
        self.figures, self._reported_at = Figures(), time.monotonic()

    def _run_store(self, number: int) -> None:
        folder = self._prefilled.folder.with_name(f"{self._config.seed}-{number}")
        oracle = self._prefilled.copy_to(folder, seed=self._chance.getrandbits(32))
        for _ in range(KILLS_PER_STORE):
            if self._is_done:
                break
            self._run_and_kill(oracle)
            if time.monotonic() - self._reported_at > _REPORT_SECONDS:
                self._report_figures()
            if self._chance.random() * _KILLS_PER_CHECK < 1:
                self._check(oracle, is_idle=False)
        self._finish_store(oracle)
        # Messages of the prefilled store are counted once, in the total.
        self.figures.acknowledged += oracle.acknowledged - self._prefilled.acknowledged
        self.figures.stores += 1
        self._is_broken = self._is_broken or bool(self.figures.broken())
        if not self._is_broken:
            shutil.rmtree(oracle.folder)

    def _run_and_kill(self, oracle: "Oracle") -> None:
        child = start_child(oracle.task())
        if self._chance.random() < _SHARE_OF_STARTS:
            has_ended = child.read_for(self._chance.uniform(0.0, self._timing.start_seconds))
        else:
            child.wait_for(Recovered.__name__.encode(), HANGS_SECONDS)
            has_ended = child.read_for(self._chance.uniform(0.0, _STEPS_MAX * self._timing.step_seconds))
        killed_at = time.monotonic()
        if has_ended:
            code, lines = child.reap()
            self.figures.third_states.append(f"{oracle.folder}: a process exited by itself with {code}")
        else:
            lines = child.kill()
            self.figures.kills += 1
        steps = oracle.steps_taken
        recovered_at = self._record(oracle, child, lines)
        if recovered_at is not None:
            self._timing.learn(recovered_at - child.began, killed_at - recovered_at, oracle.steps_taken - steps)

    def _finish_store(self, oracle: "Oracle") -> None:
        """Run one process until every message has its outcome, then check for the last time."""
        child = start_child(oracle.task(steps=0))
        if not child.read_for(HANGS_SECONDS):
            child.kill()
            self.figures.lost.append(f"{oracle.folder}: some messages had no outcome after {HANGS_SECONDS:g} s")
            return
        code, lines = child.reap()
        self._record(oracle, child, lines)
        if code:
            self.figures.third_states.append(f"{oracle.folder}: recovery exited with {code}")
        self._check(oracle, is_idle=True)

    def _record(self, oracle: "Oracle", child: Child, lines: list[bytes]) -> float | None:
        recovered_at = oracle.record_lines(lines)
        if recovered_at is not None:
            self.figures.recoveries_ms.append(round((recovered_at - child.began) * 1_000, 1))
        return recovered_at

    def _check(self, oracle: "Oracle", *, is_idle: bool) -> None:
        expected = oracle.expected(is_idle=is_idle)
        try:
            verdict = run_in_child(lambda: check_store(oracle.folder, expected), Verdict, HANGS_SECONDS)
        except OSError as error:
            self.figures.third_states.append(f"{oracle.folder}: the store cannot be checked: {error}")
            return
        oracle.checkpoints = verdict.checkpoints
        self.figures.judged += 1
        for found, kept in (
            (verdict.lost, self.figures.lost),
            (verdict.duplicated, self.figures.duplicated),
            (verdict.third_states, self.figures.third_states),
        ):
            kept += [f"{oracle.folder}: {sentence}" for sentence in found]
        if is_idle:
            self.figures.add(Figures(kinds=dict(Counter(verdict.kinds) - Counter(self._prefilled.kinds))))


class Timing:
    """Moving averages of start and step times, so that kills hit work however busy the machine is."""

    def __init__(self) -> None:
        self.start_seconds = _START_SECONDS_FIRST
        self._seconds, self._steps = _STEP_SECONDS_FIRST, 1.0

    @property
    def step_seconds(self) -> float:
        """Average time of a step."""
        return self._seconds / self._steps

    def learn(self, start_seconds: float, work_seconds: float, steps: int) -> None:
        """Add one process: its recovery time, its work time, and its steps."""
        self.start_seconds += (start_seconds - self.start_seconds) / _LIVES_AVERAGED
        # Decaying sums instead of a mean of ratios: a process killed within a step counts correctly.
        fading = 1 - 1 / _LIVES_AVERAGED
        self._seconds = self._seconds * fading + work_seconds
        # Never zero: on a stalled machine the time per step would grow without bound.
        self._steps = max(self._steps * fading + steps, _STEPS_MIN)


class Oracle:
    """Outside knowledge about one store."""

    def __init__(self, folder: Path, script: Script) -> None:
        self.folder, self._script = folder, script
        # By session: the turn of each acknowledged message, and the next step without a message.
        self.accepted: dict[str, dict[int, int]] = {session: {} for session in SESSIONS}
        self._next_steps = dict.fromkeys(SESSIONS, 1)
        self.checkpoints: dict[str, Checkpoint] = {}
        # Records of each kind in the prefilled store.
        self.kinds: dict[str, int] = {}

    @classmethod
    def prefilled(cls, folder: Path, seed: int) -> "Oracle":
        """Fill a store in this process, without kills. It also warms up the process that children are forked from.

        Copies of this store have compactions and seals to interrupt from the first kill on.
        """
        oracle = cls(folder, Script(seed, seed))
        folder.mkdir()
        oracle.record_messages(run_here(oracle.task(steps=PREFILL_STEPS), seconds=HANGS_SECONDS))
        oracle.kinds = asyncio.run(check_store(folder, oracle.expected(is_idle=True))).kinds
        freeze_heap()
        return oracle

    def copy_to(self, folder: Path, *, seed: int) -> "Oracle":
        """Copy the closed store and the knowledge about it. The copy continues with steps of its own seed."""
        shutil.copytree(self.folder, folder)
        copy = Oracle(folder, Script(self._script.prefill, seed))
        copy.accepted = {session: dict(turns) for session, turns in self.accepted.items()}
        copy._next_steps = dict(self._next_steps)
        return copy

    @property
    def acknowledged(self) -> int:
        """Number of messages known to be accepted."""
        return sum(map(len, self.accepted.values()))

    @property
    def steps_taken(self) -> int:
        """Number of steps reported."""
        return sum(self._next_steps.values())

    def record_lines(self, lines: list[bytes]) -> float | None:
        """Record the lines of a process, and return its recovery time, if it recovered."""
        return self.record_messages(decode_messages(lines))

    def record_messages(self, messages: Sequence[ChildMessage]) -> float | None:
        """Record messages, and return the recovery time."""
        recovered_at = None
        for message in messages:
            match message:
                case Accepted(session=session, number=number, turn=turn):
                    self.accepted[session][number] = turn
                    self._next_steps[session] = number + 1
                case Completed(session=session, number=number):
                    self._next_steps[session] = number + 1
                case Recovered(at=at):
                    recovered_at = at
        return recovered_at

    def task(self, *, steps: int | None = None) -> Task:
        """Return the task of the next process; with `steps`, it ends when all of them have their outcome."""
        last = {session: max(turns.values(), default=0) for session, turns in self.accepted.items()}
        return Task(str(self.folder), self._script, dict(self._next_steps), last, steps)

    def expected(self, *, is_idle: bool) -> Expected:
        """Return the expectations for a check."""
        return Expected(self._script, self.accepted, self.checkpoints, is_idle)
