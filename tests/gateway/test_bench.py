"""The measurement of the gateway runs, tells its figures, and says by its exit code whether they hold."""

import msgspec
import pytest
from click.testing import CliRunner

from holdfast.lab.benches import gateway as bench
from holdfast.lab.benches.harness import Measured

TINY = bench.Effort(messages=3, streams=5, sessions=3, seconds=0.1, rounds=3)


def test_all_figures_are_told_with_their_floors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "SHORT", TINY)

    ran = CliRunner().invoke(bench.gateway, ["--json"])

    figures = msgspec.json.decode(ran.stdout, type=list[Measured])
    assert [(figure.name, figure.floor) for figure in figures] == [
        ("accepted, above one sync", 1.0),
        ("5 streams, per 2,000", 1.0),
        ("3 sessions, least share", 0.5),
        ("turns of all, errors 0", 1.0),
        ("first byte, added, p50", 1.0),
        ("first byte, added, p99", 1.0),
    ]
    assert figures[3].ratio == 1.0
    assert ran.exit_code == (0 if all(figure.ratio >= figure.floor for figure in figures) else 1)


@pytest.mark.parametrize(("ratio", "verdict", "exit_code"), [(1.0, "ok", 0), (0.5, "BELOW", 1)])
def test_a_figure_below_its_floor_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, ratio: float, verdict: str, exit_code: int
) -> None:
    async def measured(*_: object) -> list[Measured]:
        return [Measured("speed", 7.0, 7.0 / ratio, ratio, 0.7, "ms")]

    monkeypatch.setattr(bench, "measure", measured)

    ran = CliRunner().invoke(bench.gateway, [])

    assert (ran.exit_code, ran.stdout.split()[-1]) == (exit_code, verdict)
