"""`holdfast bench prefix` and `bench view`: prompt-cache stability of requests, and time to build the view.

Real messages and tool outputs run through sessions with the simulated model, in every dialect, with a window small
enough for compactions. Between two recorded changes of the view, every request must start with the bytes of the one
before; otherwise the provider's prompt cache would be lost silently.
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
from holdfast.models.transport import HttpResponse
from holdfast.models.wire import locate
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
# Real sessions, messages per session, and characters per message or output: about half a minute in total.
_SESSIONS, _MESSAGES, _CHARS = 20, 20, 6_000
# Marks requests of the conversation; summary requests have another system text.
_SYSTEM = "You help with the code that is measured."
# Small enough for a few compactions. One turn must fit: the simulated model repeats tool calls whose results it no
# longer sees.
_LIMITS = Limits(window_tokens=24_000, output_tokens_max=1_000)
_RECORDS_MAX = 100_000
# Records that change the view; each breaks the prefix at most once.
_CHANGES = (CompactionApplied, CompactionUndone, OutputMasked, PartReplaced, ReasoningDropped)
# Names of the message list in the dialects.
_MESSAGES_FIELDS = ("messages", "input", "contents")


class PrefixReport(msgspec.Struct, frozen=True):
    """JSON output. `pairs` are consecutive requests without a recorded change of the view between them."""

    sessions: int
    requests: int
    changes: int
    pairs: int
    kept: int

    @property
    def share(self) -> float:
        """Share of pairs whose second request starts with the first."""
        return self.kept / self.pairs if self.pairs else 0.0


class _Provider(Simulation):
    """Simulated model that stores the body of every request of the conversation."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.bodies: list[bytes] = []

    def respond(self, dialect: str, body: bytes, path: str = "") -> HttpResponse:
        """HttpResponse a request, and store its body unless it is a summary request."""
        if _SYSTEM.encode() in body:
            self.bodies.append(body)
        return super().respond(dialect, body, path)


class _Outputs:
    """A tool that returns real tool outputs, one after the other."""

    def __init__(self, outputs: Sequence[str]) -> None:
        self._outputs = outputs

    def look(self, number: int) -> str:
        """Return one real output."""
        return self._outputs[number % len(self._outputs)] if self._outputs else "nothing"


def conversation_part(body: bytes) -> bytes:
    """Return the prefix for the next request: the body up to the end of its messages."""
    for name in _MESSAGES_FIELDS:
        field = locate(body, name)
        if field is not None and field.elements:
            return body[: field.elements[-1].end]
    return body


def count_pairs(bodies: Sequence[bytes], records: Iterable[Logged]) -> tuple[int, int]:
    """Return the number of pairs without a change of the view between them, and of those that keep the prefix."""
    # One flag per request that was sent; the engine's own estimate may reject a request before.
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
    assert len(sent) == len(bodies), "every request has its record"
    pairs = [
        following.startswith(conversation_part(body))
        for body, following, changed in zip(bodies, bodies[1:], sent[1:], strict=False)
        if not changed
    ]
    return len(pairs), sum(pairs)


async def measure_session(session: Sequence[NeutralMessage], dialect: str, messages_max: int) -> PrefixReport:
    """Send the messages and outputs of one real session through the engine, and check every request."""
    tool = _Outputs(_tool_outputs(session))
    provider = _Provider(_LIMITS)
    card = ModelCard(f"{dialect}:sim", "sim", "simulated", _LIMITS)
    model = HttpModel(PROVIDERS[dialect], card, SimulationTransport(provider, PROVIDERS[dialect].NAME))
    async with open_client(MEMORY, model=model, system=_SYSTEM, tools=[tool.look]) as client:
        chat = await client.session("measured")
        for number, text in enumerate(_user_texts(session)[:messages_max]):
            # In a tag, because the simulated model would take some of the words for instructions to itself.
            message = f'<said>{text}</said>\ncall look {{"number": {2 * number}}}'
            await chat.send(f'{message} then call look {{"number": {2 * number + 1}}}')
        records = await chat.history(limit=_RECORDS_MAX)
    pairs, kept = count_pairs(provider.bodies, records)
    changes = sum(isinstance(logged.record, _CHANGES) for logged in records)
    return PrefixReport(1, len(provider.bodies), changes, pairs, kept)


def _user_texts(session: Sequence[NeutralMessage]) -> list[str]:
    messages = [one for one in session if one.message is not None and one.message.role is Role.USER]
    texts = [part.text for one in messages for part in one.parts if isinstance(part, Text)]
    return [text[:_CHARS] for text in texts if text.strip()]


def _tool_outputs(session: Sequence[NeutralMessage]) -> list[str]:
    results = [part for one in session for part in one.parts if isinstance(part, ToolResult)]
    return [piece.text[:_CHARS] for result in results for piece in result.parts if isinstance(piece, Text)]


def measure_prefix(corpus: Path | None, *, sessions: int = _SESSIONS, messages: int = _MESSAGES) -> PrefixReport:
    """Run real sessions through the engine in every dialect."""
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
    """Measure the share of requests that start with the bytes of the one before; exit with 1 unless all do."""
    report = measure_prefix(corpus)
    if as_json:
        sys.stdout.write(msgspec.json.encode({**msgspec.structs.asdict(report), "share": report.share}).decode() + "\n")
    else:
        print(f"{report.requests:,} requests of {report.sessions} sessions, {report.changes:,} changes of the view")
        print(f"{report.kept:,} of {report.pairs:,} start with the request before them: {report.share:.1%}")
    if report.share < SHARE_WANTED:
        sys.exit(BROKEN)


# --- holdfast bench view ---


TAIL_TOKENS = 200_000
VIEW_MS_MAX = 30.0
# Promised: at most half the time of parsing the same records as JSON.
RATIO_FLOOR = 2.0
_ROUNDS = 15
_FILE = "claude_code_dev.jsonl.gz"


class ViewReport(msgspec.Struct, frozen=True):
    """JSON output: the median of the rounds."""

    tokens: int
    records: int
    messages: int
    view: Measured


def full_tail(sessions: Iterable[list[NeutralMessage]], tokens_max: int) -> Log:
    """Return a log with a tail of this many tokens, from real sessions."""
    log, turns = Log("measured", Turn()), Turns(0)
    left = tokens_max
    for session in sessions:
        for turn in turns_of(session):
            first = turns.seq
            logged = [Logged(seq, 0.0, record) for seq, record in enumerate(turns.records(turn), start=first + 1)]
            log.extend(logged)
            left -= sum(tokens_of_message(shown.message) for shown in conversation(logged))
            if left <= 0:
                return log
    return log


def _milliseconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return 1_000 * (time.process_time() - start)


def measure_view(corpus: Path | None, *, tokens_max: int = TAIL_TOKENS, rounds: int = _ROUNDS) -> ViewReport:
    """Build the view of a full tail several times, alternating with parsing its records as JSON."""
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
    """Measure the time to build the view of a full window; exit with 1 if it takes longer than promised."""
    report = measure_view(corpus)
    if as_json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    else:
        print(f"{report.tokens:,} tokens in {report.records:,} records, {report.messages:,} messages")
        print(report.view.line())
    if report.view.value > VIEW_MS_MAX or report.view.ratio < RATIO_FLOOR:
        sys.exit(BROKEN)
