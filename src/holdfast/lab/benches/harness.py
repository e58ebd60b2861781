"""Shared parts of the benchmarks: figures with references and floors, the corpus, and appending to stores."""

import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from statistics import median

import click
import msgspec

from holdfast.cli.exit_codes import BROKEN
from holdfast.errors import UsageError
from holdfast.ports import Lease, Store
from holdfast.rescue.neutral import NeutralMessage, read_neutral
from holdfast.types.messages import Reply, StopReason, Text
from holdfast.types.records import ReplyRecorded

folder_option = click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Measure in this folder instead of the one for temporary files.",
)


class Measured(msgspec.Struct, frozen=True):
    """One figure and its reference. The promise is a `ratio` of at least `floor`."""

    name: str
    value: float
    reference: float
    ratio: float
    floor: float
    unit: str

    def line(self) -> str:
        """Return the figure as a line of text."""
        verdict = "ok" if self.ratio >= self.floor else "BELOW"
        return (
            f"{self.name:32} {self.value:10,.1f} {self.unit:10} reference {self.reference:8,.1f}"
            f"   ratio {self.ratio:6.2f}   floor {self.floor:.2f}   {verdict}"
        )


class Effort(msgspec.Struct, frozen=True):
    """Size of a run."""

    # Alternating rounds; the median counts.
    turns: int
    # Appends per side and round.
    appends: int
    # Appends before the first round: overwriting a log file is faster than growing a new one.
    appends_before: int
    # Records of the two sessions to open, and how often each is opened.
    short_records: int = 1_000
    long_records: int = 100_000
    openings: int = 25
    # Interpreter starts per figure.
    starts: int = 25


FULL = Effort(turns=25, appends=200, appends_before=1_500)
QUICK = Effort(turns=7, appends=100, appends_before=700, openings=7, starts=5)


def print_figures(figures: Sequence[Measured], *, as_json: bool) -> None:
    """Print figures, and exit with 1 if one is below its floor."""
    if as_json:
        click.echo(msgspec.json.encode(figures).decode())
    else:
        for figure in figures:
            click.echo(figure.line())
    if any(figure.ratio < figure.floor for figure in figures):
        sys.exit(BROKEN)


# --- Corpus of real transcripts ---


corpus_option = click.option(
    "--corpus",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    envvar="HOLDFAST_CORPUS",
    help="Folder with real transcripts. Default: HOLDFAST_CORPUS.",
)


def sessions_of(corpus: Path | None, *, only: str = "*.jsonl.gz") -> Iterator[list[NeutralMessage]]:
    """Yield the sessions of the transcripts, one at a time; `only` is a pattern for file names."""
    if corpus is None:
        raise UsageError("this benchmark needs real transcripts: choose their folder with --corpus or HOLDFAST_CORPUS")
    files = sorted((corpus / "transcripts" / "neutral").glob(only))
    if not files:
        raise UsageError(f"{corpus} has no transcripts/neutral/{only}; choose another folder with --corpus")
    for path in files:
        session: list[NeutralMessage] = []
        for message in read_neutral(path):
            if session and message.session_id != session[0].session_id:
                yield session
                session = []
            session.append(message)
        if session:
            yield session


def is_held_out(session_id: str) -> bool:
    """Return whether a session is in the held-out half, which was not used to fit weights; decided by a hash."""
    return sha256(session_id.encode()).digest()[0] % 2 == 1


# --- Appending to stores ---


SESSIONS_TOGETHER = 64

# A message of typical length.
RECORD = ReplyRecorded(
    turn=1, attempt=1, reply=Reply((Text("All work and no play. " * 15),), StopReason.END, usage=None, model="bench")
)
_LEASE_SECONDS = 3_600.0


class Appender:
    """Appends records to one session, one at a time."""

    def __init__(self, store: Store, lease: Lease) -> None:
        self._store, self._lease, self._seq = store, lease, 0

    @classmethod
    async def of(cls, store: Store, session: str) -> "Appender":
        """Acquire the session's lease."""
        lease = await store.acquire(session, "bench", seconds=_LEASE_SECONDS)
        assert lease is not None, "the store is new"
        return cls(store, lease)

    async def append(self, times: int) -> None:
        """Append records, each acknowledged before the next."""
        for _ in range(times):
            self._seq = await self._store.append(self._lease, [RECORD], after=self._seq)


def compare_rates(name: str, rates: list[float], references: list[float], floor: float) -> Measured:
    """Compare appends per second with an alternating reference; the ratio is the median over the rounds."""
    ratio = median(rate / reference for rate, reference in zip(rates, references, strict=True))
    return Measured(name, median(rates), median(references), ratio, floor, "appends/s")
