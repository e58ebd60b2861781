"""Toolbox: run a model's tool calls within a deadline, always with a result for the model.

Output is bounded before it is stored, so one huge output cannot fill every later request. The caller of `run` records
the intent before and the receipt after, which makes a tool run at most once.
"""

import asyncio
import inspect
import logging
import math
import re
import time
import traceback
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from types import FunctionType, MethodType
from typing import Any, Protocol, TypeAlias, runtime_checkable

import msgspec

from holdfast.core.limits.bounds import Bounds
from holdfast.core.text.media_type import HEAD_BYTES, PDF, TEXT, pixels, safe_name, sniff, spoken
from holdfast.core.text.outline import outlined, size_in_bytes
from holdfast.core.text.truncation import excerpt, fair_shares, well_formed, without_base64
from holdfast.errors import BadInputError, HoldfastError, UsageError
from holdfast.ports import Attachment, Blobs, SessionTool, Tool
from holdfast.runtime.tools.function_tool import FunctionTool, tool
from holdfast.runtime.tools.tool_context import AnyContext, CallPlace, ToolContext
from holdfast.types.messages import BlobRef, Media, Text, ToolCall, ToolOutcome, ToolResult, ToolSpec

log = logging.getLogger("holdfast")

# --- Output limits ---

_NO_OUTPUT = "(no output)"
# Characters of a blob's hash that identify it in a session: 2^48 values.
_BLOB_NAME_CHARS = 12
# A longer text is searched for base64 in a thread: on the event loop it would delay other sessions by some 20 ms.
_CHARS_ON_LOOP_MAX = 2**20


class BoundedOutput(msgspec.Struct, frozen=True):
    """The parts of a result, and the blobs of the originals that they truncate or omit."""

    parts: tuple[Text | Media, ...]
    originals: tuple[BlobRef, ...]


async def bound_output(output: Sequence[str | Attachment], *, blobs: Blobs, bounds: Bounds) -> BoundedOutput:
    """Return the output of a tool as bounded parts, with the originals in blobs.

    A blob that cannot be stored raises nothing; the text says so.
    """
    originals = _Originals(blobs)
    pieces = await _with_attachments([output] if isinstance(output, str) else output, originals, bounds)
    pieces = list(_joined(pieces))
    texts = iter(await _bounded_texts([piece for piece in pieces if isinstance(piece, str)], originals, bounds))
    parts = tuple(Text(next(texts)) if isinstance(piece, str) else piece for piece in pieces)
    return BoundedOutput(parts or (Text(_NO_OUTPUT),), tuple(originals.refs))


async def _with_attachments(
    output: Iterable[str | Attachment], originals: "_Originals", bounds: Bounds
) -> list[str | Media]:
    """Store the attachments of an output, up to the maximum number, and return it with media or placeholders."""
    attached = 0
    pieces: list[str | Media] = []
    for given in output:
        if isinstance(given, str):
            pieces.append(given)
            continue
        attached += 1
        if attached <= bounds.attachments_max:
            pieces.append(await _stored_attachment(given, originals, bounds))
    if attached > bounds.attachments_max:
        pieces.append(f"[{attached - bounds.attachments_max:,} more attachments are left out; ask for fewer at once]")
    return pieces


class _Originals:
    """Stores originals in blobs, and describes their location to the model."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self.refs: list[BlobRef] = []

    async def put(self, content: bytes) -> BlobRef | str:
        """Store a blob, or return the reason for a failure: the tool has run, so its result must not be lost."""
        try:
            return await self._blobs.put(content)
        except (HoldfastError, OSError) as error:
            return f"it could not be stored ({type(error).__name__})"

    async def keep(self, content: bytes, *, is_text: bool) -> str:
        """Store an original, and return a phrase that tells the model how to read it."""
        ref = await self.put(content)
        if isinstance(ref, str):
            return ref
        self.refs.append(ref)
        name = ref.sha256[:_BLOB_NAME_CHARS]
        return f"kept whole: recall(blob={name!r}) reads it" if is_text else f"kept whole as blob {name}"


def _joined(pieces: Iterable[str | Media]) -> Iterator[str | Media]:
    """Merge consecutive texts, and drop blank ones, which providers reject."""
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


async def _bounded_texts(texts: list[str], originals: _Originals, bounds: Bounds) -> list[str]:
    bytes_max = bounds.tool_output_bytes_max
    is_short = sum(map(len, texts)) <= _CHARS_ON_LOOP_MAX
    bounded = _bound(texts, bytes_max) if is_short else await asyncio.to_thread(_bound, texts, bytes_max)
    if bounded == texts:
        return texts
    where = await originals.keep("\n".join(texts).encode(), is_text=True)
    return _bound(texts, bytes_max, where) if is_short else await asyncio.to_thread(_bound, texts, bytes_max, where)


def _bound(texts: list[str], bytes_max: int, where: str = "") -> list[str]:
    """Return the texts without base64 and truncated to a total size; others are returned unchanged."""
    stripped = [without_base64(text, where).text for text in texts]
    shares = fair_shares([len(text.encode()) for text in stripped], bytes_max)
    advice = f"{where}; or ask the tool for a part (a range, a filter, fewer lines), not for all of it again"
    return [outlined(text, share, advice, measure=size_in_bytes) for text, share in zip(stripped, shares, strict=True)]


async def _stored_attachment(attachment: Attachment, originals: _Originals, bounds: Bounds) -> Media | str:
    """Store an attachment and return it as media, or as text if a model cannot read it as media."""
    content, name = attachment.data, safe_name(attachment.name)
    what = f"{name or 'output'}: {len(content):,} bytes"
    if not content:
        return f"[{what}]"
    if len(content) > bounds.attachment_bytes_max:
        return f"[{what} exceed the maximum of {bounds.attachment_bytes_max:,}; it is not stored]"
    head = content[:HEAD_BYTES]
    media_type = sniff(head)
    if media_type == TEXT:
        return content.decode(errors="replace")
    width, height = pixels(head)
    if not _is_readable(media_type, content, width * height):
        # A model would reject it, and every later request that contains it.
        where = await originals.keep(content, is_text=False)
        return f"[{what}, {spoken(media_type)}{' that is damaged' if media_type else ''}, {where}]"
    ref = await originals.put(content)
    if isinstance(ref, str):
        return f"[{what}, {spoken(media_type)}; {ref}]"
    return Media(blob=ref, media_type=media_type, name=name, width_pixels=width, height_pixels=height)


def _is_readable(media_type: str, content: bytes, area_pixels: int) -> bool:
    """Return whether a model can read media. An image header may lie beyond the bytes that were searched for it."""
    return media_type == PDF or (media_type != "" and (area_pixels > 0 or len(content) > HEAD_BYTES))


# --- Toolbox ---

__all__ = ["FunctionTool", "Toolbox", "tool"]

# Tool names that all providers accept.
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
# Truncates an error that quotes a whole response; most have a sentence or two.
_FAILURE_BYTES_MAX = 2_048
# Causes reported from an exception group: parallel failures are mostly alike.
_CAUSES_MAX = 5


# Delay before the first retry of a tool; it doubles.
_RETRY_SECONDS = 0.1
NO_PLACE = CallPlace()

_Run: TypeAlias = Callable[[AnyContext, str], Awaitable[Sequence[str | Attachment]]]


def never(_session: str, _call: ToolCall) -> bool:
    """Ask for no approval."""
    return False


@runtime_checkable
class ApprovedTool(Protocol):
    """A tool that says which of its calls need an approval."""

    def needs_approval(self, arguments: str) -> bool:
        """Return whether a call with these JSON arguments waits for an approval."""
        ...


class CallOptions(msgspec.Struct, frozen=True):
    """What all calls share: the dependencies of the program, and its rule for approvals."""

    deps: Any = None
    approve: Callable[[str, ToolCall], bool | Awaitable[bool]] = never


PLAIN_CALLS = CallOptions()


class Toolbox:
    """Tools by name. It has no session state, so all sessions share one."""

    def __init__(
        self,
        tools: Sequence[Tool | Callable[..., object]],
        *,
        blobs: Blobs,
        bounds: Bounds,
        for_sessions: Sequence[SessionTool] = (),
        calls: CallOptions = PLAIN_CALLS,
    ) -> None:
        self._blobs = blobs
        self._bounds = bounds
        self._calls = calls
        self._tools: dict[str, Tool | SessionTool] = {}
        self._run: dict[str, _Run] = {}
        # Tools that every session has, and those that only sessions have which name them.
        self._always: frozenset[str] = frozenset(one.spec.name for one in for_sessions)
        self._on_request: set[str] = set()
        for one in for_sessions:
            self._add(one)
            self._run[one.spec.name] = partial(_run_in_session, one)
        for given in tools:
            self._add_plain(_as_tool(given))

    def _add_plain(self, one: Tool) -> None:
        self._add(one)
        self._run[one.spec.name] = partial(_run_without_session, one)

    def offer(self, given: Tool | Callable[..., object]) -> str:
        """Add a tool for the sessions that name it, if it is new, and return its name.

        Raises `UsageError` if another tool has the name.
        """
        one = _as_tool(given)
        name = one.spec.name
        if self._tools.get(name) is not one:
            self._add_plain(one)
            self._on_request.add(name)
        return name

    def _add(self, one: Tool | SessionTool) -> None:
        name, seconds = one.spec.name, one.seconds_max
        if not _NAME.fullmatch(name):
            raise UsageError(f"tool {name!r}: a name has 1 to 64 letters, digits, '_' or '-'; give it another name")
        if name in self._tools:
            raise UsageError(f"two tools are named {name!r}; give one of them another name")
        if self._bounds.tool_seconds_max < seconds < math.inf:
            raise UsageError(
                f"tool {name!r} has a timeout of {seconds:g} seconds, the maximum is "
                f"{self._bounds.tool_seconds_max:g}; raise tool_seconds_max or reduce it"
            )
        self._tools[name] = one

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The specs of the tools of a session that names none."""
        return self.specs_for(None)

    def specs_for(self, names: Collection[str] | None) -> tuple[ToolSpec, ...]:
        """Return the specs of a session's tools, by the names that it has chosen; None: all but those on request.

        They are ordered by name: the same tools give the same bytes, which keeps prompt caches warm.
        """
        return tuple(self._tools[name].spec for name in sorted(self._tools) if self.has(name, names))

    def has(self, name: str, names: Collection[str] | None = None) -> bool:
        """Return whether a session with these tools has a tool."""
        if name not in self._tools:
            return False
        chosen = name not in self._on_request if names is None else name in names
        return chosen or name in self._always

    async def needs_approval(self, call: ToolCall, *, session: str) -> bool:
        """Return whether a call waits for an approval. A function that fails to say so counts as yes."""
        one: object = self._tools.get(call.name)
        try:
            if isinstance(one, ApprovedTool) and one.needs_approval(call.arguments):
                return True
            asked = self._calls.approve(session, call)
            return bool(await asked if inspect.isawaitable(asked) else asked)
        except Exception as error:  # noqa: BLE001 - the user's function: a call that should wait must not run
            log.warning("approval check failed", extra={"tool": call.name, "reason": type(error).__name__})
            return True

    def is_idempotent(self, name: str) -> bool:
        """Return whether a tool may run again after a crash; False for an unknown one."""
        one = self._tools.get(name)
        return one is not None and one.is_idempotent

    async def run(
        self, call: ToolCall, *, place: CallPlace = NO_PLACE, names: Collection[str] | None = None
    ) -> ToolResult:
        """Run a tool call of a session and return its result.

        Raises only `asyncio.CancelledError`, and SystemExit and KeyboardInterrupt, which end the process and are not a
        failure of the tool.
        """
        one = self._tools.get(call.name) if self.has(call.name, names) else None
        if one is None:
            offered = ", ".join(spec.name for spec in self.specs_for(names)) or "none"
            return _failure(call, f"there is no tool named {call.name[:64]!r}; available tools: {offered}")
        retries = one.retries if isinstance(one, FunctionTool) else 0
        for retry in range(retries):
            result, may_retry = await self._run_once(one, call, place, retry)
            if not may_retry:
                return result
            await asyncio.sleep(_RETRY_SECONDS * 2**retry)
        return (await self._run_once(one, call, place, retries))[0]

    async def _run_once(
        self, one: Tool | SessionTool, call: ToolCall, place: CallPlace, retry: int
    ) -> tuple[ToolResult, bool]:
        """Run a call once, and return its result and whether a tool with retries may run again."""
        seconds = min(one.seconds_max, self._bounds.tool_seconds_max)
        deadline = asyncio.timeout(seconds)
        ends = time.time() + seconds
        context: AnyContext = ToolContext(place, attempt=place.starts + retry, deadline=ends, deps=self._calls.deps)
        try:
            async with deadline:
                output = await self._run[call.name](context, call.arguments)
            bounded = await bound_output(output, blobs=self._blobs, bounds=self._bounds)
        except asyncio.CancelledError:
            if _is_being_cancelled():
                raise
            return _failure(call, "the tool cancelled itself before it had a result"), False
        except Exception as error:  # noqa: BLE001 - around a tool: its failure is for the model to read
            if isinstance(error, TimeoutError) and deadline.expired():
                # It may still run, so only a tool that may run twice is started again.
                return _timeout(call, seconds), one.is_idempotent
            return _failure(call, _error_text(error)), not isinstance(error, BadInputError)
        return ToolResult(call.call_id, bounded.parts, originals=bounded.originals), False


async def _run_in_session(one: SessionTool, context: AnyContext, arguments: str) -> Sequence[str | Attachment]:
    """Run a tool that works on the session of its call."""
    return await one.run(context.session, arguments)


async def _run_without_session(one: Tool, context: AnyContext, arguments: str) -> Sequence[str | Attachment]:
    """Run a tool that is independent of the session."""
    return await (one.run(arguments, context) if isinstance(one, FunctionTool) else one.run(arguments))


def _as_tool(given: Tool | Callable[..., object]) -> Tool:
    if isinstance(given, FunctionType | MethodType):
        return tool(given)
    if isinstance(getattr(given, "spec", None), ToolSpec):
        return given  # type: ignore[return-value]  # an object with a spec is a Tool: the union has no other
    raise UsageError(f"{given!r} is neither a function nor a tool; pass a typed function")


def _is_being_cancelled() -> bool:
    """Return whether this task was cancelled, as opposed to a tool that raised CancelledError itself."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _timeout(call: ToolCall, seconds: float) -> ToolResult:
    sentence = (
        f"the tool {call.name} timed out after {seconds:g} seconds. Its effect is unknown: it may have happened, in "
        "part or in full, or may still happen. Check before you call it again"
    )
    return _failure(call, sentence, ToolOutcome.TIMED_OUT)


def _failure(call: ToolCall, sentence: str, outcome: ToolOutcome = ToolOutcome.FAILED) -> ToolResult:
    bounded = excerpt(well_formed(sentence), _FAILURE_BYTES_MAX, "the message was longer")
    return ToolResult(call.call_id, (Text(bounded),), outcome)


def _error_text(error: Exception) -> str:
    """Return an error without its traceback, which is of no use to a model."""
    if isinstance(error, HoldfastError):
        return str(error)
    causes = list(_causes(error))
    lines = [_one_line(cause) for cause in causes[:_CAUSES_MAX]]
    if len(causes) > _CAUSES_MAX:
        lines.append(f"and {len(causes) - _CAUSES_MAX:,} more")
    return "\n".join(lines)


def _causes(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for nested in error.exceptions:
            yield from _causes(nested)
    else:
        yield error


def _one_line(error: BaseException) -> str:
    """Return the type and message of an error. `traceback` copes with an error whose `__str__` fails."""
    return "".join(traceback.format_exception_only(error)).strip()
