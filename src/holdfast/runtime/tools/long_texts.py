"""Search of a session's long texts, whose content is in blobs and not in the search index.

Which records have some is cached per session and continued from the record read last. Losing the cache costs a read of
the log.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

from holdfast.core.search.long_text import best_windows, window_line
from holdfast.core.text.media_type import TEXT, sniff
from holdfast.core.view.appended import Ranges, is_retracted
from holdfast.errors import BlobMissingError
from holdfast.ports import BlobRefs, Blobs, Log
from holdfast.runtime.engine.log import pages
from holdfast.types.messages import BlobRef, LargeText, Part, ToolResult
from holdfast.types.records import AnyRecord, InputAdmitted, MessageAppended, ToolSettled

# Bytes read per search, newest text first: about a tenth of a second.
READ_BYTES_MAX = 16 * 2**20
# Bytes by which text is told from other content.
_SNIFFED_BYTES = 4_096
_WINDOWS_SHOWN = 3
_BLOB_CHARS = 12
_SESSIONS_CACHED = 256


class LongTexts:
    """Finds parts of long texts."""

    def __init__(self, store: Log, blobs: Blobs) -> None:
        self._store, self._blobs = store, blobs
        self._known: OrderedDict[str, tuple[int, dict[str, tuple[int, BlobRef]]]] = OrderedDict()

    async def find(self, session: str, query: str, retracted: Ranges) -> list[str]:
        """Return lines with the parts that match a query best, and a line if some texts were not read."""
        listed = [one for one in await self._listed(session) if not is_retracted(one[0], retracted)]
        chosen, unread = await self._read(listed)
        if not chosen:
            return []
        texts = [text for _, _, text in chosen]
        windows = await asyncio.to_thread(best_windows, texts, query, limit=_WINDOWS_SHOWN)
        lines: list[str] = []
        for window in windows:
            seq, ref, text = chosen[window.text]
            lines.append(window_line(text, window, seq=seq, blob=ref.sha256[:_BLOB_CHARS]))
        if unread:
            lines.append(f"({unread} older long texts were not searched; read them by their records)")
        return lines

    async def _read(self, listed: Sequence[tuple[int, BlobRef]]) -> tuple[list[tuple[int, BlobRef, str]], int]:
        """Return the texts that fit into the bytes of a search, and the number of the others."""
        chosen: list[tuple[int, BlobRef, str]] = []
        room = READ_BYTES_MAX
        for place, (seq, ref) in enumerate(listed):
            if chosen and ref.size_bytes > room:
                return chosen, len(listed) - place
            text = await self._text(ref, room)
            if text:
                chosen.append((seq, ref, text))
                room -= min(ref.size_bytes, room)
        return chosen, 0

    async def _listed(self, session: str) -> Sequence[tuple[int, BlobRef]]:
        """Return the blobs that may be long texts with their records, newest first."""
        if session not in self._known and not await self._may_have_blobs(session):
            return ()
        until, found = self._known.pop(session, (0, {}))
        async for page in pages(self._store, session, after=until):
            for logged in page:
                for ref in _texts_of(logged.record):
                    found.pop(ref.sha256, None)
                    found[ref.sha256] = (logged.seq, ref)
            until = page[-1].seq
        self._known[session] = (until, found)
        while len(self._known) > _SESSIONS_CACHED:
            self._known.popitem(last=False)
        return list(reversed(found.values()))

    async def _may_have_blobs(self, session: str) -> bool:
        """Return whether a session may have blobs. Most have none, and their logs are not read."""
        store = self._store
        if not isinstance(store, BlobRefs) or await store.blob_refs(session):
            return True
        return session in await store.unscanned_sessions()

    async def _text(self, ref: BlobRef, bytes_max: int) -> str:
        """Return the text of a blob up to a number of bytes; "" if it is missing or no text."""
        try:
            if sniff(await self._blobs.read(ref, start=0, length=_SNIFFED_BYTES)) != TEXT:
                return ""
            return (await self._blobs.read(ref, start=0, length=bytes_max)).decode("utf-8", "replace")
        except BlobMissingError:
            return ""


def _texts_of(record: AnyRecord) -> Iterator[BlobRef]:
    match record:
        case InputAdmitted(parts=parts) | MessageAppended(parts=parts):
            yield from _refs(parts)
        case ToolSettled(result=result):
            yield from _refs((result,))
        case _:
            return


def _refs(parts: Iterable[Part]) -> Iterator[BlobRef]:
    for part in parts:
        if isinstance(part, LargeText):
            yield part.blob
        elif isinstance(part, ToolResult):
            yield from part.originals
            yield from _refs(part.parts)
