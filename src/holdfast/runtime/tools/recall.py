"""The built-in tool by which a model finds and reads what has left its view: every record, and what was spilled.

It reads the log of the session that calls it and nothing else: a blob is only given out where a record of this session
names it. Pages are bounded and join without a gap, so whoever reads all of them has the original, byte for byte.
"""

import codecs
from collections.abc import AsyncIterator, Sequence
from typing import Annotated

import msgspec
from msgspec.structs import replace

from holdfast.core.limits.bounds import Bounds
from holdfast.core.search.rank import RECALL
from holdfast.core.text.media_type import HEAD_BYTES, TEXT, sniff
from holdfast.errors import BadInputError
from holdfast.ports import Blobs, Hit, Log
from holdfast.runtime.engine.log import pages
from holdfast.stores.fallbacks import search
from holdfast.types.messages import BlobRef, LargeText, Media, Part, Reasoning, Text, ToolCall, ToolResult, ToolSpec
from holdfast.types.records import (
    AnyRecord,
    CompactionApplied,
    InputAdmitted,
    Logged,
    PartReplaced,
    ReplyRecorded,
    ToolSettled,
    refs_of,
)

# A page is read whole and stays in the view: about 2,500 tokens.
PAGE_BYTES = 8_192
# What stands above a page, at most: where it is from and how to go on. Where tools may show less than a page with it, a
# page is shorter; else it would itself be cut and spilled. Below the least a reader would not get on.
_HEAD_BYTES, _PAGE_BYTES_MIN = 256, 256
HITS_SHOWN = 10
# Fewer characters of a blob's name could stand for two blobs.
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
# Models write numbers as strings now and then; there is only one thing that can mean.
_decoder = msgspec.json.Decoder(_Arguments, strict=False)


class Recall:
    """Finds and reads in the log of one session at a time."""

    is_idempotent = True
    seconds_max = _SECONDS_MAX

    def __init__(self, store: Log, blobs: Blobs, bounds: Bounds) -> None:
        self.spec = _SPEC
        self._store, self._blobs = store, blobs
        self._page_bytes = min(PAGE_BYTES, max(bounds.tool_output_bytes_max - _HEAD_BYTES, _PAGE_BYTES_MIN))

    async def run(self, session: str, arguments: str) -> Sequence[str]:
        """Answer what a model asks for. Raises `BadInputError`, which says what to write instead."""
        try:
            asked = _decoder.decode(arguments.encode() if arguments.strip() else b"{}")
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise BadInputError(f"{RECALL} did not run: {error}. {_USAGE}") from error
        if asked.offset < 0 or asked.seq < 0:
            raise BadInputError(f"{RECALL} did not run: seq and offset are not negative. {_USAGE}")
        if asked.seq or asked.blob.strip():
            return [(await self.read(session, seq=asked.seq, blob=asked.blob, offset=asked.offset)).told()]
        if asked.query.strip():
            return [_told(asked.query, await search(self._store, session, asked.query, limit=HITS_SHOWN))]
        raise BadInputError(f"{RECALL} did not run: it was asked for nothing. {_USAGE}")

    async def read(self, session: str, *, seq: int = 0, blob: str = "", offset: int = 0) -> "Page":
        """Return a page of what a record holds, or else of a blob. Raises `BadInputError` where there is none."""
        if seq:
            logged = await self._record(session, seq)
            said = [source async for source in self._sources(logged.record)]
            return replace(await self._page(said, offset), seq=seq)
        name = blob.strip().lower()
        kept = await self._kept(await self._blob(session, name), "kept")
        return replace(await self._page([kept], offset), blob=name)

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
            raise BadInputError(f"no record of this conversation names a blob {name!r}; look for it with a query")
        return ref

    async def _find_blob(self, session: str, name: str) -> BlobRef | None:
        """Look where the name is written first, then everywhere: a log can be long."""
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
        """Yield what a record holds, in order: its own text, and the blobs that hold the rest."""
        match record:
            case InputAdmitted(parts=parts):
                said: Sequence[Part] = parts
            case ReplyRecorded(reply=reply):
                said = reply.parts
            case ToolSettled(result=result):
                said = (result,)
            case CompactionApplied(summary=summary):
                said = (Text(summary),)
            case _:
                said = (Text(f"(a {type(record).__name__}: nothing was said in it)"),)
        for part in said:
            async for source in self._part_sources(part):
                yield source

    async def _part_sources(self, part: Part) -> AsyncIterator["bytes | BlobRef"]:
        match part:
            case Text(text=text):
                yield text.encode()
            case Reasoning(text=text):
                yield f"(thinking) {text}".encode()
            case LargeText(blob=blob) | Media(blob=blob):
                yield await self._kept(blob, part.name)
            case ToolCall(name=name, arguments=arguments):
                yield f"calls {name} {arguments}".encode()
            case ToolResult(parts=inner, originals=originals):
                whole = [await self._kept(blob, "kept") for blob in originals]
                is_spilled = any(isinstance(one, BlobRef) for one in whole)
                for one in whole:
                    yield one
                for piece in inner:
                    # Of what is there as a whole the shortened form says nothing more.
                    if not (is_spilled and isinstance(piece, Text)):
                        async for source in self._part_sources(piece):
                            yield source

    async def _kept(self, blob: BlobRef, name: str) -> "bytes | BlobRef":
        """Return a blob that is text, or a line that says what it is."""
        head = await self._blobs.read(blob, start=0, length=HEAD_BYTES)
        media_type = sniff(head)
        if media_type == TEXT or not blob.size_bytes:
            return blob
        return f"[{name or 'an attachment'}, {media_type or 'not text'}, {blob.size_bytes:,} bytes]".encode()

    async def _page(self, sources: Sequence[bytes | BlobRef], offset: int) -> "Page":
        """Read a page out of sources that stand one after the other, a line break between two."""
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
        whole = bytes(page)
        if offset + len(whole) < total:
            # The rest of a character that was cut comes with the next page.
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            text = decoder.decode(whole)
            return Page(text, offset, offset + len(whole) - len(decoder.getstate()[0]), total)
        return Page(whole.decode("utf-8", "replace"), offset, offset + len(whole), total)

    async def _bytes(self, source: bytes | BlobRef, start: int, length: int) -> bytes:
        if isinstance(source, bytes):
            return source[start : start + length]
        return await self._blobs.read(source, start=start, length=length)


class Page(msgspec.Struct, frozen=True):
    """Some text, which bytes of the whole it is, how many there are, and which record or blob it stands in."""

    text: str
    start: int
    end: int
    total: int
    seq: int = 0
    blob: str = ""

    def told(self) -> str:
        """Say what is shown and how to go on, above the text, so that the text ends where it ends."""
        what = f"record {self.seq}" if self.seq else f"blob {self.blob}"
        following = f"{RECALL}(seq={self.seq}" if self.seq else f'{RECALL}(blob="{self.blob}"'
        if self.start >= self.total > 0:
            return f"[{what} has {self.total:,} bytes; there is nothing behind them]"
        if self.start == 0 and self.end == self.total:
            return f"[{what}, all {self.total:,} bytes]\n{self.text}"
        more = f"; go on with {following}, offset={self.end})" if self.end < self.total else "; this is the end"
        return f"[{what}, bytes {self.start:,} to {self.end:,} of {self.total:,}{more}]\n{self.text}"


_USAGE = f'Write {RECALL}(query="words, a path or an id"), {RECALL}(seq=57) or {RECALL}(blob="0123456789ab").'


def _size(source: bytes | BlobRef) -> int:
    return len(source) if isinstance(source, bytes) else source.size_bytes


def _told(query: str, hits: Sequence[Hit]) -> str:
    if not hits:
        return f"Nothing in this conversation matches {query[:200]!r}. Try other words, or fewer."
    lines = [f"[#{hit.seq}] {'tool step ' if hit.call else ''}{hit.excerpt}" for hit in hits]
    return "\n".join([f"Best matches first; {RECALL}(seq=n) reads all of [#n].", *lines])


def _named(logged: Logged, name: str) -> BlobRef | None:
    """Return the blob whose name begins so, where a record names it."""
    # What is shown in place of a part is no original.
    refs = () if isinstance(logged.record, PartReplaced) else refs_of(logged.record)
    return next((ref for ref in refs if ref.sha256.startswith(name)), None)
