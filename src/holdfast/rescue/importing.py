"""Import a foreign transcript as a session, with the records that the engine would have written.

An imported session can be viewed, searched, compacted and continued like any other. Each message keeps its number as
`origin`, and numbers already in the session are skipped: importing a file twice is idempotent.

The caller of the record builder decides roles, turn ends and which result belongs to which call: a transcript has
complete turns, while a proxy client leaves its turn open between requests.
"""

from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from holdfast.core.limits.bounds import Bounds
from holdfast.core.text.title import NO_INPUT
from holdfast.core.view.appended import NO_CALL, reply_parts, said
from holdfast.ports import Blobs, Lease, Log
from holdfast.rescue.neutral import NeutralMessage, NeutralRole
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.lease import kept_lease, take_lease, unique_owner
from holdfast.runtime.engine.log import pages
from holdfast.runtime.sessions.appending import store_part
from holdfast.types.messages import (
    LargeText,
    Media,
    Part,
    Reasoning,
    Reply,
    Text,
    ToolCall,
    ToolResult,
)
from holdfast.types.records import (
    AttemptStarted,
    InputAdmitted,
    LeasedRecord,
    Outcome,
    ReplyRecorded,
    ToolSettled,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    origin_of,
)


class TurnRecords:
    """Builds records for a log that ends at `seq`, with an open `turn` (or 0) and its number of attempts."""

    def __init__(self, seq: int, model: str, *, turn: int = 0, attempt: int = 0) -> None:
        self.seq, self.turn, self.attempt = seq, turn, attempt
        self._model = model

    def input(self, parts: Sequence[Part], origin: int | None, client_id: str = "") -> Iterator[LeasedRecord]:
        """Yield the records of a user message, which ends the open turn and starts a new one."""
        yield from self.end()
        content = tuple(part for part in parts if isinstance(part, Text | LargeText | Media)) or (Text(""),)
        yield self._next(InputAdmitted(content, client_id, origin))
        self.turn, self.attempt = self.seq, 0
        yield self._next(TurnStarted(self.turn))

    def reply(self, reply: Reply, origin: int | None) -> Iterator[LeasedRecord]:
        """Yield the records of a reply; without an open turn, a placeholder input comes first."""
        if not self.turn:
            yield from self.input((Text(NO_INPUT),), None)
        self.attempt += 1
        yield self._next(AttemptStarted(self.turn, self.attempt, self._model))
        yield self._next(ReplyRecorded(self.turn, self.attempt, reply, origin))

    def results(self, finished: Iterable[tuple[ToolCall, ToolResult, int]]) -> Iterator[LeasedRecord]:
        """Yield the records of finished calls, each with the number of the message with its result."""
        finished = list(finished)
        for call, _, _ in finished:
            yield self._next(ToolStarted(self.turn, call.call_id, call.name))
        for _, result, origin in finished:
            yield self._next(ToolSettled(self.turn, result, origin))

    def end(self) -> Iterator[LeasedRecord]:
        """Yield the outcome of the open turn, if any."""
        if self.turn:
            yield self._next(TurnEnded(self.turn, Outcome.ANSWERED))
        self.turn = 0

    def said(self, parts: tuple[Text | ToolCall | Reasoning, ...]) -> Reply:
        """Return a reply with these parts and no usage."""
        return said(parts, self._model)

    def _next(self, record: LeasedRecord) -> LeasedRecord:
        self.seq += 1
        return record


# Records per append: large enough for few disk syncs, small enough not to delay other sessions.
BATCH_RECORDS = 400
_LEASE_SECONDS = 60.0
_CLOCK = SystemClock()
_MODEL = "imported"


class Imported(msgspec.Struct, frozen=True):
    """Result of an import. System texts are not imported as messages."""

    session: str
    messages: int
    already_there: int
    system_texts: int
    records: int


class Turns:
    """Builds records from messages, turn by turn, for a log that ends at `seq`."""

    def __init__(self, seq: int) -> None:
        self._turn_records = TurnRecords(seq, _MODEL)

    @property
    def seq(self) -> int:
        """Number of the last record."""
        return self._turn_records.seq

    def records(self, messages: Sequence[NeutralMessage]) -> Iterator[LeasedRecord]:
        """Yield the records of one turn: an optional user message and everything after it."""
        messages = _with_call_ids(messages)
        results: _Results = defaultdict(deque)
        for message in messages:
            for part in message.parts:
                if isinstance(part, ToolResult):
                    results[part.call_id].append((part, message.seq))
        for message in messages:
            match message.role:
                case NeutralRole.USER:
                    yield from self._turn_records.input(message.parts, message.seq)
                case NeutralRole.ASSISTANT:
                    yield from self._reply(reply_parts(message.parts), message.seq, results)
                case _:
                    continue
        for call_id in [call_id for call_id, waiting in results.items() for _ in waiting]:
            # An orphaned tool result: add a call, without which the view cannot show it.
            yield from self._reply((ToolCall(call_id, NO_CALL, "{}"),), None, results)
        yield from self._turn_records.end()

    def _reply(
        self, parts: tuple[Text | ToolCall | Reasoning, ...], origin: int | None, results: "_Results"
    ) -> Iterator[LeasedRecord]:
        yield from self._turn_records.reply(self._turn_records.said(parts), origin)
        calls = [part for part in parts if isinstance(part, ToolCall)]
        yield from self._turn_records.results(
            [(call, *results[call.call_id].popleft()) for call in calls if results[call.call_id]]
        )


# Results by call id, oldest first, each with the number of its message.
_Results: TypeAlias = defaultdict[str, deque[tuple[ToolResult, int]]]


def _with_call_ids(messages: Sequence[NeutralMessage]) -> list[NeutralMessage]:
    """Generate missing call ids, and match results without an id to the oldest open call."""
    waiting: deque[str] = deque()

    def named(part: Part, name: str) -> Part:
        if isinstance(part, ToolCall) and not part.call_id:
            waiting.append(name)
            return msgspec.structs.replace(part, call_id=name)
        if isinstance(part, ToolResult) and not part.call_id:
            return msgspec.structs.replace(part, call_id=waiting.popleft() if waiting else name)
        return part

    return [
        msgspec.structs.replace(
            message,
            parts=tuple(named(part, f"imported-{message.seq}-{place}") for place, part in enumerate(message.parts)),
        )
        for message in messages
    ]


def turns_of(messages: Iterable[NeutralMessage]) -> Iterator[list[NeutralMessage]]:
    """Yield the messages of each turn: a user message and everything up to the next one."""
    turn: list[NeutralMessage] = []
    for message in messages:
        if message.role is NeutralRole.USER and turn:
            yield turn
            turn = []
        if message.role is not NeutralRole.SYSTEM:
            turn.append(message)
    if turn:
        yield turn


async def import_session(
    messages: Sequence[NeutralMessage], key: str, *, store: Log, blobs: Blobs, bounds: Bounds
) -> Imported:
    """Import the messages of one foreign session into the session `key`; known messages are skipped."""
    known = await _origins(store, key)
    fresh: list[NeutralMessage] = []
    for message in messages:
        if message.role is not NeutralRole.SYSTEM and message.seq not in known:
            known.add(message.seq)
            fresh.append(message)
    system_texts = sum(message.role is NeutralRole.SYSTEM for message in messages)
    already_there = len(messages) - len(fresh) - system_texts
    written = 0
    if fresh:
        lease = await take_lease(store, _CLOCK, key, unique_owner("import"), seconds=_LEASE_SECONDS)
        async with kept_lease(store, _CLOCK, lease, seconds=_LEASE_SECONDS):
            written = await _append(fresh, lease, store=store, blobs=blobs, bounds=bounds)
    return Imported(key, len(fresh), already_there, system_texts, written)


async def _origins(store: Log, key: str) -> set[int]:
    found: set[int] = set()
    async for page in pages(store, key):
        found.update(origin for logged in page if (origin := origin_of(logged.record)) is not None)
    return found


async def _append(messages: Sequence[NeutralMessage], lease: Lease, *, store: Log, blobs: Blobs, bounds: Bounds) -> int:
    known = await store.info(lease.session)
    first = last = known.last_seq if known else 0
    turns = Turns(last)
    batch: list[LeasedRecord] = []
    for turn in turns_of(messages):
        kept = [message async for message in kept_messages(turn, blobs, bounds)]
        batch += turns.records(kept)
        # Only complete turns: after an interrupted import the session is idle and the next import resumes.
        if len(batch) >= BATCH_RECORDS:
            last = await store.append(lease, batch, after=last)
            batch = []
    last = await store.append(lease, batch, after=last)
    return last - first


async def kept_messages(
    messages: Sequence[NeutralMessage], blobs: Blobs, bounds: Bounds
) -> AsyncIterator[NeutralMessage]:
    """Yield messages with their large parts moved to blobs."""
    for message in messages:
        for content in message.blobs.values():
            await blobs.put(content)
        is_user = message.role is NeutralRole.USER
        parts = [await store_part(part, is_user=is_user, blobs=blobs, bounds=bounds) for part in message.parts]
        yield msgspec.structs.replace(message, parts=tuple(parts), blobs={})
