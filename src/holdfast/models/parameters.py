"""Parameters of an encoded request: find them, and leave out or rename those that a model refuses."""

from collections.abc import Collection, Mapping
from types import MappingProxyType

import msgspec

from holdfast.core.limits.parameters import DROPPABLE, EFFORT, wire_name
from holdfast.models.wire import locate, renamed, without

# Names of the reasoning settings in the dialects.
EFFORT_FIELDS = ("reasoning_effort", "reasoning", "thinking", "output_config")
# Fields with parameters of their own, by dialect.
_CONTAINERS: Mapping[str, str] = MappingProxyType({"gemini": "generationConfig", "openai-responses": "text"})

_objects = msgspec.json.Decoder(dict[str, msgspec.Raw])


def parameters_in(dialect: str, body: bytes) -> frozenset[str]:
    """Return the parameters of a body that may be left out; the reasoning settings count as one."""
    fields = _fields(body)
    inner = _fields(bytes(fields[name])) if (name := _CONTAINERS.get(dialect, "")) in fields else {}
    names = DROPPABLE.get(dialect, frozenset()) & (fields.keys() | inner.keys())
    return names | {EFFORT} if any(name in fields for name in EFFORT_FIELDS) else names


def _fields(body: bytes) -> dict[str, msgspec.Raw]:
    try:
        return _objects.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def without_parameters(dialect: str, body: bytes, omitted: Collection[str], also: Collection[str] = ()) -> bytes:
    """Return a body without parameters, or with another name of one; every other byte is unchanged.

    `also` are fields at the top of the body that may be left out, beside the parameters of the dialect.
    """
    present = parameters_in(dialect, body) if omitted else frozenset()
    for name in sorted(frozenset(also).intersection(omitted) - present):
        body = without(body, name)
    refused = present & frozenset(omitted)
    for name in sorted(refused - {EFFORT}):
        body = _changed(dialect, body, name, wire_name(name, present, omitted))
    for name in EFFORT_FIELDS if EFFORT in refused else ():
        body = without(body, name)
    return body


def _changed(dialect: str, body: bytes, name: str, other: str) -> bytes:
    """Return a body whose parameter is renamed, or left out if `other` is empty."""
    container = locate(body, _CONTAINERS[dialect]) if dialect in _CONTAINERS else None
    if container is not None:
        span = container.value
        inner = without(body[span.start : span.end], name)
        body = body[: span.start] + inner + body[span.end :]
    return renamed(body, name, other) if other else without(body, name)
