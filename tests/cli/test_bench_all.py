import json
from pathlib import Path

import msgspec
import pytest

from holdfast.lab import bench_all
from holdfast.lab.bench_all import Report, Series, collected, slower
from holdfast.lab.benches.harness import Measured
from tests.cli.programs import holdfast


def _measured(name: str, ratio: float) -> Measured:
    return Measured(name, value=ratio * 100, reference=100.0, ratio=ratio, floor=0.7, unit="appends/s")


def _report(*series: Series) -> Report:
    return Report("2026-11-18", "0.1.0", "3.11", "Linux", 2, 3, series)


def _series(*ratios: float) -> Series:
    return Series("store", "append", "appends/s", 0.7, ratios, tuple(ratio * 100 for ratio in ratios))


def test_a_series_has_the_median_of_all_rounds_and_their_spread() -> None:
    rounds = [{"store": [_measured("append", ratio)]} for ratio in (0.8, 0.6, 1.0)]
    (series,) = collected(rounds)
    assert series == _series(0.8, 0.6, 1.0)
    assert (series.ratio, round(series.spread, 3)) == (0.8, 0.25)
    assert series.line().endswith("floor 0.70   ok")
    assert _series(0.5).line().endswith("BELOW")


def test_only_a_change_beyond_the_spread_of_both_runs_is_reported() -> None:
    assert slower(_report(_series(0.8, 0.7, 0.9)), _report(_series(0.7, 0.65, 0.75))) == []
    assert slower(_report(_series(0.8, 0.79, 0.81)), _report(_series(0.7, 0.69, 0.71))) == [
        "store, append: 0.70 where it was 0.80 (-13%, noise 5%)"
    ]
    assert slower(_report(_series(0.7)), _report(_series(0.9))) == []
    assert slower(_report(), _report(_series(0.7))) == []


def test_a_file_of_something_else_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[]")
    ran = holdfast("bench", "all", "--quick", "--compare", str(tmp_path / "x.json"))
    assert ran.returncode == 2
    assert "x.json is not the output of `holdfast bench all --json`" in ran.stderr.decode()


def test_a_benchmark_that_fails_is_named_with_its_reason() -> None:
    with pytest.raises(Exception, match=r"`holdfast bench nothing` failed: .*unknown command"):
        bench_all.run_bench(["nothing"])


def test_a_run_is_the_reference_of_the_next(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bench_all, "run_bench", lambda command: [_measured(" ".join(command), 0.8)])
    report = bench_all.measure(bench_all.COMMANDS, 3)
    path = tmp_path / "before.json"
    path.write_bytes(msgspec.json.encode(report))
    assert bench_all._read(path) == report
    assert json.loads(path.read_text())["rounds"] == 3
    assert [one.bench for one in report.figures] == ["store", "archive", "gateway", "live", "reading", "memory"]
    assert len(report.loads) == 3
