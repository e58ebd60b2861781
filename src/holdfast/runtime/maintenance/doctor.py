"""Integrity check of sessions: every row and snapshot, and every blob and segment that a record names.

The check only reads, page by page, and may run while the store is in use. It repeats a session that was written to
meanwhile, so a record in the making is not reported as a fault.
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
    describe,
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

# Chunk size of a blob check, so that memory does not grow with the blob.
_PIECE_BYTES = 2**20
# Checks of one session that is written to meanwhile.
_CHECKS_MAX = 5


# Codes of findings: blob references that the store lacks, and a segment that is missing or damaged in the archive.
UNNOTED, SEGMENT = "unnoted_blobs", "segment"

# The code of the finding that each repair resolves.
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
    """A fault, its place and its repair."""

    code: str
    what: str
    session: str = ""
    seq: int = 0
    # The action of `--fix`; "" if an operator must act, as `what` describes.
    remedy: str = ""


class Doctor:
    """Checks sessions one by one, and remembers the blobs that they name."""

    def __init__(self, store: Store, blobs: Blobs, archive: Archive | None = None) -> None:
        self._store, self._blobs, self._archive = store, blobs, archive
        # The fault of each blob named so far, "" if none. The keys are bytes to save memory.
        self._named: dict[bytes, str] = {}

    async def check(self, session: str) -> list[Finding]:
        """Return the findings of one session."""
        findings: list[Finding] = []
        for _ in range(_CHECKS_MAX):
            try:
                fold = await fold_whole(self._store, session)
                findings = [finding async for finding in self._findings(session, fold)]
                known = await self._store.info(session)
            except HoldfastError as error:
                # A record of a newer version, or a gap that is too long, ends the log for every reader.
                return [Finding("unreadable", str(error), session)]
            if not findings or known is None or known.last_seq == fold.turn.seq:
                return findings
        return findings

    async def _findings(self, session: str, fold: Fold) -> AsyncIterator[Finding]:
        for repair in await needed(self._store, fold):
            seq = getattr(repair, "seq", 0)
            yield Finding(_CODES[type(repair)], repair.why, session, seq, describe(repair))
        for clear in await contested(self._store, session):
            what = (
                f"records {clear.run.first} to {clear.run.last} are sealed but still live, and the archive has no "
                "identical copy; they stay live"
            )
            yield Finding("sealed_and_live", what, session, clear.run.first)
        for check in (self._check_view, self._check_blobs, self._check_segments):
            async for finding in check(session):
                yield finding

    async def _check_segments(self, session: str) -> AsyncIterator[Finding]:
        """Check that the archive has each segment as it was sealed."""
        segments = {one.name: one for one in await self._store.segments(session)}
        copies = {name: await self._copy_of(one) for name, one in segments.items()}
        faults = {name: fault for name, (_, fault) in copies.items() if fault}
        if not faults:
            return
        remedies = await self._segment_remedies(session, {name: copy for name, (copy, _) in copies.items()})
        for name, fault in faults.items():
            segment, where = segments[name], f"records {segments[name].first} to {segments[name].last}: {fault}"
            if name in remedies and await still_live(self._store, segment) is not None:
                yield Finding(SEGMENT, where, session, segment.first, remedies[name])
            else:
                yield Finding(SEGMENT, f"{where}; restore it from a backup of the archive", session, segment.first)

    async def _segment_remedies(self, session: str, copies: Mapping[str, Copy]) -> dict[str, str]:
        repairs = await needed_of_segments(self._store, session, copies)
        return {one.name: describe(one) for one in repairs if isinstance(one, PutAgain)}

    async def _check_view(self, session: str) -> AsyncIterator[Finding]:
        """Check that the view covers every message and pairs each tool call with one result."""
        log = await open_log(self._store, session)
        turn = log.turn
        messages = conversation(log.tail, first_turn=turn.boundary, first_step=turn.first_step, lens=lens_of(turn))
        for seq in uncovered(log.tail, turn, messages):
            what = f"message {seq} is neither in the view nor in a summary; please report this"
            yield Finding("coverage", what, session, seq)
        for call_id in unpaired(messages_in_view(log.tail, turn, pinned=log.pinned)):
            yield Finding("pairs", f"tool call {call_id} does not have exactly one result; please report this", session)

    async def _check_blobs(self, session: str) -> AsyncIterator[Finding]:
        """Check that each blob exists and matches its hash, and that the store has its reference to this session."""
        seen: set[str] = set()
        async for page in pages(self._store, session):
            for logged in page:
                for ref in refs_of(logged.record):
                    seen.add(ref.sha256)
                    name = bytes.fromhex(ref.sha256)
                    if name not in self._named:
                        self._named[name] = await self._blob_fault(ref)
                    if self._named[name]:
                        yield Finding("blob", self._named[name], session, logged.seq)
        # Read after the log: an append records its references in the same transaction.
        missing = seen - {ref.sha256 for ref in await self._store.blob_refs(session)}
        if missing and session not in await self._store.unscanned_sessions():
            what = f"references to {len(missing):,} blobs are missing; deleting another session could remove the blobs"
            yield Finding(UNNOTED, what, session, remedy="record the references again")

    async def _blob_fault(self, ref: BlobRef) -> str:
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
        """Return the condition of a segment in the archive, and its fault."""
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
            return Copy.DAMAGED, f"segment {segment.name} does not hold the records of its seal"

        return await asyncio.to_thread(check)

    async def unsealed(self, sessions: Sequence[str]) -> tuple[list[Segment], int]:
        """Return the segments whose seal is lost, and the number of other segments without a seal.

        A process that dies before it records a seal leaves a segment without one. Its records are live, and the next
        seal uses it. If the records are not live, the seal itself was lost.
        """
        if self._archive is None:
            return [], 0
        sealed = {segment.name for session in sessions for segment in await self._store.segments(session)}
        lost: list[Segment] = []
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
                lost.append(segment)
        return lost, harmless

    async def _has(self, segment: Segment) -> bool:
        """Return whether the first and the last record of a segment are live."""
        for seq in (segment.first, segment.last):
            found = await self._store.read(segment.session, after=seq - 1, limit=1)
            if not found or isinstance(found[0].record, DamageSetAside):
                return False
        return True

    def names(self, sha256: str) -> bool:
        """Return whether a record checked so far names a blob."""
        return bytes.fromhex(sha256) in self._named
