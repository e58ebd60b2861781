"""`holdfast demo` and `holdfast crashlab`: show a session that survives faults; kill the engine at random and check.

The demo runs one session through a series of faults with real processes, without key or network. Its temporary folder
is removed at the end. If a promise was broken, the exit code is 1 and the folder stays.
"""

import asyncio
import io
import os
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from holdfast.cli.exit_codes import BROKEN, INTERRUPTED, TERMINATED
from holdfast.cli.options import configure_logging
from holdfast.cli.output import align_columns, is_plain
from holdfast.lab.crashlab.flips import FlipFigures
from holdfast.lab.crashlab.lane import Figures, Report, report
from holdfast.lab.crashlab.powerloss import PowerFigures
from holdfast.lab.crashlab.run import Plan as CrashPlan
from holdfast.lab.crashlab.run import run, run_flips, run_power_losses
from holdfast.lab.demo.context import FAST, FULL, STORE
from holdfast.lab.demo.display import Display, LineDisplay
from holdfast.lab.demo.run import DemoResult, PageHooks, open_page, print_result, run_demo, until_enter
from holdfast.lab.demo.run import Plan as DemoPlan
from holdfast.lab.demo.scenarios import SCENARIOS


@click.command()
@click.option("--fast", is_flag=True, help="No pauses between the scenarios.")
@click.option("--json", "as_json", is_flag=True, help="Print only the figures, as one JSON document.")
@click.option("--page", is_flag=True, help="Open the gateway's page in a browser until Enter or Ctrl-C.")
@click.option("--seed", default=1, show_default=True, help="Seed of the facts, texts, image and flipped bit.")
def demo(*, fast: bool, as_json: bool, page: bool, seed: int) -> None:
    """Run a session through faults: full windows, error responses, outages, kill -9, a race, a flipped bit.

    It starts a gateway and the simulated model on free local ports, with a store in a temporary folder, and counts the
    messages sent, answered and lost. Exits with 1 if a promise was broken, and keeps the store.
    """
    configure_logging()
    plan = DemoPlan(Path(tempfile.mkdtemp(prefix="holdfast-demo-")), seed, FAST if fast else FULL)
    display = _open_display(as_json=as_json)
    exit_code = None
    try:
        exit_code = asyncio.run(_run(plan, display, as_json=as_json, with_page=page))
    except asyncio.CancelledError:
        exit_code = TERMINATED
    except KeyboardInterrupt:
        exit_code = INTERRUPTED
    finally:
        display.close()
        if exit_code is None:
            click.echo(f"holdfast: the demo failed; its store is kept in {plan.folder}", err=True)
        elif exit_code != BROKEN:
            shutil.rmtree(plan.folder, ignore_errors=True)
    sys.exit(exit_code)


def _open_display(*, as_json: bool) -> Display:
    """Return the live display on a terminal, else lines of text; with --json nothing is shown.

    NO_COLOR takes the colours, not the display.
    """
    if as_json:
        return LineDisplay(io.StringIO())
    if is_plain(sys.stdout):
        return LineDisplay(sys.stdout)
    from holdfast.lab.demo.display import LiveDisplay, stdout_console  # noqa: PLC0415 - slow to load

    display = LiveDisplay(tuple(SCENARIOS), stdout_console())
    display.open()
    return display


async def _run(plan: DemoPlan, display: Display, *, as_json: bool, with_page: bool) -> int:
    """Run the demo, print its result and return the exit code. With --page the gateway still runs while it prints."""
    task = asyncio.current_task()
    assert task is not None, "runs in a task"
    # On SIGTERM, cancel: the demo then ends its own processes and removes its folder.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    exit_codes: list[int] = []

    def finish(result: DemoResult) -> None:
        display.close()
        exit_codes.append(print_result(result, plan.folder / STORE, sys.stdout, as_json=as_json))

    async def opened(url: str) -> None:
        where = "opened in your browser" if await open_page(f"{url}/") else "open it in a browser"
        display.say(f"the gateway's page ({where}): {url}/")

    async def ended(result: DemoResult, url: str) -> None:
        finish(result)
        click.echo(f"The page stays at {url}/ until Enter or Ctrl-C.", err=as_json)
        await until_enter()

    result = await run_demo(plan, display, PageHooks(opened, ended) if with_page else None)
    if not exit_codes:
        finish(result)
    return exit_codes[0]


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
    plan = CrashPlan(seed, kills, seconds, lanes or min(_LANES_PER_CORE * cores, _LANES_MAX))
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
