"""Match a request to its session: by a header, else by the messages it begins with.

A client sends its whole history each time. A request continues the session whose messages are all at its beginning;
one that differs anywhere gets a session of its own, because a log holds one history. If most of the history is the same
and was compacted, the new session begins as a fork, so that the compaction need not be made again.

Sessions are cached. The log decides: a cached session that another gateway has written to is read on first.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.bounds import DROPIN_MARK, Bounds
from holdfast.core.proxy.plan import common_messages, digest_of
from holdfast.core.proxy.recall import client_message
from holdfast.errors import BadInputError, RetryLaterError
from holdfast.ports import Log
from holdfast.runtime.engine.log import open_log, pages
from holdfast.runtime.sessions.transfer import forked
from holdfast.types.messages import Message, Part, Role, ToolResult
from holdfast.types.records import (
    CompactionApplied,
    GenerationStarted,
    InputAdmitted,
    Logged,
    MessageExcluded,
    OutputMasked,
    PartReplaced,
    ReasoningDropped,
    ReplyRecorded,
    ToolSettled,
)

_CHANGES_VIEW = (
    CompactionApplied,
    GenerationStarted,
    MessageExcluded,
    OutputMasked,
    PartReplaced,
    ReasoningDropped,
)
# Families of sessions that are cached; others are read from the store. Each takes some kilobytes.
_FAMILIES_MAX = 5_000
# Sessions of one family that are compared, the newest ones.
_BRANCHES_MAX = 64


@dataclass(frozen=True)
class SharedHistory:
    """The session that a new one shares its first messages with, and how many."""

    key: str
    messages: int


@dataclass
class ProxySession:
    """A session of the proxy as its log has it."""

    key: str
    # Digests of the messages in the log; None: one that cannot be compared any more.
    digests: list[bytes | None] = field(default_factory=list)
    # Digests of the newest request, until it is in the log.
    claimed: list[bytes] = field(default_factory=list)
    # The folded state, and the last record that digests and state cover.
    state: Turn = field(default_factory=Turn)
    until: int = 0
    # The history to fork from before the first use.
    shared: SharedHistory | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def common(self, digests: Sequence[bytes]) -> int:
        """Return how many messages of the log a request begins with."""
        return common_messages(self.digests, digests)

    def matches(self, digests: Sequence[bytes]) -> int | None:
        """Return how many messages a request has in common with it; None if they differ somewhere."""
        known: Sequence[bytes | None] = self.digests if len(self.digests) >= len(self.claimed) else self.claimed
        common = common_messages(known, digests)
        return common if common == min(len(known), len(digests)) else None

    def follow(self, turn: Turn) -> None:
        """Take the state after records of ours."""
        self.state, self.until = turn, turn.seq

    def answered(self, answer: Message) -> None:
        """Add the digest of an answer as the client will send it back."""
        self.digests.append(digest_of(answer))


@dataclass
class _Family:
    """Sessions under one prefix, which a header gave or their first message."""

    prefix: str
    branches: list[ProxySession] = field(default_factory=list)
    count: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    is_loaded: bool = False


class SessionMatcher:
    """Finds the session of a request in the cache and in the store."""

    def __init__(self, store: Log, bounds: Bounds) -> None:
        self._store = store
        self._bounds = bounds
        self._families: OrderedDict[str, _Family] = OrderedDict()

    async def find(self, prefix: str, digests: Sequence[bytes]) -> ProxySession:
        """Return the session that a request continues, else a new one."""
        family = self._cached(prefix)
        is_fresh = await self._ensure_loaded(family)
        found = await self._match(family, digests)
        if found is None and not is_fresh:
            # Another gateway may have begun the session since the family was loaded.
            await self._load(family)
            found = await self._match(family, digests)
        if found is None:
            return await self._forked(self._begin(family, digests))
        if len(digests) > len(found.claimed):
            found.claimed = list(digests)
        return await self._forked(found)

    async def _match(self, family: _Family, digests: Sequence[bytes]) -> ProxySession | None:
        """Return the cached session that has most in common with a request, as its log has it now."""
        left = list(family.branches)
        while left:
            matching = [
                (common, place) for place, one in enumerate(left) if (common := one.matches(digests)) is not None
            ]
            if not matching:
                return None
            # Of two that match alike the newer one.
            found = left.pop(max(matching)[1])
            if not await self._read_on(found) or found.matches(digests) is not None:
                return found
        return None

    async def known(self, prefix: str, key: str, count: int) -> list[bytes] | None:
        """Return the digests of the first messages of a session; None if it does not have so many."""
        for one in (await self._family(prefix)).branches:
            if one.key == key:
                await self._read_on(one)
                if len(one.digests) >= count:
                    return [digest or b"" for digest in one.digests[:count]]
        return None

    async def branch(self, prefix: str, digests: Sequence[bytes]) -> ProxySession:
        """Return a new session, whichever others match."""
        return await self._forked(self._begin(await self._family(prefix), digests))

    async def _read_on(self, session: ProxySession) -> bool:
        """Bring a cached session up to date, and return whether another gateway has written to it."""
        known = await self._store.info(session.key)
        is_behind = known is not None and known.last_seq > session.until and not session.lock.locked()
        if is_behind:
            await refresh(self._store, session)
        return is_behind

    async def _forked(self, session: ProxySession) -> ProxySession:
        """Return a session once it has the history that it shares with an older one."""
        shared = session.shared
        if shared is None:
            return session
        async with session.lock:
            # Of two requests at once the first forks, and the other waits for it.
            if session.shared is not None:
                if await fork_shared(self._store, shared, session.key, self._bounds):
                    await refresh(self._store, session)
                session.shared = None
        return session

    def _begin(self, family: _Family, digests: Sequence[bytes]) -> ProxySession:
        family.count += 1
        key = family.prefix if family.count == 1 else f"{family.prefix}~{family.count}"
        begun = ProxySession(key, claimed=list(digests))
        changed = [SharedHistory(one.key, one.common(digests)) for one in family.branches if one.state.shows_changed]
        begun.shared = max(changed, key=lambda shared: shared.messages, default=None)
        family.branches = [*family.branches[-_BRANCHES_MAX + 1 :], begun]
        return begun

    async def _family(self, prefix: str) -> _Family:
        family = self._cached(prefix)
        await self._ensure_loaded(family)
        return family

    def _cached(self, prefix: str) -> _Family:
        family = self._families.get(prefix)
        if family is None:
            family = self._families[prefix] = _Family(prefix)
            while len(self._families) > _FAMILIES_MAX:
                self._families.popitem(last=False)
        self._families.move_to_end(prefix)
        return family

    async def _ensure_loaded(self, family: _Family) -> bool:
        """Read a family from the store at its first use, and return whether it was read now."""
        if family.is_loaded:
            return False
        async with family.lock:
            is_first = not family.is_loaded
            if is_first:
                await self._load(family)
                family.is_loaded = True
        return is_first

    async def _load(self, family: _Family) -> None:
        """Read those sessions of a family from the store that are not cached."""
        cached = {one.key for one in family.branches}
        numbered = await self._numbers(family)
        family.count = max([*numbered, family.count])
        for number in sorted(numbered)[-_BRANCHES_MAX:]:
            key = family.prefix if number == 1 else f"{family.prefix}~{number}"
            if key not in cached:
                session = ProxySession(key)
                await refresh(self._store, session)
                family.branches.append(session)
        del family.branches[:-_BRANCHES_MAX]

    async def _numbers(self, family: _Family) -> list[int]:
        """Return the numbers of a family's sessions in the store."""
        numbered: list[int] = [1] if await self._store.info(family.prefix) is not None else []
        after = family.prefix + "~"
        while page := await self._store.sessions(after=after, limit=_BRANCHES_MAX):
            own = [one.key for one in page if one.key.startswith(family.prefix + "~")]
            numbered += [int(tail) for key in own if (tail := key.removeprefix(family.prefix + "~")).isdecimal()]
            if len(own) < len(page) or len(page) < _BRANCHES_MAX:
                break
            after = own[-1]
        return numbered


async def refresh(store: Log, session: ProxySession) -> None:
    """Read the records after the cached state; all of them if the session was deleted since."""
    known = await store.info(session.key)
    if known is None or known.last_seq < session.until:
        session.digests, session.until, session.state = [], 0, Turn()
    if known is None:
        return
    found: dict[int, bytes | None] = {}
    until = session.until
    async for page in pages(store, session.key, after=until):
        until = page[-1].seq
        for logged in page:
            match logged.record:
                case InputAdmitted(origin=int() as origin, client_id=client_id):
                    found[origin] = bytes.fromhex(client_id)
                case ReplyRecorded(origin=int() as origin):
                    found[origin] = digest_of(client_message(logged.record))
                case ToolSettled(origin=int() as origin):
                    # The log has it truncated; its call identifies it.
                    found[origin] = None
                case _:
                    pass
    if found:
        # A repeated message replaces everything after it.
        kept = session.digests[: min(found)]
        session.digests = [*kept, *(found.get(place) for place in range(len(kept), max(found) + 1))]
    session.state = (await open_log(store, session.key)).turn
    session.until = min(session.state.seq, until)


async def history_of(store: Log, session: str, count: int) -> list[Message]:
    """Return the first messages of a conversation from its log, up to the first missing one."""
    found: dict[int, Message] = {}
    async for page in pages(store, session):
        for logged in page:
            match logged.record:
                case InputAdmitted(origin=int() as origin, parts=parts):
                    found[origin] = Message(Role.USER, parts)
                case ReplyRecorded(origin=int() as origin):
                    found[origin] = client_message(logged.record)
                case ToolSettled(origin=int() as origin, result=result):
                    before = found[origin].parts if origin in found else ()
                    found[origin] = Message(Role.TOOL, _joined(before, result))
                case _:
                    pass
    messages: list[Message] = []
    while len(messages) < count and len(messages) in found:
        messages.append(found[len(messages)])
    return messages


def _joined(before: Sequence[Part], result: ToolResult) -> tuple[Part, ...]:
    """Return the results of one message with another added; it replaces an earlier result of the same call."""
    others = [part for part in before if isinstance(part, ToolResult) and part.call_id != result.call_id]
    return (*others, result)


async def fork_shared(store: Log, shared: SharedHistory, key: str, bounds: Bounds) -> bool:
    """Fork a session from shared history, and return whether a compaction was carried over."""
    at = await _fork_point(store, shared)
    if at is None:
        return False
    try:
        await forked(store, shared.key, key, at=at, bounds=bounds)
    except (BadInputError, RetryLaterError):
        # The older one was deleted meanwhile, or another worker forked first; then everything is recorded as usual.
        return False
    return True


async def _fork_point(store: Log, shared: SharedHistory) -> int | None:
    """Return the last record before the message at which two histories differ, None if forking gains nothing."""
    point: int | None = None
    is_changed = False
    async for page in pages(store, shared.key):
        for logged in page:
            if _is_beyond(logged, shared.messages):
                return point
            is_changed = is_changed or isinstance(logged.record, _CHANGES_VIEW)
            if isinstance(logged.record, InputAdmitted):
                # Only between turns: one that is cut in the middle would have to be ended.
                point = logged.seq - 1 if is_changed else point
                if logged.record.origin == shared.messages:
                    # The first message that differs. It may have been asked again, which added copies of it.
                    return point
    return point


def _is_beyond(logged: Logged, messages: int) -> bool:
    """Return whether a record holds a message that is not shared. A user message may be the first that differs."""
    match logged.record:
        case InputAdmitted(origin=int() as origin):
            return origin > messages
        case ReplyRecorded(origin=int() as origin) | ToolSettled(origin=int() as origin):
            return origin >= messages
        case _:
            return False


def family_prefix(owner: str, digests: Sequence[bytes]) -> str:
    """Return the key prefix of a session that no header names."""
    return f"{DROPIN_MARK}{owner}-{digests[0].hex()[:16]}"
