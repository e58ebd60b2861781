"""Tables and plots of docs/benchmarks.md, made from the committed output of `holdfast bench all --json`."""

from statistics import median

import msgspec

from holdfast.lab.bench_all import COMMANDS, Report, Series
from tests.house.places import ROOT

PATH = ROOT / "docs" / "bench-all.json"
# A bar that is longer says no more.
_SHOWN_MAX = 3.0
_DIGITS_BELOW = 100


def benchmark_table(bench: str) -> str:
    """Return the figures of one benchmark as a table and a plot, with the command, the machine and the date."""
    report = msgspec.json.decode(PATH.read_bytes(), type=Report)
    figures = [one for one in report.figures if one.bench == bench]
    rows = [
        f"| {one.name} | {_values(one)} {one.unit} | {one.ratio:.2f} ± {one.spread:.0%} | {_floor(one)} |"
        for one in figures
    ]
    where = f"{report.date}, Holdfast {report.version}, {report.machine}"
    table = ["| measurement | median (least to most) | ratio | floor |", "|---|---|---|---|", *rows]
    return "\n".join([f"`holdfast bench {' '.join(COMMANDS[bench])}`. {where}.", "", *table, "", *_plot(figures)])


def _values(one: Series) -> str:
    digits = 0 if median(one.values) >= _DIGITS_BELOW else 2
    middle, least, most = (f"{value:,.{digits}f}" for value in (median(one.values), min(one.values), max(one.values)))
    return f"{middle} ({least} to {most})"


def _floor(one: Series) -> str:
    if not one.floor:
        return "none"
    return f"{one.floor:.2f}" if one.ratio >= one.floor else f"{one.floor:.2f}, **missed**"


def _plot(figures: list[Series]) -> list[str]:
    """Return the ratios as shares of their floors: a bar beyond the line keeps its promise."""
    promised = [one for one in figures if one.floor]
    names = ", ".join(f'"{one.name}"' for one in promised)
    shares = ", ".join(f"{min(one.ratio / one.floor, _SHOWN_MAX):.2f}" for one in promised)
    line = ", ".join("1" for _ in promised)
    return [
        "```mermaid",
        "xychart-beta horizontal",
        '    title "Ratio in multiples of its floor; 1 keeps the promise, 3 stands for more"',
        f"    x-axis [{names}]",
        f'    y-axis "of the floor" 0 --> {_SHOWN_MAX:g}',
        f"    bar [{shares}]",
        f"    line [{line}]",
        "```",
    ]
