"""A program on a disk that fills up: a small mounted file system with real records and real errors.

Run by `test_full_disk.py` in its own namespace, with the mount folder as argument. Prints one JSON object.
"""

import asyncio
import json
import logging
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from holdfast.errors import HoldfastError, TurnFailedError
from holdfast.ports import Attachment
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.session import Session
from holdfast.stores.blobs import FolderBlobs
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.reserve import is_released
from holdfast.testing.crashes import check_log
from holdfast.testing.engines import FunctionModel, a_hold, an_engine, says
from holdfast.types.messages import Reply, Request, text_of
from holdfast.types.records import InputAdmitted, TurnEnded

KEY = "telegram:42"


def fill(folder: Path) -> None:
    """Fill the disk completely."""
    with (folder / "filler").open("ab", buffering=0) as filler, suppress(OSError):
        for size_bytes in (2**20, 2**12, 1):
            with suppress(OSError):
                while True:
                    filler.write(bytes(size_bytes))


def free(folder: Path) -> None:
    (folder / "filler").unlink()


async def told(session: Session, text: str, *attachments: Attachment) -> str:
    """Send a message, and return the answer or the error."""
    try:
        return (await session.send(text, attachments=attachments)).text
    except TurnFailedError as failed:
        return f"ended: {failed.reason}"
    except HoldfastError as error:
        return f"refused: {error.code}"


class Program:
    """A process with a store on the small disk, and a model that fills the disk on request."""

    def __init__(self, folder: Path, *, dies: bool = False) -> None:
        self._folder, self._dies = folder, dies
        self.store = SqliteStore(folder / "s.db", clock=SystemClock())
        model = FunctionModel(self._answer)
        self.engine = an_engine(model, store=self.store, blobs=FolderBlobs(folder / "s.db-blobs"))

    def _answer(self, request: Request) -> Reply:
        if "fill" in text_of(request.messages[-1].parts):
            fill(self._folder)
            if self._dies:
                os.kill(os.getpid(), signal.SIGKILL)
        return says("aye")


async def fills_up(folder: Path) -> dict[str, object]:
    program = Program(folder)
    happened: dict[str, object] = {}
    async with a_hold(program.engine) as client:
        session = await client.session(KEY)
        happened["before"] = await told(session, "hello")
        happened["filling"] = await told(session, "fill it " + "x" * 20_000)
        happened["given up"] = is_released(folder / "s.db")
        happened["while full"] = [await told(session, "more"), await told(session, "more")]
        happened["attached while full"] = await told(session, "look", Attachment(b"y" * 200_000, "notes.txt"))
        happened["others while full"] = await told(await client.session("telegram:7"), "hello")
        free(folder)
        happened["with room"] = await until_taken(client)
        happened["made again"] = not is_released(folder / "s.db")
        fill(folder)
        happened["full again"] = await told(session, "fill it " + "x" * 20_000)
        free(folder)
    await check(program, happened)
    return happened


async def until_taken(client: Client) -> str:
    """Send until it is taken: whether there is room is looked at twice a second."""
    session = await client.session(KEY)
    while (answer := await told(session, "and now?")) == "refused: store_full":  # noqa: ASYNC110 - nobody tells of room
        await asyncio.sleep(0.1)
    return answer


async def check(program: Program, happened: dict[str, object]) -> None:
    records = await program.store.read(KEY)
    inputs = [logged.seq for logged in records if isinstance(logged.record, InputAdmitted)]
    check_log(records, accepted=inputs)
    happened["outcomes"] = [logged.record.code for logged in records if isinstance(logged.record, TurnEnded)]
    await program.store.close()


def dies_full(folder: Path) -> dict[str, object]:
    """Die in the middle of a turn on a disk that is full, then start on it."""
    pid = os.fork()
    if pid == 0:
        asyncio.run(_die(folder))
    os.waitpid(pid, 0)
    return asyncio.run(_start_full(folder))


async def _die(folder: Path) -> None:
    async with a_hold(Program(folder, dies=True).engine) as client:
        await told(await client.session(KEY), "fill it " + "x" * 20_000)


async def _start_full(folder: Path) -> dict[str, object]:
    program = Program(folder)
    happened: dict[str, object] = {}
    async with a_hold(program.engine) as client:
        session = await client.session(KEY)
        try:
            await session.wait(1)
        except TurnFailedError as failed:
            happened["owed"] = f"ended: {failed.reason}"
        happened["while full"] = await told(session, "more")
        free(folder)
        happened["with room"] = await until_taken(client)
    await check(program, happened)
    return happened


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    place = Path(sys.argv[2])
    found = asyncio.run(fills_up(place)) if sys.argv[1] == "fills up" else dies_full(place)
    sys.stdout.write(json.dumps(found))
