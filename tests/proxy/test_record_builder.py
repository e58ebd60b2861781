"""What a client sends becomes records that fold, whatever order it sends it in; and what of its headers goes on."""

from collections.abc import Sequence

from holdfast.core.fold.session_state import InFlight, Turn
from holdfast.core.proxy.plan import digest_of
from holdfast.core.turn.transitions import evolve
from holdfast.core.view import messages_in_view
from holdfast.gateway.proxy.upstream import Upstream, key_in, open_upstream, upstream_headers
from holdfast.rescue.client_records import RecordBuilder, as_neutral
from holdfast.types.messages import Message, Reply, Role, StopReason, Text, ToolCall, ToolResult
from holdfast.types.records import LeasedRecord, Logged


def _folded(records: Sequence[LeasedRecord]) -> tuple[Turn, list[Logged]]:
    turn, tail = Turn(), []
    for seq, record in enumerate(records, start=1):
        tail.append(Logged(seq, 0.0, record))
        turn = evolve(turn, tail[-1])
    return turn, tail


def _entered(*messages: Message, reply: Reply | None = None) -> tuple[Turn, tuple[Message, ...]]:
    entering = RecordBuilder(Turn(), "openai:sim")
    records = [*entering.messages(as_neutral(messages, {}, first=0), [digest_of(one) for one in messages])]
    if reply is not None:
        records += entering.reply(reply, len(messages))
    turn, tail = _folded(records)
    return turn, messages_in_view(tail, turn)


USER = Message(Role.USER, (Text("look"),))
CALL = Message(Role.ASSISTANT, (ToolCall("c1", "look", "{}"),))
RESULT = Message(Role.TOOL, (ToolResult("c1", (Text("blue"),)),))
DONE = Reply((Text("It is blue."),), StopReason.END, None, "sim")


def test_a_whole_turn_folds_to_rest_and_shows_what_was_said() -> None:
    turn, view = _entered(USER, CALL, RESULT, reply=DONE)
    assert turn.in_flight is InFlight.REST
    assert view == (USER, CALL, RESULT, Message(Role.ASSISTANT, DONE.parts))


def test_a_result_without_its_call_gets_one() -> None:
    turn, view = _entered(RESULT, reply=DONE)
    assert turn.in_flight is InFlight.REST
    assert [message.role for message in view] == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
    assert view[2] == RESULT


def test_calls_that_are_left_without_a_result_end_with_their_turn() -> None:
    turn, view = _entered(USER, CALL, USER, reply=DONE)
    assert turn.in_flight is InFlight.REST
    assert [message.role for message in view] == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.USER, Role.ASSISTANT]


def test_a_turn_whose_calls_wait_for_the_client_stays_open() -> None:
    turn, _ = _entered(USER, reply=Reply((ToolCall("c1", "look", "{}"),), StopReason.TOOL_CALLS, None, "sim"))
    assert turn.in_flight is InFlight.READY
    assert [call.call.call_id for call in turn.calls_asked] == ["c1"]


def _upstream(family: str) -> Upstream:
    opened = open_upstream(family, "https://models.example/v1", "KEY", (), {"KEY": "sk-ours"})
    assert opened is not None
    return opened


def test_a_clients_own_key_goes_on_and_a_gateway_key_never_does() -> None:
    headers = [(b"authorization", b"Bearer sk-theirs"), (b"x-holdfast-key", b"hf_1"), (b"user-agent", b"agent/1")]
    own = upstream_headers(headers, _upstream("openai"), is_key_ours=False)
    assert own == [headers[0], headers[2], (b"accept-encoding", b"identity")]
    mapped = upstream_headers([(b"authorization", b"Bearer hf_1")], _upstream("openai"), is_key_ours=True)
    assert key_in(mapped) == "sk-ours"
    other = upstream_headers([(b"x-api-key", b"hf_1")], _upstream("anthropic"), is_key_ours=True)
    assert (b"x-api-key", b"sk-ours") in other
    assert not any(b"hf_1" in text for _, text in [*own, *mapped, *other])
    assert "sk-ours" not in repr(_upstream("openai"))


def test_headers_that_belong_to_one_connection_do_not_go_on() -> None:
    headers = [
        (b"connection", b"close, x-once"),
        (b"x-once", b"1"),
        (b"te", b"trailers"),
        (b"host", b"h"),
        (b"a", b"b"),
    ]
    assert upstream_headers(headers, _upstream("openai"), is_key_ours=False)[:1] == [(b"a", b"b")]


def test_an_upstream_without_an_address_is_none() -> None:
    assert open_upstream("openai", " ", "", (), {}) is None
