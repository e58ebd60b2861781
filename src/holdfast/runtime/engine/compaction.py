"""Compaction: replace the past by a model's summary or by a digest, both with a ledger of exact facts.

Summaries are made from the original messages, in pieces if they are too long for one request. Each piece is recorded
once it is paid for.

The preview uses the functions of a real compaction. Nothing is written, except for a model's summary: its pieces are
paid for, so they are recorded, and a later compaction reuses them.
"""

from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec.structs import replace

from holdfast.core.compaction.digest import represent_memory
from holdfast.core.compaction.ledger import ledger_of
from holdfast.core.compaction.memory.state import Memory, without_input
from holdfast.core.compaction.notes import story
from holdfast.core.compaction.plan import (
    NOTHING_OF_THE_PAST,
    Beginning,
    Keeps,
    Plan,
    beginnings,
    generation_after,
    is_smaller,
    plan_compaction,
    shown_less,
    summary_tokens_max,
    told_of,
)
from holdfast.core.compaction.summary import render_notes
from holdfast.core.fold import apply
from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.fit import Sizes, as_estimated, exceeds_alone, measure, misfit
from holdfast.core.limits.prices import spoken_usd
from holdfast.core.limits.sizing import tokens_of_text
from holdfast.core.turn.ladder import SUMMARIES
from holdfast.core.view import conversation, lens_of, through
from holdfast.core.view.appended import as_turns
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.learning import Known
from holdfast.runtime.engine.log import Log
from holdfast.runtime.engine.memory import memory_before
from holdfast.runtime.engine.originals import place_of
from holdfast.runtime.engine.requests import instruction_places, prepare, without_messages
from holdfast.runtime.engine.summary import Notes, Summariser, notes_at_hand
from holdfast.runtime.sessions.view import Preview
from holdfast.types.faults import FaultKind, Rung
from holdfast.types.messages import ContentPart
from holdfast.types.records import (
    CompactionApplied,
    CompactionSettled,
    GenerationStarted,
    InputAdmitted,
    NoticePosted,
    PartReplaced,
    PieceSummarised,
    SummaryKind,
    SummaryRefused,
    TurnEnded,
    TurnStarted,
    WorkRecord,
)

# The smallest saving that is worth a summary; its own frame takes about as much.
GAIN_TOKENS_MIN = 200
_SHORTEST = "."
OVER_BUDGET = "summary_budget"
# The share of a model's notes in the tokens that represent the past; the rest is for facts.
_STORY_SHARE = 0.6


class Planned(msgspec.Struct, frozen=True):
    """A compaction that is possible now: plan, model limits, the place up to which it represents the past, memory."""

    plan: Plan
    known: Known
    until: int
    memory: Memory

    @property
    def story_tokens(self) -> int:
        """The token limit of a model's notes; the rest is for facts."""
        return int(self.plan.summary_tokens * _STORY_SHARE)


async def plan(log: Log, engine: Engine, keeps: Keeps) -> Planned | None:
    """Plan a compaction of a session in its current state, None if there is nothing to compact."""
    known = await engine.known(engine.model_for(log.turn), log.turn)
    tokens = prepare(log, engine, known).sizes.tokens
    limits = as_estimated(known.limits, known.calibration)
    planned = plan_compaction(log.tail, log.turn, limits, engine.bounds, tokens=tokens, keeps=keeps)
    if planned is None:
        return None
    return await planned_with(log, engine, known, planned)


async def planned_with(log: Log, engine: Engine, known: Known, cut: Plan) -> Planned:
    """Return a planned compaction with the memory of what it represents."""
    memory = await memory_before(log, engine, cut, known)
    # The input of a turn that is cut inside stays in the view.
    return Planned(cut, known, place_of(cut), without_input(memory, cut.boundary) if cut.step else memory)


async def nothing_to_compact(log: Log, engine: Engine) -> str:
    """Return the reason why a requested compaction has nothing to do; "" if it may have something."""
    planned = await plan(log, engine, Keeps.LITTLE)
    if planned is None:
        return "the newest messages stay as they are, and there are no others"
    if applied(log, engine, planned, text_of_past(planned, notes_at_hand(log, planned.plan))) is not None:
        return ""
    if not planned.plan.moves(log.turn) or _gain(log, engine, planned) >= GAIN_TOKENS_MIN:
        return ""
    return f"it would save fewer than {GAIN_TOKENS_MIN:,} tokens, about as many as its own text takes"


async def digest(log: Log, engine: Engine, keeps: Keeps) -> list[WorkRecord] | None:
    """Replace the past by a digest. Returns None if there is nothing to compact or nothing to gain."""
    planned = await plan(log, engine, keeps)
    if planned is None or not planned.plan.moves(log.turn):
        return None
    notes = notes_at_hand(log, planned.plan)
    return records_of(log, applied(log, engine, planned, text_of_past(planned, notes), unread=notes.unread))


def text_of_past(planned: Planned, notes: Notes) -> str:
    """Return the text that represents the past: notes, and facts taken by rule; a digest if there are no notes."""
    room = planned.plan.summary_tokens
    # A node that is a little too long is shown all the same.
    shown = story(notes.nodes, tokens_max=planned.story_tokens * 5 // 4, until=planned.until)
    if not shown:
        return represent_memory(planned.memory, tokens_max=room)
    facts_tokens = room - tokens_of_text(render_notes(shown, ""))
    facts = ledger_of(planned.memory, tokens_max=max(facts_tokens, 0), notes=shown)
    return render_notes(shown, facts.render())


async def summarise(
    rung: Rung, log: Log, engine: Engine, record: Callable[..., Awaitable[None]]
) -> list[WorkRecord] | None:
    """Replace the past by a model's summary. Returns None if there is nothing to gain or the model failed."""
    planned = await plan(log, engine, Keeps.LITTLE if log.turn.is_wanted_climb else Keeps.TAIL)
    if planned is None or not _may_help(log, engine, planned):
        return None
    focus = "; ".join(wanted.focus for wanted in log.turn.wanted if wanted.focus)
    summariser = Summariser(engine.summariser_for(log.turn), log, engine, record, focus=focus)
    notes = await summariser.notes(planned.plan, rung, tokens_max=planned.story_tokens)
    if notes is None:
        if summariser.over_budget and not _has_budget_notice(log):
            await record(NoticePosted(log.turn.number, OVER_BUDGET, _budget_notice(summariser)))
        return None
    text = text_of_past(planned, notes)
    done = records_of(log, applied(log, engine, planned, text, model=summariser.name, unread=notes.unread))
    if done is None and planned.plan.moves(log.turn):
        await record(SummaryRefused(log.turn.number, summariser.name, "it is larger than what it would replace"))
    return done


async def keep_pieces(log: Log, engine: Engine, records: Sequence[PieceSummarised | SummaryRefused]) -> None:
    """Record paid pieces outside of any turn."""
    for record in records:
        if isinstance(record, PieceSummarised):
            await engine.store.admit(log.session, replace(record, turn=0))
            await log.catch_up(engine.store)


def _may_help(log: Log, engine: Engine, planned: Planned) -> bool:
    """Return whether a summary can help: if even the shortest would not, none is paid for."""
    turn, cut, known = log.turn, planned.plan, planned.known
    if not cut.moves(turn):
        # It replaces a digest; `applied` checks that it fits.
        return True
    if _gain(log, engine, planned) < GAIN_TOKENS_MIN:
        return False
    left = misfit(_shortest(log, engine, planned), known.limits, known.calibration, engine.bounds)
    return turn.is_wanted_climb or left is None or left.kind is not FaultKind.TOKEN_OVERFLOW


def _gain(log: Log, engine: Engine, planned: Planned) -> int:
    """Return the tokens that the shortest summary would save."""
    return planned.plan.tokens_before - _shortest(log, engine, planned).tokens


def _shortest(log: Log, engine: Engine, planned: Planned) -> Sizes:
    turn, cut = log.turn, planned.plan
    shortest = CompactionApplied(turn.number, cut.boundary, _SHORTEST, cut.tokens_before, 0, step=cut.step)
    return prepare(log, engine, planned.known, turn=_after(turn, shortest)).sizes


def _after(turn: Turn, record: CompactionApplied) -> Turn:
    """Return the parameters of the view after a compaction."""
    return replace(turn, compaction=record, compaction_seq=turn.seq + 1)


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


def applied(
    log: Log, engine: Engine, planned: Planned, summary: str, *, model: str = "", unread: int = 0
) -> CompactionApplied | None:
    """Return the record of a compaction with its sizes and costs, None if it would not make the request smaller.

    A summary that replaces a digest may be larger than the digest if it fits.
    """
    turn, cut, known = log.turn, planned.plan, planned.known
    kind = SummaryKind.SUMMARY if model else SummaryKind.DIGEST
    record = CompactionApplied(
        turn.number, cut.boundary, summary, cut.tokens_before, 0, kind, model, cut.step, turn.compaction_seq
    )
    record = replace(record, unread=unread)
    sizes = prepare(log, engine, known, turn=_after(turn, record)).sizes
    if cut.moves(turn):
        is_gain = sizes.tokens < cut.tokens_before
    else:
        is_gain = bool(model) and misfit(sizes, known.limits, known.calibration, engine.bounds) is None
    if not is_gain:
        return None
    saves = engine.model_for(turn).prices.saving(known.calibration.estimate(cut.tokens_before - sizes.tokens))
    return replace(record, tokens_after=sizes.tokens, cost_usd=turn.spent_on_this.known_usd, saves_usd=saves)


def records_of(log: Log, record: CompactionApplied | None) -> list[WorkRecord] | None:
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
    alone = replace(without_messages(turn, engine), messages=engine.instructions.framed)
    if exceeds_alone(measure(alone), known.limits, known.calibration, engine.bounds):
        return None
    newest = turn.number or turn.last_turn
    kind = turn.fault.kind if turn.fault else FaultKind.TOKEN_OVERFLOW
    now = prepare(log, engine, known).sizes
    room = summary_tokens_max(as_estimated(known.limits, known.calibration), now.tokens)
    # The seed represents everything except the newest input.
    cut = Plan(newest, turn.seq, now.tokens, room)
    past = await planned_with(log, engine, known, cut)
    ways = beginnings(kind, turn.climbed.count(Rung.ROLL_OVER))
    for way in ways:
        generation = _generation(log, engine, way, past)
        sizes = prepare(log, engine, known, turn=generation.state_after(turn)).sizes
        is_last = way is ways[-1]
        if not way.seed_tokens or (is_smaller(kind, now, sizes) and (is_last or _fits(sizes, now, known, engine))):
            started = replace(generation.started, tokens_after=sizes.tokens)
            sentence = told_of(started, is_whole=not generation.replaced)
            return [*generation.replaced, started, NoticePosted(turn.number, "generation", sentence)]
    return None


def _generation(log: Log, engine: Engine, way: Beginning, past: Planned) -> _Generation:
    turn, cut = log.turn, past.plan
    smaller = replace(past, plan=replace(cut, summary_tokens=min(way.seed_tokens, cut.summary_tokens)))
    seed = text_of_past(smaller, notes_at_hand(log, cut)) if way.seed_tokens else NOTHING_OF_THE_PAST
    kept = instruction_places(log, engine)
    less = [one for one in shown_less(turn, _newest_input(log), way.part_bytes) if (one.seq, one.place) not in kept]
    return _Generation(less, generation_after(turn, seed, cut.tokens_before))


def _fits(sizes: Sizes, now: Sizes, known: Known, engine: Engine) -> bool:
    """Return whether a request is estimated to fit. If the window is unknown, half of the refused size is assumed."""
    if known.limits.window_tokens is None and 2 * sizes.tokens > now.tokens:
        return False
    return misfit(sizes, known.limits, known.calibration, engine.bounds) is None


def _newest_input(log: Log) -> tuple[ContentPart, ...]:
    """Return the parts of the newest input as the model sees them now."""
    turn = log.turn
    newest = turn.number or turn.last_turn
    records = (logged.record for logged in as_turns(log.tail) if logged.seq == newest)
    parts = next((record.parts for record in records if isinstance(record, InputAdmitted)), ())
    return through(lens_of(turn), newest, parts)


# --- Preview ---


async def preview(log: Log, engine: Engine, *, focus: str, with_model: bool) -> Preview | None:
    """Return the preview of a compaction, None if there is nothing to compact."""
    # A requested compaction keeps little verbatim.
    planned = await plan(log, engine, Keeps.LITTLE)
    if planned is None:
        return None
    digest = text_of_past(planned, notes_at_hand(log, planned.plan))
    summarised = _ModelSummary("", "", ())
    if with_model:
        summarised = await _ask(log, engine, planned, focus)
    record = applied(log, engine, planned, summarised.summary or digest, model=summarised.model)
    if record is None and planned.plan.moves(log.turn):
        return None
    tokens_after = record.tokens_after if record is not None else planned.plan.tokens_before
    return _preview_of(log.turn, log, planned, tokens_after, digest=digest, summarised=summarised)


def _preview_of(
    turn: Turn, log: Log, planned: Planned, tokens_after: int, *, digest: str, summarised: "_ModelSummary"
) -> Preview:
    cut = planned.plan
    messages = conversation(log.tail, first_turn=turn.boundary, first_step=turn.first_step)
    leaving = [one for one in messages if cut.represents(one)]
    return Preview(
        boundary=cut.boundary,
        step=cut.step,
        first_seq=min((one.seq for one in leaving), default=0),
        last_seq=max((one.seq for one in leaving), default=0),
        messages=len(leaving),
        turns=len({one.turn for one in leaving}),
        messages_kept=len(messages) - len(leaving),
        pins=tuple(pin for pin in turn.pins if pin < cut.boundary),
        tokens_before=cut.tokens_before,
        tokens_after=tokens_after,
        digest=digest,
        summary=summarised.summary,
        model=summarised.model,
        refused=summarised.refused,
    )


class _ModelSummary(msgspec.Struct, frozen=True):
    """The summary of the first model that gave a usable one, and reasons why others did not."""

    summary: str
    model: str
    refused: tuple[str, ...]


async def _ask(log: Log, engine: Engine, planned: Planned, focus: str) -> _ModelSummary:
    """Request a summary with the models and rungs of a compaction, in its order."""
    refused: list[str] = []

    async def keep(*records: PieceSummarised | SummaryRefused) -> None:
        refused.extend(f"{one.model}: {one.why}" for one in records if isinstance(one, SummaryRefused))
        await keep_pieces(log, engine, records)

    for model in engine.summarisers_for(log.turn):
        summariser = Summariser(model, log, engine, keep, focus=focus)
        for rung in SUMMARIES:
            notes = await summariser.notes(planned.plan, rung, tokens_max=planned.story_tokens)
            if notes is not None:
                return _ModelSummary(text_of_past(planned, notes), model.name, tuple(refused))
            await log.catch_up(engine.store)
    return _ModelSummary("", "", tuple(refused))
