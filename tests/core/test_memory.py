"""The memory of a conversation: the fold over messages of any agent, its bounds, and the story."""

import json

import msgspec
from hypothesis import given

from holdfast.core.compaction.digest import remember
from holdfast.core.compaction.facts import FactKind, Passage
from holdfast.core.compaction.memory import uses
from holdfast.core.compaction.memory.observe import EVENTS_MAX, TYPED_MAX, observe
from holdfast.core.compaction.memory.quotes import one_line, worth_of
from holdfast.core.compaction.memory.state import Doing, Memory
from holdfast.core.compaction.memory.uses import FACTS_MAX
from holdfast.types.messages import Message, Role, Text, ToolCall
from tests.core.passages import answered, called, conversations, edited, returned, said


@given(conversations())
def test_a_memory_that_was_stored_continues_like_one_that_was_not(passages: list[Passage]) -> None:
    middle = len(passages) // 2
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(remember(passages[:middle])), type=Memory)
    for passage in passages[middle:]:
        observe(stored, passage.seq, passage.message)
    assert stored == remember(passages)


def test_a_memory_stays_bounded() -> None:
    memory = Memory()
    for seq in range(1_300):
        names = " ".join(f"name_{seq}_{at}" for at in range(8))
        text = f"Sentence number {seq} of the whole conversation. Nobody reads {names}."
        observe(memory, seq, said(seq, f"{text} Never use tool_{seq}, number {seq}.{seq}.").message)
        observe(memory, seq, answered(seq, f"{text} Shall I use way {seq} of {seq * 1_000}?").message)
        call = ToolCall(f"{seq}", f"tool{seq}", json.dumps({"command": f"pytest t{seq} > out{seq}.txt"}))
        other = ToolCall(f"x{seq}", "write", json.dumps({"path": f"src/file{seq}.py", "content": "- [ ] a\n- [ ] b"}))
        observe(memory, seq, Message(Role.ASSISTANT, (call, other)))
        observe(memory, seq, returned(seq, "1 failed", call_id=f"{seq}").message)
        observe(memory, seq, returned(seq, "ok", call_id=f"x{seq}").message)
        observe(memory, seq, said(seq, "yes").message)
        observe(memory, seq, Message(Role.ASSISTANT, (ToolCall(f"y{seq}", "slow", "{}"),)))
    assert len(memory.typed) <= 2 * TYPED_MAX
    assert len(memory.events) <= 2 * EVENTS_MAX
    assert len(memory.facts) <= 2 * FACTS_MAX
    assert len(msgspec.msgpack.encode(memory)) < 2_000_000


def test_a_result_without_an_id_is_the_next_message() -> None:
    call = Passage(1, Message(Role.ASSISTANT, (ToolCall("", "shell", '"pytest"'),)))
    memory = remember([call, said(2, "1 failed. Never mind.")])
    assert [check.failed for check in memory.checks.values()] == [True]
    assert (memory.typed, memory.rules) == ([], [])
    told = Passage(2, Message(Role.TOOL, (Text("3 passed"),)))
    assert [check.failed for check in remember([call, told]).checks.values()] == [False]


def test_a_call_is_told_with_its_arguments_and_an_edit_by_its_lines() -> None:
    memory = remember(
        [
            called(1, "search_flight", origin="JFK", date="2024-05-20", seats=2, direct=True, note="x" * 500),
            *edited(
                2, "edit", path="a/src/p.py", old_string="x = 1", new_string="x = 1\nlonger line of it\ndef run(y):"
            ),
            called(4, "ping"),
            called(5, "ExitPlanMode", plan="# The plan\nFirst look, then leap."),
        ]
    )
    assert [(event.doing, event.text) for event in memory.events] == [
        (Doing.CALLED, "search_flight origin=JFK date=2024-05-20 seats=2"),
        (Doing.CHANGED, "src/p.py: def run(y):"),
        (Doing.CHANGED, "src/p.py: longer line of it"),
        (Doing.CALLED, "ExitPlanMode plan=# The plan First look, then leap."),
    ]
    assert memory.plan is not None
    assert memory.values["2024-05-20"].text == "date = 2024-05-20"


def test_arguments_that_were_encoded_twice_are_read() -> None:
    call = Passage(1, Message(Role.ASSISTANT, (ToolCall("1", "get_user", json.dumps('{"user_id": "mia_3668"}')),)))
    assert remember([call]).values["mia_3668"].text == "user_id = mia_3668"


def test_an_id_is_kept_with_the_words_before_it() -> None:
    memory = remember([said(1, "The booking code is QX-7731 and also HOLD-12"), answered(2, "limit: 5,000 EUR")])
    assert memory.values["QX-7731"].text == "The booking code is QX-7731"
    assert "HOLD-12" not in memory.values
    assert memory.values["5,000"].text == "limit: 5,000 EUR"


def test_what_decides_is_worth_more_than_what_announces() -> None:
    assert worth_of("The root cause is a missing lock.") > worth_of("It is a lock.") > worth_of("Let me look:")


def test_a_text_on_one_line_has_no_breaks_and_keeps_its_length() -> None:
    assert one_line("a\n b\t c", 10) == "a b c"
    assert one_line("a " * 100_000 + "end", 20) == "a a a a a a a a … a end"


def test_of_two_kinds_of_a_fact_the_same_one_wins_in_any_order() -> None:
    memory = Memory()
    for kind in (FactKind.NUMBER, FactKind.ID):
        uses.count(memory, 1, uses.TEXT, {"4711": kind})
    assert memory.facts["4711"].kind is FactKind.ID


def test_a_sentence_that_is_mostly_blank_is_not_told() -> None:
    blank = "ok" + " " * 40 + "done"
    assert remember([answered(1, blank)]).events == []
