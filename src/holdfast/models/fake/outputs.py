"""Structured outputs of the simulated model: find the requested schema, and write a value of it.

A field takes the value that the conversation has for its name ("depth = 12"), else the least value of its type.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

# Nested schemas may refer to themselves.
_DEPTH_MAX = 6


def requested_schema(body: bytes) -> str:
    """Return the schema of the requested output of a request in any dialect; "" if there is none."""
    try:
        wire = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    paths = (
        ("response_format", "json_schema", "schema"),
        ("text", "format", "schema"),
        ("generationConfig", "responseJsonSchema"),
    )
    for path in paths:
        node = wire
        for step in path:
            node = node.get(step) if isinstance(node, dict) else None
        if isinstance(node, dict):
            return json.dumps(node)
    return ""


def write_output(schema: str, value_of: Callable[[str], str | None]) -> str:
    """Return a value of a schema as JSON. `value_of` finds the value of a name in the conversation."""
    whole = json.loads(schema)
    return json.dumps(_Writer(whole.get("$defs", {}), value_of).write(whole, "", 0), ensure_ascii=False)


class _Writer:
    def __init__(self, shared: Mapping[str, Any], value_of: Callable[[str], str | None]) -> None:
        self._shared = shared
        self._value_of = value_of

    def write(self, schema: Mapping[str, Any], name: str, depth: int) -> object:
        """Return a value of a schema, for a field of this name."""
        if "$ref" in schema:
            schema = self._shared.get(schema["$ref"].rpartition("/")[2], {})
        if "const" in schema:
            return schema["const"]
        known = self._value_of(name) if name else None
        for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
            if choice.get("type") != "null" or known is None:
                return self.write(choice, name, depth + 1)
        if "enum" in schema:
            return known if known in schema["enum"] else schema["enum"][0]
        if schema.get("type") == "object" or "properties" in schema:
            return self._object(schema, depth)
        if schema.get("type") == "array":
            return self._array(schema, known, depth)
        return _scalar(schema, known)

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, object]:
        required = set(schema.get("required", ()))
        fields = schema.get("properties", {}).items() if depth < _DEPTH_MAX else ()
        return {
            name: self.write(one, name, depth + 1)
            for name, one in fields
            if name in required or self._value_of(name) is not None
        }

    def _array(self, schema: Mapping[str, Any], known: str | None, depth: int) -> list[object]:
        given = [piece.strip() for piece in known.split("/")] if known else []
        items = schema.get("items", {})
        if given:
            return [_scalar(items, piece) for piece in given]
        return [self.write(items, "", depth + 1) for _ in range(schema.get("minItems", 0))]


def _scalar(schema: Mapping[str, Any], known: str | None) -> object:
    match schema.get("type"):
        case "integer":
            return _number(known, int, int(schema.get("minimum", 0)))
        case "number":
            return _number(known, float, float(schema.get("minimum", 0)))
        case "boolean":
            return known is not None and known.lower() in ("true", "yes")
        case "null":
            return None
        case _:
            return known if known is not None else "x" * int(schema.get("minLength", 0))


def _number(known: str | None, kind: Callable[[str], float], least: float) -> float:
    try:
        return kind((known or "").split()[0]) if known else least
    except ValueError:
        return least
