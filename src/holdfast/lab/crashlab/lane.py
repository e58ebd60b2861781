"""One lane of the laboratory: a store, one life after the other on it, each killed at a random instant.

The lane is the oracle. It outlives every life, hears what was acknowledged, and has the store judged between two lives.
After a number of kills a life is left alone until everything has its outcome; then the store is judged for the last
time and the next one begins, so that judging everything from the first record on stays cheap.
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

# Kills before a store is brought to rest: some thousand records, which are judged in about a tenth of a second.
KILLS_PER_STORE = 100
# A store is judged after so many kills on average, and once more at its end. Every judgement is of everything from the
# first record on, a tenth of a second each; at ten kills they took an eighth of all the time there is.
_KILLS_PER_JUDGEMENT = 16
# This share of lives is killed while it opens the store and recovers, the others in the middle of their work.
_SHARE_OF_STARTS = 0.6
# How many steps such a life takes at most before it is killed, both sessions together; half of that on average. A step
# costs as much as two starts, so more of them mean fewer kills: with 6 a kill took 0.22 s of a core, with 2 half of it.
_STEPS_MAX = 2.0
# What is believed of a machine at first, and how many lives it takes to think otherwise.
_START_SECONDS_FIRST, _STEP_SECONDS_FIRST = 0.1, 0.05
_LIVES_REMEMBERED = 8
_STEPS_MIN = 0.25
# Left alone, a life has everything answered within a second or two. Whatever takes longer than this hangs.
HANGS_SECONDS = 60.0
# How often whoever waits for a lane hears of it.
_TELL_SECONDS = 0.5


# --- What a run came to: figures that add up over lanes, as a table for people and as a file for programs. ---


# Records that show what the kills had a chance to hit, with the word for them: work that outlived them, in logs that
# were judged at their end, and work that they cut off and that was closed or begun again.
_SURVIVED = {
    "TurnEnded": "turns",
    "ToolStarted": "tools",
    "CompactionApplied": "compactions",
    "PartReplaced": "scrubs",
    "SegmentSealed": "seals",
    "GenerationStarted": "roll-overs",
}
_CUT_OFF = {"AttemptAbandoned": "attempts", "tool cut off": "tools", "rung cut off": "rungs"}
# A list of broken promises is for reading; whoever has more of them than this reads the first.
_SENTENCES_MAX = 20


class Figures(msgspec.Struct):
    """What one run, or one lane of it, came to so far."""

    kills: int = 0
    stores: int = 0
    judged: int = 0
    acknowledged: int = 0
    seconds: float = 0.0
    lost: list[str] = []
    duplicated: list[str] = []
    third_states: list[str] = []
    # From the start of a process until everything acknowledged before had its outcome, in milliseconds.
    recoveries_ms: list[float] = []
    kinds: dict[str, int] = {}

    def add(self, other: "Figures") -> None:
        """Take in those of another lane."""
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
        """Return what was found against the promises, in words."""
        return [
            *(f"lost: {one}" for one in self.lost),
            *(f"duplicated: {one}" for one in self.duplicated),
            *(f"third state: {one}" for one in self.third_states),
        ][:_SENTENCES_MAX]


class Report(msgspec.Struct, frozen=True):
    """The figures as they are told."""

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
        """Return the lines of the table."""
        recovery = (
            f"p50 {self.recovery_p50_ms:.0f} ms, p99 {self.recovery_p99_ms:.0f} ms, max {self.recovery_max_ms:.0f} ms"
        )
        return [
            ("kills", f"{self.kills:,} in {self.seconds:.0f} s ({self.kills / max(self.seconds, 1e-9):.1f}/s)"),
            ("acknowledged", f"{self.acknowledged:,} messages"),
            ("lost", f"{self.lost:,}"),
            ("duplicated", f"{self.duplicated:,}"),
            ("third states", f"{self.third_states:,}"),
            ("recovery", f"{recovery} ({self.recoveries:,} seen to their end)"),
            ("survived", ", ".join(f"{count:,} {word}" for word, count in self.survived.items())),
            ("cut off", ", ".join(f"{count:,} {word}" for word, count in self.cut_off.items())),
            ("judged", f"{self.judged:,} times, {self.stores:,} stores to their end"),
            ("seed", str(self.seed)),
        ]


def report(figures: Figures, seed: int) -> Report:
    """Return what is told of a run."""
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
    """Return the value below which this share of the values lies; 0 where there are none."""
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0


class LaneConfig(msgspec.Struct, frozen=True):
    """What a lane is told: its seed, and when it has done enough."""

    seed: int
    kills_max: int | None
    # By the machine's own clock.
    deadline: float | None


class Lane:
    """Kills and judges until it has done enough."""

    def __init__(self, prefilled: "Oracle", config: LaneConfig, tell: Callable[[Figures], None]) -> None:
        self._prefilled, self._config, self._tell = prefilled, config, tell
        self._chance = random.Random(config.seed)  # noqa: S311 - what it does can be repeated by its seed
        # What was not told yet; and of what was told, what decides when it is enough.
        self.figures = Figures()
        self._kills_told = 0
        self._is_broken = False
        self._told_at = time.monotonic()
        self._timing = Timing()

    def run(self) -> None:
        """Take one store after the other from its first life to rest."""
        number = 0
        while not self._is_done:
            number += 1
            self._run_store(number)
            self._tell_figures()

    @property
    def _is_done(self) -> bool:
        """Whether enough was killed, or something is broken: then the store is left as it is, to be looked at."""
        kills = self._kills_told + self.figures.kills
        enough = self._config.kills_max is not None and kills >= self._config.kills_max
        late = self._config.deadline is not None and time.monotonic() >= self._config.deadline
        return enough or late or self._is_broken

    def _tell_figures(self) -> None:
        self._is_broken = self._is_broken or bool(self.figures.broken())
        self._kills_told += self.figures.kills
        self._tell(self.figures)
        self.figures, self._told_at = Figures(), time.monotonic()

    def _run_store(self, number: int) -> None:
        folder = self._prefilled.folder.with_name(f"{self._config.seed}-{number}")
        oracle = self._prefilled.copy_to(folder, seed=self._chance.getrandbits(32))
        for _ in range(KILLS_PER_STORE):
            if self._is_done:
                break
            self._run_and_kill(oracle)
            if time.monotonic() - self._told_at > _TELL_SECONDS:
                self._tell_figures()
            if self._chance.random() * _KILLS_PER_JUDGEMENT < 1:
                self._check(oracle, is_idle=False)
        self._finish_store(oracle)
        # What every store begins with was acknowledged once.
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
            self.figures.third_states.append(f"{oracle.folder}: a life ended by itself with {code}")
        else:
            lines = child.kill()
            self.figures.kills += 1
        steps = oracle.steps_taken
        recovered_at = self._record(oracle, child, lines)
        if recovered_at is not None:
            self._timing.learn(recovered_at - child.began, killed_at - recovered_at, oracle.steps_taken - steps)

    def _finish_store(self, oracle: "Oracle") -> None:
        """Leave one life alone until everything has its outcome, then judge for the last time."""
        child = start_child(oracle.task(steps=0))
        if not child.read_for(HANGS_SECONDS):
            child.kill()
            self.figures.lost.append(f"{oracle.folder}: not everything had an outcome after {HANGS_SECONDS:g} s")
            return
        code, lines = child.reap()
        self._record(oracle, child, lines)
        if code:
            self.figures.third_states.append(f"{oracle.folder}: recovering ended with {code}")
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
            self.figures.third_states.append(f"{oracle.folder}: the store cannot be judged: {error}")
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
    """How long lives take here and now, learned from those before: kills should hit work, however busy a machine is."""

    def __init__(self) -> None:
        self.start_seconds = _START_SECONDS_FIRST
        self._seconds, self._steps = _STEP_SECONDS_FIRST, 1.0

    @property
    def step_seconds(self) -> float:
        """How long a step of the workload takes."""
        return self._seconds / self._steps

    def learn(self, start_seconds: float, work_seconds: float, steps: int) -> None:
        """Take in one life: how long it took to recover, how long it worked then, and how many steps that came to."""
        self.start_seconds += (start_seconds - self.start_seconds) / _LIVES_REMEMBERED
        # Sums that fade, not a mean of quotients: a life that is killed in the middle of a step counts for what it is.
        fading = 1 - 1 / _LIVES_REMEMBERED
        self._seconds = self._seconds * fading + work_seconds
        # Never none: a machine that stands still must not make lives last for ever.
        self._steps = max(self._steps * fading + steps, _STEPS_MIN)


class Oracle:
    """What is known of one store, from outside."""

    def __init__(self, folder: Path, script: Script) -> None:
        self.folder, self._script = folder, script
        # By session: the turn of every acknowledged message by its number, and the next step that was not heard of.
        self.accepted: dict[str, dict[int, int]] = {session: {} for session in SESSIONS}
        self._next_steps = dict.fromkeys(SESSIONS, 1)
        self.checkpoints: dict[str, Checkpoint] = {}
        # How many records of each kind there are in one that was seasoned.
        self.kinds: dict[str, int] = {}

    @classmethod
    def prefilled(cls, folder: Path, seed: int) -> "Oracle":
        """Fill a store without killing anybody, here, so that all lives and judges are forked from a warm process.

        Stores that begin as copies of it have work worth killing at once.
        """
        oracle = cls(folder, Script(seed, seed))
        folder.mkdir()
        oracle.record_messages(run_here(oracle.task(steps=PREFILL_STEPS), seconds=HANGS_SECONDS))
        oracle.kinds = asyncio.run(check_store(folder, oracle.expected(is_idle=True))).kinds
        freeze_heap()
        return oracle

    def copy_to(self, folder: Path, *, seed: int) -> "Oracle":
        """Copy the store, which nobody has open, and what is known of it. Other steps follow."""
        shutil.copytree(self.folder, folder)
        copy = Oracle(folder, Script(self._script.prefill, seed))
        copy.accepted = {session: dict(turns) for session, turns in self.accepted.items()}
        copy._next_steps = dict(self._next_steps)
        return copy

    @property
    def acknowledged(self) -> int:
        """How many messages are known to have been accepted."""
        return sum(map(len, self.accepted.values()))

    @property
    def steps_taken(self) -> int:
        """How many steps were heard of."""
        return sum(self._next_steps.values())

    def record_lines(self, lines: list[bytes]) -> float | None:
        """Take in what a life said, and return when it had recovered, if it came to that."""
        return self.record_messages(decode_messages(lines))

    def record_messages(self, messages: Sequence[ChildMessage]) -> float | None:
        """Take in what was said."""
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
        """Return what the next life has to do; with a number of steps, it ends when all of them have their outcome."""
        last = {session: max(turns.values(), default=0) for session, turns in self.accepted.items()}
        return Task(str(self.folder), self._script, dict(self._next_steps), last, steps)

    def expected(self, *, is_idle: bool) -> Expected:
        """Return what a judge has to know."""
        return Expected(self._script, self.accepted, self.checkpoints, is_idle)
