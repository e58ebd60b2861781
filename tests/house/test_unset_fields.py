"""A field with a default is set by some code, else what reads it never acts outside of tests."""

import pytest

from tests.house.checks import read_sources
from tests.house.places import PACKAGE
from tests.house.rules import UNSET_FIELDS, UNSET_FOR_NOW
from tests.house.unset_fields import check_unset_fields, unset_fields


def test_no_field_is_set_by_tests_alone() -> None:
    assert check_unset_fields(read_sources(PACKAGE)) == []


def test_every_exception_for_a_field_has_a_reason_of_its_own() -> None:
    assert [field for field, reason in UNSET_FIELDS.items() if not reason] == []
    assert set(UNSET_FIELDS) & set(UNSET_FOR_NOW) == set()


STRUCT = "import msgspec\nclass A(msgspec.Struct):\n    x: int\n    y: int = 0\n    z: int = 0\n"


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        # Nothing sets them, or something that only looks like it.
        ("A(1)", ["y", "z"]),
        ("A(1, z=2)", ["y"]),
        ("A(1, 2)", ["z"]),
        ("B(1, y=2, z=3)", ["y", "z"]),
        ("class B:\n    def f(cls):\n        cls(y=1)", ["y", "z"]),
        ("isinstance(1, A)", ["y", "z"]),
        ("a = A(1)\nf(a)", ["y", "z"]),
        ("from dataclasses import field\nclass B(msgspec.Struct):\n    a: A = field(default_factory=A)", ["y", "z"]),
        # They are set.
        ("A(1, 2, 3)", []),
        ("A(*a)", []),
        ("A(**a)", []),
        ("msgspec.structs.replace(a, y=1, z=2)", []),
        ("a.y = a.z = 2", []),
        # Input sets them.
        ("msgspec.json.Decoder(A)", []),
        ("msgspec.json.decode(a, type=list[A])", []),
        ("B = A | None\nconvert(a, B)", []),
        ("class B(msgspec.Struct):\n    a: dict[str, A]\nDecoder(B)", []),
        ('class B(msgspec.Struct):\n    a: "A"\nDecoder(B)', []),
    ],
)
def test_the_check_of_fields_tells_set_from_unset(text: str, fields: list[str]) -> None:
    assert unset_fields({"holdfast.core.a": f"{STRUCT}{text}"}) == [f"core.a.A.{field}" for field in fields]


@pytest.mark.parametrize(
    "text",
    [
        "from holdfast.core.a import A\nA(1, 2, 3)",
        "from holdfast.core.a import A as B\nB(1, 2, 3)",
        "from holdfast.core import a\na.A(1, 2, 3)",
        "from .a import A\nA(1, 2, 3)",
        "from holdfast.core.shown import A\nA(1, 2, 3)",
    ],
)
def test_a_class_is_followed_through_imports(text: str) -> None:
    sources = {"holdfast.core.a": STRUCT, "holdfast.core.shown": "from holdfast.core.a import A", "holdfast.core": ""}
    assert unset_fields({**sources, "holdfast.core.b": text}) == []


def test_two_classes_of_one_name_are_told_apart() -> None:
    sources = {"holdfast.core.a": STRUCT, "holdfast.core.b": f"{STRUCT}A(1, 2, 3)"}
    assert unset_fields(sources) == ["core.a.A.y", "core.a.A.z"]


@pytest.mark.parametrize("measuring", ["testing.x", "lab.x", "cli.commands.analyse"])
def test_what_measures_sets_fields_of_its_own_classes_only(measuring: str) -> None:
    sets = "from holdfast.core.a import A\nA(1, 2, 3)"
    assert unset_fields({"holdfast.core.a": STRUCT, f"holdfast.{measuring}": sets}) == ["core.a.A.y", "core.a.A.z"]
    assert unset_fields({f"holdfast.{measuring}": f"{STRUCT}A(1, 2, 3)"}) == []


def test_fields_are_found_in_every_kind_of_struct_and_counted_behind_inherited_ones() -> None:
    text = (
        f"{STRUCT}class B(A):\n    more: int = 0\n    filled: list[int] = []\n"
        "@dataclass\nclass C:\n    one: int = 0\n    own: list[int] = field(default_factory=list)\n"
        "class D(NamedTuple):\n    one: int = 0\n    shared: ClassVar[int] = 0\n"
        "class Plain:\n    one: int = 0\nA(1, 2, 3)\nB(1, 2, 3)\n"
    )
    assert unset_fields({"holdfast.core.a": text}) == ["core.a.B.more", "core.a.C.one", "core.a.D.one"]


def test_an_exception_for_a_field_that_is_set_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.house.unset_fields.UNSET_FIELDS", {"core.a.A.z": "a reason"})
    monkeypatch.setattr("tests.house.unset_fields.UNSET_FOR_NOW", ("core.a.A.x",))
    assert check_unset_fields({"holdfast.core.a": STRUCT}) == [
        "core.a.A.y has a default and no code sets it: set it where the value is built, or remove the field",
        "core.a.A.x is an exception in tests/house/rules.py but is set or gone: remove its line",
    ]
