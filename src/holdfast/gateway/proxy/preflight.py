"""Preflight: measure a client's request before it is forwarded."""

from math import inf

from msgspec.structs import replace

from holdfast.core.faults.classifier import classify, classify_reply
from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.claims import Call
from holdfast.core.limits.fit import (
    NOTHING_BEFORE,
    SHORT_ANSWERS,
    budgets_of,
    described,
    output_reserved,
    output_that_fits,
    sent,
)
from holdfast.core.limits.parameters import EFFORT, sent_names, with_parameter
from holdfast.gateway.proxy.body_rewrite import without_refused
from holdfast.gateway.proxy.request import ProxyRequest, ResponseWriter
from holdfast.gateway.proxy.session_match import ProxySession
from holdfast.models.dialects import SERVED
from holdfast.models.parameters import with_output_limit
from holdfast.rescue.client_records import Measured
from holdfast.runtime.engine.learning import Known
from holdfast.types.faults import Confidence, Fault, FaultKind, Refusal, Sent, Unit
from holdfast.types.limits import Budgets, Limits, Support
from holdfast.types.messages import Reply


def too_large(request: ProxyRequest, known: Known, bounds: Bounds) -> Fault | None:
    """Return the fault of a request that almost certainly does not fit; a provider may know better than an estimate."""
    room, body_bytes = room_for(known.limits, bounds), len(request.body)
    # No token is shorter than a byte, so most requests need not be measured.
    if body_bytes > room and (tokens := known.calibration.estimate(request.sizes.tokens)) > room:
        return Fault(FaultKind.TOKEN_OVERFLOW, Confidence.LIKELY, limit=int(room), requested=tokens, unit=Unit.TOKENS)
    wire = known.limits.wire_bytes_max
    if wire is not None and body_bytes > wire:
        return Fault(FaultKind.WIRE_OVERFLOW, Confidence.LIKELY, limit=wire, requested=body_bytes, unit=Unit.BYTES)
    return None


def room_for(limits: Limits, bounds: Bounds) -> float:
    """Return how many tokens a request may have, with room for a short answer.

    An answer that is cut for lack of room is an error to most agents.
    """
    if limits.window_tokens is None:
        return inf
    return limits.window_tokens - output_reserved(limits, bounds) // SHORT_ANSWERS


def with_output_that_fits(request: ProxyRequest, known: Known, writer: ResponseWriter, bounds: Bounds) -> ProxyRequest:
    """Return a request with a lower output limit, if the model counts it against the window and it does not fit.

    Most servers treat it as an upper bound and do not count it.
    """
    assert request.decoded is not None, "an unparsed request cannot be measured"
    wanted, window = request.decoded.request.output_tokens_max, known.limits.window_tokens
    if not known.counts_output or wanted is None or window is None or request.held:
        return request
    if known.calibration.estimate(request.sizes.tokens) + wanted <= window:
        return request
    most = output_that_fits(window, known.calibration.upper(request.sizes.tokens), bounds)
    if most is None or most >= wanted:
        return request
    writer.notes["x-holdfast-rescued"] = "output_clamped"
    writer.notes["x-holdfast-notice"] = (
        f"the answer may have {most:,} tokens: {wanted:,} and the request are more than the window of {window:,}"
    )
    body = with_output_limit(request.dialect, request.body, most)
    return request.with_body(SERVED[request.dialect].settled(body))


def with_known_parameters(request: ProxyRequest, known: Known, writer: ResponseWriter) -> ProxyRequest:
    """Return a request without the parameters that the model is known to refuse, or with their other names."""
    refused = known.refused & request.parameters if known.refused else frozenset()
    if not refused:
        return request
    names = sorted(refused)
    writer.notes["x-holdfast-rescued"] = "effort_dropped" if names == [EFFORT] else "parameter_dropped"
    writer.notes["x-holdfast-notice"] = f"this model has refused {', '.join(names)} before: left out, or renamed"
    return request.with_body(without_refused(request.dialect, request.body, known.refused))


def measured(request: ProxyRequest, known: Known, reply: Reply, bounds: Bounds, now: float) -> Measured:
    """Return the sizes of a request that is answered now. If the provider holds its history, it alone knows them."""
    assert request.decoded is not None, "an unparsed request cannot be measured"
    budgets = budgets_of(request.sizes, known.limits, known.calibration, bounds)
    tokens, raw = known.calibration.estimate(request.sizes.tokens), request.sizes.tokens
    if request.held:
        tokens, raw = (reply.usage.input_tokens if reply.usage is not None else 0), 0
        budgets = Budgets(tokens, budgets.tokens_max)
    output, cost = request.decoded.request.output_tokens_max, request.models[0].prices.cost(reply.usage)
    return Measured(tokens, raw, output, budgets, cost, now)


def fault_of(
    request: ProxyRequest, known: Known, refusal: Refusal, reply: Reply | None, *, answered_tokens: int = 0
) -> Fault:
    """Return the fault of a forwarded request that failed; `reply` is an answer that is of no use.

    `answered_tokens` is the estimated size of the conversation's last answered request; 0: unknown.
    """
    assert request.decoded is not None, "an unparsed request is not classified here"
    before = replace(NOTHING_BEFORE, answered_tokens=answered_tokens)
    facts = Sent() if request.held else sent(request.sizes, known.limits, known.calibration, before)
    facts = described(facts, request.decoded.request, request.issuer)
    fault = classify_reply(reply, facts) if reply is not None else None
    return with_parameter(fault or classify(refusal, facts), refusal)


def call_of(request: ProxyRequest, session: ProxySession, known: Known) -> Call:
    """Return the facts about a request that its outcome will be learned with."""
    assert request.decoded is not None, "an unparsed request cannot be measured"
    record = Support(session.key, session.state.seq)
    # Parameters that the model is claimed to refuse, and that were sent to test it.
    tested = known.tested & sent_names(request.parameters, known.refused) if known.tested else known.tested
    return Call(request.sizes, request.decoded.request.output_tokens_max or 0, record=record, tested=tested)
