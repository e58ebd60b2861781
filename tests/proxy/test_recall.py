"""After a rescue the client's model reads what has left its view with a tool that the gateway runs, unseen."""

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.limits.bounds import Bounds, Deadlines
from holdfast.models.fake import Simulation
from holdfast.runtime.clock import SystemClock
from holdfast.stores.memory import MemoryStore
from holdfast.types.faults import FaultKind
from holdfast.types.limits import Limits
from holdfast.types.messages import Reply, Text, ToolCall
from holdfast.types.records import (
    AttemptAbandoned,
    AttemptFailed,
    InputAdmitted,
    ReasoningDropped,
    ReplyRecorded,
    ToolSettled,
    ToolStarted,
)
from tests.proxy.proxies import NONE_AHEAD, DropInRunning, a_dropin
from tests.proxy.recallers import DIALECTS, Recaller, a_past, fact, forgetful, tool

STOPPED = {"chat": "stop", "responses": "completed", "anthropic": "end_turn", "gemini": "STOP"}
CALLED = {"chat": "tool_calls", "responses": "completed", "anthropic": "tool_use", "gemini": "STOP"}


def _bodies(running: DropInRunning, first: int = 0) -> list[Any]:
    """Return the accepted requests of the client's model. Gemini refuses a summary with a status of 200."""
    seen = [
        one
        for one in list(running.simulation.requests)[first:]
        if one.status == 200 and (one.dialect != "gemini" or b'"maxOutputTokens": 300' in one.body)
    ]
    return [json.loads(one.body) for one in seen]


def _conversation(body: Any) -> list[Any]:
    found: list[Any] = next(body[name] for name in ("input", "contents", "messages") if name in body)
    return found


def _tool_names(body: Any) -> list[str]:
    groups = [one.get("functionDeclarations", [one]) for one in body.get("tools") or ()]
    return [one.get("name") or one["function"]["name"] for group in groups for one in group]


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_fact_out_of_view_is_answered_and_the_client_sees_no_recall(dialect: str, *, is_streamed: bool) -> None:
    async with a_dropin(forgetful(), bounds=NONE_AHEAD) as running:
        client = Recaller(running, dialect, is_streamed)
        looked_up = 0
        for number in (3, 40, 77, 120, 161, 200):
            name, value = fact(number)
            before = len(running.simulation.requests)
            answer = await client.ask(f"what is {name}?")
            bodies = _bodies(running, before)
            assert value in answer.text
            assert (answer.calls, answer.stop) == ([], STOPPED[dialect])
            assert "recall" not in json.dumps(client.messages)
            assert all(_tool_names(body) == ["depth", "recall"] for body in bodies)
            if len(bodies) > 1:
                looked_up += 1
                assert value not in json.dumps(_conversation(bodies[0]))
                seen = [json.dumps(json.loads(one.body)) for one in running.simulation.requests]
                asked = [running.simulation.requests[seen.index(json.dumps(body))].tokens for body in bodies]
                assert answer.tokens[0] == sum(asked)
        (key,) = await running.sessions()
        records = await running.records(key)
    assert looked_up >= 3
    own = [record for record in records if isinstance(record, ReplyRecorded) and record.own_calls]
    assert len(own) == looked_up
    assert all(record.origin is None for record in own)
    calls = {part.call_id for record in own for part in record.reply.parts if isinstance(part, ToolCall)}
    assert {record.call_id for record in records if isinstance(record, ToolStarted)} == calls
    assert {record.result.call_id for record in records if isinstance(record, ToolSettled)} == calls


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_calls_of_the_client_pass_and_ours_beside_them_are_put_back(dialect: str, *, is_streamed: bool) -> None:
    async with a_dropin(forgetful(), bounds=NONE_AHEAD) as running:
        client = Recaller(running, dialect, is_streamed)
        name, value = fact(40)
        query = json.dumps({"query": name})
        mixed = await client.ask(f'call depth {{"at": 1}} call recall {query} call depth {{"at": 2}}')
        assert [called for _, called in mixed.calls] == ["depth", "depth"]
        assert mixed.stop == CALLED[dialect]
        first = len(running.simulation.requests)
        answer = await client.returns(mixed, "12 fathoms")
        # The model finds all three results behind its own three calls.
        assert answer.text.count("The tool depth returned: 12 fathoms") == 2
        assert value in answer.text
        assert "recall" not in json.dumps([one for one in client.messages if one.get("role") != "user"][-4:-1])
        (body,) = _bodies(running, first)
        again = await client.ask("write 5 words")
        assert again.text
        # The next request begins with the same bytes.
        later = _bodies(running)[-1]
        size = len(_conversation(body))
        assert _conversation(later)[:size] == _conversation(body)
        assert _tool_names(later) == _tool_names(body) == ["depth", "recall"]
        assert len(await running.sessions()) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_what_was_recalled_stays_in_later_requests(dialect: str) -> None:
    async with a_dropin(forgetful(), bounds=NONE_AHEAD) as running:
        client = Recaller(running, dialect)
        await client.ask(f"what is {fact(40)[0]}?")
        inner = _bodies(running)[-1]
        before = len(running.simulation.requests)
        answer = await client.ask(f"what is {fact(40)[0]}?")
        (body,) = _bodies(running, before)
    assert fact(40)[1] in answer.text
    # One call: the result is still there, in the same bytes.
    assert _conversation(body)[: len(_conversation(inner))] == _conversation(inner)
    assert fact(40)[1] in json.dumps(_conversation(inner)[-1])


def _settings(dialect: str, choice: str) -> dict[str, Any]:
    if dialect == "anthropic":
        return {"tool_choice": {"type": {"required": "any"}.get(choice, choice)}}
    if dialect == "gemini":
        return {"toolConfig": {"functionCallingConfig": {"mode": {"required": "ANY", "none": "NONE"}[choice]}}}
    return {"tool_choice": choice}


@pytest.mark.parametrize(
    "case", ["no tools", "setting", "name", "none", "required", "several choices"], ids=lambda case: case
)
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_without_recall_the_model_sees_neither_tool_nor_citations(dialect: str, case: str) -> None:
    if case == "several choices" and dialect not in ("chat", "gemini"):
        pytest.skip("only chat and Gemini have several choices")
    bounds = NONE_AHEAD
    if case == "setting":
        bounds = type(NONE_AHEAD)(back_off_seconds_min=0.01, compacts_ahead=False, proxy_recall_rounds_max=0)
    async with a_dropin(forgetful(), bounds=bounds) as running:
        client = Recaller(running, dialect)
        # First with the tool, where that is possible: what the model did with it is not shown later.
        if case in ("no tools", "none", "required", "several choices", "name"):
            await client.ask(f"what is {fact(40)[0]}?")
            assert "[#" in json.dumps(_bodies(running)[-1])
            assert "recall(" in json.dumps(_bodies(running)[-1])
        if case == "no tools":
            client.tools = []
        elif case == "name":
            client.tools = ["depth", "recall"]
        elif case in ("none", "required"):
            client.more = _settings(dialect, case)
        elif case == "several choices":
            client.more = {"n": 2} if dialect == "chat" else {"generationConfig": {"candidateCount": 2}}
        before = len(running.simulation.requests)
        answer = await client.ask("write 5 words")
        bodies = _bodies(running, before)
    assert answer.text
    assert _tool_names(bodies[-1]) == client.tools
    sent = json.dumps(_conversation(bodies[-1]))
    assert "[#" not in sent
    assert "recall" not in sent


async def test_a_request_that_was_never_rescued_is_forwarded_byte_for_byte() -> None:
    async with a_dropin(forgetful(), bounds=NONE_AHEAD) as running:
        body = json.dumps({"model": "sim", "messages": [{"role": "user", "content": "what is x?"}], "tools": []})
        headers = {"authorization": "Bearer sk", "content-type": "application/json"}
        async with running.http.post(f"{running.url}/v1/chat/completions", data=body, headers=headers) as answer:
            assert answer.status == 200
            await answer.read()
        assert running.sent == [body.encode()]


async def test_the_rounds_for_one_request_are_bounded() -> None:
    bounds = type(NONE_AHEAD)(back_off_seconds_min=0.01, compacts_ahead=False, proxy_recall_rounds_max=3)
    async with a_dropin(forgetful(), bounds=bounds) as running:
        client = Recaller(running, "chat")
        rounds = " then ".join('call recall {"query": "berth-3"}' for _ in range(6))
        answer = await client.ask(rounds)
        bodies = _bodies(running)
    assert len(bodies) == 4
    assert [_tool_names(body) for body in bodies] == [["depth", "recall"]] * 3 + [["depth"]]
    assert answer.text


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_result_is_bounded(dialect: str) -> None:
    past = [{"role": "user", "content": "remember ballast = 7; " + "ballast of iron and stone " * 4_000}, *a_past()[1:]]
    async with a_dropin(forgetful(), bounds=NONE_AHEAD) as running:
        client = Recaller(running, dialect, messages=past)
        await client.ask('call recall {"seq": 1}')
        (key,) = await running.sessions()
        settled = [record for record in await running.records(key) if isinstance(record, ToolSettled)]
    assert len(settled) == 1
    assert 4_000 < len(json.dumps([part.text for part in settled[0].result.parts])) < 13_000  # type: ignore[union-attr]


# --- Reasoning and text around a call of ours ---

THINKING: Any = {
    "anthropic": {"max_tokens": 2_000, "thinking": {"type": "enabled", "budget_tokens": 1_024}},
    "responses": {"reasoning": {"effort": "low"}},
    "gemini": {"generationConfig": {"thinkingConfig": {"thinkingBudget": 1_024}}},
}
ROOMY = Limits(window_tokens=8_000, output_tokens_max=3_000)


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", ["responses", "anthropic", "gemini"])
async def test_signed_reasoning_goes_back_with_its_own_call(dialect: str, *, is_streamed: bool) -> None:
    """The simulated providers refuse reasoning that was altered, and a tool loop that goes on without it."""
    async with a_dropin(forgetful(ROOMY), bounds=NONE_AHEAD) as running:
        client = Recaller(running, dialect, is_streamed, messages=a_past(60))
        client.more = THINKING[dialect]
        name, value = fact(40)
        answer = await client.ask(f"think: what is {name}?")
        assert value in answer.text
        # The reasoning before the call of ours stays here, with the call.
        assert answer.reasoning == 1
        mixed = await client.ask('think, and call depth {} call recall {"query": "berth-41"}')
        assert ([called for _, called in mixed.calls], mixed.reasoning) == (["depth"], 1)
        answer = await client.returns(mixed, "12 fathoms")
        assert "12 fathoms" in answer.text
        assert fact(41)[1] in answer.text
        (key,) = await running.sessions()
        records = await running.records(key)
    faults = {record.fault.kind for record in records if isinstance(record, AttemptFailed)}
    assert faults == {FaultKind.TOKEN_OVERFLOW}
    assert not any(isinstance(record, ReasoningDropped) for record in records)


class Talkative(Simulation):
    """A model that says something before every call."""

    def _reply(self, *given: Any) -> Reply:
        reply = super()._reply(*given)
        has_calls = any(isinstance(part, ToolCall) for part in reply.parts)
        return replace(reply, parts=(Text("Let me look."), *reply.parts)) if has_calls else reply


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_text_before_a_call_is_streamed_and_the_session_goes_on(dialect: str, *, is_streamed: bool) -> None:
    simulation = Talkative(Limits(window_tokens=4_000, output_tokens_max=800))
    simulation.summary_tokens_max = 0
    store = MemoryStore(clock=SystemClock(), bounds=Bounds())
    async with a_dropin(simulation, store=store, bounds=NONE_AHEAD) as running:
        client = Recaller(running, dialect, is_streamed)
        name, value = fact(40)
        answer = await client.ask(f"what is {name}?")
        assert answer.text.count("Let me look.") == (1 if is_streamed else 0)
        assert answer.text.endswith(f"{name} = {value}.")
        sent = _bodies(running)[-1]
    # Another process finds the session by the text as the client has it.
    async with a_dropin(simulation, store=store, bounds=NONE_AHEAD) as running:
        client.running = running
        before = len(simulation.requests)
        assert (await client.ask("write 5 words")).text
        (body,) = _bodies(running, before)
        assert len(await running.sessions()) == 1
    # The model finds its own words once, where it said them.
    assert _conversation(body)[: len(_conversation(sent))] == _conversation(sent)
    assert json.dumps(_conversation(body)).count("Let me look.") == 1


# --- Faults, disconnects, several gateways ---


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("word", ["529", "cut", "stall", "error-event"])
@pytest.mark.parametrize("dialect", ["anthropic", "gemini"])
async def test_a_fault_between_two_calls_is_cured_and_the_client_sees_one_answer(
    dialect: str, word: str, *, is_streamed: bool
) -> None:
    deadlines = Deadlines(first_token_seconds=0.5, idle_seconds=0.5)
    async with a_dropin(forgetful(), bounds=NONE_AHEAD, deadlines=deadlines) as running:
        client = Recaller(running, dialect, is_streamed)
        await client.ask("write 5 words")
        name, value = fact(40)
        running.simulation.set_faults(f"ok, {word}")
        answer = await client.ask(f"what is {name}?")
        (key,) = await running.sessions()
        records = await running.records(key)
    assert answer.text == f"{name} = {value}."
    assert sum(isinstance(record, ToolSettled) for record in records) == 1


async def test_a_client_that_leaves_cancels_the_call_and_its_retry_is_answered() -> None:
    async with a_dropin(forgetful(ROOMY), bounds=NONE_AHEAD) as running:
        client = Recaller(running, "chat", is_streamed=True, messages=a_past(60))
        await client.ask("write 5 words")
        name, value = fact(40)
        running.simulation.set_faults("ok, stall")
        (key,) = await running.sessions()
        count = len(running.simulation.requests)
        asking = asyncio.create_task(client.ask(f"what is {name}?"))
        async with asyncio.timeout(30):
            while len(running.simulation.requests) < count + 2:  # noqa: ASYNC110 - the provider has no event for it
                await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        stalled = list(running.simulation.requests)[-1]
        async with asyncio.timeout(30):
            await stalled.ended.wait()
            async for logged in running.engine.store.feed(key, after=0):
                if isinstance(logged.record, AttemptAbandoned):
                    break
        client.messages.pop()
        answer = await client.ask(f"what is {name}?")
        records = await running.records(key)
    assert stalled.was_closed_early
    assert answer.text == f"{name} = {value}."
    # The result that was there is used; nothing is looked up twice.
    assert sum(isinstance(record, ToolStarted) for record in records) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_two_gateways_on_one_store_continue_each_others_sessions(dialect: str) -> None:
    store = MemoryStore(clock=SystemClock(), bounds=Bounds())
    first, second = forgetful(), forgetful()
    async with (
        a_dropin(first, store=store, bounds=NONE_AHEAD) as one,
        a_dropin(second, store=store, bounds=NONE_AHEAD) as other,
    ):
        client = Recaller(one, dialect)
        for number in (40, 77):
            client.running = (one, other)[number % 2]
            name, value = fact(number)
            assert value in (await client.ask(f"what is {name}?")).text
            mixed = await client.ask('call depth {} call recall {"query": "berth-9"}')
            client.running = (other, one)[number % 2]
            answer = await client.returns(mixed, "12 fathoms")
            assert "12 fathoms" in answer.text
            assert "The tool recall returned: Best matches" in answer.text
        (key,) = await one.sessions()
        records = await one.records(key)
    assert sum(isinstance(record, InputAdmitted) for record in records) == 44
    origins = [record.origin for record in records if isinstance(record, ReplyRecorded) and record.origin is not None]
    assert len(origins) == len(set(origins))


async def test_stored_answers_are_continued_after_a_recall_and_after_a_mixed_reply() -> None:
    """The provider waits for the result of a call that the client never saw; so the history is sent from the log."""
    simulation = Talkative(Limits(window_tokens=4_000, output_tokens_max=800))
    simulation.summary_tokens_max = 0
    async with a_dropin(simulation, bounds=NONE_AHEAD) as running:
        api: Any = running.openai.responses
        settings: dict[str, Any] = {"model": "sim", "tools": [tool("responses", "depth")], "max_output_tokens": 300}
        asked = f"what is {fact(40)[0]}?"
        async with api.stream(input=[*a_past(), {"role": "user", "content": asked}], **settings) as stream:
            async for _ in stream:
                pass
            first = await stream.get_final_response()
        assert fact(40)[1] in first.output_text
        mixed = await api.create(
            input='call depth {} call recall {"query": "berth-9"}', previous_response_id=first.id, **settings
        )
        (call,) = [part for part in mixed.output if part.type == "function_call"]
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "12 fathoms"}
        last = await api.create(input=[result], previous_response_id=mixed.id, **settings)
        after = await api.create(input="write 5 words", previous_response_id=last.id, **settings)
        keys = await running.sessions()
    assert "12 fathoms" in last.output_text
    assert "The tool recall returned: Best matches" in last.output_text
    assert after.output_text
    assert len(keys) == 1
