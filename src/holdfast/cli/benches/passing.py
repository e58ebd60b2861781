"""What the drop-in endpoints add to the time until the first byte, against a bare proxy, in the same run.

Straight, through the bare proxy and through the gateway take turns request by request, so that a busy machine slows all
of them alike. Each conversation grows by a message per round, as real ones do.
"""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import quantiles

import aiohttp
import msgspec

from holdfast.cli.benches.measured import Measured

# What is promised: at most so many times what the bare proxy adds.
P50_TIMES_MAX = 1.5
P99_TIMES_MAX = 2.0
_START_SECONDS_MAX = 60
_PATH = "/v1/chat/completions"
# Rounds before the clock counts: connections are made, code is warm.
_WARM = 20


@asynccontextmanager
async def a_program(*command: str, folder: Path) -> AsyncGenerator[str, None]:
    """Run one of our servers for a while, and give the address that its first line names."""
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *command, stdout=asyncio.subprocess.PIPE, cwd=folder
    )
    try:
        assert program.stdout is not None
        line = await asyncio.wait_for(program.stdout.readline(), _START_SECONDS_MAX)
        yield line.decode().split()[-1]
    finally:
        if program.returncode is None:
            program.terminate()
        await program.wait()


async def measure_passing(folder: Path, *, rounds: int) -> list[Measured]:
    """Return the added latency of the gateway beside that of the bare proxy, in the middle and at the end."""
    async with AsyncExitStack() as stack:
        straight = await stack.enter_async_context(a_program("holdfast", "sim", "--port", "0", folder=folder))
        bare = await stack.enter_async_context(a_program("holdfast.cli.benches.bare_proxy", straight, folder=folder))
        store = ("--store", str(folder / "passing.db"), "--set", "observing.log=error")
        gateway = await stack.enter_async_context(
            a_program(
                "holdfast", "serve", "--port", "0", *store, "--set", f"upstream.openai_base_url={straight}/v1",
                folder=folder,
            )
        )  # fmt: skip
        http = await stack.enter_async_context(aiohttp.ClientSession())
        sides = {"straight": straight, "bare": bare, "gateway": gateway}
        seconds: dict[str, list[float]] = {name: [] for name in sides}
        messages: list[dict[str, str]] = []
        for number in range(rounds + _WARM):
            messages = messages[-40:] if len(messages) <= 40 else []  # noqa: PLR2004 - a session of twenty turns
            # No two conversations say the same.
            said = f"round {number}: " + "words of a message " * 20
            messages.append({"role": "user", "content": said})
            answer = ""
            for name, url in sides.items():
                first, answer = await _first_byte(http, url, messages)
                seconds[name].append(first)
            messages.append({"role": "assistant", "content": answer})
    added = {
        name: [through - alone for through, alone in zip(seconds[name], seconds["straight"], strict=True)][_WARM:]
        for name in ("bare", "gateway")
    }
    return [
        _held(f"first byte, added, p{percent}", added, percent, most)
        for percent, most in ((50, P50_TIMES_MAX), (99, P99_TIMES_MAX))
    ]


def _held(name: str, added: dict[str, list[float]], percent: int, most: float) -> Measured:
    bare, ours = (_percentile(added[side], percent) * 1_000 for side in ("bare", "gateway"))
    # The ratio is to what is promised: 1 is just kept.
    return Measured(name, ours, bare, most * bare / max(ours, 0.001), 1.0, "ms")


def _percentile(values: Sequence[float], percent: int) -> float:
    return quantiles(values, n=100)[percent - 1]


async def _first_byte(http: aiohttp.ClientSession, url: str, messages: list[dict[str, str]]) -> tuple[float, str]:
    body = msgspec.json.encode({"model": "sim", "stream": True, "messages": messages})
    headers = {"content-type": "application/json", "authorization": "Bearer sk-of-the-bench"}
    started = time.perf_counter()
    async with http.post(url + _PATH, data=body, headers=headers) as response:
        response.raise_for_status()
        first = await response.content.readany()
        seconds = time.perf_counter() - started
        rest = await response.content.read()
    return seconds, _text(first + rest)


def _text(stream: bytes) -> str:
    said = ""
    for line in stream.splitlines():
        if line.startswith(b"data: {"):
            chunk = msgspec.json.decode(line[6:])
            said += "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])
    return said
