"""Limits of modules, functions and parameter lists."""

from tests.house.checks import check_sizes, functions, read_sources
from tests.house.places import PACKAGE
from tests.house.rules import BROAD_HANDLERS, LONG_FUNCTIONS, MANY_PARAMETERS

SOURCES = read_sources(PACKAGE)


def test_nothing_is_larger_than_one_can_take_in() -> None:
    assert check_sizes(SOURCES) == []


def test_every_exception_on_a_list_still_exists() -> None:
    known = {f"{module.removeprefix('holdfast.')}.{name}" for module, name, _ in functions(SOURCES)}
    assert {*LONG_FUNCTIONS, *MANY_PARAMETERS, *BROAD_HANDLERS} - known == set()


def test_a_module_too_long_is_told() -> None:
    sources = {"holdfast.core.x": "\n" * 451, "holdfast.core.y": "\n" * 450}
    assert check_sizes(sources) == [
        "holdfast.core.x has 451 lines, at most 450 are allowed: split it by what it answers"
    ]


def test_a_function_too_long_is_told_also_inside_a_class_or_a_condition() -> None:
    body = "".join("        pass\n" for _ in range(60))
    text = f"class A:\n    def long(self):\n{body}\nif True:\n    async def late():\n{body}\ndef short():\n{body[13:]}"
    assert check_sizes({"holdfast.core.x": text}) == [
        "holdfast.core.x:2 A.long has 61 lines, at most 60 are allowed",
        "holdfast.core.x:65 late has 61 lines, at most 60 are allowed",
    ]


def test_parameters_are_counted_of_every_kind_but_self() -> None:
    text = "class A:\n    def f(self, a, b, /, c, *, d, e, f): ...\n    def g(self, a, b, /, c, *, d, e, f, g): ..."
    assert check_sizes({"holdfast.core.x": text}) == ["holdfast.core.x:3 A.g has 7 parameters, at most 6 are allowed"]


def test_a_command_may_have_a_parameter_per_option() -> None:
    text = "@click.option('--a')\ndef command(a, b, c, d, e, f, g): ...\n"
    assert check_sizes({"holdfast.cli.x": text}) == []
