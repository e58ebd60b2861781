"""Search results as a model reads them."""

import pytest

from holdfast.core.search.passage_text import MESSAGE_CHARS, Found, passages_text
from holdfast.testing.builders import a_reply, a_tool_call, a_turn_started, an_input
from holdfast.types.messages import Reasoning, Reply, StopReason, Text, ToolResult
from holdfast.types.records import AnyRecord, InputAdmitted, Logged, ReplyRecorded, ToolSettled

TITLE = "Best matches first; recall(seq=n) reads all of [#n]."
NOON = 1_700_000_000.0


def log_of(*records: AnyRecord) -> list[Logged]:
    return [Logged(seq, NOON, record) for seq, record in enumerate(records, start=1)]


def shown(*found: Found, query: str = "harbour", bytes_max: int = 8_192) -> list[str]:
    title, *lines = passages_text(found, query, bytes_max=bytes_max).split("\n")
    assert title == TITLE
    return lines


def test_a_message_says_who_spoke_and_when() -> None:
    log = log_of(an_input("the harbour"))

    assert shown(Found(1, 0, "", log)) == ["[#1] user, 2023-11-14 22:13 UTC: the harbour"]
    assert shown(Found(1, 0, "", [Logged(1, 0.0, an_input("the harbour"))])) == ["[#1] user: the harbour"]


def test_the_messages_around_are_those_with_text() -> None:
    log = log_of(
        an_input("where?"), a_turn_started(), a_reply("", a_tool_call()), a_reply("the harbour"), a_reply("so")
    )

    assert shown(Found(4, 0, "", log)) == [
        "[#4] assistant, 2023-11-14 22:13 UTC: the harbour",
        "  before it, [#1] user: where?",
        "  after it, [#5] assistant: so",
    ]


def test_no_message_is_shown_twice() -> None:
    log = log_of(an_input("one"), a_reply("harbour two"), an_input("three"), a_reply("harbour four"))

    assert [line.strip().split("]")[0] for line in shown(Found(4, 0, "", log), Found(2, 0, "", log))] == [
        "[#4",
        "before it, [#3",
        "[#2",
        "before it, [#1",
    ]


def test_a_tool_step_is_shown_by_its_snippet() -> None:
    log = log_of(a_reply("", a_tool_call("read")), ToolSettled(1, ToolResult("call-1", (Text("x"),))))

    assert shown(Found(2, 1, "read a.txt: x", log[1:])) == ["[#2] tool step, 2023-11-14 22:13 UTC: read a.txt: x"]
    assert shown(Found(2, 0, "x", log)) == ["[#2] record, 2023-11-14 22:13 UTC: x"]


def test_a_record_that_is_gone_is_shown_by_its_snippet() -> None:
    assert shown(Found(7, 0, "the harbour", [])) == ["[#7] record: the harbour"]


@pytest.mark.parametrize(
    ("parts", "position"),
    [
        ((Text("ä" * 1_000 + " harbour " + "z" * 1_000),), "from byte 1,440"),
        ((Text("short"), Text("y" * 1_000 + " harbour " + "z" * 1_000)), "in part"),
        ((Reasoning("y" * 1_000 + " harbour " + "z" * 1_000),), "in part"),
    ],
)
def test_of_a_long_message_the_matching_part_is_shown(parts: tuple[Text | Reasoning, ...], position: str) -> None:
    log = log_of(an_input("before"), ReplyRecorded(1, 1, Reply(parts, StopReason.END, None, "m")))

    [line] = shown(Found(2, 0, "", log))

    assert line.startswith(f"[#2] assistant, 2023-11-14 22:13 UTC, {position}: …")
    assert "harbour" in line
    assert len(line) < MESSAGE_CHARS + 80


def test_neighbours_are_left_out_before_hits_and_hits_are_counted() -> None:
    log = log_of(*(InputAdmitted((Text(f"harbour {number} " + "x" * 190),)) for number in range(30)))
    found = [Found(seq, 0, "", log[max(seq - 2, 0) : seq + 1]) for seq in range(2, 30, 3)]

    everything = passages_text(found, "harbour", bytes_max=20_000)
    page = passages_text(found, "harbour", bytes_max=4_000)
    little = passages_text(found, "harbour", bytes_max=1_000)
    nothing = passages_text(found, "harbour", bytes_max=10)

    assert [everything.count("\n[#"), everything.count(" it, [#")] == [10, 20]
    assert [page.count("\n[#"), page.count(" it, [#")] == [10, 6]
    assert [little.count("\n[#"), little.count(" it, [#")] == [3, 0]
    assert little.endswith("\n(7 more; use other words to see them)")
    assert all(len(text.encode()) <= size for text, size in ((page, 4_000), (little, 1_000)))
    assert nothing.count("\n[#") == 1
