"""An agent's own compaction is answered, whatever its provider says, and one that runs in circles is let out."""

import json
import re
from typing import Any

import pytest

from holdfast.core.proxy.client_compaction import is_compaction
from holdfast.core.proxy.client_profiles import COMPACTION_ORDER
from holdfast.models.fake import Simulation
from holdfast.types.limits import Limits
from holdfast.types.messages import Message, Request, Role, Text
from holdfast.types.records import CompactionApplied
from tests.proxy.proxies import a_dropin

FILLER = "the crew writes down what it saw on this day and what it means to do on the next. " * 40
FACT = "The deploy key is in /etc/harbour/deploy.key and the port must be 8443."
CODEX = "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary."

# The beginning of the system text of Gemini CLI 0.61.0.
GEMINI_CLI = (
    "You are a specialized system component responsible for distilling chat history into a structured XML "
    "<state_snapshot>.\n\nThe structure MUST be as follows:\n\n<state_snapshot>\n    <overall_goal>\n"
    "        <!-- A single, concise sentence. -->\n    </overall_goal>\n\n    <key_knowledge>\n"
    "        <!-- Crucial facts. -->\n    </key_knowledge>\n</state_snapshot>\n"
)


def _request(text: str, system: str = "") -> Request:
    return Request((Message(Role.USER, (Text(text),)),), system)


@pytest.mark.parametrize(
    ("text", "system"),
    [
        (
            f"Here is the conversation so far: <conversation>{FACT}</conversation>",
            "You are a context summarization agent.",
        ),
        (f"<conversation>{FILLER * 9}</conversation>\nwrite it", "You are a context summarization assistant."),
        (CODEX, ""),
        (
            f"{FILLER * 9} CRITICAL: Respond with TEXT ONLY. Your task is to create a detailed summary of it.",
            "You code.",
        ),
        ("Please create a detailed summary of the conversation so far.", ""),
        (f"Briefly summarize this partial conversation about programming.\n{FILLER * 9}", ""),
        (f"# USER\n{FILLER * 9}", "*Briefly* summarize this partial conversation about programming."),
        ("You are the component that summarizes a conversation when its context window is full.", "You code."),
        ("go on", "You are the component that summarizes a conversation when its context window is full."),
        ("Please provide a concise summary of our conversation so far, with what is left to do.", "You code."),
        (f"You are a summarization agent creating a context checkpoint.\n{FILLER * 9}", ""),
        (f"<role>\nContext Extraction Assistant\n</role>\n{FILLER}", ""),
        ("Please summarize this conversation.", "You are a conversation summarizer."),
        ("First, reason in your scratchpad.", f"\n{GEMINI_CLI}"),
    ],
)
def test_the_calls_of_known_agents_are_recognised(text: str, system: str) -> None:
    assert is_compaction(_request(text, system))


def test_each_order_begins_with_a_literal_character_so_that_a_search_skips_to_it() -> None:
    """One that does not makes the search of a long message ten times as long, for every request."""
    for order in COMPACTION_ORDER.pattern.split("|"):
        assert re.match(r"(?:\w|\\\*)(?![?*{])", order), order


def test_ordinary_messages_are_no_compaction() -> None:
    assert not is_compaction(_request("please summarize this file for me", "You are a coding agent."))
    assert not is_compaction(Request(()))


async def test_a_serialised_compaction_that_is_too_long_is_answered_in_the_tags_it_asked_for() -> None:
    content = f"<conversation>{FILLER}\n{FACT}\n{FILLER * 8}</conversation>\nWrap it in <summary></summary> tags."
    messages: Any = [
        {"role": "system", "content": "You are a context summarization assistant."},
        {"role": "user", "content": content},
    ]
    async with a_dropin(Simulation(Limits(window_tokens=4_000))) as running:
        raw = await running.openai.chat.completions.with_raw_response.create(model="sim", messages=messages)
        stream = await running.openai.chat.completions.create(model="sim", messages=messages, stream=True)
        streamed = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
    text = raw.parse().choices[0].message.content or ""
    assert raw.headers["x-holdfast-rescued"] == "compaction_answered"
    assert text.startswith("<summary>")
    assert text.endswith("</summary>")
    assert "/etc/harbour/deploy.key" in text
    assert streamed == text


async def test_a_compaction_over_the_whole_history_is_answered_although_the_provider_refuses_every_one() -> None:
    headings = "Use these headings:\n## Goal\n## Progress"
    messages: Any = [{"role": "user", "content": f"{FACT} {FILLER}"}, {"role": "assistant", "content": FILLER}]
    request: Any = [*messages, {"role": "user", "content": f"{CODEX} {headings}"}]
    async with a_dropin(Simulation(faults="bad-request")) as running:
        refused = await running.openai.responses.create(model="sim", input=request)
        running.simulation.set_faults("overflow*60")
        message = await running.anthropic.messages.create(model="sim", max_tokens=99, messages=request)
    block: Any = message.content[0]
    for text in (refused.output_text, block.text):
        assert text.startswith("## Goal\n")
        assert "## Progress" in text
        assert "/etc/harbour/deploy.key" in text


async def test_after_two_compactions_without_gain_the_gateway_makes_the_request_smaller_itself() -> None:
    history: list[Any] = []
    for number in range(6):
        history.append({"role": "user", "content": f"remember fact{number} = value{number} {FILLER}"})
        history.append({"role": "assistant", "content": "Noted."})
    history.append({"role": "user", "content": "what is fact0?"})
    compaction: Any = [{"role": "user", "content": f"{CODEX} {FACT}"}]
    async with a_dropin() as running:
        rescued, text = [], ""
        for _ in range(3):
            raw = await running.openai.chat.completions.with_raw_response.create(model="sim", messages=history)
            rescued.append("x-holdfast-rescued" in raw.headers)
            text = raw.parse().choices[0].message.content or ""
            await running.openai.chat.completions.create(model="sim", messages=compaction)
        records = [record for key in await running.sessions() for record in await running.records(key)]
        sizes = [len(body) for body in running.sent if b"what is fact0?" in body]
    assert rescued == [False, False, True]
    assert sizes[-1] < sizes[0] / 2
    assert "value0" in text
    assert any(isinstance(record, CompactionApplied) for record in records)
    assert not any(b"recall(" in body for body in running.sent)


@pytest.mark.parametrize("method", ["generateContent", "streamGenerateContent", "streamGenerateContent?alt=sse"])
async def test_a_compaction_of_gemini_cli_is_answered_in_its_sections_in_every_form_of_the_dialect(method: str) -> None:
    body = {
        "systemInstruction": {"parts": [{"text": GEMINI_CLI}]},
        "contents": [
            {"role": "user", "parts": [{"text": f"{FACT} {FILLER * 9}"}]},
            {"role": "model", "parts": [{"text": "Noted."}]},
            {"role": "user", "parts": [{"text": "First, reason in your scratchpad. Then, generate the snapshot."}]},
        ],
    }
    async with a_dropin(Simulation(Limits(window_tokens=4_000), faults="bad-request*9")) as running:
        url = f"{running.url}/v1beta/models/sim:{method}"
        async with running.http.post(url, json=body, headers={"x-goog-api-key": "k"}) as response:
            raw = (await response.read()).decode()
    events = [json.loads(line[5:]) for line in raw.splitlines() if line.startswith("data:")] or json.loads(raw)
    events = events if isinstance(events, list) else [events]
    text = "".join(part["text"] for one in events for part in one["candidates"][0]["content"]["parts"])
    assert (response.status, response.headers["x-holdfast-rescued"]) == (200, "compaction_answered")
    assert text.startswith("<state_snapshot>\n<overall_goal>\n")
    assert text.endswith("</state_snapshot>")
    assert "/etc/harbour/deploy.key" in text
