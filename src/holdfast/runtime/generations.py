"""Rolling over: the session goes on under its key with a seed and its newest input, when nothing else made it fit.

A generation is a record in the same log, not a log of its own. So what came before stays where every reader looks for
it, the record that moves the boundary is the one that carries the seed, and no crash can leave one without the other.
"""

import msgspec
from msgspec.structs import replace

from holdfast.core.compaction import Plan, summary_tokens_max
from holdfast.core.digest import Passage, represent
from holdfast.core.faults import FaultKind
from holdfast.core.fit import Sizes, exceeds_alone, measure, misfit
from holdfast.core.fold import Turn, apply
from holdfast.core.generations import Beginning, beginnings, generation_after, is_smaller, shown_less, told_of
from holdfast.core.messages import ContentPart
from holdfast.core.records import GenerationStarted, InputAdmitted, NoticePosted, PartReplaced, WorkRecord
from holdfast.core.view import lens_of, through
from holdfast.runtime.compacting import originals_before, passages_of
from holdfast.runtime.engine import Engine
from holdfast.runtime.learning import Known
from holdfast.runtime.log import Log
from holdfast.runtime.requests import prepare, without_messages


class _Begun(msgspec.Struct, frozen=True):
    """A generation as it would begin: how the newest input is shown, and the record that begins it."""

    replaced: list[PartReplaced]
    started: GenerationStarted

    def stands(self, turn: Turn) -> Turn:
        """Return where the session would stand."""
        for record in self.replaced:
            turn = apply(turn, turn.seq + 1, record)
        return apply(turn, turn.seq + 1, self.started)


async def roll_over(log: Log, engine: Engine) -> list[WorkRecord] | None:
    """Begin a generation with the newest turn; None where not even that would make the request smaller.

    Returns what is to be recorded between `RungStarted` and `RungFinished`, in a turn or at rest: whoever mends a
    session whose past is of no use any more calls it too. It reads what can be read and needs no model.
    Where system text and tools alone are too large nothing is given up in vain: the turn ends and says so.
    """
    turn = log.turn
    known = await engine.known(engine.model_for(turn), turn)
    if exceeds_alone(measure(without_messages(turn, engine)), known.limits, known.calibration, engine.bounds):
        return None
    newest = turn.number or turn.last_turn
    kind = turn.fault.kind if turn.fault else FaultKind.TOKEN_OVERFLOW
    now = prepare(log, engine, known).sizes
    room = summary_tokens_max(known.limits, now.tokens)
    # All that was said and done is in the seed or behind it, but for the newest input.
    past = passages_of(await originals_before(engine.store, log, Plan(newest, turn.seq, now.tokens, room)))
    for way in beginnings(kind):
        begun = _begin(log, way, past, now.tokens, room)
        sizes = prepare(log, engine, known, turn=begun.stands(turn)).sizes
        is_last = way is beginnings(kind)[-1]
        if is_smaller(kind, now, sizes) and (is_last or _fits(sizes, now, known, engine)):
            started = replace(begun.started, tokens_after=sizes.tokens)
            sentence = told_of(started, is_whole=not begun.replaced)
            return [*begun.replaced, started, NoticePosted(turn.number, "generation", sentence)]
    return None


def _begin(log: Log, way: Beginning, past: list[Passage], tokens_now: int, room: int) -> _Begun:
    turn = log.turn
    seed = represent(past, tokens_max=min(way.seed_tokens, room))
    return _Begun(shown_less(turn, _newest_input(log), way.part_bytes), generation_after(turn, seed, tokens_now))


def _fits(sizes: Sizes, now: Sizes, known: Known, engine: Engine) -> bool:
    """Return whether a request fits by all we know. Where no window is known, half of what was refused may."""
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
