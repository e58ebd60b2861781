"""A request for notes that rides on the next request of a session: the same to the byte, with one question behind it.

Whether it may, and what it asks, is the core's to say (`core/riding.py`); here the view is prepared and its blobs are
loaded. Where anything speaks against it there is no ride, and notes are asked for as usual.
"""

import msgspec
from msgspec.structs import replace

from holdfast.core.budget import why_not_paid
from holdfast.core.facts import Passage
from holdfast.core.fit import measure, output_tokens_max
from holdfast.core.messages import Request, Usage
from holdfast.core.riding import (
    Sought,
    ask_behind,
    expected,
    has_room,
    is_cheaper,
    may_ride,
    output_asked,
    stands_verbatim,
    warm_tokens,
)
from holdfast.core.summaries import Detail, ask_for_notes, render
from holdfast.core.view import conversation, lens_of
from holdfast.ports import Model
from holdfast.runtime.engine import Engine
from holdfast.runtime.learning import Known
from holdfast.runtime.log import Log
from holdfast.runtime.requests import load_blobs, prepare


class Ride(msgspec.Struct, frozen=True):
    """A request that may be sent, the bytes of what it names, and the records that its answer may cite."""

    request: Request
    blobs: dict[str, bytes]
    seqs: tuple[int, ...]


async def ride_for(sought: Sought, model: Model, log: Log, engine: Engine) -> Ride | None:
    """Return the request for notes behind the next one of a session; None where it would not do or not pay."""
    turn, now = log.turn, engine.clock.now()
    if model is not engine.model_for(turn) or not may_ride(turn, log.tail, model.name, engine.bounds):
        return None
    known = await engine.known(model, turn)
    prepared = prepare(log, engine, known)
    view = conversation(log.tail, first_turn=turn.boundary, first_step=turn.first_step, lens=lens_of(turn))
    warm = warm_tokens(log.tail, view, model=model.name, raw=prepared.sizes.tokens, now=now)
    if not warm or not stands_verbatim(sought.originals, view):
        return None
    question = ask_behind(sought, view)
    asked = replace(prepared.request, messages=(*prepared.request.messages, question.message))
    sizes = measure(asked)
    if not has_room(sizes, known.limits, known.calibration, engine.bounds, tokens_max=sought.tokens_max):
        return None
    riding = expected(sizes, known.calibration, warm=warm, tokens_max=sought.tokens_max)
    if not is_cheaper(model.prices, riding, _usual(sought, known)):
        return None
    if why_not_paid(turn, model.prices, riding, now=now, bounds=engine.bounds) is not None:
        # It reads more than the usual way, which may still be within what is allowed.
        return None
    most = output_tokens_max(sizes, known.limits, known.calibration)
    asked = replace(asked, output_tokens_max=output_asked(most, asked.effort, tokens_max=sought.tokens_max))
    request, blobs = await load_blobs(asked, engine.blobs)
    # Where a blob is gone, a line stands in the place of an original.
    return Ride(request, blobs, question.seqs) if request is asked else None


def _usual(sought: Sought, known: Known) -> Usage:
    """Return what the same notes would likely come to in the usual way."""
    passages = [Passage(said.seq, said.message) for said in sought.originals]
    request = ask_for_notes(render(passages, Detail.FULL), tokens_max=sought.tokens_max, focus=sought.focus)
    return Usage(known.calibration.estimate(measure(request).tokens), sought.tokens_max)
