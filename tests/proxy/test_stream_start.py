"""The first words of an answer pass before they are read, and what passes is kept in its conversation all the same."""

import json
from typing import Any

import pytest

from holdfast.gateway.proxy.forward import Relay, _opening
from holdfast.gateway.proxy.request import ResponseWriter
from holdfast.gateway.proxy.upstream import UpstreamResponse
from holdfast.models.dialects import DIALECTS
from holdfast.models.fake import Simulation
from holdfast.types.limits import Limits
from holdfast.types.messages import text_of
from holdfast.types.records import InputAdmitted, ReplyRecorded
from tests.proxy.proxies import DropInRunning, a_dropin

LONG = "one of the many words that a conversation begins with " * 30
ROLES = ("user", "assistant")


class _Pieces(UpstreamResponse):
    """An answer without a connection."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)

    async def next(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


_TAKEN = (
    b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
)
_WORD = b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hello"}}]}\n\n'
_ERROR = b'data: {"error":{"message":"overloaded","type":"server_error","code":503}}\n\n'


@pytest.mark.parametrize(
    ("dialect", "pieces", "opening"),
    [
        ("openai-chat", [_TAKEN, _WORD, _WORD], (_TAKEN + _WORD, _WORD, False)),
        ("openai-chat", [_TAKEN + _WORD], (_TAKEN + _WORD, _TAKEN + _WORD, False)),
        # What speaks and fails in one breath is read: it can still be cured.
        ("openai-chat", [_TAKEN + _WORD + _ERROR], (_TAKEN + _WORD + _ERROR, b"", False)),
        ("openai-chat", [_TAKEN, _ERROR], (_TAKEN + _ERROR, b"", False)),
        ("openai-chat", [_TAKEN], (_TAKEN, b"", True)),
        (
            "anthropic",
            [b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}\n\n'],
            (
                *[b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}\n\n'] * 2,
                False,
            ),
        ),
    ],
)
async def test_words_are_seen_without_being_read_and_an_error_among_them_is_read(
    dialect: str, pieces: list[bytes], opening: tuple[bytes, bytes, bool]
) -> None:
    decoder = DIALECTS[dialect].StreamDecoder("issuer", "nonce")
    relay = Relay(decoder, ResponseWriter(_unsent))
    held, has_ended = await _opening(_Pieces(*pieces), relay)
    assert (held, relay.undecoded, has_ended) == opening


async def _unsent(message: Any) -> None:
    raise AssertionError(f"nothing is sent to the client while an answer opens: {message}")


async def _ask(running: DropInRunning, texts: list[str], **more: Any) -> tuple[str, str | None]:
    """Ask with a history, and return the answer and the session that the gateway names."""
    messages: Any = [{"role": ROLES[place % 2], "content": text} for place, text in enumerate(texts)]
    body = {"model": "sim", "messages": messages, **more}
    headers = {"authorization": "Bearer sk-the-clients-own-key", "content-type": "application/json"}
    async with running.http.post(f"{running.url}/v1/chat/completions", json=body, headers=headers) as response:
        told = await response.read()
        assert response.status == 200, told
        if more.get("stream"):
            lines = [json.loads(line[6:]) for line in told.decode().splitlines() if line.startswith("data: {")]
            said = "".join(choice["delta"].get("content") or "" for line in lines for choice in line["choices"])
        else:
            said = json.loads(told)["choices"][0]["message"]["content"]
        return said, response.headers.get("x-holdfast-session")


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_every_message_of_a_conversation_that_passes_is_in_its_log_once(*, is_streamed: bool) -> None:
    texts, named = [f"{LONG} remember harbour = Kiel"], []
    async with a_dropin() as running:
        for turn in range(4):
            answer, session = await _ask(running, texts, stream=is_streamed)
            texts += [answer, f"and then {turn}"]
            named.append(session)
        records = await running.records(named[0] or "")
        assert await running.sessions() == [named[0]]
    inputs = [text_of(record.parts) for record in records if isinstance(record, InputAdmitted)]
    replies = [text_of(record.reply.parts) for record in records if isinstance(record, ReplyRecorded)]
    assert (inputs, replies) == (texts[0:8:2], texts[1:8:2])
    assert len(set(named)) == 1
    assert len(running.sent) == 4


async def test_a_request_that_went_ahead_and_was_refused_is_rescued() -> None:
    texts, first = [f"{LONG} remember harbour = Kiel"], None
    simulation = Simulation(Limits(window_tokens=400_000))
    async with a_dropin(simulation) as running:
        for _ in range(3):
            answer, first = await _ask(running, texts)
            texts += [answer, "word " * 3_000]
        # The provider takes less from here on, and nobody has said so.
        simulation.limits = Limits(window_tokens=6_000)
        answer, session = await _ask(running, [*texts[:-1], "what is harbour?"])
    assert "Kiel" in answer
    assert session == first
    refused = [one.status for one in simulation.requests if one.status != 200]
    assert refused == [400]


async def test_two_ways_on_from_one_beginning_are_two_conversations() -> None:
    async with a_dropin() as running:
        begun = [LONG]
        answer, trunk = await _ask(running, begun)
        begun += [answer]
        left, named_left = await _ask(running, [*begun, "left"])
        _, named_right = await _ask(running, [*begun, "right"])
        _, again_left = await _ask(running, [*begun, "left", left, "on"])
        logs = {key: await running.records(key) for key in await running.sessions()}
    assert named_left == trunk == again_left != named_right
    said = {
        key: [text_of(one.parts) for one in records if isinstance(one, InputAdmitted)] for key, records in logs.items()
    }
    assert said == {trunk: [LONG, "left", "on"], named_right: [LONG, "right"]}
