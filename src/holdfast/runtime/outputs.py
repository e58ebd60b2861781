"""Typed outputs: the JSON Schema of a type for the model, and the value of an answer.

The schema is in the log, so that a process without the type can still check an answer. A process that has the type
checks with it, because a type may demand more than its schema says.

A schema may come from a stranger, over HTTP. Checking an answer by it takes a bounded number of steps, fetches nothing
and runs no regular expression: one can take hours.
"""

import json
import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from holdfast.core.text.truncation import excerpt
from holdfast.errors import BadInputError, UsageError
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
# Keywords that are evaluated while an answer is checked: some 10,000 values of a plain schema, below half a second.
_STEPS_MAX = 100_000
# Items that are compared with each other.
_UNIQUE_ITEMS_MAX = 1_000


class OutputType(Generic[T]):
    """A type of outputs, with its schema and its decoder."""

    def __init__(self, spec: OutputSpec, decode: Callable[[str], T]) -> None:
        self.spec = spec
        self._decode = decode

    def read(self, text: str) -> T:
        """Return the value of an answer. Raises `ValueError` with the reason."""
        return self._decode(bare_json(text))


def output_type(wanted: type[T] | Mapping[str, Any], *, bytes_max: int) -> OutputType[T]:
    """Return a type of outputs: a struct, dataclass, TypedDict, pydantic model, or any other type with a JSON form.

    A mapping is the JSON Schema itself. Raises `UsageError` for a type without a JSON form, and `BadInputError` for a
    bad schema.
    """
    if isinstance(wanted, Mapping):
        return _schema_type(wanted, bytes_max)
    schema, decode = _pydantic(wanted) if _is_pydantic(wanted) else _msgspec(wanted)
    text = json.dumps(schema, ensure_ascii=False)
    if len(text.encode()) > bytes_max:
        raise UsageError(f"the schema of {wanted} has {len(text):,} bytes, the maximum is {bytes_max:,}; ask for less")
    return OutputType(OutputSpec(_name(getattr(wanted, "__name__", "")), text), decode)


def _name(title: str) -> str:
    return _NAME.sub("_", title).strip("_")[:64] or "output"


def _schema_type(schema: Mapping[str, Any], bytes_max: int) -> OutputType[Any]:
    """Return a type of outputs that is given by its JSON Schema. Raises `BadInputError`."""
    try:
        text = json.dumps(schema, ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInputError(f"output: the schema is not JSON ({error}); send a JSON Schema") from error
    if size > bytes_max:
        raise BadInputError(f"output: the schema has {size:,} bytes, the maximum is {bytes_max:,}; ask for less")
    read: dict[str, Any] = json.loads(text)
    if problem := _problem_of_schema(read):
        raise BadInputError(f"output: {problem}")

    def decode(answer: str) -> object:
        value: object = json.loads(answer, parse_constant=_refuse_constant)
        if problem := schema_problem(read, value):
            raise ValueError(problem)
        return value

    title = read.get("title", "")
    return OutputType(OutputSpec(_name(title if isinstance(title, str) else ""), text), decode)


def _problem_of_schema(schema: dict[str, Any]) -> str:
    """Return what is wrong with a JSON Schema; "" if answers can be checked by it."""
    from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415 - takes 60 ms, and few programs need it
    from referencing import Registry  # noqa: PLC0415 - as above
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - as above
    from referencing.jsonschema import DRAFT202012  # noqa: PLC0415 - as above

    if schema.get("type") != "object":
        return 'the schema must be of type "object"; put other values into a field of one'
    reference = ""
    try:
        Draft202012Validator.check_schema(schema)
        resolver = Registry().with_resource("", DRAFT202012.create_resource(schema)).resolver()
        for name, value in _keywords(schema):
            if name == "patternProperties":
                return "the schema has patternProperties, which is not supported; use properties"
            reference = str(value)
            if not reference.startswith("#"):
                return f"the schema refers to {reference[:80]!r}; put that into $defs and refer to it by #/$defs/NAME"
            resolver.lookup(reference)
    except SchemaError as error:
        return f"the schema is not a valid JSON Schema at {error.json_path[:200]}: {error.message[:200]}"
    except Unresolvable:
        return f"the schema refers to {reference[:80]!r}, which it does not have"
    except RecursionError:
        return "the schema is nested too deep"
    return ""


def _keywords(node: object) -> Iterator[tuple[str, object]]:
    """Yield the references in a schema, and keywords that are not supported."""
    if isinstance(node, dict):
        yield from ((name, value) for name, value in node.items() if name in _CHECKED_KEYWORDS)
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _keywords(child)


_CHECKED_KEYWORDS = frozenset({"$ref", "$dynamicRef", "patternProperties"})


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


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
            value = json.loads(bare_json(text), parse_constant=_refuse_constant)
            return schema_problem(json.loads(spec.schema), value)
        except (ValueError, RecursionError) as error:
            return str(error) or type(error).__name__


def schema_problem(schema: Mapping[str, Any], value: object) -> str:
    """Return how a value differs from a JSON Schema; "" if it does not. Raises `ValueError` if that takes too long."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - takes 60 ms, and few programs need it
    from jsonschema.validators import extend  # noqa: PLC0415 - as above
    from referencing import Registry  # noqa: PLC0415 - as above
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - as above

    steps = _Steps()
    checks: dict[str, _Check] = {name: steps.counted(check) for name, check in Draft202012Validator.VALIDATORS.items()}
    checks["pattern"] = _unchecked
    checks["uniqueItems"] = _unless_many(checks["uniqueItems"])
    # An empty registry: a schema must not make this process fetch anything.
    checked = extend(Draft202012Validator, checks)  # type: ignore[no-untyped-call]  # jsonschema has no type for it
    validator = checked(schema, registry=Registry())
    try:
        found = list(islice(validator.iter_errors(value), _PROBLEMS_MAX))
    except Unresolvable as error:
        raise ValueError(f"the schema refers to something that it does not have: {error}") from error
    return "\n".join(f"{error.json_path}: {error.message}" for error in found)


_Check: TypeAlias = Callable[[object, object, object, object], Iterable[Any] | None]


class _Steps:
    """Count of the keywords that were evaluated for one answer."""

    def __init__(self) -> None:
        self._count = 0

    def counted(self, check: _Check) -> _Check:
        """Return a check of a keyword that counts. It raises `ValueError` when there were too many."""

        def run(validator: object, value: object, instance: object, schema: object) -> Iterable[Any] | None:
            self._count += 1
            if self._count > _STEPS_MAX:
                raise ValueError(f"it takes more than {_STEPS_MAX:,} steps to check by its schema; answer with less")
            return check(validator, value, instance, schema)

        return run


def _unchecked(*_: object) -> None:
    """Accept everything."""


def _unless_many(check: _Check) -> _Check:
    """Return a check of a list that accepts long ones: each item is compared with each other."""

    def run(validator: object, value: object, instance: object, schema: object) -> Iterable[Any] | None:
        is_many = isinstance(instance, list) and len(instance) > _UNIQUE_ITEMS_MAX
        return None if is_many else check(validator, value, instance, schema)

    return run


def repair_text(spec: OutputSpec, problem: str) -> str:
    """Return the message to a model whose answer is not of the requested type."""
    bounded = excerpt(problem, _PROBLEM_BYTES_MAX, "the message was longer")
    schema = excerpt(spec.schema, _SCHEMA_BYTES_MAX, "the schema is longer; it is part of the request")
    return (
        f"Your answer is not a valid {spec.name}:\n{bounded}\n\n"
        f"Answer again with one JSON object of this schema, and nothing else:\n{schema}"
    )
