"""The shape of records on disk: fields, their defaults, and every spelling of a stored choice.

Nothing here names a Python class: tags and field names stand on disk, class names of nested types do not.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.inspect import (
    DictType,
    EnumType,
    StructType,
    Type,
    UnionType,
    VarTupleType,
    type_info,
)

from holdfast.types.records import AnyRecord

# Where no default is declared.
_NONE = msgspec.NODEFAULT


def record_types() -> dict[str, StructType]:
    """Return the type of every record by its tag."""
    union = type_info(AnyRecord)
    assert isinstance(union, UnionType)
    return {str(member.tag): member for member in union.types if isinstance(member, StructType)}


def choices() -> dict[str, dict[str, list[str]]]:
    """Return the stored spellings of every choice in a record, by its place.

    `enums` has the values of each enum, `unions` the tags of each union. A place reads `AttemptFailed.fault.kind`, and
    `CompactionUndone.restored.<GenerationStarted>.kind` within a union.
    """
    enums: dict[str, list[str]] = {}
    unions: dict[str, list[str]] = {}
    for tag, record in record_types().items():
        for place, kind in _places(tag, record):
            if isinstance(kind, EnumType):
                enums[place] = sorted(str(member.value) for member in kind.cls)
            elif isinstance(kind, UnionType) and _tagged(kind):
                unions[place] = sorted(_tagged(kind))
    return {"enums": dict(sorted(enums.items())), "unions": dict(sorted(unions.items()))}


def _tagged(union: UnionType) -> list[str]:
    return [str(member.tag) for member in union.types if isinstance(member, StructType) and member.tag is not None]


def _places(place: str, kind: Type) -> Iterator[tuple[str, Type]]:
    """Yield every type within a type, with its place."""
    yield place, kind
    match kind:
        case StructType(fields=fields):
            for field in fields:
                yield from _places(f"{place}.{field.encode_name}", field.type)
        case UnionType(types=types):
            for member in types:
                tag = member.tag if isinstance(member, StructType) else None
                yield from _places(place if tag is None else f"{place}.<{tag}>", member)
        case VarTupleType(item_type=item_type):
            yield from _places(f"{place}[]", item_type)
        case DictType(value_type=value_type):
            yield from _places(f"{place}{{}}", value_type)
        case _:
            pass


def expanded(value: object) -> object:
    """Return a value as plain data with every field of every struct, those at their defaults included."""
    match value:
        case msgspec.Struct():
            config = value.__struct_config__
            tag = {} if config.tag is None else {str(config.tag_field): config.tag}
            return tag | {name: expanded(getattr(value, name)) for name in value.__struct_fields__}
        case tuple() | list():
            return [expanded(member) for member in value]
        case dict():
            return {key: expanded(member) for key, member in value.items()}
        case _:
            return msgspec.to_builtins(value)


def at_default(value: msgspec.Struct) -> list[str]:
    """Return the fields of a struct that have a default and stand at it."""
    names: list[str] = []
    for field in msgspec.structs.fields(value):
        default: Any = field.default if field.default_factory is _NONE else field.default_factory()
        if default is not _NONE and getattr(value, field.name) == default:
            names.append(field.name)
    return names


def structs_in(value: object) -> Iterator[msgspec.Struct]:
    """Yield every struct in a value, the value itself included."""
    if isinstance(value, msgspec.Struct):
        yield value
        for name in value.__struct_fields__:
            yield from structs_in(getattr(value, name))
    elif isinstance(value, tuple | list):
        for member in value:
            yield from structs_in(member)


def with_spelling(plain: Any, steps: list[str], spelling: str) -> bool:
    """Put a spelling into plain data at every place that the steps lead to; return whether there was one."""
    if isinstance(plain, list):
        # All of them, also behind the first.
        return sum(with_spelling(member, steps, spelling) for member in plain) > 0
    if not isinstance(plain, dict):
        return False
    first, *rest = steps
    if first.startswith("<"):
        return plain.get("type") == first.strip("<>") and with_spelling(plain, rest, spelling)
    name = first.removesuffix("[]")
    if rest:
        return with_spelling(plain.get(name), rest, spelling)
    if not isinstance(plain.get(name), str):
        return False
    plain[name] = spelling
    return True
