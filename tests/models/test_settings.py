"""Settings and requested outputs on the wire of each dialect."""

import json
from typing import Any

import pytest

from holdfast.core.limits.settings import unsupported, wire_settings
from holdfast.models.dialects import DIALECTS
from holdfast.models.parameters import without_parameters
from holdfast.types.messages import Effort, Message, Request, Role, Text, ToolSpec
from holdfast.types.settings import OutputSpec, Settings
from tests.core.test_settings import EVERY

LOOK = ToolSpec("look", "Look.", '{"type":"object"}')
SCHEMA = '{"type":"object","properties":{"name":{"type":"string"}}}'


def body_of(
    dialect: str, settings: Settings, *, tools: tuple[ToolSpec, ...] = (LOOK,), **fields: Any
) -> dict[str, Any]:
    request = Request((Message(Role.USER, (Text("hi"),)),), tools=tools, settings=settings, **fields)
    body: dict[str, Any] = json.loads(DIALECTS[dialect].encode_request(request, "m", {}, ""))
    return body


def added(dialect: str, settings: Settings, **fields: Any) -> dict[str, Any]:
    """Return what settings add to a request."""
    before, after = body_of(dialect, Settings()), body_of(dialect, settings, **fields)
    return {name: value for name, value in after.items() if before.get(name) != value}


def test_every_setting_has_a_place_in_openai_chat() -> None:
    assert added("openai-chat", EVERY, effort=Effort.LOW) == {
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["END"],
        "seed": 7,
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "reasoning_effort": "low",
        "verbosity": "low",
        "service_tier": "flex",
        "metadata": {"user_id": "u"},
        "top_k": 4,
    }


def test_settings_of_the_responses_api() -> None:
    assert added("openai-responses", EVERY, effort=Effort.LOW) == {
        "temperature": 0.5,
        "top_p": 0.9,
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "reasoning": {"effort": "low"},
        "text": {"verbosity": "low"},
        "service_tier": "flex",
        "metadata": {"user_id": "u"},
        "top_k": 4,
    }


def test_settings_of_anthropic() -> None:
    assert added("anthropic", EVERY) == {
        "temperature": 0.5,
        "top_p": 0.9,
        "stop_sequences": ["END"],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        "service_tier": "flex",
        "metadata": {"user_id": "u"},
        "top_k": 4,
    }


def test_settings_of_gemini() -> None:
    assert added("gemini", EVERY) == {
        "generationConfig": {"temperature": 0.5, "topP": 0.9, "stopSequences": ["END"], "seed": 7},
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
        "top_k": 4,
    }


@pytest.mark.parametrize(
    ("dialect", "field", "by_choice"),
    [
        (
            "openai-chat",
            "tool_choice",
            {"none": "none", "required": "required", "look": {"type": "function", "function": {"name": "look"}}},
        ),
        (
            "openai-responses",
            "tool_choice",
            {"none": "none", "required": "required", "look": {"type": "function", "name": "look"}},
        ),
        (
            "anthropic",
            "tool_choice",
            {"none": {"type": "none"}, "required": {"type": "any"}, "look": {"type": "tool", "name": "look"}},
        ),
        (
            "gemini",
            "toolConfig",
            {
                "none": {"functionCallingConfig": {"mode": "NONE"}},
                "required": {"functionCallingConfig": {"mode": "ANY"}},
                "look": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}},
            },
        ),
    ],
)
def test_each_tool_choice_has_its_form(dialect: str, field: str, by_choice: dict[str, Any]) -> None:
    for choice, form in by_choice.items():
        assert body_of(dialect, Settings(tool_choice=choice))[field] == form
        assert field not in body_of(dialect, Settings(tool_choice=choice), tools=()), "without tools it is refused"


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_every_setting_is_on_the_wire_or_said_to_be_missing(dialect: str) -> None:
    """The table of the core and the encoders agree, one setting at a time."""
    for name in EVERY.__struct_fields__:
        if name in ("effort", "output_tokens_max"):
            continue  # Fields of the request itself.
        one = Settings(**{name: getattr(EVERY, name)})
        assert bool(added(dialect, one)) is not bool(unsupported(dialect, one)), name
        for wire in wire_settings(dialect, one):
            assert wire in json.dumps(added(dialect, one)), name


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_a_refused_setting_is_left_out_and_the_rest_stays(dialect: str) -> None:
    request = Request((Message(Role.USER, (Text("hi"),)),), tools=(LOOK,), settings=EVERY)
    body = DIALECTS[dialect].encode_request(request, "m", {}, "")
    names = wire_settings(dialect, EVERY)
    for name in names:
        left = json.loads(without_parameters(dialect, body, (name,), names))
        whole = json.loads(body)
        inner = whole.get("generationConfig", whole.get("text", {}))
        for fields in (whole, inner):
            fields.pop(name, None)
        assert left == whole, name


def test_an_output_is_requested_by_its_schema() -> None:
    output = OutputSpec("place", SCHEMA)
    schema = json.loads(SCHEMA)
    assert added("openai-chat", Settings(), output=output) == {
        "response_format": {"type": "json_schema", "json_schema": {"name": "place", "schema": schema}}
    }
    assert added("openai-responses", Settings(), output=output) == {
        "text": {"format": {"type": "json_schema", "name": "place", "schema": schema, "strict": False}}
    }
    assert added("gemini", Settings(), output=output) == {
        "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": schema}
    }
