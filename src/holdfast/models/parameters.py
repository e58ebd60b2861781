"""Parameters of an encoded request: find them, and leave out or rename those that a model refuses."""

from collections.abc import Collection, Mapping
from types import MappingProxyType

import msgspec

from holdfast.core.limits.parameters import DROPPABLE, EFFORT, wire_name
from holdfast.models.wire import Span, locate, renamed, without

# Names of the reasoning settings in the dialects.
EFFORT_FIELDS = ("reasoning_effort", "reasoning", "thinking", "output_config")
# The reasoning settings of Gemini, which are in its container.
_INNER_EFFORT = "thinkingConfig"
# Names of the output limit in the dialects.
_OUTPUT_FIELDS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_INNER_OUTPUT = "maxOutputTokens"
# Fields with parameters of their own, by dialect.
_CONTAINERS: Mapping[str, str] = MappingProxyType({"gemini": "generationConfig", "openai-responses": "text"})

_objects = msgspec.json.Decoder(dict[str, msgspec.Raw])


def parameters_in(dialect: str, body: bytes) -> frozenset[str]:
    """Return the parameters of a body that may be left out; the reasoning settings count as one."""
    fields = _fields(body)
    inner = _fields(bytes(fields[name])) if (name := _CONTAINERS.get(dialect, "")) in fields else {}
    names = DROPPABLE.get(dialect, frozenset()) & (fields.keys() | inner.keys())
    has_effort = any(name in fields for name in EFFORT_FIELDS) or _INNER_EFFORT in inner
    return names | {EFFORT} if has_effort else names


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
    return without_effort(dialect, body) if EFFORT in refused else body


def has_effort(dialect: str, body: bytes) -> bool:
    """Return whether a body has a reasoning setting."""
    return EFFORT in parameters_in(dialect, body)


def without_effort(dialect: str, body: bytes) -> bytes:
    """Return a body without its reasoning settings."""
    for name in EFFORT_FIELDS:
        body = without(body, name)
    return _changed(dialect, body, _INNER_EFFORT, "") if dialect in _CONTAINERS else body


def with_output_limit(dialect: str, body: bytes, tokens: int) -> bytes:
    """Return a body with another output limit, if it has one; everything else stays byte for byte."""
    body = with_fields(body, dict.fromkeys(_OUTPUT_FIELDS, tokens))
    container = locate(body, _CONTAINERS[dialect]) if dialect in _CONTAINERS else None
    if container is None:
        return body
    span = container.value
    return body[: span.start] + with_fields(body[span.start : span.end], {_INNER_OUTPUT: tokens}) + body[span.end :]


def with_fields(body: bytes, fields: Mapping[str, str | int]) -> bytes:
    """Return a body with other values in fields that it has; everything else stays byte for byte."""
    cuts: list[tuple[Span, bytes]] = []
    for name, value in fields.items():
        found = locate(body, name)
        if found is not None:
            cuts.append((found.value, msgspec.json.encode(value)))
    for span, encoded in sorted(cuts, key=lambda cut: cut[0].start, reverse=True):
        body = body[: span.start] + encoded + body[span.end :]
    return body


def _changed(dialect: str, body: bytes, name: str, other: str) -> bytes:
    """Return a body whose parameter is renamed, or left out if `other` is empty."""
    container = locate(body, _CONTAINERS[dialect]) if dialect in _CONTAINERS else None
    if container is not None:
        span = container.value
        inner = without(body[span.start : span.end], name)
        body = body[: span.start] + inner + body[span.end :]
    return renamed(body, name, other) if other else without(body, name)
