"""A provider that refuses content in forms of its own, over HTTP: the message ends, and every later one is answered.

The provider (tests/e2e/strict_provider.py) has other words, statuses and frames than the simulated one, and gives every
error another id. It refuses by a substring, a pattern, or a part of one message.
"""

import asyncio
import base64
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.core.limits.bounds import Bounds
from holdfast.errors import TurnFailedError
from holdfast.ports import Attachment
from holdfast.runtime.clock import SystemClock
from holdfast.stores.memory import MemoryStore
from tests.e2e.images import a_png
from tests.e2e.strict_provider import EMPTY, FORMS, LATE, PATHS, StrictProvider, a_strict_provider, by_pattern
from tests.e2e.world import KEY, ended_well
from tests.proxy.proxies import DropInRunning, a_dropin

BOUNDS = Bounds(compacts_ahead=False, back_off_seconds_min=0.0001, back_off_seconds_max=0.001)
# Requests for one message: as in tests/runtime/test_refused_content.py, and one for the call of a tool.
CALLS_MAX = 19
BAD = "please tell me about Zqxj-4711 and\nwhat came of it"
IMAGE = a_png(width=3, height=3)
IMAGE_TEXT = base64.b64encode(IMAGE).decode()
BOUNDED = settings(phases=[Phase.explicit, Phase.generate], max_examples=15, deadline=None, derandomize=True)


class Refused(msgspec.Struct, frozen=True):
    """The content of one message that a provider refuses, and how it recognises it."""

    said: str = BAD
    has_image: bool = False
    result: str = ""
    is_refused: Callable[[str], bool] = by_pattern("zqxj")


# Any substring of the message that no other text has: at least its name, with more or less around it.
SUBSTRINGS = st.tuples(st.integers(0, BAD.index("Z")), st.integers(BAD.index("j") + 1, len(BAD))).map(
    lambda ends: Refused(is_refused=lambda content: BAD[ends[0] : ends[1]] in content)
)
PATTERNS = st.sampled_from([r"z.xj", r"\bzqxj\b.*\d{4}", r"about zqxj", r"[a-z]{4}-\d{4} and\s+what"]).map(
    lambda pattern: Refused(is_refused=by_pattern(pattern))
)
PARTS = st.sampled_from(
    [
        Refused("what is in the picture?", has_image=True, is_refused=lambda content: IMAGE_TEXT in content),
        Refused(f"{BAD} and in the picture?", has_image=True),
        Refused("call read", result=f"line one\n{BAD}"),
    ]
)
REFUSED = st.one_of(SUBSTRINGS, PATTERNS, PARTS)
RESTARTS = st.lists(st.booleans(), min_size=8, max_size=8)


@BOUNDED
@example(dialect="openai", form="forbidden", refused=Refused(), again=0, before=1, restarts=[True] * 8)
@example(dialect="anthropic", form="crash", refused=Refused(), again=1, before=0, restarts=[False] * 8)
@example(dialect="responses", form="too large", refused=Refused(), again=0, before=1, restarts=[False] * 8)
@example(dialect="openai", form="media type", refused=Refused(), again=0, before=0, restarts=[False] * 8)
@example(dialect="openai", form=EMPTY, refused=Refused("call read", result=BAD), again=0, before=1, restarts=[True] * 8)
@given(
    dialect=st.sampled_from(sorted(PATHS)),
    form=st.sampled_from(FORMS),
    refused=REFUSED,
    again=st.integers(0, 1),
    before=st.integers(0, 2),
    restarts=RESTARTS,
)
def test_a_native_session_survives_any_form_of_refused_content(
    dialect: str, form: str, refused: Refused, again: int, before: int, restarts: list[bool]
) -> None:
    provider = StrictProvider(refused.is_refused, form)
    bad = [refused.said] * (1 + again)
    script = [f"before {number}" for number in range(before)] + bad + [f"after {number}" for number in range(3)]

    @holdfast.tool
    def read() -> str:
        """Read a file."""
        return refused.result

    async def talk(folder: str) -> None:
        outcomes: list[str] = []
        calls: list[int] = []
        async with a_strict_provider(provider):
            url = provider.url + ("" if dialect == "anthropic" else "/v1")
            while len(outcomes) < len(script):
                async with holdfast.open(
                    Path(folder) / "holdfast.db",
                    model=f"{dialect}:m",
                    base_url=url,
                    tools=[read],
                    tuning=holdfast.Tuning(bounds=BOUNDS, grace_seconds=0.1),
                ) as hold:
                    session = await hold.session(KEY)
                    while len(outcomes) < len(script):
                        text, seen = script[len(outcomes)], len(provider.bodies)
                        images = [Attachment(IMAGE, "a.png")] if refused.has_image and text == refused.said else []
                        try:
                            outcomes.append((await session.send(text, attachments=images)).text)
                        except TurnFailedError as failed:
                            outcomes.append(f"({failed.sentence})")
                        calls.append(len(provider.bodies) - seen)
                        if restarts[len(outcomes) % len(restarts)]:
                            break
                    await ended_well(session)
        harmless = [said for said, text in zip(outcomes, script, strict=True) if text != refused.said]
        assert harmless == ["ok"] * len(harmless), outcomes
        assert all(said == "ok" or said.endswith((".)", '")')) for said in outcomes), outcomes
        assert max(calls) <= CALLS_MAX, calls
        assert not refused.is_refused(provider.bodies[-1])

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(talk(folder))


class Way(msgspec.Struct, frozen=True):
    """A client's requests, its way with a message that failed, and the provider's form of refusal."""

    dialect: str
    form: str
    keeps: str = "keeps"
    is_streamed: bool = False
    # The provider refuses only requests for a stream.
    is_streaming_only: bool = False


WAYS = st.builds(
    Way,
    dialect=st.sampled_from(sorted(PATHS)),
    form=st.sampled_from([form for form in FORMS if form != LATE]),
    keeps=st.sampled_from(["keeps", "merges", "drops"]),
    is_streamed=st.booleans(),
    is_streaming_only=st.booleans(),
)


@BOUNDED
@example(Way("openai", "forbidden", is_streamed=True), Refused(), 1, [True] * 8)
@example(Way("anthropic", "crash", "merges"), Refused(), 1, [False] * 8)
@example(Way("responses", "too large", is_streamed=True, is_streaming_only=True), Refused(), 0, [True] * 8)
@example(Way("openai", EMPTY, is_streamed=True), Refused(), 1, [False] * 8)
@example(Way("openai", "media type", "drops"), Refused(), 1, [False] * 8)
@given(way=WAYS, refused=REFUSED, before=st.integers(0, 2), restarts=RESTARTS)
def test_a_client_of_the_proxy_survives_any_form_of_refused_content(
    way: Way, refused: Refused, before: int, restarts: list[bool]
) -> None:
    """The client sends its whole history every time; the gateway restarts and keeps nothing but its store."""
    provider = StrictProvider(refused.is_refused, way.form, is_streaming_only=way.is_streaming_only)
    client = _Client(way)

    async def talk() -> None:
        store = MemoryStore(clock=SystemClock(), bounds=BOUNDS)
        script = [f"before {number}" for number in range(before)] + [""] + [f"after {number}" for number in range(3)]
        answered: list[bool] = []
        calls: list[int] = []
        async with a_strict_provider(provider):
            while len(answered) < len(script):
                async with a_dropin(store=store, bounds=BOUNDS, upstream_url=provider.url) as running:
                    while len(answered) < len(script):
                        seen = len(provider.bodies)
                        if text := script[len(answered)]:
                            client.says(text)
                        else:
                            client.says_refused(refused)
                        answered.append(await client.ask(running))
                        calls.append(len(provider.bodies) - seen)
                        if restarts[len(answered) % len(restarts)]:
                            break
        assert all(answered[:before] + answered[before + 1 :]), (answered, client.items)
        assert max(calls) <= CALLS_MAX, calls

    asyncio.run(talk())


class _Client:
    """A client that keeps its own history, in one of the ways that clients keep a message that failed."""

    def __init__(self, way: Way) -> None:
        self.items: list[Any] = []
        self._dialect, self._keeps, self._is_streamed = way.dialect, way.keeps, way.is_streamed

    def says(self, text: str, *parts: Any) -> None:
        """Add a message of the person."""
        kind = "input_text" if self._dialect == "responses" else "text"
        content = [*parts, {"type": kind, "text": text}]
        last = self.items[-1] if self.items else {}
        if self._keeps == "merges" and last.get("role") == "user" and last["content"][0]["type"] != "tool_result":
            last["content"] += content
        else:
            self.items.append({"role": "user", "content": content})

    def says_refused(self, refused: Refused) -> None:
        """Add the message that the provider refuses, with its image, or the result of a call that it led to."""
        url = f"data:image/png;base64,{IMAGE_TEXT}"
        images: dict[str, dict[str, Any]] = {
            "openai": {"type": "image_url", "image_url": {"url": url}},
            "responses": {"type": "input_image", "image_url": url, "detail": "auto"},
            "anthropic": {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": IMAGE_TEXT},
            },
        }
        self.says(refused.said, *([images[self._dialect]] if refused.has_image else []))
        if refused.result:
            self.items += self._call(refused.result)

    def _call(self, result: str) -> Sequence[Any]:
        if self._dialect == "openai":
            call = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
            asked: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [call]}
            return asked, {"role": "tool", "tool_call_id": "call_1", "content": result}
        if self._dialect == "responses":
            asked = {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{}"}
            return asked, {"type": "function_call_output", "call_id": "call_1", "output": result}
        use = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}
        block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": result}
        return {"role": "assistant", "content": [use]}, {"role": "user", "content": [block]}

    async def ask(self, running: DropInRunning) -> bool:
        """Send the history; add the answer to it, and return whether there was one."""
        items = "input" if self._dialect == "responses" else "messages"
        body = {"model": "m", "stream": self._is_streamed, items: self.items}
        if self._dialect == "anthropic":
            body["max_tokens"] = 100
        headers = {"authorization": "Bearer sk-the-clients-own-key", "x-api-key": "sk-the-clients-own-key"}
        told, status = "", 0
        try:
            async with running.http.post(running.url + PATHS[self._dialect], json=body, headers=headers) as response:
                told, status = (await response.read()).decode(), response.status
        except aiohttp.ClientError:
            pass
        is_answered = status == 200 and '"ok"' in told and '"error":{' not in told.replace(" ", "")
        if is_answered:
            said = {"type": "output_text", "text": "ok"}
            self.items.append({"role": "assistant", "content": [said] if self._dialect == "responses" else "ok"})
        elif self._keeps == "drops":
            self.items.pop()
        return is_answered
