"""The native API, talking: messages, turns, results of tools that a client runs, uploads.

Whatever the library checks is checked there, once; here a request becomes a call and what comes of it a shape.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path

from holdfast.errors import BadInputError, TurnFailedError
from holdfast.gateway.api import schemas
from holdfast.gateway.api.request_context import RequestContext
from holdfast.gateway.api.sessions import specs
from holdfast.gateway.http.asgi import body_chunks, header
from holdfast.gateway.http.events import EventStream, cursor_of, epoch_of, tell
from holdfast.gateway.http.problems import InvalidError, NotFoundError
from holdfast.ports import Attachment
from holdfast.runtime.engine.live import LiveDelta
from holdfast.runtime.sessions.session import Answer, Session
from holdfast.types.records import InputAdmitted, Logged, Outcome, TurnEnded, turn_of

# Reading the outcome of a turn that has ended takes milliseconds; whoever takes longer is told that it is open.
_READING_SECONDS = 5.0


async def send_message(call: RequestContext) -> schemas.Answered | schemas.Accepted | None:
    """Take a message, and answer as its mode says."""
    wanted = await call.body(schemas.SendMessage)
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
        return schemas.Accepted(turn)
    if wanted.mode == "stream":
        await call.stream(lambda stream: _stream_turn(stream, session, turn), session=key)
        return None
    try:
        async with asyncio.timeout(call.gateway.bounds.wait_seconds_max):
            return _answered(await call.unless_gone(session.wait(turn)))
    except TimeoutError:
        # It will be answered; whoever wants it asks for the turn.
        call.status = 202
        return schemas.Accepted(turn)


def _client_id(call: RequestContext, given: str) -> str:
    told = header(call.scope, b"idempotency-key").strip('"')
    if told and given and told != given:
        raise InvalidError("client_id and the header Idempotency-Key differ; give one of them")
    return given or told


def _attachments(call: RequestContext, attached: Sequence[schemas.Attached]) -> list[Attachment | Path | str]:
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
    await stream.event("accepted", schemas.Accepted(turn), cursor=cursor_of(epoch, await session.read(turn)))
    async with aclosing(_until_ended(session, turn)) as sights:
        async for sight in sights:
            await tell(stream, session, epoch, sight)
    await stream.event("answer", _answered(await session.wait(turn)))


async def _until_ended(session: Session, turn: int) -> AsyncGenerator[LiveDelta | Logged, None]:
    async with aclosing(session.live(after=turn)) as sights:
        async for sight in sights:
            if (sight.turn if isinstance(sight, LiveDelta) else turn_of(sight.record)) != turn:
                continue
            yield sight
            if isinstance(sight, Logged) and isinstance(sight.record, TurnEnded):
                return


def _answered(answer: Answer) -> schemas.Answered:
    return schemas.Answered(
        answer.turn, answer.text, answer.model, list(answer.parts), answer.usage, list(answer.notices), answer.cost_usd
    )


async def show_turn(call: RequestContext) -> schemas.TurnState:
    """Answer with how a turn stands, having waited for its outcome if asked to."""
    wanted = call.query(schemas.WaitFor)
    session, _ = await call.session()
    turn = await _turn(call, session)
    standing = await session.state()
    if not wanted.wait_seconds and turn in (standing.number, *standing.waiting):
        return schemas.TurnState(turn, None)
    try:
        async with asyncio.timeout(min(wanted.wait_seconds or _READING_SECONDS, call.gateway.bounds.wait_seconds_max)):
            answer = await call.unless_gone(session.wait(turn))
    except TimeoutError:
        return schemas.TurnState(turn, None)
    except TurnFailedError as error:
        outcome = Outcome.CANCELLED if error.reason == Outcome.CANCELLED else Outcome.FAILED
        return schemas.TurnState(turn, outcome, error.reason, error.sentence)
    return schemas.TurnState(turn, Outcome.ANSWERED, answer=_answered(answer))


async def _turn(call: RequestContext, session: Session) -> int:
    """Return the turn that the address names. Raises `NotFoundError` where the session has none of that number."""
    number = call.number("turn")
    found = await session.history(after=number - 1, limit=1) if number else []
    if not found or not isinstance(found[0].record, InputAdmitted):
        raise NotFoundError("there is no such turn; a turn is named by the number that sending a message gave")
    return number


async def cancel_turn(call: RequestContext) -> schemas.Done:
    """Stop working on one turn."""
    await call.body(schemas.Nothing)
    session, _ = await call.session()
    await session.cancel(await _turn(call, session))
    return schemas.Done()


async def cancel_all(call: RequestContext) -> schemas.Done:
    """Stop working on everything that is open in a session."""
    await call.body(schemas.Nothing)
    session, _ = await call.session()
    await session.cancel()
    return schemas.Done()


async def pin(call: RequestContext) -> schemas.Done:
    """Keep the message of a turn in the view."""
    session, _ = await call.session()
    await session.pin(await _turn(call, session))
    return schemas.Done()


async def unpin(call: RequestContext) -> schemas.Done:
    """Keep it no longer."""
    session, _ = await call.session()
    await session.pin(await _turn(call, session), keep=False)
    return schemas.Done()


async def submit_result(call: RequestContext) -> schemas.Submitted:
    """Take what came of a call that the client was told to run."""
    wanted = await call.body(schemas.SubmitResult)
    session, _ = await call.session()
    output: list[str | Attachment] = [wanted.output] if wanted.output else []
    for one in wanted.attachments:
        if one.upload:
            raise InvalidError("a result takes its attachments as content, not as uploads")
        output.append(Attachment(one.content, one.name, one.media_type))
    is_new = await session.submit(wanted.reply, wanted.call_id, output, is_failure=wanted.is_failure)
    return schemas.Submitted(is_new)


async def upload(call: RequestContext) -> schemas.Uploaded:
    """Take an attachment that a message will name."""
    wanted = call.query(schemas.NameOfUpload)
    bounds = call.gateway.bounds
    chunks = body_chunks(call.scope, call.receive, bounds, bytes_max=bounds.upload_bytes_max)
    upload_id, kept = await call.gateway.uploads.keep(call.tenant.name, wanted.name, chunks)
    call.status = 201
    return schemas.Uploaded(upload_id, kept.size_bytes, kept.expires_at)
