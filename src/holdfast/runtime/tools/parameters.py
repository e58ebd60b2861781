"""Parameters of function tools: their types, descriptions and schema, and the pydantic models among them.

A description comes from the annotation (a string, `msgspec.Meta` or pydantic's `Field`), else from the docstring in
Google, NumPy or Sphinx style.
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args, get_origin

import msgspec


def docstring_parameters(function: Callable[..., object]) -> dict[str, str]:
    """Return the descriptions of parameters in a docstring, by name."""
    text = inspect.getdoc(function) or ""
    if "\n" not in text:
        return {}
    from docstring_parser import ParseError, parse  # noqa: PLC0415 - only for docstrings with sections

    try:
        found = parse(text).params
    except ParseError:
        return {}
    return {one.arg_name: " ".join(one.description.split()) for one in found if one.description}


def described(hint: Any, description: str) -> Any:  # noqa: ANN401 - any type hint
    """Return a type with its description: its own, else the given one."""
    own = _own_description(hint)
    if own is None and not description:
        return hint
    if own is not None and _has_meta_description(hint):
        return hint
    return Annotated[hint, msgspec.Meta(description=own if own is not None else description)]


def _own_description(hint: object) -> str | None:
    for extra in get_args(hint)[1:] if get_origin(hint) is Annotated else ():
        if isinstance(extra, str):
            return extra
        if isinstance(extra, msgspec.Meta) and extra.description:
            return extra.description
        if is_field(extra) and extra.description:
            return str(extra.description)
    return None


def _has_meta_description(hint: object) -> bool:
    return any(isinstance(extra, msgspec.Meta) and extra.description for extra in get_args(hint)[1:])


# --- pydantic, if the user has it ---


def is_field(value: object) -> bool:
    """Return whether a value is pydantic's `Field(…)`."""
    fields = sys.modules.get("pydantic.fields")
    return fields is not None and isinstance(value, fields.FieldInfo)


def is_model_class(value: object) -> bool:
    """Return whether a value is a class of pydantic's models."""
    pydantic = sys.modules.get("pydantic.main")
    return pydantic is not None and isinstance(value, type) and issubclass(value, pydantic.BaseModel)


def decode_hook(wanted: type, value: object) -> object:
    """Decode a pydantic model among the arguments."""
    if is_model_class(wanted):
        return wanted.model_validate(value)  # type: ignore[attr-defined]  # a model of pydantic
    raise NotImplementedError(f"{wanted} cannot be decoded")


def encode_hook(value: object) -> object:
    """Encode a pydantic model in a result."""
    if is_model_class(type(value)):
        return value.model_dump(mode="json")  # type: ignore[attr-defined]  # a model of pydantic
    raise NotImplementedError(f"Encoding objects of type {type(value).__name__} is unsupported")


def schema_hook(wanted: type) -> dict[str, Any]:
    """Return the schema of a pydantic model."""
    if is_model_class(wanted):
        found: dict[str, Any] = wanted.model_json_schema()  # type: ignore[attr-defined]  # a model of pydantic
        return found
    raise NotImplementedError(f"{wanted} has no schema")


def parameters_schema(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema in the form that providers accept: an object at the top, referenced types in $defs."""
    (reference,), components = msgspec.json.schema_components(
        [arguments], ref_template="#/$defs/{name}", schema_hook=schema_hook
    )
    schema: dict[str, Any] = components.pop(reference["$ref"].removeprefix("#/$defs/"))
    del schema["title"]
    shared: dict[str, Any] = dict(components)
    for one in (schema, *components.values()):
        _hoist(one, shared)
    return {**schema, "$defs": shared} if shared else schema


def _hoist(node: object, shared: dict[str, Any]) -> None:
    """Move definitions inside a schema to the top, where their references point."""
    if isinstance(node, dict):
        found = node.pop("$defs", None)
        if isinstance(found, Mapping):
            shared.update(found)
        for inner in node.values():
            _hoist(inner, shared)
    elif isinstance(node, list):
        for inner in node:
            _hoist(inner, shared)
