"""What was seen of a demo from outside, and what its store holds: the two sides that are held against each other."""

from pathlib import Path
from typing import NamedTuple

import msgspec

from holdfast.cli.demo.caller import Sent
from holdfast.cli.demo.damage import Flip
from holdfast.core.messages import Media
from holdfast.core.records import CompactionOutcome, InputAdmitted, Logged
from holdfast.ports import Quarantined, Store
from holdfast.runtime.doctor import Finding
from holdfast.stores.archived import ArchivedStore
from holdfast.stores.blobs import FolderBlobs
from holdfast.stores.sqlite.copying import beside
from holdfast.stores.sqlite.read_only import SqliteView
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
