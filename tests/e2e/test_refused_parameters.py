"""A parameter that a model refuses is refused once: not in the next turn, session, process, or summary."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.models.fake import SeenRequest
from holdfast.types.limits import Evidence, Limits
from holdfast.types.records import CompactionApplied, CompactionOutcome, ParameterDropped, SummaryKind
from tests.e2e.test_wrong_beliefs import learned_in
from tests.e2e.world import HASTY, KEY, World, a_world, ended_well, failures_of, records_of, rungs_of, talk

LARGE = Limits(window_tokens=200_000)


def fields_of(seen: SeenRequest) -> dict[str, Any]:
    """Return a request body; for Gemini with its settings."""
    body: dict[str, Any] = msgspec.json.decode(seen.body)
    settings: dict[str, Any] = body.get("generationConfig", {})
    return body | settings


async def claimed(world: World) -> list[tuple[str, int, Evidence]]:
    """Return the claims about parameters in the store."""
    claims = [claim for learned in (await learned_in(world)).values() for claim in learned.claims]
    return [(claim.limit, claim.value, claim.evidence) for claim in claims]


@pytest.mark.parametrize(
    ("dialect", "is_official", "refused", "sent"),
    [
        ("openai", False, ("max_tokens",), {"max_completion_tokens"}),
        ("openai", True, ("max_completion_tokens",), {"max_tokens"}),
        ("openai", False, ("max_tokens", "max_completion_tokens", "stream_options"), set[str]()),
        ("responses", True, ("max_output_tokens", "store", "include"), set[str]()),
        ("gemini", True, ("maxOutputTokens",), set[str]()),
        ("anthropic", True, ("cache_control",), {"max_tokens"}),
    ],
)
async def test_a_refused_parameter_is_left_out_or_renamed_from_then_on(
    tmp_path: Path, dialect: str, *, is_official: bool, refused: tuple[str, ...], sent: set[str]
) -> None:
    async with a_world(tmp_path, dialect, LARGE) as world:
        world.simulation.refused_parameters = refused
        declared = Limits(window_tokens=200_000, output_tokens_max=4_096)
        for opened in range(2):
            model = world.model("gpt-5", declared=declared, is_official=is_official)
            async with world.open(model, bounds=HASTY) as hold:
                for number in range(2):
                    session = await hold.session(f"{KEY}:{opened}:{number}")
                    for turn in range(2):
                        answer = await session.send(f"hello {turn}")
                        assert answer.text.startswith(f'You said: "hello {turn}"')
                        is_first = (opened, number, turn) == (0, 0, 0)
                        assert any("refuses the parameter" in one for one in answer.notices) is is_first
                    await ended_well(session)
                first = await hold.session(f"{KEY}:0:0")
                if not opened:
                    assert await failures_of(first) == ["bad_request"] * len(refused)
                    assert await rungs_of(first) == ["drop_parameter"] * len(refused)
                    dropped = await records_of(first, ParameterDropped)
                    assert [one.parameter for one in dropped] == [*refused]
        assert len(world.refused) == len(refused), "each is refused once, for all sessions and processes"
        last = fields_of(world.simulation.requests[-1])
        limits = {"max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", *refused}
        assert limits & last.keys() == sent
        assert await claimed(world) == [(name, 0, Evidence.LEFT_OUT) for name in refused]


async def test_a_summary_is_not_asked_for_with_what_its_model_refuses(tmp_path: Path) -> None:
    """Each summary was refused for its reasoning effort before, and the next one again."""
    async with a_world(tmp_path, "openai", LARGE) as world:
        world.simulation.refused_parameters = ("reasoning_effort", "max_tokens")
        async with world.open(world.model(declared=Limits(window_tokens=16_000)), bounds=HASTY) as hold:
            for number in range(2):
                session = await hold.session(f"{KEY}:{number}")
                await talk(session, messages=10)
                assert (await session.compact()).outcome is CompactionOutcome.APPLIED
                (applied,) = await records_of(session, CompactionApplied)
                assert applied.kind is SummaryKind.SUMMARY
                await ended_well(session)
        assert len(world.notes_asked) > 2
        assert sorted(await claimed(world)) == [
            ("max_tokens", 0, Evidence.LEFT_OUT),
            ("reasoning_effort", 0, Evidence.LEFT_OUT),
        ]
        assert len(world.refused) == 2, "each is refused once"


async def test_the_next_model_is_asked_with_everything(tmp_path: Path) -> None:
    """A parameter belongs to the model that refuses it."""
    async with a_world(tmp_path, "openai", LARGE) as world:
        declared = Limits(window_tokens=200_000, output_tokens_max=4_096)
        world.simulation.refused_parameters = ("max_tokens",)
        # After it has refused the parameter, the first model is gone; the second one takes the parameter.
        statuses = iter(("", "401"))

        def fault_of(body: bytes) -> str:
            if b'"model":"first"' in body:
                return next(statuses, "401")
            world.simulation.refused_parameters = ()
            return ""

        world.simulation.fault_of = fault_of
        models = [world.model(name, declared=declared) for name in ("first", "second")]
        async with world.open(*models, bounds=HASTY) as hold:
            session = await hold.session(KEY)
            assert (await session.send("hello")).text
            assert await rungs_of(session) == ["drop_parameter", "next_model"]
            await ended_well(session)
        assert "max_tokens" in fields_of(world.simulation.requests[-1])
        assert await claimed(world) == [], "it was not answered without it"
