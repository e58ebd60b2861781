"""A session under whatever people and providers do, as one state machine: what must hold after every step.

The provider counts in its own way and refuses what exceeds its real limits, of which the engine is told the truth, too
much, or nothing. Summarisers fail as they like. Between any two steps the process may be another one.
"""

import asyncio
from contextlib import suppress
from itertools import pairwise

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.fit import measure, misfit
from holdfast.core.limits.sizing import tokens_of_message
from holdfast.core.turn.ladder import SUMMARIES
from holdfast.core.view import conversation, lens_of, messages_in_view, uncovered, unpaired
from holdfast.errors import TurnFailedError
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.sessions.session import Session
from holdfast.stores.memory import MemoryBlobs, MemoryStore
from holdfast.testing.crashes import check_log
from holdfast.testing.engines import FunctionModel, a_hold, an_engine, refuses
from holdfast.types.faults import FaultKind, Refusal, Rung
from holdfast.types.limits import Limits
from holdfast.types.messages import Reply, Request, StopReason, Text, ToolCall, ToolResult, Usage
from holdfast.types.records import (
    AttemptFailed,
    AttemptStarted,
    CompactionApplied,
    CompactionOutcome,
    InputAdmitted,
    Logged,
    RungFinished,
    RungResult,
    TurnEnded,
)

KEY = "telegram:42"
WINDOW, WIRE = 4_000, 60_000
BOUNDS = Bounds(back_off_seconds_min=0.001, back_off_seconds_max=0.002, compacts_ahead=False)
# Rungs that are taken because a request has too many tokens, and must leave fewer.
SHRINKING = {Rung.MASK, *SUMMARIES, Rung.DIGEST, Rung.KEEP_NEWEST, Rung.REPLACE_LARGEST, Rung.ROLL_OVER}
NOTES = "Goal: mend the parts. Done: looked at some. Next: look at more."


class Provider(FunctionModel):
    """Counts a quarter more than we estimate, refuses what exceeds its real limits, and looks something up if asked."""

    def __init__(self, declared: Limits) -> None:
        super().__init__(self._answer, limits=declared)
        self.notes = "good"

    def _answer(self, request: Request) -> Reply | Refusal:
        sizes = measure(request)
        tokens = sizes.tokens * 5 // 4
        if sizes.wire_bytes > WIRE:
            return refuses(413, f"request body of {sizes.wire_bytes} bytes exceeds the limit of {WIRE} bytes")
        if tokens > WINDOW:
            said = f"maximum context length is {WINDOW} tokens. However, your messages resulted in {tokens} tokens"
            return refuses(400, f"This model's {said}")
        usage = Usage(tokens, 9)
        if "You write the working notes" in request.system:
            return self._noted(usage)
        newest = request.messages[-1].parts[-1]
        if isinstance(newest, Text) and "look up" in newest.text:
            call = ToolCall(f"c{len(self.requests)}", "look_up", '{"words": 700}')
            return Reply((call,), StopReason.TOOL_CALLS, usage, "m")
        said = "found it" if isinstance(newest, ToolResult) else "I see"
        return Reply((Text(said),), StopReason.END, usage, "m")

    def _noted(self, usage: Usage) -> Reply | Refusal:
        match self.notes:
            case "good":
                return Reply((Text(NOTES),), StopReason.END, usage, "m")
            case "endless":
                return Reply((Text("word " * 2_000),), StopReason.END, usage, "m")
            case "empty":
                return Reply((), StopReason.END, usage, "m")
            case _:
                return refuses(500, "try later")


def look_up(words: int) -> str:
    """Look something up."""
    return "finding " * words


class SessionMachine(RuleBasedStateMachine):
    """One session, by one key, in one store."""

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._store = MemoryStore(clock=SystemClock(), bounds=BOUNDS)
        self._blobs = MemoryBlobs()
        self._inputs: list[int] = []

    def teardown(self) -> None:
        self._runner.close()

    @initialize(declared=st.sampled_from([Limits(WINDOW), Limits(2 * WINDOW), Limits(), Limits(WINDOW, 500, WIRE)]))
    def begin(self, declared: Limits) -> None:
        self._provider = Provider(declared)

    # What people and providers do.

    @rule(words=st.sampled_from([1, 60, 400, 1_500, 9_000, 20_000]), looks_up=st.booleans())
    def send(self, words: int, *, looks_up: bool) -> None:
        async def sending(session: Session) -> None:
            turn = await session.post(("look up " if looks_up else "") + "word " * words)
            self._inputs.append(turn)
            with suppress(TurnFailedError):
                await session.wait(turn)

        self._as_a_process(sending)

    @rule()
    def compact(self) -> None:
        async def twice(session: Session) -> None:
            await session.compact()
            once = await open_log(self._store, KEY)
            again = await session.compact()
            after = await open_log(self._store, KEY)
            if self._provider.notes == "good":
                # Asking again changes nothing: there is nothing more to gain.
                assert again.outcome is CompactionOutcome.NOTHING_TO_DO
                assert after.turn.compaction_seq == once.turn.compaction_seq

        self._as_a_process(twice)

    @rule(count=st.integers(2, 6))
    def compact_at_once(self, count: int) -> None:
        async def together(session: Session) -> None:
            outcomes = await asyncio.gather(*(session.compact() for _ in range(count)))
            assert len({one.request for one in outcomes}) == count, "each has its own outcome"

        self._as_a_process(together)

    @rule()
    def undo(self) -> None:
        self._as_a_process(lambda session: session.undo())

    @rule(place=st.integers(0, 20))
    def pin(self, place: int) -> None:
        if self._inputs:
            turn = self._inputs[place % len(self._inputs)]
            self._as_a_process(lambda session: session.pin(turn, keep=place % 3 > 0))

    @rule(notes=st.sampled_from(["good", "endless", "empty", "down"]))
    def summaries_become(self, notes: str) -> None:
        self._provider.notes = notes

    def _as_a_process(self, work) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001 - any coroutine function
        async def live() -> None:
            async with a_hold(self._engine()) as hold:
                await work(await hold.session(KEY))

        self._runner.run(live())

    def _engine(self) -> Engine:
        return an_engine(self._provider, store=self._store, blobs=self._blobs, bounds=BOUNDS, tools=[look_up])

    # What must hold.

    def _records(self) -> list[Logged]:
        async def read() -> list[Logged]:
            return await self._store.read(KEY, after=0, limit=1_000_000)

        return self._runner.run(read())

    @invariant()
    def every_input_and_request_has_one_outcome_in_order(self) -> None:
        records = self._records()
        check_log(records, accepted=self._inputs)
        ended = [one.record.turn for one in records if isinstance(one.record, TurnEnded)]
        assert ended == [one.seq for one in records if isinstance(one.record, InputAdmitted)] == self._inputs

    @invariant()
    def everything_is_covered_and_paired(self) -> None:
        log = self._runner.run(open_log(self._store, KEY))
        turn = log.turn
        said = conversation(log.tail, first_turn=turn.boundary, first_step=turn.first_step, lens=lens_of(turn))
        assert uncovered(log.tail, turn, said) == []
        view = messages_in_view(log.tail, turn, pinned=log.pinned)
        assert view[len(view) - len(said) :] == tuple(one.message for one in said)
        assert unpaired(view) == []

    @invariant()
    def whatever_made_room_made_the_request_strictly_smaller(self) -> None:
        records = self._records()
        for one in records:
            # A summary may be longer than the digest it redoes; the boundary then stays.
            if isinstance(one.record, CompactionApplied) and one.record.turn:
                assert one.record.tokens_after < one.record.tokens_before
        attempts = [place for place, one in enumerate(records) if isinstance(one.record, AttemptStarted)]
        for earlier, later in pairwise(attempts):
            between = [one.record for one in records[earlier:later]]
            first, then = records[earlier].record, records[later].record
            assert isinstance(first, AttemptStarted)
            assert isinstance(then, AttemptStarted)
            too_long = any(isinstance(r, AttemptFailed) and r.fault.kind is FaultKind.TOKEN_OVERFLOW for r in between)
            changed = {r.rung for r in between if isinstance(r, RungFinished) and r.result is RungResult.CHANGED}
            if first.turn == then.turn and too_long and changed & SHRINKING:
                assert then.tokens_raw < first.tokens_raw

    @invariant()
    def what_was_answered_after_a_rung_is_within_every_budget(self) -> None:
        """The truth is the provider's: what it took fits. What we know then must say so as well."""
        records = self._records()
        if not self._inputs or not any(isinstance(one.record, RungFinished) for one in records[self._inputs[-1] :]):
            return

        async def look() -> None:
            engine = self._engine()
            known = await engine.learning.known(self._provider)
            async with a_hold(engine) as hold:
                view = await (await hold.session(KEY)).view()
            # The answer itself has come on top since: a request that filled the window exactly fits without it.
            asked = replace(view.sizes, tokens=view.sizes.tokens - tokens_of_message(view.messages[-1]))
            assert misfit(asked, replace(known.limits, output_tokens_max=1), known.calibration, BOUNDS) is None

        ended = next(one.record for one in reversed(records) if isinstance(one.record, TurnEnded))
        if not ended.code and records[-1].seq == next(o.seq for o in reversed(records) if o.record is ended):
            self._runner.run(look())


# Each step is a process of its own, and every example some dozens of turns.
SessionMachine.TestCase.settings = settings(
    max_examples=25, stateful_step_count=10, deadline=None, suppress_health_check=list(HealthCheck)
)
TestSessionMachine = SessionMachine.TestCase
