"""Compaction: replace the past by a model's summary or by a digest, both with a ledger of exact facts.

Summaries are made from the original messages, in pieces if they are too long for one request. Each piece is recorded
once it is paid for.
"""

from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec.structs import replace

from holdfast import ports
from holdfast.core.compaction.digest import represent
from holdfast.core.compaction.facts import Passage
from holdfast.core.compaction.ledger import make_ledger
from holdfast.core.compaction.plan import Keeps, Plan, plan_compaction, summary_tokens_max
from holdfast.core.compaction.rollover import Beginning, beginnings, generation_after, is_smaller, shown_less, told_of
from holdfast.core.compaction.summary import render_notes
from holdfast.core.fold import apply
from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.fit import Sizes, exceeds_alone, measure, misfit
from holdfast.core.limits.prices import spoken_usd
from holdfast.core.limits.sizing import bytes_of_message, tokens_of_text
from holdfast.core.view import ViewMessage, conversation, lens_of, through
from holdfast.errors import StoreDamagedError
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.learning import Known
from holdfast.runtime.engine.log import Log, pages
from holdfast.runtime.engine.requests import prepare, without_messages
from holdfast.runtime.engine.summary import Summariser
from holdfast.types.faults import FaultKind, Rung
from holdfast.types.messages import ContentPart
from holdfast.types.records import (
    CompactionApplied,
    CompactionSettled,
    GenerationStarted,
    InputAdmitted,
    Logged,
    NoticePosted,
    PartReplaced,
    SummaryKind,
    SummaryRefused,
    TurnEnded,
    TurnStarted,
    WorkRecord,
)

# Originals that facts and digests are extracted from, newest first. More do not improve a text of bounded length, and
# would delay the answer.
_ORIGINALS_BYTES_MAX = 4 * 2**20
_ORIGINALS_RECORDS_MAX = 20_000
# The smallest saving that is worth a summary; its own frame takes about as much.
GAIN_TOKENS_MIN = 200
_SHORTEST = "."
OVER_BUDGET = "summary_budget"
# The summary's share of the tokens that represent the past; the rest is for the ledger.
_SUMMARY_SHARE = 0.6


class Planned(msgspec.Struct, frozen=True):
    """A compaction that is possible now: plan, model limits, and the original messages."""

    plan: Plan
    known: Known
    originals: list[ViewMessage]


async def plan(log: Log, engine: Engine, keeps: Keeps) -> Planned | None:
    """Plan a compaction of a session in its current state, None if there is nothing to compact."""
    known = await engine.known(engine.model_for(log.turn), log.turn)
    tokens = prepare(log, engine, known).sizes.tokens
    planned = plan_compaction(log.tail, log.turn, known.limits, engine.bounds, tokens=tokens, keeps=keeps)
    if planned is None:
        return None
    return Planned(planned, known, await originals_before(engine.store, log, planned))


async def digest(log: Log, engine: Engine, keeps: Keeps) -> list[WorkRecord] | None:
    """Replace the past by a digest. Returns None if there is nothing to compact or nothing to gain."""
    planned = await plan(log, engine, keeps)
    if planned is None or not planned.plan.moves(log.turn):
        return None
    return _records_of(log, applied(log, engine, planned, digest_of(planned)))


def digest_of(planned: Planned) -> str:
    """Return the digest of a planned compaction."""
    return represent(passages_of(planned.originals), tokens_max=planned.plan.summary_tokens)


async def summarise(
    rung: Rung, log: Log, engine: Engine, record: Callable[..., Awaitable[None]]
) -> list[WorkRecord] | None:
    """Replace the past by a model's summary. Returns None if there is nothing to gain or the model failed."""
    planned = await plan(log, engine, Keeps.LITTLE if log.turn.is_wanted_climb else Keeps.TAIL)
    if planned is None or not _may_help(log, engine, planned):
        return None
    focus = "; ".join(wanted.focus for wanted in log.turn.wanted if wanted.focus)
    summariser = Summariser(engine.summariser_for(log.turn), log, engine, record, focus=focus)
    summary = await summary_of(planned, summariser, rung)
    if summary is None:
        if summariser.over_budget and not _has_budget_notice(log):
            await record(NoticePosted(log.turn.number, OVER_BUDGET, _budget_notice(summariser)))
        return None
    done = _records_of(log, applied(log, engine, planned, summary, model=summariser.name))
    if done is None:
        await record(SummaryRefused(log.turn.number, summariser.name, "it is larger than what it would replace"))
    return done


def _may_help(log: Log, engine: Engine, planned: Planned) -> bool:
    """Return whether a summary can help: if even the shortest would not, none is paid for."""
    turn, cut, known = log.turn, planned.plan, planned.known
    if not cut.moves(turn):
        # It replaces a digest; `applied` checks that it fits.
        return True
    shortest = CompactionApplied(turn.number, cut.boundary, _SHORTEST, cut.tokens_before, 0, step=cut.step)
    sizes = prepare(log, engine, known, turn=replace(turn, compaction=shortest)).sizes
    if cut.tokens_before - sizes.tokens < GAIN_TOKENS_MIN:
        return False
    left = misfit(sizes, known.limits, known.calibration, engine.bounds)
    return turn.is_wanted_climb or left is None or left.kind is not FaultKind.TOKEN_OVERFLOW


def _has_budget_notice(log: Log) -> bool:
    """Return whether the budget notice was posted since the current turn or compaction began."""
    for logged in reversed(log.tail):
        match logged.record:
            case NoticePosted(code=code) if code == OVER_BUDGET:
                return True
            case TurnStarted() | TurnEnded() | CompactionSettled():
                return False
            case _:
                pass
    return False


def _budget_notice(summariser: Summariser) -> str:
    return (
        f"{summariser.name} is not asked for a summary: {summariser.over_budget}. The next model is tried, then a "
        "digest is made without one. The bounds of summaries are settings; nothing is lost."
    )


async def summary_of(planned: Planned, summariser: Summariser, rung: Rung) -> str | None:
    """Return a model's summary with the ledger of facts, None if the model gave no usable one."""
    if not planned.originals:
        return None
    room = planned.plan.summary_tokens
    text = await summariser.summary(planned.originals, rung, tokens_max=int(room * _SUMMARY_SHARE))
    if text is None:
        return None
    facts_tokens = room - tokens_of_text(render_notes(text, ""))
    facts = make_ledger(passages_of(planned.originals), tokens_max=max(facts_tokens, 0)).render()
    return render_notes(text, facts)


def applied(log: Log, engine: Engine, planned: Planned, summary: str, *, model: str = "") -> CompactionApplied | None:
    """Return the record of a compaction with its sizes and costs, None if it would not make the request smaller.

    A summary that replaces a digest may be larger than the digest if it fits.
    """
    turn, cut, known = log.turn, planned.plan, planned.known
    kind = SummaryKind.SUMMARY if model else SummaryKind.DIGEST
    record = CompactionApplied(
        turn.number, cut.boundary, summary, cut.tokens_before, 0, kind, model, cut.step, turn.compaction_seq
    )
    sizes = prepare(log, engine, known, turn=replace(turn, compaction=record)).sizes
    if cut.moves(turn):
        is_gain = sizes.tokens < cut.tokens_before
    else:
        is_gain = bool(model) and misfit(sizes, known.limits, known.calibration, engine.bounds) is None
    if not is_gain:
        return None
    saves = engine.model_for(turn).prices.saving(known.calibration.estimate(cut.tokens_before - sizes.tokens))
    return replace(record, tokens_after=sizes.tokens, cost_usd=turn.spent_on_this.known_usd, saves_usd=saves)


def _records_of(log: Log, record: CompactionApplied | None) -> list[WorkRecord] | None:
    """Return the records of a compaction: itself and its notice."""
    if record is None:
        return None
    made = f"a summary by {record.model}" if record.model else "a digest made without a model"
    sentence = (
        f"The conversation came to about {record.tokens_before:,} tokens, so what was said before message "
        f"{record.boundary} is now represented by {made}: about {record.tokens_after:,} tokens. The originals are kept "
        "and can be read."
    )
    if record.cost_usd is not None and record.saves_usd is not None:
        sentence += (
            f" Making it cost {spoken_usd(record.cost_usd)}; each further request costs about "
            f"{spoken_usd(record.saves_usd)} less."
        )
    return [record, NoticePosted(log.turn.number, "compacted", sentence)]


async def originals_before(store: ports.Log, log: Log, cut: Plan) -> list[ViewMessage]:
    """Return the messages to compact, read from their original records and not from earlier summaries."""
    after = max(cut.boundary - _ORIGINALS_RECORDS_MAX, 0)
    records: list[Logged] = []
    try:
        # A turn may continue after the next input arrives, so read until the next turn starts.
        async for page in pages(store, log.session, after=after):
            records += page
            if _reaches(records, cut):
                break
    except StoreDamagedError:
        # Older records cannot be read; use those in the view, which the compaction removes from it.
        after, records = log.turn.boundary - 1, log.tail
    return [message for message in conversation(records, first_turn=after + 1) if cut.represents(message)]


def _reaches(records: Sequence[Logged], cut: Plan) -> bool:
    """Return whether records reach the plan's boundary."""
    if records[-1].seq < cut.step:
        return False
    newest = (logged.record for logged in reversed(records))
    return any(isinstance(record, TurnStarted) and record.turn >= cut.boundary for record in newest)


def passages_of(originals: Sequence[ViewMessage]) -> list[Passage]:
    """Return originals as passages: the newest up to the limit for facts and digests."""
    passages: list[Passage] = []
    left = _ORIGINALS_BYTES_MAX
    for original in reversed(originals):
        left -= bytes_of_message(original.message)
        if left < 0:
            break
        passages.append(Passage(original.seq, original.message))
    return passages[::-1]


# --- Rollover: the last step; the session continues under its key with a seed digest and its newest input ---


class _Generation(msgspec.Struct, frozen=True):
    """A candidate generation: replacements in the newest input, and the record that starts it."""

    replaced: list[PartReplaced]
    started: GenerationStarted

    def state_after(self, turn: Turn) -> Turn:
        """Return the session state after its start."""
        for record in self.replaced:
            turn = apply(turn, turn.seq + 1, record)
        return apply(turn, turn.seq + 1, self.started)


async def roll_over(log: Log, engine: Engine) -> list[WorkRecord] | None:
    """Start a generation with the newest turn; None if that would not make the request smaller.

    Returns the records between `RungStarted` and `RungFinished`, in a turn or between turns: repair of an unusable
    session calls it too. It skips unreadable records and needs no model. If system text and tools alone are too large,
    nothing is dropped: the turn ends with an error.
    """
    turn = log.turn
    known = await engine.known(engine.model_for(turn), turn)
    if exceeds_alone(measure(without_messages(turn, engine)), known.limits, known.calibration, engine.bounds):
        return None
    newest = turn.number or turn.last_turn
    kind = turn.fault.kind if turn.fault else FaultKind.TOKEN_OVERFLOW
    now = prepare(log, engine, known).sizes
    room = summary_tokens_max(known.limits, now.tokens)
    # The seed represents everything except the newest input.
    past = passages_of(await originals_before(engine.store, log, Plan(newest, turn.seq, now.tokens, room)))
    for way in beginnings(kind):
        generation = _generation(log, way, past, now.tokens, room)
        sizes = prepare(log, engine, known, turn=generation.state_after(turn)).sizes
        is_last = way is beginnings(kind)[-1]
        if is_smaller(kind, now, sizes) and (is_last or _fits(sizes, now, known, engine)):
            started = replace(generation.started, tokens_after=sizes.tokens)
            sentence = told_of(started, is_whole=not generation.replaced)
            return [*generation.replaced, started, NoticePosted(turn.number, "generation", sentence)]
    return None


def _generation(log: Log, way: Beginning, past: list[Passage], tokens_now: int, room: int) -> _Generation:
    turn = log.turn
    seed = represent(past, tokens_max=min(way.seed_tokens, room))
    return _Generation(shown_less(turn, _newest_input(log), way.part_bytes), generation_after(turn, seed, tokens_now))


def _fits(sizes: Sizes, now: Sizes, known: Known, engine: Engine) -> bool:
    """Return whether a request is estimated to fit. If the window is unknown, half of the refused size is assumed."""
    if known.limits.window_tokens is None and 2 * sizes.tokens > now.tokens:
        return False
    return misfit(sizes, known.limits, known.calibration, engine.bounds) is None


def _newest_input(log: Log) -> tuple[ContentPart, ...]:
    """Return the parts of the newest input as the model sees them now."""
    turn = log.turn
    newest = turn.number or turn.last_turn
    records = (logged.record for logged in log.tail if logged.seq == newest)
    parts = next((record.parts for record in records if isinstance(record, InputAdmitted)), ())
    return through(lens_of(turn), newest, parts)
