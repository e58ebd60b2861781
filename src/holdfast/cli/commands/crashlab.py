"""`holdfast crashlab`: kill the engine at random and check the store after it."""

import os
import secrets
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from holdfast.cli.exit_codes import BROKEN
from holdfast.cli.output import align_columns
from holdfast.lab.crashlab.flips import FlipFigures
from holdfast.lab.crashlab.lane import Figures, Report, report
from holdfast.lab.crashlab.powerloss import PowerFigures
from holdfast.lab.crashlab.run import Plan, run, run_flips, run_power_losses

# Long enough to kill every kind of step at least once.
_SECONDS = 60.0
# Lanes mostly wait for the disk, so each core runs three; above eight they wait for each other.
_LANES_PER_CORE = 3
_LANES_MAX = 8
_SEEDS = 2**20
# Broken promises that are printed.
_SENTENCES_MAX = 20


@click.command()
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Work in this folder instead of the one for temporary files.",
)
@click.option("--kills", type=click.IntRange(min=1), help="Stop after this many kills.")
@click.option("--seconds", type=click.FloatRange(min=0.1), help="Stop after this time; 60 unless --kills is given.")
@click.option("--power-loss", is_flag=True, help="Simulate power loss instead, and open the disks that may result.")
@click.option("--states", type=click.IntRange(min=1), default=1_000, show_default=True, help="Disk states to open.")
@click.option("--flips", type=click.IntRange(min=1), help="Flip this many bits instead, each in a copy of a store.")
@click.option("--seed", type=click.IntRange(min=0), help="Repeat the workload and the random choices of a run.")
@click.option("--lanes", type=click.IntRange(1, 64), help="Stores to work on in parallel.")
@click.option(
    "--report",
    "report_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the figures here, as JSON.",
)
@click.option("--json", "as_json", is_flag=True, help="Print only the figures, as JSON.")
def crashlab(  # noqa: PLR0913 - one parameter per option
    *,
    folder: Path | None,
    kills: int | None,
    seconds: float | None,
    power_loss: bool,
    states: int,
    flips: int | None,
    seed: int | None,
    lanes: int | None,
    report_path: Path | None,
    as_json: bool,
) -> None:
    """Run a workload, kill it with SIGKILL at random instants, recover, and check that nothing acknowledged is lost.

    A process outside of those that die knows what was acknowledged, and checks the store for it. Exits with 1 if
    anything was lost, done twice, or left in an invalid state; the store in question is then kept.
    """
    seed = secrets.randbelow(_SEEDS) if seed is None else seed
    cores = os.cpu_count() or 1
    if power_loss:
        power = run_power_losses(states, seed, lanes or cores, _show_power)
        _print_report(power, power.rows(), power.broken(), report_path, as_json=as_json)
        return
    if flips is not None:
        flipped = run_flips(flips, seed, lanes or cores, _show_flips)
        _print_report(flipped, flipped.rows(), flipped.broken(), report_path, as_json=as_json)
        return
    if kills is None and seconds is None:
        seconds = _SECONDS
    plan = Plan(seed, kills, seconds, lanes or min(_LANES_PER_CORE * cores, _LANES_MAX))
    with _place(folder) as place:
        result = report(run(place, plan, _show), seed)
        _print_report(result, result.rows(), result.broken, report_path, as_json=as_json)


@contextmanager
def _place(folder: Path | None) -> Generator[Path, None, None]:
    """Create a work folder. It is removed unless a store is left in it for inspection."""
    place = Path(tempfile.mkdtemp(prefix="holdfast-crashlab-", dir=folder))
    try:
        yield place
    finally:
        try:
            place.rmdir()
        except OSError:
            click.echo(f"holdfast: kept for inspection: {place}", err=True)


def _print_report(
    result: Report | PowerFigures | FlipFigures,
    rows: list[tuple[str, str]],
    broken: list[str],
    report_path: Path | None,
    *,
    as_json: bool,
) -> None:
    _show_line("")
    if report_path is not None:
        report_path.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")
    if as_json:
        click.echo(msgspec.json.encode(result))
    else:
        for line in align_columns(rows):
            click.echo(line)
        click.echo("Every promise held." if not broken else "BROKEN: " + "; ".join(broken[:_SENTENCES_MAX]))
    if broken:
        sys.exit(BROKEN)


def _show(figures: Figures) -> None:
    found = len(figures.broken())
    _show_line(
        f"{figures.kills:,} kills, {figures.acknowledged:,} acknowledged, {found} broken, {figures.seconds:.0f} s"
    )


def _show_power(figures: PowerFigures) -> None:
    _show_line(f"{figures.states:,} states, {len(figures.broken())} broken, {figures.seconds:.0f} s")


def _show_flips(figures: FlipFigures) -> None:
    _show_line(f"{figures.count:,} flips, {len(figures.broken())} broken, {figures.seconds:.0f} s")


def _show_line(line: str) -> None:
    """Overwrite the progress line, on a terminal only."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()
