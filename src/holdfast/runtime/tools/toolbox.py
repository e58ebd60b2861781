"""The tools of a session: run what a model asks for, within a deadline, and always have a result to show it.

A result is bounded before anything stores it, so one huge output cannot fill every later request. That a tool runs at
most once is not decided here: whoever calls `run` has recorded the intent and records the receipt.
"""

import asyncio
import math
import re
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from types import FunctionType, MethodType

import msgspec

from holdfast.core.limits.bounds import Bounds
from holdfast.core.text.media_type import HEAD_BYTES, PDF, TEXT, pixels, safe_name, sniff, spoken
from holdfast.core.text.truncation import excerpt, fair_shares, well_formed, without_base64
from holdfast.errors import HoldfastError, UsageError
from holdfast.ports import Attachment, Blobs, SessionTool, Tool
from holdfast.runtime.tools.function_tool import FunctionTool, tool
from holdfast.types.messages import BlobRef, Media, Text, ToolCall, ToolOutcome, ToolResult, ToolSpec

# --- What a tool gave becomes the parts of its result: bounded, well-formed, never empty, with the originals in blobs.


_NO_OUTPUT = "(no output)"
# Enough of a blob's name to be told from all others: 2^48 values.
_BLOB_NAME_CHARS = 12
# Searching more than this for base64 takes long enough (some 20 ms) that other sessions would feel it.
_CHARS_ON_LOOP_MAX = 2**20


class BoundedOutput(msgspec.Struct, frozen=True):
    """The parts to show, and the blobs with the whole of what they shorten or leave out."""

    parts: tuple[Text | Media, ...]
    originals: tuple[BlobRef, ...]


async def bound_output(output: Sequence[str | Attachment], *, blobs: Blobs, bounds: Bounds) -> BoundedOutput:
    """Keep what must be kept and return what is shown. Raises nothing where a blob cannot be put: the text says so."""
    shelf = _Shelf(blobs)
    listed = [output] if isinstance(output, str) else output
    attached = 0
    pieces: list[str | Media] = []
    for given in listed:
        if isinstance(given, str):
            pieces.append(given)
            continue
        attached += 1
        if attached <= bounds.attachments_max:
            pieces.append(await _shown_attachment(given, shelf, bounds))
    if attached > bounds.attachments_max:
        pieces.append(f"[{attached - bounds.attachments_max:,} more attachments are left out; ask for fewer at once]")
    pieces = list(_joined(pieces))
    texts = iter(await _shown_texts([piece for piece in pieces if isinstance(piece, str)], shelf, bounds))
    parts = tuple(Text(next(texts)) if isinstance(piece, str) else piece for piece in pieces)
    return BoundedOutput(parts or (Text(_NO_OUTPUT),), tuple(shelf.originals))


class _Shelf:
    """Where originals are put, and the words for where they are."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self.originals: list[BlobRef] = []

    async def put(self, content: bytes) -> BlobRef | str:
        """Return the blob, or why there is none. The tool has had its effect: its result must not be lost for this."""
        try:
            return await self._blobs.put(content)
        except (HoldfastError, OSError) as error:
            return f"it could not be kept ({type(error).__name__})"

    async def keep(self, content: bytes, *, is_text: bool) -> str:
        """Put an original that is not shown as it is, and return where it is and how to read it, in words."""
        kept = await self.put(content)
        if isinstance(kept, str):
            return kept
        self.originals.append(kept)
        name = kept.sha256[:_BLOB_NAME_CHARS]
        return f"kept whole: recall(blob={name!r}) reads it" if is_text else f"kept whole as blob {name}"


def _joined(pieces: Iterable[str | Media]) -> Iterator[str | Media]:
    """Make one text of texts that follow each other, and drop those with nothing to read: providers refuse them."""
    waiting: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            waiting.append(well_formed(piece))
            continue
        yield from _one_text(waiting)
        waiting.clear()
        yield piece
    yield from _one_text(waiting)


def _one_text(texts: list[str]) -> Iterator[str]:
    text = "\n".join(texts)
    if text.strip():
        yield text


async def _shown_texts(texts: list[str], shelf: _Shelf, bounds: Bounds) -> list[str]:
    bytes_max = bounds.tool_output_bytes_max
    is_short = sum(map(len, texts)) <= _CHARS_ON_LOOP_MAX
    shaped = _shape(texts, bytes_max) if is_short else await asyncio.to_thread(_shape, texts, bytes_max)
    if shaped == texts:
        return texts
    where = await shelf.keep("\n".join(texts).encode(), is_text=True)
    return _shape(texts, bytes_max, where) if is_short else await asyncio.to_thread(_shape, texts, bytes_max, where)


def _shape(texts: list[str], bytes_max: int, where: str = "") -> list[str]:
    """Return the texts without base64 and within the bound together; those that are neither come back as they are."""
    stripped = [without_base64(text, where).text for text in texts]
    shares = fair_shares([len(text.encode()) for text in stripped], bytes_max)
    advice = f"{where}; or ask the tool for a part (a range, a filter, fewer lines), not for all of it again"
    return [excerpt(text, share, advice) for text, share in zip(stripped, shares, strict=True)]


async def _shown_attachment(attachment: Attachment, shelf: _Shelf, bounds: Bounds) -> Media | str:
    content, name = attachment.data, safe_name(attachment.name)
    what = f"{name or 'output'}: {len(content):,} bytes"
    if not content:
        return f"[{what}]"
    if len(content) > bounds.attachment_bytes_max:
        return f"[{what} are more than the {bounds.attachment_bytes_max:,} that are taken; it is not kept]"
    head = content[:HEAD_BYTES]
    media_type = sniff(head)
    if media_type == TEXT:
        return content.decode(errors="replace")
    width, height = pixels(head)
    is_readable = media_type == PDF or (media_type != "" and 0 not in (width, height))
    if not is_readable and not (media_type and len(content) > HEAD_BYTES):
        # A model would refuse it, and the request that carries it, in every later turn.
        where = await shelf.keep(content, is_text=False)
        return f"[{what}, {spoken(media_type)}{' that is damaged' if media_type else ''}, {where}]"
    kept = await shelf.put(content)
    if isinstance(kept, str):
        return f"[{what}, {spoken(media_type)}; {kept}]"
    return Media(blob=kept, media_type=media_type, name=name, width_pixels=width, height_pixels=height)


__all__ = ["FunctionTool", "Toolbox", "tool"]

# What all providers take as a tool's name.
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
# A failure is told in a sentence or two; this keeps what is useful of one that quotes a whole response.
_FAILURE_BYTES_MAX = 2_048
# Causes of a group of exceptions that are told: what fails in parallel mostly fails alike.
_CAUSES_MAX = 5


class Toolbox:
    """Tools by name. It holds no state of a session, so all sessions share one."""

    def __init__(
        self,
        tools: Sequence[Tool | Callable[..., object]],
        *,
        blobs: Blobs,
        bounds: Bounds,
        for_sessions: Sequence[SessionTool] = (),
    ) -> None:
        self._blobs = blobs
        self._bounds = bounds
        self._tools: dict[str, Tool | SessionTool] = {}
        self._run: dict[str, Callable[[str, str], Awaitable[Sequence[str | Attachment]]]] = {}
        for one in for_sessions:
            self._add(one)
            self._run[one.spec.name] = one.run
        for given in tools:
            plain = _as_tool(given)
            self._add(plain)
            self._run[plain.spec.name] = partial(_run_anywhere, plain)

    def _add(self, one: Tool | SessionTool) -> None:
        name, seconds = one.spec.name, one.seconds_max
        if not _NAME.fullmatch(name):
            raise UsageError(f"tool {name!r}: a name has 1 to 64 letters, digits, '_' or '-'; give it another name")
        if name in self._tools:
            raise UsageError(f"two tools are named {name!r}; give one of them another name")
        if self._bounds.tool_seconds_max < seconds < math.inf:
            raise UsageError(
                f"tool {name!r} asks for {seconds:g} seconds, the bound is {self._bounds.tool_seconds_max:g}; "
                "raise tool_seconds_max or ask for less"
            )
        self._tools[name] = one

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told, in order of name: the same tools give the same bytes, so prompt caches stay warm."""
        return tuple(self._tools[name].spec for name in sorted(self._tools))

    def has(self, name: str) -> bool:
        """Return whether there is a tool of this name."""
        return name in self._tools

    def is_idempotent(self, name: str) -> bool:
        """Return whether a crash may repeat this tool; never one that is not here."""
        one = self._tools.get(name)
        return one is not None and one.is_idempotent

    async def run(self, call: ToolCall, *, session: str = "") -> ToolResult:
        """Run a call of a session and return what came of it.

        Raises nothing but `asyncio.CancelledError`, when it is cancelled. What asks the whole process to end
        (SystemExit, KeyboardInterrupt) is not a tool's failure and passes through.
        """
        one = self._tools.get(call.name)
        if one is None:
            names = ", ".join(sorted(self._tools)) or "none"
            return _failure(call, f"there is no tool named {call.name[:64]!r}; there are: {names}")
        seconds = min(one.seconds_max, self._bounds.tool_seconds_max)
        deadline = asyncio.timeout(seconds)
        try:
            async with deadline:
                output = await self._run[call.name](session, call.arguments)
            bounded = await bound_output(output, blobs=self._blobs, bounds=self._bounds)
        except asyncio.CancelledError:
            if _is_being_cancelled():
                raise
            return _failure(call, "the tool cancelled itself before it had a result")
        except Exception as error:  # noqa: BLE001 - around a tool: its failure is for the model to read
            if isinstance(error, TimeoutError) and deadline.expired():
                return _overdue(call, seconds)
            return _failure(call, _told(error))
        return ToolResult(call.call_id, bounded.parts, originals=bounded.originals)


async def _run_anywhere(one: Tool, _session: str, arguments: str) -> Sequence[str | Attachment]:
    """Run a tool that does not care in which session it runs."""
    return await one.run(arguments)


def _as_tool(given: Tool | Callable[..., object]) -> Tool:
    if isinstance(given, FunctionType | MethodType):
        return tool(given)
    if isinstance(getattr(given, "spec", None), ToolSpec):
        return given  # type: ignore[return-value]  # what has a spec is a Tool: the union leaves nothing else
    raise UsageError(f"{given!r} is neither a function nor a tool; pass a typed function")


def _is_being_cancelled() -> bool:
    """Return whether someone cancelled us, as against a tool that raised CancelledError by itself."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _overdue(call: ToolCall, seconds: float) -> ToolResult:
    sentence = (
        f"the tool {call.name} had no result after {seconds:g} seconds. Its effect is unknown: it may have happened, "
        "in part or in full, or may still happen. Find out before you call it again"
    )
    return _failure(call, sentence, ToolOutcome.TIMED_OUT)


def _failure(call: ToolCall, sentence: str, outcome: ToolOutcome = ToolOutcome.FAILED) -> ToolResult:
    bounded = excerpt(well_formed(sentence), _FAILURE_BYTES_MAX, "the message was longer")
    return ToolResult(call.call_id, (Text(bounded),), outcome)


def _told(error: Exception) -> str:
    """Say what went wrong without a traceback: paths and lines of ours tell a model nothing."""
    if isinstance(error, HoldfastError):
        return str(error)
    causes = list(_causes(error))
    told = [_one_line(cause) for cause in causes[:_CAUSES_MAX]]
    if len(causes) > _CAUSES_MAX:
        told.append(f"and {len(causes) - _CAUSES_MAX:,} more")
    return "\n".join(told)


def _causes(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for nested in error.exceptions:
            yield from _causes(nested)
    else:
        yield error


def _one_line(error: BaseException) -> str:
    """Return type and message. The library does it so that a message that cannot be made does no harm."""
    return "".join(traceback.format_exception_only(error)).strip()
