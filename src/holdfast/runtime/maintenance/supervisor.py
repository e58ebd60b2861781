"""Supervisor of the sessions of one process: takes leases, runs runners, hands work over at shutdown.

A wake starts or resumes a session: on its first message, on every later one, and at startup for pending work of a dead
process. Starting is recovering.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial

from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.bounds import is_proxy_session
from holdfast.errors import HoldfastError, InternalError, LeaseLostError, StoppingError
from holdfast.ports import Lease, SessionInfo
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.lease import LEASE_SECONDS, RENEWALS_PER_LEASE, kept_lease, try_lease
from holdfast.runtime.engine.log import OpenLogs, open_log
from holdfast.runtime.engine.runner import open_runner
from holdfast.runtime.maintenance.sealing import Sealer
from holdfast.runtime.sessions.delete import SECONDS_PER_DAY, prune_sessions

log = logging.getLogger(__name__)

# Interval between attempts to take the lease of a session that another worker holds. That worker answers; the attempts
# are for the case that it dies.
_LEASE_POLL_SECONDS = 0.25
# Interval between scans for work whose owner died in another process. An expired lease waits this long at most, less
# with short leases: pending work of a dead owner resumes within two lease terms.
_WATCH_SECONDS = 10.0
# Sessions per scan that are checked for old records to seal: a store of 10,000 takes an hour and a half, and one check
# costs a millisecond.
_SESSIONS_PER_SCAN = 20
# Interval between removals of sessions past their retention, and sessions per removal. If there are more, the next scan
# continues. The blobs to remove are determined once per removal.
_PRUNE_SECONDS = 3_600.0
_PRUNED_AT_ONCE = 100
# Interval between looks at a session that waits for an approval, in case nobody answers. Waits take hours.
_EXPIRY_SECONDS = 60.0
# Sessions whose next record is noticed at once while they wait for an approval; others are noticed by the scan.
_ANSWER_WATCHES_MAX = 1_000
_STOPPING = "Holdfast is shutting down; accepted messages are stored and resume at the next start"


class Supervisor:
    """Runs one runner per session with pending work, under its lease."""

    def __init__(self, engine: Engine, *, owner: str, lease_seconds: float = LEASE_SECONDS) -> None:
        self._engine = engine
        self._sealer = Sealer(engine)
        self._owner = owner
        self._lease_seconds = lease_seconds
        self._workers: dict[str, asyncio.Task[None]] = {}
        # Sessions woken again while their worker was running.
        self._woken: set[str] = set()
        self._is_stopping = False
        # Cursor of the scan for old records: the last session key checked.
        self._scanned_until = ""
        self._watchdog: asyncio.Task[None] | None = None
        self._pruning: asyncio.Task[None] | None = None
        self._next_prune = 0.0
        self._open_logs = OpenLogs()
        # Sessions that wait for an approval: their last record, and the time at which to look again.
        self._waiting: dict[str, int] = {}
        self._look_again: dict[str, float] = {}
        self._answer_watches: dict[str, asyncio.Task[None]] = {}

    async def start(self) -> None:
        """Resume every session with pending work, and start the watchdog for sessions whose owner dies elsewhere."""
        for session in await self._pending_sessions():
            self.wake(session)
        self._watchdog = asyncio.create_task(self._watch(), name="watchdog")

    async def _pending_sessions(self) -> list[str]:
        """Return the sessions with pending work, without those that a proxied client drives."""
        return [session for session in await self._engine.store.pending() if not is_proxy_session(session)]

    async def _watch(self) -> None:
        """Periodically take over pending work without a living owner, seal old records and remove expired sessions."""
        pause_seconds = min(_WATCH_SECONDS, self._lease_seconds / RENEWALS_PER_LEASE)
        while True:
            await self._engine.clock.sleep(pause_seconds)
            try:
                for session in await self._pending_sessions():
                    if session not in self._workers:
                        self._start_worker(session, partial(self._finish_pending, session, waits_for_lease=False))
                await self._scan_for_old_records()
                self._prune_if_due()
            except HoldfastError as error:
                log.warning("watchdog scan failed", extra={"code": error.code, "reason": str(error)})

    async def _scan_for_old_records(self) -> None:
        """Check the next few sessions, and seal old records in those without a worker."""
        page = await self._engine.store.sessions(after=self._scanned_until, limit=_SESSIONS_PER_SCAN)
        self._scanned_until = page[-1].key if len(page) == _SESSIONS_PER_SCAN else ""
        for known in page:
            if await self._sealer.is_worth_opening(known) and known.key not in self._workers:
                self._start_worker(known.key, partial(self._seal, known.key))

    def _prune_if_due(self) -> None:
        """Start removing sessions past their retention, if retention is set and this process is idle.

        Runs beside the watchdog, so the takeover of pending work does not wait for it.
        """
        days, now = self._engine.retention_days, self._engine.clock.now()
        if days is None or self._workers or self._pruning is not None or now < self._next_prune:
            return
        self._next_prune = now + _PRUNE_SECONDS
        self._pruning = asyncio.create_task(self._prune(now - days * SECONDS_PER_DAY), name="prune")

    async def _prune(self, since: float) -> None:
        engine = self._engine
        try:
            gone = await prune_sessions(
                engine.store, engine.blobs, engine.archive, since=since, sessions_max=_PRUNED_AT_ONCE
            )
        except HoldfastError as error:
            log.warning("removal of untouched sessions failed", extra={"code": error.code, "reason": str(error)})
        else:
            if gone.sessions:
                fields = {"sessions": len(gone.sessions), "records": gone.records, "blobs": gone.blobs}
                log.info("untouched sessions were removed", extra=fields)
            if len(gone.sessions) == _PRUNED_AT_ONCE:
                self._next_prune = 0.0
        finally:
            self._pruning = None

    @property
    def active(self) -> tuple[str, ...]:
        """The sessions that have a worker in this process."""
        return tuple(self._workers)

    def wake(self, session: str) -> None:
        """Ensure that pending work of a session is done, here or by the holder of its lease."""
        self._woken.add(session)
        if session not in self._workers and not self._is_stopping:
            self._start_worker(session, partial(self._finish_pending, session, waits_for_lease=True))

    def _start_worker(self, session: str, work: Callable[[], Awaitable[None]]) -> None:
        self._workers[session] = asyncio.create_task(self._work(session, work), name=f"worker {session}")

    async def stop(self, *, grace_seconds: float) -> None:
        """Wait for running turns up to the grace period, then cancel them. The next start closes what was in flight."""
        self._is_stopping = True
        # The next deletion finishes one that is cancelled here.
        for task in (self._watchdog, self._pruning, *self._answer_watches.values()):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        if tasks := list(self._workers.values()):
            await asyncio.wait(tasks, timeout=grace_seconds)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        self._engine.live.end(StoppingError(_STOPPING))

    def check_running(self) -> None:
        """Raise `StoppingError` during shutdown."""
        if self._is_stopping:
            raise StoppingError(_STOPPING)

    async def _work(self, session: str, work: Callable[[], Awaitable[None]]) -> None:
        """Work on a session until no wake is left."""
        try:
            await work()
            while session in self._woken:
                await self._finish_pending(session, waits_for_lease=True)
        except Exception as error:  # noqa: BLE001 - one session's failure must not stop the others
            self._report(session, error)
        finally:
            del self._workers[session]

    def _report(self, session: str, error: Exception) -> None:
        """Log the failure of a session's worker, and raise it in every waiter of the session."""
        cause = _cause(error)
        if not isinstance(cause, HoldfastError):
            cause = InternalError(session, cause)
            log.error("session stopped", extra={"session": session, "code": cause.code}, exc_info=error)
        else:
            log.error("session stopped", extra={"session": session, "code": cause.code, "reason": str(cause)})
        self._engine.live.publish(session, cause)

    async def _finish_pending(self, session: str, *, waits_for_lease: bool) -> None:
        """Work on a session until it has no pending work. Return if another worker holds it, unless told to wait."""
        self._woken.discard(session)
        store = self._engine.store
        while (known := await store.info(session)) is not None and known.owed > 0:
            if self._waiting.get(session) == known.last_seq and not self._may_expire(session):
                # It waits for an approval, and nothing has come since.
                return
            lease = await try_lease(store, session, self._owner, seconds=self._lease_seconds)
            if lease is not None:
                await self._under(lease, partial(self._run, known=known))
            elif waits_for_lease:
                await self._engine.clock.sleep(_LEASE_POLL_SECONDS)
            else:
                return

    async def _seal(self, session: str) -> None:
        """Seal old records of an idle session, unless another worker holds it."""
        lease = await try_lease(self._engine.store, session, self._owner, seconds=self._lease_seconds)
        if lease is not None:
            await self._under(lease, self._seal_old_records)

    async def _run(self, lease: Lease, *, known: SessionInfo) -> None:
        opened = self._open_logs.take(lease, known)
        runner = await open_runner(lease, self._engine, known, opened=opened)
        await runner.run()
        self._note_waiting(lease.session, runner.turn)
        self._open_logs.keep(lease, known, runner.log)
        # No caller waits now, and sealing stops for the next message.
        await self._sealer.seal_due(lease, runner.log)

    def _note_waiting(self, session: str, turn: Turn) -> None:
        """Remember a session that waits for an approval or for a tool, so that it is not opened again and again."""
        if turn.calls_asked:
            self._waiting[session] = turn.seq
            self._look_again[session] = self._engine.clock.now() + _EXPIRY_SECONDS
            self._watch_for_answer(session, turn.seq)
        else:
            self._waiting.pop(session, None)
            self._look_again.pop(session, None)

    def _watch_for_answer(self, session: str, seq: int) -> None:
        """Wake a session at its next record, which another process may write: a gateway, a terminal."""
        if session not in self._answer_watches and len(self._answer_watches) < _ANSWER_WATCHES_MAX:
            watch = asyncio.create_task(self._wake_at_record(session, seq), name=f"approval {session}")
            self._answer_watches[session] = watch

    async def _wake_at_record(self, session: str, seq: int) -> None:
        try:
            async with aclosing(self._engine.store.feed(session, after=seq)) as feed:
                async for _ in feed:
                    break
        finally:
            del self._answer_watches[session]
        self.wake(session)

    def _may_expire(self, session: str) -> bool:
        return self._engine.clock.now() >= self._look_again.get(session, 0.0)

    async def _seal_old_records(self, lease: Lease) -> None:
        await self._sealer.seal_due(lease, await open_log(self._engine.store, lease.session))

    async def _under(self, lease: Lease, work: Callable[[Lease], Awaitable[None]]) -> None:
        """Work under a lease. A lost lease ends the work without an error: the other worker continues from the log."""
        try:
            async with kept_lease(self._engine.store, self._engine.clock, lease, seconds=self._lease_seconds):
                try:
                    await work(lease)
                except Exception:
                    await self._check_held(lease)
                    raise
        except* LeaseLostError as lost:
            fields = {"session": lease.session, "fence": lease.fence, "writes_refused": len(lost.exceptions)}
            log.warning("lease lost", extra=fields)

    async def _check_held(self, lease: Lease) -> None:
        """Raise `LeaseLostError` if another worker has taken the lease.

        Its records can break the assumptions of a worker that was held up between a write and the next read. The error
        is then not the outcome of the session, because the other worker answers.
        """
        try:
            await self._engine.store.renew(lease, seconds=self._lease_seconds)
        except LeaseLostError:
            raise
        except HoldfastError as error:
            log.warning("lease check failed", extra={"session": lease.session, "code": error.code})


def _cause(error: Exception) -> Exception:
    """Return the first leaf of an exception group."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
