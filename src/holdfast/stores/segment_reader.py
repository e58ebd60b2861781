"""Reading records out of sealed segments: one frame at a time, the newest few kept.

A page costs one request to the archive for each segment it reaches into, and nothing where its frames are still here.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from holdfast.core.segments import (
    HEADER_BYTES,
    Frame,
    Header,
    Kept,
    SegmentTornError,
    header_size,
    unpack_frame,
    unpack_header,
)
from holdfast.errors import SegmentMissingError
from holdfast.ports import Archive, Segment

# Records of frames that were read last, so that whoever pages through a log reads each frame once: 250 frames.
FRAMES_BYTES_MAX = 32 * 2**20
# Headers take about a KiB each.
HEADERS_MAX = 1_000

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class Recent(Generic[KeyT, ValueT]):
    """What was used last, up to a bound on how much it comes to."""

    def __init__(self, size_max: int, size_of: Callable[[ValueT], int]) -> None:
        self._size_max, self._size_of = size_max, size_of
        self._kept: OrderedDict[KeyT, ValueT] = OrderedDict()
        self._size = 0

    def get(self, key: KeyT) -> ValueT | None:
        """Return what is kept, as the last used from now on."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def keep(self, key: KeyT, value: ValueT) -> None:
        """Keep something, at the cost of what was not used for longest. What is too large by itself is not kept."""
        self.drop(key)
        if self._size_of(value) > self._size_max:
            return
        self._kept[key] = value
        self._size += self._size_of(value)
        while self._size > self._size_max:
            _, oldest = self._kept.popitem(last=False)
            self._size -= self._size_of(oldest)

    def drop(self, key: KeyT) -> None:
        """Keep this no longer."""
        dropped = self._kept.pop(key, None)
        if dropped is not None:
            self._size -= self._size_of(dropped)


class SegmentReader:
    """Reads the segments of one archive."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        # Each header with where its first frame begins.
        self._headers: Recent[str, tuple[Header, int]] = Recent(HEADERS_MAX, lambda _: 1)
        self._frames: Recent[tuple[str, int], list[Kept]] = Recent(
            FRAMES_BYTES_MAX, lambda rows: sum(len(row.body) for row in rows)
        )

    async def rows(self, segment: Segment, first: int, last: int) -> list[Kept]:
        """Return the records of a segment from `first` to `last`, which it must hold.

        Raises `SegmentMissingError` where it is gone, or is not what was sealed.
        """
        try:
            header, start = await self._header(segment)
            places = range(header.frame_of(first), header.frame_of(last) + 1)
            found = {place: self._frames.get((segment.name, place)) for place in places}
            missing = [place for place, rows in found.items() if rows is None]
            found |= await self._read(segment, header.frames, start, missing)
            rows = [row for place in places for row in found[place] or ()]
        except SegmentTornError as torn:
            raise SegmentMissingError(segment.name, f"is damaged: {torn}") from torn
        if [row.seq for row in rows] != list(range(rows[0].seq, rows[0].seq + len(rows))) or rows[0].seq > first:
            raise SegmentMissingError(segment.name, "is damaged: its frames are not those that its header names")
        return rows[first - rows[0].seq : last - rows[0].seq + 1]

    async def _header(self, segment: Segment) -> tuple[Header, int]:
        known = self._headers.get(segment.name)
        if known is not None:
            return known
        beginning = await self._archive.read(segment.name, start=0, length=HEADER_BYTES)
        if header_size(beginning) > len(beginning):
            beginning = await self._archive.read(segment.name, start=0, length=header_size(beginning))
        header = unpack_header(beginning)
        if (header.session, header.first, header.last) != (segment.session, segment.first, segment.last):
            raise SegmentMissingError(segment.name, "holds other records than its seal says")
        found = header, header_size(beginning)
        self._headers.keep(segment.name, found)
        return found

    async def _read(
        self, segment: Segment, frames: tuple[Frame, ...], start: int, missing: list[int]
    ) -> dict[int, list[Kept]]:
        """Read frames in one request, those between the first and the last that are missing included."""
        if not missing:
            return {}
        wanted = range(missing[0], missing[-1] + 1)
        begin = frames[wanted[0]].start
        end = frames[wanted[-1]].start + frames[wanted[-1]].size
        body = await self._archive.read(segment.name, start=start + begin, length=end - begin)

        def unpack() -> dict[int, list[Kept]]:
            places = ((place, frames[place].start - begin) for place in wanted)
            return {place: unpack_frame(body[at : at + frames[place].size]) for place, at in places}

        read = await asyncio.to_thread(unpack)
        for place, rows in read.items():
            self._frames.keep((segment.name, place), rows)
        return read
