"""Recover a request that failed or does not fit, with the engine of native sessions.

The runner is the same: it decides, climbs, summarises, learns and records. Its caller differs: it sends the client's
own request, with the session's view in it if that has changed, and relays the answer as it comes.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import msgspec

from holdfast.core.proxy.recall import client_message, is_continued
from holdfast.gateway.proxy.body_rewrite import rewritten, without_refused
from holdfast.gateway.proxy.forward import (
    AttemptError,
    BrokenOff,
    Forwarder,
    ForwardResult,
    JoinedAnswer,
    UpstreamError,
)
from holdfast.gateway.proxy.recorder import Recorder
from holdfast.gateway.proxy.request import ProxyRequest, ResponseWriter
from holdfast.gateway.proxy.session_match import ProxySession
from holdfast.gateway.savings import SentRequest, early_mask
from holdfast.ports import Model
from holdfast.runtime.engine.context import Engine, append_after
from holdfast.runtime.engine.log import Log
from holdfast.runtime.engine.requests import Prepared, load_blobs, standing
from holdfast.runtime.engine.runner import Runner, open_runner
from holdfast.types.faults import Phase, Refusal
from holdfast.types.messages import Reply
from holdfast.types.records import Abandonment, AttemptFailed, NoticePosted, ReplyRecorded, TurnEnded


class ProxyCaller:
    """Sends a client's own request, and relays the answer to the client."""

    def __init__(self, request: ProxyRequest, writer: ResponseWriter, forwarder: Forwarder, engine: Engine) -> None:
        # The id of the answer at the client; the provider has another one if the first of several was sent.
        self.answer_id = ""
        self.replaced_id = ""
        # The last response of the upstream, to be returned if nothing helps.
        self.error: UpstreamError | None = None
        # The last record before this request's own.
        self.first = 0
        self._request = request
        self._writer = writer
        self._forwarder = forwarder
        self._engine = engine
        # The last changed body; None: the client's own was sent.
        self._sent: SentRequest | None = None
        # The answer that a client gets for several of its model; None until the tool `recall` is offered.
        self._joined: JoinedAnswer | None = None
        # Returns the calls of the last answer that are run here.
        self._own_calls: Callable[[Reply], tuple[str, ...]] = lambda _: ()

    @property
    def is_relayed(self) -> bool:
        """True if a part of the attempt's answer has reached the client."""
        return self._writer.has_begun if self._joined is None else self._joined.filter.has_shown

    async def call(self, model: Model, prepared: Prepared, log: Log) -> Reply | Refusal:
        """Send the request, unchanged if the view is the client's own."""
        request, turn = self._request, log.turn
        place = next(place for place, one in enumerate(request.models) if one is model)
        body = request.body_for(place)
        self._sent = None
        if turn.shows_changed or turn.output_clamp is not None:
            _, blobs = await load_blobs(prepared.request, self._engine.blobs)
            head = standing(log, self._engine, turn)
            offer = self._engine.offer
            body = rewritten(request.with_body(request.renamed(place)), log, blobs, model.issuer, head, offer)
            self._join(log)
            if turn.shows_changed:
                self._sent = SentRequest(request.dialect, body, turn, request.is_rejected, request.models[0].prices)
        body = without_refused(request.dialect, body, prepared.request.omitted)
        self._announce(log, place)
        outcome = await self._forwarder.attempt(request, place, body, self._writer, joined=self._joined)
        match outcome:
            case ForwardResult(reply=Reply() as reply, answer_id=answer_id):
                self.replaced_id = self._joined.filter.replaced_id if self._joined is not None else ""
                self.answer_id = self.replaced_id or answer_id
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

    def _join(self, log: Log) -> None:
        """Have the next answer joined with those before it, if the model is offered the tool `recall`."""
        turn, offer = log.turn, self._engine.offer
        if offer.spec is None or not offer.is_shown(turn):
            return
        self._own_calls = partial(offer.own_calls, turn)
        self._joined = self._joined or JoinedAnswer(self._request.dialect, offer.spec.name)
        self._joined.filter.begin(hides=bool(offer.tools(turn)))
        self._joined.is_continued = lambda reply: is_continued(reply.parts, self._own_calls(reply))

    def noted(self, record: ReplyRecorded) -> ReplyRecorded:
        """Return the record of an answer with its number at the client, who does not have one that is continued."""
        own_calls, now = self._own_calls(record.reply), self._engine.clock.now()
        is_added = is_continued(record.reply.parts, own_calls)
        record = msgspec.structs.replace(record, answered_at=now)
        if self._sent is not None:
            record = self._sent.compared(record, self._request.sizes.tokens, now, is_added=is_added)
        if is_added:
            return msgspec.structs.replace(record, own_calls=own_calls)
        said_before = self._joined.filter.said_before if self._joined is not None else ""
        return msgspec.structs.replace(record, origin=self._request.count, own_calls=own_calls, said_before=said_before)

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
    # The provider can continue from the answer: it knows its id, and waits for no result that the client does not have.
    is_held: bool = True


async def recover(
    request: ProxyRequest,
    writer: ResponseWriter,
    session: ProxySession,
    recorder: Recorder,
    forwarder: Forwarder,
    failed: AttemptFailed | None,
) -> Recovered:
    """Answer a request with the recovery ladder; `failed` is a failure that is not in the log yet."""
    known = await recorder.engine.learning.known(request.models[0])
    # In an unknown window, a request that needs a recovery is itself the best guess.
    window = known.limits.window_tokens or request.sizes.tokens
    engine = recorder.engine_for(request, window)
    caller = ProxyCaller(request, writer, forwarder, engine)
    async with session.lock, recorder.leased(session) as lease:
        runner = await open_runner(lease, engine, caller=caller)
        await recorder.begin_turn(runner, request, session)
        if failed is not None:
            await recorder.fail_attempt(runner, request, session, failed)
        elif request.folds is not None:
            mask = early_mask(runner.log, engine, request.sizes.tokens)
            if mask is not None:
                await append_after(engine, lease, runner.log, lambda _: [mask])
        caller.first = runner.turn.seq
        try:
            await runner.run()
        except asyncio.CancelledError:
            # The client is gone: close the attempt in flight; it may retry.
            await runner.close_in_flight(Abandonment.CANCELLED)
            raise
        finally:
            session.follow(runner.turn)
        answer, sentence = _outcome(runner, caller.first)
        if answer is None:
            return Recovered(None, sentence, caller.error, caller.answer_id)
        session.answered(client_message(answer))
        is_held = not (answer.own_calls or caller.replaced_id)
        return Recovered(answer.reply, sentence, caller.error, caller.answer_id, is_held=is_held)


def _outcome(runner: Runner, first: int) -> tuple[ReplyRecorded | None, str]:
    """Return the answer that the client has, and the sentence with which the turn ended."""
    reply, sentence = None, ""
    for logged in runner.log.tail:
        if logged.seq <= first:
            continue
        if isinstance(logged.record, ReplyRecorded) and logged.record.origin is not None:
            reply = logged.record
        elif isinstance(logged.record, TurnEnded):
            sentence = logged.record.sentence
    return reply, sentence
