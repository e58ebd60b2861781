"""The runner of the tests knows when it ran them all."""

import os
from pathlib import Path

import pytest

from tests.run import is_selection, main, run_pytest


@pytest.mark.parametrize(
    ("arguments", "selects"),
    [
        ([], False),
        (["-n", "2", "--dist", "worksteal"], False),
        (["-x", "-q", "--durations=5"], False),
        (["tests/house"], True),
        (["tests/house/test_run.py::test_x"], True),
        (["-k", "word"], True),
        (["-kword"], True),
        (["--lf"], True),
    ],
)
def test_only_a_run_of_everything_counts_for_coverage(arguments: list[str], *, selects: bool) -> None:
    assert is_selection(arguments) is selects


@pytest.fixture(autouse=True)
def _no_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests that are run inside of tests need no plugins, and importing them takes most of the time."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def _a_test(folder: Path, body: str) -> str:
    path = folder / "test_one.py"
    path.write_text(f"def test_one():\n    {body}\n")
    return str(path)


@pytest.mark.parametrize(("body", "code", "closing"), [("assert True", 0, "1 passed"), ("assert False", 1, "1 failed")])
def test_pytests_own_verdict_and_closing_line_are_handed_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], body: str, code: int, closing: str
) -> None:
    arguments = ["-p", "no:xdist", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", _a_test(tmp_path, body)]

    verdict, last = run_pytest(arguments, {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})

    assert (verdict, closing in last) == (code, True)
    assert last in capsys.readouterr().out


def test_a_selection_runs_without_coverage_and_leaves_nothing(tmp_path: Path) -> None:
    arguments = ["-p", "no:xdist", "-p", "no:cacheprovider", "-q", f"--rootdir={tmp_path}"]
    assert main([*arguments, _a_test(tmp_path, "assert True")]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["test_one.py"]
