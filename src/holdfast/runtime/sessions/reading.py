"""Reads of a session: its records, its state, its view, and what it used."""

from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.prices import Spent
from holdfast.core.view import origins_in_view
from holdfast.errors import BadInputError
from holdfast.ports import Hit, SessionInfo
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.log import open_end, open_log, open_state
from holdfast.runtime.engine.requests import prepare, sizes_at_least
from holdfast.runtime.sessions.view import Context, View
from holdfast.runtime.tools.recall import Page, Recall, search_shown
from holdfast.types.records import Logged


class Reading:
    """Sessions as callers read them. Nothing here writes."""

    key: str
    _engine: Engine

    async def history(self, *, after: int = 0, limit: int = 100) -> list[Logged]:
        """Return the records of this session after the seq `after`."""
        return await self._engine.store.read(self.key, after=after, limit=limit)

    async def search(self, query: str, *, limit: int = 10) -> list[Hit]:
        """Return the messages and tool steps that match a query best, also those outside the view.

        A query is words, a path, a name or an id; `read` returns the record of a hit.
        """
        return await search_shown(self._engine.store, self.key, query, limit=limit)

    async def read(self, seq: int) -> Logged:
        """Return one record."""
        found = await self._engine.store.read(self.key, after=seq - 1, limit=1) if seq > 0 else []
        if not found:
            raise BadInputError(f"session {self.key!r} has no record {seq}; records are numbered from 1")
        return found[0]

    async def recall(self, *, seq: int = 0, blob: str = "", offset: int = 0) -> Page:
        """Return a page of the text of a record, with truncated output and long messages in full, or of a blob.

        The next page begins at `end`; the last page has `end` equal to `total`. The model has the same as a tool.
        """
        if (seq > 0) == bool(blob.strip()) or seq < 0 or offset < 0:
            raise BadInputError("give either the seq of a record or the beginning of a blob's id")
        reader = Recall(self._engine.store, self._engine.blobs, self._engine.bounds)
        return await reader.read(self.key, seq=seq, blob=blob, offset=offset)

    async def known(self) -> SessionInfo | None:
        """Return information on this session without reading its log; None before its first record."""
        return await self._engine.store.info(self.key)

    async def state(self) -> Turn:
        """Return the folded state of this session: waiting inputs, work in flight and settings."""
        return await open_state(self._engine.store, self.key)

    async def view(self, *, records_max: int | None = None, before: int = 0, state: Turn | None = None) -> View:
        """Return the next request as the model would see it.

        With `records_max` its messages are made of at most so many records: the last, or those before the seq `before`;
        and its sizes are at least those of the newest request. `state` is the current one, if it is known.
        """
        if records_max is None:
            log = await open_log(self._engine.store, self.key)
        else:
            turn = state or await open_state(self._engine.store, self.key)
            log = await open_end(self._engine.store, self.key, records_max=records_max, turn=turn, before=before)
        first = log.tail[0].seq if log.tail else log.turn.seq + 1
        is_whole = records_max is None or (first <= max(log.turn.boundary, 1) and not before)
        known = await self._engine.learning.known(self._engine.models(log.turn.model)[0])
        prepared = prepare(log, self._engine, known)
        sizes = prepared.sizes if is_whole else sizes_at_least(prepared.sizes, log.turn)
        origins = origins_in_view(log.tail, log.turn, pinned=log.pinned)
        return View(
            system=prepared.request.system,
            messages=prepared.request.messages,
            tokens_estimated=known.calibration.estimate(sizes.tokens),
            wire_bytes_estimated=sizes.wire_bytes,
            window_tokens=known.limits.window_tokens,
            boundary=log.turn.boundary,
            generation=log.turn.generation,
            sizes=sizes,
            limits=known.limits,
            tools=prepared.request.tools,
            spent=log.turn.spent,
            spent_on_notes=log.turn.spent_on_notes,
            first=first,
            is_whole=is_whole,
            # Instructions of a proxied client come first.
            origins=(0,) * (len(prepared.request.messages) - len(origins)) + origins,
        )

    async def generation(self) -> int:
        """Return the generation of the view: 1 before the first roll-over. The log has all generations."""
        return (await open_state(self._engine.store, self.key)).generation

    async def context(self, *, max_tokens: int | None = None, dialect: str | None = None) -> Context:
        """Return what the model would be shown now, for a caller that makes its own model calls. Nothing is written.

        With `max_tokens` older messages are represented by a digest until the rest fits. `dialect` adds the request in
        a provider's API: "openai-chat", "openai-responses", "anthropic" or "gemini".
        """
        from holdfast.runtime.sessions.context import context_of  # noqa: PLC0415 - loaded when it is used

        if max_tokens is not None and max_tokens < 1:
            raise BadInputError(f"max_tokens={max_tokens} leaves no room; use a positive number")
        log = await open_log(self._engine.store, self.key)
        return await context_of(log, self._engine, max_tokens=max_tokens, dialect=dialect)

    async def usage(self) -> Spent:
        """Return the calls and tokens of this session so far, with those of its summaries, and their cost."""
        return (await open_state(self._engine.store, self.key)).spent

    async def cost(self) -> float | None:
        """Return the cost of this session so far in US dollars; None if no call has a known price."""
        return (await self.usage()).known_usd
