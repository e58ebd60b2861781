"""What a summariser reads: every message as a whole, in portions that fit, and only noise left out."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.compaction.facts import Passage
from holdfast.core.compaction.reading import Portion, Position, Rendered, next_portion, render, without_noise
from holdfast.core.limits.sizing import tokens_of_text
from holdfast.core.text.truncation import well_formed
from holdfast.core.view import ViewMessage
from holdfast.types.messages import BlobRef, LargeText, Media, Message, Part, Reasoning, Role, Text, ToolResult
from tests.core.passages import answered, called, messages, returned, said, texts

BLOB = BlobRef("ab" * 32, 5_000_000)


def shown(passage: Passage) -> ViewMessage:
    return ViewMessage(1, passage.seq, passage.seq, passage.message)


def of_parts(*parts: Part, role: Role = Role.USER) -> ViewMessage:
    return ViewMessage(1, 3, 3, Message(role, parts))


def portions_of(messages: list[Rendered], *, tokens_max: int) -> list[Portion]:
    portions: list[Portion] = []
    start = Position()
    while messages and start.place <= messages[-1].place:
        rest = [one for one in messages if one.place >= start.place]
        portions.append(next_portion(rest, start, tokens_max=tokens_max))
        assert portions[-1].end > start
        start = portions[-1].end
    return portions


def test_each_message_is_read_with_its_number_and_who_said_it() -> None:
    passages = [said(1, "fix it"), called(4, "Bash", command="ls"), returned(6, "a.py"), answered(8, "Done.")]

    assert [render(shown(one)).text for one in passages] == [
        "[#1] user: fix it",
        '[#4] assistant: calls Bash({"command": "ls"})',
        "[#6] tool: done: a.py",
        "[#8] assistant: Done.",
    ]


def test_long_messages_arguments_and_output_are_read_to_their_end() -> None:
    long = " ".join(f"word{number}" for number in range(9_000))
    passages = [said(1, long), called(4, "Write", content=long), returned(6, long)]

    assert all(long in render(shown(one)).text for one in passages)


def test_a_text_in_a_blob_is_read_whole_and_by_its_beginning_where_it_is_missing() -> None:
    message = of_parts(LargeText(BLOB, "the beg", "log.txt"), LargeText(BLOB, "the beg"))

    assert render(message, {BLOB.sha256: "the beginning and the end"}).text.splitlines() == [
        "[#3] user: (log.txt:) the beginning and the end",
        "[#3] user: the beginning and the end",
    ]
    assert render(message).text.splitlines() == [
        "[#3] user: (a text of 5,000,000 bytes, log.txt, beginning:) the beg",
        "[#3] user: (a text of 5,000,000 bytes, unnamed, beginning:) the beg",
    ]


def test_what_is_not_text_is_named_and_thinking_is_left_out() -> None:
    result = ToolResult("1", (Text("seen:"), Media(BLOB, "image/png", "a.png")))

    assert render(of_parts(Reasoning("hm"), Text(""), Media(BLOB, "image/png"))).text == (
        "[#3] user: (image/png unnamed, 5,000,000 bytes)"
    )
    assert render(of_parts(result, role=Role.TOOL)).text == "[#3] tool: done: seen: (image/png a.png, 5,000,000 bytes)"
    assert render(of_parts(Reasoning("hm"))).text == ""


def test_only_noise_is_left_out_and_a_line_says_so() -> None:
    base64 = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ" * 20
    text = f"before\n{base64}\n" + "waiting\n" * 50 + "after\n\n\n\n\nend"

    noiseless = without_noise(text)

    assert "characters of base64 left out" in noiseless
    assert "waiting\n[the line above 49 more times]\nafter\n\n\n\n\nend" in noiseless
    assert without_noise("a\na\na\nb") == "a\na\na\nb"
    assert without_noise("one line") == "one line"


def test_a_message_too_long_for_one_portion_continues_in_the_next_with_its_number() -> None:
    first, second, third = portions_of([Rendered(5, 4, "[#4] user: " + "All of it matters. " * 300)], tokens_max=700)

    assert first.end < second.end < third.end == Position(6)
    assert all(portion.seqs == (4,) for portion in (first, second, third))
    assert first.text.endswith("matters. ")
    assert second.text.startswith("[#4] (continued:) All of it")
    assert all(tokens_of_text(portion.text) <= 700 for portion in (first, second, third))


def test_a_message_that_fits_the_next_portion_is_not_split() -> None:
    long, short = "word " * 300, "word " * 100
    messages = [Rendered(1, 1, short), Rendered(2, 2, long), Rendered(3, 3, "")]

    first, second = portions_of(messages, tokens_max=400)

    assert (first.text, first.seqs, first.end) == (short, (1,), Position(2))
    assert (second.text, second.seqs, second.end) == (long, (2,), Position(4))


def test_a_long_message_begins_in_a_portion_that_has_room_for_it() -> None:
    messages = [Rendered(1, 1, "word " * 100), Rendered(2, 2, "word " * 2_000)]

    assert portions_of(messages, tokens_max=400)[0].seqs == (1, 2)
    assert portions_of(messages, tokens_max=120)[0].seqs == (1,)


def test_a_text_without_spaces_is_split_anywhere() -> None:
    first, *_ = portions_of([Rendered(1, 1, "x" * 9_000)], tokens_max=50)

    assert set(first.text) == {"x"}


_well = texts.map(well_formed)
_rendered = st.lists(st.tuples(st.integers(1, 3), _well), max_size=8).map(
    lambda given: [
        Rendered(sum(step for step, _ in given[: place + 1]), place + 100, text * 8)
        for place, (_, text) in enumerate(given)
    ]
)


@settings(max_examples=60)
@given(messages=_rendered, tokens_max=st.integers(1, 300))
def test_portions_are_all_of_the_text_in_order(messages: list[Rendered], tokens_max: int) -> None:
    read = "".join(
        re.sub(r"^\[#\d+\] \(continued:\) ", "", portion.text)
        for portion in portions_of(messages, tokens_max=tokens_max)
    )

    assert read.replace("\n", "") == "".join(one.text for one in messages).replace("\n", "")


@settings(max_examples=40)
@given(message=messages)
def test_no_text_opens_or_closes_a_frame_in_what_a_summariser_reads(message: Message) -> None:
    assert re.search(r"<\s*[/|!?A-Za-z]", render(ViewMessage(1, 1, 1, message)).text) is None
