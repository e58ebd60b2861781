"""The context within a budget and in a provider's API, usage and cost, and sessions handed to another agent."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from holdfast.core.limits.prices import Prices
from holdfast.errors import BadInputError, SeqMovedError
from holdfast.runtime.sessions.client import Client
from holdfast.testing.engines import FunctionModel, a_hold, an_engine, says
from holdfast.types.messages import Message, Reply, Request, Role, Text, ToolSpec, Usage, text_of
from holdfast.types.records import SessionConfigured

SPEC = ToolSpec("look", "Look something up.", '{"type":"object","properties":{}}')


def answered(request: Request) -> Reply:
    return says(f"system {request.system}; tools {[tool.name for tool in request.tools if tool.name != 'recall']}")


@asynccontextmanager
async def opened() -> AsyncIterator[Client]:
    async with a_hold(an_engine(FunctionModel(answered))) as client:
        yield client


async def test_the_context_is_the_view_and_writes_nothing() -> None:
    async with opened() as client:
        chat = await client.session("s")
        await chat.send("hello")
        before = await chat.history()

        context, view = await chat.context(), await chat.view()

        assert (context.system, context.messages, context.tools) == (view.system, view.messages, view.tools)
        assert (context.is_whole, context.tokens_estimated, context.request) == (True, view.tokens_estimated, None)
        assert await chat.history() == before


@pytest.mark.parametrize("max_tokens", [20_000, 8_000, 3_000])
async def test_a_context_within_a_budget_has_a_digest_in_the_place_of_old_messages(max_tokens: int) -> None:
    async with opened() as client:
        chat = await client.session("s")
        words = " ".join(f"word{number}" for number in range(200))
        for number in range(60):
            await chat.append(
                [
                    Message(Role.USER, (Text(f"question {number} about berth {number}: {words}"),)),
                    Message(Role.ASSISTANT, (Text(f"answer {number}"),)),
                ]
            )
        before = await chat.history(limit=1_000)

        context = await chat.context(max_tokens=max_tokens)

        assert not context.is_whole
        assert context.tokens_estimated <= max_tokens
        assert text_of(context.messages[-1].parts) == "answer 59"
        assert "question 59" in text_of(context.messages[-2].parts)
        assert await chat.history(limit=1_000) == before


async def test_a_budget_below_the_newest_message_is_rejected_with_its_size() -> None:
    async with opened() as client:
        chat = await client.session("s")
        await chat.append([Message(Role.USER, (Text("many words " * 2_000),))])

        with pytest.raises(BadInputError, match=r"take about .* tokens, more than max_tokens=100"):
            await chat.context(max_tokens=100)
        with pytest.raises(BadInputError, match="leaves no room"):
            await chat.context(max_tokens=0)


@pytest.mark.parametrize(
    ("dialect", "field"),
    [("openai-chat", "messages"), ("anthropic", "messages"), ("openai-responses", "input"), ("gemini", "contents")],
)
async def test_a_context_comes_in_the_api_of_a_provider(dialect: str, field: str) -> None:
    async with opened() as client:
        chat = await client.session("s")
        await chat.send("hello there")

        request = (await chat.context(dialect=dialect)).request

        assert request is not None
        assert "hello there" in str(request[field])


async def test_an_unknown_dialect_is_rejected_with_the_known_ones() -> None:
    async with opened() as client:
        with pytest.raises(BadInputError, match="anthropic, gemini, openai-chat, openai-responses"):
            await (await client.session("s")).context(dialect="latin")


async def test_usage_and_cost_are_those_of_all_calls() -> None:
    model = FunctionModel(lambda _: replace(says("hi"), usage=Usage(1_000, 100)), prices=Prices(1.0, None, 10.0))
    async with a_hold(an_engine(model)) as client:
        chat = await client.session("s")
        assert ((await chat.usage()).calls, await chat.cost()) == (0, None)
        await chat.send("one")
        await chat.send("two")

        usage = await chat.usage()

        assert (usage.calls, usage.input_tokens, usage.output_tokens, usage.unpriced) == (2, 2_000, 200, 0)
        assert await chat.cost() == pytest.approx(0.004)


async def test_a_session_is_handed_to_another_agent_and_back() -> None:
    async with opened() as client:
        chat = await client.session("s", system="first")
        first = await chat.send("hello")
        await chat.hand_over("billing", system="second", tools=[SPEC])
        second = await chat.send("hello")
        await chat.hand_over("refunds", system="third")
        third = await chat.send("hello")

        assert [one.text for one in (first, second, third)] == [
            "system first; tools []",
            "system second; tools ['look']",
            "system third; tools ['look']",
        ]
        assert await chat.hand_back() == "billing"
        assert (await chat.send("hello")).text == second.text
        assert await chat.hand_back() == ""
        assert (await chat.send("hello")).text == first.text
        with pytest.raises(BadInputError, match="was not handed over"):
            await chat.hand_back()
        assert len((await chat.view()).messages) == 10


async def test_new_settings_of_an_agent_stay_with_it_until_it_hands_back() -> None:
    async with opened() as client:
        chat = await client.session("s", system="first")
        await chat.hand_over("billing", system="second")
        await client.session("s", system="second, changed")
        await chat.hand_over("billing", system="second, again")

        state = await chat.state()

        assert (state.agent, state.system) == ("billing", "second, again")
        assert state.handed_over == (SessionConfigured(None, "first"),)


async def test_a_bad_handover_writes_nothing() -> None:
    async with opened() as client:
        chat = await client.session("s", system="first")

        with pytest.raises(BadInputError, match="is not the name of an agent"):
            await chat.hand_over("", system="x")
        with pytest.raises(SeqMovedError):
            await chat.hand_over("a", system="x", expect=0)

        assert len(await chat.history()) == 1
