"""A Chromium of the system, driven over its debugging protocol with the HTTP client that is there anyway."""

import asyncio
import itertools
import os
import re
import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Without a sandbox, because CI is root, and without calls to its maker.
_ARGUMENTS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--remote-debugging-port=0"),
    # High enough that lists show all their rows.
    "--window-size=1200,12000",
)
_LISTENING = re.compile(rb"DevTools listening on (ws://\S+)")
_START_SECONDS_MAX, _ANSWER_SECONDS_MAX = 60.0, 30.0


def chromium_path() -> str | None:
    """Return the path of a Chromium; None if there is none."""
    return os.environ.get("HOLDFAST_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)


class Tab:
    """One tab: it evaluates expressions, and remembers which addresses it asked for and which dialogs it opened."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._session = ""
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.requested: list[str] = []
        self.dialogs: list[str] = []

    async def open(self, url: str) -> None:
        """Open an address."""
        if not self._session:
            target = await self._call("Target.createTarget", {"url": "about:blank"})
            attached = await self._call("Target.attachToTarget", {"targetId": target["targetId"], "flatten": True})
            self._session = str(attached["sessionId"])
            for domain in ("Page", "Network", "Runtime"):
                await self._call(f"{domain}.enable", {})
        # Another fragment alone would not load the page again.
        await self._call("Page.navigate", {"url": "about:blank"})
        await self._call("Page.navigate", {"url": url})

    async def evaluate(self, expression: str) -> object:
        """Return the value of an expression in the page; None if there is no such value now."""
        found = await self._call("Runtime.evaluate", {"expression": expression, "returnByValue": True})
        return found.get("result", {}).get("value")

    async def _call(self, method: str, given: Mapping[str, object]) -> dict[str, Any]:
        number = next(self._numbers)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        session = {"sessionId": self._session} if self._session else {}
        await self._socket.send_json({"id": number, "method": method, "params": given, **session})
        return await asyncio.wait_for(waiting, _ANSWER_SECONDS_MAX)

    async def read(self) -> None:
        """Read answers and events until the connection ends."""
        async for message in self._socket:
            event = message.json()
            match event:
                case {"id": number}:
                    self._waiting.pop(number).set_result(event.get("result", {}))
                case {"method": "Network.requestWillBeSent", "params": {"request": {"url": url}}}:
                    self.requested.append(url)
                case {"method": "Page.javascriptDialogOpening", "params": {"message": text}}:
                    self.dialogs.append(text)
                    await self._socket.send_json(
                        {"id": 0, "method": "Page.handleJavaScriptDialog", "params": {"accept": False}}
                    )
                    self._waiting[0] = asyncio.get_running_loop().create_future()
                case _:
                    pass


@asynccontextmanager
async def browser_tab(path: str, profile: Path, http: aiohttp.ClientSession) -> AsyncGenerator[Tab, None]:
    """Start a Chromium with a profile of its own, and yield a tab."""
    program = await asyncio.create_subprocess_exec(
        *(path, *_ARGUMENTS, f"--user-data-dir={profile}"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert program.stderr is not None, "piped"
    log: asyncio.Task[bytes] | None = None
    try:
        async with asyncio.timeout(_START_SECONDS_MAX):
            while (found := _LISTENING.search(await program.stderr.readline())) is None:
                if program.stderr.at_eof():
                    raise RuntimeError(f"{path} ended at its start")
        # A pipe that nobody reads would fill up.
        log = asyncio.ensure_future(program.stderr.read())
        async with http.ws_connect(found[1].decode(), max_msg_size=0) as socket:
            tab = Tab(socket)
            reading = asyncio.ensure_future(tab.read())
            try:
                yield tab
            finally:
                reading.cancel()
                await asyncio.wait([reading])
    finally:
        with suppress(ProcessLookupError):
            program.kill()
        await program.wait()
        if log is not None:
            await log
