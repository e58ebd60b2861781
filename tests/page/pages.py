"""A page in a browser, on a gateway in this process, and what is looked for in it."""

import asyncio
import re
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from holdfast.gateway.http.app import Mount
from holdfast.gateway.http.page import Page as Files
from holdfast.ports import Model, Store
from holdfast.types.messages import Reply, StopReason, Text, Usage
from holdfast.types.records import (
    AttemptStarted,
    InputAdmitted,
    LeasedRecord,
    Outcome,
    ReplyRecorded,
    SessionConfigured,
    TurnEnded,
    TurnStarted,
)
from tests.cli.programs import DEADLINE_SECONDS, PROGRAM, environment
from tests.gateway.gateways import Running, a_gateway

# Longer than anything here takes on a busy machine; whoever waits so long has found a bug.
DEADLINE_MILLISECONDS = 60_000
expect.set_options(timeout=DEADLINE_MILLISECONDS)
# What a browser says by itself about a request that failed; the page told the person in its own words.
FAILED_REQUEST = re.compile(r"Failed to load resource")


class Browsing:
    """Windows of a browser: the page opened in them, and everything it complained about."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._open: list[BrowserContext] = []
        self.complaints: list[str] = []
        self._expected: list[re.Pattern[str]] = []

    def expect(self, pattern: re.Pattern[str]) -> None:
        """Let a complaint pass that belongs to what is tested."""
        self._expected.append(pattern)

    async def open(self, url: str, where: str = "", **context: Any) -> Page:
        """Open the page somewhere."""
        made = await self._browser.new_context(**context)
        self._open.append(made)
        made.set_default_timeout(DEADLINE_MILLISECONDS)
        page = await made.new_page()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        await page.add_init_script(
            "document.addEventListener('securitypolicyviolation', (e) => console.error('CSP', e.violatedDirective))"
        )
        await page.goto(f"{url}/{where}")
        # A script that does not even load is told at once, not when everything else has been waited for.
        self.check()
        return page

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning", "assert"}:
            self.complaints.append(f"{message.type}: {message.text} ({message.location['url']})")

    def check(self) -> None:
        """Raise where a page complained about something that nobody expected."""
        unexpected = [one for one in self.complaints if not any(known.search(one) for known in self._expected)]
        assert not unexpected, unexpected

    async def close(self) -> None:
        """Close all windows."""
        while self._open:
            await self._open.pop().close()

    @asynccontextmanager
    async def gateway(
        self,
        *models: Model,
        store: Store | None = None,
        keys: Path | None = None,
        tools: Sequence[Callable[..., object]] = (),
    ) -> AsyncIterator[Running]:
        """Run a gateway with the page. Windows are closed before it is, and must not have complained until then."""
        async with a_gateway_with_page(*models, store=store, keys=keys, tools=tools) as running:
            try:
                yield running
                self.check()
            finally:
                await self.close()


@asynccontextmanager
async def a_gateway_with_page(
    *models: Model,
    store: Store | None = None,
    keys: Path | None = None,
    tools: Sequence[Callable[..., object]] = (),
) -> AsyncGenerator[Running]:
    """Run a gateway that also serves the page."""
    async with a_gateway(*models, store=store, keys=keys, tools=tools) as running:
        running.gateway._mounts[""] = Mount(Files(), is_open=True)
        yield running


@asynccontextmanager
async def a_program(store: Path, port: int = 0) -> AsyncGenerator[tuple["subprocess.Popen[bytes]", str]]:
    """Run `holdfast serve` until the end of the context, and give its address."""
    program = subprocess.Popen(  # noqa: ASYNC220 - starting one takes a millisecond, and nobody waits behind it
        [*PROGRAM, "serve", "--port", str(port), "--store", str(store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
        cwd=store.parent,
    )
    try:
        assert program.stdout is not None
        line = await asyncio.wait_for(asyncio.to_thread(program.stdout.readline), DEADLINE_SECONDS)
        yield program, line.decode().split()[-1]
    finally:
        program.kill()
        program.communicate()


def at(key: str, *parts: str | int) -> str:
    """Return the place of a session in the page."""
    return "#/s/" + "/".join(quote(str(part), safe="") for part in (key, *parts))


def a_turn(number: int, said: str, answer: str) -> list[LeasedRecord]:
    """Return the records of a turn whose message has this seq."""
    usage = Usage(input_tokens=1_000 + number, output_tokens=20)
    reply = Reply((Text(answer),), StopReason.END, usage, "test:model")
    return [
        InputAdmitted((Text(said),)),
        TurnStarted(number),
        AttemptStarted(number, 1, "test:model", 1_000 + number),
        ReplyRecorded(number, 1, reply),
        TurnEnded(number, Outcome.ANSWERED),
    ]


RECORDS_OF_A_TURN = 5


async def write_turns(store: Store, key: str, count: int, *, together: int = 400) -> None:
    """Write so many turns into a log, as an import would."""
    lease = await store.acquire(key, "test", seconds=600)
    assert lease is not None
    after = 0
    for begin in range(0, count, together):
        records: list[LeasedRecord] = []
        for turn in range(begin, min(begin + together, count)):
            number = turn * RECORDS_OF_A_TURN + 1
            records += a_turn(number, f"question {turn + 1}", f"answer {turn + 1}")
        after = await store.append(lease, records, after=after)
    await store.release(lease)


async def make_sessions(store: Store, keys: Sequence[str]) -> None:
    """Make sessions that have settings and nothing else."""
    for key in keys:
        await store.admit(key, SessionConfigured())


async def nodes(page: Page) -> int:
    """Return how many elements are on the page."""
    return int(await page.evaluate("document.querySelectorAll('*').length"))
