"""No function has more decisions than can be tested path by path."""

import ast

import pytest

from tests.house.checks import functions, read_sources
from tests.house.complexity import check_complexity, complexity
from tests.house.places import PACKAGE
from tests.house.rules import COMPLEX_FOR_NOW, COMPLEX_FUNCTIONS


def test_no_function_is_more_complex_than_allowed() -> None:
    assert check_complexity(read_sources(PACKAGE)) == []


def test_every_exception_has_a_reason_of_its_own() -> None:
    assert [name for name, reason in COMPLEX_FUNCTIONS.items() if not reason] == []
    assert set(COMPLEX_FUNCTIONS) & set(COMPLEX_FOR_NOW) == set()


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("pass", 1),
        ("if a:\n  1\nelif b:\n  2\nelse:\n  3", 3),
        ("x = 1 if a else 2", 2),
        ("x = a and b and c or d", 4),
        ("for x in y:\n  1", 2),
        ("for x in y:\n  1\nelse:\n  2", 3),
        ("while a and b:\n  1", 3),
        ("async for x in y:\n  1", 2),
        ("try:\n  1\nexcept A:\n  2\nexcept B:\n  3\nelse:\n  4\nfinally:\n  5", 4),
        ("try:\n  1\nexcept* A:\n  2", 2),
        ("with a:\n  1", 1),
        ("[x for x in y if a if b for z in x]", 5),
        ("{x: y for x in z}", 2),
        ("match a:\n  case 1:\n    1\n  case 2 | 3:\n    2\n  case _:\n    3", 3),
        ("match a:\n  case 1 if b:\n    1\n  case x:\n    2", 2),
        ("match a:\n  case _ if b:\n    1\n  case _:\n    2", 2),
        ("assert a and b, c if d else e", 1),
        ("f(lambda x: x or y)", 2),
        ("def inner():\n  if a:\n    1", 1),
        ("class Inner:\n  def f(self):\n    if a:\n      1", 1),
    ],
)
def test_decisions_are_counted_as_radon_counts_them(body: str, count: int) -> None:
    function = ast.parse("async def f():\n" + "".join(f"  {line}\n" for line in body.splitlines())).body[0]
    assert isinstance(function, ast.AsyncFunctionDef)
    assert complexity(function) == count


def test_a_nested_function_is_counted_under_its_qualified_name(monkeypatch: pytest.MonkeyPatch) -> None:
    branches = "".join(f"            if a == {number}: pass\n" for number in range(12))
    sources = {"holdfast.core.x": f"class A:\n    def f(self):\n        def inner():\n{branches}"}
    for table in ("COMPLEX_FUNCTIONS", "COMPLEX_FOR_NOW"):
        monkeypatch.setattr(f"tests.house.complexity.{table}", {})
    assert [name for _, name, _ in functions(sources)] == ["A.f", "A.f.inner"]
    assert check_complexity(sources) == [
        "core.x.A.f.inner has complexity 13, at most 12 is allowed: split it into named steps"
    ]


@pytest.mark.parametrize("text", ["", "def f(): ..."])
def test_an_exception_that_is_not_needed_is_an_error(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("tests.house.complexity.COMPLEX_FUNCTIONS", {"core.x.f": "a reason"})
    monkeypatch.setattr("tests.house.complexity.COMPLEX_FOR_NOW", ())
    assert check_complexity({"holdfast.core.x": text}) == [
        "core.x.f is an exception in tests/house/rules.py but not above 12: remove its line"
    ]
