"""Find fields with a default that no production code sets, so that only tests reach the code behind them.

A field of a struct, dataclass or named tuple counts as set if a constructor call passes it, if a `replace` call or an
assignment names it, or if its default is made anew for every instance. A class that is passed to a call, as in
`Decoder(Settings)`, is decoded from input together with every class that its fields name; input sets their fields.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from tests.house.checks import Sources, imported_from, is_in, own_name, packages_of, parse
from tests.house.rules import MEASURING_ROOMS, UNSET_FIELDS, UNSET_FOR_NOW

# The module and the name of a class or of a type alias.
Ref: TypeAlias = tuple[str, str]

# Calls that take a class and build nothing from it.
_BUILDS_NOTHING = frozenset({"isinstance", "issubclass", "cast", "TypeVar", "suppress", "field"})
_STRUCTS = frozenset({"Struct", "NamedTuple"})


@dataclass(frozen=True)
class Field:
    """A field of a class; `has_default` is false where every instance gets a default of its own."""

    name: str
    annotation: ast.expr
    has_default: bool


class Names:
    """Classes and type aliases of all modules, and the names by which other modules know them."""

    def __init__(self, sources: Sources) -> None:
        self.trees = {module: parse(text) for module, text in sources.items()}
        self.classes: dict[Ref, ast.ClassDef] = {}
        self.aliases: dict[Ref, ast.expr] = {}
        self._imported: dict[Ref, Ref] = {}
        packages = packages_of(sources)
        for module, tree in self.trees.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    self.classes[module, node.name] = node
                elif isinstance(node, ast.ImportFrom):
                    base = imported_from(module, node, is_package=module in packages)
                    for name in node.names:
                        self._imported[module, name.asname or name.name] = (base, name.name)
            self.aliases.update({(module, name): value for name, value in _assignments(tree)})

    def resolve(self, module: str, expression: ast.expr) -> Ref | None:
        """Return what an expression such as `Sent` or `faults.Sent` names, as seen in a module."""
        match expression:
            case ast.Name(id=name):
                return self._follow((module, name))
            case ast.Attribute(value=ast.Name(id=above), attr=name):
                base = self._imported.get((module, above))
                return self._follow((".".join(base), name)) if base else None
            case ast.Subscript(value=value):
                return self.resolve(module, value)
            case _:
                return None

    def _follow(self, ref: Ref | None) -> Ref | None:
        while ref is not None and ref not in self.classes and ref not in self.aliases:
            ref = self._imported.get(ref)
        return ref

    def bases(self, ref: Ref) -> Iterator[Ref]:
        """Yield the classes of ours that a class is derived from."""
        for base in self.classes[ref].bases:
            found = self.resolve(ref[0], base)
            if found in self.classes:
                yield found

    def is_struct(self, ref: Ref) -> bool:
        """Return whether a class has fields that its constructor takes."""
        node = self.classes[ref]
        return (
            any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
            or any(ast.unparse(base).rpartition(".")[2] in _STRUCTS for base in node.bases)
            or any(map(self.is_struct, self.bases(ref)))
        )

    def fields(self, ref: Ref) -> list[Field]:
        """Return the fields of a class in the order of its constructor."""
        inherited = [field for base in self.bases(ref) for field in self.fields(base)]
        return [*inherited, *_own_fields(self.classes[ref])]

    def types_in(self, module: str, expression: ast.expr) -> Iterator[Ref]:
        """Yield the classes and aliases of ours that a type expression names; a call is not part of one."""
        match expression:
            case ast.Name() | ast.Attribute():
                found = self.resolve(module, expression)
                if found is not None:
                    yield found
            case ast.Subscript(value=left, slice=right) | ast.BinOp(left=left, right=right):
                yield from self.types_in(module, left)
                yield from self.types_in(module, right)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    yield from self.types_in(module, part)
            case ast.Constant(value=str(text)) if text.isidentifier():
                yield from self.types_in(module, ast.Name(text, ast.Load()))
            case _:
                pass


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value
            case _:
                pass


def _own_fields(node: ast.ClassDef) -> Iterator[Field]:
    for statement in node.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                if "ClassVar" not in ast.unparse(annotation):
                    yield Field(name, annotation, has_default=value is not None and not _is_made_anew(value))
            case _:
                pass


def _is_made_anew(default: ast.expr) -> bool:
    match default:
        case ast.Call(keywords=keywords):
            return any(keyword.arg == "default_factory" for keyword in keywords)
        case ast.List() | ast.Dict():
            return True
        case _:
            return False


class Uses:
    """Uses of classes in the code: arguments of constructors, names set later, classes passed to calls."""

    def __init__(self, names: Names, modules: Sources) -> None:
        self._names = names
        self.given: defaultdict[Ref, set[str | None]] = defaultdict(set)
        self.positions: defaultdict[Ref, int] = defaultdict(int)
        self.set_later: set[str] = set()
        self.passed: set[Ref] = set()
        for module in modules:
            self._read(module, names.trees[module], None)

    def _read(self, module: str, node: ast.AST, within: Ref | None) -> None:
        for child in ast.iter_child_nodes(node):
            inside = (module, child.name) if isinstance(child, ast.ClassDef) else within
            if isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Store):
                self.set_later.add(child.attr)
            if isinstance(child, ast.Call):
                self._read_call(module, child, inside)
            self._read(module, child, inside)

    def _read_call(self, module: str, call: ast.Call, within: Ref | None) -> None:
        called = ast.unparse(call.func).rpartition(".")[2]
        keywords = {keyword.arg for keyword in call.keywords}
        if called == "replace":
            self.set_later.update(filter(None, keywords))
        built = within if called == "cls" else self._names.resolve(module, call.func)
        if built in self._names.classes:
            has_star = any(isinstance(argument, ast.Starred) for argument in call.args)
            self.given[built] |= keywords
            self.positions[built] = max(self.positions[built], 1000 if has_star else len(call.args))
        if called not in _BUILDS_NOTHING:
            for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
                self.passed.update(self._names.types_in(module, argument))

    def sets(self, ref: Ref, position: int, name: str) -> bool:
        """Return whether something sets a field; `**` may set every one."""
        return position < self.positions[ref] or not {name, None}.isdisjoint(self.given[ref]) or name in self.set_later


def _decoded(names: Names, passed: set[Ref]) -> set[Ref]:
    """Return the classes passed to a call, and those that their fields and aliases name."""
    decoded: set[Ref] = set()
    waiting = list(passed)
    while waiting:
        ref = waiting.pop()
        if ref in decoded:
            continue
        decoded.add(ref)
        types = [names.aliases[ref]] if ref in names.aliases else [field.annotation for field in names.fields(ref)]
        for found in types:
            waiting.extend(names.types_in(ref[0], found))
    return decoded


def unset_fields(sources: Sources) -> list[str]:
    """Return "module.Class.field" for every field with a default that no code sets."""
    names = Names(sources)
    production = {module: text for module, text in sources.items() if not _is_measuring(module)}
    by_production, by_all = Uses(names, production), Uses(names, sources)
    # Decoders of the measuring rooms read what these rooms wrote themselves.
    decoded = _decoded(names, by_production.passed), _decoded(names, by_all.passed)
    unset = []
    for ref in names.classes:
        module, name = ref
        is_measuring = _is_measuring(module)
        uses = by_all if is_measuring else by_production
        if ref in decoded[is_measuring] or not names.is_struct(ref):
            continue
        inherited = sum(len(names.fields(base)) for base in names.bases(ref))
        unset += [
            f"{own_name(module)}.{name}.{field.name}"
            for position, field in enumerate(names.fields(ref))
            if position >= inherited and field.has_default and not uses.sets(ref, position, field.name)
        ]
    return unset


def _is_measuring(module: str) -> bool:
    return any(is_in(own_name(module) or "", room) for room in MEASURING_ROOMS)


def check_unset_fields(sources: Sources) -> list[str]:
    """Return a sentence per field that nothing sets, and per exception that is not needed any more."""
    unset = unset_fields(sources)
    excepted = {*UNSET_FIELDS, *UNSET_FOR_NOW}
    return [
        *(
            f"{field} has a default and no code sets it: set it where the value is built, or remove the field"
            for field in unset
            if field not in excepted
        ),
        *(
            f"{field} is an exception in tests/house/rules.py but is set or gone: remove its line"
            for field in sorted(excepted - set(unset))
        ),
    ]
