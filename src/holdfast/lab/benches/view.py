"""`holdfast bench prefix`: how often a request starts with the bytes of the one before it, with the real engine.

Real messages and real tool output are fed through sessions with the simulated model, in every dialect, with a window so
small that compactions happen. Between two changes of the view that the log records, every request must start with the
one before it, or a provider's prompt cache would be lost without anybody knowing.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from statistics import median

import click
import msgspec

from holdfast.cli.exit_codes import BROKEN
from holdfast.cli.output import json_option
from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.sizing import tokens_of_message
from holdfast.core.view import conversation, messages_in_view
from holdfast.lab.benches.harness import Measured, corpus_option, sessions_of
from holdfast.models.catalogue import PROVIDERS
from holdfast.models.fake import Simulation, SimulationTransport
from holdfast.models.http import HttpModel, ModelCard
from holdfast.models.json_spans import locate
from holdfast.models.transport import Answer
from holdfast.rescue.importing import Turns, turns_of
from holdfast.rescue.neutral import NeutralMessage
from holdfast.runtime.engine.log import Log
from holdfast.types.limits import Limits
from holdfast.types.messages import Role, Text, ToolResult
from holdfast.types.records import (
    AttemptFailed,
    AttemptStarted,
    CompactionApplied,
    CompactionUndone,
    Logged,
    OutputMasked,
    PartReplaced,
    ReasoningDropped,
)
from holdfast.wiring import MEMORY
from holdfast.wiring import open as open_client

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


def count_pairs(bodies: Sequence[bytes], records: Iterable[Logged]) -> tuple[int, int]:
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
    async with open_client(MEMORY, model=model, system=_SYSTEM, tools=[tool.look]) as client:
        chat = await client.session("measured")
        for number, text in enumerate(said[:messages_max]):
            # Framed, because the simulated model would take some of the words for orders to itself.
            asked = f'<said>{text}</said>\ncall look {{"number": {2 * number}}}'
            await chat.send(f'{asked} then call look {{"number": {2 * number + 1}}}')
        records = await chat.history(limit=_RECORDS_MAX)
    pairs, kept = count_pairs(provider.bodies, records)
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


# --- `holdfast bench view`: how long it takes to build what the model sees, for a tail that fills a window.


TAIL_TOKENS = 200_000
VIEW_MS_MAX = 30.0
# The view must take no longer than half of what reading the same records as JSON takes.
RATIO_FLOOR = 2.0
_ROUNDS = 15
_FILE = "claude_code_dev.jsonl.gz"


class ViewReport(msgspec.Struct, frozen=True):
    """The figures of one run: the median of the rounds."""

    tokens: int
    records: int
    messages: int
    view: Measured


def full_tail(sessions: Iterable[list[NeutralMessage]], tokens_max: int) -> Log:
    """Return a log whose tail comes to this many tokens, made of the messages of real sessions."""
    log, turns = Log("measured", Turn()), Turns(0)
    left = tokens_max
    for session in sessions:
        for turn in turns_of(session):
            first = turns.seq
            logged = [Logged(seq, 0.0, record) for seq, record in enumerate(turns.records(turn), start=first + 1)]
            log.extend(logged)
            left -= sum(tokens_of_message(said.message) for said in conversation(logged))
            if left <= 0:
                return log
    return log


def _milliseconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return 1_000 * (time.process_time() - start)


def measure_view(corpus: Path | None, *, tokens_max: int = TAIL_TOKENS, rounds: int = _ROUNDS) -> ViewReport:
    """Build the view of a full tail again and again, and read its records as JSON in between."""
    log = full_tail(sessions_of(corpus, only=_FILE), tokens_max)
    encoded = msgspec.json.encode(log.tail)
    messages = messages_in_view(log.tail, log.turn)
    builds, reads = [], []
    for _ in range(rounds):
        builds.append(_milliseconds(lambda: messages_in_view(log.tail, log.turn)))
        reads.append(_milliseconds(lambda: json.loads(encoded)))
    built, read = max(median(builds), 1e-6), median(reads)
    return ViewReport(
        tokens=sum(tokens_of_message(message) for message in messages),
        records=len(log.tail),
        messages=len(messages),
        view=Measured("view of a full tail", built, read, read / built, RATIO_FLOOR, "ms"),
    )


@click.command()
@corpus_option
@json_option
def view(corpus: Path | None, *, as_json: bool) -> None:
    """Measure how long the view of a full window takes; exit with 1 where it is longer than promised."""
    report = measure_view(corpus)
    if as_json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    else:
        print(f"{report.tokens:,} tokens in {report.records:,} records, {report.messages:,} messages")
        print(report.view.line())
    if report.view.value > VIEW_MS_MAX or report.view.ratio < RATIO_FLOOR:
        sys.exit(BROKEN)
