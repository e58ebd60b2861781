"""Plans for proxied requests: whether each is forwarded, recovered, answered here or returned as an error."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.fold.session_state import Call, InFlight, Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.proxy.plan import (
    AnswerCompaction,
    ClientLoop,
    Forward,
    Recover,
    RequestFacts,
    ReturnError,
    digest_of,
    fold_loop,
    is_looping,
    plan_end,
    plan_failure,
    plan_request,
    resumption,
    truncation_fault,
)
from holdfast.core.turn.decide import EndTurn, Rest, RunTools, decide
from holdfast.core.turn.failure_messages import BROKEN_OFF
from holdfast.core.turn.ladder import SUMMARY_BACKOFF_SECONDS_MAX, next_summary_rung
from holdfast.types.faults import Confidence, Fault, FaultKind, Rung, Unit
from holdfast.types.messages import BlobRef, LargeText, Media, Message, Role, Text, ToolCall, ToolResult
from holdfast.types.records import ClientCompacted, ClientResumed, Outcome

BOUNDS = Bounds()
TOO_LARGE = Fault(FaultKind.TOKEN_OVERFLOW, Confidence.LIKELY, limit=8_000, requested=9_000, unit=Unit.TOKENS)
LOOP = ClientLoop(2, "aa", 100)
CHAT = RequestFacts(messages=3, newest="aa", wire_bytes=100)


def _plan(facts: RequestFacts = CHAT, **given_: Any) -> object:
    arguments: dict[str, Any] = {
        "state": Turn(),
        "loop": ClientLoop(),
        "is_changed": False,
        "preflight": lambda: None,
        "tokens": lambda: 500,
        **given_,
    }
    return plan_request(facts, arguments.pop("state"), arguments.pop("loop"), **arguments)


def test_a_request_that_fits_is_forwarded() -> None:
    assert _plan() == Forward()


def test_a_conversation_whose_view_has_changed_is_recovered_without_measuring_it() -> None:
    def never() -> Fault | None:
        raise AssertionError("measured")

    assert _plan(is_changed=True, preflight=never) == Recover()


def test_the_ladder_continues_for_a_request_that_is_repeated_and_for_no_other() -> None:
    state = Turn(number=7, fault=truncation_fault(6_000))
    repeated = msgspec.structs.replace(CHAT, is_repeated=True)
    assert _plan(repeated, state=state) == Recover()
    assert _plan(repeated) == Forward()
    assert _plan(state=state) == Forward()


def test_a_request_that_cannot_fit_is_recovered_unsent() -> None:
    assert _plan(preflight=lambda: TOO_LARGE) == Recover(TOO_LARGE)


def test_a_client_that_compacts_in_a_loop_gets_half_of_its_tokens() -> None:
    plan = _plan(loop=LOOP)
    assert isinstance(plan, Recover)
    assert plan.fault is not None
    assert (plan.fault.kind, plan.fault.limit, plan.fault.requested) == (FaultKind.TOKEN_OVERFLOW, 250, 500)
    compaction = msgspec.structs.replace(CHAT, is_compaction=True)
    assert _plan(compaction, loop=LOOP) == Forward()


def test_a_compaction_whose_history_is_one_message_is_answered_here_instead_of_recovered() -> None:
    single = msgspec.structs.replace(CHAT, is_compaction=True, messages=1)
    assert _plan(single) == Forward()
    assert _plan(single, preflight=lambda: TOO_LARGE) == AnswerCompaction()
    assert plan_failure(single, TOO_LARGE, BOUNDS) == AnswerCompaction()


# Faults, by whether the proxy's client without fallbacks, reasoning or effort can be helped.
@pytest.mark.parametrize(
    ("kind", "more", "helps"),
    [
        (FaultKind.TOKEN_OVERFLOW, {}, True),
        (FaultKind.WIRE_OVERFLOW, {}, True),
        (FaultKind.MEDIA_OVERFLOW, {}, True),
        (FaultKind.RATE_LIMIT, {}, True),
        (FaultKind.OVERLOADED, {}, True),
        (FaultKind.TRANSIENT, {}, True),
        (FaultKind.STREAM_STALL, {}, True),
        (FaultKind.EMPTY_RESPONSE, {}, True),
        (FaultKind.TOOL_PAIRING, {}, True),
        (FaultKind.QUOTA, {}, False),
        (FaultKind.QUOTA, {"has_fallback": True}, True),
        (FaultKind.AUTH, {}, False),
        (FaultKind.MODEL_NOT_FOUND, {}, False),
        (FaultKind.CONTENT_POLICY, {}, False),
        (FaultKind.CONTENT_POLICY, {"is_divisible": True}, True),
        (FaultKind.BAD_REQUEST, {}, False),
        (FaultKind.BAD_REQUEST, {"is_divisible": True}, True),
        (FaultKind.BAD_REQUEST_REASONING, {}, False),
        (FaultKind.BAD_REQUEST_REASONING, {"has_reasoning": True}, True),
        (FaultKind.BAD_REQUEST_REASONING, {"has_effort": True}, True),
    ],
)
def test_a_fault_is_recovered_if_a_rung_of_its_row_can_change_the_request(
    kind: FaultKind, more: dict[str, bool], *, helps: bool
) -> None:
    fault = Fault(kind, Confidence.CERTAIN)
    facts = msgspec.structs.replace(CHAT, **more)
    assert plan_failure(facts, fault, BOUNDS) == (Recover(fault) if helps else ReturnError())
    compaction = msgspec.structs.replace(facts, is_compaction=True)
    is_recovered = helps and not facts.is_divisible
    assert plan_failure(compaction, fault, BOUNDS) == (Recover(fault) if is_recovered else AnswerCompaction())


def test_a_stated_output_limit_is_recovered_and_a_wait_beyond_our_bound_is_not() -> None:
    capped = Fault(FaultKind.BAD_REQUEST, Confidence.CERTAIN, limit=4_096, requested=9_000, unit=Unit.TOKENS)
    assert plan_failure(CHAT, capped, BOUNDS) == Recover(capped)
    late = Fault(FaultKind.RATE_LIMIT, Confidence.CERTAIN, retry_after_seconds=BOUNDS.back_off_seconds_max + 1)
    assert plan_failure(CHAT, late, BOUNDS) == ReturnError()


def test_a_compaction_is_answered_here_whatever_ended_the_ladder() -> None:
    assert plan_end(CHAT) == ReturnError()
    assert plan_end(msgspec.structs.replace(CHAT, is_compaction=True)) == AnswerCompaction()


def test_two_compactions_for_one_message_without_a_smaller_request_are_a_loop() -> None:
    loop = fold_loop(ClientLoop(), ClientCompacted())
    assert not is_looping(loop, CHAT)
    first = resumption(loop, CHAT)
    assert first == ClientResumed("aa", 100)
    loop = fold_loop(fold_loop(loop, first), ClientCompacted())
    assert is_looping(loop, CHAT)
    # The same again is no news.
    assert resumption(loop, CHAT) is None


@pytest.mark.parametrize("facts", [RequestFacts(newest="bb", wire_bytes=100), RequestFacts(newest="aa", wire_bytes=99)])
def test_a_new_message_or_a_smaller_request_ends_the_loop(facts: RequestFacts) -> None:
    assert not is_looping(LOOP, facts)
    resumed = resumption(LOOP, facts)
    assert resumed is not None
    assert fold_loop(LOOP, resumed).compactions == 0


def test_a_client_that_never_compacts_writes_no_record() -> None:
    assert resumption(ClientLoop(), CHAT) is None
    assert not is_looping(ClientLoop(), CHAT)


@given(
    st.lists(
        st.one_of(
            st.just(ClientCompacted()),
            st.builds(ClientResumed, st.sampled_from(["aa", "bb"]), st.integers(90, 110)),
        ),
        max_size=20,
    )
)
def test_the_state_of_a_client_depends_on_its_log_alone(records: list[ClientCompacted | ClientResumed]) -> None:
    """A cache that was lost half-way and read again from the log gives the same state."""
    whole = ClientLoop()
    for record in records:
        whole = fold_loop(whole, record)
    assert 0 <= whole.compactions <= len(records)
    resumed = resumption(whole, CHAT)
    again = whole if resumed is None else fold_loop(whole, resumed)
    assert resumption(again, CHAT) is None


def test_a_large_text_and_an_image_are_known_by_their_bytes() -> None:
    large = LargeText(BlobRef("ab" * 32, 9), "head")
    image = Media(BlobRef("cd" * 32, 9), "image/png")
    digests = {digest_of(Message(Role.USER, (part,))) for part in (large, image)}
    results = {digest_of(Message(Role.TOOL, (ToolResult("c1", (part,)),))) for part in (large, image)}
    assert len(digests | results) == 4


def test_a_summariser_that_asks_for_a_long_wait_is_given_up() -> None:
    late = Fault(FaultKind.RATE_LIMIT, Confidence.CERTAIN, retry_after_seconds=SUMMARY_BACKOFF_SECONDS_MAX + 1)
    soon = Fault(FaultKind.RATE_LIMIT, Confidence.CERTAIN, retry_after_seconds=1.0)
    assert next_summary_rung(late, [], BOUNDS) is None
    assert next_summary_rung(soon, [], BOUNDS) is Rung.BACKOFF
    assert next_summary_rung(soon, [Rung.BACKOFF], BOUNDS) is None


def test_a_clients_tool_calls_are_the_clients_to_run() -> None:
    call = Call(ToolCall("c1", "depth", "{}"))
    turn = Turn(number=1, in_flight=InFlight.READY, calls_asked=(call,), steps=BOUNDS.steps_max)
    assert decide(turn, BOUNDS, is_proxied=True) == Rest()
    assert decide(turn, BOUNDS) == RunTools((call.call,))


def test_a_relayed_part_of_an_answer_ends_the_turn() -> None:
    fault = Fault(FaultKind.TRANSIENT, Confidence.CERTAIN)
    turn = Turn(number=1, in_flight=InFlight.READY, fault=fault, is_relayed=True)
    assert decide(turn, BOUNDS, is_proxied=True) == EndTurn(1, Outcome.FAILED, BROKEN_OFF)


def test_a_request_without_the_named_parameter_is_not_recovered_for_it() -> None:
    """Else a turn would be recorded that no rung can change; with it, a client's own compaction is recovered too."""
    fault = Fault(FaultKind.QUOTA, Confidence.LIKELY, parameter="seed")

    assert plan_failure(CHAT, fault, BOUNDS) == ReturnError()
    assert plan_failure(msgspec.structs.replace(CHAT, parameters=frozenset({"seed"})), fault, BOUNDS) == Recover(fault)


def test_a_request_is_not_repeated_for_a_client_on_a_guess_alone() -> None:
    """A reply that was empty is; of a refusal without a reason the client hears at once."""
    guess = Fault(FaultKind.BAD_REQUEST, Confidence.GUESS)
    assert plan_failure(CHAT, guess, BOUNDS) == ReturnError()
    assert plan_failure(msgspec.structs.replace(CHAT, is_divisible=True), guess, BOUNDS) == Recover(guess)
    empty = Fault(FaultKind.EMPTY_RESPONSE, Confidence.LIKELY)
    assert plan_failure(CHAT, empty, BOUNDS) == Recover(empty)


@pytest.mark.parametrize("role", [Role.USER, Role.ASSISTANT])
@pytest.mark.parametrize("text", ["run the tests", "  spaces around \n", "", "\ud800 a lone surrogate"])
def test_the_digest_of_one_text_is_that_of_the_same_text_in_parts(role: Role, text: str) -> None:
    assert digest_of(Message(role, (Text(text),))) == digest_of(Message(role, (Text(text), Text(""))))
