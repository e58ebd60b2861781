"""Looking a whole store over: every row, every fold, every blob and segment that a record names.

Only reads, page by page, and is safe beside others who use the store: where they wrote while it looked, it looks again,
so nothing is called wrong that was only new.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from types import MappingProxyType

import msgspec

from holdfast.core.integrity.reconcile import (
    ClearSealed,
    Copy,
    DropSnapshot,
    LogRepair,
    MarkMissing,
    PutAgain,
    PutBack,
    Recount,
    SetAside,
    told,
)
from holdfast.core.integrity.segments import SegmentTornError, unpack_header, unpack_segment
from holdfast.core.view import conversation, lens_of, messages_in_view, uncovered, unpaired
from holdfast.errors import BlobMissingError, HoldfastError, SegmentMissingError
from holdfast.ports import Archive, Blobs, Segment, Store
from holdfast.runtime.engine.log import open_log, pages
from holdfast.runtime.maintenance.healing import Fold, contested, fold_whole, needed, needed_of_segments
from holdfast.runtime.maintenance.sealing import still_live
from holdfast.types.messages import BlobRef
from holdfast.types.records import DamageSetAside, refs_of

# A blob is checked in pieces of this size, so that memory does not grow with it.
_PIECE_BYTES = 2**20
# A session that is written to while it is looked at is looked at again so often.
_LOOKS_MAX = 5


# Blobs that a session names, and the store does not know it; a segment that the archive does not have as it was sealed.
UNNOTED, SEGMENT = "unnoted_blobs", "segment"

# What each repair is the answer to.
_CODES: Mapping[type[LogRepair], str] = MappingProxyType(
    {
        SetAside: "damaged_record",
        PutBack: "moved_record",
        MarkMissing: "missing_record",
        ClearSealed: "sealed_and_live",
        DropSnapshot: "snapshot",
        Recount: "counter",
    }
)


class Finding(msgspec.Struct, frozen=True):
    """Something that is not as it must be: where, what, and what would be done about it."""

    code: str
    what: str
    session: str = ""
    seq: int = 0
    # What `--fix` does; "" where a person must act, and then `what` says how.
    remedy: str = ""


class Doctor:
    """Looks sessions over, one after the other, and remembers which blobs they name."""

    def __init__(self, store: Store, blobs: Blobs, archive: Archive | None = None) -> None:
        self._store, self._blobs, self._archive = store, blobs, archive
        # Blobs that were named so far, as bytes to be small, each with what is wrong with it.
        self._named: dict[bytes, str] = {}

    async def look_at(self, session: str) -> list[Finding]:
        """Return what is wrong with one session."""
        findings: list[Finding] = []
        for _ in range(_LOOKS_MAX):
            try:
                fold = await fold_whole(self._store, session)
                findings = [finding async for finding in self._look(session, fold)]
                known = await self._store.info(session)
            except HoldfastError as error:
                # A newer version's record, or a gap that is too long: nobody can go past it.
                return [Finding("unreadable", str(error), session)]
            if not findings or known is None or known.last_seq == fold.turn.seq:
                return findings
        return findings

    async def _look(self, session: str, fold: Fold) -> AsyncIterator[Finding]:
        for repair in await needed(self._store, fold):
            seq = getattr(repair, "seq", 0)
            yield Finding(_CODES[type(repair)], repair.why, session, seq, told(repair))
        for clear in await contested(self._store, session):
            what = (
                f"records {clear.run.first} to {clear.run.last} are live although they are sealed, and the archive "
                "does not give them back as they are; they stay live"
            )
            yield Finding("sealed_and_live", what, session, clear.run.first)
        async for finding in self._look_at_view(session):
            yield finding
        async for finding in self._look_at_blobs(session):
            yield finding
        async for finding in self._look_at_segments(session):
            yield finding

    async def _look_at_segments(self, session: str) -> AsyncIterator[Finding]:
        """Each segment is in the archive and holds what was sealed, or can be put there again."""
        segments = {one.name: one for one in await self._store.segments(session)}
        copies = {name: await self._copy_of(one) for name, one in segments.items()}
        faults = {name: fault for name, (_, fault) in copies.items() if fault}
        if not faults:
            return
        repairs = await needed_of_segments(self._store, session, {name: copy for name, (copy, _) in copies.items()})
        again = {one.name: told(one) for one in repairs if isinstance(one, PutAgain)}
        for name, fault in faults.items():
            segment, where = segments[name], f"records {segments[name].first} to {segments[name].last}: {fault}"
            if name in again and await still_live(self._store, segment) is not None:
                yield Finding(SEGMENT, where, session, segment.first, again[name])
            else:
                yield Finding(SEGMENT, f"{where}; restore it from a backup of the archive", session, segment.first)

    async def _look_at_view(self, session: str) -> AsyncIterator[Finding]:
        """What the model would see holds every message, and each call with its result."""
        log = await open_log(self._store, session)
        turn = log.turn
        said = conversation(log.tail, first_turn=turn.boundary, first_step=turn.first_step, lens=lens_of(turn))
        for seq in uncovered(log.tail, turn, said):
            what = f"message {seq} is neither shown nor represented; please report this"
            yield Finding("coverage", what, session, seq)
        for call_id in unpaired(messages_in_view(log.tail, turn, pinned=log.pinned)):
            yield Finding("pairs", f"tool call {call_id} has not exactly one result; please report this", session)

    async def _look_at_blobs(self, session: str) -> AsyncIterator[Finding]:
        """Each blob is there and is what its name says, and the store knows that it is named here."""
        seen: set[str] = set()
        async for page in pages(self._store, session):
            for logged in page:
                for ref in refs_of(logged.record):
                    seen.add(ref.sha256)
                    name = bytes.fromhex(ref.sha256)
                    if name not in self._named:
                        self._named[name] = await self._fault_of_blob(ref)
                    if self._named[name]:
                        yield Finding("blob", self._named[name], session, logged.seq)
        # After the log: what has come since is noted in the same step.
        lacking = seen - {ref.sha256 for ref in await self._store.blob_refs(session)}
        if lacking and session not in await self._store.unscanned_sessions():
            what = f"{len(lacking):,} blobs that its records name are not noted, and would go with another session"
            yield Finding(UNNOTED, what, session, remedy="they are noted again")

    async def _fault_of_blob(self, ref: BlobRef) -> str:
        digest, start = hashlib.sha256(), 0
        try:
            while piece := await self._blobs.read(ref, start=start, length=_PIECE_BYTES):
                await asyncio.to_thread(digest.update, piece)
                start += len(piece)
        except BlobMissingError as error:
            return str(error)
        if digest.hexdigest() == ref.sha256:
            return ""
        return str(BlobMissingError(ref.sha256, "was altered: its bytes do not match its name"))

    async def _copy_of(self, segment: Segment) -> tuple[Copy, str]:
        """Return how a segment stands in the archive, and what is wrong with it."""
        if self._archive is None:
            return Copy.WHOLE, ""
        try:
            body = await self._archive.get(segment.name)
        except SegmentMissingError:
            return Copy.MISSING, f"segment {segment.name} is not in the archive"

        def check() -> tuple[Copy, str]:
            try:
                header, rows = unpack_segment(body)
            except SegmentTornError as torn:
                return Copy.DAMAGED, f"segment {segment.name} is damaged: {torn}"
            is_it = (header.session, header.first, header.last) == (segment.session, segment.first, segment.last)
            if is_it and len(rows) == segment.last - segment.first + 1:
                return Copy.WHOLE, ""
            return Copy.DAMAGED, f"segment {segment.name} holds other records than its seal says"

        return await asyncio.to_thread(check)

    async def unsealed(self, sessions: Sequence[str]) -> tuple[list[Segment], int]:
        """Return the segments that nothing seals and that alone have their records, and how many others there are.

        A segment without a seal is what a process leaves that died before it could record it. Its records are live, and
        the next seal takes it up. Only where they are not, the seal itself is what was lost.
        """
        if self._archive is None:
            return [], 0
        sealed = {segment.name for session in sessions for segment in await self._store.segments(session)}
        needed_again: list[Segment] = []
        harmless = 0
        for name in await self._archive.names():
            if name in sealed:
                continue
            body = await self._archive.get(name)
            try:
                header = unpack_header(body)
            except SegmentTornError:
                harmless += 1
                continue
            digest = hashlib.sha256(body).hexdigest()
            segment = Segment(header.session, header.first, header.last, name, digest, len(body))
            if await self._has(segment):
                harmless += 1
            else:
                needed_again.append(segment)
        return needed_again, harmless

    async def _has(self, segment: Segment) -> bool:
        """Whether the log has the first and the last record of a segment by itself."""
        for seq in (segment.first, segment.last):
            found = await self._store.read(segment.session, after=seq - 1, limit=1)
            if not found or isinstance(found[0].record, DamageSetAside):
                return False
        return True

    def names(self, sha256: str) -> bool:
        """Whether some record that was looked at names a blob."""
        return bytes.fromhex(sha256) in self._named
