"""The context of a session for callers that make their own model calls: its view within a budget of tokens.

A view that is too large is compacted as the engine would do without a model, for this result only: nothing is written.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.core.compaction.plan import Keeps, plan_compaction
from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.fit import as_estimated
from holdfast.errors import BadInputError
from holdfast.runtime.engine.compaction import applied, planned_with, text_of_past
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.learning import Known
from holdfast.runtime.engine.log import Log
from holdfast.runtime.engine.requests import Prepared, load_blobs, prepare
from holdfast.runtime.engine.summary import notes_at_hand
from holdfast.runtime.sessions.view import Context

# Shares of the budget for which a compaction is planned, until its result fits: the plan leaves room for an answer and
# its estimates are rough.
_SHARES = (1.0, 0.75, 0.5, 0.25)


async def context_of(log: Log, engine: Engine, *, max_tokens: int | None, dialect: str | None) -> Context:
    """Return the context of a session. Raises `BadInputError` if its newest message alone exceeds the budget."""
    known = await engine.known(engine.model_for(log.turn), log.turn)
    prepared = prepare(log, engine, known)
    tokens = known.calibration.estimate(prepared.sizes.tokens)
    is_whole = max_tokens is None or tokens <= max_tokens
    if max_tokens is not None and not is_whole:
        prepared = await _fitted(log, engine, known, prepared, max_tokens)
    request = prepared.request
    return Context(
        request.system,
        request.messages,
        request.tools,
        known.calibration.estimate(prepared.sizes.tokens),
        is_whole,
        None if dialect is None else await _encoded(prepared, log.turn, engine, dialect),
    )


async def _fitted(log: Log, engine: Engine, known: Known, prepared: Prepared, max_tokens: int) -> Prepared:
    """Return a request with at most so many tokens, whose past is a digest."""
    smallest = prepared.sizes.tokens
    for keeps, share in [*((Keeps.TAIL, share) for share in _SHARES), *((Keeps.NEWEST, share) for share in _SHARES)]:
        limits = replace(known.limits, window_tokens=max(int(max_tokens * share), 1))
        cut = plan_compaction(
            log.tail,
            log.turn,
            as_estimated(limits, known.calibration),
            engine.bounds,
            tokens=prepared.sizes.tokens,
            keeps=keeps,
        )
        if cut is None:
            continue
        planned = await planned_with(log, engine, known, cut)
        record = applied(log, engine, planned, text_of_past(planned, notes_at_hand(log, cut)))
        if record is None:
            continue
        smaller = prepare(
            log, engine, known, turn=replace(log.turn, compaction=record, compaction_seq=log.turn.seq + 1)
        )
        if known.calibration.estimate(smaller.sizes.tokens) <= max_tokens:
            return smaller
        smallest = min(smallest, smaller.sizes.tokens)
    raise BadInputError(
        f"the system text, the tools and the newest message of session {log.session!r} take about "
        f"{known.calibration.estimate(smallest):,} tokens, more than max_tokens={max_tokens:,}; raise it"
    )


async def _encoded(prepared: Prepared, turn: Turn, engine: Engine, name: str) -> Mapping[str, Any]:
    """Return a request as the JSON body of a provider's API."""
    from holdfast.models.dialects import DIALECTS  # noqa: PLC0415 - loaded when it is used

    if name not in DIALECTS:
        raise BadInputError(f"there is no dialect {name[:80]!r}; use one of {', '.join(sorted(DIALECTS))}")
    model = engine.model_for(turn)
    request, blobs = await load_blobs(prepared.request, engine.blobs)
    body = DIALECTS[name].encode_request(
        request, model.name.partition(":")[2] or model.name, blobs, model.issuer, wants_stream=False
    )
    found: dict[str, Any] = msgspec.json.decode(body)
    return found
