"""What popular agents put on the wire is read, rescued and answered as they expect it."""

import json
from typing import Any

import pytest

from holdfast.core.limits.bounds import Deadlines
from holdfast.core.proxy.client_compaction import answer_compaction
from holdfast.models.fake import Simulation
from holdfast.types.limits import Limits
from holdfast.types.messages import Message, Request, Role, Text, text_of
from tests.proxy.proxies import NONE_AHEAD, DropInRunning, a_dropin

SMALL = Limits(window_tokens=6_000, output_tokens_max=1_000)
FILLER = "the crew writes down what it saw on this day and what it means to do on the next. " * 40
AGENTS = "Kinds of helpers that may be called: a reader of files, a runner of tests."


async def _say(running: DropInRunning, messages: list[Any]) -> str:
    reply = await running.anthropic.messages.create(model="sim", max_tokens=200, messages=messages, system="Be brief.")
    block: Any = reply.content[0]
    messages.append({"role": "assistant", "content": block.text})
    return str(block.text)


async def test_instructions_between_messages_stay_behind_their_turn_or_are_told_in_words() -> None:
    messages: list[Any] = [
        {"role": "user", "content": "remember fact0 = value0"},
        {"role": "system", "content": AGENTS},
    ]
    async with a_dropin(Simulation(SMALL), bounds=NONE_AHEAD) as running:
        await _say(running, messages)
        for number in range(1, 9):
            messages.append({"role": "user", "content": f"remember fact{number} = value{number}\n{FILLER}"})
            if number == 8:
                messages.append({"role": "system", "content": [{"type": "text", "text": "Answer in one line."}]})
            await _say(running, messages)
        messages.append({"role": "user", "content": "what is fact0?"})
        told = await _say(running, messages)
        (key,) = await running.sessions()
        sent = json.loads(running.sent[-1])["messages"]
    assert "value0" in told
    assert key.startswith("dropin:")
    # The first one's turn is part of a summary now, the second one's is shown.
    assert [one for one in sent if one["role"] == "system"] == [messages[-4]]
    assert sum(AGENTS in json.dumps(one) for one in sent) == 1
    places = [place for place, one in enumerate(sent) if one["role"] == "system"]
    assert all(sent[place - 1]["role"] == "user" for place in places)


async def test_instructions_between_messages_stay_where_only_the_message_before_them_was_too_large() -> None:
    messages: list[Any] = [
        {"role": "user", "content": "paste: " + "x y z " * 20_000},
        {"role": "system", "content": AGENTS},
    ]
    async with a_dropin(Simulation(Limits(window_tokens=128_000, wire_bytes_max=60_000))) as running:
        assert await _say(running, messages)
        sent = json.loads(running.sent[-1])["messages"]
    assert [one["role"] for one in sent] == ["user", "system"]
    assert sent[1] == messages[1]


def _compaction(conversation: str, previous: str = "") -> Request:
    kept = f"<previous-summary>\n{previous}\n</previous-summary>\n\n" if previous else ""
    form = "Use the structure inside <template>, without the tags.\n<template>\n## Objective\n## Next Move\n</template>"
    text = f"<conversation>\n{conversation}\n</conversation>\n\n{kept}{form}"
    return Request((Message(Role.USER, (Text(text),)),), "You are a context summarization agent.")


def test_what_an_earlier_compaction_kept_is_carried_through_the_next_ones() -> None:
    days = "\n".join(f"Day {day}: {FILLER[:82]}" for day in range(300))
    first = f"[User]: remember harbour = blue-4711\n\n[Assistant]: Noted.\n\n[User]: read this\n{days}"
    later = f"[User]: and this\n{days}\n\n[Tool result]: found /etc/harbour/deploy.conf"
    told = text_of(answer_compaction(_compaction(first), "m").parts)
    for _ in range(12):
        assert told.startswith("## Objective\n")
        assert "<template>" not in told
        assert "harbour = blue-4711" in told
        told = text_of(answer_compaction(_compaction(later, told), "m").parts)
    assert "/etc/harbour/deploy.conf" in told
    assert told.count("## Next Move") == 1


ORDER = (
    "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\nYour task is to create a detailed summary of the "
    "conversation so far: an <analysis> block followed by a <summary> block.\n"
    "<example>\n<analysis>\n[...]\n</analysis>\n<summary>\n[...]\n</summary>\n</example>\n"
    "<example>\n## Compact Instructions\nfocus on code\n</example>\nREMINDER: text."
)
REMINDER = "<system-reminder>\n# gitStatus\nOn branch harbour-works.\n</system-reminder>"


async def test_facts_outlive_every_refused_compaction_of_claude_code() -> None:
    """Its order stands behind a person's words in one message, and its summary comes back in a frame of words."""
    days = "\n".join(f"Day {day}: {FILLER[:82]}" for day in range(300))
    system = "You are an agent.\n# Harness\n# Environment"
    messages: list[Any] = [{"role": "user", "content": [{"type": "text", "text": REMINDER}]}]
    told = ""
    async with a_dropin(Simulation(faults="bad-request*8")) as running:
        for number in range(8):
            messages[-1]["content"] += [
                {"type": "text", "text": f"remember dock{number} = amber-{number}\n{days}"},
                {"type": "text", "text": ORDER},
            ]
            reply = await running.anthropic.messages.create(
                model="sim", max_tokens=4_000, messages=messages, system=system
            )
            block: Any = reply.content[0]
            told = block.text
            inner = told.removeprefix("<summary>").removesuffix("</summary>")
            back = (
                "This session is being continued from a previous conversation that ran out of context. The summary "
                f"below covers the earlier portion of the conversation.\n\n{REMINDER}\nSummary:{inner}\n\nIf you need "
                "specific details from before compaction, read the full transcript at: /logs/talk.jsonl\n"
                "Continue the conversation from where it left off."
            )
            messages = [
                {"role": "user", "content": f"{REMINDER}\n{back}"},
                {"role": "assistant", "content": "Noted."},
                {"role": "user", "content": [{"type": "text", "text": REMINDER}]},
            ]
    assert [number for number in range(8) if f"dock{number} = amber-{number}" not in told] == []
    assert told.startswith("<summary>\n")
    assert told.endswith("\n</summary>")
    for noise in ("harbour-works", "being continued", "Compact Instructions", "# Harness", "talk.jsonl"):
        assert noise not in told


@pytest.mark.parametrize(
    ("frame", "is_in_system"),
    [
        # Copilot; qwen-code, whose second way of asking has the order in the system text; an agent that nobody knows.
        (
            "Some of it was summarized.\nHere is a summary of the prior context:\n<summary>\n{summary}\n</summary>",
            False,
        ),
        ("{summary}\n\nResume the prior task using the summary above. Continue from the last step.", True),
        ("Here is what came of the work before this point:\n{summary}\nGo on.", False),
    ],
)
def test_facts_outlive_compactions_however_the_summary_comes_back(frame: str, *, is_in_system: bool) -> None:
    days = "\n".join(f"Day {day}: {FILLER[:82]}" for day in range(300))
    form = "<state_snapshot>\n<intent>\n</intent>\n<next_step>\n</next_step>\n</state_snapshot>"
    order = f"You are the component that summarizes a conversation when its context window overflows.\n{form}"
    history: list[Message] = []
    told = ""
    for number in range(8):
        paste = Text(f"remember dock{number} = amber-{number}\n{days}")
        request = "First, reason. Then, produce the XML." if is_in_system else order
        messages = (*history, Message(Role.USER, (paste, Text(request))))
        told = text_of(answer_compaction(Request(messages, order if is_in_system else "You code."), "m").parts)
        back = Message(Role.USER, (Text(frame.format(summary=told)),))
        history = [back, Message(Role.ASSISTANT, (Text("Got it."),))]
    assert [number for number in range(8) if f"dock{number} = amber-{number}" not in told] == []
    assert told.count("<intent>") == told.count("state_snapshot") / 2 == 1


def test_a_form_of_several_tags_is_filled_in_as_it_stands() -> None:
    history = Message(Role.USER, (Text("remember harbour = blue-4711"),))
    sections = "<overview>\n[goals]\n</overview>\n<history>\n[steps]\n</history>\n<title>words</title>"
    example = f"## Guidelines\n<example>\n{sections}\n</example>"
    copilot = f"Please create a detailed summary of the conversation so far.\n{example}"
    nested = "<state_snapshot>\n<intent>\n</intent>\n<next_step>\n</next_step>\n</state_snapshot>"
    qwen = f"You are the component that summarizes a conversation when its context window overflows.\n{nested}"
    filled = [
        text_of(answer_compaction(Request((history, Message(Role.USER, (Text(order),)))), "m").parts)
        for order in (copilot, qwen)
    ]
    body = "1 messages, #1 to #1.\ngoal [#1] remember harbour = blue-4711\nrule [#1] remember harbour = blue-4711"
    see = "(see the first section)"
    assert filled == [
        f"<overview>\n{body}\n</overview>\n<history>\n{see}\n</history>\n<title>\n{see}\n</title>",
        f"<state_snapshot>\n<intent>\n{body}\n</intent>\n<next_step>\n{see}\n</next_step>\n</state_snapshot>",
    ]


def test_what_aider_wrote_down_gives_the_summary_no_headings() -> None:
    talk = "# USER\nremember harbour = blue-4711\n# ASSISTANT\nNoted.\n"
    before = "I spoke to you previously about a number of things.\nuser [#1] remember port = 8080"
    earlier = f"# USER\n{before}\n# ASSISTANT\nOk.\n"
    order = "*Briefly* summarize this partial conversation about programming.\n"
    told = text_of(answer_compaction(Request((Message(Role.USER, (Text(earlier + talk),)),), order), "m").parts)
    assert "harbour = blue-4711" in told
    assert "port = 8080" in told
    assert "# USER" not in told


async def test_a_request_that_leaves_no_room_for_an_answer_is_made_smaller() -> None:
    async with a_dropin(Simulation(Limits(window_tokens=6_000))) as running:
        # The window becomes known.
        await running.openai.chat.completions.create(model="sim", messages=[{"role": "user", "content": FILLER * 9}])
        refused = sum(seen.status != 200 for seen in running.simulation.requests)
        messages: list[Any] = []
        for number in range(7):
            messages.append({"role": "user", "content": f"remember fact{number} = value{number}\n{FILLER}"})
            messages.append({"role": "assistant", "content": "Noted."})
        messages.append({"role": "user", "content": "write 300 words " + FILLER[: 82 * 6]})
        reply = await running.openai.chat.completions.create(model="sim", messages=messages)
        straight = await running.openai.with_options(base_url=f"{running.upstream_url}/v1").chat.completions.create(
            model="sim", messages=messages
        )
    assert refused == 1
    assert straight.choices[0].finish_reason == "length"
    assert reply.choices[0].finish_reason == "stop"


STREAMS = ["/v1beta/models/sim:streamGenerateContent?alt=sse", "/v1beta/models/sim:streamGenerateContent"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses", *STREAMS])
@pytest.mark.parametrize("word", ["stall", "mute"])
async def test_a_stream_that_opens_and_says_nothing_is_tried_again_unseen(path: str, word: str) -> None:
    if path in STREAMS and word == "mute":
        pytest.skip("the first event of Gemini has content")
    field = "input" if path.endswith("responses") else "messages"
    body: dict[str, Any] = {
        "model": "sim",
        "stream": True,
        "max_tokens": 99,
        field: [{"role": "user", "content": "hello"}],
    }
    if path in STREAMS:
        body = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}
    deadlines = Deadlines(connect_seconds=1.0, first_token_seconds=2.0)
    async with a_dropin(Simulation(faults=word), deadlines=deadlines) as running:
        async with running.http.post(running.url + path, json=body) as response:
            text = (await response.read()).decode()
        async with running.http.post(running.upstream_url + path, json=body) as response:
            straight = (await response.read()).decode()
    assert response.status == 200
    assert text.replace("sim-2", "sim-3") == straight
    assert running.simulation.request_count == 3


async def test_an_answer_that_the_client_begins_itself_is_rescued_and_goes_on() -> None:
    messages: list[Any] = []
    begun: Any = {"role": "assistant", "content": "Here it is: "}
    async with a_dropin(Simulation(SMALL)) as running:
        for number in range(10):
            messages.append({"role": "user", "content": f"remember fact{number} = value{number}\n{FILLER}"})
            reply = await running.openai.chat.completions.create(model="sim", messages=[*messages, begun])
            text = f"{begun['content']}{reply.choices[0].message.content}"
            messages.append({"role": "assistant", "content": text})
        messages.append({"role": "user", "content": "what is fact0?"})
        reply = await running.openai.chat.completions.create(model="sim", messages=[*messages, begun])
        sessions = await running.sessions()
        sent = json.loads(running.sent[-1])["messages"]
    assert "value0" in (reply.choices[0].message.content or "")
    assert sent[-1] == begun
    assert len(sent) < len(messages)
    assert len(sessions) == 1


async def test_signs_of_life_reach_the_client_before_the_first_word() -> None:
    body = {"model": "sim", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
    async with (
        a_dropin(Simulation(faults="keepalive")) as running,
        running.http.post(f"{running.url}/v1/chat/completions", json=body) as response,
    ):
        first = await response.content.readline()
    assert first == b": keep-alive\n"
