"""Settings at three levels, on the wire and in the log, over a socket."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.errors import BadInputError
from holdfast.types.limits import Limits
from holdfast.types.records import NoticePosted, ParameterDropped
from tests.e2e.world import HASTY, KEY, World, a_world, ended_well, records_of, rungs_of

LARGE = Limits(window_tokens=200_000)


def body_of(world: World) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.json.decode(world.simulation.requests[-1].body)
    return body


def opened(world: World, **fields: Any) -> Any:
    settings = fields.pop("settings", holdfast.Settings())
    model = holdfast.Model(f"{world.dialect}:sim", base_url=world.base_url(), **fields)
    return holdfast.open(world.store, model=model, settings=settings, tuning=holdfast.Tuning(bounds=HASTY))


async def test_the_most_specific_level_wins_and_the_session_keeps_its_own(tmp_path: Path) -> None:
    async with a_world(tmp_path, "openai", LARGE) as world:
        client_level = holdfast.Settings(temperature=0.1, top_p=0.2, seed=1)
        model_level = holdfast.Settings(top_p=0.3, seed=2)
        async with opened(world, settings=client_level) as client:
            chat = await client.session(KEY, settings=holdfast.Settings(seed=3, effort="low"))
            await chat.send("hello", settings=holdfast.Settings(stop=("END",), output_tokens_max=50))
            sent = body_of(world)
            assert {name: sent.get(name) for name in ("temperature", "top_p", "seed", "stop", "max_tokens")} == {
                "temperature": 0.1,
                "top_p": 0.2,
                "seed": 3,
                "stop": ["END"],
                "max_tokens": 50,
            }
            assert sent["reasoning_effort"] == "low"
            await chat.send("hello again")
            assert "stop" not in body_of(world), "those of a message are not kept"
        async with opened(world, settings=client_level) as client:
            await (await client.session(KEY)).send("after a restart")
            assert (body_of(world)["seed"], body_of(world)["temperature"]) == (3, 0.1)
        model = holdfast.Model("openai:sim", base_url=world.base_url(), settings=model_level)
        async with holdfast.open(world.store, model=model, settings=client_level) as client:
            await (await client.session("other")).send("hello")
            assert (body_of(world)["top_p"], body_of(world)["seed"], body_of(world)["temperature"]) == (0.3, 2, 0.1)


async def test_a_setting_that_the_dialect_lacks_is_told_once_for_a_session_and_for_each_message(tmp_path: Path) -> None:
    async with a_world(tmp_path, "anthropic", LARGE) as world, opened(world) as client:
        chat = await client.session(KEY, settings=holdfast.Settings(seed=1, temperature=0.5))
        told = "Not sent, because the API of anthropic:sim has no such setting: seed."
        assert (await chat.send("one")).notices == (told,)
        assert (await chat.send("two")).notices == ()
        assert (await chat.send("three", settings=holdfast.Settings(seed=2))).notices == (told,)
        assert [notice.code for notice in await records_of(chat, NoticePosted)] == ["setting_not_sent"] * 2
        assert "seed" not in body_of(world)
        await ended_well(chat)


@pytest.mark.parametrize(
    ("dialect", "refused", "settings"),
    [
        ("openai", "temperature", holdfast.Settings(temperature=0.5, top_p=0.5)),
        ("openai", "verbosity", holdfast.Settings(verbosity="low", top_p=0.5)),
        ("responses", "verbosity", holdfast.Settings(verbosity="low", top_p=0.5)),
        ("anthropic", "service_tier", holdfast.Settings(service_tier="auto", top_p=0.5)),
        ("gemini", "stopSequences", holdfast.Settings(stop=("END",), top_p=0.5)),
    ],
)
async def test_a_refused_setting_is_dropped_and_remembered(
    tmp_path: Path, dialect: str, refused: str, settings: holdfast.Settings
) -> None:
    async with a_world(tmp_path, dialect, LARGE) as world:
        world.simulation.refused_parameters = (refused,)
        for number in range(2):
            async with opened(world, settings=settings) as client:
                chat = await client.session(f"{KEY}:{number}")
                answer = await chat.send("hello")
                assert any(f"refuses the parameter {refused}" in one for one in answer.notices) is (number == 0)
                assert await rungs_of(chat) == (["drop_parameter"] if number == 0 else [])
                await ended_well(chat)
        assert len(world.refused) == 1
        body = world.simulation.requests[-1].body.decode()
        assert refused not in body
        assert "top_p" in body or "topP" in body, "the others are still sent"


async def test_a_refused_field_of_extra_is_dropped_and_remembered(tmp_path: Path) -> None:
    async with a_world(tmp_path, "openai", LARGE) as world:
        world.simulation.refused_parameters = ("top_nsigma",)
        async with opened(world, settings=holdfast.Settings(extra={"top_nsigma": 1.0})) as client:
            chat = await client.session(KEY)
            assert (await chat.send("hello")).text
            assert [one.parameter for one in await records_of(chat, ParameterDropped)] == ["top_nsigma"]
            await chat.send("again")
            await ended_well(chat)
        assert len(world.refused) == 1


async def test_bad_settings_are_refused_before_anything_is_stored(tmp_path: Path) -> None:
    async with a_world(tmp_path, "openai", LARGE) as world, opened(world) as client:
        with pytest.raises(BadInputError, match="temperature is 9"):
            await client.session(KEY, settings=holdfast.Settings(temperature=9))
        with pytest.raises(BadInputError, match="top_p is 7"):
            await (await client.session(KEY)).send("hi", settings=holdfast.Settings(top_p=7))
        assert await client.sessions() == []
