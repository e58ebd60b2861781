"""The public session: send, watch, cancel, compact and read a conversation.

A message is accepted when it is on disk. From then on it is answered, even if no caller waits for the answer.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, overload

from holdfast.core.limits.settings import checked_settings
from holdfast.core.turn.failure_messages import OUTPUT_INVALID
from holdfast.errors import BadInputError, StoreDamagedError, TurnFailedError
from holdfast.ports import Attachment, Feed
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.maintenance.supervisor import Supervisor
from holdfast.runtime.outputs import OutputType, output_type
from holdfast.runtime.sessions.admission import admit_parts, check_client_id, check_session_key, leave_out_base64
from holdfast.runtime.sessions.answers import Answer, AnswerBuilder, OutputAnswer, Value, with_output
from holdfast.runtime.sessions.approving import Approving
from holdfast.runtime.sessions.branches import Branching
from holdfast.runtime.sessions.following import Event, Following
from holdfast.runtime.sessions.reading import Reading
from holdfast.runtime.sessions.transfer import forked
from holdfast.runtime.sessions.view import Preview
from holdfast.runtime.tools.client_tools import find_call
from holdfast.runtime.tools.toolbox import bound_output
from holdfast.types.messages import ToolOutcome, ToolResult
from holdfast.types.records import (
    CancelRequested,
    CompactionApplied,
    CompactionRequested,
    CompactionSettled,
    CompactionUndone,
    DamageSetAside,
    InputAdmitted,
    Logged,
    MessageAppended,
    MessageExcluded,
    MessagePinned,
    ReplyRecorded,
    ResultSubmitted,
    ToolSettled,
)
from holdfast.types.settings import Settings

__all__ = ["Answer", "Event", "Session"]


class Session(Branching, Reading, Approving, Following):
    """A conversation under a stable key. It survives the process: open it again by its key and continue."""

    def __init__(self, key: str, engine: Engine, supervisor: Supervisor) -> None:
        self.key = key
        self._engine = engine
        self._supervisor = supervisor

    @overload
    async def send(
        self,
        text: str = "",
        *,
        attachments: Sequence[Attachment | Path | str] = (),
        client_id: str = "",
        settings: Settings | None = None,
        output: type[Value],
        expect: int | None = None,
        replaces: int | None = None,
        is_heartbeat: bool = False,
    ) -> OutputAnswer[Value]: ...

    @overload
    async def send(
        self,
        text: str = "",
        *,
        attachments: Sequence[Attachment | Path | str] = (),
        client_id: str = "",
        settings: Settings | None = None,
        output: Mapping[str, Any],
        expect: int | None = None,
        replaces: int | None = None,
        is_heartbeat: bool = False,
    ) -> OutputAnswer[Any]: ...

    @overload
    async def send(
        self,
        text: str = "",
        *,
        attachments: Sequence[Attachment | Path | str] = (),
        client_id: str = "",
        settings: Settings | None = None,
        output: None = None,
        expect: int | None = None,
        replaces: int | None = None,
        is_heartbeat: bool = False,
    ) -> Answer: ...

    async def send(  # noqa: PLR0913 - options, by keyword
        self,
        text: str = "",
        *,
        attachments: Sequence[Attachment | Path | str] = (),
        client_id: str = "",
        settings: Settings | None = None,
        output: type[Any] | Mapping[str, Any] | None = None,
        expect: int | None = None,
        replaces: int | None = None,
        is_heartbeat: bool = False,
    ) -> Answer:
        """Send a message and wait for its answer.

        `attachments` are paths, or bytes as `Attachment`. Two messages with the same `client_id` are one message, also
        across processes: both calls return its one answer. `settings` are those of this message alone. With `output`, a
        type or a JSON Schema, the answer is JSON of that type, and its value is `answer.output`. Raises
        `TurnFailedError` if the turn ends without an answer; the next message works.

        With `expect`, the last seq that the caller knows, this raises `SeqMovedError` if another record came first.
        `replaces` is the seq of a message that this one takes the place of, as in `edit`. A heartbeat is answered and
        recorded like any message, but no summary or memory reads it, and the next compaction drops it from the view.
        """
        turn = await self.post(
            text,
            attachments=attachments,
            client_id=client_id,
            settings=settings,
            output=output,
            expect=expect,
            replaces=replaces,
            is_heartbeat=is_heartbeat,
        )
        return await self._answer(turn, output)

    async def edit(
        self,
        seq: int,
        text: str = "",
        *,
        attachments: Sequence[Attachment | Path | str] = (),
        client_id: str = "",
        expect: int | None = None,
    ) -> Answer:
        """Put another message in the place of the one at `seq`, and wait for its answer.

        The old message and everything after it leave the view and become a branch: see `branches` and `switch`. Both
        happen in one write, or not at all. Raises as `send` and `append` do.
        """
        return await self.send(text, attachments=attachments, client_id=client_id, expect=expect, replaces=seq)

    async def regenerate(self, *, expect: int | None = None) -> Answer:
        """Answer the newest message again, and wait for the answer. The old answer becomes a branch, as in `edit`."""
        return await self._answer(await self.repost(expect=expect), None)

    async def repost(self, *, expect: int | None = None) -> int:
        """Answer the newest message again without waiting, and return its turn, for `wait` and `follow`."""
        seq, admitted = await self._again()
        turn = await self._replace(seq, admitted, expect)
        self._supervisor.wake(self.key)
        return turn

    async def stream(  # noqa: PLR0913 - options, by keyword
        self,
        text: str = "",
        *,
        attachments: Sequence[Attachment | Path | str] = (),
        client_id: str = "",
        settings: Settings | None = None,
        output: type[Any] | Mapping[str, Any] | None = None,
        expect: int | None = None,
        replaces: int | None = None,
        is_heartbeat: bool = False,
    ) -> AsyncGenerator[Event, None]:
        """Send a message and yield the events of its turn until it ends.

        `TextDelta` is streamed text of the answer; `Logged` is a record: a tool started, an attempt failed, a notice.
        Discard the text of a failed attempt: the next attempt starts over. Raises `TurnFailedError` at the end, as
        `send` does. Leaving the loop early does not cancel the turn.
        """
        turn = await self.post(
            text,
            attachments=attachments,
            client_id=client_id,
            settings=settings,
            output=output,
            expect=expect,
            replaces=replaces,
            is_heartbeat=is_heartbeat,
        )
        async with aclosing(self._events(turn)) as events:
            async for event in events:
                yield event

    async def follow(self, turn: int) -> AsyncGenerator[Event, None]:
        """Yield the events of a turn from its start until it ends, as `stream` does. Any process may have posted it.

        An answer that was written earlier or in another process arrives as one `TextDelta`.
        """
        self._supervisor.check_running()
        await self._check_turn(turn)
        self._supervisor.wake(self.key)
        async with aclosing(self._events(turn)) as events:
            async for event in events:
                yield event

    async def post(  # noqa: PLR0913 - options, by keyword
        self,
        text: str = "",
        *,
        attachments: Sequence[Attachment | Path | str] = (),
        client_id: str = "",
        settings: Settings | None = None,
        output: type[Any] | Mapping[str, Any] | None = None,
        expect: int | None = None,
        replaces: int | None = None,
        is_heartbeat: bool = False,
    ) -> int:
        """Send a message without waiting for its answer, and return its turn, for `wait` and `cancel`.

        When this returns, the message is on disk and will be answered. All arguments are those of `send`; pass the same
        `output` to `wait`.
        """
        self._supervisor.check_running()
        bounds = self._engine.bounds
        if client_id:
            check_client_id(client_id, bounds=bounds)
        stripped, originals = await leave_out_base64(text, blobs=self._engine.blobs, bounds=bounds)
        parts = await admit_parts(stripped, attachments, blobs=self._engine.blobs, bounds=bounds)
        own = checked_settings(settings) if settings is not None else None
        spec = self._output_type(output).spec if output is not None else None
        admitted = InputAdmitted(
            parts, client_id, originals=originals, settings=own, output=spec, is_heartbeat=is_heartbeat
        )
        if replaces is None:
            turn = await self._write(admitted, expect)
        else:
            turn = await self._replace(replaces, admitted, expect)
        self._supervisor.wake(self.key)
        return turn

    @overload
    async def wait(self, turn: int, *, output: type[Value]) -> OutputAnswer[Value]: ...

    @overload
    async def wait(self, turn: int, *, output: Mapping[str, Any]) -> OutputAnswer[Any]: ...

    @overload
    async def wait(self, turn: int, *, output: None = None) -> Answer: ...

    async def wait(self, turn: int, *, output: type[Any] | Mapping[str, Any] | None = None) -> Answer:
        """Wait for the answer to a posted message. Any process may have posted it. Raises as `send` does."""
        self._supervisor.check_running()
        await self._check_turn(turn)
        if output is not None:
            self._output_type(output)
        self._supervisor.wake(self.key)
        return await self._answer(turn, output)

    async def _answer(self, turn: int, output: type[Any] | Mapping[str, Any] | None) -> Answer:
        built = AnswerBuilder(turn)
        async with aclosing(self._follow(turn, with_deltas=False)) as updates:
            async for update in updates:
                built.add(update)
        answer = built.answer()
        if output is None:
            return answer
        wanted: OutputType[Any] = self._output_type(output)
        try:
            return with_output(answer, wanted.read(answer.text))
        except ValueError as error:
            # Another process checked the answer by its schema, or the message was sent with another type.
            sentence = f"The answer is not of the requested type: {error}"
            raise TurnFailedError(self.key, turn, OUTPUT_INVALID.code, sentence) from error

    def _output_type(self, output: type[Value] | Mapping[str, Any]) -> OutputType[Value]:
        """Return a type of outputs, whose own checks apply from here on."""
        wanted: OutputType[Value] = output_type(output, bytes_max=self._engine.bounds.output_schema_bytes_max)
        self._engine.outputs.remember(wanted)
        return wanted

    async def cancel(self, turn: int | None = None) -> None:
        """Cancel a turn immediately; without one, all open turns and compactions. Effects of finished steps remain."""
        self._supervisor.check_running()
        if turn is not None:
            await self._check_turn(turn)
        for number in await self._open_requests() if turn is None else (turn,):
            await self._engine.store.admit(self.key, CancelRequested(number))
        self._supervisor.wake(self.key)

    async def compact(self, *, focus: str = "", expect: int | None = None) -> CompactionSettled:
        """Compact the view now, and return the outcome.

        `focus` names what the summary should preserve. Other requests made before the compaction share it, even if
        they reach the log after it.
        """
        self._supervisor.check_running()
        known = await self._engine.store.info(self.key)
        wanted = CompactionRequested(focus=focus, seen=known.last_seq if known else 0)
        request = await self._write(wanted, expect)
        with self._engine.live.subscribe(self.key, with_deltas=False) as mailbox:
            self._supervisor.wake(self.key)
            async with self._pumping(mailbox, after=request), aclosing(mailbox.sights()) as updates:
                async for update in updates:
                    match update:
                        case Logged(record=CompactionSettled(request=settled) as outcome) if settled == request:
                            return outcome
                        case _:
                            pass
        raise AssertionError("a mailbox ends only by an exception")

    async def preview(self, *, focus: str = "", with_model: bool = False) -> Preview | None:
        """Return the effect that `compact` would have now; None if there is nothing to compact.

        Nothing is written. With `with_model` a model writes the real summary, which costs a call; the summary is
        cached, and a `compact` with the same focus uses that text without another call.
        """
        from holdfast.runtime.engine.compaction import preview  # noqa: PLC0415 - the summary code is loaded when it is used

        self._supervisor.check_running()
        log = await open_log(self._engine.store, self.key)
        return await preview(log, self._engine, focus=focus, with_model=with_model)

    async def undo(self, *, compaction: int | None = None, expect: int | None = None) -> bool:
        """Undo the current compaction or roll-over, which restores the view before it. Return False if there is none.

        Repeated calls undo one compaction after the other. With `compaction`, the seq of its record, only that one is
        undone, so the call is idempotent.
        """
        self._supervisor.check_running()
        turn = (await open_log(self._engine.store, self.key)).turn
        if turn.compaction is None or compaction not in (None, turn.compaction_seq):
            return False
        restored = (await self.read(turn.compaction.before)).record if turn.compaction.before else None
        assert restored is None or isinstance(restored, CompactionApplied), "a compaction names the one before it"
        undone = CompactionUndone(turn.compaction_seq, restored, turn.compaction.before)
        seq = await self._write(undone, expect)
        # A change of the view that reached the log first makes this undo void.
        meanwhile = await self._engine.store.read(self.key, after=turn.seq, limit=seq - turn.seq - 1)
        return not any(isinstance(logged.record, CompactionApplied | CompactionUndone) for logged in meanwhile)

    async def exclude(self, seq: int, *, undo: bool = False, expect: int | None = None) -> None:
        """Leave a message out of the view, or take it back. `seq` is the record of an input, a reply or a tool result.

        A line takes its place, tool calls keep their results, and `recall` reads it. A summary that was written from it
        stays as it is.
        """
        self._supervisor.check_running()
        record = (await self.read(seq)).record
        if not isinstance(record, InputAdmitted | MessageAppended | ReplyRecorded | ToolSettled):
            raise BadInputError(f"record {seq} is not a message, a reply or a tool result, so it cannot be left out")
        await self._write(MessageExcluded(seq, is_excluded=not undo), expect)

    async def pin(self, turn: int, *, keep: bool = True, expect: int | None = None) -> None:
        """Pin the message of a turn, which keeps it in the view through compactions; with `keep=False`, unpin it."""
        self._supervisor.check_running()
        await self._check_turn(turn)
        await self._write(MessagePinned(turn, keep), expect)

    async def fork(self, key: str, *, at: int | None = None) -> "Session":
        """Fork this session: copy its log up to the record `at` into a new session, and return that.

        Turns that are open here are closed in the fork. The fork exists completely or not at all.
        """
        self._supervisor.check_running()
        check_session_key(key, bounds=self._engine.bounds)
        await forked(self._engine.store, self.key, key, at=at, bounds=self._engine.bounds)
        return Session(key, self._engine, self._supervisor)

    def watch(self, *, after: int = 0) -> Feed:
        """Yield every record after the seq `after`, then each new one, without end."""
        return self._engine.store.feed(self.key, after=after)

    async def submit(
        self, reply: int, call_id: str, output: Sequence[str | Attachment], *, is_failure: bool = False
    ) -> bool:
        """Submit the result of a call that this client runs. Return False if it already has a result.

        The call is identified by the record of its reply and its id. Long output is truncated, and stored in full as a
        blob. When this returns, the result is on disk and the turn continues with it.
        """
        self._supervisor.check_running()
        call = await find_call(self._engine.store, self.key, reply, call_id)
        if call.is_settled:
            return False
        bounded = await bound_output(output, blobs=self._engine.blobs, bounds=self._engine.bounds)
        outcome = ToolOutcome.FAILED if is_failure else ToolOutcome.DONE
        result = ToolResult(call_id, bounded.parts, outcome, bounded.originals)
        await self._engine.store.admit(self.key, ResultSubmitted(call.turn, reply, result))
        self._supervisor.wake(self.key)
        return True

    def _check_running(self) -> None:
        self._supervisor.check_running()

    async def _check_turn(self, turn: int) -> None:
        found = await self._engine.store.read(self.key, after=turn - 1, limit=1) if turn > 0 else []
        record = found[0].record if found else None
        if isinstance(record, DamageSetAside) and not record.until:
            # The worker of the session sets it aside, which gives it an outcome.
            self._supervisor.wake(self.key)
            raise StoreDamagedError(self.key, turn, f"{record.why}; it is being set aside, retry")
        if not isinstance(record, InputAdmitted) and not (isinstance(record, DamageSetAside) and record.is_owed):
            raise BadInputError(f"session {self.key!r} has no turn {turn}; use a number that `post` returned")

    async def _open_requests(self) -> tuple[int, ...]:
        turn = (await open_log(self._engine.store, self.key)).turn
        compactions = tuple(wanted.seq for wanted in turn.wanted)
        return (*((turn.number,) if turn.number else ()), *turn.waiting, *compactions)
