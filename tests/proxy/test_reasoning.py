"""Signed thinking in a client's requests: back to its issuer to the byte, as tool loops need it, and to nobody else."""

import json
from typing import Any

import pytest

from holdfast.models.fake.tokens import seal, sign
from holdfast.types.limits import Limits
from holdfast.types.messages import Reasoning
from holdfast.types.records import CompactionApplied, ReasoningDropped, ReplyRecorded
from tests.e2e.world import NOTES_MARK, Provider
from tests.proxy.proxies import DropInRunning, a_dropin

SMALL = Limits(window_tokens=6_000, output_tokens_max=3_000)
LARGE = Limits(window_tokens=200_000)
FILLER = "the crew writes down what it saw on this day and what it means to do on the next. " * 40
TOOLS: Any = [{"name": "look", "input_schema": {"type": "object", "properties": {}}}]
THINKING: Any = {"type": "enabled", "budget_tokens": 1_024}


def signed(number: int, model: str = "sim") -> dict[str, str]:
    thought = f"I should look at room {number}"
    return {"type": "thinking", "thinking": thought, "signature": sign(model, thought)}


def hidden(number: int, model: str = "sim") -> dict[str, str]:
    return {"type": "redacted_thinking", "data": seal(model, f"room {number}, then the next")}


def a_loop(*thoughts: dict[str, str], filler: str = FILLER) -> list[Any]:
    """A question, and a tool call behind each thought with its result: the turn is not over yet."""
    messages: list[Any] = [{"role": "user", "content": "remember port = 8080, then look around"}]
    for number, thought in enumerate(thoughts):
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": "look", "input": {}}
        messages.append({"role": "assistant", "content": [thought, use]})
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": f"room {number}: {filler}"}
        messages.append({"role": "user", "content": [result]})
    return messages


def request(running: DropInRunning) -> list[tuple[int, Any]]:
    """Return what the provider was asked besides notes, each with the status it answered."""
    seen = [one for one in running.simulation.requests if NOTES_MARK not in one.body]
    return [(one.status, json.loads(one.body)) for one in seen]


def thoughts_in(body: Any) -> list[Any]:
    blocks = [block for one in body["messages"] if isinstance(one["content"], list) for block in one["content"]]
    return [block for block in blocks if block["type"] in ("thinking", "redacted_thinking")]


async def answered(running: DropInRunning, messages: list[Any], *, is_streamed: bool = False, **more: Any) -> Any:
    settings = {"model": "sim", "max_tokens": 2_000, "tools": TOOLS, "thinking": THINKING} | more
    if is_streamed:
        async with running.anthropic.messages.stream(messages=messages, **settings) as stream:
            return await stream.get_final_message()
    return await running.anthropic.messages.create(messages=messages, **settings)


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("thought", [signed, hidden])
async def test_a_rescue_in_the_middle_of_a_tool_loop_keeps_the_newest_thinking_to_the_byte(
    thought: Any, *, is_streamed: bool
) -> None:
    """FM-064, FM-065: with thinking switched on, a provider refuses a loop that goes on without it."""
    thoughts = [thought(number) for number in range(12)]
    async with a_dropin(Provider(SMALL)) as running:
        reply = await answered(running, a_loop(*thoughts), is_streamed=is_streamed)
        (key,) = await running.sessions()
        records = await running.records(key)
        (first, whole), (second, rescued) = request(running)

    assert reply.content
    assert any(isinstance(record, CompactionApplied) for record in records)
    assert (first, second) == (400, 200)
    assert thoughts_in(whole) == thoughts
    kept = thoughts_in(rescued)
    assert kept, "the loop goes on with the thinking it began with"
    assert kept == thoughts[-len(kept) :]
    assert rescued["thinking"] == THINKING


async def test_thinking_from_before_the_open_turn_is_left_out_behind_a_compaction_and_the_rest_goes_as_it_was() -> None:
    """FM-065: it was thought about a past that is no longer shown."""
    before: list[Any] = [
        {"role": "user", "content": f"tell me of the sea. {FILLER * 8}"},
        {"role": "assistant", "content": [signed(90), {"type": "text", "text": "It is wide.", "citations": None}]},
        {"role": "user", "content": f"and of the harbour? {FILLER}"},
        {"role": "assistant", "content": [signed(91), {"type": "text", "text": "It is deep.", "citations": None}]},
    ]
    async with a_dropin(Provider(SMALL)) as running:
        reply = await answered(running, [*before, *a_loop(signed(1), signed(2), filler="empty")])
        *_, (status, rescued) = request(running)

    assert (reply.stop_reason, status) == ("end_turn", 200)
    assert thoughts_in(rescued) == [signed(1), signed(2)]
    assert {"role": "assistant", "content": before[3]["content"][1:]} in rescued["messages"]


async def test_thinking_that_the_provider_refuses_is_left_out_and_the_loop_goes_on_without_any() -> None:
    """FM-067: what its issuer cannot read any more does not end a client's turn."""
    provider = Provider(SMALL)
    # Behind a compaction it calls every signature wrong: bound to a past that is no longer there.
    provider.fault_of = lambda body: "reasoning-400" if b'"signature"' in body and b"<earlier" in body else ""
    context: Any = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
    async with a_dropin(provider) as running:
        loop = a_loop(*(signed(number) for number in range(12)))
        reply = await answered(running, loop, extra_body={"context_management": context})
        (key,) = await running.sessions()
        records = await running.records(key)
        *_, (status, last) = request(running)

    assert reply.content
    assert any(isinstance(record, ReasoningDropped) for record in records)
    assert (status, thoughts_in(last), last["thinking"]) == (200, [], {"type": "disabled"})
    assert "context_management" not in last, "the provider would refuse to clear what is not thought"


@pytest.mark.parametrize("limits", [SMALL, LARGE], ids=["rescued", "passed"])
async def test_the_next_model_is_not_sent_what_another_has_signed(limits: Limits) -> None:
    """FM-069: in a rescue and in passing; all else of the request is as the client wrote it."""
    provider = Provider(limits)
    provider.fault_of = lambda body: "529" if b'"model":"sim"' in body.replace(b" ", b"") else ""
    thoughts = [signed(1), hidden(2)] * (6 if limits is SMALL else 1)
    messages = a_loop(*thoughts, filler=FILLER if limits is SMALL else "empty")
    async with a_dropin(provider, fallbacks=("other",)) as running:
        reply = await answered(running, messages, metadata={"user_id": "u"})
        requests = request(running)

    status, last = requests[-1]
    assert (reply.model, status, last["model"]) == ("other", 200, "other")
    assert all(not thoughts_in(body) for _, body in requests if body["model"] == "other")
    assert last["thinking"] == {"type": "disabled"}
    assert last["metadata"] == {"user_id": "u"}
    if limits is LARGE:
        bare = [
            one if one["role"] == "user" else {"role": "assistant", "content": one["content"][1:]} for one in messages
        ]
        assert last["messages"] == bare


async def test_what_another_model_thought_in_a_rescue_does_not_come_back_to_the_first() -> None:
    """FM-069: the client sends back what it was given, whoever gave it."""
    provider = Provider(SMALL)
    provider.fault_of = lambda body: "529" if b'"model":"sim"' in body.replace(b" ", b"") else ""
    messages: list[Any] = [
        {"role": "user", "content": f"tell me of the sea. {FILLER * 8}"},
        {"role": "assistant", "content": "It is wide."},
        {"role": "user", "content": "think about it"},
    ]
    async with a_dropin(provider, fallbacks=("other",)) as running:
        reply = await answered(running, messages, thinking={"type": "disabled"})
        assert [block.type for block in reply.content] == ["thinking", "text"]
        provider.fault_of = lambda _: ""
        given = [block.model_dump(exclude_none=True) for block in reply.content]
        messages += [{"role": "assistant", "content": given}, {"role": "user", "content": "and what is it?"}]
        second = await answered(running, messages, thinking={"type": "disabled"})
        status, last = request(running)[-1]

    assert (reply.model, second.model) == ("other", "sim")
    assert (status, last["model"], thoughts_in(last)) == (200, "sim", [])


async def test_what_another_model_thought_in_passing_does_not_come_back_to_the_first_for_ever() -> None:
    """FM-069, FM-011."""
    provider = Provider(LARGE)
    provider.fault_of = lambda body: "529" if b'"model":"sim"' in body.replace(b" ", b"") else ""
    messages: list[Any] = [{"role": "user", "content": "think about it"}]
    async with a_dropin(provider, fallbacks=("other",)) as running:
        reply = await answered(running, messages, thinking={"type": "disabled"})
        provider.fault_of = lambda _: ""
        given = [block.model_dump(exclude_none=True) for block in reply.content]
        messages += [{"role": "assistant", "content": given}, {"role": "user", "content": "and what is it?"}]
        second = await answered(running, messages, thinking={"type": "disabled"})
        (key,) = await running.sessions()
        replies = [record.reply for record in await running.records(key) if isinstance(record, ReplyRecorded)]

    assert (reply.model, second.model) == ("other", "sim")
    assert [(status, body["model"], len(thoughts_in(body))) for status, body in request(running)[-2:]] == [
        (400, "sim", 1),
        (200, "sim", 0),
    ]
    # The log knows whose thought it was.
    (thought,) = [part for part in replies[0].parts if isinstance(part, Reasoning)]
    assert "other" in thought.issuer


async def test_a_reasoning_setting_that_the_provider_rejects_is_dropped_and_stays_dropped() -> None:
    """FM-010: the ladder of native sessions cures it behind the proxy too."""
    provider = Provider(SMALL)
    messages: list[Any] = [
        {"role": "user", "content": f"tell me of the sea. {FILLER * 8}"},
        {"role": "assistant", "content": "It is wide."},
        {"role": "user", "content": "and of the harbour?"},
    ]
    async with a_dropin(provider) as running:
        reply = await answered(running, messages, thinking={"type": "disabled"})
        messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": "and now?"}]
        before = len(request(running))
        provider.set_faults("reasoning-400")
        second = await answered(running, messages, thinking={"type": "disabled"})
        cured = request(running)[before:]
        messages += [{"role": "assistant", "content": second.content}, {"role": "user", "content": "and then?"}]
        third = await answered(running, messages, thinking={"type": "disabled"})
        _, last = request(running)[-1]

    assert [(status, "thinking" in body) for status, body in cured] == [(400, True), (200, False)]
    assert second.content
    assert third.content
    assert "thinking" not in last


async def test_a_clamped_answer_leaves_room_for_less_thinking() -> None:
    """The provider refuses a budget for thinking that is not below the length of the answer."""
    messages: Any = [{"role": "user", "content": "hello"}]
    budget: Any = {"type": "enabled", "budget_tokens": 5_990}
    async with a_dropin(Provider(Limits(window_tokens=6_000))) as running:
        for _ in range(2):
            reply = await answered(running, messages, max_tokens=5_999, thinking=budget)
            assert reply.content
            messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": "and again"}]
        statuses = [status for status, _ in request(running)]
        clamped = [body for status, body in request(running) if status == 200]

    assert statuses == [400, 200, 200]
    assert all(body["thinking"]["budget_tokens"] < body["max_tokens"] < 5_999 for body in clamped)


# --- the responses dialect ---------------------------------------------------------------------------------------


def encrypted(number: int) -> dict[str, Any]:
    sealed = seal("sim", f"room {number}, then the next")
    return {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": sealed}


def a_responses_loop(count: int, filler: str = FILLER) -> list[Any]:
    elements: list[Any] = [{"role": "user", "content": "remember port = 8080, then look around"}]
    for number in range(count):
        call = {"type": "function_call", "call_id": f"call_{number}", "name": "look", "arguments": "{}"}
        elements += [encrypted(number), call | {"id": f"fc_{number}", "status": "completed"}]
        output = f"room {number}: {filler}"
        elements.append({"type": "function_call_output", "call_id": f"call_{number}", "output": output})
    return elements


RESPONSES_TOOLS: Any = [{"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}]


async def test_encrypted_thinking_of_an_open_turn_is_kept_to_the_byte_by_a_rescue() -> None:
    """FM-064, FM-067."""
    elements = a_responses_loop(12)
    async with a_dropin(Provider(SMALL)) as running:
        reply = await running.openai.responses.create(
            model="sim", input=elements, tools=RESPONSES_TOOLS, store=False, max_output_tokens=500
        )
        (first, _), (second, rescued) = request(running)

    assert reply.output_text
    assert (first, second) == (400, 200)
    kept = [one for one in rescued["input"] if one.get("type") == "reasoning"]
    assert kept
    assert kept == [one for one in elements if one.get("type") == "reasoning"][-len(kept) :]
    assert rescued["input"][-3 * len(kept) :] == elements[-3 * len(kept) :]


@pytest.mark.parametrize("limits", [SMALL, LARGE], ids=["rescued", "passed"])
async def test_encrypted_thinking_does_not_go_to_the_next_model(limits: Limits) -> None:
    """FM-067, FM-069: nor do the names by which the provider would look for it."""
    provider = Provider(limits)
    provider.fault_of = lambda body: "529" if b'"model":"sim"' in body.replace(b" ", b"") else ""
    elements = a_responses_loop(12) if limits is SMALL else a_responses_loop(2, "empty")
    async with a_dropin(provider, fallbacks=("other",)) as running:
        reply = await running.openai.responses.create(
            model="sim", input=elements, tools=RESPONSES_TOOLS, store=False, max_output_tokens=500
        )
        status, last = request(running)[-1]

    assert (reply.output_text != "", status, last["model"]) == (True, 200, "other")
    assert not [one for one in last["input"] if one.get("type") == "reasoning" or "id" in one]
    if limits is LARGE:
        bare = [{name: value for name, value in one.items() if name != "id"} for one in elements]
        assert last["input"] == [one for one in bare if one.get("type") != "reasoning"]


async def test_reasoning_that_the_provider_cannot_read_is_dropped_and_the_request_is_answered() -> None:
    """A client that spoils a signature would send it for ever."""
    spoilt = signed(1) | {"signature": "bm90IHRoZWlycw=="}
    async with a_dropin(Provider(LARGE)) as running:
        reply = await answered(running, a_loop(spoilt, filler="empty"))
        statuses = [(status, thoughts_in(body)) for status, body in request(running)]
    assert reply.content
    assert statuses == [(400, [spoilt]), (200, [])]


# --- Gemini: a signature is on the part that it belongs to ---


def a_gemini_loop(rooms: int, filler: str = FILLER) -> list[Any]:
    """Return a tool loop in which every call is signed, and its results have no ids."""
    contents: list[Any] = [{"role": "user", "parts": [{"text": "remember port = 8080, then look around"}]}]
    for number in range(rooms):
        call = {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": seal("sim", f"room {number}")}
        result = {"functionResponse": {"name": "look", "response": {"output": f"room {number}: {filler}"}}}
        contents += [{"role": "model", "parts": [call]}, {"role": "user", "parts": [result]}]
    return contents


async def gemini_answered(running: DropInRunning, contents: list[Any], model: str = "sim") -> Any:
    tools = [{"functionDeclarations": [{"name": "look", "parametersJsonSchema": {"type": "object"}}]}]
    url = f"{running.url}/v1beta/models/{model}:generateContent"
    body = {"contents": contents, "tools": tools}
    async with running.http.post(url, json=body, headers={"x-goog-api-key": "AIza-k"}) as response:
        assert response.status == 200, await response.text()
        return await response.json()


def signatures_in(body: Any) -> list[str]:
    parts = [part for content in body["contents"] for part in content["parts"]]
    return [part["thoughtSignature"] for part in parts if "thoughtSignature" in part]


async def test_signatures_of_gemini_stay_on_their_parts_after_a_rescue() -> None:
    contents = a_gemini_loop(12)
    async with a_dropin(Provider(SMALL)) as running:
        await gemini_answered(running, contents)
        last = json.loads(running.sent[-1])
        sessions = await running.sessions()
    kept = signatures_in(last)
    assert kept
    assert kept == signatures_in({"contents": contents})[-len(kept) :]
    assert [one for one in last["contents"] if one["role"] == "model"][-1] == contents[-2]
    assert len(sessions) == 1


async def test_a_fallback_model_of_gemini_is_asked_at_its_own_address_without_foreign_signatures() -> None:
    async with a_dropin(Provider(LARGE, faults="529*5"), fallbacks=["gemini-3-sim"]) as running:
        await gemini_answered(running, a_gemini_loop(2, "small"))
        last = running.simulation.requests[-1]
    assert last.path.startswith("/v1beta/models/gemini-3-sim:generateContent")
    # The model takes no call without a signature, and Google names a placeholder for calls of another model.
    assert signatures_in(json.loads(last.body)) == ["skip_thought_signature_validator"] * 2


async def test_a_signature_that_gemini_refuses_is_dropped_and_the_call_kept() -> None:
    contents = a_gemini_loop(2, "small")
    contents[1]["parts"][0]["thoughtSignature"] = seal("another", "room")
    async with a_dropin(Provider(LARGE)) as running:
        await gemini_answered(running, contents)
        statuses = [one.status for one in running.simulation.requests]
        last = json.loads(running.sent[-1])
    assert statuses == [400, 200]
    assert signatures_in(last) == []
    assert sum("functionCall" in part for one in last["contents"] for part in one["parts"]) == 2
