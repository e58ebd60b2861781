"""Runner of one session under its lease: fold, decide, record, perform, record, in the only loop of the engine.

The core decides; this module performs. Every external effect is recorded before and after, so a process may crash
between any two lines of this module.
"""

import asyncio
import random
from collections.abc import Coroutine
from contextlib import aclosing, suppress
from typing import assert_never

from holdfast.core.compaction.plan import may_wish, percent_full, tokens_behind, warning, wish
from holdfast.core.faults.classifier import classify, classify_reply
from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.fit import Before, described, misfit, sent
from holdfast.core.limits.prices import Prices
from holdfast.core.limits.usage import budgets_of
from holdfast.core.turn.abort import IS_FULL, closing
from holdfast.core.turn.actions import (
    Action,
    Backoff,
    CallModel,
    Climb,
    EndTurn,
    Rest,
    RunTools,
    SettleCompactions,
    StartTurn,
)
from holdfast.core.turn.decide import decide, interruptions
from holdfast.core.turn.deferred_writes import may_wait, told_of_failure
from holdfast.core.turn.failure_messages import OVERFLOW_CODES, Ending, with_sizes
from holdfast.core.turn.reply_cleanup import tidy
from holdfast.errors import StoreFullError, StoreIoError
from holdfast.ports import Lease, Model, SessionInfo
from holdfast.runtime.engine import log_events as events
from holdfast.runtime.engine.append import append_after
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.learning import Known
from holdfast.runtime.engine.log import Log
from holdfast.runtime.engine.requests import Caller, NativeCaller, Prepared, dialect_of, prepare, shares_of
from holdfast.runtime.engine.rungs import climb
from holdfast.runtime.maintenance.healing import open_healed
from holdfast.runtime.tools.client_tools import await_result, newest_reply
from holdfast.stores.fallbacks import save_snapshot
from holdfast.types.faults import Confidence, Phase, Refusal, Rung, Sent
from holdfast.types.messages import Reasoning, Reply, ToolCall
from holdfast.types.records import (
    Abandonment,
    AttemptFailed,
    AttemptStarted,
    CancelRequested,
    CompactionSettled,
    InputAdmitted,
    NoticePosted,
    Outcome,
    ReplyRecorded,
    RungFinished,
    RungResult,
    RungStarted,
    ToolSettled,
    ToolStarted,
    Trigger,
    TurnEnded,
    TurnStarted,
    WorkRecord,
)

# Opening reads at most this many records after the newest snapshot.
SNAPSHOT_EVERY_RECORDS = 200


class Runner:
    """Works on one session until there is nothing to do."""

    def __init__(self, lease: Lease, log: Log, engine: Engine, caller: Caller | None = None) -> None:
        self.lease = lease
        self.engine = engine
        self._caller = caller or NativeCaller(engine, lease.session)
        # The log on disk, and records that wait to be written: see `core/turn/deferred_writes.py`.
        self._log_on_disk = log
        self._unwritten: tuple[WorkRecord, ...] = ()
        self._snapshot_seq = log.turn.seq
        self._appending = asyncio.Lock()
        # The task that a cancel ends, the cancelled turns, and the newest input, by seq.
        self._work: asyncio.Task[None] | None = None
        self._cancelled: set[int] = set()
        self._newest_input = 0

    @property
    def log(self) -> Log:
        """The log on disk, followed by the records that wait to be written."""
        if not self._unwritten:
            return self._log_on_disk
        return self._log_on_disk.followed_by(self._unwritten, self.engine.clock.now())

    @property
    def turn(self) -> Turn:
        """The current state of the session."""
        return self.log.turn

    async def run(self) -> None:
        """Close attempts and tools of a crashed process, then decide and perform until there is nothing to do."""
        watch = asyncio.create_task(self._watch_for_cancel(), name=f"watch {self.lease.session}")
        try:
            await self.close_in_flight(Abandonment.INTERRUPTED)
            while not isinstance(action := self._decide(), Rest):
                await self._perform(action)
                await self._log_on_disk.catch_up(self.engine.store)
        except (StoreFullError, ExceptionGroup) as error:
            # Tools run in parallel, so a result that cannot be recorded raises a group.
            if isinstance(error, ExceptionGroup) and error.split(StoreFullError)[1] is not None:
                raise
            await self._end_all()
        finally:
            watch.cancel()
            await asyncio.wait([watch])

    def _decide(self) -> Action:
        return decide(self.turn, self.engine.bounds, is_proxied=self.engine.is_proxied)

    async def close_in_flight(self, reason: Abandonment) -> None:
        """Record that attempts and tools in flight were abandoned, with the reason."""
        await self._record(*interruptions(self.turn, reason, self.engine.bounds))

    async def _perform(self, action: Action) -> None:
        match action:
            case StartTurn(turn=number):
                await self._record(TurnStarted(number), *self._input_notices(number))
            case CallModel():
                await self._unless_stopped(self._call_model(action))
            case RunTools(calls=calls):
                await self._unless_stopped(self._run_tools(calls))
            case Backoff():
                await self._unless_stopped(self._back_off(action))
            case Climb():
                await self._unless_stopped(self._climb(action))
            case SettleCompactions(requests=requests):
                await self._record(*(CompactionSettled(seq, action.outcome, action.why) for seq in requests))
            case EndTurn():
                await self._end_turn(action)
            case Rest():
                pass
            case _:
                assert_never(action)

    def _input_notices(self, number: int) -> list[NoticePosted]:
        """Return notices about an input before it is answered."""
        admitted = next((logged.record for logged in self.log.tail if logged.seq == number), None)
        if not isinstance(admitted, InputAdmitted) or not admitted.originals:
            return []
        sentence = (
            "A file was pasted into this message as base64, which a model reads as noise, so it is left out and kept; "
            "attach it as a file to have it read."
        )
        return [NoticePosted(number, "base64_left_out", sentence)]

    # --- Recording ---

    async def _record(self, *records: WorkRecord) -> None:
        """Append records after those of other writers.

        A running append cannot be revoked, so a cancel waits for it: memory and disk never differ.
        """
        if not records:
            return
        append = asyncio.ensure_future(self._append(records))
        try:
            await asyncio.shield(append)
        except asyncio.CancelledError:
            # Each arriving message may cancel again.
            while not append.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([append])
            raise

    async def _append(self, records: tuple[WorkRecord, ...]) -> None:
        async with self._appending:
            try:
                unwritten = (*self._unwritten, *records)
                await append_after(self.engine, self.lease, self._log_on_disk, lambda _: unwritten)
            except (StoreFullError, StoreIoError) as error:
                if not may_wait(self._unwritten, records):
                    raise
                self._postpone(records, error)
            else:
                self._unwritten = ()

    def _postpone(self, records: tuple[WorkRecord, ...], error: StoreFullError | StoreIoError) -> None:
        """Keep records in memory; the next append that cannot wait writes them too."""
        notice = () if self._unwritten else (told_of_failure(self.turn.number, error.code),)
        self._unwritten = (*self._unwritten, *records, *notice)
        events.write_postponed(self.lease.session, self.turn, len(self._unwritten), error)

    async def _end_all(self) -> None:
        """End all pending work on a full disk, in the space that is reserved for it."""
        # Records that are only in memory are discarded.
        self._unwritten = ()
        await self._log_on_disk.catch_up(self.engine.store)
        events.store_full(self.lease.session, self.turn)
        await self._record(*closing(self.turn, self.engine.bounds, IS_FULL))

    async def _save_snapshot(self) -> None:
        if self.turn.seq - self._snapshot_seq >= SNAPSHOT_EVERY_RECORDS:
            await save_snapshot(self.engine.store, self.lease, self._log_on_disk.snapshot())
            self._snapshot_seq = self.turn.seq

    # --- Cancellation ---

    async def _watch_for_cancel(self) -> None:
        """Cancel the current work when any process records a cancel, or an input that has priority."""
        async with aclosing(self.engine.store.feed(self.lease.session, after=self.turn.seq)) as feed:
            async for logged in feed:
                match logged.record:
                    case CancelRequested(turn=number):
                        self._cancelled.add(number)
                    case InputAdmitted():
                        self._newest_input = logged.seq
                    case _:
                        continue
                if self._work is not None and self._must_stop:
                    self._work.cancel()

    @property
    def _must_stop(self) -> bool:
        turn = self.turn
        if turn.number:
            return turn.number in self._cancelled or turn.number in turn.cancelled
        # Compactions that we requested ourselves yield to a person's input.
        by_a_person = any(wanted.trigger is Trigger.PERSON for wanted in turn.wanted)
        return bool(turn.wanted) and not by_a_person and self._newest_input > turn.last_turn

    async def _unless_stopped(self, work: Coroutine[None, None, None]) -> None:
        """Run some work; if it is cancelled, record what was in flight as abandoned."""
        self._work = asyncio.ensure_future(work)
        if self._must_stop:
            self._work.cancel()
        try:
            await self._work
        except asyncio.CancelledError:
            if not self._must_stop or not self._work.cancelled():
                raise
            await self._log_on_disk.catch_up(self.engine.store)
            await self.close_in_flight(Abandonment.CANCELLED)
        finally:
            self._work.cancel()
            self._work = None

    # --- Actions ---

    async def _call_model(self, action: CallModel) -> None:
        model, number, attempt = self.engine.model_for(self.turn), self.turn.number, action.attempt
        known = await self.engine.known(model, self.turn)
        prepared = prepare(self.log, self.engine, known)
        tokens = known.calibration.estimate(prepared.sizes.tokens)
        taken = budgets_of(prepared.sizes, known.limits, known.calibration, self.engine.bounds)
        asks, raw = prepared.request.output_tokens_max, prepared.sizes.tokens
        await self._record(AttemptStarted(number, attempt, model.name, tokens, asks, taken, tokens_raw=raw))
        fault = misfit(prepared.sizes, known.limits, known.calibration, self.engine.bounds)
        if fault is not None and action.heeds_estimate:
            refusal = Refusal(dialect_of(model), Phase.ESTIMATE, cause="not sent: by our estimate it does not fit")
            await self._fail(AttemptFailed(number, attempt, refusal, fault), prepared)
            return
        events.messages_counted(self.lease.session, self.turn, len(prepared.request.messages))
        outcome = await self._caller.call(model, prepared, self.log)
        state_before = self.turn
        was_sent = sent(prepared.sizes, known.limits, known.calibration, _before(state_before, model, known, prepared))
        was_sent = described(was_sent, prepared.request, model.issuer)
        outcome_record = _outcome_record(self.turn, outcome, was_sent, model.prices, self._caller)
        if isinstance(outcome_record, AttemptFailed):
            await self._fail(outcome_record, prepared)
            await self.engine.learning.observe(model, outcome, outcome_record.fault, prepared.sizes)
        else:
            percent = percent_full(prepared.sizes.tokens, known.limits, known.calibration, self.engine.bounds)
            warned = warning(self.turn, percent, known.limits)
            await self._record(*(record for record in (outcome_record, warned) if record is not None))
            if await self.engine.learning.observe(model, outcome, None, prepared.sizes, state_before=state_before):
                window = (await self.engine.learning.known(model)).limits.window_tokens
                await self._record(NoticePosted(number, "window_learned", _window_notice(model, window)))

    async def _fail(self, failed: AttemptFailed, prepared: Prepared) -> None:
        events.overflow_detected(self.lease.session, self.turn, failed.fault, prepared.sizes)
        await self._record(failed)

    async def _run_tools(self, calls: tuple[ToolCall, ...]) -> None:
        """Run calls in parallel: all intents are recorded before the first starts, each result as it comes."""
        number = self.turn.number
        started = [self._intent(number, call) for call in calls]
        await self._record(*started)
        async with asyncio.TaskGroup() as group:
            for call, intent in zip(calls, started, strict=True):
                group.create_task(self._run_tool(call, intent))

    def _intent(self, number: int, call: ToolCall) -> ToolStarted:
        toolbox = self.engine.toolbox
        is_theirs = not toolbox.has(call.name) and any(spec.name == call.name for spec in self.turn.tools)
        reply = newest_reply(self.log.tail)[0] if is_theirs else 0
        return ToolStarted(number, call.call_id, call.name, toolbox.is_idempotent(call.name), reply)

    async def _run_tool(self, call: ToolCall, intent: ToolStarted) -> None:
        if intent.reply:
            result = await await_result(self.log, self.engine, intent)
        else:
            result = await self.engine.toolbox.run(call, session=self.lease.session)
        await self._record(ToolSettled(intent.turn, result))

    async def _back_off(self, action: Backoff) -> None:
        # Jitter of up to 50 %, so that sessions that were refused together do not retry together.
        seconds = action.seconds * random.uniform(1.0, 1.5)  # noqa: S311 - spreads load, guards nothing
        await self._record(RungStarted(self.turn.number, Rung.BACKOFF, action.kind, round(seconds, 3)))
        await self.engine.clock.sleep(seconds)
        await self._record(RungFinished(self.turn.number, Rung.BACKOFF, RungResult.CHANGED))

    async def _climb(self, action: Climb) -> None:
        events.recovery_attempted(self.lease.session, self.turn, action)
        await self._record(RungStarted(self.turn.number, action.rung, action.kind))
        done = await climb(action.rung, self.log, self.engine, self._record)
        await self._record(*done)
        events.compactions_complete(self.lease.session, self.turn, done)

    async def _end_turn(self, action: EndTurn) -> None:
        events.turn_ended(self.lease.session, self.turn, action)
        ending = action.ending or Ending("", "")
        if ending.code in OVERFLOW_CODES and action.turn == self.turn.number:
            known = await self.engine.learning.known(self.engine.model_for(self.turn))
            ending = with_sizes(ending, shares_of(self.log, self.engine, known))
        cost = self.turn.spent_on_turn.known_usd if action.turn == self.turn.number else None
        await self._record(TurnEnded(action.turn, action.outcome, ending.code, ending.sentence, cost))
        if action.outcome is Outcome.ANSWERED:
            await self._make_room()
        await self._save_snapshot()

    async def _make_room(self) -> None:
        """Request a compaction between turns if the next one will need it."""
        if not may_wish(self.turn, self.engine.bounds):
            return
        known = await self.engine.learning.known(self.engine.model_for(self.turn))
        _, answer = newest_reply(self.log.tail)
        tokens = tokens_behind(self.turn, answer)
        percent = percent_full(tokens, known.limits, known.calibration, self.engine.bounds)
        wanted = wish(self.turn, percent, self.engine.bounds)
        if wanted is not None:
            await self.engine.store.admit(self.lease.session, wanted)


def _before(turn: Turn, model: Model, known: Known, prepared: Prepared) -> Before:
    """Return what earlier calls tell about a request."""
    answered = turn.answered
    parts = (part for message in prepared.request.messages for part in message.parts)
    # A request whose history the provider holds was not measured, so it cannot be compared.
    is_same = answered.model == model.name and answered.raw > 0
    return Before(
        known.reports_all_read,
        known.accepted_tokens,
        answered.tokens,
        answered.raw if is_same else 0,
        answered.reported if is_same else 0,
        is_plain=not prepared.sizes.media_count and not any(isinstance(part, Reasoning) for part in parts),
    )


def _window_notice(model: Model, window: int | None) -> str:
    return (
        f"{model.name} takes no more than about {window or 0:,} tokens, which it does not say: what was longer was cut "
        "or refused without a word. No session sends it more from here on."
    )


def _outcome_record(
    turn: Turn, outcome: Reply | Refusal, known: Sent, prices: Prices, caller: Caller
) -> ReplyRecorded | AttemptFailed:
    """Return the record of an attempt's outcome. An answer without content is a failure too."""
    number, attempt = turn.number, turn.attempts
    if isinstance(outcome, Refusal):
        return AttemptFailed(number, attempt, outcome, classify(outcome, known), is_relayed=caller.is_relayed)
    cost = prices.cost(outcome.usage)
    fault = classify_reply(outcome, known)
    is_guess = fault is not None and fault.confidence is Confidence.GUESS and turn.suspected is not None
    if fault is None or is_guess or caller.is_relayed:
        # A suspicion is acted on once, and never if the client has the answer already.
        return ReplyRecorded(number, attempt, tidy(outcome), caller.origin, cost_usd=cost)
    refusal = Refusal("", Phase.STREAM, status=200, cause=f"answered, but: {outcome.stop_reason}")
    return AttemptFailed(number, attempt, refusal, fault, outcome.usage, cost)


async def open_runner(
    lease: Lease, engine: Engine, known: SessionInfo | None = None, caller: Caller | None = None
) -> Runner:
    """Open a session's log, repair it if it is damaged, and return its runner."""
    return Runner(lease, await open_healed(lease, engine.store, known), engine, caller)
