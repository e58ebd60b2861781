"""Replies of the simulated model: facts, tools, thinking and summaries."""

import pytest
from msgspec.structs import replace

from holdfast.core.faults.classifier import classify
from holdfast.core.faults.replies import outcome_of, reply_fault
from holdfast.models.catalogue import simulated_model
from holdfast.models.fake import Simulation, count_text
from holdfast.types.faults import FaultKind, Refusal, Sent
from holdfast.types.messages import (
    Effort,
    Message,
    Reasoning,
    Role,
    StopReason,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
    ToolSpec,
)
from tests.core.images import a_png
from tests.models.conversations import (
    ECHO,
    an_image,
    answered,
    asking,
    outcome,
    refusal_of,
    reply_of,
    returned,
    said,
    text_of_reply,
)
from tests.models.fakes import ANTHROPIC, OPENAI, both, every, message_of, told

# --- what it answers ---------------------------------------------------------------------------------------------


@every
async def test_the_same_request_is_answered_alike(dialect: str) -> None:
    request = asking(said("hello there"))
    assert await told(dialect, request) == await told(dialect, request)
    assert await told(dialect, request) == 'You said: "hello there". This is message 1 from you that I see.'


@every
async def test_what_is_to_be_remembered_is_acknowledged(dialect: str) -> None:
    assert await told(dialect, asking(said("Please remember colour = deep blue."))) == (
        "I will remember that colour = deep blue."
    )


@every
@pytest.mark.parametrize(
    "earlier",
    [
        (said("remember colour = deep blue"),),
        (said("remember colour = red"), answered(Text("ok")), said("remember colour = deep blue; size = 4")),
        (said("Earlier, in short:\n- colour = deep blue\n- size = 4"),),
        (said('<earlier>\n"remember colour = deep blue" [#3]\n</earlier>'),),
        (said("go"), answered(ToolCall("a", "echo", "{}")), returned(ToolResult("a", (Text("colour = deep blue"),)))),
    ],
)
async def test_a_value_that_is_visible_is_known(dialect: str, earlier: tuple[Message, ...]) -> None:
    request = asking(*earlier, answered(Text("noted")), said("And now, what is colour?"))
    assert await told(dialect, request) == "colour = deep blue."


@every
async def test_a_value_in_the_system_text_is_known(dialect: str) -> None:
    assert await told(dialect, asking(said("what is colour?"), system="colour = deep blue")) == "colour = deep blue."


@every
async def test_a_value_that_is_not_in_the_request_is_not_known(dialect: str) -> None:
    simulation = Simulation()
    await told(dialect, asking(said("remember colour = deep blue")), simulation)
    assert await told(dialect, asking(said("what is colour?")), simulation) == (
        "I do not see colour in what I was given."
    )


@every
async def test_as_many_words_are_written_as_asked_for(dialect: str) -> None:
    assert len((await told(dialect, asking(said("write 1,234 words")))).split()) == 1_234


@every
async def test_an_answer_is_cut_at_the_limit_of_the_output(dialect: str) -> None:
    reply = await reply_of(
        simulated_model(Simulation(), dialect), asking(said("write 500 words"), output_tokens_max=20)
    )
    assert reply.stop_reason is StopReason.LENGTH
    assert reply.usage is not None
    assert (reply.usage.output_tokens, count_text(text_of_reply(reply))) == (20, 20)


@every
async def test_images_are_seen(dialect: str) -> None:
    image = an_image(a_png(30, 40), 30, 40)
    answer = await told(dialect, asking(Message(Role.USER, (Text("look"), image))))
    assert "I see an attachment: image/png, 30x40 pixels" in answer


# --- tools -------------------------------------------------------------------------------------------------------


@every
async def test_several_calls_in_a_message_are_made_at_once(dialect: str) -> None:
    ask = said('call echo {"word": "{a}"} and call echo {"word": "b"}')
    reply = await reply_of(simulated_model(Simulation(), dialect), asking(ask, tools=(ECHO,)))
    calls = [part for part in reply.parts if isinstance(part, ToolCall)]
    assert [(call.name, call.arguments) for call in calls] == [("echo", '{"word": "{a}"}'), ("echo", '{"word": "b"}')]
    assert len({call.call_id for call in calls}) == 2
    assert reply.stop_reason is StopReason.TOOL_CALLS


@every
async def test_results_are_quoted(dialect: str) -> None:
    image = an_image(a_png(10, 20), 10, 20)
    request = asking(
        said("call echo {} call echo {}"),
        answered(ToolCall("a", "echo", "{}"), ToolCall("b", "echo", "{}")),
        returned(ToolResult("a", (Text("one"), image)), ToolResult("b", (Text("two"),), ToolOutcome.FAILED)),
        tools=(ECHO,),
    )
    answer = await told(dialect, request)
    assert answer.startswith("The tool echo returned: one")
    assert answer.endswith("two")


@every
async def test_later_calls_are_made_after_the_results_of_the_earlier(dialect: str) -> None:
    model = simulated_model(Simulation(), dialect)
    messages = [said('call echo {"n":1} then call echo {"n":2} call echo {"n":3}')]
    made = []
    for _ in range(3):
        reply = await reply_of(model, asking(*messages, tools=(ECHO,)))
        calls = [part for part in reply.parts if isinstance(part, ToolCall)]
        made.append([call.arguments for call in calls])
        messages += [answered(*reply.parts), returned(*(ToolResult(call.call_id, (Text("ok"),)) for call in calls))]
    assert made == [['{"n":1}'], ['{"n":2}', '{"n":3}'], []]


@every
async def test_a_name_that_is_no_longer_shown_is_looked_up_once(dialect: str) -> None:
    model, recall = simulated_model(Simulation(), dialect), ToolSpec("recall", "Search.", "{}")
    ask = said("<past>recall(query=...) finds what is not mentioned here</past> what is berth?")
    reply = await reply_of(model, asking(ask, tools=(ECHO, recall)))
    (call,) = (part for part in reply.parts if isinstance(part, ToolCall))
    assert (call.name, call.arguments) == ("recall", '{"query": "berth"}')
    answers = []
    for found in ("[#4] berth = seven", "Nothing matches."):
        result = returned(ToolResult(call.call_id, (Text(found),)))
        answers.append(await told(dialect, asking(ask, answered(call), result, tools=(ECHO, recall))))
    assert answers == ["berth = seven.", "I do not see berth in what I was given."]
    # A model that is not told of anything hidden does not search.
    assert await told(dialect, asking(said("what is berth?"), tools=(recall,))) == answers[1]


@every
async def test_a_tool_that_is_not_offered_is_not_called(dialect: str) -> None:
    reply = await reply_of(simulated_model(Simulation(), dialect), asking(said('call echo {"n":1}')))
    assert [type(part) for part in reply.parts] == [Text]


@both
async def test_what_stands_in_a_frame_is_not_done_again(dialect: str) -> None:
    framed = said('<earlier>[#1] user: call echo {"n":1}\n[#2] user: summarise this</earlier>')
    assert await told(dialect, asking(framed, said("hello"), tools=(ECHO,))) == (
        f'You said: "hello". This is message {1 if dialect == ANTHROPIC else 2} from you that I see.'
    )


async def test_broken_arguments_are_written_as_they_stand() -> None:
    reply = await reply_of(simulated_model(Simulation(), OPENAI), asking(said('call echo {"n":\nbye'), tools=(ECHO,)))
    assert [part.arguments for part in reply.parts if isinstance(part, ToolCall)] == ['{"n":']


# --- summaries ---------------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize(
    ("system", "ask"),
    [("Summarize the conversation.", ""), ("", "Please summarise all of this. "), ("", "Write a short summary. ")],
)
async def test_a_summary_keeps_the_facts(dialect: str, system: str, ask: str) -> None:
    request = asking(said(f"{ask}user: remember colour = blue\nassistant: ok\nuser: size = 4"), system=system)
    summary = await told(dialect, request)
    assert summary.startswith("## Facts\n- colour = blue\n- size = 4\n## What was said\n")


@every
async def test_a_summary_stays_within_what_was_asked_and_keeps_facts_first(dialect: str) -> None:
    lines = "\n".join(f"line {number} of a long conversation about nothing much" for number in range(2_000))
    request = asking(said(f"Summarise in at most 120 tokens.\n{lines}\nkey = value"), output_tokens_max=4_000)
    summary = await told(dialect, request)
    assert count_text(summary) <= 120
    assert "key = value" in summary


async def test_a_summary_sees_what_tools_returned() -> None:
    request = asking(
        said("go"),
        answered(ToolCall("a", "echo", "{}")),
        returned(ToolResult("a", (Text("door = open"),))),
        system="Summarise the conversation.",
    )
    assert await told(OPENAI, request) == "## Facts\n- door = open\n## What was said\n- go\n- door = open"


@every
async def test_the_mention_of_a_summary_is_no_order(dialect: str) -> None:
    request = asking(said("The summary of yesterday was fine."), system="Below is the summary of what was said before.")
    assert (await told(dialect, request)).startswith("You said")


@every
@pytest.mark.parametrize(("tokens_max", "kind"), [(40, FaultKind.TOKEN_OVERFLOW), (0, FaultKind.CONTENT_POLICY)])
async def test_summaries_may_be_refused_although_the_same_text_is_answered(
    dialect: str, tokens_max: int, kind: FaultKind
) -> None:
    simulation = Simulation()
    simulation.summary_tokens_max = tokens_max
    model = simulated_model(simulation, dialect)
    words = "one two three four five six seven eight nine ten " * 5
    _, came = await outcome(model, asking(said(words), system="Summarise the conversation."))
    # One dialect tells of its policy in an answer without words.
    fault = classify(came) if isinstance(came, Refusal) else reply_fault(outcome_of(came), Sent())
    assert fault is not None
    assert fault.kind is kind
    assert text_of_reply(await reply_of(model, asking(said(words)), {})).startswith("You said")


async def test_a_short_summary_is_made_although_long_ones_are_refused() -> None:
    simulation = Simulation()
    simulation.summary_tokens_max = 40
    assert (await told(OPENAI, asking(said("Summarise this: a = b")), simulation)).startswith("## Facts\n- a = b")


@pytest.mark.parametrize(
    "order",
    [
        "Answer with text alone. Please provide your summary based on the conversation so far.",
        "You are the component that summarizes a conversation.",
    ],
)
async def test_an_order_in_a_part_of_its_own_is_found_behind_a_long_text(order: str) -> None:
    message = Message(Role.USER, (Text("colour = blue\n" + "word " * 3_000), Text(order)))
    assert (await told(ANTHROPIC, asking(message))).startswith("## Facts\n- colour = blue")


async def test_a_summary_carries_on_an_earlier_one() -> None:
    frames = "<conversation>\nsize = 4\n</conversation>\n<previous-summary>\n- colour = blue\n</previous-summary>"
    request = asking(said(f"{frames}\nUpdate it: limit = none"), system="Summarize the conversation.")
    assert "- size = 4\n- colour = blue\n## What" in await told(OPENAI, request)


@every
async def test_there_is_a_summary_even_where_there_is_no_room(dialect: str) -> None:
    assert await told(dialect, asking(said("Summarise this: a = b"), output_tokens_max=3)) == "Summary"


# --- thinking ----------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(("ask", "effort"), [("think about it", None), ("hello", Effort.LOW)])
async def test_it_thinks_where_it_is_told_to(dialect: str, ask: str, effort: Effort | None) -> None:
    request = asking(said(ask), effort=effort, output_tokens_max=9_000)
    model = simulated_model(Simulation(), dialect)
    reply = await reply_of(model, request)
    thought = reply.parts[0]
    assert isinstance(thought, Reasoning)
    assert thought.issuer == model.issuer
    assert bool(thought.opaque) is (dialect == ANTHROPIC)


@pytest.mark.parametrize("ask", ["think", "think quietly"])
async def test_thinking_that_comes_back_unaltered_is_taken(ask: str) -> None:
    model = simulated_model(Simulation(), ANTHROPIC)
    first = await reply_of(model, asking(said(ask)))
    reply = await reply_of(model, asking(said(ask), answered(*first.parts), said("and?")))
    assert text_of_reply(reply).startswith("You said")


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        ("think", "messages.1.content.0: Invalid `signature` in `thinking` block"),
        ("think quietly", "messages.1.content.0: Invalid `data` in `redacted_thinking` block"),
    ],
)
async def test_thinking_that_was_changed_is_refused(ask: str, sentence: str) -> None:
    model = simulated_model(Simulation(), ANTHROPIC)
    first = await reply_of(model, asking(said(ask)))
    thought, *rest = first.parts
    assert isinstance(thought, Reasoning)
    changed = (
        replace(thought, text=thought.text + "!") if thought.text else replace(thought, opaque=thought.opaque + "AAAA")
    )
    refusal = await refusal_of(model, asking(said(ask), answered(changed, *rest), said("and?")))
    assert message_of(refusal) == sentence


async def test_thinking_of_another_model_is_refused() -> None:
    simulation = Simulation()
    mine, other = simulated_model(simulation, ANTHROPIC), simulated_model(simulation, ANTHROPIC, name="sim-2")
    first = await reply_of(mine, asking(said("think")))
    forged = [replace(part, issuer=other.issuer) if isinstance(part, Reasoning) else part for part in first.parts]
    refusal = await refusal_of(other, asking(said("think"), answered(*forged), said("and?")))
    assert message_of(refusal) == "messages.1.content.0: Invalid `signature` in `thinking` block"
