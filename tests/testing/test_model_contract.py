"""The contract of models holds for ours, and fails for models that break it."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pytest

from holdfast.models.catalogue import simulated_model
from holdfast.models.fake import Simulation
from holdfast.ports import Delta, Model, TextDelta
from holdfast.testing.engines import FunctionModel, says
from holdfast.testing.model_contract import ModelContract
from holdfast.types.faults import Refusal
from holdfast.types.messages import Reply, Request


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "anthropic", "gemini"])
class TestSimulatedModel(ModelContract):
    @pytest.fixture
    def model(self, dialect: str) -> Model:
        return simulated_model(Simulation(), dialect)


class TestRefusingModel(ModelContract):
    @pytest.fixture
    def model(self) -> Model:
        return simulated_model(Simulation(faults="401,401,401,401"))


class Broken(FunctionModel):
    """A model that breaks one promise."""

    def __init__(self, *events: Any) -> None:
        super().__init__(lambda _: says("hello"))
        self._events = events

    async def stream(
        self, request: Request, blobs: Mapping[str, bytes]
    ) -> AsyncGenerator[Delta | Reply | Refusal, None]:
        del request, blobs
        for event in self._events:
            if isinstance(event, Exception):
                raise event
            yield event


@pytest.mark.parametrize(
    ("events", "test"),
    [
        ((TextDelta("hi"),), "test_a_stream_ends_with_exactly_one_outcome"),
        ((says("hi"), says("hi")), "test_a_stream_ends_with_exactly_one_outcome"),
        ((TextDelta("other"), says("hi")), "test_the_deltas_of_a_reply_are_its_text"),
        ((OSError("no network"),), "test_settings_and_odd_requests_raise_nothing"),
    ],
)
async def test_a_model_that_breaks_a_promise_is_found(events: tuple[Any, ...], test: str) -> None:
    class Contract(ModelContract):
        def model(self) -> Model:  # type: ignore[override]  # no fixture: the test is called by hand
            raise NotImplementedError

    with pytest.raises((AssertionError, OSError)):
        await getattr(Contract(), test)(Broken(*events))
