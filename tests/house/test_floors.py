"""Imports only go down, in no circle, and the core knows nothing of the world."""

import pytest

from tests.house.checks import (
    Place,
    check_core_is_pure,
    check_cycles,
    check_floors,
    check_quoted_imports,
    place_of,
    read_sources,
)
from tests.house.places import PACKAGE, ROOT

SOURCES = read_sources(PACKAGE)


def test_imports_only_go_down() -> None:
    assert check_floors(SOURCES) == []


def test_no_module_leads_back_to_itself() -> None:
    assert check_cycles(SOURCES) == []


def test_the_core_imports_and_calls_nothing_that_reads_the_world() -> None:
    assert check_core_is_pure(SOURCES) == []


def test_programs_inside_strings_import_modules_that_exist() -> None:
    others = {name: text for name, text in read_sources(ROOT / "tests").items() if not name.startswith("tests.house.")}
    assert check_quoted_imports(SOURCES, {**SOURCES, **others}) == []


def test_every_module_of_the_package_was_looked_at() -> None:
    assert {"holdfast", "holdfast.errors", "holdfast.core", "holdfast.types.records", "holdfast.ports"} <= set(SOURCES)


def test_a_module_belongs_to_the_longest_name_in_the_table() -> None:
    rooms = {
        name: place_of(name)
        for name in ("runtime.engine.live", "runtime.sessions.session", "stores.sql.x", "", "corex")
    }
    assert rooms == {
        "runtime.engine.live": Place(4, "runtime", "runtime"),
        "runtime.sessions.session": Place(6, "runtime.sessions.session", "runtime"),
        "stores.sql.x": Place(3, "stores", "stores"),
        "": Place(13, "", ""),
        "corex": None,
    }


UP = "imports only go down"
PEERS = "rooms on one floor do not know each other"


@pytest.mark.parametrize(
    ("module", "text", "breaches"),
    [
        ("core.x", "from holdfast.ports import Store", [f"holdfast.core.x:1 imports holdfast.ports: {UP}"]),
        ("core.x", "import holdfast", [f"holdfast.core.x:1 imports holdfast: {UP}"]),
        ("core.x", "from holdfast import wiring", [f"holdfast.core.x:1 imports holdfast.wiring: {UP}"]),
        ("core.x", "from ..ports import Store", [f"holdfast.core.x:1 imports holdfast.ports: {UP}"]),
        ("core.x", "from .. import ports", [f"holdfast.core.x:1 imports holdfast.ports: {UP}"]),
        ("core", "from .. import ports", [f"holdfast.core:1 imports holdfast.ports: {UP}"]),
        (
            "stores.x",
            "def late():\n    from holdfast.runtime.engine.runner import Runner",
            [f"holdfast.stores.x:2 imports holdfast.runtime.engine.runner: {UP}"],
        ),
        (
            "ports",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import holdfast.stores.x",
            [f"holdfast.ports:3 imports holdfast.stores.x: {UP}"],
        ),
        (
            "runtime.engine.runner",
            "import holdfast.runtime.maintenance.supervisor",
            [f"holdfast.runtime.engine.runner:1 imports holdfast.runtime.maintenance.supervisor: {UP}"],
        ),
        ("types.x", "import holdfast.errors", [f"holdfast.types.x:1 imports holdfast.errors: {PEERS}"]),
        ("stores.x", "import holdfast.models.y", [f"holdfast.stores.x:1 imports holdfast.models.y: {PEERS}"]),
        (
            "models.x",
            "import holdfast.runtime.tools.toolbox",
            [f"holdfast.models.x:1 imports holdfast.runtime.tools.toolbox: {PEERS}"],
        ),
        ("rescue.x", "import holdfast.gateway", [f"holdfast.rescue.x:1 imports holdfast.gateway: {PEERS}"]),
        (
            "wiring",
            "import holdfast.testing.builders",
            ["holdfast.wiring:1 imports holdfast.testing.builders: only tests may import what is made for tests"],
        ),
        ("kitchen", "", ["holdfast.kitchen has no place in the house: add it to FLOORS in tests/house/rules.py"]),
        # And what is right.
        (
            "core.x",
            "import re\nfrom holdfast.core import y\nfrom holdfast.errors import UsageError\nfrom . import z",
            [],
        ),
        ("stores.x", "import holdfast.ports\nimport holdfast.stores.y", []),
        ("runtime.tools.toolbox", "import holdfast.runtime.clock", []),
        ("runtime.engine.rungs", "import holdfast.runtime.engine.live\nimport holdfast.runtime.tools.toolbox", []),
        ("wiring", "import holdfast.stores.x\nimport holdfast.gateway", []),
        ("testing.x", "import holdfast.wiring\nimport holdfast.testing.y", []),
    ],
)
def test_the_check_of_floors_tells_right_from_wrong(module: str, text: str, breaches: list[str]) -> None:
    neighbours = dict.fromkeys(("holdfast", "holdfast.core.y", "holdfast.ports", "holdfast.wiring"), "")
    assert check_floors({**neighbours, f"holdfast.{module}": text}) == breaches


def test_the_package_may_not_know_the_command_line() -> None:
    assert check_floors({"holdfast": "import holdfast.cli", "holdfast.cli": ""}) == [
        f"holdfast:1 imports holdfast.cli: {PEERS}"
    ]


def test_the_check_of_circles_finds_each_once() -> None:
    circle = {
        "holdfast.core.a": "from holdfast.core.b import x",
        "holdfast.core.b": "def late():\n    from holdfast.core import c",
        "holdfast.core.c": "import holdfast.core.a",
        "holdfast.core.d": "import holdfast.core.a",
        "holdfast.core.e": "import holdfast.core.d\nimport holdfast.core.b",
    }
    assert check_cycles(circle) == [
        "imports go in a circle: holdfast.core.a -> holdfast.core.b -> holdfast.core.c -> holdfast.core.a"
    ]
    assert check_cycles({**circle, "holdfast.core.c": ""}) == []


@pytest.mark.parametrize(
    ("text", "breaches"),
    [
        ("import os.path", ["holdfast.core.x:1 imports os.path: core may not"]),
        ("def f():\n    from random import random", ["holdfast.core.x:2 imports random: core may not"]),
        (
            "import asyncio, logging",
            [
                "holdfast.core.x:1 imports asyncio: core may not",
                "holdfast.core.x:1 imports logging: core may not",
            ],
        ),
        ("from holdfast.ports import Store", ["holdfast.core.x:1 imports holdfast.ports: core may not"]),
        ("print(1)", ["holdfast.core.x:1 calls print: core may not"]),
        ("open('x')", ["holdfast.core.x:1 calls open: core may not"]),
        ("import datetime\ndatetime.datetime.now()", ["holdfast.core.x:2 calls datetime.now: core may not"]),
        ("from datetime import date\ndate.today()", ["holdfast.core.x:2 calls date.today: core may not"]),
        ("import re\nfrom holdfast.core.y import z\nfrom holdfast.errors import E\nre.compile('x')", []),
    ],
)
def test_the_check_of_purity_tells_right_from_wrong(text: str, breaches: list[str]) -> None:
    assert check_core_is_pure({"holdfast.core.x": text, "holdfast.stores.x": "import os\nprint(1)"}) == breaches


def test_the_check_of_programs_inside_strings_tells_right_from_wrong() -> None:
    program = "RUN = '''\nimport os\nfrom {} import x\n'''"
    texts = {"tests.a": program.format("holdfast.core.gone"), "tests.b": program.format("holdfast.core")}
    assert check_quoted_imports({"holdfast": "", "holdfast.core": ""}, texts) == [
        "tests.a:1 has a program that imports holdfast.core.gone, which does not exist"
    ]
