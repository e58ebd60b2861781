"""The command `demo`: what the engine does, shown on a real store with real processes. No key, no network.

Everything happens in a temporary folder that is removed at the end. The exit code is 1 where a promise was broken.
"""

import asyncio
import io
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TextIO

import click
import msgspec

from holdfast.cli.demo.acts import ACTS
from holdfast.cli.demo.errand import run_child
from holdfast.cli.demo.reckoning import Figures, reckon, table
from holdfast.cli.demo.stage import FAST, FULL, Pace, a_stage
from holdfast.cli.opening import send_logs
from holdfast.cli.paper import columns

# 128 and the number of the signal, as shells report it.
_TERMINATED = 128 + signal.SIGTERM

# The longest part took eight seconds on a busy machine. Silence is what the engine promises never to give.
_ACT_SECONDS_MAX = 50.0


@click.command()
@click.option("--fast", is_flag=True, help="Do not linger: for a machine that watches instead of a person.")
@click.option("--json", "as_json", is_flag=True, help="Print nothing but the figures, as JSON.")
@click.option("--child", "is_child", is_flag=True, hidden=True, help="Be one of the demo's own processes.")
def demo(*, fast: bool, as_json: bool, is_child: bool) -> None:
    """Show what the engine does: streaming, tools, refusals, compaction, kill -9, and one message sent twice.

    It works with the simulated model in a temporary folder. Exits with 1 if a promise was broken.
    """
    send_logs()
    if is_child:
        run_child()
        return
    out = io.StringIO() if as_json else sys.stdout
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        try:
            figures = asyncio.run(_perform(Path(folder), FAST if fast else FULL, out))
        except asyncio.CancelledError:
            sys.exit(_TERMINATED)
    broken = figures.broken()
    if as_json:
        click.echo(msgspec.json.encode(figures))
    else:
        click.echo("\nWhat it came to")
        for line in columns(table(figures)):
            click.echo(f"  {line}")
        click.echo("\nEvery promise held." if not broken else "\nBROKEN: " + "; ".join(broken))
    if broken:
        sys.exit(1)


async def _perform(folder: Path, pace: Pace, out: TextIO) -> Figures:
    # Ended politely it still ends its own processes and removes its folder.
    performance = asyncio.current_task()
    assert performance is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, performance.cancel)
    began = time.monotonic()
    async with a_stage(folder, pace, out) as stage:
        for number, act in enumerate(ACTS, start=1):
            try:
                async with asyncio.timeout(_ACT_SECONDS_MAX):
                    await act(stage)
            except TimeoutError as error:
                raise click.ClickException(
                    f"BROKEN: part {number} of the demo was not over after {_ACT_SECONDS_MAX:g} s; "
                    "a message was left without an outcome"
                ) from error
        return await reckon(stage, time.monotonic() - began)
