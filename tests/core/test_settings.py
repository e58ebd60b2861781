"""Settings: levels, validation, and what each dialect has."""

from typing import Any

import pytest

from holdfast.core.limits.parameters import refused_parameter
from holdfast.core.limits.settings import (
    WIRE_NAMES,
    checked_settings,
    for_summaries,
    merged,
    unsupported,
    unsupported_notice,
    wire_settings,
)
from holdfast.errors import BadInputError
from holdfast.types.settings import NO_SETTINGS, OutputSpec, Settings

EVERY = Settings(
    temperature=0.5,
    top_p=0.9,
    stop=("END",),
    seed=7,
    output_tokens_max=100,
    tool_choice="auto",
    parallel_tool_calls=False,
    effort="low",
    verbosity="low",
    service_tier="flex",
    metadata={"user_id": "u"},
    extra={"top_k": 4},
)


def test_a_later_level_wins_and_mappings_are_joined() -> None:
    client = Settings(temperature=0.1, top_p=0.5, metadata={"a": "1"}, extra={"x": {"y": 1}})
    message = Settings(temperature=0.0, metadata={"b": "2"}, parallel_tool_calls=False, extra={"x": 2})
    assert merged(client, None, message) == Settings(
        temperature=0.0, top_p=0.5, metadata={"a": "1", "b": "2"}, parallel_tool_calls=False, extra={"x": 2}
    )
    assert merged() == NO_SETTINGS


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"temperature": 3.0}, "temperature is 3"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": "hot"}, "Expected `float | null`"),
        ({"top_p": 0.0}, "top_p is 0"),
        ({"stop": ("",)}, "none of them empty"),
        ({"stop": ("x",) * 17}, "at most 16"),
        ({"output_tokens_max": 0}, "output_tokens_max is 0"),
        ({"effort": "huge"}, "Invalid enum value 'huge'"),
        ({"extra": {"messages": []}}, "'messages', which Holdfast writes itself"),
        ({"extra": {"x": object()}}, "see holdfast.Settings"),
        ({"extra": {"x": "y" * 20_000}}, "bytes, the maximum is"),
    ],
)
def test_settings_that_no_provider_could_take_are_refused_with_a_sentence(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        checked_settings(Settings(**fields))


def test_valid_settings_are_kept() -> None:
    assert checked_settings(EVERY) == EVERY


@pytest.mark.parametrize(
    ("dialect", "missing"),
    [
        ("openai-chat", ()),
        ("openai-responses", ("stop", "seed")),
        ("anthropic", ("seed", "verbosity")),
        ("gemini", ("parallel_tool_calls", "verbosity", "service_tier", "metadata")),
        ("my-own", ()),
    ],
)
def test_a_setting_that_a_dialect_lacks_is_named(dialect: str, missing: tuple[str, ...]) -> None:
    assert unsupported(dialect, EVERY) == missing
    assert unsupported(dialect, NO_SETTINGS) == ()


def test_anthropic_takes_one_label_only() -> None:
    names = unsupported("anthropic", Settings(metadata={"team": "x"}))
    assert names == ("metadata other than user_id",)
    assert unsupported_notice("anthropic:m", names) == (
        "Not sent, because the API of anthropic:m has no such setting: metadata other than user_id."
    )


def test_the_wire_names_of_a_request_are_those_of_its_settings() -> None:
    output = OutputSpec("place", "{}")
    assert wire_settings("gemini", EVERY, output) == {
        *("temperature", "topP", "stopSequences", "seed", "toolConfig", "responseJsonSchema", "top_k")
    }
    assert wire_settings("anthropic", NO_SETTINGS, output) == frozenset()
    assert wire_settings("my-own", Settings(temperature=1.0, extra={"a": 1})) == {"a"}
    assert all(names for names in WIRE_NAMES.values())


def test_summaries_take_only_settings_of_the_provider() -> None:
    assert for_summaries(EVERY) == Settings(service_tier="flex", metadata={"user_id": "u"}, extra={"top_k": 4})


def test_a_refused_setting_of_this_request_is_read_beside_those_of_the_dialect() -> None:
    body = '{"error": {"message": "Unknown parameter", "param": "top_nsigma", "code": "unknown_parameter"}}'
    assert refused_parameter("openai-chat", body) == ""
    assert refused_parameter("openai-chat", body, {"top_nsigma"}) == "top_nsigma"
    assert refused_parameter("openai-chat", '"This response_format type is unavailable now"', {"response_format"}) == (
        "response_format"
    )
    assert refused_parameter("openai-responses", "the image has an unsupported format", {"format"}) == ""
