"""Handlers that fork, delete, export and import sessions.

An imported file is untrusted, so the API's checks apply to it: it may not name a model that is not offered, nor a blob
that it does not contain.
"""

import asyncio
import re

from holdfast.errors import RetryLaterError, StoppingError
from holdfast.gateway.api import schemas
from holdfast.gateway.api.request_context import RequestContext
from holdfast.gateway.api.sessions import check_model
from holdfast.gateway.http.asgi import body_chunks
from holdfast.gateway.http.problems import ExistsError
from holdfast.runtime.sessions.delete import Deleted
from holdfast.runtime.sessions.transfer import verified_origin
from holdfast.runtime.tools.client_tools import check_declared
from holdfast.types.records import Logged, SessionConfigured

FILE_TYPE = "application/jsonl"
# Interval of delete attempts while the session is active.
_POLL_SECONDS = 0.1
# Tenant prefix of a store key; the tenant of an imported session may be unknown here.
_TENANT = re.compile("^@[^/]*/")


async def fork(context: RequestContext) -> schemas.Forked:
    """Copy the records of a session into a new one."""
    body = await context.body(schemas.Fork)
    session, _ = await context.session()
    target = await _unused_key(context, body.into)
    forked = await session.fork(target, at=body.at)
    known = await forked.known()
    assert known is not None, "a fork has records"
    return schemas.Forked(body.into, known.last_seq)


async def _unused_key(context: RequestContext, key: str) -> str:
    """Return the store key for a new session. Raises `ExistsError` if the session already exists."""
    target = context.tenant.store_key(key)
    if await (await context.state.client.session(target)).known() is not None:
        raise ExistsError(f"session {key!r} already exists; choose another key")
    return target


async def delete_session(context: RequestContext) -> schemas.Removed:
    """Delete a session and end its event streams."""
    session, _ = await context.session()
    removed = await _delete_when_idle(context, session.key)
    context.state.streams.end_session(session.key)
    context.state.watches.touch(session.key)
    return schemas.Removed(removed.records, removed.segments, removed.blobs)


async def _delete_when_idle(context: RequestContext, key: str) -> Deleted:
    """Delete a session as soon as it is idle. Raises `RetryLaterError` after the timeout."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + context.state.bounds.rest_seconds_max
    while True:
        try:
            return await context.state.client.delete(key)
        except StoppingError:
            raise
        except RetryLaterError:
            if loop.time() >= deadline:
                raise
        await asyncio.sleep(_POLL_SECONDS)


async def export_session(context: RequestContext) -> None:
    """Send a session as one file."""
    session, _ = await context.session()
    # Quotes, slashes and line breaks of a key must not reach headers or file systems.
    name = re.sub("[^A-Za-z0-9._-]+", "-", context.key).strip(".-") or "session"
    disposition = (b"content-disposition", f'attachment; filename="{name}.jsonl"'.encode("ascii"))
    await context.file(context.state.client.export(session.key), kind=FILE_TYPE, headers=[disposition])


async def import_session(context: RequestContext) -> schemas.Imported:
    """Create a session from an exported file. Nothing is stored before the whole file is received and verified."""
    query = context.query(schemas.ImportQuery)
    if query.key:
        await _unused_key(context, query.key)
    bounds, uploads = context.state.bounds, context.state.uploads
    chunks = body_chunks(context.scope, context.receive, bounds, bytes_max=bounds.import_bytes_max)
    upload_id, saved = await uploads.save(context.tenant.name, "session.jsonl", chunks)
    try:
        # A line may be as long as a JSON body, which bounds memory use.
        origin = await asyncio.to_thread(verified_origin, saved.path, line_bytes_max=bounds.body_bytes_max)
        key = query.key or _TENANT.sub("", origin)
        copied = await context.state.client.import_(
            saved.path, key=await _unused_key(context, key), check=lambda logged: _check(context, logged)
        )
    finally:
        uploads.drop(upload_id)
    return schemas.Imported(key, copied.records, copied.blobs, _TENANT.sub("", origin))


def _check(context: RequestContext, logged: Logged) -> None:
    """Raise if a record contains a configuration that the API would reject."""
    record = logged.record
    if not isinstance(record, SessionConfigured):
        return
    check_model(context, record.model)
    context.check_length("the system text", record.system or "", context.state.bounds.system_chars_max)
    engine = context.state.client.engine
    check_declared(record.tools, engine.toolbox, engine.bounds)
