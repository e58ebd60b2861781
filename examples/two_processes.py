"""Two processes, one session: the first accepts a message and dies, the second answers it.

The child ends by SIGKILL right after its message was accepted, before anybody could answer it. It prints:

    accepted as message 1, then killed
    You said: "are you there?". This is message 1 from you that I see.
"""

import asyncio
import os
import signal
import subprocess
import sys

import holdfast

STORE, KEY = "examples.db", "two"


async def accept_and_die() -> None:
    """Be the process that dies."""
    async with holdfast.open(STORE) as client:
        turn = await (await client.session(KEY)).post("are you there?")
        print(f"accepted as message {turn}, then killed", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


async def go_on() -> None:
    """Be the one that goes on: opening the store is all it takes."""
    async with holdfast.open(STORE) as client:
        print(await (await client.session(KEY)).wait(1))


if sys.argv[1:] == ["child"]:
    asyncio.run(accept_and_die())
else:
    subprocess.run([sys.executable, __file__, "child"], check=False)  # noqa: S603 - ourselves
    asyncio.run(go_on())
