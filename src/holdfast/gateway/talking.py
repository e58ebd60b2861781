"""The native API, talking: messages, turns, results of tools that a client runs, uploads.

Whatever the library checks is checked there, once; here a request becomes a call and what comes of it a shape.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path

from holdfast.core.records import InputAdmitted, Logged, Outcome, TurnEnded, turn_of
from holdfast.errors import BadInputError, TurnFailedError
from holdfast.gateway import shapes
from holdfast.gateway.asgi import body_chunks, header
from holdfast.gateway.call import Call
from holdfast.gateway.events import EventStream, cursor_of, epoch_of, tell
from holdfast.gateway.looking import specs
from holdfast.gateway.problems import InvalidError, NotFoundError
from holdfast.ports import Attachment
from holdfast.runtime.live import LiveDelta
from holdfast.runtime.sessions import Answer, Session

# Reading the outcome of a turn that has ended takes milliseconds; whoever takes longer is told that it is open.
_READING_SECONDS = 5.0


async def send_message(call: Call) -> shapes.Answered | shapes.Accepted | None:
    """Take a message, and answer as its mode says."""
    wanted = await call.body(shapes.SendMessage)
    client_id = _client_id(call, wanted.client_id)
    attachments = _attachments(call, wanted.attachments)
    key = call.tenant.store_key(call.key)
    session = await call.gateway.hold.session(key, tools=specs(wanted.tools))
    try:
        turn = await session.post(wanted.text, attachments=attachments, client_id=client_id)
    except BadInputError as error:
        raise BadInputError(call.gateway.uploads.without_place(str(error))) from error
    call.gateway.pulses.touch(key, turn)
    if wanted.mode == "post":
        # Nothing is read for this: it is what a client waits for before it goes on.
        call.status = 202
        return shapes.Accepted(turn)
    if wanted.mode == "stream":
        await call.stream(lambda stream: _stream_turn(stream, session, turn), session=key)
        return None
    try:
        async with asyncio.timeout(call.gateway.bounds.wait_seconds_max):
            return _answered(await call.unless_gone(session.wait(turn)))
    except TimeoutError:
        # It will be answered; whoever wants it asks for the turn.
        call.status = 202
        return shapes.Accepted(turn)


def _client_id(call: Call, given: str) -> str:
    told = header(call.scope, b"idempotency-key").strip('"')
    if told and given and told != given:
        raise InvalidError("client_id and the header Idempotency-Key differ; give one of them")
    return given or told


def _attachments(call: Call, attached: Sequence[shapes.Attached]) -> list[Attachment | Path | str]:
    found: list[Attachment | Path | str] = []
    for one in attached:
        if bool(one.upload) == bool(one.content):
            raise InvalidError("an attachment has either the id of an upload or its content; give one of the two")
        if one.upload:
            found.append(call.gateway.uploads.path_of(call.tenant.name, one.upload))
        else:
            found.append(Attachment(one.content, one.name, one.media_type))
    return found


async def _stream_turn(stream: EventStream, session: Session, turn: int) -> None:
    """Tell what happens in one turn, and its outcome last."""
    known = await session.known()
    assert known is not None, "a session with a message exists"
    epoch = epoch_of(known)
    await stream.event("accepted", shapes.Accepted(turn), cursor=cursor_of(epoch, await session.read(turn)))
    async with aclosing(_until_ended(session, turn)) as sights:
        async for sight in sights:
            await tell(stream, session, epoch, sight)
    await stream.event("answer", _answered(await session.wait(turn)))


async def _until_ended(session: Session, turn: int) -> AsyncGenerator[LiveDelta | Logged, None]:
    async with aclosing(session.sights(after=turn)) as sights:
        async for sight in sights:
            if (sight.turn if isinstance(sight, LiveDelta) else turn_of(sight.record)) != turn:
                continue
            yield sight
            if isinstance(sight, Logged) and isinstance(sight.record, TurnEnded):
                return


def _answered(answer: Answer) -> shapes.Answered:
    return shapes.Answered(
        answer.turn, answer.text, answer.model, list(answer.parts), answer.usage, list(answer.notices), answer.cost_usd
    )


async def show_turn(call: Call) -> shapes.TurnState:
    """Answer with how a turn stands, having waited for its outcome if asked to."""
    wanted = call.query(shapes.WaitFor)
    session, _ = await call.session()
    turn = await _turn(call, session)
    standing = await session.standing()
    if not wanted.wait_seconds and turn in (standing.number, *standing.waiting):
        return shapes.TurnState(turn, None)
    try:
        async with asyncio.timeout(min(wanted.wait_seconds or _READING_SECONDS, call.gateway.bounds.wait_seconds_max)):
            answer = await call.unless_gone(session.wait(turn))
    except TimeoutError:
        return shapes.TurnState(turn, None)
    except TurnFailedError as error:
        outcome = Outcome.CANCELLED if error.reason == Outcome.CANCELLED else Outcome.FAILED
        return shapes.TurnState(turn, outcome, error.reason, error.sentence)
    return shapes.TurnState(turn, Outcome.ANSWERED, answer=_answered(answer))


async def _turn(call: Call, session: Session) -> int:
    """Return the turn that the address names. Raises `NotFoundError` where the session has none of that number."""
    number = call.number("turn")
    found = await session.history(after=number - 1, limit=1) if number else []
    if not found or not isinstance(found[0].record, InputAdmitted):
        raise NotFoundError("there is no such turn; a turn is named by the number that sending a message gave")
    return number


async def cancel_turn(call: Call) -> shapes.Done:
    """Stop working on one turn."""
    await call.body(shapes.Nothing)
    session, _ = await call.session()
    await session.cancel(await _turn(call, session))
    return shapes.Done()


async def cancel_all(call: Call) -> shapes.Done:
    """Stop working on everything that is open in a session."""
    await call.body(shapes.Nothing)
    session, _ = await call.session()
    await session.cancel()
    return shapes.Done()


async def pin(call: Call) -> shapes.Done:
    """Keep the message of a turn in the view."""
    session, _ = await call.session()
    await session.pin(await _turn(call, session))
    return shapes.Done()


async def unpin(call: Call) -> shapes.Done:
    """Keep it no longer."""
    session, _ = await call.session()
    await session.pin(await _turn(call, session), keep=False)
    return shapes.Done()


async def submit_result(call: Call) -> shapes.Submitted:
    """Take what came of a call that the client was told to run."""
    wanted = await call.body(shapes.SubmitResult)
    session, _ = await call.session()
    output: list[str | Attachment] = [wanted.output] if wanted.output else []
    for one in wanted.attachments:
        if one.upload:
            raise InvalidError("a result takes its attachments as content, not as uploads")
        output.append(Attachment(one.content, one.name, one.media_type))
    is_new = await session.submit(wanted.reply, wanted.call_id, output, is_failure=wanted.is_failure)
    return shapes.Submitted(is_new)


async def upload(call: Call) -> shapes.Uploaded:
    """Take an attachment that a message will name."""
    wanted = call.query(shapes.NameOfUpload)
    bounds = call.gateway.bounds
    chunks = body_chunks(call.scope, call.receive, bounds, bytes_max=bounds.upload_bytes_max)
    upload_id, kept = await call.gateway.uploads.keep(call.tenant.name, wanted.name, chunks)
    call.status = 201
    return shapes.Uploaded(upload_id, kept.size_bytes, kept.expires_at)
