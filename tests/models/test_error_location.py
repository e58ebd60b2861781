"""An error path resolves to the SHA-256 of the offending image."""

import json
from base64 import b64encode
from hashlib import sha256
from typing import Any

import pytest

from holdfast.models.catalogue import simulated_model
from holdfast.models.fake import Simulation
from holdfast.models.http import offending_image
from holdfast.types.limits import Limits
from holdfast.types.messages import BlobRef, Media, Message, Role, Text
from tests.e2e.images import a_png
from tests.models.conversations import answered, asking, refusal_of, said

ONE, TWO, THREE = b"one image", b"another image", b"a third image"


def named(image: bytes) -> str:
    return sha256(image).hexdigest()


def anthropic(image: bytes) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "data": b64encode(image).decode()}}


def openai(image: bytes) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64encode(image).decode()}"}}


WORDS = {"type": "text", "text": "data: see messages.1.content.0"}
CLAUDE = {
    "messages": [
        {"role": "user", "content": [WORDS, anthropic(ONE)]},
        {"role": "user", "content": [{"type": "tool_result", "content": [anthropic(TWO)]}, anthropic(THREE)]},
    ]
}
CHAT = {"messages": [{"content": "hi"}, {"content": [WORDS, openai(ONE), openai(TWO)]}]}
RESPONSES = {"input": [{"content": [{"type": "input_image", "image_url": openai(ONE)["image_url"]["url"]}]}]}
GEMINI = {"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": b64encode(TWO).decode()}}]}]}


@pytest.mark.parametrize(
    ("body", "told", "image"),
    [
        (CLAUDE, "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum", ONE),
        (CLAUDE, "messages.0: something about its image", ONE),
        (CLAUDE, '{"error": {"message": "messages.1.content.1.image.source: bad"}}', THREE),
        (CLAUDE, "messages.1.content.0.tool_result.content.0.image: bad", TWO),
        (CHAT, ".messages[1].image[1]: You have uploaded an unsupported image.", TWO),
        (CHAT, "Invalid 'messages[1].content[1].image_url.url'", ONE),
        (RESPONSES, "Invalid 'input[0].content[0].image_url'.", ONE),
        (GEMINI, "Unable to process contents[0].parts[0]", TWO),
    ],
)
def test_the_image_at_the_place_is_found(body: dict[str, Any], told: str, image: bytes) -> None:
    assert offending_image(json.dumps(body).encode(), told) == named(image)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (CLAUDE, "image exceeds 5 MB maximum"),
        (CLAUDE, "messages.1: one of these two"),
        (CLAUDE, "messages.7.content.0: no such message"),
        (CLAUDE, "messages.0.content.0: a text"),
        (CLAUDE, "submessages.0.content.1"),
        (CHAT, "messages[1].image[5]: no such image"),
        ({"messages": [{"content": [{"source": {"data": "not base64!"}}]}]}, "messages.0.content.0"),
        ({"input": "plain"}, "messages.0.content.0"),
        (["messages"], "messages.0.content.0"),
    ],
)
def test_what_points_at_none_or_at_many_blames_nobody(body: object, told: str) -> None:
    assert offending_image(json.dumps(body).encode(), told) == ""


def test_a_body_that_is_no_json_blames_nobody() -> None:
    assert offending_image(b"{", "messages.0.content.0") == ""


async def test_a_refusal_over_the_wire_names_the_image_that_is_too_large() -> None:
    small, large = a_png(seed=1), a_png(size_bytes=40_000, seed=2)
    blobs = {named(image): image for image in (small, large)}
    one, two = (Media(BlobRef(named(image), len(image)), "image/png", "p.png", 64, 64) for image in (small, large))
    talk = (said("hi"), answered(Text("hello")), Message(Role.USER, (one, two, one)))

    refusal = await refusal_of(
        simulated_model(Simulation(Limits(media_bytes_max=20_000)), "anthropic"), asking(*talk), blobs
    )

    assert refusal.blamed == named(large)
