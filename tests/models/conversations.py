"""Builders of requests and replies, hypothesis strategies, and the outcome of a stream."""

import hashlib
import json
from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from holdfast.ports import Delta, Model
from holdfast.types.faults import Refusal
from holdfast.types.messages import (
    BlobRef,
    Effort,
    LargeText,
    Media,
    Message,
    Part,
    Reply,
    Request,
    Role,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
    ToolSpec,
)
from tests.core.images import a_png

ECHO = ToolSpec("echo", "Says it again.", '{"type":"object","properties":{"word":{"type":"string"}}}')

# Four names for one byte each: enough to tell images apart, and real enough for every check.
IMAGES: Mapping[str, bytes] = {
    hashlib.sha256(image).hexdigest(): image for image in (a_png(10, 20), a_png(30, 40), a_png(300, 400))
}


def a_blob(content: bytes) -> BlobRef:
    return BlobRef(hashlib.sha256(content).hexdigest(), len(content))


def an_image(content: bytes, width: int = 0, height: int = 0, name: str = "") -> Media:
    return Media(a_blob(content), "image/png", name, width, height)


def said(text: str) -> Message:
    return Message(Role.USER, (Text(text),))


def answered(*parts: Part) -> Message:
    return Message(Role.ASSISTANT, parts)


def returned(*results: ToolResult) -> Message:
    return Message(Role.TOOL, results)


def asking(
    *messages: Message,
    system: str = "",
    tools: tuple[ToolSpec, ...] = (),
    output_tokens_max: int | None = None,
    effort: Effort | None = None,
) -> Request:
    return Request(messages, system, tools, output_tokens_max, effort)


async def outcome(
    model: Model, request: Request, blobs: Mapping[str, bytes] | None = None
) -> tuple[list[Delta], Reply | Refusal]:
    """Run a request to its end: the deltas, and the one outcome behind them."""
    told = [piece async for piece in model.stream(request, blobs or {})]
    *deltas, last = told
    assert isinstance(last, Reply | Refusal)
    return [delta for delta in deltas if not isinstance(delta, Reply | Refusal)], last


async def reply_of(model: Model, request: Request, blobs: Mapping[str, bytes] | None = None) -> Reply:
    _, last = await outcome(model, request, blobs)
    assert isinstance(last, Reply), last
    return last


async def refusal_of(model: Model, request: Request, blobs: Mapping[str, bytes] | None = None) -> Refusal:
    _, last = await outcome(model, request, blobs)
    assert isinstance(last, Refusal), last
    return last


def text_of_reply(reply: Reply) -> str:
    return "".join(part.text for part in reply.parts if isinstance(part, Text))


# --- any conversation --------------------------------------------------------------------------------------------

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(
    lambda text: text.strip() != ""
)
texts = words.map(Text)
call_ids = st.one_of(st.from_regex(r"call_[a-z0-9]{1,8}", fullmatch=True), st.text(min_size=1, max_size=60))
arguments = st.one_of(
    st.dictionaries(words, st.integers() | words, max_size=2).map(json.dumps),
    st.sampled_from(["", "{", "not json", "[1]", '"text"', '{"a": 1,\n "b": {} }', "null"]),
)
images = st.sampled_from(
    [an_image(image, *size) for image, size in zip(IMAGES.values(), [(10, 20), (30, 40), (300, 400)], strict=True)]
)


@st.composite
def rounds_of_calls(draw: st.DrawFn) -> Sequence[Message]:
    """An assistant's message with calls, and all their results in one message."""
    ids = draw(st.lists(call_ids, min_size=1, max_size=3, unique=True))
    lead = draw(st.lists(texts, max_size=1))
    calls = [ToolCall(call_id, "echo", draw(arguments)) for call_id in ids]
    outcomes = st.sampled_from([ToolOutcome.DONE, ToolOutcome.FAILED])
    results = [
        ToolResult(call_id, tuple(draw(st.lists(texts | images, max_size=2))), draw(outcomes)) for call_id in ids
    ]
    return [answered(*lead, *calls), returned(*results)]


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """A conversation that starts with a person, with rounds of calls, images and settings."""
    messages: list[Message] = []
    for _ in range(draw(st.integers(1, 3))):
        messages.append(Message(Role.USER, tuple(draw(st.lists(texts | images, min_size=1, max_size=3)))))
        for _ in range(draw(st.integers(0, 2))):
            messages += draw(rounds_of_calls())
        messages.append(answered(*draw(st.lists(texts, min_size=1, max_size=2))))
    messages.append(Message(Role.USER, (draw(texts),)))
    return Request(
        tuple(messages),
        system=draw(st.just("") | words),
        tools=(ECHO,),
        output_tokens_max=draw(st.none() | st.integers(1, 100_000)),
        effort=draw(st.none() | st.sampled_from(Effort)),
    )


def large(text: str) -> LargeText:
    return LargeText(a_blob(text.encode()), text[:10])
