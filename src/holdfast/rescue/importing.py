"""Import a foreign transcript as a session, with the records that the engine would have written.

An imported session can be viewed, searched, compacted and continued like any other. Each message keeps its number as
`origin`, and numbers already in the session are skipped: importing a file twice is idempotent.
"""

from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from holdfast.core.limits.bounds import Bounds
from holdfast.core.text.truncation import well_formed
from holdfast.ports import Blobs, Lease, Log
from holdfast.rescue.neutral import NeutralMessage, NeutralRole
from holdfast.rescue.turn_records import NO_CALL, TurnRecords, reply_parts
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.lease import kept_lease, take_lease, unique_owner
from holdfast.runtime.engine.log import pages
from holdfast.runtime.tools.toolbox import bound_output
from holdfast.types.messages import ContentPart, LargeText, Media, Part, Reasoning, Text, ToolCall, ToolResult
from holdfast.types.records import LeasedRecord, origin_of

# Records per append: large enough for few disk syncs, small enough not to delay other sessions.
BATCH_RECORDS = 400
_LEASE_SECONDS = 60.0
_CLOCK = SystemClock()
_MODEL = "imported"
# Characters of a large text that stay in the record.
_HEAD_CHARS = Bounds().head_chars


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
        parts = [await _store_part(part, message.role, blobs, bounds) for part in message.parts]
        yield msgspec.structs.replace(message, parts=tuple(parts), blobs={})


async def _store_part(part: Part, role: NeutralRole, blobs: Blobs, bounds: Bounds) -> Part:
    match part:
        case Text(text=text) if role is NeutralRole.USER:
            return await _store_text(well_formed(text), blobs, bounds)
        case Text(text=text):
            return Text(well_formed(text))
        case ToolResult(parts=inner):
            output = [piece.text for piece in inner if isinstance(piece, Text)]
            bounded = await bound_output(output, blobs=blobs, bounds=bounds)
            media = tuple(piece for piece in inner if isinstance(piece, Media))
            return msgspec.structs.replace(part, parts=(*bounded.parts, *media), originals=bounded.originals)
        case _:
            return part


async def _store_text(text: str, blobs: Blobs, bounds: Bounds) -> ContentPart:
    raw = text.encode()
    if len(raw) <= bounds.inline_text_bytes_max:
        return Text(text)
    return LargeText(await blobs.put(raw), text[:_HEAD_CHARS])
