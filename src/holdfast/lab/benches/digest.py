"""`holdfast bench digest` and `bench told`: time to build a digest, and the share of statements that it keeps.

Sessions are truncated at one megabyte. The reference, run alternately, is one regular expression that finds the words
of the same text: about the least that reading a text costs in Python.
"""

import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import click
import msgspec

from holdfast.cli.exit_codes import BROKEN
from holdfast.cli.options import passages_of
from holdfast.cli.output import json_option
from holdfast.core.compaction.digest import represent
from holdfast.core.compaction.facts import Passage
from holdfast.errors import UsageError
from holdfast.lab.benches.harness import Measured, corpus_option, sessions_of
from holdfast.lab.benches.ledger import TOKENS_MAX, texts_of
from holdfast.rescue.neutral import NeutralMessage
from holdfast.types.messages import Message, Role, Text

MS_MAX = 100.0
# The slowest session took five to six times as long as the reference, on idle and busy machines.
RATIO_FLOOR = 0.15
_BYTES_MAX = 1_000_000
# In shorter sessions the fixed cost dominates.
_BYTES_MIN = 500_000
_ROUNDS = 5
_WORD = re.compile(r"\w+")


class DigestReport(msgspec.Struct, frozen=True):
    """JSON output: the slowest session, the median, and the highest time per megabyte."""

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
    """Return the fastest of some alternating rounds: slower ones measure the load of the machine."""
    makes, reads = [], []
    for _ in range(rounds):
        makes.append(_milliseconds(lambda: represent(long.passages, tokens_max=TOKENS_MAX)))
        reads.append(_milliseconds(lambda: _WORD.findall(long.text)))
    made, read = min(makes), min(reads)
    return Measured(name, made, read, read / max(made, 1e-6), RATIO_FLOOR, "ms")


def measure_digest(corpus: Path | None, *, bytes_min: int = _BYTES_MIN, rounds: int = _ROUNDS) -> DigestReport:
    """Build the digest of every long session, several times."""
    sizes: list[float] = []
    found: list[Measured] = []
    for long in _long_sessions(corpus, bytes_min):
        sizes.append(long.megabytes)
        found.append(_measured("one session", long, rounds))
    if not found:
        raise UsageError(f"no session has {bytes_min:,} bytes; choose another folder with --corpus")
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
    """Measure the time to build a digest with its ledger; exit with 1 if one takes longer than promised."""
    report = measure_digest(corpus)
    if as_json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    else:
        print(f"{report.sessions} sessions of 0.5 to 1 MB, one core; at most {MS_MAX:.0f} ms are promised")
        print(report.usual.line())
        print(report.slowest.line())
        print(f"highest time per size: {report.ms_per_megabyte_max:.0f} ms per MB")
    if report.slowest.value > MS_MAX:
        sys.exit(BROKEN)


# --- holdfast bench told ---


HELD_FLOOR = 0.95
# Shorter sessions are not compacted in practice.
_MESSAGES_MIN = 20

# Statements that users make once and expect to be remembered, with the part that must be kept: instructions, values,
# names, dates, and words without digits or capitals. Some ask to remember it, most do not.
STATEMENTS: tuple[tuple[str, str], ...] = (
    ("By the way, the hint for the staging database is 'blue heron 42'.", "blue heron 42"),
    ("Our berth code is QX-7731, remember it.", "QX-7731"),
    ("Never touch moorings/prod.tf without asking me.", "moorings/prod.tf"),
    ("The meeting with Lena is on Tuesday at 14:30 in room 5B.", "14:30"),
    ("Set mooring_limit = 17 in the config.", "mooring_limit = 17"),
    ("remember harbour = Kiel", "harbour = Kiel"),
    ("My order number is 4711-0815-33.", "4711-0815-33"),
    ("Please answer only in Danish from now on.", "Danish"),
    ("The customer is called Ingeborg Thrane and lives in Tromsø.", "Ingeborg Thrane"),
    ("Wir nehmen den Liegeplatz neben der Nordmole.", "Nordmole"),
    ("The budget is 12,650 EUR and not a cent more.", "12,650 EUR"),
    ("use commit 9fceb02d as the base", "9fceb02d"),
    ("The pilots live at https://pilots.example.org/v3/harbours", "https://pilots.example.org/v3/harbours"),
    ("the word that opens the gate is marzipan", "marzipan"),
    ("港の合言葉は「ひまわり」です。", "ひまわり"),
)


class ToldReport(msgspec.Struct, frozen=True):
    """JSON output: statements inserted and kept, and how often each was lost."""

    sessions: int
    told: int
    held: int
    lost: dict[str, int]

    @property
    def share(self) -> float:
        """Share of statements that were kept."""
        return self.held / max(1, self.told)


def with_statements(passages: list[Passage]) -> list[Passage]:
    """Insert the statements at regular distances, and renumber the passages.

    A statement is never put between a call and its result.
    """
    due = [(number + 1) * len(passages) // (len(STATEMENTS) + 1) for number in range(len(STATEMENTS))]
    messages: list[Message] = []
    inserted = 0
    for place, passage in enumerate(passages):
        while inserted < len(due) and place >= due[inserted] and passage.message.role is not Role.TOOL:
            messages.append(Message(Role.USER, (Text(STATEMENTS[inserted][0]),)))
            inserted += 1
        messages.append(passage.message)
    messages += [Message(Role.USER, (Text(text),)) for text, _ in STATEMENTS[inserted:]]
    return [Passage(seq, message) for seq, message in enumerate(messages, start=1)]


def measure_told(corpus: Path | None, *, tokens_max: int = TOKENS_MAX) -> ToldReport:
    """Build the digest of every session with the statements inserted, and count those that it still contains."""
    sessions = held = 0
    lost = dict.fromkeys((piece for _, piece in STATEMENTS), 0)
    for session in sessions_of(corpus):
        passages = passages_of(session)
        # Transcripts of meetings have no assistant; skip them.
        if len(passages) < _MESSAGES_MIN or all(one.message.role is Role.USER for one in passages):
            continue
        sessions += 1
        shown = represent(with_statements(passages), tokens_max=tokens_max)
        for piece in lost:
            if piece in shown:
                held += 1
            else:
                lost[piece] += 1
    if not sessions:
        raise UsageError(f"no session has {_MESSAGES_MIN} messages; choose another folder with --corpus")
    return ToldReport(sessions, sessions * len(STATEMENTS), held, {piece: n for piece, n in lost.items() if n})


@click.command()
@corpus_option
@json_option
def told(corpus: Path | None, *, as_json: bool) -> None:
    """Measure the share of a user's statements that a digest keeps; exit with 1 if it is less than promised."""
    report = measure_told(corpus)
    if as_json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    else:
        print(
            f"{report.held:,} of {report.told:,} statements in {report.sessions} sessions are kept in {TOKENS_MAX:,} "
            f"tokens: {report.share:.1%} (at least {HELD_FLOOR:.0%} is promised)"
        )
        for piece, count in sorted(report.lost.items(), key=lambda row: -row[1]):
            print(f"  lost {count:3} times: {piece}")
    if report.share < HELD_FLOOR:
        sys.exit(BROKEN)
