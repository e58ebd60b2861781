"""Prompt cache of the simulated provider, with usage reports like the real ones."""

import pytest

from holdfast.models.catalogue import simulated_model
from holdfast.models.dialects import DIALECTS
from holdfast.models.fake import Simulation, SimulationTransport, count_request
from holdfast.models.http import HttpModel, ModelCard
from holdfast.types.messages import Effort, Request, Text, Usage
from tests.models.conversations import ECHO, answered, asking, reply_of, said
from tests.models.fakes import ANTHROPIC, GEMINI, OPENAI, RESPONSES, every

LONG = "word " * 5_000
FIRST = asking(said(LONG), system="Be brief.", tools=(ECHO,))


def goes_on(request: Request) -> Request:
    return asking(*request.messages, answered(Text("ok")), said("and now?"), system=request.system, tools=request.tools)


def official(simulation: Simulation, dialect: str) -> HttpModel:
    """A model that asks for caching where its dialect wants to be asked."""
    card = ModelCard("sim", "sim", "simulation", simulation.limits, is_official=True)
    return HttpModel(DIALECTS[dialect], card, SimulationTransport(simulation, dialect))


async def usage_of(model: HttpModel, request: Request) -> Usage:
    reply = await reply_of(model, request)
    assert reply.usage is not None
    return reply.usage


@every
async def test_a_request_that_goes_on_from_another_finds_that_one(dialect: str) -> None:
    model = official(Simulation(), dialect)

    first, second = await usage_of(model, FIRST), await usage_of(model, goes_on(FIRST))

    known, whole = count_request(FIRST), count_request(goes_on(FIRST))
    steps = 128 if dialect in (OPENAI, RESPONSES) else 1
    assert (first.input_tokens, first.cached_input_tokens) == (known, 0)
    assert (second.input_tokens, second.cached_input_tokens) == (whole, known // steps * steps)
    # Only one of them says, and asks more for, what it keeps.
    written = [known, whole - known] if dialect == ANTHROPIC else [0, 0]
    assert [first.cache_write_tokens, second.cache_write_tokens] == written


@every
@pytest.mark.parametrize(
    "other",
    [
        asking(said(LONG + "!"), system="Be brief.", tools=(ECHO,)),
        asking(said(LONG), system="Be long.", tools=(ECHO,)),
        asking(said(LONG), system="Be brief."),
        asking(said(LONG), system="Be brief.", tools=(ECHO,), effort=Effort.HIGH, output_tokens_max=9_000),
    ],
    ids=["message", "system", "tools", "effort"],
)
async def test_a_request_that_begins_otherwise_finds_nothing(dialect: str, other: Request) -> None:
    model = official(Simulation(), dialect)
    await usage_of(model, FIRST)

    assert (await usage_of(model, other)).cached_input_tokens == 0


@every
async def test_another_model_and_a_short_request_find_nothing(dialect: str) -> None:
    simulation = Simulation()
    model = official(simulation, dialect)
    short = asking(said("word " * 900))
    await usage_of(model, FIRST)

    card = ModelCard("other", "other", "simulation", simulation.limits, is_official=True)
    other = HttpModel(DIALECTS[dialect], card, SimulationTransport(simulation, dialect))
    assert (await usage_of(other, FIRST)).cached_input_tokens == 0
    assert [(await usage_of(model, short)).cached_input_tokens for _ in range(2)] == [0, 0]


async def test_who_must_be_asked_to_keep_something_keeps_nothing_unasked() -> None:
    for dialect, found in ((ANTHROPIC, False), (OPENAI, True), (GEMINI, True)):
        model = simulated_model(Simulation(), dialect)
        await usage_of(model, FIRST)

        second = await usage_of(model, goes_on(FIRST))

        assert (bool(second.cached_input_tokens), second.cache_write_tokens) == (found, 0)


async def test_a_provider_without_a_cache_finds_nothing() -> None:
    simulation = Simulation()
    simulation.caches = False
    model = simulated_model(simulation)

    assert [(await usage_of(model, FIRST)).cached_input_tokens for _ in range(2)] == [0, 0]


async def test_what_was_not_used_for_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.models.fake.state._PREFIXES_MAX", 1)
    model = official(Simulation(), ANTHROPIC)
    other = asking(said("other " * 5_000))

    found = [(await usage_of(model, request)).cached_input_tokens for request in (FIRST, other, FIRST, FIRST, other)]

    assert found == [0, 0, 0, count_request(FIRST), 0]
