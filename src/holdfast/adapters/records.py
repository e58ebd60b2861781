"""Sessions as logs of a framework's entries: drafts beside messages, repeated writes, sessions below a prefix."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from holdfast.errors import RetryLaterError, SeqMovedError
from holdfast.ports import SessionInfo
from holdfast.runtime.sessions.appending import Draft, StoredMessage
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.session import Session
from holdfast.types.messages import Message, Part, Role, Text, ToolCall, ToolResult

# Writers of one session at the same moment repeat their write; so many in a row is a busy loop.
_REPEATS_MAX = 1_000
# Sessions read at once from a list.
_PAGE = 100


def entry_drafts(messages: Sequence[Message], payload: bytes, tag: str, client_id: str = "") -> list[Draft]:
    """Return the drafts of an entry: its messages, and its bytes in the last record.

    Several results of tools are several records, so the bytes of such an entry are a record of their own.
    """
    if len(messages) == 1 and (messages[0].role is not Role.TOOL or len(messages[0].parts) == 1):
        return [Draft(messages[0], payload, tag, client_id)]
    return [*(Draft(one) for one in messages), Draft(payload=payload, tag=tag, client_id=client_id)]


def as_messages(
    *, is_user: bool, texts: Sequence[str], calls: Sequence[ToolCall] = (), results: Sequence[ToolResult] = ()
) -> list[Message]:
    """Return the messages of an entry: results of tools first, then text and tool calls. Empty ones are left out."""
    said: list[Part] = [Text(text) for text in texts if text]
    found: list[tuple[Role, Sequence[Part]]] = [(Role.TOOL, results)]
    if is_user:
        found.append((Role.USER, said))
    else:
        found.append((Role.ASSISTANT, [*said, *calls]))
    return [Message(role, tuple(parts)) for role, parts in found if parts]


async def last_seq(session: Session) -> int:
    """Return the seq of the last record; 0 for a session without records."""
    known = await session.known()
    return known.last_seq if known else 0


async def append_repeatedly(session: Session, build: Callable[[int], Awaitable[Sequence[Draft] | None]]) -> None:
    """Append the drafts that `build` returns for a log that ends at a seq. Another writer in between repeats it.

    Without drafts nothing is appended; None repeats `build` after a change that it made itself.
    """
    for _ in range(_REPEATS_MAX):
        last = await last_seq(session)
        try:
            drafts = await build(last)
            if drafts:
                await session.append(drafts, expect=last)
        except SeqMovedError:
            continue
        if drafts is not None:
            return
    raise RetryLaterError(f"session {session.key!r} has too many writers at once; try again")


async def newest_of(session: Session, tag: str, last: int) -> StoredMessage | None:
    """Return the newest entry with a tag. It is the last record, unless the session was also used natively."""
    if not last:
        return None
    found = await session.stored_at([last])
    if found and found[0].tag == tag:
        return found[0]
    limit = 1
    while True:
        found = await session.stored(limit=limit)
        for one in reversed(found):
            if one.tag == tag:
                return one
        if len(found) < limit:
            return None
        limit *= 2


async def newest_entries(session: Session, tag: str, count: int | None) -> list[StoredMessage]:
    """Return the newest entries with a tag in order, or all. More records are read where some are not entries."""
    limit = count
    while True:
        stored = await session.stored(limit=limit)
        found = [one for one in stored if one.tag == tag]
        if count is None or limit is None:
            return found
        if len(found) >= count or len(stored) < limit:
            return found[len(found) - min(count, len(found)) :]
        limit *= 2


async def sessions_below(client: Client, prefix: str) -> AsyncIterator[SessionInfo]:
    """Yield the sessions whose keys begin with a prefix, ordered by key."""
    after = prefix[:-1]
    while page := await client.sessions(after=after, limit=_PAGE):
        for known in page:
            if known.key.startswith(prefix):
                yield known
            elif known.key > prefix:
                return
        after = page[-1].key
