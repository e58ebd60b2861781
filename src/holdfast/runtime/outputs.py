"""Typed outputs: the JSON Schema of a type for the model, and the value of an answer.

The schema is in the log, so that a process without the type can still check an answer. A process that has the type
checks with it, because a type may demand more than its schema says.
"""

import json
import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from holdfast.core.text.truncation import excerpt
from holdfast.errors import UsageError
from holdfast.types.settings import OutputSpec

T = TypeVar("T")

# Types whose own checks are at hand. Older ones are checked by their schema.
_TYPES_MAX = 256
# The description of what is wrong, and the schema, in the message to the model.
_PROBLEM_BYTES_MAX, _SCHEMA_BYTES_MAX = 2_048, 8_192
_PROBLEMS_MAX = 8
_NAME = re.compile(r"[^a-zA-Z0-9_-]+")
_FENCE = re.compile(r"\A\s*```[a-zA-Z]*\n(.*)\n```\s*\Z", re.DOTALL)
# The field of a value that is no object.
_VALUE = "value"


class OutputType(Generic[T]):
    """A type of outputs, with its schema and its decoder."""

    def __init__(self, spec: OutputSpec, decode: Callable[[str], T]) -> None:
        self.spec = spec
        self._decode = decode

    def read(self, text: str) -> T:
        """Return the value of an answer. Raises `ValueError` with the reason."""
        return self._decode(bare_json(text))


def output_type(wanted: type[T], *, bytes_max: int) -> OutputType[T]:
    """Return a type of outputs: a struct, dataclass, TypedDict, pydantic model, or any other type with a JSON form.

    Raises `UsageError` for a type without one.
    """
    schema, decode = _pydantic(wanted) if _is_pydantic(wanted) else _msgspec(wanted)
    text = json.dumps(schema, ensure_ascii=False)
    if len(text.encode()) > bytes_max:
        raise UsageError(f"the schema of {wanted} has {len(text):,} bytes, the maximum is {bytes_max:,}; ask for less")
    name = _NAME.sub("_", getattr(wanted, "__name__", "") or "output").strip("_")[:64]
    return OutputType(OutputSpec(name or "output", text), decode)


def _is_pydantic(wanted: object) -> bool:
    """Return whether pydantic must read a type: msgspec does not know its models."""
    if "pydantic" not in sys.modules:
        return False
    try:
        msgspec.json.schema(wanted)
    except TypeError:
        return True
    return False


def _msgspec(wanted: type[T]) -> tuple[dict[str, Any], Callable[[str], T]]:
    try:
        schema, is_object = object_schema(wanted), True
        if schema is None:
            wrapper = msgspec.defstruct("Output", [(_VALUE, wanted)])
            schema, is_object = object_schema(wrapper) or {}, False
            wrapped: msgspec.json.Decoder[Any] = msgspec.json.Decoder(wrapper)
        plain = msgspec.json.Decoder(wanted)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"output={wanted}: it cannot be described in JSON ({error}); use a dataclass, a TypedDict, a "
            "msgspec.Struct or a pydantic model"
        ) from error

    def decode(text: str) -> T:
        value: T = plain.decode(text) if is_object else getattr(wrapped.decode(text), _VALUE)
        return value

    return schema, decode


def _pydantic(wanted: type[T]) -> tuple[dict[str, Any], Callable[[str], T]]:
    from pydantic import TypeAdapter  # noqa: PLC0415 - only for users that have it
    from pydantic.errors import PydanticUserError  # noqa: PLC0415 - as above

    try:
        adapter: TypeAdapter[T] = TypeAdapter(wanted)
        schema = adapter.json_schema()
    except PydanticUserError as error:
        raise UsageError(f"output={wanted}: it cannot be described in JSON ({error})") from error
    if schema.get("type") == "object":
        return schema, adapter.validate_json
    shared = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
    whole = {"type": "object", "properties": {_VALUE: schema}, "required": [_VALUE], **shared}

    def decode(text: str) -> T:
        read = json.loads(text)
        return adapter.validate_python(read[_VALUE] if isinstance(read, dict) and _VALUE in read else read)

    return whole, decode


def object_schema(wanted: object) -> dict[str, Any] | None:
    """Return the JSON Schema of a type in the form that providers accept; None if it is no object with named fields.

    The object is at the top, and the types that it refers to are in $defs.
    """
    (schema,), components = msgspec.json.schema_components([wanted], ref_template="#/$defs/{name}")
    reference = schema.get("$ref", "")
    if not reference:
        return None
    name = reference.removeprefix("#/$defs/")
    whole = components[name]
    if whole.get("type") != "object":
        return None
    if reference not in json.dumps(components):
        components.pop(name)
    return {**whole, "$defs": components} if components else whole


def bare_json(text: str) -> str:
    """Return an answer without the code fence that some models put around JSON."""
    fenced = _FENCE.match(text)
    return fenced[1] if fenced else text


class OutputChecks:
    """Checks of answers, by the type if this process has it, else by the schema."""

    def __init__(self) -> None:
        self._types: OrderedDict[OutputSpec, OutputType[Any]] = OrderedDict()

    def remember(self, wanted: OutputType[Any]) -> None:
        """Keep a type for the answers that are of it."""
        self._types[wanted.spec] = wanted
        self._types.move_to_end(wanted.spec)
        while len(self._types) > _TYPES_MAX:
            self._types.popitem(last=False)

    def problem(self, spec: OutputSpec, text: str) -> str:
        """Return what is wrong with an answer; "" if it is of the type."""
        known = self._types.get(spec)
        try:
            if known is not None:
                known.read(text)
                return ""
            return _schema_problem(json.loads(spec.schema), json.loads(bare_json(text)))
        except (ValueError, RecursionError) as error:
            return str(error) or type(error).__name__


def _schema_problem(schema: Mapping[str, Any], value: object) -> str:
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - takes 60 ms, and only restarts need it
    from referencing import Registry  # noqa: PLC0415 - as above

    # An empty registry: a schema must not make this process fetch anything.
    found = Draft202012Validator(schema, registry=Registry()).iter_errors(value)
    problems = [f"{error.json_path}: {error.message}" for error, _ in zip(found, range(_PROBLEMS_MAX), strict=False)]
    return "\n".join(problems)


def repair_text(spec: OutputSpec, problem: str) -> str:
    """Return the message to a model whose answer is not of the requested type."""
    bounded = excerpt(problem, _PROBLEM_BYTES_MAX, "the message was longer")
    schema = excerpt(spec.schema, _SCHEMA_BYTES_MAX, "the schema is longer; it is part of the request")
    return (
        f"Your answer is not a valid {spec.name}:\n{bounded}\n\n"
        f"Answer again with one JSON object of this schema, and nothing else:\n{schema}"
    )
