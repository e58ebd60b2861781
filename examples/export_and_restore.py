"""Export a session from one store and import it into another, with attachments and a checksum.

It prints:

    10 records and 1 blob are in the file
    harbour = Kiel.
"""

import asyncio
from pathlib import Path

import holdfast


async def main() -> None:
    """Export from one store, import into another, and continue there."""
    notes, copy = Path("notes.txt"), Path("kiel.jsonl")
    notes.write_text("The harbour master is Ada.\n")
    async with holdfast.open("examples.db") as client:
        chat = await client.session("moving")
        await chat.send("remember harbour = Kiel")
        await chat.send("keep this", attachments=[notes])
        copy.write_bytes(b"".join([line async for line in client.export("moving")]))
    async with holdfast.open("elsewhere.db") as client:
        copied = await client.import_(copy, key="moved")
        print(f"{copied.records} records and {copied.blobs} blob are in the file")
        print(await (await client.session("moved")).send("what is harbour?"))


asyncio.run(main())
