"""`holdfast bench all`: every benchmark that needs no transcripts, in rounds, with medians, spread and a comparison.

Each benchmark runs in a process of its own and measures beside its reference, so a figure is a ratio where it can be.
Rounds alternate over the benchmarks: a slow minute of the machine is in one round of all of them, not in all rounds of
one. A comparison reports a figure only if it moved further than both runs spread.
"""

import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from os import cpu_count, getloadavg
from pathlib import Path
from statistics import median

import click
import msgspec

from holdfast.cli.exit_codes import BROKEN
from holdfast.cli.output import json_option
from holdfast.errors import UsageError
from holdfast.lab.benches.harness import Measured

# In this order. Those that need transcripts are not here: their figures do not depend on the machine.
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "store": ("store",),
    "archive": ("archive",),
    "gateway": ("gateway",),
    "live": ("live",),
    "reading": ("reading",),
    "memory": ("memory", "--growth"),
}
QUICK: Mapping[str, tuple[str, ...]] = {
    "store": ("store", "--quick"),
    "gateway": ("gateway",),
    "live": ("live", "--quick"),
    "reading": ("reading", "--quick"),
}
_ROUNDS = 5
# Two runs on one machine differ by this much without a reason, also if each of them spreads less.
_NOISE_MIN = 0.05


class Series(msgspec.Struct, frozen=True):
    """A figure over all rounds. The ratio is to its reference, and more is better."""

    bench: str
    name: str
    unit: str
    floor: float
    ratios: tuple[float, ...]
    values: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Median of the ratios."""
        return median(self.ratios)

    @property
    def spread(self) -> float:
        """Half the distance of the extremes, as a share of the median."""
        return (max(self.ratios) - min(self.ratios)) / 2 / self.ratio if self.ratio else 0.0

    def line(self) -> str:
        """Return the figure as a line of text."""
        verdict = "ok" if self.ratio >= self.floor else "BELOW"
        return (
            f"{self.bench:8} {self.name:44} {median(self.values):12,.1f} {self.unit:10} ratio {self.ratio:6.2f} "
            f"± {self.spread:4.0%}   floor {self.floor:.2f}   {verdict}"
        )


class Report(msgspec.Struct, frozen=True):
    """A run of all benchmarks, and where it ran."""

    date: str
    version: str
    python: str
    system: str
    cores: int
    rounds: int
    figures: tuple[Series, ...]
    # Load of the machine before each round: above the number of cores, other work was running.
    loads: tuple[float, ...] = ()

    @property
    def machine(self) -> str:
        """The machine and its load during the run, as a line of text."""
        loads = ", ".join(f"{load:g}" for load in self.loads)
        return f"{self.rounds} rounds, {self.cores} cores, load {loads}, {self.system}, Python {self.python}"


def collected(rounds: Sequence[Mapping[str, Sequence[Measured]]]) -> tuple[Series, ...]:
    """Return one series per figure, in the order of the first round."""
    found: dict[tuple[str, str], list[Measured]] = {}
    for one in rounds:
        for bench, figures in one.items():
            for figure in figures:
                found.setdefault((bench, figure.name), []).append(figure)
    return tuple(
        Series(
            bench,
            name,
            figures[0].unit,
            figures[0].floor,
            tuple(figure.ratio for figure in figures),
            tuple(figure.value for figure in figures),
        )
        for (bench, name), figures in found.items()
    )


def slower(before: Report, after: Report) -> list[str]:
    """Return a sentence per figure that became worse than the spread of both runs explains."""
    old = {(one.bench, one.name): one for one in before.figures}
    sentences = []
    for now in after.figures:
        was = old.get((now.bench, now.name))
        if was is None or not was.ratio:
            continue
        change = now.ratio / was.ratio - 1
        noise = max(_NOISE_MIN, was.spread + now.spread)
        if change < -noise:
            sentence = f"{now.bench}, {now.name}: {now.ratio:.2f} where it was {was.ratio:.2f}"
            sentences.append(f"{sentence} ({change:+.0%}, noise {noise:.0%})")
    return sentences


def run_bench(command: Sequence[str]) -> list[Measured]:
    """Run one benchmark in a process and return its figures. One below its floor exits with 1 and is a figure too."""
    ran = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "holdfast", "bench", *command, "--json"], capture_output=True, text=True, check=False
    )
    if ran.returncode not in (0, BROKEN):
        raise UsageError(f"`holdfast bench {' '.join(command)}` failed: {ran.stderr.strip()[-400:]}")
    return msgspec.json.decode(ran.stdout, type=list[Measured])


def measure(commands: Mapping[str, Sequence[str]], rounds: int) -> Report:
    """Run all benchmarks in alternating rounds."""
    found, loads = [], []
    for _ in range(rounds):
        loads.append(round(getloadavg()[0], 2))
        found.append({name: run_bench(command) for name, command in commands.items()})
    return Report(
        date=datetime.now(UTC).date().isoformat(),
        version=version("holdfast"),
        python=platform.python_version(),
        system=platform.platform(),
        cores=cpu_count() or 0,
        rounds=rounds,
        figures=collected(found),
        loads=tuple(loads),
    )


@click.command("all")
@click.option("--quick", is_flag=True, help="One round of the shortest forms: a minute.")
@click.option("--rounds", type=click.IntRange(min=1, max=100), default=_ROUNDS, show_default=True)
@click.option("--only", type=click.Choice(list(COMMANDS)), multiple=True, help="Only this benchmark; repeatable.")
@click.option(
    "--compare",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Output of an earlier run with --json: report what became slower than noise explains, and exit with 1.",
)
@json_option
def all_benches(rounds: int, only: tuple[str, ...], compare: Path | None, *, quick: bool, as_json: bool) -> None:
    """Run the benchmarks of speed in alternating rounds, and report medians with their spread."""
    commands = {name: command for name, command in (QUICK if quick else COMMANDS).items() if not only or name in only}
    before = _read(compare) if compare is not None else None
    report = measure(commands, 1 if quick else rounds)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=1).decode())
    else:
        click.echo(report.machine)
        for series in report.figures:
            click.echo(series.line())
    if before is not None:
        sentences = slower(before, report)
        click.echo("\n".join(sentences) if sentences else "nothing became slower than noise explains", err=as_json)
        if sentences:
            sys.exit(BROKEN)


def _read(path: Path) -> Report:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Report)
    except msgspec.MsgspecError as error:
        raise UsageError(f"{path} is not the output of `holdfast bench all --json`: {error}") from error
