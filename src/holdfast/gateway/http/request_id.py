"""Ids of requests and traces: taken from the client or made, returned in headers, and in every log line of the request.

The id is in a context variable, so that tasks that a request starts log it too. A runner that is already working keeps
the id of the request that started it.
"""

import re
import secrets
from contextvars import ContextVar
from itertools import count

import msgspec

from holdfast.gateway.http.asgi import Scope

_REQUEST_ID, _PARENT = b"x-request-id", b"traceparent"
_HEADERS = frozenset({_REQUEST_ID, _PARENT})
# Ids of this process: random digits that no other process has, and a number.
_ID_PREFIX = secrets.token_hex(5)
_numbers = count(1)
_ID = re.compile(rb"[A-Za-z0-9._:-]{1,64}")
# W3C Trace Context, version 00: trace id and parent id must not be all zeros.
_TRACEPARENT = re.compile(rb"00-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


class RequestIds(msgspec.Struct, frozen=True):
    """The id of a request, and of the trace that it is a part of; "": none."""

    request_id: str
    trace_id: str = ""


_current: ContextVar[RequestIds | None] = ContextVar("holdfast_request_ids", default=None)


def current_ids() -> RequestIds | None:
    """Return the ids of the request that is being served; None outside one."""
    return _current.get()


def begin_request(scope: Scope) -> RequestIds:
    """Return the ids of a request, and use them in this context. An id that is not a short word is replaced."""
    given: dict[bytes, bytes] = {}
    for name, text in scope["headers"]:
        if name in _HEADERS:
            # One that is sent twice counts as none.
            given[name] = b"" if name in given else text
    sent_id, sent_parent = given.get(_REQUEST_ID, b""), given.get(_PARENT, b"")
    request_id = sent_id.decode() if sent_id and _ID.fullmatch(sent_id) else f"req-{_ID_PREFIX}{next(_numbers):06x}"
    traced = _TRACEPARENT.fullmatch(sent_parent) if sent_parent else None
    ids = RequestIds(request_id, traced[1].decode() if traced else "")
    _current.set(ids)
    return ids


def id_headers(ids: RequestIds, present: frozenset[bytes]) -> list[tuple[bytes, bytes]]:
    """Return the headers of a response with its ids. An upstream's own `x-request-id` stays."""
    ours = ids.request_id.encode()
    headers = [(b"x-holdfast-request-id", ours)]
    return headers if b"x-request-id" in present else [*headers, (b"x-request-id", ours)]
