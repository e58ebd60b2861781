"""Recover a request that failed or does not fit, with the engine of native sessions.

The runner is the same: it decides, climbs, summarises, learns and records. Its caller differs: it sends the client's
own request, with the session's view in it if that has changed, and relays the answer as it comes.
"""

import asyncio
from dataclasses import dataclass, replace

import msgspec

from holdfast.core.limits.bounds import Bounds
from holdfast.gateway.proxy.body_rewrite import rewritten
from holdfast.gateway.proxy.forward import AttemptError, BrokenOff, Forwarder, ForwardResult, UpstreamError
from holdfast.gateway.proxy.recorder import Recorder
from holdfast.gateway.proxy.request import ProxyRequest, ResponseWriter
from holdfast.gateway.proxy.session_match import ProxySession
from holdfast.ports import Model
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.lease import kept_lease
from holdfast.runtime.engine.log import Log
from holdfast.runtime.engine.requests import Prepared, load_blobs
from holdfast.runtime.engine.runner import Runner, open_runner
from holdfast.types.faults import Phase, Refusal
from holdfast.types.messages import Reply
from holdfast.types.records import Abandonment, AttemptFailed, NoticePosted, ReplyRecorded, TurnEnded


class ProxyCaller:
    """Sends a client's own request, and relays the answer to the client."""

    def __init__(self, request: ProxyRequest, writer: ResponseWriter, forwarder: Forwarder, engine: Engine) -> None:
        self.origin: int | None = request.count
        self.answer_id = ""
        # The last response of the upstream, to be returned if nothing helps.
        self.error: UpstreamError | None = None
        # The last record before this request's own.
        self.first = 0
        self._request = request
        self._writer = writer
        self._forwarder = forwarder
        self._engine = engine

    @property
    def is_relayed(self) -> bool:
        """True if a part of the answer has reached the client."""
        return self._writer.has_begun

    async def call(self, model: Model, prepared: Prepared, log: Log) -> Reply | Refusal:
        """Send the request, unchanged if the view is the client's own."""
        request, turn = self._request, log.turn
        place = next(place for place, one in enumerate(request.models) if one is model)
        body = request.body_for(place)
        if turn.shows_changed or turn.output_clamp is not None:
            _, blobs = await load_blobs(prepared.request, self._engine.blobs)
            body = rewritten(request.with_body(request.renamed(place)), log, blobs, model.issuer)
        self._announce(log, place)
        outcome = await self._forwarder.attempt(request, place, body, self._writer)
        match outcome:
            case ForwardResult(reply=Reply() as reply, answer_id=answer_id):
                self.answer_id = answer_id
                return request.answered(reply)
            case AttemptError(refusal=refusal, error=error, reply=None):
                self.error = error
                return refusal
            case AttemptError(error=error, reply=Reply() as reply):
                self.error = error
                return reply
            case BrokenOff(refusal=refusal):
                return refusal
            case _:
                return Refusal(request.dialect, Phase.STREAM, status=200, cause="the answer could not be decoded")

    def _announce(self, log: Log, place: int) -> None:
        """Put the changes so far into headers, which are sent before the first byte."""
        notices = [
            logged.record for logged in log.tail if logged.seq > self.first and isinstance(logged.record, NoticePosted)
        ]
        notes = self._writer.notes
        if notices:
            notes["x-holdfast-rescued"] = ", ".join(dict.fromkeys(one.code for one in notices))
            notes["x-holdfast-notice"] = notices[-1].sentence
        elif place:
            notes["x-holdfast-rescued"] = "next_model"
            notes["x-holdfast-notice"] = f"answered by {self._request.names[place]}"


@dataclass(frozen=True)
class Recovered:
    """The outcome of a recovery: the recorded answer, or the sentence with which the turn failed."""

    reply: Reply | None
    sentence: str
    error: UpstreamError | None
    answer_id: str


async def recover(
    request: ProxyRequest,
    writer: ResponseWriter,
    session: ProxySession,
    recorder: Recorder,
    forwarder: Forwarder,
    failed: AttemptFailed | None,
) -> Recovered:
    """Answer a request with the recovery ladder; `failed` is a failure that is not in the log yet."""
    engine = proxied_engine(recorder.engine, request)
    caller = ProxyCaller(request, writer, forwarder, engine)
    async with session.lock:
        lease = await recorder.lease(session)
        async with kept_lease(engine.store, engine.clock, lease):
            runner = await open_runner(lease, engine, caller=caller)
            await recorder.begin_turn(runner, request, session)
            if failed is not None:
                await recorder.fail_attempt(runner, request, session, failed)
            caller.first = runner.turn.seq
            try:
                await runner.run()
            except asyncio.CancelledError:
                # The client is gone: close the attempt in flight; it may retry.
                await runner.close_in_flight(Abandonment.CANCELLED)
                raise
            finally:
                session.follow(runner.turn)
            reply, sentence = _outcome(runner, caller.first)
            if reply is not None:
                session.answered(reply)
            return Recovered(reply, sentence, caller.error, caller.answer_id)


def _outcome(runner: Runner, first: int) -> tuple[Reply | None, str]:
    reply, sentence = None, ""
    for logged in runner.log.tail:
        if logged.seq <= first:
            continue
        if isinstance(logged.record, ReplyRecorded):
            reply = logged.record.reply
        elif isinstance(logged.record, TurnEnded):
            sentence = logged.record.sentence
    return reply, sentence


def proxied_engine(engine: Engine, request: ProxyRequest) -> Engine:
    """Return the engine for one request: the client's models, tools and system text."""
    assert request.decoded is not None, "an unparsed request cannot be recovered"
    decoded = request.decoded.request
    bounds: Bounds = msgspec.structs.replace(engine.bounds, compacts_ahead=False, summariser="same")
    return replace(
        engine,
        models=lambda _: request.models,
        system=lambda: decoded.system,
        bounds=bounds,
        is_proxied=True,
        client_tools=decoded.tools,
        has_client_effort=request.has_effort,
    )
