"""The native API, copying: a session as a session of its own, into a file and back, and gone.

What is imported comes from outside, so it is held to what the API asks of everybody: it may not name a model that is
not offered, nor bytes that it does not bring.
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
# How often a session that is to be deleted is asked for while somebody works on it.
_POLL_SECONDS = 0.1
# What a tenant's sessions begin with in a store; of an imported one the tenant may be unknown here.
_TENANT = re.compile("^@[^/]*/")


async def fork(call: RequestContext) -> schemas.Forked:
    """Make a session of its own of the records of another."""
    wanted = await call.body(schemas.Fork)
    session, _ = await call.session()
    target = await _free(call, wanted.into)
    made = await session.fork(target, at=wanted.at)
    known = await made.known()
    assert known is not None, "what was forked has records"
    return schemas.Forked(wanted.into, known.last_seq)


async def _free(call: RequestContext, key: str) -> str:
    """Return the key in the store that a session is to be made under. Raises where there is one already."""
    target = call.tenant.store_key(key)
    if await (await call.gateway.hold.session(target)).known() is not None:
        raise ExistsError(f"there is a session {key!r} already; name another key")
    return target


async def delete_session(call: RequestContext) -> schemas.Removed:
    """Remove a session for good, and end whoever watches it."""
    session, _ = await call.session()
    removed = await _deleted_at_rest(call, session.key)
    call.gateway.streams.forget(session.key)
    call.gateway.pulses.touch(session.key)
    return schemas.Removed(removed.records, removed.segments, removed.blobs)


async def _deleted_at_rest(call: RequestContext, key: str) -> Deleted:
    """Delete a session as soon as nobody works on it. Raises `RetryLaterError` where that takes too long."""
    loop = asyncio.get_running_loop()
    until = loop.time() + call.gateway.bounds.rest_seconds_max
    while True:
        try:
            return await call.gateway.hold.delete(key)
        except StoppingError:
            raise
        except RetryLaterError:
            if loop.time() >= until:
                raise
        await asyncio.sleep(_POLL_SECONDS)


async def export_session(call: RequestContext) -> None:
    """Answer with a session as one file."""
    session, _ = await call.session()
    # No quote, path or line end of a key gets into a header or onto a disk.
    name = re.sub("[^A-Za-z0-9._-]+", "-", call.key).strip(".-") or "session"
    saved = (b"content-disposition", f'attachment; filename="{name}.jsonl"'.encode("ascii"))
    await call.file(call.gateway.hold.export(session.key), kind=FILE_TYPE, headers=[saved])


async def import_session(call: RequestContext) -> schemas.Imported:
    """Make a session of a file that was exported. Nothing is stored before all of it is here and found whole."""
    wanted = call.query(schemas.ImportAs)
    if wanted.key:
        await _free(call, wanted.key)
    bounds, uploads = call.gateway.bounds, call.gateway.uploads
    chunks = body_chunks(call.scope, call.receive, bounds, bytes_max=bounds.import_bytes_max)
    upload_id, kept = await uploads.keep(call.tenant.name, "session.jsonl", chunks)
    try:
        # As much as a request may have in one piece of JSON is held at once, and no more.
        origin = await asyncio.to_thread(verified_origin, kept.path, line_bytes_max=bounds.body_bytes_max)
        key = wanted.key or _TENANT.sub("", origin)
        copied = await call.gateway.hold.import_(
            kept.path, key=await _free(call, key), check=lambda logged: _check(call, logged)
        )
    finally:
        uploads.drop(upload_id)
    return schemas.Imported(key, copied.records, copied.blobs, _TENANT.sub("", origin))


def _check(call: RequestContext, logged: Logged) -> None:
    """Raise where a record tells the session something that the API would not let a client tell it."""
    record = logged.record
    if not isinstance(record, SessionConfigured):
        return
    check_model(call, record.model)
    call.check_length("the system text", record.system or "", call.gateway.bounds.system_chars_max)
    engine = call.gateway.hold.engine
    check_declared(record.tools, engine.toolbox, engine.bounds)
