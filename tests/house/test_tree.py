"""The tree stays small enough to survey."""

import pytest

from tests.house.checks import Sources, read_sources
from tests.house.places import PACKAGE
from tests.house.rules import FOLDER_MODULES_MAX, MODULES_MAX
from tests.house.tree import check_import_counts, check_tree

SOURCES = read_sources(PACKAGE)


def test_the_tree_has_no_more_modules_than_allowed() -> None:
    assert check_tree(SOURCES) == []


def test_no_module_imports_more_of_ours_than_its_folder_allows() -> None:
    assert check_import_counts(SOURCES) == []


def _folder(name: str, count: int) -> Sources:
    return dict.fromkeys([name, *(f"{name}.m{number}" for number in range(count))], "")


def test_modules_of_a_folder_are_counted_without_its_package_file_and_subfolders() -> None:
    full = {**_folder("holdfast.core", FOLDER_MODULES_MAX), **_folder("holdfast.core.sub", 1)}
    assert check_tree(full) == []
    assert check_tree({**full, "holdfast.core.one": ""}) == [
        "holdfast.core has 17 modules, at most 16 are allowed: merge some or add a folder"
    ]


def test_modules_of_the_whole_tree_are_counted() -> None:
    names = [f"holdfast.f{number // 10}.m{number}" for number in range(MODULES_MAX)]
    assert check_tree(dict.fromkeys(names, "")) == []
    assert check_tree(dict.fromkeys([*names, "holdfast.one"], "")) == [
        f"the tree has {MODULES_MAX + 1} modules, at most {MODULES_MAX} are allowed: merge some"
    ]


def _importing(count: int) -> Sources:
    names = [f"holdfast.core.m{number}" for number in range(count)]
    text = "import os\n" + "".join(f"import {name}\nfrom {name} import a\n" for name in names)
    return {**dict.fromkeys(names, ""), "holdfast.gateway.proxy.x": text, "holdfast.gateway.api.x": text}


def test_imported_modules_are_counted_once_each_and_only_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.house.tree.MANY_IMPORTS_FOR_NOW", ())
    assert check_import_counts(_importing(15)) == []
    assert check_import_counts(_importing(16)) == [
        "gateway.proxy.x imports 16 of our modules, at most 15 are allowed in its folder"
    ]


def test_an_exception_for_imports_that_is_not_needed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.house.tree.MANY_IMPORTS_FOR_NOW", ("gateway.proxy.x",))
    assert check_import_counts(_importing(16)) == []
    assert check_import_counts(_importing(15)) == [
        "gateway.proxy.x is an exception in tests/house/rules.py but imports few enough modules: remove its line"
    ]


def test_rooms_aside_are_not_counted() -> None:
    names = [f"holdfast.f{number // 10}.m{number}" for number in range(MODULES_MAX)]
    assert check_tree(dict.fromkeys([*names, "holdfast.lab.benches.one", "holdfast.adapters.two"], "")) == []
