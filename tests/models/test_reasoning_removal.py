"""Removal of thinking from a client's request: other bytes stay, and settings are adjusted."""

import json
from typing import Any

import pytest

from holdfast.models.body_rewrite import Kept, rewrite
from holdfast.models.dialects import SERVED

CHAT, ANTHROPIC, RESPONSES = "openai-chat", "anthropic", "openai-responses"

SIGNED = b'{"type": "thinking", "thinking": "hm", "signature": "c2ln"}'
HIDDEN = b'{ "type":"redacted_thinking","data":"AAAA" }'
CALL = b'{"type":"tool_use","id":"a","name":"f","input":{"x":1.50},"cache_control":{"type":"ephemeral"}}'


@pytest.mark.parametrize(
    ("element", "left"),
    [
        (b'{"role":"assistant", "content":[%s, %s]}' % (SIGNED, CALL), b'{"role":"assistant", "content":[%s]}' % CALL),
        (b'{"role":"assistant","content":[%s,%s]}' % (HIDDEN, CALL), b'{"role":"assistant","content":[%s]}' % CALL),
        (b'{"role":"assistant","content":[%s]}' % SIGNED, None),
        (b'{"role":"assistant","content":"thinking"}', b'{"role":"assistant","content":"thinking"}'),
        (b'{"role":"assistant","content":[ %s ]}' % CALL, b'{"role":"assistant","content":[ %s ]}' % CALL),
        (b'{"role":"assistant"}', b'{"role":"assistant"}'),
    ],
)
def test_only_the_thinking_is_cut_out_of_a_message(element: bytes, left: bytes | None) -> None:
    assert SERVED[ANTHROPIC].without_reasoning(element) == left


def test_an_item_whose_thinking_is_left_out_loses_the_name_that_leads_to_it() -> None:
    without = SERVED[RESPONSES].without_reasoning
    assert without(b'{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"AAAA"}') is None
    call = b'{"type":"function_call","id":"fc_1", "call_id":"c","name":"f","arguments":"{\\"id\\":1}"}'
    assert without(call) == b'{"type":"function_call","call_id":"c","name":"f","arguments":"{\\"id\\":1}"}'
    assert SERVED[CHAT].without_reasoning(b'{"role":"assistant","reasoning_content":"hm"}') == (
        b'{"role":"assistant","reasoning_content":"hm"}'
    )


def test_messages_are_kept_with_their_thinking_or_without() -> None:
    said = b'{"role":"user","content":"hi"}'
    thought = b'{"role":"assistant","content":[%s,%s]}' % (SIGNED, CALL)
    body = b'{"model":"m","max_tokens":9,"messages":[%s,%s]}' % (said, thought)

    assert rewrite(ANTHROPIC, body, [Kept(0), Kept(1)], {}, "") == body
    bare = rewrite(ANTHROPIC, body, [Kept(0), Kept(1, with_reasoning=False)], {}, "")
    assert bare == body.replace(SIGNED + b",", b"")


def a_body(
    *, thinking: Any, max_tokens: int = 4_000, begins: str = "thinking", goes_on: bool = True, **more: Any
) -> bytes:
    first = {"thinking": json.loads(SIGNED), "redacted_thinking": json.loads(HIDDEN)}.get(begins)
    loop = [
        {"role": "assistant", "content": [*([first] if first else []), json.loads(CALL)]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "done"}]},
    ]
    messages = [{"role": "user", "content": "hi"}, *(loop if goes_on else [])]
    body = {"model": "m", "max_tokens": max_tokens, "messages": messages, "thinking": thinking, **more}
    return json.dumps({name: value for name, value in body.items() if value is not None}).encode()


ON: Any = {"type": "enabled", "budget_tokens": 2_000}
MUCH: Any = {"type": "enabled", "budget_tokens": 3_000}
CLEARS: Any = {"edits": [{"type": "clear_thinking_20251015"}]}
CLEARS_USES: Any = {"edits": [{"type": "clear_tool_uses_20250919"}]}


@pytest.mark.parametrize(
    "body",
    [
        a_body(thinking=ON),
        a_body(thinking=ON, begins="redacted_thinking"),
        a_body(thinking=ON, begins="", goes_on=False),
        a_body(thinking={"type": "adaptive"}, begins=""),
        a_body(thinking={"type": "disabled"}, begins=""),
        a_body(thinking=None, begins=""),
        a_body(thinking=ON, max_tokens=2_001),
    ],
)
def test_settings_that_agree_with_what_is_there_stay_to_the_byte(body: bytes) -> None:
    assert SERVED[ANTHROPIC].settled(body) == body


@pytest.mark.parametrize(
    ("body", "thinking"),
    [
        (a_body(thinking=ON, begins=""), {"type": "disabled"}),
        (a_body(thinking=MUCH, max_tokens=2_048), {"type": "enabled", "budget_tokens": 1_024}),
        (a_body(thinking=ON, max_tokens=2_000, goes_on=False), {"type": "disabled"}),
    ],
    ids=["goes-on-without", "less-room", "no-room"],
)
def test_settings_that_do_not_agree_are_changed_and_nothing_else_is(body: bytes, thinking: Any) -> None:
    assert json.loads(SERVED[ANTHROPIC].settled(body)) == json.loads(body) | {"thinking": thinking}


def test_a_provider_is_not_asked_to_clear_thinking_where_none_is_switched_on() -> None:
    cleared = SERVED[ANTHROPIC].settled(a_body(thinking=ON, begins="", context_management=CLEARS))
    assert "context_management" not in json.loads(cleared)
    kept = SERVED[ANTHROPIC].settled(a_body(thinking=ON, begins="", context_management=CLEARS_USES))
    assert json.loads(kept)["context_management"] == CLEARS_USES


@pytest.mark.parametrize("dialect", [CHAT, RESPONSES])
def test_other_dialects_have_no_such_settings(dialect: str) -> None:
    assert SERVED[dialect].settled(b"anything") == b"anything"
