"""A message or an output that is larger than the window: as much of it as fits is shown, and the question behind it."""

import re
from collections.abc import Callable

import pytest

from holdfast.core.limits.sizing import tokens_of_request, tokens_of_text
from holdfast.ports import Attachment
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.tools.function_tool import tool
from holdfast.stores.memory import MemoryBlobs
from holdfast.testing.builders import a_tool_call
from holdfast.testing.engines import FunctionModel, a_hold, an_engine, refuses, says
from holdfast.types.faults import Refusal
from holdfast.types.limits import Limits
from holdfast.types.messages import Reply, Request, Role, ToolCall, ToolResult, text_of
from holdfast.types.records import PartReplaced
from tests.runtime.summarisers import ONLY_WHEN_ASKED, Talker, is_for_notes
from tests.runtime.talks import KEY, OVERFLOW

QUESTION = "Which disk failed, and when?"


def a_paste(tokens: int) -> str:
    """Return a log of about so many tokens."""
    lines = (
        f"2026-01-01 10:{number % 60:02} worker {number} has taken task {number * 7}" for number in range(tokens // 28)
    )
    return "\n".join([*lines])


@pytest.mark.parametrize("window", [64_000, 200_000])
@pytest.mark.parametrize("share", [1.3, 6.0])
async def test_a_paste_larger_than_the_window_is_answered_with_most_of_the_window_used(
    window: int, share: float
) -> None:
    model = FunctionModel(lambda _: says("ok"), limits=Limits(window_tokens=window))
    async with a_hold(an_engine(model)) as hold:
        session = await hold.session(KEY)
        await session.send("hello")
        paste = a_paste(int(window * share))

        answer = await session.send(f"{paste}\nERROR: disk 7 failed\n{QUESTION}")

        shown = text_of(model.requests[-1].messages[-1].parts)
        assert shown.startswith("2026-01-01 10:00 worker 0")
        assert shown.endswith(f"ERROR: disk 7 failed\n{QUESTION}")
        assert tokens_of_request(model.requests[-1]) >= 0.6 * window
        assert re.search(
            r"bytes left out here; recall\(seq=6, offset=n\) reads on from byte n\]\n\[[\d,]+ lines", shown
        )
        (notice,) = [one for one in answer.notices if "too much for the model" in one]
        assert "beginning, its end and an outline" in notice


def prose(number: int) -> str:
    return f"The harbour master wrote in the evening that ship {number} had left before the wind turned to the north."


def digits(number: int) -> str:
    time = f"2026-01-01 10:{number % 60:02}:{number * 7 % 60:02}.{number * 7919 % 1_000_000:06}"
    return f"{time} 10.{number % 256}.{number * 7 % 256}.{number * 13 % 256} {number * 104_729}"


def code(number: int) -> str:
    return (
        f"    def reserve_berth_{number}(self, ship: Ship) -> Booking | None:\n        return self._free.get(ship.name)"
    )


def chinese(number: int) -> str:
    return f"港务局在晚上写道，第{number}号船在风向转北之前已经离开了港口，请求仍在等待批准。"  # noqa: RUF001


def most_tokens(request: Request) -> int:
    """Count a token per digit, mark and ideograph, and one per five letters: no vocabulary in use needs many more."""
    texts = [request.system, *(f"{one.name} {one.description} {one.parameters}" for one in request.tools)]
    texts += [text_of(message.parts) for message in request.messages]
    return sum(
        -(-len(word) // 5) if word.isascii() and word.isalpha() else len(word)
        for text in texts
        for word in re.findall(r"[A-Za-z]+|[^\sA-Za-z]|\n", text)
    )


@pytest.mark.parametrize("window", [16_000, 24_000, 64_000, 200_000])
@pytest.mark.parametrize("line", [prose, digits, code, chinese])
async def test_the_first_message_fills_the_window_and_never_more_whatever_it_consists_of(
    window: int, line: Callable[[int], str]
) -> None:
    def answer(request: Request) -> Reply | Refusal:
        return refuses(400, OVERFLOW) if most_tokens(request) > window else says("ok")

    model = FunctionModel(answer, limits=Limits(window_tokens=window))
    async with a_hold(an_engine(model)) as hold:
        session = await hold.session(KEY)
        lines = int(1.3 * window) // tokens_of_text(line(1_234))

        await session.send("\n".join([*(line(number) for number in range(lines)), QUESTION]))

        (request,) = model.requests
        assert text_of(request.messages[-1].parts).endswith(QUESTION)
        assert tokens_of_request(request) >= 0.6 * window


async def test_the_rest_of_a_paste_is_read_from_the_byte_that_the_outline_gives() -> None:
    asked: list[str] = []

    def answer(request: Request) -> Reply | Refusal:
        results = [part for part in request.messages[-1].parts if isinstance(part, ToolResult)]
        if results:
            asked.append(text_of(results[0].parts))
            return says("in the harbour")
        found = re.search(r"^([\d,]+): ## The harbour$", text_of(request.messages[-1].parts), re.MULTILINE)
        assert found is not None
        return says("", a_tool_call("recall", f'{{"seq": 1, "offset": {found[1].replace(",", "")}}}'))

    model = FunctionModel(answer, limits=Limits(window_tokens=16_000))
    async with a_hold(an_engine(model)) as hold:
        session = await hold.session(KEY)
        half = a_paste(12_000)

        await session.send(f"{half}\n## The harbour\nThe key is under the boat.\n{half}\n{QUESTION}")

        assert "## The harbour\nThe key is under the boat." in asked[0]


async def test_several_files_share_the_room_and_a_short_one_is_shown_whole() -> None:
    model = FunctionModel(lambda _: says("ok"), limits=Limits(window_tokens=24_000))
    async with a_hold(an_engine(model)) as hold:
        session = await hold.session(KEY)
        files = [
            Attachment(f"{name}: {a_paste(tokens)}".encode(), name=f"{name}.log")
            for name, tokens in (("one", 20_000), ("two", 30_000), ("three", 1_500))
        ]

        await session.send(QUESTION, attachments=files)

        log = await open_log(hold.engine.store, KEY)
        one, two = log.turn.replaced
        assert abs(len(one.shown.text) - len(two.shown.text)) < 0.2 * len(two.shown.text)  # type: ignore[union-attr]  # texts
        assert {one.place, two.place} == {1, 2}


async def test_an_output_larger_than_the_window_is_shown_by_its_ends_too() -> None:
    @tool
    def read_log() -> str:
        """Read the log."""
        return a_paste(9_000)

    def answer(request: Request) -> Reply | Refusal:
        is_read = any(isinstance(part, ToolResult) for message in request.messages for part in message.parts)
        return says("done") if is_read else says("", a_tool_call("read_log", "{}"))

    model = FunctionModel(answer, limits=Limits(window_tokens=6_000))
    async with a_hold(an_engine(model, tools=[read_log])) as hold:
        session = await hold.session(KEY)

        assert (await session.send("read it")).text == "done"

        (result,) = [part for part in model.requests[-1].messages[-1].parts if isinstance(part, ToolResult)]
        text = text_of(result.parts)
        assert text.startswith("2026-01-01 10:00 worker 0")
        assert "worker 320 has" in text[-80:]
        assert tokens_of_request(model.requests[-1]) >= 0.5 * 6_000
        assert model.requests[-1].messages[-2].role is Role.ASSISTANT
        assert any(isinstance(part, ToolCall) for part in model.requests[-1].messages[-2].parts)


async def test_of_an_unknown_window_the_stated_limit_or_half_of_the_refused_size_is_filled() -> None:
    refusals = [refuses(400, OVERFLOW)]

    def answer(request: Request) -> Reply | Refusal:
        too_long = not is_for_notes(request) and tokens_of_request(request) > 8_192
        return refusals[0] if too_long else says("ok")

    for refusal in (refuses(400, OVERFLOW), refuses(400, "the prompt is too long for this model")):
        refusals[0] = refusal
        model = FunctionModel(answer)
        async with a_hold(an_engine(model)) as hold:
            session = await hold.session(KEY)

            assert (await session.send(f"{a_paste(12_000)}\n{QUESTION}")).text == "ok"

            assert text_of(model.requests[-1].messages[-1].parts).endswith(QUESTION)
            assert 3_000 < tokens_of_request(model.requests[-1]) < 8_192


async def test_a_paste_whose_original_is_missing_is_shown_by_what_is_left() -> None:
    model = FunctionModel(lambda _: says("ok"), limits=Limits(window_tokens=8_000))
    blobs = MemoryBlobs()
    async with a_hold(an_engine(model, blobs=blobs)) as hold:
        session = await hold.session(KEY)
        blobs.get = blobs.read = _missing  # type: ignore[method-assign]  # a damaged disk

        assert (await session.send(f"{a_paste(20_000)}\n{QUESTION}")).text == "ok"

        assert "is missing]" in text_of(model.requests[-1].messages[-1].parts)


async def _missing(ref: object, **_range: int) -> bytes:
    from holdfast.errors import BlobMissingError  # noqa: PLC0415 - used by this double alone

    raise BlobMissingError(str(ref), "is gone")


async def test_the_whole_paste_is_read_by_the_summariser_later() -> None:
    model = Talker(
        lambda request: says("The harbour." if "under the boat" in text_of(request.messages[0].parts) else "A log."),
        window=12_000,
    )
    async with a_hold(an_engine(model, bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)
        half = a_paste(11_000)
        await session.send(f"{half}\nThe key is under the boat.\n{half}\n{QUESTION}")
        assert "under the boat" not in text_of(model.requests[-1].messages[-1].parts)
        await session.send("thanks")
        await session.compact()

        assert "The harbour." in text_of((await session.view()).messages[0].parts)
        replaced = [one for one in await session.history(limit=1_000) if isinstance(one.record, PartReplaced)]
        assert len(replaced) == 1
