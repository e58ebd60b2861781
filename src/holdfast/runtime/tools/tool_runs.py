"""Runs of the tool calls of a reply: approvals, intents, client tools, and the results.

Every intent is on disk before its call starts. A call that needs an approval is a question in the log first, and has no
intent until it is approved.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from holdfast.core.fold.session_state import Call
from holdfast.core.text.truncation import excerpt, well_formed
from holdfast.core.turn.decide import waiting_calls
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.live import LiveDelta
from holdfast.runtime.engine.log import Log
from holdfast.runtime.tools.client_tools import await_result, newest_reply
from holdfast.runtime.tools.tool_context import CallPlace, ToolProgress
from holdfast.types.messages import Text, ToolCall, ToolOutcome, ToolResult
from holdfast.types.records import ApprovalAnswered, ApprovalRequested, ToolSettled, ToolStarted, WorkRecord

# Arguments in an approval request. The reply has them in full.
_ARGUMENTS_BYTES_MAX = 4_096
_NOTE_BYTES_MAX = 2_048


class ToolRuns:
    """Runs tool calls of one session. `record` appends records; `log` returns the current log."""

    def __init__(
        self, session: str, engine: Engine, log: Callable[[], Log], record: Callable[..., Awaitable[None]]
    ) -> None:
        self._session = session
        self._engine = engine
        self._log = log
        self._record = record

    async def run(self, calls: Sequence[ToolCall]) -> None:
        """Run calls in parallel: all intents are recorded before the first starts, each result as it comes."""
        known = {call.call.call_id: call for call in self._log().turn.calls_asked}
        asked = [call for call in calls if await self._needs_approval(known[call.call_id])]
        runnable = [call for call in calls if call not in asked]
        started = [self._intent(call) for call in runnable]
        denied = {intent.call_id: record for intent in started if (record := _denied(intent, known[intent.call_id]))}
        await self._record(*map(self._question, asked), *started, *denied.values())
        async with asyncio.TaskGroup() as group:
            for call, intent in zip(runnable, started, strict=True):
                if call.call_id not in denied:
                    group.create_task(self._run_one(call, intent, known[call.call_id].starts + 1))

    def runnable(self, calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
        """Return the calls that this process runs.

        A gateway or a terminal that answers an approval may lack the tool. The call then waits for a process that has
        it, which also continues the turn, as long as the approval itself may take.
        """
        log, seconds = self._log(), self._engine.bounds.approval_seconds_max
        known = {call.call.call_id: call for call in log.turn.calls_asked}
        asked_at = {one.seq: one.at for one in log.tail if isinstance(one.record, ApprovalRequested)}

        def is_for_another(call: Call) -> bool:
            if not call.approval or self._is_ours(call.call):
                return False
            return self._engine.clock.now() < asked_at.get(call.approval, 0.0) + seconds

        return tuple(call for call in calls if not is_for_another(known[call.call_id]))

    async def expire_approvals(self) -> bool:
        """Deny the requests that nobody answered in time, and return whether there were any."""
        log, seconds = self._log(), self._engine.bounds.approval_seconds_max
        waiting = frozenset(waiting_calls(log.turn).values())
        due = [one.seq for one in log.tail if one.seq in waiting and one.at + seconds <= self._engine.clock.now()]
        for seq in due:
            note = f"nobody answered the request within {seconds:g} seconds"
            answer = ApprovalAnswered(log.turn.number, seq, is_approved=False, note=note)
            await self._engine.store.admit(self._session, answer)
        return bool(due)

    async def _needs_approval(self, call: Call) -> bool:
        if call.approval or not self._is_ours(call.call):
            return False
        return await self._engine.toolbox.needs_approval(call.call, session=self._session)

    def _question(self, call: ToolCall) -> ApprovalRequested:
        arguments = excerpt(well_formed(call.arguments), _ARGUMENTS_BYTES_MAX, "the reply has them in full")
        return ApprovalRequested(self._log().turn.number, call.call_id, call.name, arguments)

    def _is_ours(self, call: ToolCall) -> bool:
        return self._engine.toolbox.has(call.name, self._log().turn.tool_names)

    def _intent(self, call: ToolCall) -> ToolStarted:
        log, toolbox = self._log(), self._engine.toolbox
        is_theirs = not self._is_ours(call) and any(spec.name == call.name for spec in log.turn.tools)
        reply = newest_reply(log.tail)[0] if is_theirs else 0
        return ToolStarted(log.turn.number, call.call_id, call.name, toolbox.is_idempotent(call.name), reply)

    async def _run_one(self, call: ToolCall, intent: ToolStarted, starts: int) -> None:
        if intent.reply:
            result = await await_result(self._log(), self._engine, intent)
        else:
            place = CallPlace(self._session, intent.turn, call.call_id, starts, self._show(call, intent))
            names = self._log().turn.tool_names
            result = await self._engine.toolbox.run(call, place=place, names=names)
        await self._record(ToolSettled(intent.turn, result))

    def _show(self, call: ToolCall, intent: ToolStarted) -> Callable[[str], None]:
        attempt = self._log().turn.attempts

        def show(text: str) -> None:
            progress = ToolProgress(call.call_id, call.name, text)
            self._engine.live.publish(self._session, LiveDelta(intent.turn, attempt, progress))

        return show


def _denied(intent: ToolStarted, call: Call) -> WorkRecord | None:
    """Return the result of a call that was denied; None if it may run."""
    if call.is_approved is not False:
        return None
    note = excerpt(well_formed(call.note), _NOTE_BYTES_MAX, "the note was longer") if call.note else ""
    sentence = f"Not run: a person did not approve this call{f' and said: {note}' if note else ''}."
    result = ToolResult(intent.call_id, (Text(sentence),), ToolOutcome.DENIED)
    return ToolSettled(intent.turn, result)


class Approval(msgspec.Struct, frozen=True):
    """A tool call that waits for an approval."""

    # Identifies the request, for `approve` and `deny`: the seq of its record.
    request: int
    turn: int
    call_id: str
    tool: str
    # As the model wrote them, truncated if long.
    arguments: str
    # Seconds since the epoch.
    asked_at: float


def approval_of(seq: int, at: float, record: ApprovalRequested) -> Approval:
    """Return the approval that a record asks for."""
    return Approval(seq, record.turn, record.call_id, record.name, record.arguments, at)
