"""Parameters on the wire: found, left out or renamed, with every other byte as it was."""

import json

import pytest

from holdfast.core.limits.parameters import DROPPABLE, EFFORT, native_names
from holdfast.models.dialects import DIALECTS
from holdfast.models.parameters import parameters_in, without_parameters
from holdfast.types.messages import Effort, Message, Request, Role, Text, ToolSpec

FULL = Request(
    (Message(Role.USER, (Text("hello, temperature and seed"),)),),
    "be brief",
    (ToolSpec("look", "Look.", '{"type":"object"}'),),
    1_000,
    Effort.LOW,
)
# Fields without which a request has another meaning, or none.
NEEDED = {"model", "messages", "input", "contents", "tools", "system", "instructions", "systemInstruction", "stream"}
NEEDED |= {"generationConfig"}


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@pytest.mark.parametrize("is_official", [False, True])
def test_a_native_request_has_the_parameters_that_the_core_knows_of(dialect: str, *, is_official: bool) -> None:
    model = {"anthropic": "claude-opus-4-6", "gemini": "gemini-3-pro"}.get(dialect, "gpt-5")
    body = DIALECTS[dialect].encode_request(FULL, model, {}, "", is_official=is_official)

    found = parameters_in(dialect, body)

    known = native_names(dialect, has_effort=True, has_output_limit=True)
    assert found - {EFFORT} <= known - {EFFORT}
    # Nothing else is in the body: a new parameter of an encoder needs a decision.
    required = {"max_tokens"} if dialect == "anthropic" else set()
    fields = set(json.loads(body)) - NEEDED - required - {"reasoning_effort", "reasoning", "thinking", "output_config"}
    assert fields <= found


BODY = (
    b'{ "model": "m", "temperature" : 0.5 ,"messages":[{"role":"user","content":"\\"seed\\": 1"}], '
    b'"seed":7, "max_tokens":9 }'
)


def test_parameters_are_left_out_and_renamed_and_nothing_else_changes() -> None:
    assert parameters_in("openai-chat", BODY) == {"temperature", "seed", "max_tokens"}
    assert without_parameters("openai-chat", BODY, ("seed",)) == BODY.replace(b'"seed":7, ', b"")
    renamed = without_parameters("openai-chat", BODY, ("max_tokens",))
    assert renamed == BODY.replace(b"max_tokens", b"max_completion_tokens")
    both = without_parameters("openai-chat", BODY, ("max_tokens", "max_completion_tokens"))
    assert json.loads(both) == {name: one for name, one in json.loads(BODY).items() if name != "max_tokens"}
    for omitted in ((), ("top_p",), ("messages",)):
        assert without_parameters("openai-chat", BODY, omitted) is BODY


def test_a_second_name_in_the_request_is_kept_as_it_is() -> None:
    body = b'{"max_tokens":9,"max_completion_tokens":8}'
    assert without_parameters("openai-chat", body, ("max_tokens",)) == b'{"max_completion_tokens":8}'


def test_parameters_inside_a_field_are_found_and_left_out() -> None:
    body = b'{"contents":[],"generationConfig":{"topK":4,"temperature":1}}'
    assert parameters_in("gemini", body) == {"topK", "temperature"}
    assert without_parameters("gemini", body, ("topK",)) == b'{"contents":[],"generationConfig":{"temperature":1}}'
    body = b'{"input":[],"text":{"verbosity":"low","format":{"type":"text"}},"reasoning":{"effort":"low"}}'
    assert parameters_in("openai-responses", body) == {"verbosity", EFFORT}
    changed = without_parameters("openai-responses", body, ("verbosity", EFFORT))
    assert changed == b'{"input":[],"text":{"format":{"type":"text"}}}'


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"a":"\xff"}', b"null"])
def test_a_body_that_is_no_object_has_no_parameters(body: bytes) -> None:
    assert parameters_in("openai-chat", body) == frozenset()
    assert without_parameters("openai-chat", body, sorted(DROPPABLE["openai-chat"])) is body
