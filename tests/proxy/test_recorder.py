"""What a client says is recognised and enters the log of one session: in order, once."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import openai
import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.core.proxy.plan import digest_of
from holdfast.gateway.http.keys import KeyFile
from holdfast.models.fake import Simulation
from holdfast.runtime.clock import SystemClock
from holdfast.stores.memory import MemoryStore
from holdfast.types.limits import Limits
from holdfast.types.messages import Message, Role, Text, ToolCall, ToolResult, text_of
from holdfast.types.records import AttemptStarted, InputAdmitted, ReplyRecorded, ToolSettled, TurnEnded
from tests.proxy.proxies import DropInRunning, a_dropin

TOOLS: Any = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]


async def _talk(running: DropInRunning, history: list[Any], text: str, **more: Any) -> list[Any]:
    history = [*history, {"role": "user", "content": text}]
    reply = await running.openai.chat.completions.create(model="sim", messages=history, **more)
    return [*history, reply.choices[0].message.model_dump(exclude_none=True)]


async def _said(running: DropInRunning, key: str) -> list[str]:
    said = []
    for record in await running.records(key):
        if isinstance(record, InputAdmitted):
            said.append("user: " + "".join(part.text for part in record.parts if isinstance(part, Text)))
        elif isinstance(record, ReplyRecorded):
            said.append("assistant: " + text_of(record.reply.parts))
        elif isinstance(record, ToolSettled):
            said.append("tool: " + text_of(record.result.parts))
    return said


async def test_each_message_of_a_conversation_enters_one_session_once_and_in_order() -> None:
    async with a_dropin() as running:
        history = await _talk(running, [{"role": "system", "content": "Be brief."}], "remember port = 8080")
        history = await _talk(running, history, "remember host = oak")
        history = await _talk(running, history, "what is port?")
        (key,) = await running.sessions()
        said = await _said(running, key)
        hits = await (await running.hold.session(key)).search("oak")
    assert said == [f"{one['role']}: {one['content']}" for one in history[1:]]
    assert hits
    assert "8080" in said[-1]


@pytest.mark.parametrize("is_same_request", [False, True])
async def test_a_conversation_whose_session_was_deleted_begins_anew_with_its_whole_history(
    *, is_same_request: bool
) -> None:
    async with a_dropin() as running:
        history = await _talk(running, [], "remember port = 8080")
        history = await _talk(running, history, "remember host = oak")
        (key,) = await running.sessions()
        deleted = await running.hold.delete(key)
        before = history[:-2] if is_same_request else history
        history = await _talk(running, before, "remember host = oak" if is_same_request else "what is port?")
        keys, said = await running.sessions(), await _said(running, key)
        history = await _talk(running, history, "and host?")
        later = await _said(running, key)
    assert deleted.records > 0
    assert keys == [key]
    assert said == [f"{one['role']}: {one['content']}" for one in history[:-2]]
    assert later == [f"{one['role']}: {one['content']}" for one in history]


async def test_a_conversation_with_tools_of_the_client_stays_one_turn_with_its_pairs() -> None:
    async with a_dropin() as running:
        history = await _talk(running, [], "call look {}", tools=TOOLS)
        call = history[-1]["tool_calls"][0]["id"]
        history += [{"role": "tool", "tool_call_id": call, "content": "it is blue"}]
        reply = await running.openai.chat.completions.create(model="sim", messages=history, tools=TOOLS)
        (key,) = await running.sessions()
        records = await running.records(key)
        view = await (await running.hold.session(key)).view()
        owing = await running.hold.pending()
    assert [type(record) for record in records].count(InputAdmitted) == 1
    assert isinstance(records[-1], TurnEnded)
    assert [message.role for message in view.messages] == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
    assert text_of(view.messages[-1].parts) == reply.choices[0].message.content
    assert owing == 0


async def test_the_same_request_again_adds_nothing() -> None:
    async with a_dropin() as running:
        history = await _talk(running, [], "hello")
        before = await running.records((await running.sessions())[0])
        await asyncio.gather(*(_talk(running, [], "hello") for _ in range(3)))
        await _talk(running, history, "and now?")
        (key,) = await running.sessions()
        after = await running.records(key)
    assert after[: len(before)] == before
    assert [type(record) for record in after].count(InputAdmitted) == 2


async def test_requests_at_the_same_time_are_kept_once() -> None:
    async with a_dropin() as running:
        await asyncio.gather(*(_talk(running, [], "hello") for _ in range(4)))
        (key,) = await running.sessions()
        records = await running.records(key)
    assert [type(record) for record in records].count(InputAdmitted) == 1


async def test_another_past_is_another_session() -> None:
    async with a_dropin() as running:
        history = await _talk(running, [], "hello")
        await _talk(running, history, "remember a = 1")
        await _talk(running, [history[0], {"role": "assistant", "content": "Something else."}], "remember b = 2")
        keys = await running.sessions()
        said = [await _said(running, key) for key in keys]
    assert len(keys) == 2
    assert not any("b = 2" in line for line in said[0])
    assert not any("a = 1" in line for line in said[1])


async def test_clients_with_other_keys_do_not_share_a_session() -> None:
    async with a_dropin() as running:
        other = running.openai.with_options(api_key="sk-of-somebody-else")
        await _talk(running, [], "hello")
        await other.chat.completions.create(model="sim", messages=[{"role": "user", "content": "hello"}])
        assert len(await running.sessions()) == 2


async def test_a_header_names_the_session() -> None:
    async with a_dropin() as running:
        headers = {"x-holdfast-session": "my-agent"}
        raw = await running.openai.chat.completions.with_raw_response.create(
            model="sim", messages=[{"role": "user", "content": "hello"}], extra_headers=headers
        )
        assert await running.sessions() == ["dropin:my-agent"]
    assert raw.headers["x-holdfast-session"] == "dropin:my-agent"


@pytest.mark.parametrize(
    ("named", "status", "kept"),
    [
        ("dropin:mine", 200, ["dropin:mine"]),
        # Whatever it says, it is a name within the drop-in sessions of its own tenant.
        ("holdfast:learned", 200, ["dropin:holdfast:learned"]),
        ("@alice/dropin:hers", 200, ["dropin:@alice/dropin:hers"]),
        ("../../etc/passwd", 200, ["dropin:../../etc/passwd"]),
        ("x" * 300, 422, []),
        ("m\u00fcnchen", 400, []),
    ],
)
async def test_a_header_that_names_a_session_opens_no_other_one(named: str, status: int, kept: list[str]) -> None:
    async with a_dropin() as running:
        headers = {"x-holdfast-session": named, "authorization": "Bearer sk-mine"}
        body = {"model": "sim", "messages": [{"role": "user", "content": "hello"}]}
        async with running.http.post(f"{running.url}/v1/chat/completions", json=body, headers=headers) as response:
            told = await response.read()
        assert await running.sessions() == kept
    assert response.status == status, told


async def test_a_conversation_is_recognised_after_a_restart() -> None:
    store = MemoryStore(clock=SystemClock(), bounds=Bounds())
    async with a_dropin(store=store) as running:
        history = await _talk(running, [], "call look {}", tools=TOOLS)
        history += [{"role": "tool", "tool_call_id": history[-1]["tool_calls"][0]["id"], "content": "blue"}]
        first = await running.sessions()
    async with a_dropin(store=store) as running:
        reply = await running.openai.chat.completions.create(model="sim", messages=history, tools=TOOLS)
        history.append(reply.choices[0].message.model_dump(exclude_none=True))
        await _talk(running, history, "thanks", tools=TOOLS)
        assert await running.sessions() == first
        said = await _said(running, first[0])
    assert [line.partition(":")[0] for line in said] == ["user", "assistant", "tool", "assistant", "user", "assistant"]


async def test_anthropic_marks_for_caching_do_not_make_another_conversation() -> None:
    async with a_dropin() as running:
        marked: Any = [{"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}]
        first: Any = {"role": "user", "content": marked}
        reply = await running.anthropic.messages.create(model="sim", max_tokens=99, messages=[first])
        text: Any = reply.content[0]
        again: Any = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": text.text}]
        await running.anthropic.messages.create(
            model="sim", max_tokens=99, messages=[*again, {"role": "user", "content": marked}]
        )
        assert len(await running.sessions()) == 1


async def test_the_responses_dialect_is_kept_too() -> None:
    async with a_dropin() as running:
        first = await running.openai.responses.create(model="sim", input="remember port = 8080")
        items: Any = [
            {"role": "user", "content": "remember port = 8080"},
            {"role": "assistant", "content": first.output_text},
            {"role": "user", "content": "what is port?"},
        ]
        await running.openai.responses.create(model="sim", input=items)
        (key,) = await running.sessions()
        assert len(await _said(running, key)) == 4


async def test_gateway_keys_open_sessions_of_their_own_and_are_never_passed_on(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    key = KeyFile(keys).add("ann")
    async with a_dropin(keys=keys, sdk_key=key, upstream_key="sk-of-the-gateway") as running:
        raw = await running.openai.chat.completions.with_raw_response.create(
            model="sim", messages=[{"role": "user", "content": "hello"}]
        )
        stranger = running.openai.with_options(api_key="hf_wrong")
        with pytest.raises(openai.AuthenticationError):
            await stranger.chat.completions.create(model="sim", messages=[{"role": "user", "content": "hello"}])
        (session,) = await running.sessions()
    assert session.startswith("@ann/dropin:")
    assert raw.headers["x-holdfast-session"] == session.removeprefix("@ann/")


def test_a_message_is_known_by_what_it_says_and_not_by_its_form() -> None:
    whole = Message(Role.USER, (Text("one two"),))
    assert digest_of(whole) == digest_of(Message(Role.USER, (Text("one "), Text("two\n"))))
    assert digest_of(whole) != digest_of(Message(Role.ASSISTANT, (Text("one two"),)))
    call = ToolCall("c1", "look", "{}")
    assert digest_of(Message(Role.ASSISTANT, (Text("Let me see."), call))) == digest_of(
        Message(Role.ASSISTANT, (call,))
    )
    assert digest_of(Message(Role.TOOL, (ToolResult("c1", (Text("a"),)),))) != digest_of(
        Message(Role.TOOL, (ToolResult("c1", (Text("b"),)),))
    )


async def test_a_session_shows_what_its_requests_took_and_what_there_was() -> None:
    async with a_dropin(Simulation(Limits(window_tokens=6_000, output_tokens_max=1_000))) as running:
        for text in ("a", "b " * 20_000):
            with suppress(openai.APIStatusError):
                await running.openai.chat.completions.create(model="sim", messages=[{"role": "user", "content": text}])
        await running.openai.chat.completions.create(model="sim", messages=[{"role": "user", "content": "hello"}])
        started = [
            record
            for key in await running.sessions()
            for record in await running.records(key)
            if isinstance(record, AttemptStarted) and record.budgets is not None
        ]
    assert any(one.budgets is not None and one.budgets.tokens_max == 5_000 for one in started)
    assert all(one.tokens_raw and one.budgets and one.budgets.wire_bytes and one.budgets.media == 0 for one in started)
