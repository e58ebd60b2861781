"""The OpenAPI document of the native API, made from the table of routes and the shapes."""

from typing import Any

import msgspec

from holdfast.gateway.api import schemas
from holdfast.gateway.api.routes import PREFIX, ROUTES, Route
from holdfast.gateway.http.problems import STATUSES, Problem, statuses_of
from holdfast.types.records import Logged

VERSION = "3.1.0"
_EVENTS: tuple[tuple[str, type[Any], str], ...] = (
    ("watching", schemas.Watching, "the first event: where the stream begins"),
    (
        "resync",
        schemas.Resync,
        "where records cannot be replayed: the first event instead, or the last where the session was made anew",
    ),
    ("accepted", schemas.Accepted, "of a message that is streamed: it is on disk"),
    ("delta", schemas.DeltaSeen, "a piece of an answer; no id, never stored"),
    ("record", Logged, "a record; its id is the cursor behind it"),
    ("call", schemas.OpenCall, "a call that the client is to run; told at least once"),
    ("answer", schemas.Answered, "the last event of a message that is streamed"),
    ("problem", Problem, "the last event where it failed"),
    ("session", schemas.SessionChanged, "of the watch over all: a session changed; its id is the cursor behind that"),
    ("deleted", schemas.SessionDeleted, "of the watch over all: a session is gone"),
    ("reconnect", schemas.Reconnect, "the gateway is stopping"),
    ("gone", schemas.Gone, "the last event where the session was deleted"),
)
_INTEGERS = {"turn", "seq"}
_HEADERS: dict[tuple[str, str], tuple[str, str]] = {
    ("POST", "/sessions/{key}/messages"): ("Idempotency-Key", "What the client calls the message, as `client_id`."),
    ("GET", "/events"): ("Last-Event-ID", "The cursor of the last event that was seen."),
    ("GET", "/sessions/{key}/events"): ("Last-Event-ID", "The cursor of the last event that was seen."),
}


def event_descriptions() -> tuple[tuple[str, str], ...]:
    """Return the names of events and what each says."""
    return tuple((name, told) for name, _, told in _EVENTS)


def document(version: str) -> dict[str, Any]:
    """Return the whole document."""
    wanted: set[type[Any]] = {Problem, *(shape for _, shape, _ in _EVENTS)}
    for route in ROUTES:
        wanted |= {
            shape
            for shape in (route.body, route.response, *(shape for _, shape in route.other_responses))
            if shape is not None
        }
    listed = sorted(wanted, key=lambda shape: shape.__name__)
    # JSON keys are sorted, so the document is the same each time.
    refs, components = msgspec.json.schema_components(listed, ref_template="#/components/schemas/{name}")
    by_shape = dict(zip(listed, refs, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = _operation(route, by_shape)
    return {
        "openapi": VERSION,
        "info": {
            "title": "Holdfast",
            "version": version,
            "description": "Sessions of LLM agents that outlive crashes and full windows.",
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
        "parameters": [*_path_parameters(route), *_query_parameters(route), *_header_parameters(route)],
        "responses": _responses(route, refs),
    }
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": refs[route.body]}}}
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
        {"name": name, "in": "query", "required": name in required, "schema": shape}
        for name, shape in schema["properties"].items()
    ]


def _header_parameters(route: Route) -> list[dict[str, Any]]:
    found = _HEADERS.get((route.method, route.path))
    if found is None:
        return []
    name, told = found
    return [{"name": name, "in": "header", "required": False, "description": told, "schema": {"type": "string"}}]


def _responses(route: Route, refs: dict[Any, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    content: dict[str, Any] = {}
    if route.response is not None:
        content["application/json"] = {"schema": refs[route.response]}
    for file_type in route.file_types:
        content[file_type] = {"schema": {"type": "string", "description": "The file, as it is written."}}
    if route.may_stream:
        told = "; ".join(f"`{name}`: {what}" for name, what in event_descriptions())
        content["text/event-stream"] = {"schema": {"type": "string", "description": f"Events. {told}."}}
    responses[str(route.status)] = {"description": route.summary, "content": content}
    for status, shape in route.other_responses:
        responses[str(status)] = {
            "description": shape.__doc__,
            "content": {"application/json": {"schema": refs[shape]}},
        }
    for status, kinds in sorted(statuses_of(*route.all_errors).items()):
        told = "; ".join(f"`{kind.code}`: {_title(kind)}" for kind in kinds)
        responses[str(status)] = {
            "description": told,
            "content": {"application/problem+json": {"schema": refs[Problem]}},
        }
    return responses


def _title(kind: type[Exception]) -> str:
    return next(title for known, (_, title) in STATUSES.items() if issubclass(kind, known))
