"""Run the demo and print its result."""

import asyncio
import os
import sys
import time
import webbrowser
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import aiohttp
import click
import msgspec

from holdfast.cli.exit_codes import BROKEN
from holdfast.cli.output import align_columns, is_plain, sanitize
from holdfast.errors import HoldfastError
from holdfast.lab.demo.client import Inputs, Observations, RefusedError
from holdfast.lab.demo.context import KEY, STORE, DemoContext, Pace, open_context
from holdfast.lab.demo.display import Display
from holdfast.lab.demo.report import Figures, StoreContents, count_figures, read_store, table
from holdfast.lab.demo.scenarios import SCENARIOS

# The longest scenario takes a few seconds, and took thirty on a busy machine.
_SCENARIO_SECONDS_MAX = 120.0
# Errors of a process that does not work as expected.
_FAILURES = (click.ClickException, aiohttp.ClientError, RefusedError, OSError, msgspec.MsgspecError)


class Plan(msgspec.Struct, frozen=True):
    """Settings of a run."""

    folder: Path
    seed: int
    pace: Pace


class DemoResult(msgspec.Struct, frozen=True):
    """Figures and observations of a run."""

    seed: int
    figures: Figures
    observed: Observations


class PageHooks:
    """Callbacks for the gateway's page: at its start, and at the end of the demo."""

    def __init__(
        self, opened: Callable[[str], Awaitable[None]], ended: Callable[[DemoResult, str], Awaitable[None]]
    ) -> None:
        self.opened, self.ended = opened, ended


async def run_demo(plan: Plan, display: Display, page: PageHooks | None = None) -> DemoResult:
    """Run the demo in a folder and compute its figures. Errors become part of the figures."""
    began = time.monotonic()
    observed = Observations(window_tokens=0)
    try:
        async with open_context(plan.folder, display, Inputs(plan.seed), plan.pace) as demo:
            observed = demo.observed
            if page is not None:
                await page.opened(demo.client.gateway)
            failure = await _run_scenarios(demo)
            await demo.stop_gateway()
            if not failure:
                observed.found_at_end = await demo.doctor()
            result = await _count(plan, observed, failure, time.monotonic() - began)
            if page is not None:
                await demo.start_gateway()
                await page.ended(result, demo.client.gateway)
            return result
    except _FAILURES as error:
        return await _count(
            plan, observed, f"the demo could not continue: {_error_text(error)}", time.monotonic() - began
        )


async def _run_scenarios(demo: DemoContext) -> str:
    """Run the scenarios; return the reason of an early end, else an empty string."""
    for number, (title, scenario) in enumerate(SCENARIOS.items(), start=1):
        demo.display.begin(number, title)
        try:
            async with asyncio.timeout(_SCENARIO_SECONDS_MAX):
                await scenario(demo)
                await demo.show_view()
        except TimeoutError:
            return f"scenario {number} ({title}) did not end within {_SCENARIO_SECONDS_MAX:g} s"
        except _FAILURES as error:
            return f"scenario {number} ({title}) could not continue: {_error_text(error)}"
        await asyncio.sleep(demo.pace.scenario_seconds)
    return ""


async def _count(plan: Plan, observed: Observations, failure: str, seconds: float) -> DemoResult:
    """Compute the figures, with the reason of an early end first."""
    stored, unread = await _read_contents(plan.folder / STORE)
    figures = count_figures(observed, stored, seconds)
    early = tuple(sentence for sentence in (failure, unread) if sentence)
    return DemoResult(plan.seed, msgspec.structs.replace(figures, broken=(*early, *figures.broken)), observed)


async def _read_contents(path: Path) -> tuple[StoreContents, str]:
    """Read the contents of the store, and the error if it cannot be read."""
    if not await asyncio.to_thread(path.exists):
        return StoreContents([], [], {}), "there is no store"
    try:
        return await read_store(path, KEY), ""
    except HoldfastError as error:
        return StoreContents([], [], {}), f"the store cannot be read: {error}"


def _error_text(error: Exception) -> str:
    return error.format_message() if isinstance(error, click.ClickException) else f"{type(error).__name__}: {error}"


# --- Result ---


class DemoOutput(msgspec.Struct, frozen=True):
    """JSON output. `store` is the path of the kept store; empty if it was removed."""

    seed: int
    store: str
    figures: Figures


def print_result(result: DemoResult, store: Path, out: TextIO, *, as_json: bool) -> int:
    """Print the figures, and return the exit code: 0 if every promise held, else 1."""
    figures = result.figures
    kept_store = str(store) if figures.broken else ""
    if as_json:
        out.write(msgspec.json.encode(DemoOutput(result.seed, kept_store, figures)).decode() + "\n")
    elif not is_plain(out):
        _print_tables(figures, out)
    else:
        out.writelines(f"{line}\n" for line in _lines(figures))
    if not as_json:
        out.writelines(f"{sanitize(line)}\n" for line in _verdict(figures, kept_store))
    out.flush()
    return BROKEN if figures.broken else 0


def _lines(figures: Figures) -> list[str]:
    survived = [(disaster.name, disaster.evidence or "NO EVIDENCE") for disaster in figures.disasters]
    return [
        *("", "Faults survived, with evidence"),
        *(f"  {sanitize(line)}" for line in align_columns(survived)),
        *("", "Figures"),
        *(f"  {line}" for line in align_columns(table(figures))),
        "",
    ]


def _verdict(figures: Figures, kept_store: str) -> list[str]:
    if not figures.broken:
        return ["Every promise held."]
    return [
        *(f"BROKEN: {sentence}" for sentence in figures.broken),
        f"The store is kept: {kept_store}",
        f"Inspect it with `holdfast show KEY --store {kept_store}`, then remove its folder.",
    ]


def _print_tables(figures: Figures, out: TextIO) -> None:
    from rich import box  # noqa: PLC0415 - slow to load, for terminals only
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(file=out)
    survived = Table("fault", "evidence that it was survived", box=box.SIMPLE_HEAD)
    for disaster in figures.disasters:
        evidence = Text(sanitize(disaster.evidence)) if disaster.evidence else Text("no evidence", "bold red")
        survived.add_row(disaster.name, evidence)
    counted = Table("figure", "", box=box.SIMPLE_HEAD)
    for name, count in table(figures):
        counted.add_row(name, count, style="bold" if name == "lost" else "")
    console.print(survived)
    console.print(counted)


# --- Gateway page ---


# Without one of these, `webbrowser` would open a text browser in this terminal.
_DESKTOP_VARIABLES = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
_DESKTOP_PLATFORMS = ("darwin", "win32")


async def open_page(url: str) -> bool:
    """Open an address in a graphical browser, and return whether there is one."""
    if sys.platform not in _DESKTOP_PLATFORMS and not any(os.environ.get(name) for name in _DESKTOP_VARIABLES):
        return False
    with suppress(webbrowser.Error):
        return await asyncio.to_thread(webbrowser.open, url)
    return False


async def until_enter() -> None:
    """Wait for Enter or Ctrl-C. Returns at once if standard input is not a terminal or pipe."""
    pressed = asyncio.Event()
    loop = asyncio.get_running_loop()
    try:
        loop.add_reader(sys.stdin, pressed.set)
    except (OSError, ValueError):
        # A file or a closed stream cannot be polled.
        return
    try:
        await pressed.wait()
    except asyncio.CancelledError:
        # Ctrl-C ends the wait, not the demo.
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
    finally:
        loop.remove_reader(sys.stdin)
