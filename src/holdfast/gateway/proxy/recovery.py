"""A request that does not fit is answered all the same, by the engine that answers our own sessions.

The runner is the same: it decides, climbs, summarises, learns and records. Only two things differ. Its model is the
client's own request with the session's view in it, and the answer goes to the client as bytes while it comes. And the
turn stays with the client: the tools it asks for are the client's to run, so here the work ends with the reply.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, fields

import msgspec

from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.prices import Prices
from holdfast.core.turn.actions import Action, EndTurn, Rest, RunTools
from holdfast.core.turn.decide import decide, interruptions
from holdfast.core.turn.failure_messages import Ending
from holdfast.gateway.proxy.body_rewrite import rewritten
from holdfast.gateway.proxy.recorder import Keeper
from holdfast.gateway.proxy.request import Asked, Outbox
from holdfast.gateway.proxy.session_match import Conversation, is_changed
from holdfast.gateway.proxy.upstream import Raw, RawHeaders, Wire
from holdfast.models.dialects import DIALECTS
from holdfast.models.http import HttpModel
from holdfast.models.transport import BrokenOffError, UnreachableError
from holdfast.models.wire import cut_text
from holdfast.ports import Delta, Lease, Model
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.log import Log
from holdfast.runtime.engine.runner import Runner
from holdfast.types.faults import Phase, Refusal
from holdfast.types.limits import Limits
from holdfast.types.messages import Reply, Request, ToolSpec
from holdfast.types.records import (
    Abandonment,
    AttemptFailed,
    AttemptStarted,
    NoticePosted,
    Outcome,
    ReplyRecorded,
    TurnEnded,
    WorkRecord,
)

# A client's turn may take as many replies as the client likes; it is the client that loops.
_STEPS_MAX = 10**9
_ERROR_BYTES_MAX = 2**20
_ERROR_SECONDS_MAX = 10.0
_OK = range(200, 300)
STRIPPED = ("retry-after", "x-ratelimit", "anthropic-ratelimit", "date", "content-type", "request-id", "x-request-id")


class Refused(msgspec.Struct, frozen=True):
    """An error as an upstream gave it, to be passed on unchanged if nothing helps."""

    status: int
    headers: RawHeaders
    body: bytes

    def refusal(self, dialect: str, key: str) -> Refusal:
        """Return it as the classifier reads it, without the key."""
        kept = {
            name.decode("latin-1"): text.decode("latin-1")[:256]
            for name, text in self.headers
            if name.decode("latin-1").startswith(STRIPPED)
        }
        body = self.body.replace(key.encode(), b"[key]") if len(key) >= 8 else self.body  # noqa: PLR2004 - as in http.py
        return Refusal(dialect, Phase.RESPONSE, self.status, kept, cut_text(body))


async def refused(raw: Raw) -> Refused:
    """Read an error to its end, within bounds."""
    body = bytearray()
    with suppress(BrokenOffError, TimeoutError):
        async with asyncio.timeout(_ERROR_SECONDS_MAX):
            while len(body) <= _ERROR_BYTES_MAX and (chunk := await raw.next()):
                body += chunk
    headers = [(name, text) for name, text in raw.headers if name != b"content-length"]
    return Refused(raw.status, headers, bytes(body))


@dataclass
class Errand:
    """One request that is being rescued: where its answer goes, and the last error that an upstream gave."""

    asked: Asked
    outbox: Outbox
    wire: Wire
    key: str = ""
    held: list[bytes] = field(default_factory=list)
    head: tuple[int, RawHeaders] | None = None
    error: Refused | None = None
    # What the provider calls the answer.
    answer_id: str = ""

    async def begin(self) -> None:
        """Send what was held back until it was certain that this is the answer."""
        if self.head is None or self.outbox.has_begun:
            return
        await self.outbox.begin(*self.head)
        for chunk in self.held:
            await self.outbox.write(chunk)
        self.held = []


class ClientModel:
    """A model that is asked with the client's own request; whatever it answers goes to the client as it comes."""

    def __init__(self, errand: Errand, place: int) -> None:
        self._errand = errand
        self._place = place
        self._model: HttpModel = errand.asked.models[place]
        self.runner: ClientRunner | None = None

    @property
    def name(self) -> str:
        """What people call it."""
        return self._model.name

    @property
    def issuer(self) -> str:
        """Who it is."""
        return self._model.issuer

    @property
    def limits(self) -> Limits:
        """What it is declared to accept."""
        return self._model.limits

    @property
    def prices(self) -> Prices:
        """What it is declared to cost."""
        return self._model.prices

    async def close(self) -> None:
        """Let go of nothing: connections belong to the gateway."""

    async def stream(
        self, request: Request, blobs: Mapping[str, bytes]
    ) -> AsyncGenerator[Delta | Reply | Refusal, None]:
        """Send the client's request with the session's view in it."""
        del request  # It is the view, which is cut into the client's own bytes here.
        assert self.runner is not None, "a model of a client is asked by its runner"
        errand = self._errand
        asked = errand.asked.with_body(errand.asked.renamed(self._place))
        body = rewritten(asked, self.runner.log, blobs, self.issuer)
        errand.held, errand.head = [], None
        try:
            raw = await errand.wire.send(asked.upstream, "POST", asked.address, asked.headers, body)
        except UnreachableError as error:
            yield Refusal(asked.dialect, Phase.CONNECT, cause=str(error))
            return
        with closing(raw):
            if raw.status not in _OK:
                errand.error = await refused(raw)
                yield errand.error.refusal(asked.dialect, errand.key)
                return
            async for sight in self._answer(raw):
                yield sight

    async def _answer(self, raw: Raw) -> AsyncGenerator[Delta | Reply | Refusal, None]:
        errand = self._errand
        errand.head = (raw.status, raw.headers)
        decoder = DIALECTS[errand.asked.dialect].StreamDecoder(self.issuer, secrets.token_hex(6))
        with suppress(BrokenOffError):
            while chunk := await raw.next():
                deltas = decoder.feed(chunk)
                if errand.outbox.has_begun:
                    await errand.outbox.write(chunk)
                else:
                    # Until the model has said something, this may still turn out to be an error.
                    errand.held.append(chunk)
                    if deltas:
                        await errand.begin()
                for delta in deltas:
                    yield delta
        outcome = decoder.finish()
        errand.answer_id = decoder.answer_id
        if isinstance(outcome, Refusal):
            outcome = msgspec.structs.replace(outcome, status=raw.status)
        yield outcome


@dataclass(frozen=True)
class ClientEngine(Engine):
    """The engine for one request: the client's models, tools and system text."""

    tools: tuple[ToolSpec, ...] = ()
    summarisers: tuple[HttpModel, ...] = ()

    @property
    def sets_effort(self) -> bool:
        """Whether how much a model is to think is ours to say: here it stands in the client's own request."""
        return False

    def tools_for(self, turn: Turn) -> tuple[ToolSpec, ...]:
        """Return the client's own tools."""
        del turn
        return self.tools

    def summariser_for(self, turn: Turn) -> Model:
        """Return the same model as is asked for the answer, in requests of our own."""
        return self.summarisers[min(turn.summarisers_passed, len(self.summarisers) - 1)]


class ClientRunner(Runner):
    """Works on a client's turn until there is a reply, or nothing helps."""

    def __init__(self, lease: Lease, log: Log, engine: Engine, errand: Errand) -> None:
        super().__init__(lease, log, engine)
        self._errand = errand
        self.ending: Ending | None = None

    async def run(self) -> None:
        """Decide and perform until the client has its answer, or cannot have one."""
        first = self.turn.seq
        try:
            while not self._is_over(action := decide(self.turn, self.engine.bounds), first):
                self._tell(first)
                await self._perform(action)
                await self._kept.catch_up(self.engine.store)
        except asyncio.CancelledError:
            # The client is gone: what is in flight is closed, and it may ask again.
            await self._record(*interruptions(self.turn, Abandonment.CANCELLED, self.engine.bounds))
            raise
        match decide(self.turn, self.engine.bounds):
            case EndTurn(outcome=Outcome.ANSWERED) as ended:
                await self._perform(ended)
            case EndTurn(ending=ending):
                self.ending = ending
                await self._fail_turn(ending)
            case _ if self.reply_since(first) is None:
                await self._fail_turn(None)
            case _:
                pass

    async def _fail_turn(self, ending: Ending | None) -> None:
        code = ending.code if ending is not None else "broken_off"
        sentence = ending.sentence if ending is not None else "The answer broke off after a part of it was sent."
        await self._record(TurnEnded(self.turn.number, Outcome.FAILED, code, sentence))

    async def _record(self, *records: WorkRecord) -> None:
        # The answer is as the client will send it back, and has the number that it will have then.
        asked = self._errand.asked
        await super()._record(
            *(
                msgspec.structs.replace(one, reply=asked.answered(one.reply), origin=asked.count)
                if isinstance(one, ReplyRecorded)
                else one
                for one in records
            )
        )

    def _is_over(self, action: Action, first: int) -> bool:
        if isinstance(action, Rest | RunTools | EndTurn) or self.reply_since(first) is not None:
            return True
        # Once bytes have gone to the client nothing is tried again behind its back.
        return self._errand.outbox.has_begun

    def reply_since(self, first: int) -> Reply | None:
        """Return the reply that came, if one did."""
        for logged in reversed(self.log.tail):
            if logged.seq <= first:
                return None
            if isinstance(logged.record, ReplyRecorded):
                return logged.record.reply
        return None

    def _tell(self, first: int) -> None:
        """Put into headers what has been done so far; after the first byte it is too late."""
        notices = [
            logged.record for logged in self.log.tail if logged.seq > first and isinstance(logged.record, NoticePosted)
        ]
        if notices:
            self._errand.outbox.notes["x-holdfast-rescued"] = ", ".join(dict.fromkeys(one.code for one in notices))
            self._errand.outbox.notes["x-holdfast-notice"] = notices[-1].sentence


async def rescue(
    errand: Errand, conversation: Conversation, keeper: Keeper, failed: AttemptFailed | None
) -> Reply | Ending | None:
    """Answer a request with the session's view, made to fit; `failed` is why it cannot go out as it is.

    Returns the reply that the client has, or why it has none; None where the answer broke off.
    """
    asked = errand.asked
    async with conversation.lock, keeper.leased(conversation.key) as lease:
        log = await keeper.opened(lease)
        await _begin_turn(keeper, lease, log, asked, conversation)
        if failed is not None:
            number, attempt = log.turn.number, log.turn.attempts + 1
            most = asked.decoded.request.output_tokens_max if asked.decoded is not None else None
            started = AttemptStarted(number, attempt, asked.models[0].name, failed.fault.requested or 0, most)
            told = msgspec.structs.replace(failed, turn=number, attempt=attempt)
            await keeper.append(lease, log, [started, told])
        models = [ClientModel(errand, place) for place in range(len(asked.models))]
        runner = ClientRunner(lease, log, _engine(keeper.engine, asked, models), errand)
        for model in models:
            model.runner = runner
        first = log.turn.seq
        try:
            await runner.run()
        finally:
            conversation.is_rescued = is_changed(runner.log.turn)
        reply = runner.reply_since(first)
        if reply is None:
            return runner.ending
        keeper.answered(conversation, reply)
        await errand.begin()
        return reply


async def _begin_turn(keeper: Keeper, lease: Lease, log: Log, asked: Asked, conversation: Conversation) -> None:
    """Bring a log to where the client waits for an answer: its new messages are in, and a turn is open."""
    await keeper.enter(lease, log, asked, conversation, None)
    if log.turn.number:
        return
    # The turn of its newest message has ended without an answer. It is asked again, as a turn of its own.
    place = max((number for number, one in enumerate(asked.messages) if one.role.value == "user"), default=0)
    del conversation.digests[place:]
    await keeper.enter(lease, log, asked, conversation, None)


def _engine(engine: Engine, asked: Asked, models: list[ClientModel]) -> ClientEngine:
    assert asked.decoded is not None, "what cannot be read cannot be rescued"
    request = asked.decoded.request
    given = {one.name: getattr(engine, one.name) for one in fields(Engine)}
    # Nobody at the other end of a client's request could choose what to do, so nobody is asked.
    bounds: Bounds = msgspec.structs.replace(
        engine.bounds, steps_max=_STEPS_MAX, compacts_ahead=False, on_overflow="compact"
    )
    given |= {"models": lambda _: models, "system": lambda: request.system, "bounds": bounds}
    return ClientEngine(**given, tools=request.tools, summarisers=asked.models)
