"""`holdfast demo`: run one session through a series of faults with real processes, without key or network.

The temporary folder is removed at the end. If a promise was broken, the exit code is 1 and the folder stays.
"""

import asyncio
import io
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import click

from holdfast.cli.exit_codes import BROKEN, INTERRUPTED, TERMINATED
from holdfast.cli.options import configure_logging
from holdfast.cli.output import shows_colours
from holdfast.lab.demo.context import FAST, FULL, STORE
from holdfast.lab.demo.display import Display, LineDisplay
from holdfast.lab.demo.run import DemoResult, PageHooks, Plan, open_page, print_result, run_demo, until_enter
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
    plan = Plan(Path(tempfile.mkdtemp(prefix="holdfast-demo-")), seed, FAST if fast else FULL)
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
    """Return the live display on a colour terminal, else lines of text; with --json nothing is shown."""
    if as_json:
        return LineDisplay(io.StringIO())
    if not shows_colours(sys.stdout):
        return LineDisplay(sys.stdout)
    from holdfast.lab.demo.display import LiveDisplay, stdout_console  # noqa: PLC0415 - slow to load

    display = LiveDisplay(tuple(SCENARIOS), stdout_console())
    display.open()
    return display


async def _run(plan: Plan, display: Display, *, as_json: bool, with_page: bool) -> int:
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
