"""Approvals of a session: list the tool calls that wait for one, and answer them.

A request and its answer are records, so any client of any process may answer, also after a restart.
"""

from holdfast.errors import BadInputError
from holdfast.ports import Log as LogPort
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.maintenance.supervisor import Supervisor
from holdfast.runtime.tools.tool_runs import Approval, approval_of
from holdfast.types.records import ApprovalAnswered, ApprovalRequested

# Note to the model: a paragraph.
NOTE_CHARS_MAX = 2_000


class Approving:
    """Approvals, as a part of `Session`."""

    key: str
    _engine: Engine
    _supervisor: Supervisor

    async def approvals(self) -> list[Approval]:
        """Return the tool calls that wait for an approval, oldest first."""
        return await waiting_approvals(self._engine.store, self.key)

    async def approve(self, request: int) -> bool:
        """Approve a tool call, which then runs. Return False if the request was answered before.

        When this returns, the answer is on disk.
        """
        return await self._answer_request(request, is_approved=True)

    async def deny(self, request: int, *, note: str = "") -> bool:
        """Deny a tool call: the model is told so, with the note. Return False if the request was answered before."""
        return await self._answer_request(request, is_approved=False, note=note)

    async def _answer_request(self, request: int, *, is_approved: bool, note: str = "") -> bool:
        self._supervisor.check_running()
        is_new = await answer_request(self._engine, self.key, request, is_approved=is_approved, note=note)
        if is_new:
            self._supervisor.wake(self.key)
        return is_new


async def waiting_approvals(store: LogPort, key: str) -> list[Approval]:
    """Return the tool calls of a session that wait for an approval, oldest first."""
    log = await open_log(store, key)
    waiting = {call.approval for call in log.turn.calls_asked if call.is_waiting}
    return [
        approval_of(one.seq, one.at, one.record)
        for one in log.tail
        if one.seq in waiting and isinstance(one.record, ApprovalRequested)
    ]


async def answer_request(engine: Engine, key: str, request: int, *, is_approved: bool, note: str = "") -> bool:
    """Write the answer to an approval request, and start nothing. Return False if it was answered before."""
    if len(note) > NOTE_CHARS_MAX:
        raise BadInputError(f"the note has {len(note):,} characters, the maximum is {NOTE_CHARS_MAX:,}")
    found = await engine.store.read(key, after=request - 1, limit=1) if request > 0 else []
    record = found[0].record if found else None
    if not isinstance(record, ApprovalRequested):
        raise BadInputError(
            f"session {key!r} has no approval request {request}; use a number that `approvals` returned"
        )
    if all(one.request != request for one in await waiting_approvals(engine.store, key)):
        return False
    await engine.store.admit(key, ApprovalAnswered(record.turn, request, is_approved=is_approved, note=note))
    return True
