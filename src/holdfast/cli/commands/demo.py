"""The command `demo`: one session is walked through every disaster, by real processes. No key, no network.

Everything happens in a temporary folder that is removed at the end, unless a promise was broken: then the exit code is
1 and the folder stays, to look at.
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
from holdfast.cli.options import send_logs
from holdfast.cli.output import shows_colours
from holdfast.lab.demo.acts import ACTS
from holdfast.lab.demo.display import Lines, Screen
from holdfast.lab.demo.run import Audience, Performance, Plan, conclude, open_page, perform, until_enter
from holdfast.lab.demo.stage import FAST, FULL, STORE


@click.command()
@click.option("--fast", is_flag=True, help="Do not linger: for a machine that watches instead of a person.")
@click.option("--json", "as_json", is_flag=True, help="Print nothing but the figures, as one JSON document.")
@click.option("--page", is_flag=True, help="Open the gateway's page in a browser, and keep it until Enter or Ctrl-C.")
@click.option("--seed", default=1, show_default=True, help="Makes the facts, the pages, the image and the flipped bit.")
def demo(*, fast: bool, as_json: bool, page: bool, seed: int) -> None:
    """Walk a session through every disaster: full windows, refusals, outages, kill -9, a race, a flipped bit.

    It starts a gateway and the simulated model on free ports of this machine, with a store in a temporary folder, and
    counts at the end what was sent, answered and lost. Exits with 1 if a promise was broken, and keeps the store.
    """
    send_logs()
    plan = Plan(Path(tempfile.mkdtemp(prefix="holdfast-demo-")), seed, FAST if fast else FULL)
    screen = _screen(as_json=as_json)
    exit_code = None
    try:
        exit_code = asyncio.run(_perform(plan, screen, as_json=as_json, with_page=page))
    except asyncio.CancelledError:
        exit_code = TERMINATED
    except KeyboardInterrupt:
        exit_code = INTERRUPTED
    finally:
        screen.close()
        if exit_code is None:
            click.echo(f"holdfast: the demo itself failed; its store is kept in {plan.folder}", err=True)
        elif exit_code != BROKEN:
            shutil.rmtree(plan.folder, ignore_errors=True)
    sys.exit(exit_code)


def _screen(*, as_json: bool) -> Screen:
    """Return where the demo is shown: a picture where a terminal can show one, else lines; nowhere for programs."""
    if as_json:
        return Lines(io.StringIO())
    if not shows_colours(sys.stdout):
        return Lines(sys.stdout)
    from holdfast.lab.demo.display import Picture, a_console  # noqa: PLC0415 - slow to load, for a person alone

    picture = Picture(tuple(ACTS), a_console())
    picture.open()
    return picture


async def _perform(plan: Plan, screen: Screen, *, as_json: bool, with_page: bool) -> int:
    """Perform, conclude, and return the exit code. With the page it is concluded while the gateway still runs."""
    performance = asyncio.current_task()
    assert performance is not None, "this is one"
    # Ended politely it still ends its own processes and removes its folder.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, performance.cancel)
    exit_codes: list[int] = []

    def told(performed: Performance) -> None:
        screen.close()
        exit_codes.append(conclude(performed, plan.folder / STORE, sys.stdout, as_json=as_json))

    async def opened(url: str) -> None:
        where = "opened in your browser" if await open_page(f"{url}/") else "to be opened in a browser"
        screen.say(f"the gateway's page, {where}: {url}/")

    async def ended(performed: Performance, url: str) -> None:
        told(performed)
        click.echo(f"The page stays at {url}/ until Enter or Ctrl-C.", err=as_json)
        await until_enter()

    performed = await perform(plan, screen, Audience(opened, ended) if with_page else None)
    if not exit_codes:
        told(performed)
    return exit_codes[0]
