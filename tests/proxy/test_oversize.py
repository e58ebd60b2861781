"""A paste larger than the window, from a client that knows nothing of Holdfast."""

from typing import Any

import pytest

from holdfast.models.fake import Simulation
from holdfast.types.limits import Limits
from tests.proxy.proxies import DropInRunning, a_dropin

WINDOW = 64_000
QUESTION = "what is fact0?"


def a_paste(tokens: int) -> str:
    """Return a report of about so many tokens, with a fact at its beginning."""
    line = "The crew of berth {} wrote down what it saw on this day and what it means to do on the next."
    return "\n".join(["remember fact0 = value0", *(line.format(number) for number in range(tokens // 23))])


async def _ask(running: DropInRunning, dialect: str, text: str) -> str:
    messages: Any = [{"role": "user", "content": text}]
    match dialect:
        case "chat":
            chat = await running.openai.chat.completions.create(model="sim", messages=messages, max_tokens=200)
            return chat.choices[0].message.content or ""
        case "responses":
            response = await running.openai.responses.create(model="sim", input=messages, max_output_tokens=200)
            return response.output_text
        case _:
            message = await running.anthropic.messages.create(model="sim", messages=messages, max_tokens=200)
            return "".join(part.text for part in message.content if part.type == "text")


@pytest.mark.parametrize(("dialect", "share"), [("chat", 1.3), ("responses", 1.3), ("anthropic", 1.3), ("chat", 4.0)])
async def test_a_paste_larger_than_the_window_is_answered_with_most_of_the_window_used(
    dialect: str, share: float
) -> None:
    async with a_dropin(Simulation(Limits(window_tokens=WINDOW, output_tokens_max=4_000))) as running:
        answer = await _ask(running, dialect, f"{a_paste(int(WINDOW * share))}\nERROR: disk 7 failed\n{QUESTION}")
        accepted = [seen for seen in running.simulation.requests if seen.status == 200][-1]
    assert "value0" in answer
    assert accepted.tokens >= 0.6 * WINDOW
    assert f"ERROR: disk 7 failed\\n{QUESTION}".encode() in accepted.body
    # The model of a client is told in the text what is left out.
    assert b"bytes left out here" in accepted.body
