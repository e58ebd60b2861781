"""What a run came to: figures that add up over lanes, as a table for people and as a file for programs."""

import shutil
import tempfile
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

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


# --- Where files live in memory: opening thousands of stores need not wear out a real disk.


_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of random name is made in it


@contextmanager
def scratch(purpose: str) -> Generator[Path, None, None]:
    """Make a folder, in memory where that is possible, and remove it in the end."""
    folder = Path(tempfile.mkdtemp(prefix=f"holdfast-{purpose}-", dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
