"""The measurement of the store runs, tells its figures, and says by its exit code whether they hold."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from holdfast.lab.benches import store as bench
from holdfast.lab.benches.harness import Effort, Measured
from holdfast.lab.benches.opening import measure_starting

TINY = Effort(turns=2, appends=8, appends_before=1, short_records=200, long_records=400, openings=2, starts=1)


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "QUICK", TINY)


def test_all_figures_are_told_with_their_floors() -> None:
    ran = CliRunner().invoke(bench.store, ["--quick", "--json"])

    figures = msgspec.json.decode(ran.stdout, type=list[Measured])
    assert [(figure.name, figure.floor) for figure in figures] == [
        ("append, one session alone", 0.7),
        ("append, 64 sessions together", 8.0),
        ("open at 400 records", 1 / 1.3),
        ("memory at 400 records", 1 / 1.2),
        ("import holdfast", 1.0),
        ("import, and everything it loads", 0.5),
        ("holdfast --help", 1.0),
    ]
    assert all(figure.value > 0 and figure.reference > 0 for figure in figures)
    assert ran.exit_code == (0 if all(figure.ratio >= figure.floor for figure in figures) else 1)


@pytest.mark.parametrize(("ratio", "verdict", "exit_code"), [(1.0, "ok", 0), (0.5, "BELOW", 1)])
def test_a_figure_below_its_floor_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, ratio: float, verdict: str, exit_code: int
) -> None:
    async def measured(*_: object) -> list[Measured]:
        return [Measured("speed", 7.0, 7.0 / ratio, ratio, 0.7, "appends/s")]

    monkeypatch.setattr(bench, "MEASUREMENTS", (measured,))

    ran = CliRunner().invoke(bench.store, ["--quick"])

    assert (ran.exit_code, ran.stdout.split()[-1]) == (exit_code, verdict)


async def test_what_starting_costs_is_measured_on_compiled_modules_whatever_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    await measure_starting(tmp_path, TINY)

    compiled = {path.name.partition(".")[0] for path in (tmp_path / "compiled").rglob("holdfast/**/*.pyc")}
    assert {"__init__", "client", "library"} <= compiled
