"""Who works on which session in this process: leases, start, and a shutdown that hands the work over.

Waking a session is all it takes to get it going: on the first message, on the next, and at the start for whatever a
dead process left owing. Starting is recovering.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from holdfast.core.limits.bounds import follows_a_client
from holdfast.errors import HoldfastError, InternalError, LeaseLostError, StoppingError, StoreFullError
from holdfast.ports import Lease, SessionInfo
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.engine.runner import open_runner
from holdfast.runtime.maintenance.sealing import Sealer
from holdfast.runtime.sessions.delete import SECONDS_PER_DAY, pruned

log = logging.getLogger(__name__)

# A worker that is gone without a trace holds its session for so long. Three renewals fit in, so that one or two that
# come late on a busy machine do not cost the lease.
LEASE_SECONDS = 30.0
_RENEWALS_PER_LEASE = 3
# How often a session that another worker holds is asked for. It is answered there; this is for when that worker dies.
_LEASE_POLL_SECONDS = 0.25
# How often a process looks for work whose owner has died elsewhere. A lease that ran out waits this long at most, and
# with short leases less: work whose owner dies goes on elsewhere within two of them.
_WATCH_SECONDS = 10.0
# Sessions that are looked at then for old records to seal: a store of 10,000 is gone through in an hour and a half, and
# a look costs a millisecond.
_SESSIONS_PER_LOOK = 20
# How often a process looks for sessions to remove that nobody has touched for days, and how many it removes then; where
# there are more, it goes on with the next look. Which blobs go is found out once for all of them.
_PRUNE_SECONDS = 3_600.0
_PRUNED_AT_ONCE = 100
_STOPPING = "this Holdfast is closing; what was accepted is kept and goes on at the next start"


class Supervisor:
    """Runs one runner per session that owes something, and keeps its lease."""

    def __init__(self, engine: Engine, *, owner: str, lease_seconds: float = LEASE_SECONDS) -> None:
        self._engine = engine
        self._sealer = Sealer(engine)
        self._owner = owner
        self._lease_seconds = lease_seconds
        self._attending: dict[str, asyncio.Task[None]] = {}
        # Sessions that were woken again while somebody was already busy with them.
        self._woken: set[str] = set()
        self._is_stopping = False
        # The last session that was looked at for old records.
        self._looked_at = ""
        self._watchdog: asyncio.Task[None] | None = None
        self._pruning: asyncio.Task[None] | None = None
        self._next_prune = 0.0

    async def start(self) -> None:
        """Resume every session that owes an outcome, and from now on those whose owner dies elsewhere."""
        for session in await self._owing():
            self.wake(session)
        self._watchdog = asyncio.create_task(self._watch(), name="watchdog")

    async def _owing(self) -> list[str]:
        """Return the sessions to be worked on; those that follow a client wait for it."""
        return [session for session in await self._engine.store.pending() if not follows_a_client(session)]

    async def _watch(self) -> None:
        """Find work without a living owner, again and again, and take it over."""
        pause_seconds = min(_WATCH_SECONDS, self._lease_seconds / _RENEWALS_PER_LEASE)
        while True:
            await self._engine.clock.sleep(pause_seconds)
            try:
                for session in await self._owing():
                    if session not in self._attending:
                        self._attend_to(session, partial(self._work_off, session, is_patient=False))
                await self._look_for_old_records()
                self._prune_if_due()
            except HoldfastError as error:
                log.warning("the watchdog could not look", extra={"code": error.code, "reason": str(error)})

    async def _look_for_old_records(self) -> None:
        """Look at the next few sessions, and seal what is due in those that nobody works on."""
        page = await self._engine.store.sessions(after=self._looked_at, limit=_SESSIONS_PER_LOOK)
        self._looked_at = page[-1].key if len(page) == _SESSIONS_PER_LOOK else ""
        for known in page:
            if await self._sealer.is_worth_opening(known) and known.key not in self._attending:
                self._attend_to(known.key, partial(self._seal, known.key))

    def _prune_if_due(self) -> None:
        """Begin to remove what nobody has touched for long, where that is wanted and nothing else is to be done here.

        Beside the watchdog: whoever waits for work that a dead process left does not wait for this.
        """
        days, now = self._engine.retention_days, self._engine.clock.now()
        if days is None or self._attending or self._pruning is not None or now < self._next_prune:
            return
        self._next_prune = now + _PRUNE_SECONDS
        self._pruning = asyncio.create_task(self._prune(now - days * SECONDS_PER_DAY), name="prune")

    async def _prune(self, since: float) -> None:
        engine = self._engine
        try:
            gone = await pruned(engine.store, engine.blobs, engine.archive, since=since, sessions_max=_PRUNED_AT_ONCE)
        except HoldfastError as error:
            log.warning("untouched sessions could not be removed", extra={"code": error.code, "reason": str(error)})
        else:
            if gone.sessions:
                fields = {"sessions": len(gone.sessions), "records": gone.records, "blobs": gone.blobs}
                log.info("untouched sessions were removed", extra=fields)
            if len(gone.sessions) == _PRUNED_AT_ONCE:
                self._next_prune = 0.0
        finally:
            self._pruning = None

    @property
    def attending(self) -> tuple[str, ...]:
        """The sessions that this process is busy with."""
        return tuple(self._attending)

    def wake(self, session: str) -> None:
        """See to it that whatever this session owes is worked on, here or by whoever holds its lease."""
        self._woken.add(session)
        if session not in self._attending and not self._is_stopping:
            self._attend_to(session, partial(self._work_off, session, is_patient=True))

    def _attend_to(self, session: str, work: Callable[[], Awaitable[None]]) -> None:
        self._attending[session] = asyncio.create_task(self._attend(session, work), name=f"attend {session}")

    async def stop(self, *, grace_seconds: float) -> None:
        """Let running turns end for a while, then leave them to the next start, which closes what was in flight."""
        self._is_stopping = True
        # A deletion that is cut off is finished by the next.
        for task in (self._watchdog, self._pruning):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        if tasks := list(self._attending.values()):
            await asyncio.wait(tasks, timeout=grace_seconds)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        self._engine.live.end(StoppingError(_STOPPING))

    def check_running(self) -> None:
        """Raise where no more work is taken."""
        if self._is_stopping:
            raise StoppingError(_STOPPING)

    async def _attend(self, session: str, work: Callable[[], Awaitable[None]]) -> None:
        """Work on a session for as long as it is woken again."""
        try:
            await work()
            while session in self._woken:
                await self._work_off(session, is_patient=True)
        except Exception as error:  # noqa: BLE001 - one session's failure must not stop the others
            self._report(session, error)
        finally:
            del self._attending[session]

    def _report(self, session: str, error: Exception) -> None:
        """Tell everyone who waits for this session that nobody works on it any more, and why."""
        cause = _cause(error)
        if not isinstance(cause, HoldfastError):
            cause = InternalError(session, cause)
            log.error("session stopped", extra={"session": session, "code": cause.code}, exc_info=error)
        else:
            log.error("session stopped", extra={"session": session, "code": cause.code, "reason": str(cause)})
        self._engine.live.publish(session, cause)

    async def _work_off(self, session: str, *, is_patient: bool) -> None:
        """Work on a session until it owes nothing. Where another holds it, wait if patient, else leave it to them."""
        self._woken.discard(session)
        store = self._engine.store
        while (known := await store.info(session)) is not None and known.owed > 0:
            lease = await store.acquire(session, self._owner, seconds=self._lease_seconds)
            if lease is None and not is_patient:
                return
            if lease is None:
                await self._engine.clock.sleep(_LEASE_POLL_SECONDS)
                continue
            await self._under(lease, partial(self._run, known=known))

    async def _seal(self, session: str) -> None:
        """Seal what is due in a session at rest, unless another works on it."""
        lease = await self._engine.store.acquire(session, self._owner, seconds=self._lease_seconds)
        if lease is not None:
            await self._under(lease, self._seal_behind)

    async def _run(self, lease: Lease, *, known: SessionInfo) -> None:
        runner = await open_runner(lease, self._engine, known)
        await runner.run()
        # Nobody waits any more, and whoever comes meanwhile does not have to.
        await self._sealer.seal_behind(lease, runner.log)

    async def _seal_behind(self, lease: Lease) -> None:
        await self._sealer.seal_behind(lease, await open_log(self._engine.store, lease.session))

    async def _under(self, lease: Lease, work: Callable[[Lease], Awaitable[None]]) -> None:
        """Work under a lease, keeping it as long as the work lasts."""
        try:
            async with asyncio.TaskGroup() as group:
                keeper = group.create_task(self._keep(lease))
                await work(lease)
                keeper.cancel()
        except* LeaseLostError as lost:
            # Another worker took over while this one was held up. It goes on where the log stands; nothing is lost.
            fields = {"session": lease.session, "fence": lease.fence, "writes_refused": len(lost.exceptions)}
            log.warning("lease lost", extra=fields)
        finally:
            # On a full disk it runs out by itself, and until then we can have it again.
            with suppress(StoreFullError):
                await self._engine.store.release(lease)

    async def _keep(self, lease: Lease) -> None:
        while True:
            await self._engine.clock.sleep(self._lease_seconds / _RENEWALS_PER_LEASE)
            # A lease that has run out holds until another takes it, and on a full disk nobody can.
            with suppress(StoreFullError):
                await self._engine.store.renew(lease, seconds=self._lease_seconds)


def _cause(error: Exception) -> Exception:
    """Return the first real failure in a group of them."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
