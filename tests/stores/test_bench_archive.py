"""The measurement of the archive runs, tells its figures, and says by its exit code whether they hold."""

import msgspec
import pytest
from click.testing import CliRunner

from holdfast.lab.benches import store as bench
from holdfast.lab.benches.harness import Measured


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_SHORT_RECORDS", 700)
    monkeypatch.setattr(bench, "_RECORDS", 4_000)
    monkeypatch.setattr(bench, "_OPENINGS", 2)
    monkeypatch.setattr(bench, "_APPENDS", 10)


@pytest.mark.parametrize("form", [["--json"], []])
def test_all_figures_are_told_with_their_floors(form: list[str]) -> None:
    ran = CliRunner().invoke(bench.archive, form)

    if not form:
        assert len(ran.stdout.splitlines()) == 3
        return
    figures = msgspec.json.decode(ran.stdout, type=list[Measured])
    assert [(figure.name.split()[0], figure.floor) for figure in figures] == [
        ("open", 1 / 1.3),
        ("live", 1.0),
        ("sealing", 1.0),
    ]
    assert all(figure.value > 0 and figure.reference > 0 for figure in figures)
    assert ran.exit_code == (0 if all(figure.ratio >= figure.floor for figure in figures) else 1)
