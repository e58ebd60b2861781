"""What was seen of a demo from outside, and what its store holds: the two sides that are held against each other."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import aiohttp
import msgspec

from holdfast.lab.demo.client import Caller, Sent
from holdfast.lab.demo.inputs import Flip
from holdfast.models.transport import BrokenOffError
from holdfast.ports import Quarantined, Store
from holdfast.runtime.maintenance.doctor import Finding
from holdfast.stores.archived import ArchivedStore
from holdfast.stores.blobs import FolderBlobs
from holdfast.stores.sqlite.copy import beside
from holdfast.stores.sqlite.read_only import SqliteView
from holdfast.types.messages import Media
from holdfast.types.records import AnyRecord, CompactionOutcome, InputAdmitted, Logged
from holdfast.wiring import open_archive


class Race(msgspec.Struct, frozen=True):
    """Two gateways were asked for a compaction at once: what both were told, and between which records that was."""

    after: int
    until: int
    outcomes: tuple[CompactionOutcome, ...]


class Witness(msgspec.Struct):
    """Everything that was seen from outside, in the order in which it came."""

    window_tokens: int
    sent: list[Sent] = []
    # Records as they were told while they were written, and how many came twice or not in order.
    watched: list[Logged] = []
    misplaced: int = 0
    # What the gateways exited with that were killed, and the records that were the newest then.
    killed: list[tuple[int, int]] = []
    race: Race | None = None
    flip: Flip | None = None
    # What `holdfast doctor` found with the bit flipped, and at the end.
    found_after_flip: tuple[Finding, ...] = ()
    found_at_end: tuple[Finding, ...] | None = None
    # By name: what was planted, what the model answered at the end, and what was found by searching for it.
    facts: dict[str, str] = {}
    recalled: dict[str, str] = {}
    searched: dict[str, str] = {}


class Held(NamedTuple):
    """What the store holds of the session, read from its files by nobody who wrote them."""

    records: list[Logged]
    quarantined: list[Quarantined]
    # The attachments that the messages name, by their SHA-256.
    attachments: dict[str, bytes]


async def read_store(path: Path, key: str) -> Held:
    """Read a session from the files of a store, without writing to them."""
    view, archive = SqliteView(path), open_archive(None, path)
    store: Store = view if archive is None else ArchivedStore(view, archive)
    try:
        if await store.info(key) is None:
            return Held([], [], {})
        records = await store.read(key)
        blobs = FolderBlobs(beside(path, "-blobs"))
        inputs = [logged.record for logged in records if isinstance(logged.record, InputAdmitted)]
        media = [part for one in inputs for part in one.parts if isinstance(part, Media)]
        attachments = {part.blob.sha256: await blobs.get(part.blob) for part in media}
        return Held(records, await store.quarantine(key), attachments)
    finally:
        await store.close()


# --- Whoever watches the session over HTTP: every record once and in order, over every restart of the gateway.


# Between two tries to reach a gateway that is down.
_RETRY_SECONDS = 0.05


class Watcher:
    """Watches one session from its first record on."""

    def __init__(self, caller: Caller, tell: Callable[[Logged], None]) -> None:
        self._caller, self._tell = caller, tell
        self._came = asyncio.Condition()
        self.seen: list[Logged] = []
        # Records that came twice, or not in order.
        self.misplaced = 0

    @property
    def last_seq(self) -> int:
        """The number of the newest record that was seen."""
        return self.seen[-1].seq if self.seen else 0

    async def watch(self) -> None:
        """Watch without end; a gateway that goes away is asked again for what came since."""
        while True:
            with suppress(aiohttp.ClientError, BrokenOffError, OSError):
                async with self._caller.records(self.last_seq) as records:
                    async for logged in records:
                        await self._see(logged)
            await asyncio.sleep(_RETRY_SECONDS)

    async def until(self, is_it: Callable[[AnyRecord], bool], *, after: int) -> Logged:
        """Return the first record behind a number of which something is true, waiting for it to come."""

        def found() -> Logged | None:
            return next((logged for logged in self.seen if logged.seq > after and is_it(logged.record)), None)

        async with self._came:
            logged = await self._came.wait_for(found)
        assert logged is not None, "it was waited for"
        return logged

    async def reach(self, seq: int) -> None:
        """Wait until the record with this number has been seen."""
        async with self._came:
            await self._came.wait_for(lambda: self.last_seq >= seq)

    async def _see(self, logged: Logged) -> None:
        self.misplaced += logged.seq != self.last_seq + 1
        async with self._came:
            self.seen.append(logged)
            self._came.notify_all()
        self._tell(logged)
