"""The public API as text: every exported name with its fields, methods and signatures.

`python -m tests.public.api` writes it to `api.txt` beside this file. A change of it is a decision: review the
difference, because users' programs depend on it.
"""

import dataclasses
import enum
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

import holdfast
from holdfast import blocking

FILE = Path(__file__).with_name("api.txt")
# Modules of names in annotations: the names alone are the same for readers.
_MODULES = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_])")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def lines() -> Iterator[str]:
    """Yield the lines of the listing."""
    for module in (holdfast, blocking):
        for name in sorted(module.__all__):
            yield from _about(f"{module.__name__}.{name}", getattr(module, name))


def _about(name: str, found: Any) -> Iterator[str]:
    if not inspect.isclass(found):
        shown = f"{name}{_signature(found)}" if callable(found) else f"{name} = {_short(str(found))}"
        yield shown
        return
    bases = [base.__name__ for base in found.__mro__[1:] if base.__name__ in holdfast.__all__]
    yield f"class {name}({', '.join(bases)})" if bases else f"class {name}"
    for field in fields_of(found):
        yield f"  {name}.{field}"
    for attribute, member in sorted(members_of(found).items()):
        yield f"  {name}.{attribute}{_signature(member) if callable(member) else ''}"


def fields_of(found: type) -> list[str]:
    """Return the fields of a struct, a dataclass or an enumeration, with their types."""
    if issubclass(found, enum.Enum):
        return [f"{one.name} = {one.value!r}" for one in found]
    if issubclass(found, msgspec.Struct):
        hints = inspect.get_annotations(found)
        own = {name: kind for base in reversed(found.__mro__) for name, kind in inspect.get_annotations(base).items()}
        return [f"{name}: {_short(_shown(own.get(name, hints.get(name))))}" for name in found.__struct_fields__]
    if dataclasses.is_dataclass(found):
        return [f"{one.name}: {_short(_shown(one.type))}" for one in dataclasses.fields(found)]
    return []


def members_of(found: type) -> dict[str, Any]:
    """Return the public methods and properties that a class or a base of ours defines."""
    members: dict[str, Any] = {}
    for base in reversed(found.__mro__):
        if not base.__module__.startswith("holdfast"):
            continue
        for name, member in vars(base).items():
            is_field = issubclass(found, msgspec.Struct | enum.Enum) and not callable(member)
            is_member = isinstance(member, property) or not (inspect.ismemberdescriptor(member) or is_field)
            if is_member and not name.startswith("_"):
                members[name] = member
    return members


def _shown(kind: Any) -> str:
    return kind if isinstance(kind, str) else kind.__name__ if inspect.isclass(kind) else str(kind)


def _signature(member: Any) -> str:
    try:
        return _short(str(inspect.signature(inspect.unwrap(member))))
    except (TypeError, ValueError):
        return "(…)"


def _short(text: str) -> str:
    return _ADDRESS.sub("", _MODULES.sub("", text))


if __name__ == "__main__":
    FILE.write_text("".join(f"{line}\n" for line in lines()), "utf-8")
