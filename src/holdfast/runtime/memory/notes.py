"""Long-term memory: notes that the sessions of one scope, such as a user, share.

The notes of a scope are a log of their own under a reserved key: every change is a record, and a read folds the records
since the last one. Scopes of different tenants have different keys.
"""

import secrets
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from holdfast.core.limits.bounds import RESERVED_KEYS
from holdfast.core.search.rank import Index, Row
from holdfast.core.text.truncation import well_formed
from holdfast.errors import BadInputError, RetryLaterError, SeqMovedError
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.log import pages
from holdfast.runtime.sessions.admission import check_session_key
from holdfast.stores.fallbacks import need_appends
from holdfast.types.messages import Payload
from holdfast.types.records import Logged, PayloadStored

MEMORY_KEY = f"{RESERVED_KEYS}memory:"
_TAG = "holdfast-note"
# A note is a fact or a preference, not a document; all notes of a scope are read at once, some MiB at most.
NOTE_CHARS_MAX = 4_000
NOTES_MAX = 1_000
# Notes that one search shows.
FOUND_MAX = 50
_REPEATS_MAX = 1_000
_ID_BYTES = 4


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """A note of a long-term memory."""

    # By which `edit` and `remove` find it.
    id: str
    text: str
    created_at: float = 0.0
    updated_at: float = 0.0
    # The session that wrote it; "": none.
    session: str = ""


class _Change(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    # "": the note is removed.
    text: str = ""
    session: str = ""


_decoder = msgspec.json.Decoder(_Change)


class Memory:
    """The notes of one scope. Any process may change them at any time; every change is durable when a call returns."""

    def __init__(self, scope: str, engine: Engine) -> None:
        check_session_key(scope, bounds=engine.bounds)
        self.scope = scope
        self._engine = engine
        self._key = MEMORY_KEY + scope
        self._seq = 0
        self._notes: dict[str, Note] = {}

    async def notes(self) -> list[Note]:
        """Return all notes, the oldest first."""
        await self._catch_up()
        return list(self._notes.values())

    async def add(self, text: str, *, session: str = "", client_id: str = "") -> Note:
        """Add a note and return it. Two calls with the same `client_id` add one. `session` is the key of its writer."""
        await self._catch_up()
        name = client_id or secrets.token_hex(_ID_BYTES)
        if (known := self._notes.get(name)) is not None:
            return known
        return await self._change(_Change(name, _checked(text), session))

    async def edit(self, note: str, text: str, *, session: str = "") -> Note:
        """Replace the text of the note with this id, and return it."""
        await self._catch_up()
        self._find(note)
        return await self._change(_Change(note, _checked(text), session))

    async def remove(self, note: str) -> None:
        """Remove the note with this id. The log of the memory keeps it."""
        await self._catch_up()
        self._find(note)
        await self._append(_Change(note))

    async def search(self, query: str, *, limit: int = 10) -> list[Note]:
        """Return the notes that match a query best."""
        notes = await self.notes()
        index = Index()
        for place, note in enumerate(notes):
            index.add(Row(place, 0, "", note.text))
        return [notes[index.rows[one.row].seq] for one in index.find(query, limit=min(limit, FOUND_MAX))]

    def _find(self, note: str) -> Note:
        if note not in self._notes:
            raise BadInputError(f"there is no note {note[:80]!r} in the memory {self.scope!r}; list its notes")
        return self._notes[note]

    async def _change(self, change: _Change) -> Note:
        await self._append(change)
        return self._notes[change.id]

    async def _append(self, change: _Change) -> None:
        store = need_appends(self._engine.store)
        record = PayloadStored(Payload(_TAG, text=msgspec.json.encode(change).decode()))
        for _ in range(_REPEATS_MAX):
            if change.text and change.id not in self._notes and len(self._notes) >= NOTES_MAX:
                raise BadInputError(
                    f"the memory {self.scope!r} has {NOTES_MAX:,} notes, which is the limit; remove or merge some"
                )
            try:
                await store.extend(self._key, [record], after=self._seq)
            except SeqMovedError:
                await self._catch_up()
                continue
            await self._catch_up()
            return
        raise RetryLaterError(f"the memory {self.scope!r} has too many writers at once; retry")

    async def _catch_up(self) -> None:
        async for page in pages(self._engine.store, self._key, after=self._seq):
            for logged in page:
                self._fold(logged)

    def _fold(self, logged: Logged) -> None:
        if logged.seq <= self._seq:
            # Another call has read it meanwhile.
            return
        self._seq = logged.seq
        record = logged.record
        if not isinstance(record, PayloadStored) or record.payload.tag != _TAG:
            return
        change = _decoder.decode(record.payload.text)
        if not change.text:
            self._notes.pop(change.id, None)
            return
        made = Note(change.id, change.text, logged.at, logged.at, change.session)
        known = self._notes.get(change.id)
        self._notes[change.id] = made if known is None else replace(made, created_at=known.created_at)


def _checked(text: str) -> str:
    text = well_formed(text).strip()
    if not 0 < len(text) <= NOTE_CHARS_MAX:
        raise BadInputError(
            f"a note has 1 to {NOTE_CHARS_MAX:,} characters, not {len(text):,}; write a shorter one, or several"
        )
    return text


def scope_in(session: str, scope: str) -> str:
    """Return the scope of a session's memory: that of another tenant has another name, whatever its text."""
    is_owned = session.startswith("@") and "/" in session
    return f"{session.partition('/')[0]}/{scope}" if is_owned else scope


def listed(notes: Sequence[Note]) -> str:
    """Return notes as lines for a model."""
    return "\n".join(f"[{note.id}] {note.text}" for note in notes) or "(no notes)"
