"""Append messages and payloads without running a turn, take them back, and read them by id or from the newest on.

Nothing here needs the lease: a write names the last record it has seen, and is repeated if another came first. A
message enters the conversation where it is appended, so the session must be idle; a payload alone may come at any time.
"""

from collections.abc import AsyncIterator, Sequence
from hashlib import sha256
from typing import TypeAlias
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from holdfast.core.fold.retraction import reaches_past
from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.bounds import Bounds, is_proxy_session
from holdfast.core.text.truncation import well_formed
from holdfast.errors import BadInputError, ClientIdReusedError, RetryLaterError, SeqMovedError, SessionBusyError
from holdfast.ports import Blobs
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.log import open_log, stand
from holdfast.runtime.sessions.admission import check_client_id
from holdfast.runtime.tools.toolbox import bound_output
from holdfast.stores.fallbacks import need_appends
from holdfast.types.messages import (
    ContentPart,
    LargeText,
    Media,
    Message,
    Part,
    Payload,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from holdfast.types.records import (
    CompactionApplied,
    GenerationStarted,
    Logged,
    MessageAppended,
    MessagesRetracted,
    PayloadStored,
    ReplyRecorded,
    TurnStarted,
)

# Writers that append at the same moment repeat the write one after the other. This many in a row is a busy loop.
REPEATS_MAX = 1_000
# Records per read from the end of the log: a few messages with their payloads.
_PAGE_RECORDS = 64
# Records folded at once before a retraction; more are read page by page.
_FOLDED_MAX = 10_000

_ALLOWED: dict[Role, tuple[type[Part], ...]] = {
    Role.USER: (Text, LargeText, Media),
    Role.ASSISTANT: (Text, ToolCall, Reasoning),
    Role.TOOL: (ToolResult,),
}
_Record: TypeAlias = MessageAppended | PayloadStored


class Draft(msgspec.Struct, frozen=True):
    """A message, a payload or both, to append. `tag` names the format of the payload.

    The payload is kept byte for byte and never shown to a model. `client_id` makes the draft unique in its session, and
    `Session.lookup` finds it. A message of the user may be a heartbeat, as in `Session.send`: with the messages up to
    the user's next one it never becomes part of a summary.
    """

    message: Message | None = None
    payload: bytes | None = None
    tag: str = ""
    client_id: str = ""
    is_heartbeat: bool = False


class StoredMessage(msgspec.Struct, frozen=True):
    """An appended message, a payload or both, with its record."""

    # Its record, and the time of it in seconds since 1970.
    seq: int
    at: float
    message: Message | None = None
    payload: bytes | None = None
    # The format of the payload, and the id that its sender gave it.
    tag: str = ""
    client_id: str = ""


class Appended(msgspec.Struct, frozen=True):
    """The records of an append, and whether they are new: an append with a known client id is not repeated."""

    # The seqs of its first and its last record.
    first: int
    last: int
    is_new: bool = True


class Appending:
    """Sessions as logs of messages and payloads that a caller writes."""

    key: str
    _engine: Engine
    # The state at the last retraction, from which the next one folds on.
    _folded: Turn | None = None

    async def append(
        self, messages: Sequence[Message | Draft], *, expect: int | None = None, client_id: str = ""
    ) -> Appended:
        """Append messages without running a turn, all of them or none. When this returns, they are on disk.

        Tool calls may stay open: a result that is appended later is matched by its call id. With `expect`, the last seq
        that the caller knows, the append raises `SeqMovedError` if another record came first. Two appends with the same
        `client_id` are one. Raises `RetryLaterError` while a turn runs or waits.
        """
        self._check_writable()
        drafts = _drafts(messages, client_id)
        records = [record async for record in _records(drafts, self._engine.blobs, self._engine.bounds)]
        store = need_appends(self._engine.store)
        is_shown = any(isinstance(record, MessageAppended) for record in records)
        for _ in range(REPEATS_MAX):
            last = await self._last_seq(is_idle=is_shown)
            if client_id and (known := await store.find(self.key, [client_id])):
                return await self._same(records, client_id, known[client_id])
            check_expected(self.key, expect, last)
            placed = await self._placed(records, last)
            try:
                end = await store.extend(self.key, placed, after=last)
            except SeqMovedError:
                check_expected(self.key, expect, None)
                continue
            return Appended(last + 1, end)
        raise RetryLaterError(f"session {self.key!r} has too many writers at once; append again")

    async def retract(self, *, after: int, expect: int | None = None) -> bool:
        """Take back every message and payload after a record: they leave the view, the search and `stored`.

        The log keeps them. A summary that represents one of them is undone. `after=0` takes back everything. Return
        False if there is nothing after that record. Raises as `append` does.
        """
        self._check_writable()
        if after < 0:
            raise BadInputError(f"after={after} is not a record; records are numbered from 1, and 0 retracts all")
        store = need_appends(self._engine.store)
        for _ in range(REPEATS_MAX):
            last = await self._last_seq(is_idle=True)
            check_expected(self.key, expect, last)
            if after >= last:
                return False
            turn = await self._state_at(last)
            if turn is None:
                continue
            kept = next((start for start, until in turn.retracted if start < after <= until), after)
            if turn.retracted and turn.retracted[-1] == (kept, last):
                return False
            try:
                await store.extend(self.key, [await self._retraction(turn, kept)], after=last)
            except SeqMovedError:
                check_expected(self.key, expect, None)
                continue
            return True
        raise RetryLaterError(f"session {self.key!r} has too many writers at once; retract again")

    async def pop(self) -> StoredMessage | None:
        """Take back the newest appended message and return it; None if there is none. Two calls get different ones."""
        self._check_writable()
        for _ in range(REPEATS_MAX):
            last = await self._last_seq(is_idle=True)
            newest = [one async for one in self._newest(last, limit=1)]
            if not newest:
                return None
            try:
                await self.retract(after=newest[0].seq - 1, expect=last)
            except SeqMovedError:
                continue
            return await self._stored(newest[0])
        raise RetryLaterError(f"session {self.key!r} has too many writers at once; pop again")

    async def stored(self, *, limit: int | None = None) -> list[StoredMessage]:
        """Return what was appended, oldest first; with `limit` the newest. Retracted messages are left out."""
        found = [one async for one in self._newest(await self._last_seq(), limit=limit)]
        return [await self._stored(one) for one in reversed(found)]

    async def lookup(self, client_id: str) -> StoredMessage | None:
        """Return what was appended with a client id, retracted or not; None if there is none. Reads one record."""
        seq = (await self.find([client_id])).get(client_id)
        if seq is None:
            return None
        logged = (await self._engine.store.read(self.key, after=seq - 1, limit=1))[0]
        return await self._stored(logged) if isinstance(logged.record, _Record) else None

    async def stored_at(self, seqs: Sequence[int]) -> list[StoredMessage]:
        """Return what was appended in these records, in their order. Other records are left out."""
        pages = [await self._engine.store.read(self.key, after=seq - 1, limit=1) for seq in seqs]
        found = [logged for page in pages for logged in page if isinstance(logged.record, _Record)]
        return [await self._stored(logged) for logged in found]

    async def find(self, client_ids: Sequence[str]) -> dict[str, int]:
        """Return the seqs of the records with these client ids. Unknown ids are left out."""
        return await need_appends(self._engine.store).find(self.key, client_ids)

    def _check_running(self) -> None:
        """Raise `StoppingError` if the client is closed. The session knows."""
        raise NotImplementedError

    def _check_writable(self) -> None:
        self._check_running()
        if is_proxy_session(self.key):
            raise BadInputError(f"session {self.key!r} belongs to a client of the proxy, which writes it alone")

    async def _last_seq(self, *, is_idle: bool = False) -> int:
        known = await self._engine.store.info(self.key)
        if known is not None and known.owed and is_idle:
            raise SessionBusyError(self.key)
        return known.last_seq if known else 0

    async def _same(self, records: Sequence[_Record], client_id: str, first: int) -> Appended:
        """Return the first append with this client id. Raises `ClientIdReusedError` if it had other content."""
        found = await self._engine.store.read(self.key, after=first - 1, limit=len(records))
        if [_unplaced(one.record) for one in found] != [_unplaced(record) for record in records]:
            raise ClientIdReusedError(self.key, client_id, first)
        return Appended(first, first + len(records) - 1, is_new=False)

    async def _placed(self, records: Sequence[_Record], last: int) -> list[_Record]:
        """Return records with their turns, for a log that ends at `last`."""
        shown = [record for record in records if isinstance(record, MessageAppended)]
        turn = await self._newest_turn(last) if shown and shown[0].role is not Role.USER else 0
        placed: list[_Record] = []
        for seq, record in enumerate(records, start=last + 1):
            if isinstance(record, MessageAppended):
                is_first = record.role is Role.USER or not turn
                turn = seq if is_first else turn
                placed.append(replace(record, turn=0 if is_first else turn))
            else:
                placed.append(record)
        return placed

    async def _newest_turn(self, last: int) -> int:
        async for logged in self._backwards(last):
            match logged.record:
                case MessagesRetracted(last_turn=turn) | TurnStarted(turn=turn) | ReplyRecorded(turn=turn):
                    return turn
                case MessageAppended(turn=turn):
                    return turn or logged.seq
                case _:
                    pass
        return 0

    async def _newest(self, last: int, *, limit: int | None) -> AsyncIterator[Logged]:
        """Yield appended records, newest first, without the retracted ones."""
        until, left = last, limit
        if left is not None and left <= 0:
            return
        async for logged in self._backwards(last):
            if logged.seq > until:
                continue
            if isinstance(logged.record, MessagesRetracted):
                until = logged.record.after
            elif isinstance(logged.record, _Record):
                yield logged
                left = None if left is None else left - 1
                if left == 0:
                    return

    async def _backwards(self, last: int) -> AsyncIterator[Logged]:
        """Yield the records up to `last`, newest first."""
        size = 1
        while last > 0:
            after = max(last - size, 0)
            for logged in reversed(await self._engine.store.read(self.key, after=after, limit=last - after)):
                yield logged
            last, size = after, min(2 * size, _PAGE_RECORDS)

    async def _stored(self, logged: Logged) -> StoredMessage:
        record = logged.record
        assert isinstance(record, _Record), "only appended records are read"
        message = Message(record.role, record.parts) if isinstance(record, MessageAppended) else None
        payload = record.payload
        content = None if payload is None else await payload_bytes(payload, self._engine.blobs)
        return StoredMessage(logged.seq, logged.at, message, content, payload.tag if payload else "", record.client_id)

    async def _state_at(self, last: int) -> Turn | None:
        """Return the state after the record `last`; None if the log has grown since."""
        turn = await stand(self._engine.store, self.key, since=self._folded, records_max=_FOLDED_MAX)
        if turn is None:
            turn = (await open_log(self._engine.store, self.key)).turn
        self._folded = turn
        return turn if turn.seq == last else None

    async def _retraction(self, turn: Turn, after: int) -> MessagesRetracted:
        """Return the record of a retraction, with the newest compaction that represents no retracted message."""
        record = MessagesRetracted(after, await self._newest_turn(after))
        past, seq, generation, pins = turn.compaction, turn.compaction_seq, turn.generation, set[int]()
        if not reaches_past(turn, after):
            return record
        while past is not None and max(past.boundary, past.step) > after + 1:
            if isinstance(past, GenerationStarted):
                generation, pins = past.left, {*pins, *past.pins_left}
            seq = past.before
            found = (await self._engine.store.read(self.key, after=seq - 1, limit=1))[0].record if seq else None
            past = found if isinstance(found, CompactionApplied) else None
        kept = tuple(sorted(pin for pin in pins if pin <= after))
        return replace(record, restored=past, restored_seq=seq if past else 0, generation=generation, pins=kept)


def check_expected(key: str, expect: int | None, last: int | None) -> None:
    """Raise `SeqMovedError` if the log does not end where the caller expects; `last` None: it has grown meanwhile."""
    if expect is not None and expect != last:
        raise SeqMovedError(key, expect, expect + 1 if last is None else last)


def _unplaced(record: object) -> object:
    return replace(record, turn=0) if isinstance(record, MessageAppended) else record


# --- Drafts as records ---


def _drafts(messages: Sequence[Message | Draft], client_id: str) -> list[Draft]:
    if not messages:
        raise BadInputError("there is nothing to append; give at least one message")
    drafts = [one if isinstance(one, Draft) else Draft(one) for one in messages]
    if client_id and not drafts[0].client_id:
        drafts[0] = replace(drafts[0], client_id=client_id)
    return drafts


async def _records(drafts: Sequence[Draft], blobs: Blobs, bounds: Bounds) -> AsyncIterator[_Record]:
    """Yield the records of drafts. Raises `BadInputError` before any blob is stored."""
    for draft in drafts:
        _check_draft(draft, bounds)
    for draft in drafts:
        payload = None if draft.payload is None else await stored_payload(draft.payload, draft.tag, blobs, bounds)
        if draft.message is None:
            assert payload is not None, "a draft without a message was checked"
            yield PayloadStored(payload, draft.client_id)
            continue
        client_id = draft.client_id
        for parts in _split(draft.message):
            is_user = draft.message.role is Role.USER
            kept = [await store_part(part, is_user=is_user, blobs=blobs, bounds=bounds) for part in parts]
            is_heartbeat = draft.is_heartbeat and is_user
            yield MessageAppended(draft.message.role, tuple(kept), 0, client_id, payload, is_heartbeat)
            client_id, payload = "", None


def _check_draft(draft: Draft, bounds: Bounds) -> None:
    if draft.client_id:
        check_client_id(draft.client_id, bounds=bounds)
    if draft.payload is not None and not draft.tag:
        raise BadInputError("a payload needs a tag that names its format")
    if draft.message is None:
        if draft.payload is None:
            raise BadInputError("the draft is empty; give a message, a payload or both")
        return
    for part in draft.message.parts:
        if not isinstance(part, _ALLOWED[draft.message.role]):
            raise BadInputError(f"a message of the role {draft.message.role.value} has no {type(part).__name__}")
    if draft.message.role is Role.TOOL and not draft.message.parts:
        raise BadInputError("a message of the role tool needs at least one result")


def _split(message: Message) -> list[tuple[Part, ...]]:
    """Return the parts of each record: a tool result has one of its own."""
    return [(part,) for part in message.parts] if message.role is Role.TOOL else [message.parts]


async def stored_payload(content: bytes, tag: str, blobs: Blobs, bounds: Bounds) -> Payload:
    """Return a payload, in a blob if it is large."""
    if len(content) > bounds.inline_text_bytes_max:
        return Payload(tag, blob=await blobs.put(content))
    try:
        return Payload(tag, text=content.decode())
    except UnicodeDecodeError:
        return Payload(tag, content=content)


async def payload_bytes(payload: Payload, blobs: Blobs) -> bytes:
    """Return the bytes of a payload."""
    if payload.blob is not None:
        return await blobs.get(payload.blob)
    return payload.content or payload.text.encode()


async def store_part(part: Part, *, is_user: bool, blobs: Blobs, bounds: Bounds) -> Part:
    """Return a part of a foreign message as it is stored: large text of a user and large output in blobs."""
    match part:
        case Text(text=text) if is_user:
            return await _store_text(well_formed(text), blobs, bounds)
        case Text(text=text):
            return Text(well_formed(text))
        case ToolResult(parts=inner):
            output = [piece.text for piece in inner if isinstance(piece, Text)]
            bounded = await bound_output(output, blobs=blobs, bounds=bounds)
            others = tuple(piece for piece in inner if not isinstance(piece, Text))
            return replace(part, parts=(*bounded.parts, *others), originals=(*part.originals, *bounded.originals))
        case _:
            return part


async def _store_text(text: str, blobs: Blobs, bounds: Bounds) -> ContentPart:
    raw = text.encode()
    if len(raw) <= bounds.inline_text_bytes_max:
        return Text(text)
    return LargeText(await blobs.put(raw), text[: bounds.head_chars])


# --- Foreign ids ---

# Characters of an id that stay readable if it is too long for a key.
_HEAD_CHARS = 80


def session_key(*ids: str, bounds: Bounds | None = None) -> str:
    """Return a session key for foreign ids, such as a framework, a tenant and a thread. Different ids, different keys.

    Other characters than letters, digits, "-", "_" and "." are written as %XX. A key that would be too long ends in a
    hash of all ids.
    """
    if not ids:
        raise BadInputError("give at least one id")
    parts = [quote(one.encode("utf-8", "surrogatepass"), safe="").replace("~", "%7E") or "%" for one in ids]
    key = ":".join(parts)
    if len(key) <= (bounds or Bounds()).session_key_bytes_max:
        return key
    return f"{key[:_HEAD_CHARS]}~{_digest(parts)}"


def _digest(parts: Sequence[str]) -> str:

    return sha256(":".join(parts).encode()).hexdigest()
