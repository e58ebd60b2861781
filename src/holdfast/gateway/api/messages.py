"""Handlers for messages, turns, pins, results of client tools, uploads and attachments.

An attachment is the original bytes of a blob, served so that no browser executes them: attachments are untrusted and
share the page's origin. The content type is sniffed from the bytes, not taken from the client: safe image types keep
theirs, everything else is a download. A CSP sandbox covers browsers that open it anyway.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from types import MappingProxyType

import msgspec

from holdfast.core.text.media_type import GIF, JPEG, PNG, WEBP, sniff
from holdfast.errors import BadInputError, BlobMissingError, TurnFailedError
from holdfast.gateway.api import schemas
from holdfast.gateway.api.request_context import RequestContext
from holdfast.gateway.api.sessions import show_record, tool_specs
from holdfast.gateway.http.asgi import body_chunks, header
from holdfast.gateway.http.events import DELTA_SECONDS, EventStream, cursor_of, epoch_of, send_update
from holdfast.gateway.http.problems import InvalidError, NotFoundError
from holdfast.ports import Attachment, Blobs
from holdfast.runtime.engine.live import LiveDelta
from holdfast.runtime.outputs import bare_json
from holdfast.runtime.sessions.session import Answer, Session
from holdfast.types.messages import BlobRef
from holdfast.types.records import InputAdmitted, Logged, Outcome, TurnEnded, refs_of, turn_of

# Reading the outcome of an ended turn takes milliseconds; after this timeout the turn is reported as open.
_READING_SECONDS = 5.0


async def send_message(context: RequestContext) -> schemas.Answered | schemas.Accepted | None:
    """Accept a message, and respond according to its mode."""
    body = await context.body(schemas.SendMessage)
    client_id = _client_id(context, body.client_id)
    attachments = _attachments(context, body.attachments)
    key = context.tenant.store_key(context.key)
    session = await context.state.client.session(key, tools=tool_specs(body.tools))
    async with context.admitted(await _model(context, session)):
        return await _send(context, session, body, attachments, client_id)


async def _model(context: RequestContext, session: Session) -> str:
    """Return the model that a message is for. A gateway with one model need not read the session for it."""
    models = context.state.models
    own = (await session.state()).model if len(models) > 1 else None
    return own or models[0]


async def _send(
    context: RequestContext,
    session: Session,
    body: schemas.SendMessage,
    attachments: Sequence[Attachment | Path | str],
    client_id: str,
) -> schemas.Answered | schemas.Accepted | None:
    key = session.key
    try:
        turn = await session.post(
            body.text,
            attachments=attachments,
            client_id=client_id,
            settings=body.settings,
            output=body.output,
            expect=body.expect,
            replaces=body.replaces,
            is_heartbeat=body.is_heartbeat,
        )
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
            answer = await context.unless_gone(session.wait(turn))
            return _answered(answer, await session.read(turn))
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
    admitted = await session.read(turn)
    await stream.event("accepted", schemas.Accepted(turn), cursor=cursor_of(epoch, admitted))
    async with aclosing(_until_ended(session, turn)) as updates:
        async for update in updates:
            await send_update(stream, session, epoch, update)
    await stream.event("answer", _answered(await session.wait(turn), admitted))


async def _until_ended(session: Session, turn: int) -> AsyncGenerator[LiveDelta | Logged, None]:
    async with aclosing(session.live(after=turn, delta_seconds=DELTA_SECONDS)) as updates:
        async for update in updates:
            if (update.turn if isinstance(update, LiveDelta) else turn_of(update.record)) != turn:
                continue
            yield update
            if isinstance(update, Logged) and isinstance(update.record, TurnEnded):
                return


def _answered(answer: Answer, admitted: Logged) -> schemas.Answered:
    """Return an answer, with its value if the message asked for one. The engine has checked that it is JSON."""
    has_output = isinstance(admitted.record, InputAdmitted) and admitted.record.output is not None
    return schemas.Answered(
        turn=answer.turn,
        text=answer.text,
        model=answer.model,
        parts=list(answer.parts),
        usage=answer.usage,
        notices=list(answer.notices),
        cost_usd=answer.cost_usd,
        output=msgspec.Raw(bare_json(answer.text).encode() if has_output else b"null"),
    )


async def show_turn(context: RequestContext) -> schemas.TurnState:
    """Return the state of a turn, after waiting for its outcome if requested."""
    query = context.query(schemas.WaitQuery)
    session, _ = await context.session()
    admitted = await _turn(context, session)
    turn = admitted.seq
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
    return schemas.TurnState(turn, Outcome.ANSWERED, answer=_answered(answer, admitted))


async def _turn(context: RequestContext, session: Session) -> Logged:
    """Return the message of the turn in the path. Raises `NotFoundError` if the session has no such turn."""
    number = context.number("turn")
    found = await session.history(after=number - 1, limit=1) if number else []
    if not found or not isinstance(found[0].record, InputAdmitted):
        raise NotFoundError("turn not found; use the `turn` that sending a message returned")
    return found[0]


async def cancel_turn(context: RequestContext) -> schemas.Done:
    """Cancel one turn."""
    await context.body(schemas.Nothing)
    session, _ = await context.session()
    await session.cancel((await _turn(context, session)).seq)
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
    await session.pin((await _turn(context, session)).seq)
    return schemas.Done()


async def unpin(context: RequestContext) -> schemas.Done:
    """Unpin the message of a turn."""
    session, _ = await context.session()
    await session.pin((await _turn(context, session)).seq, keep=False)
    return schemas.Done()


async def exclude(context: RequestContext) -> schemas.Done:
    """Leave a message out of the view."""
    session, _ = await context.session()
    await session.exclude(context.number("seq"))
    return schemas.Done()


async def take_back(context: RequestContext) -> schemas.Done:
    """Show an excluded message again."""
    session, _ = await context.session()
    await session.exclude(context.number("seq"), undo=True)
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


# Image types without active content. SVG is not among them: it can contain scripts and load resources.
_IMAGES: Mapping[str, str] = MappingProxyType({PNG: ".png", JPEG: ".jpg", GIF: ".gif", WEBP: ".webp"})
_DOWNLOAD = "application/octet-stream"
FILE_TYPES = (*_IMAGES, _DOWNLOAD)
# Bytes per read and write, so that memory use is constant.
_CHUNK_BYTES = 256 * 2**10
# Characters of the SHA-256 in the file name, enough to distinguish files.
_NAME_CHARS = 12
_HEADERS = (
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
)


async def show_attachment(context: RequestContext) -> None:
    """Send the bytes of a blob, if the record in the path refers to it."""
    logged = await show_record(context)
    sha256 = context.names["sha256"]
    ref = next((ref for ref in refs_of(logged.record) if ref.sha256 == sha256), None)
    if ref is None:
        raise NotFoundError("this record has no such attachment; its parts list the SHA-256 of each")
    blobs = context.state.client.engine.blobs
    head = await blobs.read(ref, start=0, length=_CHUNK_BYTES)
    sniffed = sniff(head)
    kind = sniffed if sniffed in _IMAGES else _DOWNLOAD
    disposition = "inline" if kind in _IMAGES else "attachment"
    # Untrusted names must not reach headers or file systems.
    name = sha256[:_NAME_CHARS] + _IMAGES.get(kind, ".bin")
    headers = (*_HEADERS, (b"content-disposition", f'{disposition}; filename="{name}"'.encode("ascii")))
    await context.file(_checked(blobs, ref, head), kind=kind, headers=headers)


async def _checked(blobs: Blobs, ref: BlobRef, head: bytes) -> AsyncGenerator[bytes, None]:
    """Yield the bytes in chunks. Raises before the last chunk if the digest does not match."""
    digest = hashlib.sha256(head)
    chunk, start = head, len(head)
    while start < ref.size_bytes and chunk:
        yield chunk
        chunk = await blobs.read(ref, start=start, length=_CHUNK_BYTES)
        digest.update(chunk)
        start += len(chunk)
    if digest.hexdigest() != ref.sha256:
        raise BlobMissingError(ref.sha256, "was altered: its bytes do not match its SHA-256")
    # Held back until here: a complete download is a verified one.
    yield chunk
