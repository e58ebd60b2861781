"""A batch of 50 sessions, eight at a time, that can be started again after a crash.

Each document has a session and a client id of its own. Documents that are done are not paid for again: the second run
reads their answers from the log.

It prints:

    50 documents, 50 calls, depths sum up to 1225
    50 documents, 50 calls, depths sum up to 1225
"""

import asyncio
from dataclasses import dataclass

import holdfast

DOCUMENTS = {f"doc-{number:02}": f"Report {number}. depth = {number}" for number in range(50)}


@dataclass
class Report:
    """What is wanted of each document."""

    depth: int


async def read(client: holdfast.Client, name: str, text: str, slots: asyncio.Semaphore) -> Report:
    """Return the report of one document."""
    async with slots:
        chat = await client.session(f"batch:{name}", settings=holdfast.Settings(temperature=0))
        return (await chat.send(text, client_id=name, output=Report)).output


async def run() -> None:
    """Read all documents."""
    slots = asyncio.Semaphore(8)
    async with holdfast.open("batch.db") as client:
        reports = await asyncio.gather(*(read(client, name, text, slots) for name, text in DOCUMENTS.items()))
        calls = 0
        for name in DOCUMENTS:
            calls += (await (await client.session(f"batch:{name}")).state()).spent.calls
    print(f"{len(reports)} documents, {calls} calls, depths sum up to {sum(one.depth for one in reports)}")


for _ in range(2):
    asyncio.run(run())
