"""The public API: sessions that you can send to, watch and cancel.

A message is accepted when it is on disk, and from then on it is answered, whether or not anybody waits for the answer.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.fit import Sizes
from holdfast.core.limits.prices import NOTHING_SPENT, Spent
from holdfast.errors import BadInputError, HoldfastError, StoreDamagedError, TurnFailedError
from holdfast.ports import Attachment, Feed, Hit, ReasoningDelta, SessionInfo, TextDelta
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.live import LiveDelta, Mailbox
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.engine.requests import prepare
from holdfast.runtime.maintenance.supervisor import Supervisor
from holdfast.runtime.sessions.admission import admit_parts, check_client_id, check_session_key, leave_out_base64
from holdfast.runtime.sessions.transfer import forked
from holdfast.runtime.tools.client_tools import find_call
from holdfast.runtime.tools.recall import Page, Recall
from holdfast.runtime.tools.toolbox import bound_output
from holdfast.stores.fallbacks import search
from holdfast.types.limits import Limits
from holdfast.types.messages import Message, Part, Reply, ToolOutcome, ToolResult, ToolSpec, Usage, text_of
from holdfast.types.records import (
    CancelRequested,
    CompactionApplied,
    CompactionRequested,
    CompactionSettled,
    CompactionUndone,
    DamageSetAside,
    InputAdmitted,
    Logged,
    MessagePinned,
    NoticePosted,
    Outcome,
    ReplyRecorded,
    ResultSubmitted,
    TurnEnded,
    turn_of,
)

if TYPE_CHECKING:
    from holdfast.runtime.engine.preview import Preview

Event: TypeAlias = TextDelta | ReasoningDelta | Logged


class Answer(msgspec.Struct, frozen=True):
    """What came of a message: the model's last reply, and what the person should know besides."""

    text: str
    # The turn that gave it, by the seq of its input.
    turn: int
    model: str
    parts: tuple[Part, ...]
    usage: Usage | None = None
    # What the engine had to do to get the answer, in plain words; usually nothing.
    notices: tuple[str, ...] = ()
    # What all calls of the turn cost, in US dollars; None where no price is known.
    cost_usd: float | None = None

    def __str__(self) -> str:
        return self.text


class View(msgspec.Struct, frozen=True):
    """What the model would see now, and what that comes to."""

    system: str
    messages: tuple[Message, ...]
    tokens_estimated: int
    wire_bytes_estimated: int
    window_tokens: int | None
    # Turns before this one are represented by a summary, not shown.
    boundary: int
    # What it comes to in each of the three budgets, and what the model accepts, as far as that is known.
    sizes: Sizes
    limits: Limits
    tools: tuple[ToolSpec, ...] = ()
    # Rises with every roll-over.
    generation: int = 1
    # What all calls of the session came to so far, and those for summaries alone.
    spent: Spent = NOTHING_SPENT
    spent_on_notes: Spent = NOTHING_SPENT


class Session:
    """A conversation under a stable key. It outlives the process: open it again by the same key and go on."""

    def __init__(self, key: str, engine: Engine, supervisor: Supervisor) -> None:
        self.key = key
        self._engine = engine
        self._supervisor = supervisor

    async def send(
        self, text: str = "", *, attachments: Sequence[Attachment | Path | str] = (), client_id: str = ""
    ) -> Answer:
        """Send a message and wait for its answer.

        `attachments` are paths, or bytes as `Attachment`. The same `client_id` sent twice is one message, from wherever
        it is sent: both calls return its one answer. Raises `TurnFailedError` where the turn ended without an answer;
        the session goes on, and the next message works.
        """
        return await self._answer(await self.post(text, attachments=attachments, client_id=client_id))

    async def stream(
        self, text: str = "", *, attachments: Sequence[Attachment | Path | str] = (), client_id: str = ""
    ) -> AsyncGenerator[Event, None]:
        """Send a message and yield what happens until its turn has ended.

        `TextDelta` is the answer as it is written; `Logged` is a record: a tool started, an attempt failed, a notice.
        Text of an attempt that failed is void: the next attempt begins anew. Raises `TurnFailedError` at the end, as
        `send` does. Leaving the loop early does not cancel the turn.
        """
        turn = await self.post(text, attachments=attachments, client_id=client_id)
        async with aclosing(self._events(turn)) as events:
            async for event in events:
                yield event

    async def follow(self, turn: int) -> AsyncGenerator[Event, None]:
        """Yield what happens in a turn, from its start, until it has ended; posted by whom and whenever.

        As `stream` otherwise. Of what was written before, or in another process, each answer comes as one `TextDelta`.
        """
        self._supervisor.check_running()
        await self._check_turn(turn)
        self._supervisor.wake(self.key)
        async with aclosing(self._events(turn)) as events:
            async for event in events:
                yield event

    async def post(
        self, text: str = "", *, attachments: Sequence[Attachment | Path | str] = (), client_id: str = ""
    ) -> int:
        """Send a message without waiting for its answer, and return its turn, for `wait` and `cancel`.

        When this returns, the message is on disk and will be answered.
        """
        self._supervisor.check_running()
        bounds = self._engine.bounds
        if client_id:
            check_client_id(client_id, bounds=bounds)
        shown, originals = await leave_out_base64(text, blobs=self._engine.blobs, bounds=bounds)
        parts = await admit_parts(shown, attachments, blobs=self._engine.blobs, bounds=bounds)
        admitted = InputAdmitted(parts, client_id, originals=originals)
        admission = await self._engine.store.admit(self.key, admitted)
        self._supervisor.wake(self.key)
        return admission.seq

    async def wait(self, turn: int) -> Answer:
        """Wait for the answer to a message that was posted, by whom and whenever. Raises as `send` does."""
        self._supervisor.check_running()
        await self._check_turn(turn)
        self._supervisor.wake(self.key)
        return await self._answer(turn)

    async def _answer(self, turn: int) -> Answer:
        reply: Reply | None = None
        notices: list[str] = []
        cost: float | None = None
        async with aclosing(self._follow(turn)) as sights:
            async for sight in sights:
                match sight:
                    case Logged(record=ReplyRecorded(reply=said)):
                        reply = said
                    case Logged(record=NoticePosted(sentence=sentence)):
                        notices.append(sentence)
                    case Logged(record=TurnEnded(cost_usd=paid)):
                        cost = paid
                    case _:
                        pass
        assert reply is not None, "a turn that ended with an answer has a reply"
        return Answer(text_of(reply.parts), turn, reply.model, reply.parts, reply.usage, tuple(notices), cost)

    async def cancel(self, turn: int | None = None) -> None:
        """Stop working on a turn, at once; without a turn, on all that are open. What was done stays done."""
        self._supervisor.check_running()
        if turn is not None:
            await self._check_turn(turn)
        for number in await self._open_turns() if turn is None else (turn,):
            await self._engine.store.admit(self.key, CancelRequested(number))
        self._supervisor.wake(self.key)

    async def compact(self, *, focus: str = "") -> CompactionSettled:
        """Make the view smaller now, and return what came of it.

        `focus` says what the summary should keep in particular. Whoever else asks before it is made gets the same
        compaction, even where the request comes to the log behind it.
        """
        self._supervisor.check_running()
        known = await self._engine.store.info(self.key)
        wanted = CompactionRequested(focus=focus, seen=known.last_seq if known else 0)
        request = (await self._engine.store.admit(self.key, wanted)).seq
        with self._engine.live.subscribe(self.key) as mailbox:
            self._supervisor.wake(self.key)
            async with self._pumping(mailbox, after=request), aclosing(mailbox.sights()) as sights:
                async for sight in sights:
                    match sight:
                        case Logged(record=CompactionSettled(request=settled) as outcome) if settled == request:
                            return outcome
                        case _:
                            pass
        raise AssertionError("sights end only by an exception")

    async def preview(self, *, focus: str = "", with_model: bool = False) -> "Preview | None":
        """Return what `compact` would do now, without doing it; None where there is nothing to do.

        Nothing is written. With `with_model` a model is asked for the real summary, which costs a call; it is kept, so
        a `compact` with the same focus uses exactly that text and asks nobody again.
        """
        from holdfast.runtime.engine.preview import preview  # noqa: PLC0415 - what summaries are made with is loaded late

        self._supervisor.check_running()
        log = await open_log(self._engine.store, self.key)
        return await preview(log, self._engine, focus=focus, with_model=with_model)

    async def undo(self, *, compaction: int | None = None) -> bool:
        """Undo the compaction or roll-over in force: the view is again as it was before it. False where there is none.

        Again and again goes back one after the other. With `compaction`, the seq of its record, only that one is
        undone, so that asking twice does no more than once.
        """
        self._supervisor.check_running()
        turn = (await open_log(self._engine.store, self.key)).turn
        if turn.compaction is None or compaction not in (None, turn.compaction_seq):
            return False
        restored = (await self.read(turn.compaction.before)).record if turn.compaction.before else None
        assert restored is None or isinstance(restored, CompactionApplied), "a compaction names the one before it"
        undone = CompactionUndone(turn.compaction_seq, restored, turn.compaction.before)
        seq = (await self._engine.store.admit(self.key, undone)).seq
        # Whoever changed the view meanwhile came first, and then there is nothing of this to undo.
        meanwhile = await self._engine.store.read(self.key, after=turn.seq, limit=seq - turn.seq - 1)
        return not any(isinstance(logged.record, CompactionApplied | CompactionUndone) for logged in meanwhile)

    async def pin(self, turn: int, *, keep: bool = True) -> None:
        """Keep the message that began a turn in the view, whatever is compacted; with `keep=False`, no longer."""
        self._supervisor.check_running()
        await self._check_turn(turn)
        await self._engine.store.admit(self.key, MessagePinned(turn, keep))

    async def history(self, *, after: int = 0, limit: int = 100) -> list[Logged]:
        """Return records of this session as they were written, those behind `after`."""
        return await self._engine.store.read(self.key, after=after, limit=limit)

    async def search(self, query: str, *, limit: int = 10) -> list[Hit]:
        """Return the messages and tool steps that answer a question best, also those the model no longer sees.

        A question is words, a path, a name or an id; `read` gives what a hit names.
        """
        return await search(self._engine.store, self.key, query, limit=limit)

    async def read(self, seq: int) -> Logged:
        """Return one record as it was written."""
        found = await self._engine.store.read(self.key, after=seq - 1, limit=1) if seq > 0 else []
        if not found:
            raise BadInputError(f"session {self.key!r} has no record {seq}; records are numbered from 1")
        return found[0]

    async def recall(self, *, seq: int = 0, blob: str = "", offset: int = 0) -> Page:
        """Return a page of what a record holds as text, spilled output and long messages whole, or of a blob it names.

        The next page begins at `end`; where `end` is `total`, there is none. The model reads the same by its own tool.
        """
        if (seq > 0) == bool(blob.strip()) or seq < 0 or offset < 0:
            raise BadInputError("give the seq of a record or the beginning of a blob's id, one of the two")
        reader = Recall(self._engine.store, self._engine.blobs, self._engine.bounds)
        return await reader.read(self.key, seq=seq, blob=blob, offset=offset)

    async def fork(self, key: str, *, at: int | None = None) -> "Session":
        """Make a session of its own of this one's log, up to the record `at`, and return it. This one stays as it is.

        What was being answered there is not answered in the new one. It is there as a whole or not at all.
        """
        self._supervisor.check_running()
        check_session_key(key, bounds=self._engine.bounds)
        await forked(self._engine.store, self.key, key, at=at, bounds=self._engine.bounds)
        return Session(key, self._engine, self._supervisor)

    def watch(self, *, after: int = 0) -> Feed:
        """Yield every record behind `after`, then each new one as it is written, without end."""
        return self._engine.store.feed(self.key, after=after)

    async def sights(self, *, after: int = 0) -> AsyncGenerator[LiveDelta | Logged, None]:
        """Yield every record behind `after` and the deltas of answers, in one order as they come, without end.

        However slowly it is read, a bounded number of them waits in memory; of the deltas some may then be left out.
        """
        with self._engine.live.subscribe(self.key) as mailbox:
            async with self._pumping(mailbox, after=after), aclosing(mailbox.sights()) as sights:
                async for sight in sights:
                    yield sight

    async def known(self) -> SessionInfo | None:
        """Return what is known of this session without reading its log; None before its first record."""
        return await self._engine.store.info(self.key)

    async def standing(self) -> Turn:
        """Return where this session stands: what waits, what is in flight, and what it was told about itself."""
        return (await open_log(self._engine.store, self.key)).turn

    async def submit(
        self, reply: int, call_id: str, output: Sequence[str | Attachment], *, is_failure: bool = False
    ) -> bool:
        """Report what came of a call that this client was told to run; False where it was reported before.

        The call is named by the record of the reply that asked for it, and its id. What is too long is shortened, and
        kept whole in a blob. When this returns it is on disk, and the turn goes on with it.
        """
        self._supervisor.check_running()
        asked = await find_call(self._engine.store, self.key, reply, call_id)
        if asked.is_settled:
            return False
        bounded = await bound_output(output, blobs=self._engine.blobs, bounds=self._engine.bounds)
        outcome = ToolOutcome.FAILED if is_failure else ToolOutcome.DONE
        result = ToolResult(call_id, bounded.parts, outcome, bounded.originals)
        await self._engine.store.admit(self.key, ResultSubmitted(asked.turn, reply, result))
        self._supervisor.wake(self.key)
        return True

    async def view(self) -> View:
        """Return what the model would see now."""
        log = await open_log(self._engine.store, self.key)
        known = await self._engine.learning.known(self._engine.models(log.turn.model)[0])
        prepared = prepare(log, self._engine, known)
        return View(
            system=prepared.request.system,
            messages=prepared.request.messages,
            tokens_estimated=known.calibration.estimate(prepared.sizes.tokens),
            wire_bytes_estimated=prepared.sizes.wire_bytes,
            window_tokens=known.limits.window_tokens,
            boundary=log.turn.boundary,
            generation=log.turn.generation,
            sizes=prepared.sizes,
            limits=known.limits,
            tools=prepared.request.tools,
            spent=log.turn.spent,
            spent_on_notes=log.turn.spent_on_notes,
        )

    async def generation(self) -> int:
        """Return which generation the view is of: 1 until the session rolled over. All of them are in the log."""
        return (await open_log(self._engine.store, self.key)).turn.generation

    async def _check_turn(self, turn: int) -> None:
        found = await self._engine.store.read(self.key, after=turn - 1, limit=1) if turn > 0 else []
        record = found[0].record if found else None
        if isinstance(record, DamageSetAside) and not record.until:
            # Whoever works on the session sets it aside, and then it has an outcome.
            self._supervisor.wake(self.key)
            raise StoreDamagedError(self.key, turn, f"{record.why}; it is being set aside, ask again")
        if not isinstance(record, InputAdmitted) and not (isinstance(record, DamageSetAside) and record.is_owed):
            raise BadInputError(
                f"session {self.key!r} has no turn {turn}; a turn is named by the number that `post` returned"
            )

    async def _open_turns(self) -> tuple[int, ...]:
        turn = (await open_log(self._engine.store, self.key)).turn
        return (turn.number, *turn.waiting) if turn.number else turn.waiting

    async def _events(self, turn: int) -> AsyncGenerator[Event, None]:
        async with aclosing(self._follow(turn)) as sights:
            async for sight in sights:
                if isinstance(sight, Logged):
                    yield sight
                elif isinstance(sight.delta, TextDelta | ReasoningDelta):
                    yield sight.delta

    async def _follow(self, turn: int) -> AsyncGenerator[LiveDelta | Logged, None]:
        """Yield what happens in a turn until it has ended, and raise if it ended without an answer."""
        seen_live: set[int] = set()
        async with aclosing(self.sights(after=turn)) as sights:
            async for sight in sights:
                if isinstance(sight, LiveDelta):
                    if sight.turn == turn:
                        seen_live.add(sight.attempt)
                        yield sight
                    continue
                if turn_of(sight.record) != turn:
                    continue
                if isinstance(sight.record, ReplyRecorded) and sight.record.attempt not in seen_live:
                    # Written by another process: show it whole, so that a reader of deltas misses nothing.
                    whole = TextDelta(text_of(sight.record.reply.parts))
                    yield LiveDelta(turn, sight.record.attempt, whole)
                yield sight
                if isinstance(sight.record, TurnEnded):
                    self._check_answered(sight.record)
                    return

    def _check_answered(self, ended: TurnEnded) -> None:
        if ended.outcome is not Outcome.ANSWERED:
            raise TurnFailedError(self.key, ended.turn, ended.code, ended.sentence)

    @asynccontextmanager
    async def _pumping(self, mailbox: Mailbox, *, after: int) -> AsyncGenerator[None, None]:
        """Bring records into the mailbox for a while."""
        pump = asyncio.create_task(self._pump(mailbox, after=after), name=f"pump {self.key}")
        try:
            yield
        finally:
            pump.cancel()
            await asyncio.wait([pump])

    async def _pump(self, mailbox: Mailbox, *, after: int) -> None:
        """Bring records into the mailbox, so that they and the deltas come in one order."""
        try:
            async with aclosing(self._engine.store.feed(self.key, after=after)) as feed:
                async for logged in feed:
                    await mailbox.room()
                    mailbox.put(logged)
        except HoldfastError as error:
            mailbox.put(error)
