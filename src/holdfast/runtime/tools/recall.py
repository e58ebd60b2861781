"""The built-in recall tool: a model searches and reads records and stored originals that are no longer in its view.

It reads only the log of the calling session, and a blob only if a record of that session names it. Pages are bounded
and contiguous: together they are the original, byte for byte.
"""

import codecs
from collections.abc import AsyncIterator, Sequence
from typing import Annotated

import msgspec
from msgspec.structs import replace

from holdfast.core.limits.bounds import Bounds
from holdfast.core.search.passage_text import RECORDS_AROUND, Found, passages_text
from holdfast.core.search.rank import RECALL
from holdfast.core.text.media_type import HEAD_BYTES, TEXT, sniff
from holdfast.core.view.appended import Ranges, as_turns, is_retracted
from holdfast.errors import BadInputError
from holdfast.ports import Blobs, Hit, Log
from holdfast.runtime.engine.log import open_log, pages, stand
from holdfast.runtime.tools.long_texts import LongTexts
from holdfast.stores.fallbacks import search
from holdfast.types.messages import BlobRef, LargeText, Media, Part, Reasoning, Text, ToolCall, ToolResult, ToolSpec
from holdfast.types.records import (
    AnyRecord,
    CompactionApplied,
    InputAdmitted,
    Logged,
    MessageAppended,
    PartReplaced,
    ReplyRecorded,
    ToolSettled,
    refs_of,
)

# A page stays in the view: about 2,500 tokens.
PAGE_BYTES = 8_192
# Maximum size of the line above a page. If the output limit of tools is smaller than a page with this line, the page is
# shorter, or it would itself be truncated. The minimum ensures progress.
_HEAD_BYTES, _PAGE_BYTES_MIN = 256, 256
HITS_SHOWN = 10
# Fewer characters of a blob's hash could be ambiguous.
_BLOB_CHARS_MIN = 12
_SECONDS_MAX = 60.0


class _Arguments(msgspec.Struct):
    query: Annotated[
        str, msgspec.Meta(description="Find: a few words, or a path, name or id as it was written. No operators.")
    ] = ""
    seq: Annotated[int, msgspec.Meta(description="Read this record: the n of [#n].")] = 0
    blob: Annotated[str, msgspec.Meta(description="Read this kept original: the first 12 characters of its id.")] = ""
    offset: Annotated[int, msgspec.Meta(description="Go on reading from this byte.")] = 0


def _parameters() -> str:
    schema = msgspec.json.schema(_Arguments)["$defs"]["_Arguments"]
    return msgspec.json.encode({"type": "object", "properties": schema["properties"]}).decode()


_SPEC = ToolSpec(
    name=RECALL,
    description=(
        "Search and read the whole of this conversation, including everything that is no longer shown: older messages "
        "behind a summary, tool output that was masked or shortened. Use it instead of guessing or repeating work. "
        "Give one of: query, seq, blob."
    ),
    parameters=_parameters(),
)
# Models sometimes write numbers as strings, which is unambiguous here.
_decoder = msgspec.json.Decoder(_Arguments, strict=False)


class Recall:
    """Searches and reads the log of one session at a time."""

    is_idempotent = True
    seconds_max = _SECONDS_MAX

    def __init__(self, store: Log, blobs: Blobs, bounds: Bounds) -> None:
        self.spec = _SPEC
        self._store, self._blobs = store, blobs
        self._long_texts = LongTexts(store, blobs)
        self._page_bytes = min(PAGE_BYTES, max(bounds.tool_output_bytes_max - _HEAD_BYTES, _PAGE_BYTES_MIN))

    async def run(self, session: str, arguments: str) -> Sequence[str]:
        """Run a search or a read for a model. Raises `BadInputError`, which explains the usage."""
        try:
            wanted = _decoder.decode(arguments.encode() if arguments.strip() else b"{}")
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise BadInputError(f"{RECALL} did not run: {error}. {_USAGE}") from error
        if wanted.offset < 0 or wanted.seq < 0:
            raise BadInputError(f"{RECALL} did not run: seq and offset must not be negative. {_USAGE}")
        if wanted.seq or wanted.blob.strip():
            return [(await self.read(session, seq=wanted.seq, blob=wanted.blob, offset=wanted.offset)).as_text()]
        if wanted.query.strip():
            return [await self._search(session, wanted.query)]
        raise BadInputError(f"{RECALL} did not run: it has no arguments. {_USAGE}")

    async def _search(self, session: str, query: str) -> str:
        hits, retracted = await _search(self._store, session, query, limit=HITS_SHOWN)
        lines = await self._long_texts.find(session, query, retracted)
        if not hits and not lines:
            return f"Nothing in this conversation matches {query[:200]!r}. Try other words, or fewer."
        found = [Found(hit.seq, hit.call, hit.excerpt, await self._around(session, hit, retracted)) for hit in hits]
        return passages_text(found, query, bytes_max=self._page_bytes, more=lines)

    async def _around(self, session: str, hit: Hit, retracted: Ranges) -> Sequence[Logged]:
        """Return the record of a hit, and of a message the records around it that were not retracted."""
        reach = 0 if hit.call else RECORDS_AROUND
        first = max(hit.seq - reach, 1)
        return as_turns(await self._store.read(session, after=first - 1, limit=hit.seq + reach - first + 1), retracted)

    async def read(self, session: str, *, seq: int = 0, blob: str = "", offset: int = 0) -> "Page":
        """Return a page of the content of a record or blob. Raises `BadInputError` if there is none."""
        if seq:
            logged = await self._record(session, seq)
            sources = [source async for source in self._sources(logged.record)]
            return replace(await self._page(sources, offset), seq=seq)
        name = blob.strip().lower()
        source = await self._blob_source(await self._blob(session, name), "kept")
        return replace(await self._page([source], offset), blob=name)

    async def _record(self, session: str, seq: int) -> Logged:
        found = await self._store.read(session, after=seq - 1, limit=1)
        if not found:
            known = await self._store.info(session)
            raise BadInputError(f"there is no record {seq}; the last one is {known.last_seq if known else 0}")
        return found[0]

    async def _blob(self, session: str, name: str) -> BlobRef:
        if len(name) < _BLOB_CHARS_MIN:
            raise BadInputError(f"{name!r} is too short to name a blob; give its first {_BLOB_CHARS_MIN} characters")
        ref = await self._find_blob(session, name)
        if ref is None:
            raise BadInputError(f"no record of this conversation names a blob {name!r}; search for it with a query")
        return ref

    async def _find_blob(self, session: str, name: str) -> BlobRef | None:
        """Try the search index first, then scan the log, which can be long."""
        for hit in await search(self._store, session, name, limit=HITS_SHOWN):
            found = _named(await self._record(session, hit.seq), name)
            if found is not None:
                return found
        async for page in pages(self._store, session):
            for logged in page:
                found = _named(logged, name)
                if found is not None:
                    return found
        return None

    async def _sources(self, record: AnyRecord) -> AsyncIterator["bytes | BlobRef"]:
        """Yield the content of a record in order: its own text, and the blobs with the rest."""
        match record:
            case InputAdmitted(parts=content):
                parts: Sequence[Part] = content
            case MessageAppended(parts=appended):
                parts = appended
            case ReplyRecorded(reply=reply):
                parts = reply.parts
            case ToolSettled(result=result):
                parts = (result,)
            case CompactionApplied(summary=summary):
                parts = (Text(summary),)
            case _:
                parts = (Text(f"(a {type(record).__name__} without text)"),)
        for part in parts:
            async for source in self._part_sources(part):
                yield source

    async def _part_sources(self, part: Part) -> AsyncIterator["bytes | BlobRef"]:
        match part:
            case Text(text=text):
                yield text.encode()
            case Reasoning(text=text):
                yield f"(thinking) {text}".encode()
            case LargeText(blob=blob) | Media(blob=blob):
                yield await self._blob_source(blob, part.name)
            case ToolCall(name=name, arguments=arguments):
                yield f"calls {name} {arguments}".encode()
            case ToolResult():
                async for source in self._result_sources(part):
                    yield source

    async def _result_sources(self, result: ToolResult) -> AsyncIterator["bytes | BlobRef"]:
        """Yield the originals of a tool result, then its parts."""
        originals = [await self._blob_source(blob, "kept") for blob in result.originals]
        for source in originals:
            yield source
        # The truncated text adds nothing to an original in full.
        has_full_text = any(isinstance(one, BlobRef) for one in originals)
        for part in result.parts:
            if not (has_full_text and isinstance(part, Text)):
                async for source in self._part_sources(part):
                    yield source

    async def _blob_source(self, blob: BlobRef, name: str) -> "bytes | BlobRef":
        """Return a blob that is text, or a placeholder for another type."""
        head = await self._blobs.read(blob, start=0, length=HEAD_BYTES)
        media_type = sniff(head)
        if media_type == TEXT or not blob.size_bytes:
            return blob
        return f"[{name or 'an attachment'}, {media_type or 'not text'}, {blob.size_bytes:,} bytes]".encode()

    async def _page(self, sources: Sequence[bytes | BlobRef], offset: int) -> "Page":
        """Read a page from the concatenation of sources, which a line break separates."""
        total = sum(_size(source) for source in sources) + max(len(sources) - 1, 0)
        page = bytearray()
        start = 0
        for order, source in enumerate(sources):
            if order:
                if start >= offset and len(page) < self._page_bytes:
                    page += b"\n"
                start += 1
            skip, room = max(offset - start, 0), self._page_bytes - len(page)
            if skip < _size(source) and room > 0:
                page += await self._bytes(source, skip, room)
            start += _size(source)
        content = bytes(page)
        if offset + len(content) < total:
            # A character that the page would split belongs to the next page.
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            text = decoder.decode(content)
            return Page(text, offset, offset + len(content) - len(decoder.getstate()[0]), total)
        return Page(content.decode("utf-8", "replace"), offset, offset + len(content), total)

    async def _bytes(self, source: bytes | BlobRef, start: int, length: int) -> bytes:
        if isinstance(source, bytes):
            return source[start : start + length]
        return await self._blobs.read(source, start=start, length=length)


# Records after the newest snapshot that a search folds at once.
_FOLDED_MAX = 10_000


async def search_shown(store: Log, session: str, query: str, *, limit: int = 10) -> list[Hit]:
    """Search a session, and leave out the messages that were retracted. The index has them: the log keeps them."""
    return (await _search(store, session, query, limit=limit))[0]


async def _search(store: Log, session: str, query: str, *, limit: int) -> tuple[list[Hit], Ranges]:
    """Return the hits that were not retracted, and the ranges of records that were."""
    found = await search(store, session, query, limit=limit)
    turn = await stand(store, session, records_max=_FOLDED_MAX) or (await open_log(store, session)).turn
    if not turn.retracted:
        return found, ()
    # Retracted hits may hide others: ask for as many more as there can be.
    known = await store.info(session)
    found = await search(store, session, query, limit=known.last_seq if known else limit)
    return [hit for hit in found if not is_retracted(hit.seq, turn.retracted)][:limit], turn.retracted


class Page(msgspec.Struct, frozen=True):
    """A page of text: its byte range, the total size, and its record or blob."""

    text: str
    # The first byte of the page, the byte behind its last one, and the size of the whole text.
    start: int
    end: int
    total: int
    # The record that was read; 0 for a blob.
    seq: int = 0
    blob: str = ""

    def as_text(self) -> str:
        """Return the text below a line with its range and the call for the next page."""
        what = f"record {self.seq}" if self.seq else f"blob {self.blob}"
        following = f"{RECALL}(seq={self.seq}" if self.seq else f'{RECALL}(blob="{self.blob}"'
        if self.start >= self.total > 0:
            return f"[{what} has {self.total:,} bytes; the offset is past its end]"
        if self.start == 0 and self.end == self.total:
            return f"[{what}, all {self.total:,} bytes]\n{self.text}"
        more = f"; continue with {following}, offset={self.end})" if self.end < self.total else "; this is the end"
        return f"[{what}, bytes {self.start:,} to {self.end:,} of {self.total:,}{more}]\n{self.text}"


_USAGE = f'Write {RECALL}(query="words, a path or an id"), {RECALL}(seq=57) or {RECALL}(blob="0123456789ab").'


def _size(source: bytes | BlobRef) -> int:
    return len(source) if isinstance(source, bytes) else source.size_bytes


def _named(logged: Logged, name: str) -> BlobRef | None:
    """Return the blob of a record whose hash begins with a name."""
    # The replacement of a part is not an original.
    refs = () if isinstance(logged.record, PartReplaced) else refs_of(logged.record)
    return next((ref for ref in refs if ref.sha256.startswith(name)), None)
