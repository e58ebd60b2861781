"""Two processes, one session: the first accepts a message and dies, the second answers it.

The child is killed by SIGKILL right after the message was accepted, before it was answered. It prints:

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
    """Accept a message, then die."""
    async with holdfast.open(STORE) as client:
        turn = await (await client.session(KEY)).post("are you there?")
        print(f"accepted as message {turn}, then killed", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


async def recover() -> None:
    """Open the store, which resumes unfinished turns, and wait for the answer."""
    async with holdfast.open(STORE) as client:
        print(await (await client.session(KEY)).wait(1))


if sys.argv[1:] == ["child"]:
    asyncio.run(accept_and_die())
else:
    subprocess.run([sys.executable, __file__, "child"], check=False)  # noqa: S603 - ourselves
    asyncio.run(recover())
