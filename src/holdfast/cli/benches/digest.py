"""`holdfast bench digest`: how long a digest with its ledger takes, of real conversations of up to a megabyte.

Every long session is cut at a megabyte, and none may take longer than a megabyte may. The reference, run in turns with
it, is one plain expression that finds the words of the same text: about the least that any reading of a text costs in
Python.
"""

import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import click
import msgspec

from holdfast.cli.benches.corpus import corpus_option, sessions_of
from holdfast.cli.benches.ledger import TOKENS_MAX, texts_of
from holdfast.cli.benches.measured import Measured
from holdfast.cli.exits import BROKEN
from holdfast.cli.paper import json_option
from holdfast.cli.transcript import passages_of
from holdfast.core.digest import represent
from holdfast.core.facts import Passage
from holdfast.errors import UsageError
from holdfast.rescue.neutral import NeutralMessage

MS_MAX = 100.0
# The slowest session took as long as five to six such readings, on a quiet machine as on a busy one.
RATIO_FLOOR = 0.15
_BYTES_MAX = 1_000_000
# Shorter sessions tell about what every digest costs, not about a megabyte.
_BYTES_MIN = 500_000
_ROUNDS = 5
_WORD = re.compile(r"\w+")


class DigestReport(msgspec.Struct, frozen=True):
    """The figures of one run: the slowest session, the median over all, and the most that a megabyte came to."""

    sessions: int
    slowest: Measured
    usual: Measured
    ms_per_megabyte_max: float


class _Long(msgspec.Struct, frozen=True):
    passages: list[Passage]
    text: str
    megabytes: float


def _long_sessions(corpus: Path | None, bytes_min: int) -> Iterator[_Long]:
    for session in sessions_of(corpus):
        kept: list[NeutralMessage] = []
        texts: list[str] = []
        size = 0
        for message in session:
            if size >= _BYTES_MAX:
                break
            kept.append(message)
            found = [text for _, text in texts_of([message])]
            texts += found
            size += sum(len(text.encode()) for text in found)
        if size >= bytes_min:
            yield _Long(passages_of(kept), "\n".join(texts), size / 1e6)


def _milliseconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return 1_000 * (time.process_time() - start)


def _measured(name: str, long: _Long, rounds: int) -> Measured:
    """The quickest of some rounds, in turns: on a busy machine the others tell about the neighbours."""
    makes, reads = [], []
    for _ in range(rounds):
        makes.append(_milliseconds(lambda: represent(long.passages, tokens_max=TOKENS_MAX)))
        reads.append(_milliseconds(lambda: _WORD.findall(long.text)))
    made, read = min(makes), min(reads)
    return Measured(name, made, read, read / max(made, 1e-6), RATIO_FLOOR, "ms")


def measure_digest(corpus: Path | None, *, bytes_min: int = _BYTES_MIN, rounds: int = _ROUNDS) -> DigestReport:
    """Make the digest of every long session, some times over."""
    sizes: list[float] = []
    found: list[Measured] = []
    for long in _long_sessions(corpus, bytes_min):
        sizes.append(long.megabytes)
        found.append(_measured("one session", long, rounds))
    if not found:
        raise UsageError(f"no session has {bytes_min:,} bytes; name a folder with longer ones by --corpus")
    usual = Measured(
        "the median session",
        median(one.value for one in found),
        median(one.reference for one in found),
        median(one.ratio for one in found),
        RATIO_FLOOR,
        "ms",
    )
    slowest = msgspec.structs.replace(max(found, key=lambda one: one.value), name="the slowest session")
    per_megabyte = max(one.value / size for one, size in zip(found, sizes, strict=True))
    return DigestReport(len(found), slowest, usual, per_megabyte)


@click.command()
@corpus_option
@json_option
def digest(corpus: Path | None, *, as_json: bool) -> None:
    """Measure how long a digest with its ledger takes; exit with 1 where one takes longer than promised."""
    report = measure_digest(corpus)
    if as_json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    else:
        print(f"{report.sessions} sessions of half a megabyte to one, one core; {MS_MAX:.0f} ms at most are promised")
        print(report.usual.line())
        print(report.slowest.line())
        print(f"by size, at most {report.ms_per_megabyte_max:.0f} ms per MB: what is shorter has less to share")
    if report.slowest.value > MS_MAX:
        sys.exit(BROKEN)
