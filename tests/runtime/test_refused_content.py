"""Content that a provider refuses: the turn with it ends, and every later message is answered."""

import asyncio
import contextlib
import hashlib

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from holdfast.core.limits.bounds import Bounds
from holdfast.core.view import unpaired
from holdfast.core.view.exclusion import NO_ANSWER
from holdfast.errors import BadInputError, TurnFailedError
from holdfast.ports import Attachment
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.sessions.session import Session
from holdfast.runtime.tools.function_tool import tool
from holdfast.stores.memory import MemoryBlobs, MemoryStore
from holdfast.testing.builders import ManualClock
from holdfast.testing.crashes import CrashingStore, every_point
from holdfast.testing.engines import FunctionModel, ScriptedModel, a_hold, an_engine, refuses, says
from holdfast.types.faults import Confidence, FaultKind, Refusal
from holdfast.types.limits import Limits
from holdfast.types.messages import Message, Reply, Role, text_of
from holdfast.types.records import (
    AttemptFailed,
    CompactionApplied,
    CompactionOutcome,
    InputAdmitted,
    Logged,
    ReplyRecorded,
    ToolSettled,
)
from tests.e2e.images import a_png
from tests.runtime.refusers import BAD_REQUEST, FILTERED, OPAQUE, REFUSALS, TEMPLATE, content_of, refuser
from tests.runtime.talks import KEY, ended_well

BOUNDS = Bounds(compacts_ahead=False, back_off_seconds_min=0.0001, back_off_seconds_max=0.001)
POISON = "zqxj"
IMAGE = a_png(width=3, height=3)
IMAGE_ID = hashlib.sha256(IMAGE).hexdigest()
# Calls of one model for one message: the request, three backoffs or a retry, nine steps that leave something out, and
# four that give up the past. A step with a tool is a request of its own.
CALLS_MAX = 18


class Said(msgspec.Struct, frozen=True):
    """A message of a conversation, and the content by which a provider refuses it; "": none."""

    text: str
    trigger: str = ""
    has_image: bool = False


def an_engine_with(
    model: FunctionModel, store: MemoryStore | CrashingStore, blobs: MemoryBlobs, poison: str = POISON
) -> Engine:
    """Return an engine whose tools read something harmless, and something that a provider refuses."""

    @tool(name="look")
    def look() -> str:
        """Look at the weather."""
        return "a calm sea"

    @tool(name="read")
    def read() -> str:
        """Read a file."""
        return f"line one\n{poison} line two"

    return an_engine(model, store=store, blobs=blobs, bounds=BOUNDS, tools=[look, read])


async def send(session: Session, said: Said) -> str:
    """Send a message and return its answer, or the sentence of its failure in brackets."""
    attachments = [Attachment(IMAGE, "photo.png")] if said.has_image else []
    try:
        return (await session.send(said.text, attachments=attachments)).text
    except TurnFailedError as failed:
        return f"({failed.sentence})"


POISONED = (
    Said(f"tell me about {POISON} please", POISON),
    Said(f"{POISON}", POISON),
    Said("call read", POISON),
    Said("call look read", POISON),
    Said("what is in the picture?", IMAGE_ID, has_image=True),
    Said(f"{POISON} and a picture", POISON, has_image=True),
)
HARMLESS = (Said("hello"), Said("call look"), Said("and then?"), Said("a picture", has_image=True))


@settings(phases=[Phase.explicit, Phase.generate], max_examples=60, deadline=None, derandomize=True)
@given(
    before=st.lists(st.sampled_from(HARMLESS), max_size=3),
    bad=st.sampled_from(POISONED),
    again=st.integers(0, 2),
    after=st.lists(st.sampled_from([one for one in HARMLESS if not one.has_image]), min_size=1, max_size=4),
    refusal=st.sampled_from(sorted(REFUSALS)),
    restarts=st.lists(st.booleans(), min_size=10, max_size=10),
)
def test_a_turn_with_refused_content_ends_and_every_later_message_is_answered(
    before: list[Said], bad: Said, again: int, after: list[Said], refusal: str, restarts: list[bool]
) -> None:
    """A message may be sent again after it failed, and the process may restart between any two messages."""
    if bad.trigger == IMAGE_ID:
        before = [one for one in before if not one.has_image]
    model = refuser(REFUSALS[refusal], lambda content: bad.trigger in content)

    async def talk() -> None:
        store, blobs = MemoryStore(clock=ManualClock()), MemoryBlobs()
        conversation = [*before, *[bad] * (1 + again), *after]
        outcomes: list[str] = []
        calls: list[int] = []
        records: list[Logged] = []
        while len(outcomes) < len(conversation):
            async with a_hold(an_engine_with(model, store, blobs)) as hold:
                session = await hold.session(KEY)
                while len(outcomes) < len(conversation):
                    seen = len(model.requests)
                    outcomes.append(await send(session, conversation[len(outcomes)]))
                    calls.append(len(model.requests) - seen)
                    if restarts[len(outcomes) % len(restarts)]:
                        break
                records = await ended_well(session)
        assert all(outcome.startswith("done") or outcome.endswith((".)", '")')) for outcome in outcomes), outcomes
        harmless = outcomes[: len(before)] + outcomes[-len(after) :]
        assert all(outcome.startswith("done") for outcome in harmless), (outcomes, records)
        assert max(calls) <= CALLS_MAX, calls
        assert not any(bad.trigger in content_of(request) for request in model.requests[-1:])

    asyncio.run(talk())


@pytest.mark.parametrize(
    ("refusal", "bad"),
    [
        ("content filter", POISONED[0]),
        ("opaque", POISONED[0]),
        ("template", POISONED[0]),
        ("invalid prompt", POISONED[3]),
        ("bad request", POISONED[4]),
    ],
    ids=lambda given: given if isinstance(given, str) else given.text,
)
async def test_refused_content_is_survived_across_a_crash_at_every_write(refusal: str, bad: Said) -> None:
    """Crash before and after every write, restart, and compare with what an undisturbed session ends in."""
    conversation = [Said("hello"), bad, Said("and then?")]

    async def run(store: CrashingStore, blobs: MemoryBlobs, model: FunctionModel) -> None:
        async with a_hold(an_engine_with(model, store, blobs)) as hold:
            session = await hold.session(KEY)
            done = [one for one in await session.history(limit=10_000) if isinstance(one.record, InputAdmitted)]
            for one in done:
                with contextlib.suppress(TurnFailedError):
                    await session.wait(one.seq)
            for said in conversation[len(done) :]:
                await send(session, said)

    async def last_view(store: MemoryStore, blobs: MemoryBlobs, model: FunctionModel) -> tuple[Message, ...]:
        async with a_hold(an_engine_with(model, store, blobs)) as hold:
            session = await hold.session(KEY)
            await ended_well(session)
            return (await session.view()).messages

    def a_model() -> FunctionModel:
        return refuser(REFUSALS[refusal], lambda content: bad.trigger in content)

    blobs = MemoryBlobs()
    undisturbed = MemoryStore(clock=ManualClock())
    counting = CrashingStore(undisturbed)
    await run(counting, blobs, a_model())
    expected = [text_of(one.parts) for one in await last_view(undisturbed, blobs, a_model())]
    for point in every_point(counting.writes):
        store = MemoryStore(clock=ManualClock())
        crashing = CrashingStore(store, point)
        worker = asyncio.ensure_future(run(crashing, blobs, a_model()))
        died = asyncio.ensure_future(crashing.died.wait())
        await asyncio.wait([worker, died], return_when=asyncio.FIRST_COMPLETED)
        worker.cancel()
        died.cancel()
        await asyncio.gather(worker, died, return_exceptions=True)
        await run(CrashingStore(store), blobs, a_model())
        found = [text_of(one.parts) for one in await last_view(store, blobs, a_model())]
        assert len(found) == len(expected), f"{point}: {found}"
        assert not any(bad.trigger in text for text in found), str(point)


@pytest.mark.parametrize("refusal", sorted(REFUSALS))
@pytest.mark.parametrize("count", [2, 3, 6])
async def test_one_refused_result_among_parallel_ones_is_left_out_alone(refusal: str, count: int) -> None:
    """The model reads all other results, wherever the refused one stands."""
    for bad in range(count):
        names = ["look"] * bad + ["read"] + ["look"] * (count - bad - 1)
        model = refuser(REFUSALS[refusal], lambda content: POISON in content)
        store, blobs = MemoryStore(clock=ManualClock()), MemoryBlobs()
        async with a_hold(an_engine_with(model, store, blobs)) as hold:
            session = await hold.session(KEY)
            assert (await session.send(f"call {' '.join(names)}")).text == f"done: {count} results"

            (left_out,) = (await session.state()).excluded
            assert (await session.recall(seq=left_out.excluded)).text == f"line one\n{POISON} line two"
            sent = content_of(model.requests[-1])
            assert (sent.count("a calm sea"), sent.count("is left out here")) == (count - 1, 1)
            assert (await session.send("and then?")).text == "done: and then?"
            await ended_well(session)


async def test_of_many_parallel_results_a_group_is_left_out() -> None:
    names = ["look"] * 10 + ["read"] + ["look"] * 4
    model = refuser(FILTERED, lambda content: POISON in content)
    async with a_hold(an_engine_with(model, MemoryStore(clock=ManualClock()), MemoryBlobs())) as hold:
        session = await hold.session(KEY)
        assert (await session.send(f"call {' '.join(names)}")).text == "done: 15 results"
        assert len((await session.state()).excluded) == 3


async def test_several_refused_results_are_left_out_together() -> None:
    model = refuser(FILTERED, lambda content: POISON in content)
    async with a_hold(an_engine_with(model, MemoryStore(clock=ManualClock()), MemoryBlobs())) as hold:
        session = await hold.session(KEY)
        assert (await session.send("call read look read")).text == "done: 3 results"
        assert len((await session.state()).excluded) == 3


async def test_a_failed_message_that_is_sent_again_replaces_its_failed_copy() -> None:
    """The model never reads `hellohellohello`."""
    model = ScriptedModel([refuses(401, "invalid api key"), refuses(401, "invalid api key"), "hi", "fine"])
    async with a_hold(an_engine(model, bounds=BOUNDS)) as hold:
        session = await hold.session(KEY)
        for _ in range(2):
            with pytest.raises(TurnFailedError):
                await session.send("hello")
        await session.send("hello")
        await session.send("bye")

    sent = [[text_of(message.parts) for message in request.messages] for request in model.requests]
    assert sent == [["hello"], ["hello"], ["hello"], ["hello", "hi", "bye"]]


async def test_an_unanswered_message_stays_apart_from_the_next_one() -> None:
    model = ScriptedModel([refuses(401, "invalid api key"), "fine"])
    async with a_hold(an_engine(model, bounds=BOUNDS)) as hold:
        session = await hold.session(KEY)
        with pytest.raises(TurnFailedError):
            await session.send("the harbour is Kiel")
        await session.send("which harbour?")

    roles = [(message.role, text_of(message.parts)) for message in model.requests[-1].messages]
    assert roles == [
        (Role.USER, "the harbour is Kiel"),
        (Role.ASSISTANT, NO_ANSWER),
        (Role.USER, "which harbour?"),
    ]


async def test_a_refusal_that_nothing_cures_leaves_the_view_as_it_was() -> None:
    """A setting is wrong: leaving out content does not help, so everything is taken back."""
    answers: list[Reply | Refusal] = [says("hi"), says("fine")]
    model = FunctionModel(lambda _: answers.pop(0) if answers else BAD_REQUEST)
    async with a_hold(an_engine(model, bounds=BOUNDS)) as hold:
        session = await hold.session(KEY)
        await session.send("hello")
        await session.send("the harbour is Kiel")
        for text in ("first", "second", "third"):
            with pytest.raises(TurnFailedError):
                await session.send(text)

        view = await session.view()
        assert [text_of(message.parts) for message in view.messages if message.role is Role.USER] == [
            "hello",
            "the harbour is Kiel",
            "first",
            "second",
            "third",
        ]
        assert view.boundary == 0
        await ended_well(session)


async def test_old_content_that_is_refused_later_is_given_up_with_the_past() -> None:
    """The provider changes its mind about a message that it answered: the second refused message is answered."""
    is_strict = False
    model = refuser(FILTERED, lambda content: is_strict and POISON in content)
    async with a_hold(an_engine(model, bounds=BOUNDS)) as hold:
        session = await hold.session(KEY)
        await session.send(f"remember {POISON}")
        await session.send("and then?")
        is_strict = True

        outcomes = [await send(session, Said(text)) for text in ("one", "two", "three")]

        assert outcomes[1:] == ["done: two", "done: three"]
        assert (await session.view()).generation > 1
        assert POISON in (await session.recall(seq=1)).text


async def test_a_guess_at_an_overflow_that_was_wrong_leaves_the_view_as_it_was() -> None:
    """An opaque refusal of a message that is much longer looks like an overflow; making it smaller is undone."""
    model = refuser(OPAQUE, lambda content: POISON in content)
    async with a_hold(an_engine(model, bounds=BOUNDS)) as hold:
        session = await hold.session(KEY)
        for number in range(4):
            await session.send(f"part {number}: " + "The crew is aboard. " * 20)
        before = await session.view()
        seen = len(model.requests)

        outcome = await send(session, Said(f"about {POISON}: " + f"{POISON} word " * 3_000))

        records = [one.record for one in await session.history(limit=10_000)]
        faults = [record.fault for record in records if isinstance(record, AttemptFailed)]
        assert (faults[0].kind, faults[0].confidence) == (FaultKind.TOKEN_OVERFLOW, Confidence.GUESS)
        assert outcome.startswith("(")
        assert any(isinstance(record, CompactionApplied) for record in records), "it was tried"
        after = await session.view()
        assert (after.boundary, after.generation) == (before.boundary, 1)
        assert after.messages[: len(before.messages)] == before.messages
        assert len(model.requests) - seen <= CALLS_MAX
        for text in ("one", "two"):
            assert (await session.send(text)).text == f"done: {text}"
        assert (await session.view()).generation == 1, "the past was not given up for it"
        await ended_well(session)


async def test_another_model_takes_what_the_first_refuses() -> None:
    first = refuser(FILTERED, lambda content: POISON in content, name="strict")
    second = refuser(FILTERED, lambda _: False, name="lenient")
    async with a_hold(an_engine(first, second, bounds=BOUNDS)) as hold:
        session = await hold.session(KEY)
        await session.send("hello")

        answer = await session.send(f"about {POISON}")

        assert answer.text == f"done: about {POISON}"
        assert (await session.state()).excluded == ()


async def test_the_error_names_every_model_with_its_fault() -> None:
    first = FunctionModel(lambda _: refuses(401, "invalid api key"), name="north")
    second = FunctionModel(lambda _: refuses(404, "The model `south` does not exist"), name="south")
    async with a_hold(an_engine(first, second, bounds=BOUNDS)) as hold:
        with pytest.raises(TurnFailedError) as failed:
            await (await hold.session(KEY)).send("hello")

    assert failed.value.sentence.endswith("No model answered: north (auth); south (model not found).")


async def test_an_outage_leaves_nothing_out() -> None:
    """The same error came again and again, and the provider is back for the next message."""
    is_down = False
    model = FunctionModel(lambda _: TEMPLATE if is_down else says("fine"))
    async with a_hold(an_engine(model, bounds=BOUNDS)) as hold:
        session = await hold.session(KEY)
        await session.send("hello")
        is_down = True
        with pytest.raises(TurnFailedError):
            await session.send("the harbour is Kiel")
        is_down = False
        await session.send("which harbour?")

        assert (await session.state()).excluded == ()
        assert [text_of(message.parts) for message in model.requests[-1].messages][2:] == [
            "the harbour is Kiel",
            NO_ANSWER,
            "which harbour?",
        ]


# --- Exclusion by a person ---


async def test_a_person_leaves_messages_out_and_takes_them_back() -> None:
    model = refuser(FILTERED, lambda _: False)
    store, blobs = MemoryStore(clock=ManualClock()), MemoryBlobs()
    async with a_hold(an_engine_with(model, store, blobs)) as hold:
        session = await hold.session(KEY)
        await session.send("the code of the harbour gate is 4711")
        await session.send("call look read")
        before = (await session.view()).messages
        records = await session.history(limit=1_000)
        settled = [one.seq for one in records if isinstance(one.record, ToolSettled)]
        replied = [one.seq for one in records if isinstance(one.record, ReplyRecorded)]
        chosen = [1, replied[1], settled[1]]

        for seq in chosen:
            await session.exclude(seq)
        await session.send("and then?")
        sent = content_of(model.requests[-1])
        for seq in chosen:
            await session.exclude(seq, undo=True)

        assert ("4711" in sent, POISON in sent, "a calm sea" in sent) == (False, False, True)
        assert sent.count("is left out here, because the user wants that") == 3
        assert unpaired(model.requests[-1].messages) == []
        assert (await session.recall(seq=1)).text == "the code of the harbour gate is 4711"
        assert (await session.view()).messages[: len(before)] == before
        with pytest.raises(BadInputError, match="record 2 is not a message"):
            await session.exclude(2)


async def test_a_message_that_is_taken_back_and_refused_again_is_left_out_again() -> None:
    model = refuser(FILTERED, lambda content: POISON in content)
    async with a_hold(an_engine(model, bounds=BOUNDS)) as hold:
        session = await hold.session(KEY)
        await session.send("hello")
        await send(session, Said(f"about {POISON}"))
        await session.send("and then?")
        (left_out,) = (await session.state()).excluded
        await session.exclude(left_out.excluded, undo=True)

        assert (await session.send("bye")).text == "done: bye"


async def test_an_excluded_message_is_in_no_digest() -> None:
    model = refuser(FILTERED, lambda _: False)
    model.limits = Limits(window_tokens=30_000)
    async with a_hold(an_engine(model, bounds=BOUNDS)) as hold:
        session = await hold.session(KEY)
        await session.send(f"The password of the harbour is {POISON}-4711. " + "The crew is aboard. " * 200)
        for number in range(4):
            await session.send(f"message {number}: " + f"The file src/part{number}.py has a bug. " * 200)
        await session.exclude(1)
        seen = len(model.requests)

        settled = await session.compact()

        assert settled.outcome is CompactionOutcome.APPLIED
        view = await session.view()
        assert view.boundary > 1
        assert POISON not in "".join(text_of(message.parts) for message in view.messages)
        assert not any(POISON in content_of(request) for request in model.requests[seen:])
