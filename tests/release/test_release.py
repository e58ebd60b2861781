import io
import tarfile
import tomllib
import zipfile
from datetime import date
from pathlib import Path

import pytest

from tests.house.places import PACKAGE, ROOT
from tests.release.__main__ import build, export, name_repository
from tests.release.checks import absolute_links, changelog_problem, metadata_problems, sdist_problems, wheel_problems
from tests.release.materials import Library, bill_of_materials, vendored
from tests.release.prepare import dated, renamed

_URL = "https://forge.example/holdfast"


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git checkout, so nothing tells which files are committed")
    place = tmp_path_factory.mktemp("release")
    export(place / "tree")
    name_repository(place / "tree", _URL, "9.8.7")
    return build(place / "tree", place / "dist")


def test_the_archives_have_all_that_the_package_needs_and_no_tests(archives: tuple[Path, Path]) -> None:
    wheel, sdist = archives
    assert wheel_problems(wheel) == []
    assert sdist_problems(sdist) == []


def test_the_metadata_is_complete_and_every_link_of_the_readme_is_absolute(archives: tuple[Path, Path]) -> None:
    assert metadata_problems(archives[0], _URL) == []


def test_a_wheel_without_its_page_or_with_tests_is_a_problem(tmp_path: Path) -> None:
    wheel = tmp_path / "x.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("holdfast/py.typed", "holdfast/stores/sql/sqlite/a.sql", "holdfast/stores/sql/postgres/a.sql"):
            archive.writestr(name, "")
        archive.writestr("holdfast/page/vendor/checksums.txt", "")
        archive.writestr("holdfast/tests/test_a.py", "")
    assert wheel_problems(wheel) == ["x.whl lacks holdfast/page/index.html", "x.whl has holdfast/tests/test_a.py"]


def test_an_sdist_without_a_licence_is_a_problem(tmp_path: Path) -> None:
    sdist = tmp_path / "x.tar.gz"
    with tarfile.open(sdist, "w:gz") as archive:
        for name in (
            "py.typed",
            "page/index.html",
            "page/vendor/checksums.txt",
            "stores/sql/sqlite/a",
            "stores/sql/postgres/a",
        ):
            archive.addfile(tarfile.TarInfo(f"holdfast-1/src/holdfast/{name}"), io.BytesIO())
        archive.addfile(tarfile.TarInfo("holdfast-1/README.md"), io.BytesIO())
    assert sdist_problems(sdist) == ["x.tar.gz lacks LICENSE"]


def test_a_release_needs_a_dated_section_of_the_changelog() -> None:
    assert changelog_problem("0.2.0", "## [0.2.0] - 2026-11-30\n") == ""
    assert "no section" in changelog_problem("0.2.0", "## [Unreleased]\n")
    assert "no section" in changelog_problem("0.2.0", "## [0.2.0] (not released)\n")


def test_every_file_of_another_project_belongs_to_a_library_and_its_licence_is_in_the_metadata() -> None:
    sums = [
        line.partition("  ")[2]
        for name in ("page/vendor", "reference")
        for line in (PACKAGE / name / "checksums.txt").read_text().splitlines()
    ]
    libraries = vendored()
    owned = [file for library in libraries for file in library.files]
    assert sorted(owned) == sorted(file for file in sums if not file.endswith((".txt", ".md")))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {library.licence for library in libraries} | {"Apache-2.0"} == set(project["license"].split(" AND "))


def test_the_licences_of_other_projects_are_in_the_wheel(archives: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(archives[0]) as archive:
        names = archive.namelist()
    kept = [name for name in names if ".dist-info/licenses/" in name and not name.endswith("/")]
    shipped = [path.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*LICENSE.txt")]
    assert sorted(name.partition("/licenses/")[2] for name in kept) == sorted(
        ["LICENSE", "src/holdfast/reference/swagger-ui.NOTICE.txt", *shipped]
    )


def test_a_version_is_written_everywhere_and_the_changelog_gets_its_date() -> None:
    current = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    changes = renamed(ROOT, "9.8.7")
    assert all("9.8.7" in text and current not in text.replace("9.8.7", "") for text in changes.values())
    assert dated("## [Unreleased]\n\n### Added\n", "0.2.0", date(2026, 11, 30)) == (
        "## [Unreleased]\n\n## [0.2.0] - 2026-11-30\n\n### Added\n"
    )
    with pytest.raises(ValueError, match=r"no \[0.2.0\]"):
        dated("## [Unreleased]\n## [0.2.0]\n", "0.2.0", date(2026, 11, 30))


def test_links_become_absolute_and_others_stay() -> None:
    text = "[a](docs/a.md#b) ![c](docs/c.png) [d](https://x.example/d) [e](#e)"
    assert absolute_links(text, _URL, "v1") == (
        f"[a]({_URL}/blob/v1/docs/a.md#b) ![c]({_URL}/raw/v1/docs/c.png) [d](https://x.example/d) [e](#e)"
    )


def test_the_bill_of_materials_names_every_pin_with_its_hashes_and_every_vendored_library() -> None:
    lock = f"b==2.0 \\\n    --hash=sha256:{'0' * 64}\na==1.5 ; python_version < '4' \\\n    --hash=sha256:{'1' * 64}\n"
    bill = bill_of_materials("0.2.0", lock, [Library("c-lib", "3.1", "MIT", {"c.js": "2" * 64})])
    assert [(one["name"], one["version"], len(one.get("hashes", ()))) for one in bill["components"]] == [
        ("a", "1.5", 1),
        ("b", "2.0", 1),
        ("c-lib", "3.1", 0),
    ]
    assert bill["components"][2]["components"][0]["hashes"] == [{"alg": "SHA-256", "content": "2" * 64}]
    pins = bill_of_materials("0.2.0", (ROOT / "requirements/run.txt").read_text(), [])["components"]
    assert len(pins) > 10
    assert all(one["hashes"] for one in pins)
