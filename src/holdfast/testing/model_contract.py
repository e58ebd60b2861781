"""Contract of custom models: subclass it with one fixture, and pytest checks what the engine relies on.

    class TestMyModel(ModelContract):
        @pytest.fixture
        def model(self):
            return MyModel()

The model is asked real questions, so give it a test double of its provider.
"""

from abc import ABC, abstractmethod
from contextlib import aclosing

import pytest

from holdfast.core.limits.prices import Prices
from holdfast.ports import Delta, Model, ReasoningDelta, TextDelta, ToolCallDelta
from holdfast.types.faults import Refusal
from holdfast.types.limits import Limits
from holdfast.types.messages import Message, Reply, Request, Role, Text, ToolCall, ToolSpec, text_of
from holdfast.types.settings import Settings

_HELLO = Request((Message(Role.USER, (Text("hello"),)),), "Be brief.")
_LOOK = ToolSpec("look", "Look at something.", '{"type":"object","properties":{}}')


async def _events(model: Model, request: Request) -> list[Delta | Reply | Refusal]:
    async with aclosing(model.stream(request, {})) as stream:
        return [event async for event in stream]


class ModelContract(ABC):
    """What every model promises, whatever it answers."""

    @abstractmethod
    @pytest.fixture
    def model(self) -> Model:
        """Return the model."""

    async def test_its_name_and_issuer_are_stable_texts(self, model: Model) -> None:
        assert model.name
        assert model.name == model.name.strip()
        assert model.issuer.count(":") >= 1, "the issuer is dialect, endpoint and model, joined by colons"
        assert (model.name, model.issuer) == (model.name, model.issuer)
        assert isinstance(model.limits, Limits)
        assert isinstance(model.prices, Prices)

    async def test_a_stream_ends_with_exactly_one_outcome(self, model: Model) -> None:
        events = await _events(model, _HELLO)
        assert isinstance(events[-1], Reply | Refusal), "the last event is the outcome"
        assert all(isinstance(event, TextDelta | ReasoningDelta | ToolCallDelta) for event in events[:-1])

    async def test_the_deltas_of_a_reply_are_its_text(self, model: Model) -> None:
        events = await _events(model, _HELLO)
        deltas = "".join(event.text for event in events if isinstance(event, TextDelta))
        reply = events[-1]
        if isinstance(reply, Reply) and deltas:
            assert deltas == text_of(reply.parts), "readers of the stream and of the log see one text"

    async def test_a_reply_has_calls_with_distinct_ids_only(self, model: Model) -> None:
        events = await _events(model, Request(_HELLO.messages, tools=(_LOOK,)))
        reply = events[-1]
        calls = [part.call_id for part in reply.parts if isinstance(part, ToolCall)] if isinstance(reply, Reply) else []
        assert len(set(calls)) == len(calls)

    async def test_settings_and_odd_requests_raise_nothing(self, model: Model) -> None:
        odd = (
            Request((Message(Role.USER, (Text(""),)),)),
            Request(_HELLO.messages, settings=Settings(temperature=0.5, stop=("x",), extra={"unknown": 1})),
            Request((*_HELLO.messages, Message(Role.ASSISTANT, (Text("hi"),)), *_HELLO.messages), output_tokens_max=1),
        )
        for request in odd:
            assert isinstance((await _events(model, request))[-1], Reply | Refusal), "errors are yielded, never raised"

    async def test_a_stream_may_be_closed_early_and_the_next_one_works(self, model: Model) -> None:
        async with aclosing(model.stream(_HELLO, {})) as stream:
            await anext(stream)
        assert isinstance((await _events(model, _HELLO))[-1], Reply | Refusal)

    async def test_it_can_be_closed_twice(self, model: Model) -> None:
        await model.close()
        await model.close()
