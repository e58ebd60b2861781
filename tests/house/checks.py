"""Checks of the source tree: each takes sources by module name and returns a sentence per breach.

The checks parse the sources and never import them, so a module that cannot be imported yet is checked too.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

from tests.house.rules import (
    BROAD_HANDLERS,
    CORE_MAY_IMPORT,
    EMPTY_VERBS,
    EMPTY_WORDS,
    FLOORS,
    FOREIGN_ROOMS,
    FUNCTION_LINES_MAX,
    IMPURE_CALLS,
    LONG_FUNCTIONS,
    MANY_PARAMETERS,
    MODULE_LINES_MAX,
    NAMES_ALLOWED,
    PACKAGE,
    PARAMETERS_MAX,
    SYNONYMS,
    TESTING,
)

# "holdfast.core.turn" -> its text. The name of a package stands for its __init__.py.
Sources: TypeAlias = Mapping[str, str]
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


# Every check reads the same trees, and none changes them.
parse = cache(ast.parse)


def read_sources(package: Path) -> dict[str, str]:
    """Return the text of every module below a package's folder."""
    return {_module_name(path, package): path.read_text("utf-8") for path in sorted(package.rglob("*.py"))}


def _module_name(path: Path, package: Path) -> str:
    parts = [package.name, *path.relative_to(package).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# --- floors ------------------------------------------------------------------------------------------------------


def packages_of(sources: Sources) -> set[str]:
    """Return the modules that others are in."""
    return {name.rpartition(".")[0] for name in sources} | {PACKAGE}


@dataclass(frozen=True)
class Import:
    """An import of one module by another. `target` is as exact as the sources allow."""

    module: str
    line: int
    target: str


def imports(sources: Sources) -> Iterator[Import]:
    """Yield every import: at the top, inside a function, for types only."""
    packages = packages_of(sources)
    for module, text in sources.items():
        for node in ast.walk(parse(text)):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield Import(module, node.lineno, alias.name)
            elif isinstance(node, ast.ImportFrom):
                base = imported_from(module, node, is_package=module in packages)
                for alias in node.names:
                    exact = f"{base}.{alias.name}"
                    yield Import(module, node.lineno, exact if exact in sources else base)


def imported_from(module: str, node: ast.ImportFrom, *, is_package: bool) -> str:
    """Return the module or package that a `from` names, dots resolved."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    # One dot is the package a module is in; a package's own __init__ is in itself.
    kept = parts[: len(parts) - node.level + is_package]
    return ".".join([*kept, node.module] if node.module else kept)


def own_name(module: str) -> str | None:
    """Return a module's name inside the package, or None where it is not ours."""
    if module == PACKAGE:
        return ""
    return module.removeprefix(f"{PACKAGE}.") if module.startswith(f"{PACKAGE}.") else None


def is_in(name: str, room: str) -> bool:
    return name == room or (room != "" and name.startswith(f"{room}."))


@dataclass(frozen=True)
class Place:
    """The position of a module: its floor, its room and its package."""

    floor: int
    room: str
    package: str


def place_of(name: str) -> Place | None:
    """Return the position of a module of ours, or None for one that is not in the table."""
    known = [
        Place(floor, room, room.partition(".")[0])
        for floor, rooms in enumerate(FLOORS)
        for room in rooms
        if is_in(name, room)
    ]
    return max(known, key=lambda place: len(place.room), default=None)


def check_floors(sources: Sources) -> list[str]:
    """Imports only go down; peers on a floor do not know each other; every module has its place."""
    breaches = [
        f"{module} has no place in the house: add it to FLOORS in tests/house/rules.py"
        for module in sources
        if not is_in(own_name(module) or "", TESTING) and place_of(own_name(module) or "") is None
    ]
    for found in imports(sources):
        breach = _floor_breach(found)
        if breach:
            breaches.append(f"{found.module}:{found.line} imports {found.target}: {breach}")
    return breaches


def _floor_breach(found: Import) -> str:
    above, below = own_name(found.module), own_name(found.target)
    if above is None or below is None or is_in(above, TESTING):
        return ""
    if is_in(below, TESTING):
        return "only tests may import what is made for tests"
    upper, lower = place_of(above), place_of(below)
    if upper is None or lower is None or upper.room == lower.room or lower.floor < upper.floor:
        return ""
    if lower.floor > upper.floor:
        return "imports only go down"
    # On one floor: the package's own names ("" and cli) are peers too.
    return "" if upper.package == lower.package else "rooms on one floor do not know each other"


def check_cycles(sources: Sources) -> list[str]:
    """Return a sentence per import cycle; imports inside functions count."""
    graph: dict[str, set[str]] = {module: set() for module in sources}
    for found in imports(sources):
        if found.target in graph and found.target != found.module:
            graph[found.module].add(found.target)
    breaches = []
    settled: set[str] = set()
    for start in sorted(graph):
        path = _way_back(graph, start, settled)
        if path:
            breaches.append("imports go in a circle: " + " -> ".join(path))
        settled.add(start)
    return breaches


def _way_back(graph: Mapping[str, set[str]], start: str, settled: set[str]) -> list[str]:
    """Return a path from a module to itself that avoids all modules searched before, so each cycle is reported once."""
    came_from = {start: ""}
    waiting = [start]
    while waiting:
        here = waiting.pop()
        for there in sorted(graph[here] - settled):
            if there == start:
                path = [start]
                while here:
                    path.append(here)
                    here = came_from[here]
                return path[::-1]
            if there not in came_from:
                came_from[there] = here
                waiting.append(there)
    return []


def check_core_is_pure(sources: Sources) -> list[str]:
    """`core` and `types` import what computes and call nothing that reads the world."""
    core = {
        module: text
        for module, text in sources.items()
        if (own_name(module) or "").partition(".")[0] in {"core", "types"}
    }
    breaches = []
    for found in imports(sources):
        if found.module not in core or found.target in CORE_MAY_IMPORT:
            continue
        own = own_name(found.target)
        if own is None or not (is_in(own, "core") or is_in(own, "types") or own == "errors"):
            breaches.append(f"{found.module}:{found.line} imports {found.target}: core may not")
    for module, text in core.items():
        for node in ast.walk(parse(text)):
            if isinstance(node, ast.Call):
                called = ".".join(ast.unparse(node.func).split(".")[-2:])
                if called in IMPURE_CALLS:
                    breaches.append(f"{module}:{node.lineno} calls {called}: core may not")
    return breaches


_QUOTED_IMPORT = re.compile(r"^ *(?:from|import) (holdfast(?:\.\w+)*)", re.MULTILINE)


def check_quoted_imports(sources: Sources, texts: Sources) -> list[str]:
    """Return a sentence per module that a program inside a string imports and that does not exist."""
    return [
        f"{module}:{node.lineno} has a program that imports {found[1]}, which does not exist"
        for module, text in texts.items()
        for node in ast.walk(parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for found in _QUOTED_IMPORT.finditer(node.value)
        if found[1] not in sources
    ]


# --- sizes -------------------------------------------------------------------------------------------------------


def functions(sources: Sources) -> Iterator[tuple[str, str, Function]]:
    """Yield module, qualified name and node of every function."""

    def below(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, FUNCTION):
                yield prefix + child.name, child
            if isinstance(child, (*FUNCTION, ast.ClassDef)):
                yield from below(child, f"{prefix}{child.name}.")
            else:
                yield from below(child, prefix)

    for module, text in sources.items():
        for name, node in below(parse(text), ""):
            yield module, name, node


def check_sizes(sources: Sources) -> list[str]:
    """Return a sentence per module, function or parameter list above its limit."""
    breaches = [
        f"{module} has {lines} lines, at most {MODULE_LINES_MAX} are allowed: split it by what it answers"
        for module, text in sources.items()
        if (lines := len(text.splitlines())) > MODULE_LINES_MAX
    ]
    for module, name, node in functions(sources):
        own, where = f"{own_name(module)}.{name}", f"{module}:{node.lineno} {name}"
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > FUNCTION_LINES_MAX and own not in LONG_FUNCTIONS:
            breaches.append(f"{where} has {lines} lines, at most {FUNCTION_LINES_MAX} are allowed")
        parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        count = sum(parameter.arg not in {"self", "cls"} for parameter in parameters)
        if count > PARAMETERS_MAX and own not in MANY_PARAMETERS and not _is_command(node):
            breaches.append(f"{where} has {count} parameters, at most {PARAMETERS_MAX} are allowed")
    return breaches


def _is_command(node: Function) -> bool:
    return any(
        ast.unparse(decorator).startswith(("click.option", "click.argument")) for decorator in node.decorator_list
    )


# --- words -------------------------------------------------------------------------------------------------------


def words_of(name: str) -> list[str]:
    """Return the words of a name in lower case: "ToolResult" and "_tool_result" both give tool, result."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)]


def _names(tree: ast.AST) -> Iterator[tuple[int, str, ast.AST]]:
    """Yield the names that a module defines: definitions, parameters, variables, fields."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name, node
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name, node
            case _:
                pass


def _is_allowed(module: str, name: str) -> bool:
    own = own_name(module) or ""
    return any(name == allowed and is_in(own, room) for room, allowed in NAMES_ALLOWED)


def check_words(sources: Sources) -> list[str]:
    """Return a sentence per name that is empty or a synonym of a word of the glossary."""
    breaches = [
        f"{module} is named after nothing: {module.rpartition('.')[2]!r} says not what it is for"
        for module in sources
        if words_of(module)[-1] in EMPTY_WORDS
    ]
    for module, text in sources.items():
        is_foreign = any(is_in(own_name(module) or "", room) for room in FOREIGN_ROOMS)
        for line, name, node in _names(parse(text)):
            why = _empty_word(name, node) or ("" if is_foreign else _synonym(name, node))
            if why and not _is_allowed(module, name):
                breaches.append(f"{module}:{line} {name}: {why}")
    return breaches


def _empty_word(name: str, node: ast.AST) -> str:
    words = words_of(name) or [""]
    if words[-1] in EMPTY_WORDS:
        return f"{words[-1]!r} says nothing; name what it is"
    if len(words) > 1 and isinstance(node, FUNCTION) and (words[0] in EMPTY_VERBS or words[-1] == "inner"):
        return "the name says nothing; name what it does"
    return ""


def _synonym(name: str, node: ast.AST) -> str:
    words = words_of(name)
    if isinstance(node, ast.ClassDef) and words:
        return _instead(words[-1])
    return _instead(words[0]) if isinstance(node, FUNCTION) and len(words) == 1 else ""


def _instead(word: str) -> str:
    return f"the word of the glossary is {SYNONYMS[word]!r}" if word in SYNONYMS else ""


# --- habits ------------------------------------------------------------------------------------------------------


def check_handlers(sources: Sources) -> list[str]:
    """Return a sentence per handler that catches everything and is not an exception with a reason."""
    return [
        f"{module}:{line} {name or 'the module'} catches everything: catch the narrowest class"
        for module, text in sources.items()
        for name, line in _broad_handlers(parse(text), "")
        if f"{own_name(module)}.{name}" not in BROAD_HANDLERS
    ]


def _broad_handlers(node: ast.AST, within: str) -> Iterator[tuple[str, int]]:
    """Yield the function and line of every handler that would swallow any error."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ExceptHandler) and _names_all(child.type) and not _raises_again(child):
            yield within, child.lineno
        if (
            isinstance(child, ast.Call)
            and ast.unparse(child.func).endswith("suppress")
            and any(map(_names_all, child.args))
        ):
            yield within, child.lineno
        if isinstance(child, (*FUNCTION, ast.ClassDef)):
            yield from _broad_handlers(child, f"{within}.{child.name}" if within else child.name)
        else:
            yield from _broad_handlers(child, within)


def _names_all(caught: ast.expr | None) -> bool:
    if isinstance(caught, ast.Tuple):
        return any(map(_names_all, caught.elts))
    return caught is None or ast.unparse(caught) in {"Exception", "BaseException"}


def _raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


# Assembled from parts, so that this file does not break its own rule.
_MARKS = re.compile(r"\b(?:" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")) + r")\b")


def check_marks(sources: Sources) -> list[str]:
    """Return a sentence per mark of unfinished work."""
    return [
        f"{module}:{number} says {found[0]}: do it, or open an issue"
        for module, text in sources.items()
        for number, line in enumerate(text.splitlines(), start=1)
        if (found := _MARKS.search(line))
    ]
