"""A tool call that a person approves later, in another process, after the first one was killed.

The question is a record in the log. The first process is killed with SIGKILL while it waits; the second one finds the
question, approves it, and the tool runs once.

It prints:

    the first process waits for an approval, and is killed
    waiting: transfer {"amount": 250}
    transferred 250
    The tool transfer returned: done
    runs: 1
"""

import asyncio
import multiprocessing
import signal
import sys
from pathlib import Path

import holdfast
from holdfast.types.records import ApprovalRequested

STORE, RUNS = Path("approval.db"), Path("runs.txt")


@holdfast.tool(approve=True)
def transfer(amount: int) -> str:
    """Transfer money."""
    with RUNS.open("a", encoding="utf-8") as file:
        file.write(f"{amount}\n")
    print(f"transferred {amount}")
    return "done"


async def ask() -> None:
    """Send the message, wait for the question, and stay until somebody kills this process."""
    async with holdfast.open(STORE, tools=[transfer]) as client:
        chat = await client.session("bank:7")
        async for event in chat.stream('call transfer {"amount": 250}', client_id="message-1"):
            if isinstance(event, holdfast.Logged) and isinstance(event.record, ApprovalRequested):
                signal.raise_signal(signal.SIGKILL)


async def answer() -> None:
    """Approve what waits, and read the answer to the message."""
    async with holdfast.open(STORE, tools=[transfer]) as client:
        chat = await client.session("bank:7")
        for waiting in await chat.approvals():
            print(f"waiting: {waiting.tool} {waiting.arguments}")
            await chat.approve(waiting.request)
        # The same client id: this is the same message, and its one answer.
        print(await chat.send('call transfer {"amount": 250}', client_id="message-1"))


def first_process() -> None:
    """Run in a process of its own."""
    asyncio.run(ask())


if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=first_process)
    process.start()
    process.join()
    if process.exitcode != -signal.SIGKILL:
        sys.exit("the first process ended by itself")
    print("the first process waits for an approval, and is killed")
    asyncio.run(answer())
    print("runs:", len(RUNS.read_text("utf-8").splitlines()))
