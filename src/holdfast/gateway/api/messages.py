"""Handlers for messages, turns, pins, results of client tools, and uploads."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path

from holdfast.errors import BadInputError, TurnFailedError
from holdfast.gateway.api import schemas
from holdfast.gateway.api.request_context import RequestContext
from holdfast.gateway.api.sessions import tool_specs
from holdfast.gateway.http.asgi import body_chunks, header
from holdfast.gateway.http.events import EventStream, cursor_of, epoch_of, send_update
from holdfast.gateway.http.problems import InvalidError, NotFoundError
from holdfast.ports import Attachment
from holdfast.runtime.engine.live import LiveDelta
from holdfast.runtime.sessions.session import Answer, Session
from holdfast.types.records import InputAdmitted, Logged, Outcome, TurnEnded, turn_of

# Reading the outcome of an ended turn takes milliseconds; after this timeout the turn is reported as open.
_READING_SECONDS = 5.0


async def send_message(context: RequestContext) -> schemas.Answered | schemas.Accepted | None:
    """Accept a message, and respond according to its mode."""
    body = await context.body(schemas.SendMessage)
    client_id = _client_id(context, body.client_id)
    attachments = _attachments(context, body.attachments)
    key = context.tenant.store_key(context.key)
    session = await context.state.client.session(key, tools=tool_specs(body.tools))
    try:
        turn = await session.post(body.text, attachments=attachments, client_id=client_id)
    except BadInputError as error:
        raise BadInputError(context.state.uploads.strip_path(str(error))) from error
    context.state.watches.touch(key, turn)
    if body.mode == "post":
        context.status = 202
        return schemas.Accepted(turn)
    if body.mode == "stream":
        await context.stream(lambda stream: _stream_turn(stream, session, turn), session=key)
        return None
    try:
        async with asyncio.timeout(context.state.bounds.wait_seconds_max):
            return _answered(await context.unless_gone(session.wait(turn)))
    except TimeoutError:
        # The turn continues; the client reads its outcome from the turn's address.
        context.status = 202
        return schemas.Accepted(turn)


def _client_id(context: RequestContext, client_id: str) -> str:
    idempotency_key = header(context.scope, b"idempotency-key").strip('"')
    if idempotency_key and client_id and idempotency_key != client_id:
        raise InvalidError("client_id and the header Idempotency-Key differ; send one of them")
    return client_id or idempotency_key


def _attachments(context: RequestContext, attached: Sequence[schemas.Attached]) -> list[Attachment | Path | str]:
    found: list[Attachment | Path | str] = []
    for one in attached:
        if bool(one.upload) == bool(one.content):
            raise InvalidError("an attachment needs either `upload` or `content`; send one of the two")
        if one.upload:
            found.append(context.state.uploads.path_of(context.tenant.name, one.upload))
        else:
            found.append(Attachment(one.content, one.name, one.media_type))
    return found


async def _stream_turn(stream: EventStream, session: Session, turn: int) -> None:
    """Stream the events of one turn, and its answer last."""
    known = await session.known()
    assert known is not None, "a session with a message exists"
    epoch = epoch_of(known)
    await stream.event("accepted", schemas.Accepted(turn), cursor=cursor_of(epoch, await session.read(turn)))
    async with aclosing(_until_ended(session, turn)) as updates:
        async for update in updates:
            await send_update(stream, session, epoch, update)
    await stream.event("answer", _answered(await session.wait(turn)))


async def _until_ended(session: Session, turn: int) -> AsyncGenerator[LiveDelta | Logged, None]:
    async with aclosing(session.live(after=turn)) as updates:
        async for update in updates:
            if (update.turn if isinstance(update, LiveDelta) else turn_of(update.record)) != turn:
                continue
            yield update
            if isinstance(update, Logged) and isinstance(update.record, TurnEnded):
                return


def _answered(answer: Answer) -> schemas.Answered:
    return schemas.Answered(
        answer.turn, answer.text, answer.model, list(answer.parts), answer.usage, list(answer.notices), answer.cost_usd
    )


async def show_turn(context: RequestContext) -> schemas.TurnState:
    """Return the state of a turn, after waiting for its outcome if requested."""
    query = context.query(schemas.WaitQuery)
    session, _ = await context.session()
    turn = await _turn(context, session)
    standing = await session.state()
    if not query.wait_seconds and turn in (standing.number, *standing.waiting):
        return schemas.TurnState(turn, None)
    try:
        async with asyncio.timeout(min(query.wait_seconds or _READING_SECONDS, context.state.bounds.wait_seconds_max)):
            answer = await context.unless_gone(session.wait(turn))
    except TimeoutError:
        return schemas.TurnState(turn, None)
    except TurnFailedError as error:
        outcome = Outcome.CANCELLED if error.reason == Outcome.CANCELLED else Outcome.FAILED
        return schemas.TurnState(turn, outcome, error.reason, error.sentence)
    return schemas.TurnState(turn, Outcome.ANSWERED, answer=_answered(answer))


async def _turn(context: RequestContext, session: Session) -> int:
    """Return the turn in the path. Raises `NotFoundError` if the session has no such turn."""
    number = context.number("turn")
    found = await session.history(after=number - 1, limit=1) if number else []
    if not found or not isinstance(found[0].record, InputAdmitted):
        raise NotFoundError("turn not found; use the `turn` that sending a message returned")
    return number


async def cancel_turn(context: RequestContext) -> schemas.Done:
    """Cancel one turn."""
    await context.body(schemas.Nothing)
    session, _ = await context.session()
    await session.cancel(await _turn(context, session))
    return schemas.Done()


async def cancel_all(context: RequestContext) -> schemas.Done:
    """Cancel all open turns of a session."""
    await context.body(schemas.Nothing)
    session, _ = await context.session()
    await session.cancel()
    return schemas.Done()


async def pin(context: RequestContext) -> schemas.Done:
    """Pin the message of a turn."""
    session, _ = await context.session()
    await session.pin(await _turn(context, session))
    return schemas.Done()


async def unpin(context: RequestContext) -> schemas.Done:
    """Unpin the message of a turn."""
    session, _ = await context.session()
    await session.pin(await _turn(context, session), keep=False)
    return schemas.Done()


async def submit_result(context: RequestContext) -> schemas.Submitted:
    """Accept the result of a client tool call."""
    body = await context.body(schemas.SubmitResult)
    session, _ = await context.session()
    output: list[str | Attachment] = [body.output] if body.output else []
    for one in body.attachments:
        if one.upload:
            raise InvalidError("attachments of a result must be `content`, not `upload`")
        output.append(Attachment(one.content, one.name, one.media_type))
    is_new = await session.submit(body.reply, body.call_id, output, is_failure=body.is_failure)
    return schemas.Submitted(is_new)


async def upload(context: RequestContext) -> schemas.Uploaded:
    """Store an attachment for a later message."""
    query = context.query(schemas.UploadQuery)
    bounds = context.state.bounds
    chunks = body_chunks(context.scope, context.receive, bounds, bytes_max=bounds.upload_bytes_max)
    upload_id, saved = await context.state.uploads.save(context.tenant.name, query.name, chunks)
    context.status = 201
    return schemas.Uploaded(upload_id, saved.size_bytes, saved.expires_at)
