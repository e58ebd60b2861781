"""`holdfast bench told`: how much of what a person told in a few words a digest with its ledger keeps.

Statements are put into real sessions as messages of the person, evenly from beginning to end, and everything is
represented without a model. What a statement is about stands nowhere else in the session, so it is kept or it is lost.
"""

import sys
from pathlib import Path

import click
import msgspec

from holdfast.cli.benches.corpus import corpus_option, sessions_of
from holdfast.cli.benches.ledger import TOKENS_MAX
from holdfast.cli.exits import BROKEN
from holdfast.cli.paper import json_option
from holdfast.cli.transcript import passages_of
from holdfast.core.digest import represent
from holdfast.core.facts import Passage
from holdfast.core.messages import Message, Role, Text
from holdfast.errors import UsageError

HELD_FLOOR = 0.95
# Fewer messages than this are no session that anyone compacts.
_MESSAGES_MIN = 20

# What people say once and expect to be known for ever, and the piece of it that must not be lost: orders, values,
# names, dates, and things with neither number nor capital in them. Some ask for it to be remembered, most do not.
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
    """How many statements were put in, how many were kept, and which were lost how often."""

    sessions: int
    told: int
    held: int
    lost: dict[str, int]

    @property
    def share(self) -> float:
        """The share of statements that were kept."""
        return self.held / max(1, self.told)


def with_statements(passages: list[Passage]) -> list[Passage]:
    """Return the passages with every statement among them, numbered anew.

    One that would come between a call and its result comes behind the result.
    """
    due = [(number + 1) * len(passages) // (len(STATEMENTS) + 1) for number in range(len(STATEMENTS))]
    messages: list[Message] = []
    said = 0
    for place, passage in enumerate(passages):
        while said < len(due) and place >= due[said] and passage.message.role is not Role.TOOL:
            messages.append(Message(Role.USER, (Text(STATEMENTS[said][0]),)))
            said += 1
        messages.append(passage.message)
    messages += [Message(Role.USER, (Text(text),)) for text, _ in STATEMENTS[said:]]
    return [Passage(seq, message) for seq, message in enumerate(messages, start=1)]


def measure_told(corpus: Path | None, *, tokens_max: int = TOKENS_MAX) -> ToldReport:
    """Represent every session of the corpus with the statements in it, and look which of them can still be read."""
    sessions = held = 0
    lost = dict.fromkeys((piece for _, piece in STATEMENTS), 0)
    for session in sessions_of(corpus):
        passages = passages_of(session)
        # Where nobody answers it is a meeting of people, not a session.
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
        raise UsageError(f"no session has {_MESSAGES_MIN} messages; name a folder with longer ones by --corpus")
    return ToldReport(sessions, sessions * len(STATEMENTS), held, {piece: n for piece, n in lost.items() if n})


@click.command()
@corpus_option
@json_option
def told(corpus: Path | None, *, as_json: bool) -> None:
    """Measure how much of what a person told is kept without a model; exit with 1 where it is less than promised."""
    report = measure_told(corpus)
    if as_json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    else:
        print(
            f"{report.held:,} of {report.told:,} statements in {report.sessions} sessions are held in {TOKENS_MAX:,} "
            f"tokens: {report.share:.1%} (at least {HELD_FLOOR:.0%} is promised)"
        )
        for piece, count in sorted(report.lost.items(), key=lambda row: -row[1]):
            print(f"  lost {count:3} times: {piece}")
    if report.share < HELD_FLOOR:
        sys.exit(BROKEN)
