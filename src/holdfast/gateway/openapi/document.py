"""OpenAPI document: the native API, generated from the route table and the schemas, and the proxy endpoints."""

from functools import cache
from typing import Any

import msgspec

from holdfast.gateway.api import schemas
from holdfast.gateway.api.route import Route
from holdfast.gateway.api.routes import PREFIX, ROUTES
from holdfast.gateway.http.problems import STATUSES, Problem, statuses_of
from holdfast.gateway.openapi.proxy_paths import EXAMPLES, proxy_paths
from holdfast.runtime.tools.tool_runs import Approval
from holdfast.types.records import Logged

VERSION = "3.1.0"
_EVENTS: tuple[tuple[str, type[Any], str], ...] = (
    ("watching", schemas.Watching, "first event: the start of the stream"),
    (
        "resync",
        schemas.Resync,
        "records cannot be replayed: replaces the first event, or is the last if the session was created again",
    ),
    ("accepted", schemas.Accepted, "streamed message: it is stored durably"),
    ("delta", schemas.DeltaSeen, "a chunk of an answer; no id, never stored"),
    ("record", Logged, "a record; its id is the cursor that resumes after it"),
    ("call", schemas.OpenCall, "a tool call for the client to run; sent at least once"),
    ("approval", Approval, "a tool call that waits for an approval; sent at least once"),
    ("answer", schemas.Answered, "streamed message: the last event"),
    ("problem", Problem, "the last event after a failure"),
    (
        "session",
        schemas.SessionChanged,
        "watch over all sessions: a session changed; its id is the cursor to resume from",
    ),
    ("deleted", schemas.SessionDeleted, "watch over all sessions: a session was deleted"),
    ("reconnect", schemas.Reconnect, "the last event when the gateway stops"),
    ("gone", schemas.Gone, "the last event after the session was deleted"),
)
_INTEGERS = {"turn", "seq"}
_HEADERS: dict[tuple[str, str], tuple[str, str]] = {
    ("POST", "/sessions/{key}/messages"): ("Idempotency-Key", "The client's id of the message, as `client_id`."),
    ("GET", "/events"): ("Last-Event-ID", "The cursor of the last event received."),
    ("GET", "/sessions/{key}/events"): ("Last-Event-ID", "The cursor of the last event received."),
}


def event_descriptions() -> tuple[tuple[str, str], ...]:
    """Return the event names with their descriptions."""
    return tuple((name, description) for name, _, description in _EVENTS)


@cache
def encoded_document(version: str) -> bytes:
    """Return the document as JSON."""
    return msgspec.json.encode(document(version))


def document(version: str) -> dict[str, Any]:
    """Return the complete document."""
    structs: set[type[Any]] = {Problem, *(struct for _, struct, _ in _EVENTS)}
    for route in ROUTES:
        structs |= {
            struct
            for struct in (route.body, route.response, *(struct for _, struct in route.other_responses))
            if struct is not None
        }
    # Sorted, so that the document is deterministic.
    listed = sorted(structs, key=lambda struct: struct.__name__)
    refs, components = msgspec.json.schema_components(listed, ref_template="#/components/schemas/{name}")
    by_struct = dict(zip(listed, refs, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = _operation(route, by_struct)
    paths |= proxy_paths()
    return {
        "openapi": VERSION,
        "info": {
            "title": "Holdfast",
            "version": version,
            "description": "Durable sessions for LLM agents that survive crashes and context overflow.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}, {}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "A gateway key."}},
        },
    }


def _operation(route: Route, refs: dict[Any, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.run.__name__,
        "summary": route.summary,
        "tags": ["sessions" if route.path.startswith("/sessions") else "gateway"],
        "parameters": [*_path_parameters(route), *_query_parameters(route), *_header_parameters(route)],
        "responses": _responses(route, refs),
    }
    if route.body is not None:
        content = {"schema": refs[route.body], "example": EXAMPLES[route.body.__name__]}
        operation["requestBody"] = {"required": True, "content": {"application/json": content}}
    if route.takes_bytes:
        operation["requestBody"] = {"required": True, "content": {"application/octet-stream": {"schema": {}}}}
    return operation


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    names = [part[1:-1] for part in route.parts if part.startswith("{")]
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "integer", "minimum": 1} if name in _INTEGERS else {"type": "string", "minLength": 1},
        }
        for name in names
    ]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    _, components = msgspec.json.schema_components([route.query])
    schema = components[route.query.__name__]
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": field}
        for name, field in schema["properties"].items()
    ]


def _header_parameters(route: Route) -> list[dict[str, Any]]:
    found = _HEADERS.get((route.method, route.path))
    if found is None:
        return []
    name, description = found
    return [{"name": name, "in": "header", "required": False, "description": description, "schema": {"type": "string"}}]


def _responses(route: Route, refs: dict[Any, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    content: dict[str, Any] = {}
    if route.response is not None:
        content["application/json"] = {"schema": refs[route.response]}
    for file_type in route.file_types:
        content[file_type] = {"schema": {"type": "string", "description": "The file."}}
    if route.may_stream:
        events = "; ".join(f"`{name}`: {description}" for name, description in event_descriptions())
        content["text/event-stream"] = {"schema": {"type": "string", "description": f"Events. {events}."}}
    responses[str(route.status)] = {"description": route.summary, "content": content}
    for status, struct in route.other_responses:
        responses[str(status)] = {
            "description": struct.__doc__,
            "content": {"application/json": {"schema": refs[struct]}},
        }
    for status, kinds in sorted(statuses_of(*route.all_errors).items()):
        responses[str(status)] = {
            "description": "; ".join(f"`{kind.code}`: {_title(kind)}" for kind in kinds),
            "content": {"application/problem+json": {"schema": refs[Problem]}},
        }
    return responses


def _title(kind: type[Exception]) -> str:
    return next(title for known, (_, title) in STATUSES.items() if issubclass(kind, known))
