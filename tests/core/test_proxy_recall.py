"""The tool `recall` of the proxy: when it is offered, which calls stay here, and texts for a model without it."""

import pytest

from holdfast.core.fold.session_state import Call, InFlight, Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.proxy.recall import (
    NO_RECALL,
    RecallOffer,
    allows_recall,
    client_message,
    is_continued,
    without_advice,
    without_calls,
    without_citations,
)
from holdfast.core.turn.decide import Rest, RunTools, decide, interruptions
from holdfast.types.messages import (
    BlobRef,
    Media,
    Message,
    Reasoning,
    Reply,
    Role,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from holdfast.types.records import Abandonment, ReplyRecorded, ToolInterrupted

SPEC = ToolSpec("recall", "Search.", "{}")
OFFER = RecallOffer(SPEC, 2)
MASKED = Turn(number=1, in_flight=InFlight.READY, masked_before=9)
OURS, THEIRS = ToolCall("c1", "recall", "{}"), ToolCall("c2", "depth", "{}")


def _reply(*parts: Text | ToolCall | Reasoning) -> Reply:
    return Reply(parts, StopReason.TOOL_CALLS, None, "m")


def test_the_tool_is_offered_once_something_has_left_the_view_and_while_rounds_are_left() -> None:
    turns = [Turn(), Turn(has_repaired_pairs=True), MASKED, Turn(masked_before=9, own_rounds=2)]
    assert [OFFER.tools(turn) for turn in turns] == [(), (), (SPEC,), ()]
    # What it found stays in view when the rounds are over.
    assert [OFFER.is_shown(turn) for turn in turns] == [False, False, True, True]
    assert (NO_RECALL.tools(MASKED), NO_RECALL.is_shown(MASKED)) == ((), False)


def test_only_calls_that_were_offered_are_ours() -> None:
    reply = _reply(Text("I look."), OURS, THEIRS)
    assert OFFER.own_calls(MASKED, reply) == ("c1",)
    assert OFFER.own_calls(Turn(), reply) == ()
    assert NO_RECALL.own_calls(MASKED, reply) == ()


@pytest.mark.parametrize(
    ("parts", "own", "expected"),
    [((OURS,), ("c1",), True), ((OURS, THEIRS), ("c1",), False), ((THEIRS,), (), False), ((Text("a"),), (), False)],
)
def test_a_reply_is_continued_here_if_all_its_calls_are_ours(
    parts: tuple[Text | ToolCall, ...], own: tuple[str, ...], *, expected: bool
) -> None:
    assert is_continued(parts, own) is expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (b"", True),
        (b',"tool_choice":null,"n":1,"background":false,"conversation":null', True),
        (b',"tool_choice":"auto"', True),
        (b',"tool_choice":{"type":"auto","disable_parallel_tool_use":true}', True),
        (b',"tool_choice":"none"', False),
        (b',"tool_choice":"required"', False),
        (b',"tool_choice":{"type":"tool","name":"depth"}', False),
        (b',"tool_choice":{"type":"allowed_tools","mode":"auto"}', False),
        (b',"tool_choice":["auto"]', False),
        (b',"n":2', False),
        (b',"background":true', False),
        (b',"conversation":"conv_1"', False),
        (b',"tools":[{"type":"custom","custom":{"name" : "recall"}}]', False),
        (b',"tools":[{"name":"recaller","description":"recall"}]', True),
        (b',"toolConfig":{},"generationConfig":{}', True),
        (b',"toolConfig":{"functionCallingConfig":{"mode":"AUTO"}},"generationConfig":{"candidateCount":1}', True),
        (b',"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}', False),
        (b',"generationConfig":{"candidateCount":2}', False),
        (b',"tools":[{"functionDeclarations":[{"name":"recall"}]}]', False),
    ],
)
def test_a_request_that_forces_its_answer_has_no_room_for_the_tool(fields: bytes, *, expected: bool) -> None:
    assert allows_recall(b'{"model":"m","tools":[{"name":"depth"}]' + fields + b"}") is expected


def test_the_client_has_a_reply_without_our_calls_behind_the_text_that_it_was_sent() -> None:
    record = ReplyRecorded(1, 1, _reply(Text("Found."), OURS, THEIRS), 3, own_calls=("c1",), said_before="I look.")
    assert client_message(record) == Message(Role.ASSISTANT, (Text("I look."), Text("Found."), THEIRS))
    plain = ReplyRecorded(1, 1, _reply(Text("Found."), THEIRS), 3)
    assert client_message(plain) == Message(Role.ASSISTANT, plain.reply.parts)


def test_results_of_our_calls_are_left_out_with_them() -> None:
    results = (ToolResult("c1", (Text("a"),)), ToolResult("c2", (Text("b"),)))
    assert without_calls(Message(Role.TOOL, results), ("c1",)) == Message(Role.TOOL, results[1:])


def test_a_model_without_the_tool_reads_neither_citations_nor_advice() -> None:
    text = (
        "Taken by rule. It holds until a newer one. [#n] is the record in which it stands, word for word: "
        "recall(seq=n) reads it, recall(query=...) finds what is not mentioned here.\n"
        "user [#12] port = 8080 -> [#13] yes\n"
        "(There are notes on #1 to #9 that do not fit here; recall(query=...) finds what is in them.)"
    )
    media = Media(BlobRef("0" * 64, 3), "image/png")
    assert without_citations(Message(Role.USER, (Text(text), media))) == Message(
        Role.USER,
        (
            Text(
                "Taken by rule. It holds until a newer one.\nuser port = 8080 -> yes\n"
                "(There are notes on #1 to #9 that do not fit here.)"
            ),
            media,
        ),
    )
    # A client's own text may look like a citation, and stays.
    masked = ToolResult("c2", (Text("[900 bytes of output, no longer shown; recall(seq=7) reads them]"), media))
    assert without_advice(Message(Role.TOOL, (Text("see [#3]"), masked, THEIRS))) == Message(
        Role.TOOL,
        (Text("see [#3]"), ToolResult("c2", (Text("[900 bytes of output, no longer shown]"), media)), THEIRS),
    )


def test_the_gateway_runs_its_own_calls_and_waits_for_the_others() -> None:
    mixed = Turn(number=1, in_flight=InFlight.READY, calls_asked=(Call(THEIRS), Call(OURS, is_own=True)))
    assert decide(mixed, Bounds(), is_proxied=True) == RunTools((OURS,))
    theirs = Turn(number=1, in_flight=InFlight.READY, calls_asked=(Call(THEIRS),))
    assert decide(theirs, Bounds(), is_proxied=True) == Rest()
    assert decide(mixed, Bounds()) == RunTools((THEIRS, OURS))


def test_a_call_of_ours_is_pending_again_if_the_client_leaves() -> None:
    running = Turn(number=1, in_flight=InFlight.TOOLS, calls_running=(Call(OURS, starts=1, is_own=True),))
    assert interruptions(running, Abandonment.CANCELLED, Bounds()) == (ToolInterrupted(1, "c1"),)
