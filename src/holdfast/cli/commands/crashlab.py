"""The command `crashlab`: kill the engine over and over on a disk of yours, and count what that cost. No key needed."""

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
from holdfast.cli.output import columns
from holdfast.lab.crashlab.flips import FlipFigures
from holdfast.lab.crashlab.lane import Figures, Report, report
from holdfast.lab.crashlab.powerloss import PowerFigures
from holdfast.lab.crashlab.run import Plan, run, run_flips, run_power_losses

# Long enough to see every kind of step being killed, short enough to wait for.
_SECONDS = 60.0
# Lanes wait for the disk most of the time, so there are three to a core; more than a few wait for each other.
_LANES_PER_CORE = 3
_LANES_MAX = 8
_SEEDS = 2**20
# A list of broken promises is for reading; whoever has more of them than this reads the first.
_SENTENCES_MAX = 20


@click.command()
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Work on the disk of this folder instead of the one for temporary files.",
)
@click.option("--kills", type=click.IntRange(min=1), help="End after so many kills.")
@click.option("--seconds", type=click.FloatRange(min=0.1), help="End after so long; a minute unless kills are given.")
@click.option("--power-loss", is_flag=True, help="Lose power instead: open disks as they may then be left.")
@click.option("--states", type=click.IntRange(min=1), default=1_000, show_default=True, help="Disks to open then.")
@click.option("--flips", type=click.IntRange(min=1), help="Flip so many bits instead, each in a store of its own.")
@click.option("--seed", type=click.IntRange(min=0), help="Repeat the workload and the choices of an earlier run.")
@click.option("--lanes", type=click.IntRange(1, 64), help="Stores to work on side by side.")
@click.option(
    "--report", "report_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the figures here, as JSON."
)
@click.option("--json", "as_json", is_flag=True, help="Print nothing but the figures, as JSON.")
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
    """Prove that nothing acknowledged is lost: work, die by SIGKILL at random instants, recover, over and over.

    An oracle outside of the processes that die knows what was acknowledged, and checks the store for it. Exits with 1
    where anything was lost, done twice, or left in a third state; the store in question is then kept.
    """
    seed = secrets.randbelow(_SEEDS) if seed is None else seed
    cores = os.cpu_count() or 1
    if power_loss:
        power = run_power_losses(states, seed, lanes or cores, _show_power)
        _tell(power, power.rows(), power.broken(), report_path, as_json=as_json)
        return
    if flips is not None:
        flipped = run_flips(flips, seed, lanes or cores, _show_flips)
        _tell(flipped, flipped.rows(), flipped.broken(), report_path, as_json=as_json)
        return
    if kills is None and seconds is None:
        seconds = _SECONDS
    plan = Plan(seed, kills, seconds, lanes or min(_LANES_PER_CORE * cores, _LANES_MAX))
    with _place(folder) as place:
        told = report(run(place, plan, _show), seed)
    _tell(told, told.rows(), told.broken, report_path, as_json=as_json)


@contextmanager
def _place(folder: Path | None) -> Generator[Path, None, None]:
    """Make a folder to work in, and remove it unless a store was left in it to be looked at."""
    place = Path(tempfile.mkdtemp(prefix="holdfast-crashlab-", dir=folder))
    try:
        yield place
    finally:
        try:
            place.rmdir()
        except OSError:
            click.echo(f"holdfast: what is left lies in {place}", err=True)


def _tell(
    told: Report | PowerFigures | FlipFigures,
    rows: list[tuple[str, str]],
    broken: list[str],
    report_path: Path | None,
    *,
    as_json: bool,
) -> None:
    _show_line("")
    if report_path is not None:
        report_path.write_bytes(msgspec.json.format(msgspec.json.encode(told), indent=2) + b"\n")
    if as_json:
        click.echo(msgspec.json.encode(told))
    else:
        for line in columns(rows):
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
    """Say on a terminal how far it is, in one line that is written over."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()
