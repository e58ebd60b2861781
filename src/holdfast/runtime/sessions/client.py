"""The public API: a store, models and tools at work, from which sessions are opened, listed, copied and deleted."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path

from holdfast.core.limits.bounds import RESERVED_KEYS, follows_a_client
from holdfast.ports import SessionInfo
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.maintenance.supervisor import Supervisor
from holdfast.runtime.sessions.admission import check_session_key
from holdfast.runtime.sessions.delete import SECONDS_PER_DAY, Deleted, DeletedAll, check_days, deleted, pruned
from holdfast.runtime.sessions.session import Session
from holdfast.runtime.sessions.transfer import Copied, exported, imported, lines_of, taken_as_it_is
from holdfast.runtime.tools.client_tools import check_declared
from holdfast.types.messages import ToolSpec
from holdfast.types.records import Logged, SessionConfigured


class Client:
    """A store with its sessions, open. Get one from `holdfast.open()`."""

    def __init__(self, engine: Engine, supervisor: Supervisor) -> None:
        self._engine = engine
        self._supervisor = supervisor

    @property
    def engine(self) -> Engine:
        """What its sessions are worked on with, for other faces of the same store."""
        return self._engine

    async def session(
        self,
        key: str,
        *,
        model: str | None = None,
        system: str | None = None,
        tools: Sequence[ToolSpec] | None = None,
    ) -> Session:
        """Return the session under a key, such as "telegram:42". It exists from its first message on.

        `model`, `system` and `tools` are kept with the session: whoever resumes it, now or after a crash, uses them
        too. Left out, they stay as they are. `tools` are those that a client runs itself: their calls are records in
        the log, and `submit` brings the results.
        """
        check_session_key(key, bounds=self._engine.bounds)
        if tools is not None:
            check_declared(tools, self._engine.toolbox, self._engine.bounds)
        if model is not None:
            # A model that cannot be used is refused here, before anything is stored.
            self._engine.models(model)
        if model is not None or system is not None or tools is not None:
            await self._configure(key, model, system, tools)
        return Session(key, self._engine, self._supervisor)

    async def sessions(self, *, after: str = "", limit: int = 100) -> list[SessionInfo]:
        """Return what is known of the sessions in this store, in order of their keys, those behind `after`."""
        found: list[SessionInfo] = []
        while len(found) < limit and (page := await self._engine.store.sessions(after=after, limit=limit)):
            found += [known for known in page if not known.key.startswith(RESERVED_KEYS)]
            after = page[-1].key
        return found[:limit]

    async def owing(self) -> int:
        """Return how many sessions owe an outcome."""
        return sum(not follows_a_client(session) for session in await self._engine.store.pending())

    def working(self) -> tuple[str, ...]:
        """Return the sessions that this process works on now, or waits for: by their keys, in no order."""
        return self._supervisor.attending

    def export(self, key: str) -> AsyncGenerator[bytes, None]:
        """Yield a session as the lines of one file: records as they were written, with the blobs that they name."""
        check_session_key(key, bounds=self._engine.bounds)
        return exported(self._engine.store, self._engine.blobs, key)

    async def import_(
        self,
        source: Path | AsyncIterator[bytes],
        *,
        key: str | None = None,
        check: Callable[[Logged], None] = taken_as_it_is,
    ) -> Copied:
        """Make a session of an exported file, or of its lines, under its own key or another: all of it, or nothing.

        `check` is shown every record first; where it raises, nothing is imported.
        """
        self._supervisor.check_running()
        if key is not None:
            check_session_key(key, bounds=self._engine.bounds)
        store, blobs, bounds = self._engine.store, self._engine.blobs, self._engine.bounds
        if not isinstance(source, Path):
            return await imported(source, store, blobs, key=key, bounds=bounds, check=check)
        async with aclosing(lines_of(source)) as lines:
            return await imported(lines, store, blobs, key=key, bounds=bounds, check=check)

    async def delete(self, key: str, *, force: bool = False) -> Deleted:
        """Remove a session for good: its records, also archived ones, and the blobs that it alone names.

        Raises `RetryLaterError` while somebody works on it, and `StoreDamagedError` where its log is not clean, unless
        forced: what is left of a damaged log may be all there is.
        """
        self._supervisor.check_running()
        check_session_key(key, bounds=self._engine.bounds)
        return await deleted(self._engine.store, self._engine.blobs, self._engine.archive, key, force=force)

    async def prune(self, *, days: float) -> DeletedAll:
        """Remove for good every session that nobody has touched for so many days, as `delete` does, in one go.

        One with an open turn stays, and so does one that somebody works on or that is damaged; the result says why.
        """
        self._supervisor.check_running()
        engine, since = self._engine, self._engine.clock.now() - check_days(days) * SECONDS_PER_DAY
        return await pruned(engine.store, engine.blobs, engine.archive, since=since)

    async def _configure(
        self, key: str, model: str | None, system: str | None, tools: Sequence[ToolSpec] | None
    ) -> None:
        turn = (await open_log(self._engine.store, key)).turn
        wanted = SessionConfigured(
            model=turn.model if model is None else model,
            system=turn.system if system is None else system,
            tools=turn.tools if tools is None else tuple(tools),
        )
        # Whoever configures a session makes it, even with nothing to say.
        if turn.seq == 0 or wanted != SessionConfigured(turn.model, turn.system, turn.tools):
            await self._engine.store.admit(key, wanted)
