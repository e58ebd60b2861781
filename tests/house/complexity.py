"""Cyclomatic complexity of every function, counted as radon counts it without assertions.

`python -m tests.house.complexity` lists the functions above the limit. Radon itself is not a dependency: its last
release is from 2023, it needs two packages of its own, and `--show-closures` prints a closure without the function
that it is in, so an exception could not name it.
"""

import ast
import sys
from collections.abc import Iterator

from tests.house.checks import FUNCTION, Function, Sources, functions, own_name, read_sources
from tests.house.places import PACKAGE
from tests.house.rules import COMPLEX_FOR_NOW, COMPLEX_FUNCTIONS, COMPLEXITY_MAX


def complexity(function: Function) -> int:
    """Return one plus the number of decisions in a function's body; nested functions count for themselves."""
    return 1 + sum(_decisions(node) for statement in function.body for node in _nodes(statement))


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    # An assertion states an invariant and decides nothing.
    if isinstance(node, (*FUNCTION, ast.ClassDef, ast.Assert)):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _nodes(child)


def _decisions(node: ast.AST) -> int:
    match node:
        case ast.If() | ast.IfExp():
            return 1
        case ast.For() | ast.AsyncFor() | ast.While():
            return 1 + bool(node.orelse)
        case ast.Try() | ast.TryStar():
            return len(node.handlers) + bool(node.orelse)
        case ast.BoolOp():
            return len(node.values) - 1
        case ast.comprehension():
            return 1 + len(node.ifs)
        case ast.Match():
            return sum(not _is_default(case) for case in node.cases)
        case _:
            return 0


def _is_default(case: ast.match_case) -> bool:
    return case.guard is None and isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None


def complexities(sources: Sources) -> dict[str, int]:
    """Return the complexity of every function by "module.function", without the package's name."""
    return {f"{own_name(module)}.{name}": complexity(node) for module, name, node in functions(sources)}


def check_complexity(sources: Sources) -> list[str]:
    """Return a sentence per function above the limit, and per exception that is not needed any more."""
    excepted = {*COMPLEX_FUNCTIONS, *COMPLEX_FOR_NOW}
    counted = complexities(sources)
    return [
        *(
            f"{name} has complexity {count}, at most {COMPLEXITY_MAX} is allowed: split it into named steps"
            for name, count in counted.items()
            if count > COMPLEXITY_MAX and name not in excepted
        ),
        *(
            f"{name} is an exception in tests/house/rules.py but not above {COMPLEXITY_MAX}: remove its line"
            for name in sorted(excepted)
            if counted.get(name, 0) <= COMPLEXITY_MAX
        ),
    ]


if __name__ == "__main__":
    for name, count in sorted(complexities(read_sources(PACKAGE)).items()):
        if count > COMPLEXITY_MAX:
            sys.stdout.write(f"{count:4} {name}\n")
