"""Original messages of a session, read from its records and blobs, for summaries and digests.

A compaction needs those since the previous one, which are in the tail of the log. Older ones are read only if no notes
cover them yet.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from holdfast import ports
from holdfast.core.compaction.plan import Plan
from holdfast.core.limits.sizing import tokens_of_message
from holdfast.core.view import Lens, ViewMessage, conversation, memory_lens, originals_lens
from holdfast.core.view.appended import as_turns
from holdfast.errors import BlobMissingError, StoreDamagedError
from holdfast.ports import Blobs
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.log import Log, pages
from holdfast.runtime.engine.requests import without_instructions
from holdfast.types.messages import BlobRef, LargeText, Message, Part, Text, ToolResult
from holdfast.types.records import InputAdmitted, Logged, MessageAppended, ReplyRecorded, TurnStarted

# A message may be recorded so many records after the first one that belongs to it: the reply before its tool results.
_STEP_RECORDS = 1_000
# Bytes read of one text: a million tokens. Of a longer one, the middle is left out, and a line says so.
_TEXT_BYTES_MAX = 4 * 2**20


def represented_until(log: Log) -> int:
    """Return the place before which the view represents the conversation, except for the newest input."""
    turn = log.turn
    if turn.compaction is None or turn.first_step:
        return turn.first_step
    started = (logged for logged in log.tail if isinstance(logged.record, TurnStarted))
    return next((logged.seq for logged in started if logged.seq > turn.boundary), turn.boundary)


def place_of(cut: Plan) -> int:
    """Return the place before which a planned compaction represents the conversation."""
    return cut.step or cut.boundary


def place_shown(log: Log, boundary: int, step: int) -> int:
    """Return the place of the first message that a cut at a turn of the tail, or inside it, leaves in the view."""
    if step or not boundary:
        return step
    started = (one for one in log.tail if isinstance(one.record, TurnStarted) and one.record.turn == boundary)
    return next((logged.seq for logged in started), boundary)


class Originals(msgspec.Struct, frozen=True):
    """Messages that a compaction replaces, from a place on, and whether they are all of them."""

    messages: list[ViewMessage]
    is_complete: bool = True


async def originals_before(
    engine: Engine, log: Log, cut: Plan, *, since: int = 0, tokens_max: int | None = None
) -> Originals:
    """Return the messages from a place on that a compaction replaces, oldest first.

    With `tokens_max`, only the first of them, up to about so many tokens. Instructions that stay in the view are left
    out.
    """
    found = await _found(engine.store, log, cut, since=since, tokens_max=tokens_max)
    return replace(found, messages=without_instructions(found.messages, engine))


async def _found(store: ports.Log, log: Log, cut: Plan, *, since: int, tokens_max: int | None) -> Originals:
    past = log.turn.compaction
    if since >= log.turn.shown_from and not (past and past.unread):
        turn = log.turn
        lens = originals_lens(turn)
        messages = conversation(log.tail, first_turn=turn.boundary, first_step=turn.first_step, lens=lens)
        return Originals([message for message in messages if message.place >= since and cut.represents(message)])
    try:
        records, is_complete = await _records_since(store, log, cut, since=since, tokens_max=tokens_max)
    except StoreDamagedError:
        # Older records cannot be read; use those in the view, which the compaction removes from it.
        records, is_complete = list(log.tail), True
    messages = [
        one for one in _messages_of(records, originals_lens(log.turn)) if one.place >= since and cut.represents(one)
    ]
    # The last step of a part may continue in the next one.
    return Originals(messages if is_complete else messages[:-1], is_complete)


async def messages_before(
    engine: Engine, log: Log, cut: Plan, *, since: int, tokens_max: int | None = None
) -> Originals:
    """Return all messages between a place and a cut, oldest first, for a memory: no later record changes them.

    The input of a turn that is cut inside is among them.
    """
    until, turn = place_shown(log, cut.boundary, cut.step), log.turn
    lens = memory_lens(turn)
    if since >= place_shown(log, turn.boundary, turn.first_step):
        said = conversation(log.tail, first_turn=turn.boundary, first_step=turn.first_step, lens=lens)
        is_complete = True
    else:
        try:
            records, is_complete = await _records_since(engine.store, log, cut, since=since, tokens_max=tokens_max)
        except StoreDamagedError:
            records, is_complete = list(log.tail), True
        said = _messages_of(records, lens)
        said = said if is_complete else said[:-1]
    messages = [one for one in said if since <= one.place < until]
    return Originals(without_instructions(messages, engine), is_complete)


def _messages_of(records: Sequence[Logged], lens: Lens) -> list[ViewMessage]:
    """Return messages, without the placeholder for the input of a turn that began before the records."""
    records = as_turns(records, lens.retracted)
    started = {one.record.turn for one in records if isinstance(one.record, TurnStarted)}
    messages = conversation(records, lens=lens)
    return [one for one in messages if one.turn in started or one.seq != one.turn]


async def _records_since(
    store: ports.Log, log: Log, cut: Plan, *, since: int, tokens_max: int | None
) -> tuple[list[Logged], bool]:
    """Read the records from a place on, with the inputs of all turns that start there, and whether they are all."""
    records: list[Logged] = []
    left = tokens_max
    is_complete = True
    async for page in pages(store, log.session, after=max(since - _STEP_RECORDS - 1, 0)):
        records += page
        if _reaches(as_turns(page), cut):
            break
        if left is not None:
            left -= sum(tokens_of_message(one.message) for one in conversation(page) if one.place >= since)
            if left < 0:
                is_complete = False
                break
    return [*await _waited(store, log, records), *records], is_complete


async def _waited(store: ports.Log, log: Log, records: Sequence[Logged]) -> list[Logged]:
    """Read the inputs of turns that start or continue in records, but were admitted before them."""
    admitted = {logged.seq for logged in records if isinstance(logged.record, InputAdmitted)}
    kinds = (TurnStarted, ReplyRecorded, MessageAppended)
    turns = {one.record.turn or one.seq for one in records if isinstance(one.record, kinds)}
    admitted |= {one.seq for one in records if isinstance(one.record, MessageAppended)}
    pages = [await store.read(log.session, after=seq - 1, limit=1) for seq in sorted(turns - admitted)]
    return [logged for page in pages for logged in page]


def _reaches(records: Sequence[Logged], cut: Plan) -> bool:
    """Return whether records reach the plan's boundary. A turn may continue after the next input arrives."""
    if records[-1].seq < cut.step:
        return False
    newest = (logged.record for logged in reversed(records))
    return any(isinstance(record, TurnStarted) and record.turn >= cut.boundary for record in newest)


# --- Texts in blobs ---


async def load_texts(message: Message, blobs: Blobs) -> dict[str, str]:
    """Return the texts of a message that are in blobs, by SHA-256. A missing one is left out."""
    texts: dict[str, str] = {}
    for part in _large_texts(message.parts):
        try:
            texts[part.blob.sha256] = await load_text(part.blob, blobs)
        except BlobMissingError:
            continue
    return texts


def _large_texts(parts: Sequence[Part]) -> list[LargeText]:
    found: list[LargeText] = []
    for part in parts:
        if isinstance(part, LargeText):
            found.append(part)
        elif isinstance(part, ToolResult):
            found += _large_texts(part.parts)
    return found


async def load_text(blob: BlobRef, blobs: Blobs) -> str:
    """Return the text of a blob; of a very long one its beginning and end, and the size of the rest."""
    if blob.size_bytes <= _TEXT_BYTES_MAX:
        return (await blobs.get(blob)).decode(errors="replace")
    half = _TEXT_BYTES_MAX // 2
    head = await blobs.read(blob, start=0, length=half)
    tail = await blobs.read(blob, start=blob.size_bytes - half, length=half)
    gap = f"\n[{blob.size_bytes - 2 * half:,} of {blob.size_bytes:,} bytes are not read]\n"
    return head.decode(errors="ignore") + gap + tail.decode(errors="ignore")


async def with_whole_texts(said: ViewMessage, blobs: Blobs) -> ViewMessage:
    """Return a message whose texts in blobs are loaded."""
    if not _large_texts(said.message.parts):
        return said
    texts = await load_texts(said.message, blobs)
    parts = tuple(_whole(part, texts) for part in said.message.parts)
    return replace(said, message=replace(said.message, parts=parts))


def _whole(part: Part, texts: dict[str, str]) -> Part:
    match part:
        case LargeText(blob=blob) if blob.sha256 in texts:
            return Text(texts[blob.sha256])
        case ToolResult(parts=parts):
            return replace(part, parts=tuple(_whole(inner, texts) for inner in parts))
        case _:
            return part
