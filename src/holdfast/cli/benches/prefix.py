"""`holdfast bench prefix`: how often a request starts with the bytes of the one before it, with the real engine.

Real messages and real tool output are fed through sessions with the simulated model, in every dialect, with a window so
small that compactions happen. Between two changes of the view that the log records, every request must start with the
one before it, or a provider's prompt cache would be lost without anybody knowing.
"""

import asyncio
import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import click
import msgspec

from holdfast.cli.benches.corpus import corpus_option, sessions_of
from holdfast.cli.exits import BROKEN
from holdfast.cli.paper import json_option
from holdfast.core.limits import Limits
from holdfast.core.messages import Role, Text, ToolResult
from holdfast.core.records import (
    AttemptFailed,
    AttemptStarted,
    CompactionApplied,
    CompactionUndone,
    Logged,
    OutputMasked,
    PartReplaced,
    ReasoningDropped,
)
from holdfast.models.catalogue import PROVIDERS
from holdfast.models.http import HttpModel, ModelCard
from holdfast.models.simulated import Simulation, SimulationTransport
from holdfast.models.spans import locate
from holdfast.models.transport import Answer
from holdfast.rescue.neutral import NeutralMessage
from holdfast.wiring import MEMORY
from holdfast.wiring import open as open_hold

SHARE_WANTED = 1.0
_FILE = "claude_code_dev.jsonl.gz"
# So many real sessions, messages of each, and characters of one message or output: half a minute's work in all.
_SESSIONS, _MESSAGES, _CHARS = 20, 20, 6_000
# By this a request of the conversation is known from one that asks for a summary.
_SYSTEM = "You help with the code that is measured."
# Small enough that such a session is compacted a few times. One turn must fit: the simulated model begins again with
# what it was asked where it no longer sees that it was done.
_LIMITS = Limits(window_tokens=24_000, output_tokens_max=1_000)
_RECORDS_MAX = 100_000
# Records after which the view may look different: each is announced, and each breaks the prefix at most once.
_CHANGES = (CompactionApplied, CompactionUndone, OutputMasked, PartReplaced, ReasoningDropped)
# What dialects call the list of messages.
_MESSAGES_FIELDS = ("messages", "input", "contents")


class PrefixReport(msgspec.Struct, frozen=True):
    """The figures of one run. `pairs` are consecutive requests without a recorded change of the view between them."""

    sessions: int
    requests: int
    changes: int
    pairs: int
    kept: int

    @property
    def share(self) -> float:
        """The share of pairs whose second request starts with the first."""
        return self.kept / self.pairs if self.pairs else 0.0


class _Provider(Simulation):
    """A simulation that keeps the body of every request that is part of the conversation."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.bodies: list[bytes] = []

    def respond(self, dialect: str, body: bytes, path: str = "") -> Answer:
        """Take a request; one for the notes of a compaction is no part of the conversation."""
        if _SYSTEM.encode() in body:
            self.bodies.append(body)
        return super().respond(dialect, body, path)


class _Outputs:
    """A tool that gives back what real tools gave, one after the other."""

    def __init__(self, outputs: Sequence[str]) -> None:
        self._outputs = outputs

    def look(self, number: int) -> str:
        """Return one real output."""
        return self._outputs[number % len(self._outputs)] if self._outputs else "nothing"


def conversation_part(body: bytes) -> bytes:
    """Return what the next request must start with: all of a request up to the end of its messages."""
    for name in _MESSAGES_FIELDS:
        field = locate(body, name)
        if field is not None and field.elements:
            return body[: field.elements[-1].end]
    return body


def kept_pairs(bodies: Sequence[bytes], records: Iterable[Logged]) -> tuple[int, int]:
    """Return how many requests followed another with no change of the view between, and how many kept its prefix."""
    # Requests as the log knows them: those that our own estimate refused were never sent.
    sent: list[bool] = []
    has_changed = False
    for logged in records:
        match logged.record:
            case AttemptStarted():
                sent.append(has_changed)
                has_changed = False
            case AttemptFailed(refusal=refusal) if refusal.phase == "estimate":
                has_changed = sent.pop() or has_changed
            case record if isinstance(record, _CHANGES):
                has_changed = True
            case _:
                continue
    assert len(sent) == len(bodies), "every request that was sent has its record"
    pairs = [
        following.startswith(conversation_part(body))
        for body, following, changed in zip(bodies, bodies[1:], sent[1:], strict=False)
        if not changed
    ]
    return len(pairs), sum(pairs)


async def measure_session(session: Sequence[NeutralMessage], dialect: str, messages_max: int) -> PrefixReport:
    """Feed the words and outputs of one real session to the engine, and look at every request."""
    said = [
        part.text[:_CHARS]
        for message in session
        if message.message is not None and message.message.role is Role.USER
        for part in message.parts
        if isinstance(part, Text) and part.text.strip()
    ]
    tool = _Outputs(
        [
            piece.text[:_CHARS]
            for message in session
            for part in message.parts
            if isinstance(part, ToolResult)
            for piece in part.parts
            if isinstance(piece, Text)
        ]
    )
    provider = _Provider(_LIMITS)
    card = ModelCard(f"{dialect}:sim", "sim", "simulated", _LIMITS)
    model = HttpModel(PROVIDERS[dialect], card, SimulationTransport(provider, PROVIDERS[dialect].NAME))
    async with open_hold(MEMORY, model=model, system=_SYSTEM, tools=[tool.look]) as hold:
        chat = await hold.session("measured")
        for number, text in enumerate(said[:messages_max]):
            # Framed, because the simulated model would take some of the words for orders to itself.
            asked = f'<said>{text}</said>\ncall look {{"number": {2 * number}}}'
            await chat.send(f'{asked} then call look {{"number": {2 * number + 1}}}')
        records = await chat.history(limit=_RECORDS_MAX)
    pairs, kept = kept_pairs(provider.bodies, records)
    changes = sum(isinstance(logged.record, _CHANGES) for logged in records)
    return PrefixReport(1, len(provider.bodies), changes, pairs, kept)


def measure_prefix(corpus: Path | None, *, sessions: int = _SESSIONS, messages: int = _MESSAGES) -> PrefixReport:
    """Run real material through the engine in every dialect."""
    reports = [
        asyncio.run(measure_session(session, dialect, messages))
        for session in islice(sessions_of(corpus, only=_FILE), sessions)
        for dialect in PROVIDERS
    ]
    return PrefixReport(
        sessions=len(reports),
        requests=sum(report.requests for report in reports),
        changes=sum(report.changes for report in reports),
        pairs=sum(report.pairs for report in reports),
        kept=sum(report.kept for report in reports),
    )


@click.command()
@corpus_option
@json_option
def prefix(corpus: Path | None, *, as_json: bool) -> None:
    """Measure how often a request starts with the bytes of the one before it; exit with 1 where one does not."""
    report = measure_prefix(corpus)
    if as_json:
        sys.stdout.write(msgspec.json.encode({**msgspec.structs.asdict(report), "share": report.share}).decode() + "\n")
    else:
        print(f"{report.requests:,} requests of {report.sessions} sessions, {report.changes:,} changes of the view")
        print(f"{report.kept:,} of {report.pairs:,} start with the request before them: {report.share:.1%}")
    if report.share < SHARE_WANTED:
        sys.exit(BROKEN)
