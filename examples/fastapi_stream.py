"""A FastAPI handler that streams answers, and keeps each user's conversation. Needs fastapi and uvicorn.

One client serves all requests. The client id is the browser's: a request that is repeated after a lost connection is
the same message, and its answer is streamed again. Here the program also plays the browser, twice.

It prints:

    first:  I will remember that harbour = Kiel.
    again:  I will remember that harbour = Kiel.
    second: harbour = Kiel.
    messages in the log: 2
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import uvicorn
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

import holdfast
from holdfast.types.records import InputAdmitted


@asynccontextmanager
async def lifespan(served: FastAPI) -> AsyncIterator[None]:
    """Open the store for as long as the server runs."""
    async with holdfast.open("chats.db") as client:
        served.state.client = client
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/chats/{user}")
async def chat(user: str, text: str, message_id: str) -> StreamingResponse:
    """Stream the answer to a message as plain text."""
    session = await app.state.client.session(f"web:{user}")

    async def pieces() -> AsyncIterator[str]:
        async for event in session.stream(text, client_id=message_id):
            if isinstance(event, holdfast.TextDelta):
                yield event.text

    return StreamingResponse(pieces(), media_type="text/plain")


async def browse(url: str) -> None:
    """Send three requests, of which the second repeats the first."""
    sent = {
        "first: ": {"text": "remember harbour = Kiel", "message_id": "m-1"},
        "again: ": {"text": "remember harbour = Kiel", "message_id": "m-1"},
        "second:": {"text": "what is harbour?", "message_id": "m-2"},
    }
    async with aiohttp.ClientSession(base_url=url) as browser:
        for name, query in sent.items():
            async with browser.post("/chats/42", params=query) as response:
                print(name, await response.text())


async def main() -> None:
    """Serve on a free port, and be the browser too."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", ws="none"))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    await browse(f"http://127.0.0.1:{port}")
    records = await (await app.state.client.session("web:42")).history()
    print("messages in the log:", sum(isinstance(one.record, InputAdmitted) for one in records))
    server.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(main())
