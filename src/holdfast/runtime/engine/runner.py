"""Runner of one session under its lease: fold, decide, record, perform, record, in the only loop of the engine.

The core decides; this module performs. Every external effect is recorded before and after, so a process may crash
between any two lines of this module.
"""

import asyncio
import random
from collections.abc import Coroutine
from contextlib import aclosing, suppress
from typing import assert_never

from msgspec.structs import replace

from holdfast.core.compaction.plan import may_wish, percent_full, tokens_behind, warning, wish
from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.fit import budgets_of, described, misfit, sent
from holdfast.core.limits.learning import suspected_tokens
from holdfast.core.turn.decide import (
    IS_FULL,
    Action,
    Backoff,
    CallModel,
    Climb,
    EndTurn,
    Rest,
    RunTools,
    SettleCompactions,
    StartTurn,
    closing,
    decide,
    interruptions,
    may_wait,
    told_of_failure,
)
from holdfast.core.turn.failure_messages import OVERFLOW_CODES, Ending, cut_notice, window_notice, with_sizes
from holdfast.errors import StoreFullError, StoreIoError
from holdfast.ports import Lease, Model, SessionInfo
from holdfast.runtime.engine import log_events as events
from holdfast.runtime.engine.context import Engine, append_after
from holdfast.runtime.engine.learning import Known
from holdfast.runtime.engine.log import Log
from holdfast.runtime.engine.requests import (
    Caller,
    NativeCaller,
    Prepared,
    call_facts,
    dialect_of,
    ignored_settings,
    outcome_record,
    parameters_sent,
    prepare,
    readings_before,
    refused_output,
    shares_of,
)
from holdfast.runtime.engine.rungs import climb
from holdfast.runtime.maintenance.healing import NOTICE as DAMAGE_NOTICE
from holdfast.runtime.maintenance.healing import open_healed
from holdfast.runtime.tools.client_tools import newest_reply
from holdfast.runtime.tools.tool_runs import ToolRuns
from holdfast.stores.fallbacks import save_snapshot
from holdfast.types.faults import Phase, Refusal, Rung
from holdfast.types.limits import Support
from holdfast.types.messages import Reply, ToolCall
from holdfast.types.records import (
    Abandonment,
    AttemptFailed,
    AttemptStarted,
    CancelRequested,
    CompactionOutcome,
    CompactionSettled,
    InputAdmitted,
    NoticePosted,
    Outcome,
    ReplyRecorded,
    RungFinished,
    RungResult,
    RungStarted,
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
        # The log on disk, and records that wait to be written: see `core/turn/decide.py`.
        self._log_on_disk = log
        self._unwritten: tuple[WorkRecord, ...] = ()
        # Records that share the commit of the next ones, as no effect comes between: the start of a turn and its first
        # attempt, an answer and the end of its turn. And the log with all that is not on disk.
        self._held: tuple[WorkRecord, ...] = ()
        self._ahead: Log | None = None
        self._appending = asyncio.Lock()
        # The task that a cancel ends, the cancelled turns, and the newest input, by seq.
        self._work: asyncio.Task[None] | None = None
        self._cancelled: set[int] = set()
        self._newest_input = 0
        self._tools = ToolRuns(lease.session, engine, lambda: self.log, self._record)

    @property
    def log(self) -> Log:
        """The log on disk, followed by the records that wait to be written."""
        disk = self._log_on_disk
        if not (waiting := (*self._unwritten, *self._held)):
            return disk
        if self._ahead is None or self._ahead.turn.seq != disk.turn.seq + len(waiting):
            self._ahead = disk.followed_by(waiting, self.engine.clock.now())
        return self._ahead

    @property
    def turn(self) -> Turn:
        """The current state of the session."""
        return self.log.turn

    async def run(self) -> None:
        """Close attempts and tools of a crashed process, then decide and perform until there is nothing to do."""
        watch = asyncio.create_task(self._watch_for_cancel(), name=f"watch {self.lease.session}")
        try:
            await self.close_in_flight(Abandonment.INTERRUPTED)
            while not isinstance(action := self._decide(), Rest) or await self._tools.expire_approvals():
                await self._perform(action)
                await self._log_on_disk.catch_up(self.engine.store)
        except asyncio.CancelledError:
            await self._record(*self._take_held())
            raise
        except (StoreFullError, ExceptionGroup) as error:
            # Tools run in parallel, so a result that cannot be recorded raises a group.
            if isinstance(error, ExceptionGroup) and error.split(StoreFullError)[1] is not None:
                raise
            await self._end_all()
        finally:
            watch.cancel()
            await asyncio.wait([watch])

    def _decide(self) -> Action:
        action = decide(self.turn, self.engine.bounds, is_proxied=self.engine.is_proxied)
        if not isinstance(action, RunTools):
            return action
        runnable = self._tools.runnable(action.calls)
        return RunTools(runnable) if runnable else Rest()

    async def close_in_flight(self, reason: Abandonment) -> None:
        """Record that attempts and tools in flight were abandoned, with the reason."""
        await self._record(*interruptions(self.turn, reason, self.engine.bounds))

    async def _perform(self, action: Action) -> None:
        match action:
            case StartTurn(turn=number):
                self._hold(TurnStarted(number), *self._input_notices(number))
            case CallModel():
                await self._unless_stopped(self._call_model(action))
            case RunTools(calls=calls):
                await self._unless_stopped(self._tools.run(calls))
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
        return [*self._damage_notice(number), *self._base64_notice(number)]

    def _damage_notice(self, number: int) -> list[NoticePosted]:
        """Repeat the notices of repairs between turns, so that the person gets them with the answer."""
        told: list[NoticePosted] = []
        for logged in reversed(self.log.tail):
            match logged.record:
                case TurnStarted():
                    break
                case NoticePosted(turn=0, code=code, sentence=sentence) if code == DAMAGE_NOTICE:
                    told.append(NoticePosted(number, code, sentence))
                case _:
                    pass
        return told[::-1]

    def _base64_notice(self, number: int) -> list[NoticePosted]:
        admitted = next((logged.record for logged in self.log.tail if logged.seq == number), None)
        if not isinstance(admitted, InputAdmitted) or not admitted.originals:
            return []
        sentence = (
            "A file was pasted into this message as base64, which a model reads as noise, so it is left out and kept; "
            "attach it as a file to have it read."
        )
        return [NoticePosted(number, "base64_left_out", sentence)]

    # --- Recording ---

    def _hold(self, *records: WorkRecord) -> None:
        """Let records wait for the next ones. Every action but `Rest` begins with a record, so that is soon."""
        self._held, self._ahead = (*self._held, *records), None

    def _take_held(self) -> tuple[WorkRecord, ...]:
        held, self._held, self._ahead = self._held, (), None
        return held

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
            records = (*self._held, *records)
            try:
                unwritten = (*self._unwritten, *records)
                await append_after(self.engine, self.lease, self._log_on_disk, lambda _: unwritten)
            except (StoreFullError, StoreIoError) as error:
                if not may_wait(self._unwritten, records):
                    raise
                self._postpone(records, error)
            else:
                self._unwritten = ()
                self._take_held()

    def _postpone(self, records: tuple[WorkRecord, ...], error: StoreFullError | StoreIoError) -> None:
        """Keep records in memory; the next append that cannot wait writes them too."""
        notice = () if self._unwritten else (told_of_failure(self.turn.number, error.code),)
        self._take_held()
        self._unwritten = (*self._unwritten, *records, *notice)
        events.write_postponed(self.lease.session, self.turn, len(self._unwritten), error)

    async def _end_all(self) -> None:
        """End all pending work on a full disk, in the space that is reserved for it."""
        # Records that are only in memory are discarded.
        self._unwritten = ()
        self._take_held()
        await self._log_on_disk.catch_up(self.engine.store)
        events.store_full(self.lease.session, self.turn)
        await self._record(*closing(self.turn, self.engine.bounds, IS_FULL))

    async def _save_snapshot(self) -> None:
        log = self._log_on_disk
        if log.turn.seq - log.snapshot_seq >= SNAPSHOT_EVERY_RECORDS or log.has_new_memory:
            await save_snapshot(self.engine.store, self.lease, log.snapshot())
            log.note_saved()

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
        cancelled = self._cancelled.union(turn.cancelled)
        if turn.is_wanted_climb and turn.climbing and all(wanted.seq in cancelled for wanted in turn.wanted):
            return True
        if turn.number:
            return turn.number in cancelled
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
        ignored = ignored_settings(self.log, model, prepared)
        await self._record(*ignored, AttemptStarted(number, attempt, model.name, tokens, asks, taken, tokens_raw=raw))
        lenient = self.engine.is_proxied
        fault = misfit(prepared.sizes, known.limits, known.calibration, self.engine.bounds, is_lenient=lenient)
        if fault is not None and action.heeds_estimate:
            await self.engine.learning.cut(model, fault)
            refusal = Refusal(dialect_of(model), Phase.ESTIMATE, cause="not sent: by our estimate it does not fit")
            await self._fail(AttemptFailed(number, attempt, refusal, fault), prepared)
            return
        self.engine.message_limit.observe(self.lease.session, self.turn, len(prepared.request.messages))
        outcome = await self._caller.call(model, prepared, self.log)
        before = readings_before(self.turn, model, known, prepared)
        was_sent = sent(prepared.sizes, known.limits, known.calibration, before)
        was_sent = described(was_sent, prepared.request, model.issuer)
        parameters = parameters_sent(prepared.request, model, self.engine)
        tested = known.tested & parameters
        call = replace(call_facts(self.turn, known, prepared, before), tested=tested)
        if isinstance(outcome, Reply):
            suspected = suspected_tokens(outcome.usage, prepared.sizes, known.calibration, before, model.limits)
            call = replace(call, suspected=suspected)
        recorded = outcome_record(self.turn, outcome, was_sent, model.prices, self._caller, parameters)
        if isinstance(recorded, AttemptFailed):
            await self._fail(recorded, prepared)
        else:
            await self._reply(replace(recorded, tokens_suspected=call.suspected), prepared, known, model)
        fault = recorded.fault if isinstance(recorded, AttemptFailed) else None
        call = replace(call, record=Support(self.lease.session, self.turn.seq))
        if await self.engine.learning.observe(model, outcome, fault, call):
            window = (await self.engine.learning.known(model)).limits.window_tokens
            await self._record(NoticePosted(number, "window_learned", window_notice(model.name, window)))

    async def _reply(self, replied: ReplyRecorded, prepared: Prepared, known: Known, model: Model) -> None:
        """Record a reply, with a notice if the model seems to have read only a part of the request."""
        percent = percent_full(prepared.sizes.tokens, known.limits, known.calibration, self.engine.bounds)
        warned, cut = warning(self.turn, percent, known.limits), replied.tokens_suspected
        told = NoticePosted(replied.turn, "cut_suspected", cut_notice(model.name, cut)) if cut else None
        refused = refused_output(self.log, self.engine, replied)
        records = [record for record in (replied, refused, told, warned) if record is not None]
        if told is None and self._acts_alone(replied.reply):
            self._hold(*records)
        else:
            await self._record(*records)

    def _acts_alone(self, reply: Reply) -> bool:
        """Return whether no record after this reply names its seq: that of one which is not on disk may change."""
        calls = (part for part in reply.parts if isinstance(part, ToolCall))
        return not self.engine.is_proxied and all(
            self.engine.toolbox.has(call.name, self.turn.tool_names) for call in calls
        )

    async def _fail(self, failed: AttemptFailed, prepared: Prepared) -> None:
        events.overflow_detected(self.lease.session, self.turn, failed.fault, prepared.sizes)
        await self._record(failed)

    async def _back_off(self, action: Backoff) -> None:
        # Jitter of up to 50 %, so that sessions that were refused together do not retry together.
        seconds = action.seconds * random.uniform(1.0, 1.5)  # noqa: S311 - spreads load, guards nothing
        await self._record(RungStarted(self.turn.number, Rung.BACKOFF, action.kind, round(seconds, 3)))
        await self.engine.clock.sleep(seconds)
        await self._record(RungFinished(self.turn.number, Rung.BACKOFF, RungResult.CHANGED))

    async def _climb(self, action: Climb) -> None:
        if action.kind is None and not self.turn.climbed_for_wanted and (why := await self._nothing_to_compact()):
            settled = (CompactionSettled(one.seq, CompactionOutcome.NOTHING_TO_DO, why) for one in self.turn.wanted)
            await self._record(*settled)
            return
        events.recovery_attempted(self.lease.session, self.turn, action)
        await self._record(RungStarted(self.turn.number, action.rung, action.kind))
        done = await climb(action.rung, self.log, self.engine, self._record)
        await self._record(*done)
        events.compactions_complete(self.lease.session, self.turn, done)
        if self._log_on_disk.has_new_memory:
            # Without it the next compaction observes the same messages again. A full disk loses nothing here.
            with suppress(StoreFullError, StoreIoError):
                await self._save_snapshot()

    async def _nothing_to_compact(self) -> str:
        """Return the reason why no compaction can help; "" if one may."""
        from holdfast.runtime.engine.compaction import nothing_to_compact  # noqa: PLC0415 - most processes never need it

        return await nothing_to_compact(self.log, self.engine)

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


async def open_runner(
    lease: Lease,
    engine: Engine,
    known: SessionInfo | None = None,
    caller: Caller | None = None,
    opened: Log | None = None,
) -> Runner:
    """Open a session's log, repair it if it is damaged, and return its runner."""
    return Runner(lease, await open_healed(lease, engine.store, known, opened), engine, caller)
