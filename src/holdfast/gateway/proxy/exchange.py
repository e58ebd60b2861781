"""One request of a client, from its plan to the end of its response.

The plan is decided in core/proxy/plan.py. A forwarded request is recorded after its answer was relayed; everything else
is recorded before it is done.
"""

import logging
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from holdfast.core.faults.classifier import classify
from holdfast.core.proxy.plan import (
    OVERSIZE,
    AnswerCompaction,
    ClientLoop,
    Forward,
    Recover,
    RequestFacts,
    RequestPlan,
    plan_end,
    plan_failure,
    plan_request,
    resumption,
    truncation_fault,
)
from holdfast.errors import HoldfastError
from holdfast.gateway.proxy.forward import AttemptError, BrokenOff, ForwardResult, Truncated, UpstreamError
from holdfast.gateway.proxy.preflight import (
    call_of,
    fault_of,
    measured,
    too_large,
    with_known_parameters,
    with_output_that_fits,
)
from holdfast.gateway.proxy.recovery import Recovered, recover
from holdfast.gateway.proxy.request import ProxyRequest, ResponseWriter, is_history_lost
from holdfast.gateway.proxy.responses import JSON_HEADERS, error_body, write_compaction_answer, write_error
from holdfast.gateway.proxy.services import ProxyServices
from holdfast.gateway.proxy.session_match import ProxySession
from holdfast.gateway.savings import SAFE, Considered, is_lasting, output_folds, pays_to_mask
from holdfast.models.transport import BrokenOffError
from holdfast.runtime.engine.learning import Known
from holdfast.types.faults import Fault, Phase, Refusal, Sent
from holdfast.types.records import AttemptFailed, ClientCompacted

log = logging.getLogger(__name__)


class Requester(Protocol):
    """The tenant behind a request."""

    name: str

    def store_key(self, key: str) -> str:
        """Return the key that a session of this tenant has in the store."""
        ...

    def key_of(self, store_key: str) -> str | None:
        """Return the tenant's name of a session in the store; None if it is another tenant's."""
        ...


class Exchange:
    """Serves one parsed request."""

    def __init__(
        self, services: ProxyServices, request: ProxyRequest, writer: ResponseWriter, requester: Requester
    ) -> None:
        self._services = services
        self._request = request
        self._writer = writer
        self._requester = requester
        self._bounds = services.recorder.engine.bounds

    async def serve(self) -> None:
        """Plan the request, carry the plan out and end the response."""
        services = self._services
        request = self._request = await services.links.linked(self._request, self._requester.name)
        if request.decoded is None:
            await self._forward_unparsed()
            return
        if request.is_compaction:
            services.metrics.compaction_called(request.dialect)
        session = await services.matcher.find(request.prefix, request.digests)
        self._name(session)
        client = f"{self._requester.name}\0{request.owner}"
        loop = await services.loops.state(client)
        known = await services.limits.of(request.models[0])
        is_changed = session.state.shows_changed if request.link is None else not request.link.is_held
        is_saving = request.upstream.savings == SAFE
        services.cache.learn(request.owner, request.body, is_plain=not is_changed and not is_saving)
        facts = request.facts(is_repeated=session.common(request.digests) == len(request.digests))
        plan = plan_request(
            facts,
            session.state,
            loop,
            is_changed=is_changed,
            preflight=lambda: too_large(request, known, self._bounds),
            tokens=lambda: request.sizes.tokens,
        )
        await self._record_progress(client, loop, facts)
        if is_saving and plan in (Forward(), Recover()):
            plan = await self._saving(session, facts, plan)
        match plan:
            case Forward():
                await self._forward(session, facts, known)
            case Recover(fault=None):
                await self._recover(session, facts, None)
            case Recover(fault=Fault() as fault):
                cause = "not sent: it is larger than the model accepts"
                failure = AttemptFailed(0, 0, Refusal(request.dialect, Phase.ESTIMATE, cause=cause), fault)
                await self._recover(session, facts, failure)
            case AnswerCompaction():
                await write_compaction_answer(request, self._writer)

    def _name(self, session: ProxySession) -> None:
        self._writer.notes["x-holdfast-session"] = self._requester.key_of(session.key) or ""

    async def _saving(self, session: ProxySession, facts: RequestFacts, plan: RequestPlan) -> RequestPlan:
        """Return the plan of a request that may be changed to save money."""
        request, bounds = self._request, self._bounds
        now, first = self._services.recorder.engine.clock.now(), session.common(request.digests)
        considered = Considered(request.messages, first, session.state, request.models[0].prices, bounds, now)
        found = await output_folds(considered, facts, len(request.body))
        if found is None:
            return plan
        self._request = replace(request, folds=found)
        is_masked = request.allows_recall and pays_to_mask(considered, lambda: request.sizes.tokens)
        return Recover() if found or is_masked else plan

    async def _record_progress(self, client: str, loop: ClientLoop, facts: RequestFacts) -> None:
        """Record a client's compaction, or the request that follows one."""
        progress = ClientCompacted() if facts.is_compaction else resumption(loop, facts)
        if progress is None:
            return
        try:
            await self._services.loops.record(client, progress)
        except HoldfastError as error:
            # The client is answered all the same; its next request brings the same facts again.
            log.warning("client's compaction not recorded", extra={"code": error.code})

    # Forwarding.

    async def _forward_unparsed(self) -> None:
        """Forward a request that cannot be parsed, or whose history the log does not have. It is not recorded."""
        request, writer = self._request, self._writer
        outcome = await self._services.forwarder.attempt(request, 0, request.body, writer)
        if isinstance(outcome, BrokenOff):
            raise BrokenOffError(outcome.refusal.cause)
        if isinstance(outcome, AttemptError):
            self._services.metrics.upstream_failed(classify(outcome.refusal, Sent()).kind)
            await write_error(request, writer, outcome.refusal, outcome.error)
            return
        await writer.end()

    async def _forward(self, session: ProxySession, facts: RequestFacts, known: Known) -> None:
        services, writer = self._services, self._writer
        if self._request.folds is not None:
            # It is sent and recorded as it came.
            self._request = replace(self._request, folds=None)
        request = with_output_that_fits(self._request, known, writer, self._bounds)
        request = with_known_parameters(request, known, writer)
        if request.body is not self._request.body and request.speculative is not None:
            await request.speculative.cancel()
            request = replace(request, speculative=None)
        if request.body is not self._request.body:
            # The next one is not to be sent before it is read, with what the model refuses.
            services.cache.learn(request.owner, self._request.body, is_plain=False)
        outcome = await services.forwarder.attempt(request, 0, request.body, writer, may_truncate=True)
        match outcome:
            case ForwardResult():
                await self._record(session, outcome, known)
                await writer.end()
            case BrokenOff(refusal=refusal):
                raise BrokenOffError(refusal.cause)
            case Truncated(window_tokens=window):
                cause = "the answer broke off: the window was full"
                refusal = Refusal(request.dialect, Phase.STREAM, status=200, cause=cause)
                failure = AttemptFailed(0, 0, refusal, truncation_fault(window))
                try:
                    await services.recorder.record_failure(request, session, failure)
                except HoldfastError as error:
                    log.warning("truncated answer not recorded", extra={"session": session.key, "code": error.code})
                services.cache.learn(request.owner, request.body, is_plain=False)
                raise BrokenOffError("the window was full; the client retries, and then less is sent")
            case AttemptError():
                await self._failed(session, facts, known, outcome)

    async def _record(self, session: ProxySession, result: ForwardResult, known: Known) -> None:
        """Record an answer that the client has; errors go to the operator's log."""
        request, services = self._request, self._services
        if result.reply is None:
            return
        try:
            # A request that continues where another continued already is a conversation of its own.
            is_branch = session.common(request.digests) < request.held
            whole = await services.links.unfolded(request) if is_branch else request
            if whole is None:
                return
            now = self._services.recorder.engine.clock.now()
            sizes = measured(request, known, result.reply, self._bounds, now)
            if await services.recorder.record_answer(whole, session, result.reply, sizes):
                await services.links.keep(request, session.key, result.answer_id)
                if not request.held:
                    self._make_ready(request, session, result, known)
            if not request.held:
                learning = services.recorder.engine.learning
                await learning.observe(request.models[0], result.reply, None, call_of(request, session, known))
        except HoldfastError as error:
            # The next request of this conversation brings the same messages again, and then they are recorded.
            log.warning("conversation not recorded yet", extra={"session": session.key, "code": error.code})

    def _make_ready(
        self, request: ProxyRequest, session: ProxySession, result: ForwardResult | Recovered, known: Known
    ) -> None:
        """Have the next compaction prepared, if it is near."""
        recorder = self._services.recorder
        if result.reply is not None and not request.is_compaction:
            window = known.limits.window_tokens or request.sizes.tokens
            engine = partial(recorder.engine_for, request, window)
            recorder.ahead.consider(session.key, session.state, result.reply, known, engine)

    async def _failed(self, session: ProxySession, facts: RequestFacts, known: Known, outcome: AttemptError) -> None:
        """Plan and carry out the next step after a failed attempt of which nothing was relayed."""
        request, services = self._request, self._services
        answered = session.state.answered.tokens
        fault = fault_of(request, known, outcome.refusal, outcome.reply, answered_tokens=answered)
        services.metrics.upstream_failed(fault.kind)
        if request.held and is_history_lost(outcome.refusal.body):
            await self._recover(session, facts, None, outcome)
            return
        match plan_failure(request.failure_facts(facts), fault, self._bounds):
            case Recover():
                if fault.kind in OVERSIZE:
                    await self._learn(session, known, outcome.refusal, fault)
                await self._recover(session, facts, AttemptFailed(0, 0, outcome.refusal, fault), outcome)
            case AnswerCompaction():
                await write_compaction_answer(request, self._writer)
            case _:
                await write_error(request, self._writer, outcome.refusal, outcome.error)

    async def _learn(self, session: ProxySession, known: Known, refusal: Refusal, fault: Fault) -> None:
        request, services = self._request, self._services
        whole = await services.links.unfolded(request)
        if whole is not None and not (request.held and session.state.shows_changed):
            # The size of a history that the provider has in another form is not known.
            call = call_of(whole, session, known)
            await services.recorder.engine.learning.observe(request.models[0], refusal, fault, call)
        services.limits.forget(request.models[0])

    # Recovering.

    async def _recover(
        self,
        session: ProxySession,
        facts: RequestFacts,
        failure: AttemptFailed | None,
        outcome: AttemptError | None = None,
    ) -> None:
        """Answer with the recovery ladder. `failure` is not in the log yet; `outcome` is returned if all else fails."""
        request, services, writer = self._request, self._services, self._writer
        if request.speculative is not None:
            # The unchanged request is not needed any more.
            await request.speculative.cancel()
            request = self._request = replace(request, speculative=None)
        whole = await services.links.unfolded(request)
        if whole is None:
            if outcome is None:
                await self._forward_unparsed()
            else:
                await write_error(request, writer, outcome.refusal, outcome.error)
            return
        if session.common(whole.digests) == len(whole.digests) < len(session.digests):
            # The log continues after this request: another answer to it is another conversation.
            session = await services.matcher.branch(whole.prefix, whole.digests)
            self._name(session)
            if failure is None and not request.held and not session.state.shows_changed:
                await self._forward(session, facts, await services.limits.of(request.models[0]))
                return
        services.cache.learn(request.owner, request.body, is_plain=False)
        fault = failure.fault if failure is not None else None
        known = await services.limits.of(request.models[0])
        whole = replace(whole, is_rejected=is_lasting(fault or too_large(whole, known, self._bounds)))
        recovered = await recover(whole, writer, session, services.recorder, services.forwarder, failure)
        # A recovery has often taught something.
        services.limits.forget(request.models[0])
        if recovered.reply is not None:
            await services.links.keep(
                whole, session.key, recovered.answer_id, is_held=False, is_answer_held=recovered.is_held
            )
            self._make_ready(whole, session, recovered, await services.limits.of(request.models[0]))
        fields = {"session": session.key, "rescued": writer.notes.get("x-holdfast-rescued")}
        log.info("request rescued", extra=fields)
        await self._end_recovery(whole, facts, recovered, outcome)

    async def _end_recovery(
        self, request: ProxyRequest, facts: RequestFacts, recovered: Recovered, outcome: AttemptError | None
    ) -> None:
        writer = self._writer
        if recovered.reply is None and recovered.sentence:
            writer.notes.setdefault("x-holdfast-notice", recovered.sentence)
        if writer.has_begun:
            if recovered.reply is None:
                raise BrokenOffError("the answer broke off after a part of it was sent")
            await writer.end()
            return
        if recovered.reply is None and isinstance(plan_end(facts), AnswerCompaction):
            await write_compaction_answer(request, writer)
            return
        error = recovered.error or (outcome.error if outcome is not None else None)
        if error is None:
            sentence = recovered.sentence or "the request could not be made to fit"
            error = UpstreamError(502, JSON_HEADERS, error_body(request.dialect, f"holdfast: {sentence}"))
        await writer.whole(error.status, error.headers, error.body)
