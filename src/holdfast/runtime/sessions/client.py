"""The public client: open, list, copy and delete the sessions of a store."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from holdfast.core.limits.bounds import RESERVED_KEYS, is_proxy_session
from holdfast.core.limits.settings import checked_settings
from holdfast.errors import BadInputError
from holdfast.models.reference import Model
from holdfast.ports import ListedSession, SessionFilter, SessionInfo, SessionOrder, SessionPage, Tool
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.maintenance.supervisor import Supervisor
from holdfast.runtime.memory.notes import Memory
from holdfast.runtime.sessions.admission import check_session_key
from holdfast.runtime.sessions.delete import (
    SECONDS_PER_DAY,
    Deleted,
    DeletedAll,
    check_days,
    delete_session,
    prune_sessions,
)
from holdfast.runtime.sessions.labels import list_sessions
from holdfast.runtime.sessions.session import Session
from holdfast.runtime.sessions.transfer import Copied, accept_any, export_session, import_lines, lines_of
from holdfast.runtime.tools.client_tools import check_declared
from holdfast.types.messages import BlobRef, ToolSpec
from holdfast.types.records import Logged, SessionConfigured
from holdfast.types.settings import Settings


class Client:
    """An open store with its sessions. Get one from `holdfast.open()`."""

    def __init__(self, engine: Engine, supervisor: Supervisor) -> None:
        self._engine = engine
        self._supervisor = supervisor
        self._closers: list[Callable[[], Awaitable[None]]] = []

    def at_close(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run work before the client is closed, for other interfaces to the same store."""
        self._closers.append(work)

    async def close_interfaces(self) -> None:
        """Run the work of `at_close`, newest first."""
        while self._closers:
            await self._closers.pop()()

    @property
    def engine(self) -> Engine:
        """The engine of its sessions, for other interfaces to the same store."""
        return self._engine

    async def session(
        self,
        key: str,
        *,
        model: str | Model | None = None,
        system: str | None = None,
        tools: Sequence[ToolSpec | Tool | Callable[..., object] | str] | None = None,
        settings: Settings | None = None,
    ) -> Session:
        """Return the session under a key, such as "telegram:42". It exists from its first message on.

        `model`, `system`, `tools` and `settings` are stored with the session, and every process that resumes it uses
        them. Omitted, they stay unchanged. `tools` are those of this session: functions, names of tools given to
        `open`, and `ToolSpec`s of tools that the client runs itself, whose calls are records in the log and whose
        results `submit` returns. With functions or names the session has only these tools of the process. Of a function
        and of a `holdfast.Model` only the name is stored: pass them here or to `open` in every process that works on
        the session.
        """
        check_session_key(key, bounds=self._engine.bounds)
        given = self._tools_given(tools) if tools is not None else {}
        if model is not None:
            # Raises for an unknown model before anything is stored.
            self._engine.models(model)
            given["model"] = model.name if isinstance(model, Model) else model
        if system is not None:
            given["system"] = system
        if settings is not None:
            given["settings"] = checked_settings(settings)
        if given:
            await self._configure(key, given)
        return Session(key, self._engine, self._supervisor)

    def _tools_given(self, tools: Sequence[ToolSpec | Tool | Callable[..., object] | str]) -> dict[str, object]:
        """Return the fields of a configuration for tools: those of the client, and names of those of the process."""
        specs = [one for one in tools if isinstance(one, ToolSpec)]
        check_declared(specs, self._engine.toolbox, self._engine.bounds)
        names = {self._tool_name(one) for one in tools if not isinstance(one, ToolSpec)}
        # A client that declares tools of its own leaves the set of the process as it is.
        return {"tools": tuple(specs), **({"tool_names": tuple(sorted(names))} if names else {})}

    def _tool_name(self, given: Tool | Callable[..., object] | str) -> str:
        toolbox = self._engine.toolbox
        if not isinstance(given, str):
            return toolbox.offer(given)
        if not toolbox.has(given, (given,)):
            raise BadInputError(f"there is no tool named {given[:80]!r}; pass it to `open` or here as a function")
        return given

    async def blob(self, sha256: str) -> bytes:
        """Return the bytes of a blob, such as an attachment or the full output of a tool, by its SHA-256.

        Raises `BlobMissingError` if there is none.
        """
        return await self._engine.blobs.get(BlobRef(sha256, 0))

    async def sessions(  # noqa: PLR0913 - each filter is one
        self,
        *,
        after: str = "",
        limit: int = 100,
        text: str = "",
        tags: Sequence[str] = (),
        model: str = "",
        state: Literal["", "idle", "working"] = "",
        order: Literal["key", "recent"] = "key",
    ) -> list[ListedSession]:
        """Return sessions of this store with their labels, ordered by key or with the newest change first.

        `text` is in the title, the key or a tag, in any case. A session has all of the `tags`, and was configured with
        the `model`. `working` sessions have a message or a request without an outcome, `idle` ones have none. In key
        order the next page begins after the key of the last session, else after its `cursor`.
        """
        is_pending = {"": None, "idle": False, "working": True}
        if state not in is_pending or order not in tuple(SessionOrder):
            raise BadInputError(f"there is no state {state!r} or order {order!r}; use idle or working, key or recent")
        wanted = SessionFilter(
            text=text,
            tags=tuple(tags),
            model=model,
            is_pending=is_pending[state],
            prefixes_left_out=(RESERVED_KEYS,),
        )
        found: list[ListedSession] = []
        start: str | None = after
        while start is not None and len(found) < limit:
            page = await self.session_page(wanted, order=SessionOrder(order), after=start, limit=limit - len(found))
            found, start = [*found, *page.sessions], page.next
        return found

    async def session_page(
        self, wanted: SessionFilter, *, order: SessionOrder = SessionOrder.KEY, after: str = "", limit: int = 100
    ) -> SessionPage:
        """Return one page of sessions, and where the next one begins. Reads a bounded number of rows."""
        return await list_sessions(self._engine.store, wanted, order=order, after=after, limit=limit)

    async def session_infos(self, *, after: str = "", limit: int = 100) -> list[SessionInfo]:
        """Return the sessions of this store with keys after `after`, ordered by key, without their labels."""
        found: list[SessionInfo] = []
        while len(found) < limit and (page := await self._engine.store.sessions(after=after, limit=limit)):
            found += [known for known in page if not known.key.startswith(RESERVED_KEYS)]
            after = page[-1].key
        return found[:limit]

    def memory(self, scope: str) -> Memory:
        """Return the long-term memory of a scope, such as "user:42": notes that the sessions of the scope share."""
        return Memory(scope, self._engine)

    async def pending(self) -> int:
        """Return the number of sessions with pending work."""
        return sum(not is_proxy_session(session) for session in await self._engine.store.pending())

    def working(self) -> tuple[str, ...]:
        """Return the keys of the sessions that this process works on now or waits for, in no order."""
        return self._supervisor.active

    def export(self, key: str) -> AsyncGenerator[bytes, None]:
        """Yield the lines of an export of a session: its records as they were written, and the blobs they name."""
        check_session_key(key, bounds=self._engine.bounds)
        return export_session(self._engine.store, self._engine.blobs, key)

    async def import_(
        self,
        source: Path | AsyncIterator[bytes],
        *,
        key: str | None = None,
        check: Callable[[Logged], None] = accept_any,
    ) -> Copied:
        """Create a session from an export file, or its lines, under its own key or another: completely or not at all.

        `check` is called with every record first; if it raises, nothing is imported.
        """
        self._supervisor.check_running()
        if key is not None:
            check_session_key(key, bounds=self._engine.bounds)
        store, blobs, bounds = self._engine.store, self._engine.blobs, self._engine.bounds
        if not isinstance(source, Path):
            return await import_lines(source, store, blobs, key=key, bounds=bounds, check=check)
        async with aclosing(lines_of(source)) as lines:
            return await import_lines(lines, store, blobs, key=key, bounds=bounds, check=check)

    async def delete(self, key: str, *, force: bool = False) -> Deleted:
        """Delete a session: its records, including archived ones, and the blobs that only it names.

        Raises `RetryLaterError` while a worker holds it, and `StoreDamagedError` if its log is damaged, unless forced:
        the rest of a damaged log may be the only copy.
        """
        self._supervisor.check_running()
        check_session_key(key, bounds=self._engine.bounds)
        return await delete_session(self._engine.store, self._engine.blobs, self._engine.archive, key, force=force)

    async def prune(self, *, days: float) -> DeletedAll:
        """Delete every session that was not used for this many days.

        A session that has an open turn, is in use or is damaged stays; the result gives the reason.
        """
        self._supervisor.check_running()
        engine, since = self._engine, self._engine.clock.now() - check_days(days) * SECONDS_PER_DAY
        return await prune_sessions(engine.store, engine.blobs, engine.archive, since=since)

    async def _configure(self, key: str, given: Mapping[str, object]) -> None:
        """Record a change of the configuration; fields that are not given stay unchanged."""
        turn = (await open_log(self._engine.store, key)).turn
        before = SessionConfigured(turn.model, turn.system, turn.tools, turn.settings, turn.tool_names)
        wanted = replace(before, **given)
        # Configuring creates a session, even with default settings.
        if turn.seq == 0 or wanted != before:
            await self._engine.store.admit(key, wanted)
