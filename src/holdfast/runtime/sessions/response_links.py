"""Links from the names that providers give answers to the sessions that hold them: where they are, and how they go.

They are in logs of their own, many sessions in each, and a log is never changed. So links to a session that was deleted
are left out of a copy: the log is set aside under a name that is still read, what stays is written anew, and then what
was set aside goes. A process that dies on the way leaves all that stays in one of the two; the next deletion goes on.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import suppress

import msgspec

from holdfast.core.limits.bounds import RESERVED_KEYS, follows_a_client
from holdfast.errors import LeaseLostError, RetryLaterError
from holdfast.ports import Lease, Log, SessionAdmin
from holdfast.runtime.engine.log import pages
from holdfast.runtime.sessions.transfer import leased
from holdfast.types.records import AnswerLinked

ANSWERS_KEY = RESERVED_KEYS + "answers:"
# Logs that links are spread over, by digits of an answer's digest: of a million answers each has four thousand, read in
# some ten milliseconds.
_LOG_DIGITS = 2
_ASIDE = ".aside"
# Links that are written anew at once: a store gathers them into one sync.
_AT_ONCE = 200
# Logs in one page of the store's list; there are twice as many at most as digits have values.
_PAGE = 1_000


def log_of(answer: str) -> str:
    """Return the log that a link is written to."""
    return ANSWERS_KEY + answer[:_LOG_DIGITS]


async def links_in(store: Log, log: str) -> AsyncIterator[AnswerLinked]:
    """Yield the links of a log, oldest first; also those that were set aside while others are taken out."""
    for key in (log + _ASIDE, log):
        async for link in _plain(store, key):
            yield link


async def unlink(store: SessionAdmin, gone: Collection[str]) -> int:
    """Remove the links to sessions that were deleted, and return how many; also what an earlier process left.

    A log that another process works on is left to the next deletion.
    """
    if not any(follows_a_client(session) for session in gone):
        return 0
    dead = _Dead(store, gone)
    logs = [log async for log in _logs(store)]
    removed: dict[str, AnswerLinked] = {}
    for log in logs:
        async for link in links_in(store, log):
            if await dead.has(link.session):
                removed[link.answer] = link
    if not removed and not any([await store.info(log + _ASIDE) for log in logs]):
        return 0
    for log in logs:
        await _inherit(store, log, removed, dead)
    for log in logs:
        with suppress(RetryLaterError, LeaseLostError):
            await _rewrite(store, log, dead)
    return len(removed)


class _Dead:
    """Which sessions are gone: those that were just deleted, and those that are not there."""

    def __init__(self, store: Log, gone: Collection[str]) -> None:
        self._store = store
        self._known = dict.fromkeys(gone, True)

    async def has(self, session: str) -> bool:
        if session not in self._known:
            self._known[session] = await self._store.info(session) is None
        return self._known[session]


async def _logs(store: Log) -> AsyncGenerator[str, None]:
    """Yield the logs that have links, each once."""
    found = await store.sessions(after=ANSWERS_KEY, limit=_PAGE)
    names = [known.key.removesuffix(_ASIDE) for known in found if known.key.startswith(ANSWERS_KEY)]
    for log in dict.fromkeys(names):
        yield log


async def _inherit(store: Log, log: str, removed: dict[str, AnswerLinked], dead: _Dead) -> None:
    """Give links that stay the instructions that stand in one that goes: two conversations may have one past."""
    newest = {link.answer: link async for link in links_in(store, log)}
    for link in newest.values():
        source = removed.get(link.instructions_of)
        if source is not None and not await dead.has(link.session):
            own = msgspec.structs.replace(link, instructions=source.instructions, instructions_of="")
            await store.admit(log, own)


async def _rewrite(store: SessionAdmin, log: str, dead: _Dead) -> None:
    """Leave out of a log what leads nowhere."""
    lease = await _set_aside(store, log, dead)
    if lease is None:
        return
    newer = {link.answer async for link in _plain(store, log)}
    kept = {
        link.answer: link
        async for link in _plain(store, log + _ASIDE)
        if link.answer not in newer and not await dead.has(link.session)
    }
    staying = list(kept.values())
    for first in range(0, len(staying), _AT_ONCE):
        await asyncio.gather(*(store.admit(log, link) for link in staying[first : first + _AT_ONCE]))
    await store.delete(lease)


async def _set_aside(store: SessionAdmin, log: str, dead: _Dead) -> Lease | None:
    """Return the lease of what is set aside of a log; None where all of it stays."""
    if await store.info(log + _ASIDE) is not None:
        return await leased(store, log + _ASIDE)
    if not any([await dead.has(link.session) async for link in links_in(store, log)]):
        return None
    lease = await leased(store, log)
    try:
        return await store.rename(lease, log + _ASIDE)
    except BaseException:
        await store.release(lease)
        raise


async def _plain(store: Log, key: str) -> AsyncIterator[AnswerLinked]:
    async for page in pages(store, key):
        for logged in page:
            if isinstance(logged.record, AnswerLinked):
                yield logged.record
