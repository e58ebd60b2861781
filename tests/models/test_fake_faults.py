"""Fault script of the simulated provider, and its request history."""

import asyncio
from contextlib import aclosing

import pytest

from holdfast.core.faults.classifier import classify
from holdfast.errors import UsageError
from holdfast.models.catalogue import simulated_model
from holdfast.models.fake import FaultStep, Simulation, count_request, count_text, parse_faults
from holdfast.models.fake.faults import FAULTS
from holdfast.models.fake.simulation import BODY_BYTES_KEPT, REQUESTS_KEPT
from holdfast.ports import TextDelta
from holdfast.types.faults import FaultKind, Phase, Refusal
from holdfast.types.limits import Limits
from holdfast.types.messages import Media, Message, Reply, Role, StopReason, Text
from tests.core.images import a_png
from tests.models.conversations import (
    ECHO,
    a_blob,
    an_image,
    asking,
    large,
    outcome,
    refusal_of,
    reply_of,
    said,
    text_of_reply,
)
from tests.models.fakes import ANTHROPIC, OPENAI, UNBOUNDED, both, every, message_of

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
