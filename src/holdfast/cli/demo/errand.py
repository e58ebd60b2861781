"""What a process of the demo does on a store: send messages, wait for their answers, say each on a line of its own.

Sent again by the next process, an errand goes on where the last one died: every message has a client id, so what was
accepted is not accepted twice.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from holdfast import wiring
from holdfast.core.limits import Limits
from holdfast.models.catalogue import simulated_model
from holdfast.models.http import HttpModel
from holdfast.models.simulated import Simulation
from holdfast.ports import Tool
from holdfast.runtime.toolbox import tool

# What a child says on its standard output, one word first.
ACCEPTED, PAID = "accepted", "paid"
# Between two pieces of an answer: real models take longer, and a summary that is written in no time cannot be killed.
_DELTA_SECONDS = 0.004


class Line(msgspec.Struct, frozen=True):
    """One message to send, under the name by which it is known when it is sent again."""

    text: str
    client_id: str


class Errand(msgspec.Struct, frozen=True):
    """Everything a process needs to know."""

    store: str
    # The file that payments are written to: the effect of a tool on the world outside of the store.
    payments: str
    session: str
    lines: tuple[Line, ...]
    window_tokens: int
    # How long a payment takes after it was made, so that a process can be killed while its tool runs.
    pay_seconds: float = 0.0


def demo_model(simulation: Simulation) -> HttpModel:
    """Return the simulated model under a name of its own: what is learned of one window must not reach the other."""
    return simulated_model(simulation, name=f"sim-{simulation.limits.window_tokens}")


def demo_limits(window_tokens: int) -> Limits:
    """Return limits with this window; an eighth of it for the answer, as small models have it."""
    return Limits(window_tokens=window_tokens, output_tokens_max=window_tokens // 8)


def paying(payments: Path, seconds: float = 0.0, then: Callable[[], None] = lambda: None) -> Tool:
    """Return a tool whose effect can be counted afterwards. It is not idempotent: nobody wants to pay twice."""

    @tool
    async def pay(to: str, amount: int) -> str:
        """Pay somebody."""
        await asyncio.to_thread(_note, payments, f"{to} {amount}")
        then()
        await asyncio.sleep(seconds)
        return f"paid {amount} to {to}"

    return pay


def _note(payments: Path, line: str) -> None:
    with payments.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def run_child() -> None:
    """Be a process of the demo, told what to do by a line on standard input.

    It ends with its parent: when nobody holds the other end of its standard input any more.
    """
    errand = msgspec.json.decode(sys.stdin.buffer.readline(), type=Errand)
    threading.Thread(target=_end_with_parent, name="holdfast.demo.parent", daemon=True).start()
    asyncio.run(_go(errand))


def _end_with_parent() -> None:
    # Past Python's buffer, whose lock would be held while this waits, also when the process wants to end.
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


async def _go(errand: Errand) -> None:
    model = demo_model(Simulation(demo_limits(errand.window_tokens), delta_seconds=_DELTA_SECONDS))
    pay = paying(Path(errand.payments), errand.pay_seconds, lambda: click.echo(PAID))
    tuning = wiring.Tuning(adopts=False)
    async with wiring.open(errand.store, model=model, tools=[pay], tuning=tuning) as hold:
        session = await hold.session(errand.session)
        for line in errand.lines:
            turn = await session.post(line.text, client_id=line.client_id)
            click.echo(f"{ACCEPTED} {line.client_id} {turn}")
            await session.wait(turn)
