"""A simulated provider with a small window in a thread of its own, and the conversation that does not fit into it."""

import subprocess
import sys
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from holdfast.adapters.loop_thread import LoopThread
from holdfast.models.fake import Simulation
from holdfast.models.fake.server import serve_simulation
from holdfast.types.limits import Limits

_ResultT = TypeVar("_ResultT")
MESSAGES = 17
WINDOW_TOKENS = 8_000
FACT, ASKED = "remember harbour = Kiel.", "what is harbour?"
KNOWN = "harbour = Kiel."
# The number of the message whose answer is streamed, and of the one that asks for a tool call.
STREAMED, CALLING = 5, 9
CALL = 'call depth {"place": "Kiel"}'
RESULT = "12 fathoms"


@dataclass(frozen=True)
class Provider:
    """A served simulation, and the thread with its loop."""

    url: str
    simulation: Simulation
    thread: LoopThread


@contextmanager
def a_provider(window_tokens: int = WINDOW_TOKENS) -> Iterator[Provider]:
    """Serve a simulated provider for synchronous callers."""
    thread = LoopThread("provider")
    simulation = Simulation(Limits(window_tokens=window_tokens))
    serving = serve_simulation(simulation)
    try:
        yield Provider(thread.run(_awaited(serving.__aenter__())), simulation, thread)
        thread.run(_awaited(serving.__aexit__(None, None, None)))
    finally:
        thread.close()


@contextmanager
def a_gateway(url: str) -> Iterator[str]:
    """Serve a gateway with an upstream in a process of its own, for clients that take no transport."""
    command = [sys.executable, "-m", "holdfast", "serve", "--port", "0", "--store", ":memory:"]
    upstreams = {"openai": f"{url}/v1", "gemini": url}
    settings = [part for name, one in upstreams.items() for part in ("--set", f"upstream.{name}_base_url={one}")]
    with subprocess.Popen([*command, *settings], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


async def _awaited(work: Awaitable[_ResultT]) -> _ResultT:
    return await work


def growing_message(number: int) -> str:
    """Return message `number` of 17, from 1: the first has a fact, the last asks for it, together they overflow."""
    ask = {1: FACT, CALLING: CALL, MESSAGES: ASKED}.get(number, f"This is report {number}.")
    if number in (CALLING, MESSAGES):
        return ask
    return f"{ask} " + f"Sounding {number} of the day found sand and shells at low water. " * (8 * number)
