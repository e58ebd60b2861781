"""What the simulated model promises: answers from what it sees alone, limits, rules and faults like the real ones."""

import asyncio
import json
from contextlib import aclosing

import pytest
from msgspec.structs import replace

from holdfast.core.faults import FaultKind, Phase, Refusal, classify
from holdfast.core.limits import Limits
from holdfast.core.messages import (
    Effort,
    Media,
    Message,
    Reasoning,
    Reply,
    Request,
    Role,
    StopReason,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
)
from holdfast.errors import UsageError
from holdfast.models.catalogue import simulated_model
from holdfast.models.simulated import FaultStep, Simulation, count_request, count_text, parse_faults
from holdfast.models.simulated.faults import FAULTS
from holdfast.models.simulated.simulation import BODY_BYTES_KEPT, REQUESTS_KEPT
from holdfast.ports import TextDelta
from tests.core.images import a_png
from tests.models.conversations import (
    ECHO,
    IMAGES,
    a_blob,
    an_image,
    answered,
    asking,
    large,
    outcome,
    refusal_of,
    reply_of,
    returned,
    said,
    text_of_reply,
)

OPENAI, ANTHROPIC, RESPONSES, GEMINI = "openai-chat", "anthropic", "openai-responses", "gemini"
both = pytest.mark.parametrize("dialect", [OPENAI, ANTHROPIC])
every = pytest.mark.parametrize("dialect", [OPENAI, ANTHROPIC, RESPONSES, GEMINI])
UNBOUNDED = Limits()


async def told(dialect: str, request: Request, simulation: Simulation | None = None) -> str:
    return text_of_reply(await reply_of(simulated_model(simulation or Simulation(), dialect), request, IMAGES))


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
@pytest.mark.parametrize(("tokens_max", "kind"), [(40, FaultKind.TOKEN_OVERFLOW), (0, FaultKind.BAD_REQUEST)])
async def test_summaries_may_be_refused_although_the_same_text_is_answered(
    dialect: str, tokens_max: int, kind: FaultKind
) -> None:
    simulation = Simulation()
    simulation.summary_tokens_max = tokens_max
    model = simulated_model(simulation, dialect)
    words = "one two three four five six seven eight nine ten " * 5
    refusal = await refusal_of(model, asking(said(words), system="Summarise the conversation."))
    assert classify(refusal).kind is kind
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


def message_of(refusal: Refusal) -> str:
    message = json.loads(refusal.body)["error"]["message"]
    assert isinstance(message, str)
    return message


# --- limits ------------------------------------------------------------------------------------------------------


TOO_LONG = {
    OPENAI: "This model's maximum context length is 50 tokens. However, your messages resulted in 104 tokens. "
    "Please reduce the length of the messages.",
    ANTHROPIC: "prompt is too long: 104 tokens > 50 maximum",
}


@both
async def test_too_many_tokens_are_refused_with_the_numbers(dialect: str) -> None:
    model = simulated_model(Simulation(Limits(window_tokens=50)), dialect)
    request = asking(said("word " * 100))
    assert count_request(request) == 104
    refusal = await refusal_of(model, request)
    assert (refusal.status, refusal.phase, message_of(refusal)) == (400, Phase.RESPONSE, TOO_LONG[dialect])


TOO_LONG_TOGETHER = {
    OPENAI: "This model's maximum context length is 200 tokens. However, you requested 254 tokens (104 in the "
    "messages, 150 in the completion). Please reduce the length of the messages or completion.",
    ANTHROPIC: "input length and `max_tokens` exceed context limit: 104 + 150 > 200, "
    "decrease input length or `max_tokens` and try again",
}


@both
async def test_prompt_and_output_together_are_refused_with_both_numbers(dialect: str) -> None:
    model = simulated_model(Simulation(Limits(window_tokens=200)), dialect)
    refusal = await refusal_of(model, asking(said("word " * 100), output_tokens_max=150))
    assert message_of(refusal) == TOO_LONG_TOGETHER[dialect]


@every
async def test_a_request_that_fills_the_window_to_the_last_token_is_taken(dialect: str) -> None:
    model = simulated_model(Simulation(Limits(window_tokens=120)), dialect)
    reply = await reply_of(model, asking(said("word " * 100), output_tokens_max=16))
    assert reply.usage is not None
    assert reply.usage.input_tokens == 104


@both
async def test_an_output_above_the_models_own_is_refused(dialect: str) -> None:
    model = simulated_model(Simulation(Limits(output_tokens_max=100)), dialect)
    refusal = await refusal_of(model, asking(said("hi"), output_tokens_max=101))
    assert "101" in message_of(refusal)
    assert "100" in message_of(refusal)


@both
async def test_too_many_bytes_are_refused_before_anything_is_read(dialect: str) -> None:
    model = simulated_model(Simulation(Limits(wire_bytes_max=1_000)), dialect)
    refusal = await refusal_of(model, asking(said("x" * 1_000)))
    assert (refusal.status, "request_too_large" in refusal.body) == (413, True)


@both
@pytest.mark.parametrize(
    ("limits", "facts"),
    [
        (Limits(media_count_max=1), {"1"}),
        (Limits(media_bytes_max=20), {"29", "20"}),
        (Limits(media_pixels_max=399), {"399"}),
    ],
)
async def test_images_beyond_the_limits_are_refused(dialect: str, limits: Limits, facts: set[str]) -> None:
    content = a_png(300, 400)
    media = (an_image(content, 300, 400), an_image(a_png(1, 1), 1, 1))
    blobs = {a_blob(content).sha256: content, a_blob(a_png(1, 1)).sha256: a_png(1, 1)}
    refusal = await refusal_of(simulated_model(Simulation(limits), dialect), asking(Message(Role.USER, media)), blobs)
    assert refusal.status == 400
    assert facts <= set(message_of(refusal).replace(",", " ").replace(".", " ").split())


# --- rules -------------------------------------------------------------------------------------------------------


def posted(dialect: str, body: object, simulation: Simulation | None = None) -> tuple[int, str]:
    """Send a body past our own encoder, which would repair it; return the status and where one is the complaint."""
    raw = json.dumps(body).encode()
    answer = (simulation or Simulation()).respond(dialect, raw)

    async def read() -> bytes:
        return b"".join([chunk async for chunk in answer.chunks])

    whole = asyncio.run(read())
    return answer.status, json.loads(whole)["error"]["message"] if answer.status != 200 else ""


USER = {"role": "user", "content": "hi"}
OPENAI_CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ASKED = {"role": "assistant", "content": None, "tool_calls": [OPENAI_CALL]}
TOLD = {"role": "tool", "tool_call_id": "a", "content": "x"}
OPENAI_TIFF = {"type": "image_url", "image_url": {"url": "data:image/tiff;base64,AAAA"}}
LONG_CALL = {**OPENAI_CALL, "id": "a" * 41}


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([], "empty array"),
        ([USER, TOLD], "must be a response to a preceeding message"),
        ([USER, ASKED], "did not have response messages: a"),
        ([USER, ASKED, USER, TOLD], "did not have response messages: a"),
        ([USER, ASKED, TOLD, TOLD], "must be a response to a preceeding message"),
        ([USER, {"role": "assistant", "tool_calls": [LONG_CALL]}], "maximum length 40"),
        ([{"role": "user", "content": [OPENAI_TIFF]}], "unsupported image"),
    ],
)  # fmt: skip
def test_openai_refuses_what_the_real_one_refuses(messages: list[object], complaint: str) -> None:
    status, message = posted(OPENAI, {"model": "m", "messages": messages})
    assert status == 400
    assert complaint in message


def test_openai_takes_calls_with_their_results() -> None:
    assert posted(OPENAI, {"model": "m", "messages": [USER, ASKED, TOLD, USER]}) == (200, "")


ANTHROPIC_CALL = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
CALLED = {"role": "assistant", "content": [ANTHROPIC_CALL]}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]}
TIFF = {"type": "image", "source": {"type": "base64", "media_type": "image/tiff", "data": "AAAA"}}
SEEN = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": [TIFF]}]}
ANSWER = {"role": "assistant", "content": "hello"}
RULE = {"role": "system", "content": "be brief"}


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([], "at least one message"),
        ([ANSWER, USER], "first message must use"),
        ([USER, ANSWER], "must end with a user message"),
        ([{"role": "user", "content": []}], "messages.0: all messages must have non-empty content"),
        ([{"role": "user", "content": [{"type": "text", "text": ""}]}], "text content blocks must be non-empty"),
        ([{"role": "user", "content": " "}], "must contain non-whitespace text"),
        ([USER, CALLED, USER], "messages.1: `tool_use` ids were found without `tool_result` blocks"),
        ([USER, ANSWER, RESULT], "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: a."),
        ([USER, CALLED, RESULT, CALLED, RESULT], "messages.3.content.0: `tool_use` ids must be unique"),
        ([USER, {"role": "assistant", "content": [{**ANTHROPIC_CALL, "id": "a b"}]}, RESULT], "should match pattern"),
        ([{"role": "user", "content": [TIFF]}], "messages.0.content.0.image.source.base64.media_type"),
        ([USER, CALLED, SEEN], "messages.2.content.0.tool_result.content.0.image"),
        ([RULE, USER], "messages.0: use the top-level 'system' parameter"),
        ([USER, ANSWER, RULE, USER], "messages.2: role 'system' must follow a user turn"),
        ([USER, RULE, USER], "messages.1: role 'system' must follow a user turn and be last or precede an assistant"),
        ([USER, RULE, RULE], "messages.1: role 'system' must follow a user turn and be last or precede an assistant"),
    ],
)  # fmt: skip
def test_anthropic_refuses_what_the_real_one_refuses(messages: list[object], complaint: str) -> None:
    status, message = posted(ANTHROPIC, {"model": "m", "max_tokens": 9, "messages": messages})
    assert status == 400
    assert complaint in message


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"max_tokens": 0}, "greater than or equal to 1"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1_000}}, "greater than or equal to 1024"),
        ({"thinking": {"type": "enabled", "budget_tokens": 9_000}}, "`max_tokens` must be greater than"),
        ({"thinking": {"type": "enabled", "budget_tokens": 2_000}}, "must start with a thinking block"),
    ],
)
def test_anthropic_refuses_settings_that_the_real_one_refuses(settings: dict[str, object], complaint: str) -> None:
    body = {"model": "m", "max_tokens": 9_000, "messages": [USER, CALLED, RESULT], **settings}
    status, message = posted(ANTHROPIC, body)
    assert status == 400
    assert complaint in message


def test_anthropic_takes_instructions_behind_a_persons_turn() -> None:
    silent = {"role": "system", "content": []}
    messages = [USER, RULE, CALLED, RESULT, silent]
    assert posted(ANTHROPIC, {"model": "m", "max_tokens": 9, "messages": messages}) == (200, "")


async def test_instructions_between_messages_are_seen() -> None:
    asked = [{"role": "user", "content": "what is door?"}, {"role": "system", "content": "door = open"}]
    body = {"model": "m", "max_tokens": 99, "messages": asked}
    answer = Simulation().respond(ANTHROPIC, json.dumps(body).encode())
    assert b"door = open." in b"".join([chunk async for chunk in answer.chunks])


def test_anthropic_combines_messages_of_one_role() -> None:
    assert posted(ANTHROPIC, {"model": "m", "max_tokens": 9, "messages": [USER, USER, CALLED, RESULT, USER]}) == (
        200,
        "",
    )


@both
def test_a_body_that_is_no_request_is_refused(dialect: str) -> None:
    status, message = posted(dialect, {"model": 5})
    assert (status, message.startswith("the body is not a")) == (400, True)


# --- faults ------------------------------------------------------------------------------------------------------


def test_a_script_is_read_word_by_word() -> None:
    assert parse_faults("429:retry-after=2*2, ok,,stall:after=3") == (
        FaultStep("429", 2.0),
        FaultStep("429", 2.0),
        FaultStep("ok"),
        FaultStep("stall", 3.0),
    )


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("cutt", r"'cutt' is not known; did you mean 'cut'\? Known are: ok, 401, .*keepalive"),
        ("!", r"'!' is not known\. Known are"),
        ("500:after=2", "'500' takes no setting"),
        ("429:after=2", "takes only 'retry-after'"),
        ("ok*99999", "more than 10,000 steps"),
    ],
)
def test_a_word_that_is_not_known_is_refused_with_those_that_are(script: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse_faults(script)


STATUSES = {
    **{status: int(status) for status in ("401", "403", "404", "413", "429", "500", "502", "503", "529")},
    **dict.fromkeys(("overflow", "reasoning-400", "content-filter", "bad-request"), 400),
    "quota": 0,  # each provider has its own
}


@both
@pytest.mark.parametrize("word", list(STATUSES))
async def test_a_scripted_refusal_has_its_status_and_a_body(dialect: str, word: str) -> None:
    simulation = Simulation(faults=f"{word},ok")
    model = simulated_model(simulation, dialect)
    refusal = await refusal_of(model, asking(said("hi")))
    expected = STATUSES[word] or {OPENAI: 429, ANTHROPIC: 400}[dialect]
    assert (refusal.status, refusal.phase, bool(refusal.body)) == (expected, Phase.RESPONSE, True)
    assert isinstance((await outcome(model, asking(said("hi"))))[1], Reply)
    assert (simulation.request_count, simulation.faults_left) == (2, 0)


K = FaultKind
CLASSIFIED = {
    "401": K.AUTH,
    "404": K.MODEL_NOT_FOUND,
    "413": K.WIRE_OVERFLOW,
    "429": K.RATE_LIMIT,
    "500": K.TRANSIENT,
    "502": K.TRANSIENT,
    "529": K.OVERLOADED,
    "quota": K.QUOTA,
    "overflow": K.TOKEN_OVERFLOW,
    "overflow:limit=4000": K.TOKEN_OVERFLOW,
    "reasoning-400": K.BAD_REQUEST_REASONING,
    "content-filter": K.CONTENT_POLICY,
    "bad-request": K.BAD_REQUEST,
}


@both
@pytest.mark.parametrize("word", list(CLASSIFIED))
async def test_a_scripted_refusal_is_classified_as_what_it_stands_for(dialect: str, word: str) -> None:
    refusal = await refusal_of(simulated_model(Simulation(faults=word), dialect), asking(said("hi")))
    assert classify(refusal).kind is CLASSIFIED[word]


@both
@pytest.mark.parametrize(
    ("limits", "kind", "limit"),
    [
        (Limits(window_tokens=120), K.TOKEN_OVERFLOW, 120),
        (Limits(wire_bytes_max=300), K.WIRE_OVERFLOW, None),
        (Limits(media_count_max=1), K.MEDIA_OVERFLOW, 1),
        (Limits(media_bytes_max=20), K.MEDIA_OVERFLOW, 20),
        (Limits(media_pixels_max=300), K.MEDIA_OVERFLOW, 300),
    ],
)
async def test_a_limit_that_is_met_is_classified_with_its_number(
    dialect: str, limits: Limits, kind: FaultKind, limit: int | None
) -> None:
    content = a_png(300, 400)
    request = asking(Message(Role.USER, (Text("look"), *[an_image(content, 300, 400)] * 2)), output_tokens_max=50)
    refusal = await refusal_of(simulated_model(Simulation(limits), dialect), request, {a_blob(content).sha256: content})
    fault = classify(refusal)
    assert (fault.kind, fault.limit) == (kind, limit)


@both
async def test_a_rate_limit_says_when_to_come_back(dialect: str) -> None:
    model = simulated_model(Simulation(faults="429:retry-after=2.5"), dialect)
    assert (await refusal_of(model, asking(said("hi")))).headers["retry-after"] == "2.5"


@both
async def test_a_scripted_overflow_tells_the_limit_that_it_was_given(dialect: str) -> None:
    model = simulated_model(Simulation(faults="overflow:limit=3000"), dialect)
    message = message_of(await refusal_of(model, asking(said("hi"))))
    assert "3000" in message
    assert "3001" in message


@both
@pytest.mark.parametrize("word", ["cut", "cut:after=1", "cut:after=99", "error-event", "error-event:after=0"])
async def test_a_stream_that_breaks_is_a_refusal_with_what_came_before(dialect: str, word: str) -> None:
    deltas, last = await outcome(simulated_model(Simulation(faults=word), dialect), asking(said("hi")))
    assert isinstance(last, Refusal)
    assert (last.phase, last.status) == (Phase.STREAM, 200)
    # The whole answer has three deltas.
    assert len(deltas) == {"cut": 2, "cut:after=1": 1, "cut:after=99": 3, "error-event": 2}.get(word, 0)


@every
async def test_an_empty_answer_is_an_answer_without_parts(dialect: str) -> None:
    reply = await reply_of(simulated_model(Simulation(faults="empty"), dialect), asking(said("hi")))
    assert (reply.parts, reply.stop_reason) == ((), StopReason.END)


@every
async def test_an_answer_may_stop_for_its_length_before_it_begins(dialect: str) -> None:
    reply = await reply_of(simulated_model(Simulation(faults="length"), dialect), asking(said("hi")))
    assert (reply.parts, reply.stop_reason) == ((), StopReason.LENGTH)


@every
async def test_a_refusal_may_come_without_a_word(dialect: str) -> None:
    refusal = await refusal_of(simulated_model(Simulation(faults="bare-400"), dialect), asking(said("hi")))
    assert (refusal.status, refusal.phase, refusal.body) == (400, Phase.RESPONSE, "")


@every
async def test_a_request_may_be_cut_in_silence_and_only_what_was_read_is_counted(dialect: str) -> None:
    simulation = Simulation(faults="truncate:limit=60,truncate:limit=5000,truncate:limit=2")
    model = simulated_model(simulation, dialect)
    noted = Message(Role.ASSISTANT, (Text("Noted."),))
    talk = (said("remember harbour = Tromso"), noted, said("word " * 50), noted, said("what is harbour?"))

    cut, whole, tiny = [await reply_of(model, asking(*talk)) for _ in range(3)]

    assert text_of_reply(cut) == "I do not see harbour in what I was given."
    assert text_of_reply(whole) == "harbour = Tromso."
    sizes = [reply.usage.input_tokens if reply.usage else 0 for reply in (cut, whole, tiny)]
    assert sizes[0] <= 60 < sizes[1] == simulation.requests[1].tokens
    assert sizes[2] == 2


@every
async def test_a_filtered_answer_stops_in_the_middle(dialect: str) -> None:
    reply = await reply_of(simulated_model(Simulation(faults="filtered"), dialect), asking(said("hi")))
    assert reply.stop_reason is StopReason.CONTENT_FILTER
    assert 'You said: "hi"' in text_of_reply(reply)


@every
async def test_a_stalled_stream_gives_what_it_has_and_ends_when_it_is_closed(dialect: str) -> None:
    simulation = Simulation(faults="stall:after=3")
    model = simulated_model(simulation, dialect)
    async with aclosing(model.stream(asking(said("hi")), {})) as stream:
        first = [await anext(stream) for _ in range(3)]
    assert all(isinstance(delta, TextDelta) for delta in first)
    (seen,) = simulation.requests
    await seen.ended.wait()
    assert seen.was_closed_early


@every
@pytest.mark.parametrize("word", ["stall", "mute", "keepalive"])
async def test_silence_lasts_until_whoever_waits_gives_up(dialect: str, word: str) -> None:
    simulation = Simulation(faults=word)
    waiting = asyncio.create_task(outcome(simulated_model(simulation, dialect), asking(said("hi"))))
    await simulation.was_called.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert simulation.requests[0].was_closed_early


async def test_signs_of_life_come_at_the_pace_of_the_clock_that_was_given() -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            await asyncio.Event().wait()

    simulation = Simulation(faults="keepalive", sleep=sleep)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(outcome(simulated_model(simulation), asking(said("hi"))), 0.05)
    assert pauses == [0.05, 0.05, 0.05]


async def test_every_event_of_a_stream_waits_for_its_pause() -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    simulation = Simulation(delta_seconds=0.5, sleep=sleep)
    await reply_of(simulated_model(simulation), asking(said("hi")))
    # The opening, three deltas, the end, usage and [DONE].
    assert pauses == [0.5] * 7


# --- what tests can read -----------------------------------------------------------------------------------------


async def test_requests_are_counted_and_only_the_newest_are_kept() -> None:
    simulation = Simulation()
    model = simulated_model(simulation)
    for number in range(REQUESTS_KEPT + 5):
        await reply_of(model, asking(said(f"hi {number}")))
    assert simulation.request_count == REQUESTS_KEPT + 5
    assert len(simulation.requests) == REQUESTS_KEPT
    assert b"hi 204" in simulation.requests[-1].body


def test_bodies_are_kept_up_to_a_bound() -> None:
    simulation = Simulation(Limits(wire_bytes_max=1))
    for _ in range(5):
        simulation.respond(OPENAI, b"x" * (BODY_BYTES_KEPT // 2))
    assert len(simulation.requests) == 2


@both
async def test_limits_and_faults_can_be_changed_while_it_runs(dialect: str) -> None:
    simulation = Simulation(UNBOUNDED)
    model = simulated_model(simulation, dialect)
    await reply_of(model, asking(said("hi")))
    simulation.limits = Limits(window_tokens=1)
    assert (await refusal_of(model, asking(said("hi")))).status == 400
    simulation.set_faults("529")
    assert (await refusal_of(model, asking(said("hi")))).status == 529


def test_tokens_of_everything_but_text_are_counted_too() -> None:
    pdf = Media(a_blob(b"%PDF-" + b"x" * 2_000), "application/pdf")
    request = asking(
        Message(Role.USER, (pdf, an_image(a_png(1, 1), 1, 1), an_image(a_png(1, 1), 9_000, 9_000), large("word " * 9))),
        tools=(ECHO,),
    )
    # A message, a document of 2,005 bytes, the smallest and the largest image, two words of a head, and a tool.
    tool = 8 + count_text(ECHO.name) + count_text(ECHO.description) + count_text(ECHO.parameters)
    assert count_request(request) == 4 + 100 + 85 + 1_600 + 2 + tool


def test_every_fault_is_explained() -> None:
    assert all(what for _, what in FAULTS.values())


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("word", 1), ("conversation", 2), ("1234", 2), ("a,b", 3), ("你好", 2)]
)
def test_tokens_are_counted_in_pieces_of_words(text: str, tokens: int) -> None:
    assert count_text(text) == tokens
