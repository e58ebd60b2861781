"""A request that fits passes through: the client's bytes go up, the provider's bytes come down.

Both are read along the way. Nothing is held back but the opening, up to where the model begins to say something: an
error in it, or silence behind it, can still be cured.
"""

import asyncio
import os
import re
import secrets
from collections.abc import Callable, Sequence

import msgspec

from holdfast.core.faults.classifier import classify
from holdfast.core.limits.fit import sent
from holdfast.core.turn.ladder import backoff_seconds, next_rung
from holdfast.gateway.proxy.recovery import Refused, refused
from holdfast.gateway.proxy.request import Asked, Outbox
from holdfast.gateway.proxy.truncation import BREAKS_OFF, Cuts, is_error_to
from holdfast.gateway.proxy.upstream import Raw, Wire, key_in
from holdfast.models.dialects import DIALECTS
from holdfast.models.stream_decoder import AnswerDecoder
from holdfast.models.transport import BrokenOffError, UnreachableError
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.learning import Known
from holdfast.types.faults import Fault, FaultKind, Phase, Refusal, Rung, Sent
from holdfast.types.messages import Reply

# What waiting, or the next model, can cure. A provider's own errors are the client's to see: it may have its own way.
WAITED_OUT = frozenset({FaultKind.RATE_LIMIT, FaultKind.OVERLOADED, FaultKind.STREAM_STALL})
# What making the request smaller can cure.
OVERSIZE = frozenset({FaultKind.TOKEN_OVERFLOW, FaultKind.WIRE_OVERFLOW, FaultKind.MEDIA_OVERFLOW})
_OK = range(200, 300)
# Lines of a stream that say no more than that a request was taken, or that words are about to come: they come at once,
# and then the model may be silent. Where thinking or a tool of the provider's own begins, it is at work. Comments and
# empty lines are how servers ask for patience with a full queue: the client is to see them.
_TAKEN = rb"message_start|ping|response\.created|response\.queued|response\.in_progress|chat\.completion\.chunk"
_ABOUT_TO_SPEAK = rb"content_block_start|response\.output_item\.added|response\.content_part\.added"
_OPENING_LINE = re.compile(
    rb"\s*|event: ?(?:" + _TAKEN + rb"|" + _ABOUT_TO_SPEAK + rb")\s*|data: ?\{.*?\"(?:" + _TAKEN + rb")\".*"
    rb"|data: ?\{.*?\"(?:" + _ABOUT_TO_SPEAK + rb")\".*\"type\": ?\"(?:text|message|output_text)\".*"
)
# Such an opening may repeat the request's own instructions and tools. What is longer is something else.
_OPENING_BYTES_MAX = 2**20
# Bytes of an answer that wait to be read along the way: some hundred events, which take a millisecond or two.
_UNREAD_BYTES_MAX = 16 * 2**10


# Words of the model in a stream, in the form that the dialects' servers give them.
_WORDS = re.compile(
    rb"\"delta\": ?\{[^{}]{0,200}\"content\": ?\"[^\"]|\"text_delta\", ?\"text\": ?\"[^\"]"
    rb"|\"response\.output_text\.delta\""
)


class Opening(msgspec.Struct, frozen=True):
    """The beginning of an answer, and what of it the decoder has not read yet."""

    held: bytes
    unread: bytes = b""


class Passed(msgspec.Struct, frozen=True):
    """It went through, and the client has everything. `reply` is what we could read of the answer."""

    reply: Reply | None
    # What the provider calls it.
    answer_id: str = ""


class Setback(msgspec.Struct, frozen=True):
    """One try that came to nothing, of which the client has seen nothing. `error` is what the upstream said, if so."""

    refusal: Refusal
    error: Refused | None = None


class Failed(msgspec.Struct, frozen=True):
    """Nothing was sent to the client yet. `error` is what the upstream said; None: it said nothing."""

    refusal: Refusal
    fault: Fault
    error: Refused | None = None


class Passage:
    """Takes requests to their upstream, and again where that may help, as long as the client has seen nothing."""

    def __init__(self, wire: Wire, engine: Engine, cuts: Cuts, count_fault: Callable[[FaultKind], None]) -> None:
        self._count_fault = count_fault
        self._wire = wire
        self._engine = engine
        self._deadlines = engine.deadlines
        self._cuts = cuts

    async def carry(self, asked: Asked, outbox: Outbox, known: Known) -> Passed | Failed:
        """Send a request as it is; wait out what can be waited out."""
        place, has_thoughts = 0, True
        climbed: list[Rung] = []
        while True:
            came = await self._try(asked, place, asked.body_for(place, has_thoughts=has_thoughts), outbox)
            if isinstance(came, Passed):
                return came
            outcome = Failed(came.refusal, classify(came.refusal, _sent(asked, known)), came.error)
            self._count_fault(outcome.fault.kind)
            if outcome.fault.kind is FaultKind.BAD_REQUEST_REASONING and has_thoughts and asked.may_have_anothers:
                # A fallback answered once, and the client sends what that has signed to the first model for ever.
                has_thoughts = False
                outbox.notes["x-holdfast-notice"] = "thinking that another model may have signed was left out"
                continue
            if outcome.fault.kind not in WAITED_OUT:
                return outcome
            rung = next_rung(outcome.fault, climbed, self._engine.bounds)
            if rung is None or (rung is Rung.FALLBACK_MODEL and place + 1 >= len(asked.models)):
                return outcome
            if rung is Rung.BACKOFF:
                await self._engine.clock.sleep(backoff_seconds(outcome.fault, climbed, self._engine.bounds))
            if rung is Rung.FALLBACK_MODEL:
                place, climbed = place + 1, []
                outbox.notes["x-holdfast-rescued"] = "next_model"
                outbox.notes["x-holdfast-notice"] = f"answered by {asked.names[place]}: {outcome.fault.kind}"
            else:
                climbed.append(rung)

    async def _try(self, asked: Asked, place: int, body: bytes, outbox: Outbox) -> Passed | Setback:
        deadlines, decoder = self._deadlines, self._decoder(asked, place)
        raw: Raw | None = None
        try:
            async with asyncio.timeout(deadlines.connect_seconds + deadlines.first_token_seconds):
                raw = await self._sent(asked, body)
                if raw.status not in _OK:
                    error = await refused(raw)
                    return Setback(error.refusal(asked.dialect, key_in(asked.headers)), error)
                opening = await _opening(raw, decoder)
            return await self._stream(asked, raw, opening, decoder, outbox)
        except TimeoutError:
            return Setback(Refusal(asked.dialect, Phase.STALL, cause="nothing came within the deadline"))
        except UnreachableError as error:
            return Setback(Refusal(asked.dialect, Phase.CONNECT, cause=str(error)))
        except BrokenOffError as error:
            if outbox.has_begun:
                raise
            return Setback(Refusal(asked.dialect, Phase.STREAM, cause=str(error)))
        finally:
            if raw is not None:
                raw.close()

    async def _sent(self, asked: Asked, body: bytes) -> Raw:
        if asked.ahead is not None and not asked.ahead.is_taken:
            return await asked.ahead.take()
        return await self._wire.send(asked.upstream, "POST", asked.address, asked.headers, body)

    async def _stream(
        self, asked: Asked, raw: Raw, opening: Opening, decoder: AnswerDecoder | None, outbox: Outbox
    ) -> Passed | Setback:
        if decoder is not None and decoder.is_complete and isinstance(outcome := decoder.finish(), Refusal):
            # The very first thing it says is that it will not answer.
            outcome = msgspec.structs.replace(outcome, status=raw.status)
            return Setback(outcome, Refused(raw.status, raw.headers, opening.held))
        await outbox.begin(raw.status, raw.headers)
        unread, unread_bytes = [opening.unread], len(opening.unread)
        self._break_off(asked, decoder, opening.held, unread)
        await outbox.write(opening.held)
        # The client wakes for this, maybe on the very core that we would go on with: it goes first.
        os.sched_yield()
        # First to the client, which waits: it is read when there is much of it, or no more to come.
        while chunk := await self._next(raw):
            unread.append(chunk)
            self._break_off(asked, decoder, chunk, unread)
            await outbox.write(chunk)
            unread_bytes += len(chunk)
            if unread_bytes > _UNREAD_BYTES_MAX and decoder is not None:
                decoder.feed(b"".join(unread))
                unread, unread_bytes = [], 0
        if decoder is None:
            return Passed(None)
        # What was written leaves when the loop goes round.
        await asyncio.sleep(0)
        decoder.feed(b"".join(unread))
        came = decoder.finish()
        return Passed(came, decoder.answer_id) if isinstance(came, Reply) else Passed(None)

    def _break_off(self, asked: Asked, decoder: AnswerDecoder | None, chunk: bytes, unread: list[bytes]) -> None:
        """Raise where an answer is about to end for want of room, which its client would take for an error."""
        if BREAKS_OFF not in chunk or decoder is None or asked.decoded is None or not is_error_to(asked):
            return
        decoder.feed(b"".join(unread))
        unread.clear()
        came = decoder.finish()
        if isinstance(came, Reply) and self._cuts.learn(asked, came, self._engine.bounds):
            raise BrokenOffError("the window was full; the client asks again, and then less is sent")

    async def _next(self, raw: Raw) -> bytes:
        try:
            async with asyncio.timeout(self._deadlines.idle_seconds):
                return await raw.next()
        except TimeoutError as error:
            raise BrokenOffError("nothing more came within the deadline") from error

    def _decoder(self, asked: Asked, place: int) -> AnswerDecoder | None:
        if not asked.models:
            return None
        return DIALECTS[asked.dialect].StreamDecoder(asked.models[place].issuer, secrets.token_hex(6))


async def _opening(raw: Raw, decoder: AnswerDecoder | None) -> Opening:
    """Return the beginning of an answer, up to and with the first piece in which the model says something."""
    held = b""
    while chunk := await raw.next():
        held += chunk
        if decoder is None or (_WORDS.search(chunk) and b"error" not in chunk):
            # It speaks, which is seen without reading it.
            return Opening(held, chunk)
        has_content = decoder.feed(chunk) or decoder.is_complete
        if has_content or len(held) > _OPENING_BYTES_MAX or not _is_opening(held):
            break
    return Opening(held)


def _is_opening(held: bytes) -> bool:
    *lines, unfinished = held.split(b"\n")
    is_stream = held.startswith((b"data:", b"event:")) and not unfinished.startswith(b":")
    return is_stream and all(_OPENING_LINE.fullmatch(line) for line in lines)


def _sent(asked: Asked, known: Known) -> Sent:
    # What the provider holds besides is not measured.
    return Sent() if asked.decoded is None or asked.held else sent(asked.sizes, known.limits, known.calibration)


def names_of(model: str, fallbacks: Sequence[str]) -> tuple[str, ...]:
    """Return the models to ask, best first, each once."""
    return tuple(dict.fromkeys((model, *fallbacks)))
