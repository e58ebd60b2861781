"""Links from provider response ids to the sessions that hold the responses, and their removal.

Links are stored in logs of their own, each shared by many sessions, and a log is append-only. The links to a deleted
session are removed by a rewrite: the log is renamed to a side key that is still read, the remaining links are appended
to a new log, and the side log is deleted. If a process dies in between, every remaining link is in one of the two logs,
and the next deletion continues.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import suppress

import msgspec

from holdfast.core.limits.bounds import RESERVED_KEYS, is_proxy_session
from holdfast.errors import LeaseLostError, RetryLaterError
from holdfast.ports import Lease, Log, SessionAdmin
from holdfast.runtime.engine.log import pages
from holdfast.runtime.sessions.transfer import exclusive_lease
from holdfast.types.records import AnswerLinked

ANSWERS_KEY = RESERVED_KEYS + "answers:"
# Hex digits of a response's digest that select its log: with a million responses each log has four thousand links, read
# in some ten milliseconds.
_LOG_DIGITS = 2
_ASIDE = ".aside"
# Links appended concurrently: a store groups them into one sync.
_AT_ONCE = 200
# Logs in one page of the store's list. There are at most two per value of the digits.
_PAGE = 1_000


def log_of(answer: str) -> str:
    """Return the key of the log that holds the link of a response."""
    return ANSWERS_KEY + answer[:_LOG_DIGITS]


async def links_in(store: Log, log: str) -> AsyncIterator[AnswerLinked]:
    """Yield the links of a log, oldest first, including those of its side log during a rewrite."""
    for key in (log + _ASIDE, log):
        async for link in _links_of(store, key):
            yield link


async def unlink(store: SessionAdmin, gone: Collection[str]) -> int:
    """Remove the links to deleted sessions and return their number. Also finishes rewrites of dead processes.

    A log that another process holds is left to the next deletion.
    """
    if not any(is_proxy_session(session) for session in gone):
        return 0
    dead = _DeadSessions(store, gone)
    logs = await _logs(store)
    removed = await _dead_links(store, logs, dead)
    if not removed and not any([await store.info(log + _ASIDE) for log in logs]):
        return 0
    for log in logs:
        await _inherit_instructions(store, log, removed, dead)
    for log in logs:
        with suppress(RetryLaterError, LeaseLostError):
            await _rewrite(store, log, dead)
    return len(removed)


async def _dead_links(store: Log, logs: Sequence[str], dead: "_DeadSessions") -> dict[str, AnswerLinked]:
    """Return the links to deleted sessions, by response."""
    found: dict[str, AnswerLinked] = {}
    for log in logs:
        async for link in links_in(store, log):
            if await dead.has(link.session):
                found[link.answer] = link
    return found


class _DeadSessions:
    """The sessions that were just deleted or do not exist. A link without a session names only the owner of an id."""

    def __init__(self, store: Log, gone: Collection[str]) -> None:
        self._store = store
        self._known = {**dict.fromkeys(gone, True), "": False}

    async def has(self, session: str) -> bool:
        if session not in self._known:
            self._known[session] = await self._store.info(session) is None
        return self._known[session]


async def _logs(store: Log) -> list[str]:
    """Return the keys of all link logs."""
    found = await store.sessions(after=ANSWERS_KEY, limit=_PAGE)
    names = [known.key.removesuffix(_ASIDE) for known in found if known.key.startswith(ANSWERS_KEY)]
    return list(dict.fromkeys(names))


async def _inherit_instructions(store: Log, log: str, removed: dict[str, AnswerLinked], dead: _DeadSessions) -> None:
    """Copy instructions from removed links into the remaining links that refer to them, as forked conversations do."""
    newest = {link.answer: link async for link in links_in(store, log)}
    for link in newest.values():
        source = removed.get(link.instructions_of)
        if source is not None and not await dead.has(link.session):
            own = msgspec.structs.replace(link, instructions=source.instructions, instructions_of="")
            await store.admit(log, own)


async def _rewrite(store: SessionAdmin, log: str, dead: _DeadSessions) -> None:
    """Rewrite a log without the links to deleted sessions."""
    lease = await _set_aside(store, log, dead)
    if lease is None:
        return
    newer = {link.answer async for link in _links_of(store, log)}
    remaining = {
        link.answer: link
        async for link in _links_of(store, log + _ASIDE)
        if link.answer not in newer and not await dead.has(link.session)
    }
    links = list(remaining.values())
    for first in range(0, len(links), _AT_ONCE):
        await asyncio.gather(*(store.admit(log, link) for link in links[first : first + _AT_ONCE]))
    await store.delete(lease)


async def _set_aside(store: SessionAdmin, log: str, dead: _DeadSessions) -> Lease | None:
    """Rename a log to its side key and return the lease of it; None if no link is to be removed."""
    if await store.info(log + _ASIDE) is not None:
        return await exclusive_lease(store, log + _ASIDE)
    if not any([await dead.has(link.session) async for link in links_in(store, log)]):
        return None
    lease = await exclusive_lease(store, log)
    try:
        return await store.rename(lease, log + _ASIDE)
    except BaseException:
        await store.release(lease)
        raise


async def _links_of(store: Log, key: str) -> AsyncIterator[AnswerLinked]:
    async for page in pages(store, key):
        for logged in page:
            if isinstance(logged.record, AnswerLinked):
                yield logged.record
