"""One performance of the demo, from the first process to the figures, whatever happens on the way."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import click
import msgspec

from holdfast.cli.demo.acts import ACTS
from holdfast.cli.demo.caller import RefusedError
from holdfast.cli.demo.made import Made
from holdfast.cli.demo.reckoning import Figures, reckon
from holdfast.cli.demo.screens import Screen
from holdfast.cli.demo.stage import KEY, STORE, Pace, Stage, a_stage
from holdfast.cli.demo.witness import Held, Witness, read_store
from holdfast.errors import HoldfastError

# The longest act takes a few seconds alone, and was seen to take thirty on a busy machine. Silence is what the engine
# promises never to give.
_ACT_SECONDS_MAX = 120.0
# What goes wrong when a program of ours does not do what it should.
_FAILURES = (click.ClickException, aiohttp.ClientError, RefusedError, OSError, msgspec.MsgspecError)


class Plan(msgspec.Struct, frozen=True):
    """What to perform, and how."""

    folder: Path
    seed: int
    pace: Pace


class Performance(msgspec.Struct, frozen=True):
    """What a demo came to, and what was seen of it."""

    seed: int
    figures: Figures
    witness: Witness


class Audience:
    """Whoever looks on at the gateway's page: told its address, and waited for at the end."""

    def __init__(
        self, opened: Callable[[str], Awaitable[None]], ended: Callable[[Performance, str], Awaitable[None]]
    ) -> None:
        self.opened, self.ended = opened, ended


async def perform(plan: Plan, screen: Screen, audience: Audience | None = None) -> Performance:
    """Perform the demo in a folder and count what it came to. What goes wrong on the way is part of the figures."""
    began = time.monotonic()
    witness = Witness(window_tokens=0)
    try:
        async with a_stage(plan.folder, screen, Made(plan.seed), plan.pace) as stage:
            witness = stage.witness
            if audience is not None:
                await audience.opened(stage.caller.gateway)
            failure = await _act(stage)
            await stage.stop_gateway()
            if not failure:
                witness.found_at_end = await stage.doctor()
            performance = await _reckoned(plan, witness, failure, time.monotonic() - began)
            if audience is not None:
                await stage.start_gateway()
                await audience.ended(performance, stage.caller.gateway)
            return performance
    except _FAILURES as error:
        return await _reckoned(plan, witness, f"the demo could not go on: {_said(error)}", time.monotonic() - began)


async def _act(stage: Stage) -> str:
    """Perform the acts; return why they ended early, nothing where they did not."""
    for number, (title, act) in enumerate(ACTS.items(), start=1):
        stage.screen.begin(number, title)
        try:
            async with asyncio.timeout(_ACT_SECONDS_MAX):
                await act(stage)
                await stage.show_view()
        except TimeoutError:
            return f"act {number} ({title}) was not over after {_ACT_SECONDS_MAX:g} s"
        except _FAILURES as error:
            return f"act {number} ({title}) could not go on: {_said(error)}"
        await asyncio.sleep(stage.pace.act_seconds)
    return ""


async def _reckoned(plan: Plan, witness: Witness, failure: str, seconds: float) -> Performance:
    """Count, with why it ended early before all else."""
    held, unread = await _held(plan.folder / STORE)
    figures = reckon(witness, held, seconds)
    early = tuple(sentence for sentence in (failure, unread) if sentence)
    return Performance(plan.seed, msgspec.structs.replace(figures, broken=(*early, *figures.broken)), witness)


async def _held(path: Path) -> tuple[Held, str]:
    """Read what the store holds; where it cannot be read, say why."""
    if not await asyncio.to_thread(path.exists):
        return Held([], [], {}), "there is no store"
    try:
        return await read_store(path, KEY), ""
    except HoldfastError as error:
        return Held([], [], {}), f"the store cannot be read: {error}"


def _said(error: Exception) -> str:
    return error.format_message() if isinstance(error, click.ClickException) else f"{type(error).__name__}: {error}"
