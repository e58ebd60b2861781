"""A toolbox always has a result to show: bounded, well-formed, and honest about what is missing."""

import asyncio
import base64
import random
import threading
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.errors import StoreFullError, UsageError
from holdfast.ports import Attachment, Tool
from holdfast.runtime.tools import toolbox
from holdfast.runtime.tools.function_tool import tool
from holdfast.runtime.tools.toolbox import Toolbox
from holdfast.stores.memory import MemoryBlobs
from holdfast.types.messages import BlobRef, Media, Text, ToolCall, ToolOutcome, ToolResult, ToolSpec
from tests.core.images import a_jpeg, a_png

BOUNDS = Bounds(tool_output_bytes_max=1_000, tool_seconds_max=30)
NOISE = random.Random(2).randbytes(3_000)


class FullBlobs(MemoryBlobs):
    """No space is left."""

    async def put(self, chunks: AsyncIterator[bytes] | bytes) -> BlobRef:
        del chunks
        raise StoreFullError("no space left")


@pytest.fixture
def blobs() -> MemoryBlobs:
    return MemoryBlobs()


async def _result_of(value: object, blobs: MemoryBlobs, bounds: Bounds = BOUNDS) -> ToolResult:
    async def give() -> object:
        return value

    return await Toolbox([give], blobs=blobs, bounds=bounds).run(ToolCall("c1", "give", "{}"))


async def _run(function: Tool | Callable[..., object], arguments: str = "{}", bounds: Bounds = BOUNDS) -> ToolResult:
    toolbox = Toolbox([function], blobs=MemoryBlobs(), bounds=bounds)
    (spec,) = toolbox.specs
    return await toolbox.run(ToolCall("c1", spec.name, arguments))


def _said(sentence: str, outcome: ToolOutcome = ToolOutcome.FAILED) -> ToolResult:
    return ToolResult("c1", (Text(sentence),), outcome)


# --- what is in it -----------------------------------------------------------------------------------------------


def zebra() -> None: ...


@tool(idempotent=True)
def ant() -> None: ...


def test_tools_are_told_in_one_order_however_they_were_given(blobs: MemoryBlobs) -> None:
    one = Toolbox([zebra, ant], blobs=blobs, bounds=BOUNDS)
    other = Toolbox([ant, zebra], blobs=blobs, bounds=BOUNDS)
    assert [spec.name for spec in one.specs] == ["ant", "zebra"]
    assert one.specs == other.specs


def test_only_a_tool_declared_idempotent_is(blobs: MemoryBlobs) -> None:
    toolbox = Toolbox([zebra, ant], blobs=blobs, bounds=BOUNDS)
    assert [toolbox.is_idempotent(name) for name in ("ant", "zebra", "bee")] == [True, False, False]


def test_two_tools_of_one_name_are_refused(blobs: MemoryBlobs) -> None:
    with pytest.raises(UsageError, match="two tools are named 'ant'; give one of them another name"):
        Toolbox([ant, tool(zebra, name="ant")], blobs=blobs, bounds=BOUNDS)


@pytest.mark.parametrize("name", ["with space", "grüße", "x" * 65, "a\n"])
def test_a_name_that_some_provider_refuses_is_refused(blobs: MemoryBlobs, name: str) -> None:
    with pytest.raises(UsageError, match="a name has 1 to 64 letters, digits, '_' or '-'"):
        Toolbox([tool(zebra, name=name)], blobs=blobs, bounds=BOUNDS)


def test_a_deadline_above_the_bound_is_refused(blobs: MemoryBlobs) -> None:
    with pytest.raises(
        UsageError, match="has a timeout of 31 seconds, the maximum is 30; raise tool_seconds_max or reduce it"
    ):
        Toolbox([tool(zebra, seconds_max=31)], blobs=blobs, bounds=BOUNDS)


def test_what_is_neither_a_function_nor_a_tool_is_refused(blobs: MemoryBlobs) -> None:
    with pytest.raises(UsageError, match=r"<class 'int'> is neither a function nor a tool"):
        Toolbox([int], blobs=blobs, bounds=BOUNDS)


# --- what can go wrong -------------------------------------------------------------------------------------------


async def test_a_tool_that_does_not_exist_is_answered_with_those_that_do(blobs: MemoryBlobs) -> None:
    toolbox = Toolbox([zebra, ant], blobs=blobs, bounds=BOUNDS)
    assert await toolbox.run(ToolCall("c1", "bee", "{}")) == _said(
        "there is no tool named 'bee'; available tools: ant, zebra"
    )
    empty = Toolbox([], blobs=blobs, bounds=BOUNDS)
    assert await empty.run(ToolCall("c1", "bee", "{}")) == _said("there is no tool named 'bee'; available tools: none")


async def test_arguments_that_do_not_fit_are_told_to_the_model() -> None:
    def read(path: str) -> str:
        return path

    assert await _run(read, '{"path": 1}') == _said(
        "the tool read did not run: Expected `str`, got `int` - at `$.path`. "
        "Write one JSON object with these arguments: path (string, required)"
    )


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ValueError("no such table"), "ValueError: no such table"),
        (TimeoutError("the socket was slow"), "TimeoutError: the socket was slow"),
        (ValueError("half \ud800"), "ValueError: half \ufffd"),
        (
            ExceptionGroup("many", [ValueError(1), ExceptionGroup("more", [OSError("disk"), KeyError("k")])]),
            "ValueError: 1\nOSError: disk\nKeyError: 'k'",
        ),
        (
            ExceptionGroup("many", [ValueError(number) for number in range(7)]),
            "ValueError: 0\nValueError: 1\nValueError: 2\nValueError: 3\nValueError: 4\nand 2 more",
        ),
        (StopAsyncIteration("over"), "StopAsyncIteration: over"),
    ],
)
async def test_a_tools_exception_is_told_by_type_and_message(error: Exception, sentence: str) -> None:
    def fail() -> None:
        raise error

    async def fail_later() -> None:
        raise error

    assert [await _run(fail), await _run(fail_later)] == [_said(sentence)] * 2


async def test_an_exception_that_cannot_be_put_into_words_is_told_all_the_same() -> None:
    def fail() -> None:
        raise UnspeakableError

    (part,) = (await _run(fail)).parts
    assert isinstance(part, Text)
    assert part.text.endswith("UnspeakableError: <exception str() failed>")


async def test_a_long_exception_is_bounded() -> None:
    def fail() -> None:
        raise ValueError("x" * 10**6)

    (part,) = (await _run(fail)).parts
    assert isinstance(part, Text)
    assert len(part.text.encode()) <= 2_048
    assert "bytes left out here; the message was longer]" in part.text


async def test_a_tool_past_its_deadline_times_out_and_its_effect_is_unknown() -> None:
    gate = threading.Event()

    @tool(seconds_max=0.01)
    def slow() -> None:
        gate.wait()

    @tool(seconds_max=0.01, name="slow")
    async def slow_on_the_loop() -> None:
        await asyncio.Event().wait()

    overdue = _said(
        "the tool slow timed out after 0.01 seconds. Its effect is unknown: it may have happened, in part or in full, "
        "or may still happen. Check before you call it again",
        ToolOutcome.TIMED_OUT,
    )
    try:
        assert [await _run(slow), await _run(slow_on_the_loop)] == [overdue] * 2
    finally:
        gate.set()


async def test_the_bound_holds_where_a_tool_has_no_deadline_of_its_own() -> None:
    async def slow() -> None:
        await asyncio.Event().wait()

    result = await _run(slow, bounds=Bounds(tool_seconds_max=0.01))
    assert result.outcome is ToolOutcome.TIMED_OUT


async def test_cancelling_a_run_cancels_the_tool() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    running = asyncio.create_task(_run(slow))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()


async def test_a_tool_that_cancels_itself_is_a_failure_and_not_a_cancel() -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError

    assert await _run(give_up) == _said("the tool cancelled itself before it had a result")


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
async def test_what_ends_the_process_is_not_swallowed(error: BaseException) -> None:
    def leave() -> None:
        raise error

    caught: BaseException | None = None
    try:
        await _run(leave)
    except BaseException as raised:  # noqa: BLE001 - what ends a process is the case
        caught = raised
    assert caught is error


# --- what is shown -----------------------------------------------------------------------------------------------


async def test_output_that_fits_is_shown_as_it_is(blobs: MemoryBlobs) -> None:
    assert await _result_of("grüße\n", blobs) == ToolResult("c1", (Text("grüße\n"),))


@pytest.mark.parametrize("value", ["", " \n", ["", ""]])
async def test_no_output_says_so(blobs: MemoryBlobs, value: object) -> None:
    assert await _result_of(value, blobs) == ToolResult("c1", (Text("(no output)"),))


async def test_half_characters_in_output_are_replaced(blobs: MemoryBlobs) -> None:
    assert await _result_of("a\ud800\0b", blobs) == ToolResult("c1", (Text("a\ufffd\ufffdb"),))


@pytest.mark.parametrize("on_loop_max", [0, 2**20])
async def test_long_output_shows_both_ends_and_names_the_blob_with_the_whole(
    blobs: MemoryBlobs, monkeypatch: pytest.MonkeyPatch, on_loop_max: int
) -> None:
    monkeypatch.setattr(toolbox, "_CHARS_ON_LOOP_MAX", on_loop_max)
    text = "first line\n" + "x" * 50_000 + "\nlast line"

    result = await _result_of(text, blobs)

    (part,), (original,) = result.parts, result.originals
    assert isinstance(part, Text)
    assert len(part.text.encode()) <= BOUNDS.tool_output_bytes_max
    assert part.text.startswith("first line\nx")
    assert part.text.endswith("x\nlast line")
    assert (
        f" of 50,021 bytes left out here; kept whole: recall(blob='{original.sha256[:12]}') reads it; or ask the tool "
        "for a part (a range, a filter, fewer lines), not for all of it again]"
    ) in part.text
    assert result.outcome is ToolOutcome.DONE
    assert await blobs.get(original) == text.encode()


async def test_the_texts_of_one_result_share_the_bound_and_one_blob(blobs: MemoryBlobs) -> None:
    image = a_png(3, 2)

    result = await _result_of(["short", image, "x" * 5_000, image, "y" * 5_000], blobs)

    texts = [part.text for part in result.parts if isinstance(part, Text)]
    assert [type(part) for part in result.parts] == [Text, Media, Text, Media, Text]
    assert texts[0] == "short"
    assert sum(len(text.encode()) for text in texts) <= BOUNDS.tool_output_bytes_max
    (original,) = result.originals
    assert await blobs.get(original) == b"short\n" + b"x" * 5_000 + b"\n" + b"y" * 5_000


async def test_base64_in_output_is_left_out_and_kept(blobs: MemoryBlobs) -> None:
    run = base64.b64encode(a_jpeg(3, 2) + NOISE).decode()
    text = f'{{"screenshot": "{run}", "title": "Home"}}'

    result = await _result_of(text, blobs)

    (original,) = result.originals
    size = len(base64.b64decode(run))
    shown = (
        f'{{"screenshot": "[{len(run):,} characters of base64 left out: {size:,} bytes, a JPEG image; '
        f"kept whole: recall(blob='{original.sha256[:12]}') reads it]"
        '", "title": "Home"}'
    )
    assert result == ToolResult("c1", (Text(shown),), originals=(original,))
    assert await blobs.get(original) == text.encode()


async def test_an_image_becomes_media_with_its_size_whatever_it_claims(blobs: MemoryBlobs) -> None:
    image = a_jpeg(30, 20)

    result = await _result_of(["see:", Attachment(image, name="dir/a.png", media_type="image/png")], blobs)

    text, media = result.parts
    assert isinstance(media, Media)
    assert (text, media, result.originals) == (
        Text("see:"),
        Media(media.blob, "image/jpeg", name="a.png", width_pixels=30, height_pixels=20),
        (),
    )
    assert await blobs.get(media.blob) == image


async def test_a_pdf_becomes_media(blobs: MemoryBlobs) -> None:
    (media,) = (await _result_of(b"%PDF-1.7\n\xff", blobs)).parts
    assert isinstance(media, Media)
    assert media == Media(media.blob, "application/pdf")


async def test_a_large_jpeg_whose_size_comes_late_becomes_media_without_a_size(blobs: MemoryBlobs) -> None:
    (media,) = (await _result_of(a_jpeg(30, 20, (b"\xff\xe1\xff\xff" + bytes(0xFFFD)) * 9), blobs)).parts
    assert isinstance(media, Media)
    assert media == Media(media.blob, "image/jpeg")


async def test_bytes_that_are_text_are_shown_as_text(blobs: MemoryBlobs) -> None:
    late_damage = b"a" * 600_000 + b"\xff"
    assert await _result_of(b"plain", blobs) == ToolResult("c1", (Text("plain"),))
    result = await _result_of(late_damage, blobs, Bounds(tool_output_bytes_max=10**6))
    assert result == ToolResult("c1", (Text("a" * 600_000 + "\ufffd"),))


@pytest.mark.parametrize(
    ("content", "what"),
    [(NOISE, "3,000 bytes, of an unknown type"), (a_png(3, 2)[:20], "20 bytes, a PNG image that is damaged")],
)
async def test_bytes_no_model_takes_are_kept_and_named(blobs: MemoryBlobs, content: bytes, what: str) -> None:
    result = await _result_of(Attachment(content, name="core.bin"), blobs)

    (original,) = result.originals
    line = f"[core.bin: {what}, kept whole as blob {original.sha256[:12]}]"
    assert result == ToolResult("c1", (Text(line),), originals=(original,))
    assert await blobs.get(original) == content


async def test_attachments_beyond_the_bounds_are_left_out_and_counted(blobs: MemoryBlobs) -> None:
    bounds = Bounds(attachments_max=2, attachment_bytes_max=2_000)

    result = await _result_of([b"", NOISE, a_png(3, 2), a_png(4, 3)], blobs, bounds)

    assert result == ToolResult(
        "c1",
        (
            Text(
                "[output: 0 bytes]\n[output: 3,000 bytes exceed the maximum of 2,000; it is not stored]\n"
                "[2 more attachments are left out; ask for fewer at once]"
            ),
        ),
    )


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("x" * 5_000, "bytes left out here; it could not be stored (StoreFullError); or ask the tool"),
        (a_png(3, 2), "[output: 29 bytes, a PNG image; it could not be stored (StoreFullError)]"),
    ],
)
async def test_a_full_disk_does_not_lose_the_result_of_a_tool_that_ran(value: object, told: str) -> None:
    result = await _result_of(value, FullBlobs())

    (part,) = result.parts
    assert isinstance(part, Text)
    assert told in part.text
    assert (result.outcome, result.originals) == (ToolOutcome.DONE, ())


class HandMade:
    """A tool that is no function."""

    spec = ToolSpec("hand-made", "By hand.", '{"type": "object"}')
    is_idempotent = True
    seconds_max = 1.0

    async def run(self, arguments: str) -> Sequence[str | Attachment]:
        return arguments


async def test_a_tool_of_another_make_runs_and_its_one_text_stays_one() -> None:
    assert await _run(HandMade(), "abc") == ToolResult("c1", (Text("abc"),))
