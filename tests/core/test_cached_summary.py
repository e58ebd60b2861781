"""When notes may be asked for behind the conversation as it was last sent, what that costs, and what is asked."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.compaction.cached_summary import (
    SummaryRequest,
    ask_behind,
    expected,
    has_room,
    is_cheaper,
    may_ride,
    output_asked,
    stands_verbatim,
    warm_tokens,
)
from holdfast.core.fold.session_state import Call, Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.fit import Sizes
from holdfast.core.limits.prices import NO_PRICES, Prices
from holdfast.core.limits.sizing import tokens_of_message, tokens_of_text
from holdfast.core.text.truncation import well_formed
from holdfast.core.view import ViewMessage
from holdfast.types.faults import Rung
from holdfast.types.limits import UNCALIBRATED, Calibration, Limits
from holdfast.types.messages import (
    Effort,
    Message,
    Part,
    Reasoning,
    Reply,
    Role,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    text_of,
)
from holdfast.types.records import (
    AnyRecord,
    AttemptStarted,
    EffortChanged,
    Logged,
    NoticePosted,
    ReplyRecorded,
    SummaryRefused,
)
from tests.core.passages import texts

BOUNDS = Bounds()
NAME = "openai:one"
# The last line of what stands before the list; everything behind it was said by somebody else.
LIST_BEGINS = "<messages>\n"


def said(place: int, *parts: Part | str, role: Role = Role.USER) -> ViewMessage:
    whole = tuple(Text(part) if isinstance(part, str) else part for part in parts)
    return ViewMessage(place, place, place, Message(role, whole))


def answer(place: int, *parts: Part | str) -> ViewMessage:
    return said(place, *parts, role=Role.ASSISTANT)


def output(place: int, text: str) -> ViewMessage:
    return said(place, ToolResult("c", (Text(text),)), role=Role.TOOL)


# The moment.


@pytest.mark.parametrize(
    ("turn", "is_moment"),
    [
        (Turn(), True),
        (Turn(climbing=Rung.SUMMARISE, is_wanted_climb=True), True),
        # What was climbed last says nothing about who looks ahead now.
        (Turn(climbing=None, is_wanted_climb=False), True),
        (Turn(climbing=Rung.SUMMARISE, is_wanted_climb=False), False),
        (Turn(calls_asked=(Call(ToolCall("c", "look", "{}")),)), False),
    ],
    ids=["looked ahead", "asked for", "climbed before", "a fault", "calls wait"],
)
def test_it_is_done_where_someone_asks_and_not_to_answer_a_fault_nor_while_calls_wait(
    turn: Turn, *, is_moment: bool
) -> None:
    assert may_ride(turn, (), NAME, BOUNDS) is is_moment


def test_it_can_be_switched_off() -> None:
    assert not may_ride(Turn(), (), NAME, Bounds(summary_rides=False))


@pytest.mark.parametrize(
    ("refused", "may"),
    [
        (SummaryRefused(0, NAME, "it holds a tool call", is_riding=True), False),
        (SummaryRefused(0, "openai:two", "it holds a tool call", is_riding=True), True),
        (SummaryRefused(0, NAME, "it is empty"), True),
    ],
    ids=["this model", "another model", "the usual way"],
)
def test_a_model_whose_answer_was_of_no_use_is_not_asked_the_same_again(refused: SummaryRefused, *, may: bool) -> None:
    tail = logged([NoticePosted(0, "x", "y"), refused])

    assert may_ride(Turn(), tail, NAME, BOUNDS) is may


def test_only_what_stands_in_the_view_as_it_was_said_is_noted_from_it() -> None:
    originals = [said(1, "fix it"), answer(3, Reasoning("hm"), "I look."), output(5, "x" * 900)]
    asked, spoke, shown = originals

    assert stands_verbatim(originals, [*originals, said(7, "and now?")])
    assert stands_verbatim(originals, [asked, answer(3, "I look."), shown]), "notes are never on thinking"
    assert not stands_verbatim(originals, [asked, spoke, output(5, "[900 bytes of output, no longer shown]")])
    assert not stands_verbatim(originals, [spoke, shown]), "the first is represented already"


# The cache.


def test_a_view_with_a_heartbeat_among_the_messages_is_not_noted_from() -> None:
    beat, later = said(3, "HEARTBEAT"), said(5, "and on")

    assert stands_verbatim([said(1, "hello"), later], [said(1, "hello"), beat, later])
    assert not stands_verbatim([said(1, "hello"), later], [said(1, "hello"), beat, later], frozenset({3}))
    assert stands_verbatim([said(1, "hello")], [said(1, "hello"), beat], frozenset({3})), "it comes after them"


def logged(records: Sequence[AnyRecord], *, at: Sequence[float] = ()) -> list[Logged]:
    times = at or [0.0] * len(records)
    return [Logged(seq, when, record) for seq, (when, record) in enumerate(zip(times, records, strict=True), start=1)]


def asks(raw: int, model: str = NAME) -> AttemptStarted:
    return AttemptStarted(1, 1, model, tokens_raw=raw)


def replies(read: int | None, cached: int = 0) -> ReplyRecorded:
    usage = None if read is None else Usage(read, 9, cached)
    return ReplyRecorded(1, 1, Reply((Text("ok"),), StopReason.END, usage, "one"))


# Two requests, the second of which found the first in the cache; the last answer is all that was said since.
WARM: list[AnyRecord] = [asks(900), replies(1_000), asks(1_900), replies(2_000, 1_000)]
SINCE = answer(4, "ok")
NEXT_RAW = 1_900 + tokens_of_message(SINCE.message)


def warm(
    records: Sequence[AnyRecord] = WARM,
    view: Sequence[ViewMessage] = (said(1, "hello"), SINCE),
    *,
    raw: int = NEXT_RAW,
    now: float = 0.0,
    at: Sequence[float] = (),
) -> int:
    return warm_tokens(logged(records, at=at), view, model=NAME, raw=raw, now=now)


def test_all_of_the_last_request_is_warm_where_the_one_before_it_was_found_again() -> None:
    assert warm() == 2_000


def test_nothing_is_warm_where_no_answer_reported_a_read() -> None:
    assert warm([asks(900), replies(1_000), asks(1_900), replies(2_000)]) == 0


def test_nothing_is_warm_before_two_answers_have_told_anything() -> None:
    assert warm([]) == 0
    assert warm(WARM[2:], [answer(2, "ok")]) == 0, "it may have found another session's beginning"
    assert warm([asks(900), replies(None), asks(1_900), replies(0)]) == 0


def test_what_was_sent_more_than_four_minutes_ago_is_not_warm() -> None:
    assert warm(now=240.0) == 2_000
    assert warm(now=240.1) == 0


def test_another_model_finds_nothing() -> None:
    assert warm([*WARM[:2], asks(1_900, "openai:two"), WARM[3]]) == 0
    other: list[AnyRecord] = [asks(900, "openai:two"), *WARM[1:]]
    assert warm(other) == 0, "nothing is known of how much this one finds"


@pytest.mark.parametrize("raw", [NEXT_RAW - 1, NEXT_RAW + 1])
def test_a_request_that_begins_otherwise_than_the_last_one_finds_nothing(raw: int) -> None:
    assert warm(raw=raw) == 0


def test_another_wish_for_thinking_since_the_last_request_finds_nothing() -> None:
    changed = EffortChanged(1, Effort.LOW)

    assert warm([*WARM, changed]) == 0
    before: list[AnyRecord] = [changed, *WARM]
    assert warm(before, [answer(5, "ok")]) == 2_000


def test_how_much_is_found_is_what_the_last_answers_say_and_a_pause_says_nothing() -> None:
    half: list[AnyRecord] = [*WARM, asks(2_900), replies(3_000, 1_000)]
    view, raw = [answer(6, "ok")], 2_900 + tokens_of_message(SINCE.message)

    # All of 1,000, then half of 2,000.
    assert warm(half, view, raw=raw) == 2_250
    # The first pair is too far apart.
    assert warm(half, view, raw=raw, at=[0, 0, 300, 300, 300, 300], now=300) == 1_500
    # Both are: nobody knows.
    assert warm(half, view, raw=raw, at=[0, 0, 300, 300, 600, 600], now=600) == 0


def test_only_the_last_four_answers_say_how_much_is_found() -> None:
    old: list[AnyRecord] = [record for _ in range(5) for record in (asks(900), replies(1_000))]
    new: list[AnyRecord] = [record for _ in range(4) for record in (asks(900), replies(1_000, 5_000))]
    view, raw = [answer(18, "ok")], 900 + tokens_of_message(SINCE.message)

    assert warm([*old, *new], view, raw=raw) == 1_000, "and never more than there was"


def test_a_reply_without_an_attempt_of_its_own_says_nothing() -> None:
    assert warm([*WARM, replies(7_000, 7_000)]) == 2_000


# The price and the room.


def sizes(tokens: int, wire_bytes: int = 0) -> Sizes:
    return Sizes(tokens, wire_bytes, 0, 0, 0)


def test_what_is_not_read_from_the_cache_is_read_and_kept_at_a_price_of_its_own() -> None:
    twice = Calibration(scale=2.0)

    assert expected(sizes(500), twice, warm=800, tokens_max=90) == Usage(1_000, 90, 800, cache_write_tokens=200)
    assert expected(sizes(500), twice, warm=1_200, tokens_max=90) == Usage(1_000, 90, 1_000)


@pytest.mark.parametrize(
    ("prices", "rides"),
    [
        (Prices(10.0, 1.0, 50.0), True),
        (Prices(10.0, 1.0, 50.0, 12.5), True),
        # At half of the price, as much again is no cheaper.
        (Prices(10.0, 5.0, 50.0), False),
        (Prices(10.0, None, 50.0), False),
        (Prices(10.0, 1.0, None), False),
        (NO_PRICES, False),
    ],
)
def test_it_is_done_where_it_is_cheaper_by_what_is_declared(prices: Prices, *, rides: bool) -> None:
    riding, usual = Usage(10_000, 90, 9_000, cache_write_tokens=1_000), Usage(5_000, 90)

    assert is_cheaper(prices, riding, usual) is rides


def test_it_is_done_only_where_the_question_and_its_answer_surely_fit() -> None:
    limits, bounds = Limits(window_tokens=10_000, output_tokens_max=1_000), Bounds()

    def fits(tokens: int, limits: Limits = limits, wire_bytes: int = 0) -> bool:
        return has_room(sizes(tokens, wire_bytes), limits, Calibration(error=0.0), bounds, tokens_max=600)

    assert fits(8_800)
    assert not fits(8_801), "there must be room for the notes twice over"
    assert not fits(8_800, Limits(window_tokens=10_000)), "and for as much as an answer is promised"
    assert not fits(8_800, replace(limits, wire_bytes_max=99), wire_bytes=100)
    assert not fits(10, Limits()), "nobody knows"
    assert not has_room(sizes(8_000), limits, UNCALIBRATED, bounds, tokens_max=600), "with the usual margin"


def test_there_is_room_for_thinking_that_nobody_asked_for_and_what_was_asked_for_stays_as_it_was() -> None:
    assert output_asked(None, None, tokens_max=450) == 4_996
    assert output_asked(64_000, None, tokens_max=450) == 4_996
    assert output_asked(1_000, None, tokens_max=450) == 1_000
    assert output_asked(64_000, Effort.HIGH, tokens_max=450) == 64_000
    assert output_asked(None, Effort.HIGH, tokens_max=450) is None


# The words.


def listed(text: str) -> list[str]:
    _, _, behind = text.partition(LIST_BEGINS)
    return behind.removesuffix("\n</messages>").splitlines()


def test_the_question_names_the_part_by_numbers_and_first_words_and_says_where_it_ends() -> None:
    originals = [
        said(1, "Fix\n  the build, " + "and then " * 30),
        answer(3, ToolCall("c", "look", '{"at": "a.py"}')),
        output(4, "line one\nline two"),
        answer(6, "Done."),
    ]
    view = [*originals, said(8, "now the tests"), answer(9, "ok")]

    question = ask_behind(SummaryRequest(originals, 400), view)

    text = text_of(question.message.parts)
    assert question.message.role is Role.USER
    assert question.seqs == (1, 3, 4, 6)
    assert listed(text) == [
        "[#1] user: Fix the build, and then and then and then and then and then and th",
        '[#3] assistant: calls look({"at": "a.py"})',
        "[#4] tool: done: line one line two",
        "[#6] assistant: Done.",
        "(not in the part:) user: now the tests",
    ]
    for told in ("not part of the conversation", "call tools", "noted, not done", "about 220 words", "do not repeat"):
        assert told in text
    assert "ends before the one that the last line quotes" in text


def test_where_nothing_is_said_behind_the_part_no_end_is_named() -> None:
    text = text_of(ask_behind(SummaryRequest([said(1, "hello")], 400), [said(1, "hello")]).message.parts)

    assert listed(text) == ["[#1] user: hello"]
    assert "ends with the last." in text


def test_what_to_keep_in_particular_is_asked_for() -> None:
    text = text_of(ask_behind(SummaryRequest([said(1, "hello")], 400, "the <b>harbour"), []).message.parts)

    assert "keep in particular: the &lt;b>harbour" in text


def test_a_list_that_is_too_long_for_all_names_the_message_with_which_the_part_begins() -> None:
    originals = [answer(1, ToolCall("c", "look", "{}")), *(said(place, "a word and " * 9) for place in range(2, 200))]

    assert ask_behind(SummaryRequest(originals, 400), originals).seqs[0] == 1


def test_a_message_of_nothing_but_thinking_is_not_listed() -> None:
    originals = [said(1, "hello"), answer(3, Reasoning("hm")), answer(5, "hi")]

    assert ask_behind(SummaryRequest(originals, 400), originals).seqs == (1, 5)


def test_a_list_that_would_be_too_long_names_the_words_of_persons_first_and_the_newest() -> None:
    long = "a word and " * 9
    originals = [
        one
        for turn in range(0, 3_000, 50)
        for one in (said(turn + 1, long), answer(turn + 2, long), answer(turn + 3, ToolCall("c", long, "{}")))
    ]

    question = ask_behind(SummaryRequest(originals, 400), originals)

    persons = [one.seq for one in originals if one.message.role is Role.USER]
    assert "of some of its messages" in text_of(question.message.parts)
    assert set(persons) < set(question.seqs)
    others = [seq for seq in question.seqs if seq not in persons]
    assert others == [seq + 1 for seq in persons[-len(others) :]], "then what the assistant said, the newest"
    assert tokens_of_text("\n".join(listed(text_of(question.message.parts)))) <= 2_000


@given(st.lists(texts, min_size=1, max_size=30))
def test_whatever_was_said_the_question_is_bounded_and_nothing_leaves_the_list(spoken: list[str]) -> None:
    originals = [said(place, well_formed(text)) for place, text in enumerate(spoken, start=1)]

    question = ask_behind(SummaryRequest(originals[:-1] or originals, 400), originals)

    text = text_of(question.message.parts)
    assert tokens_of_text(text) < 2_700
    assert (text.count("<messages>"), text.count("</messages>")) == (1, 1)
    # Every number of the list stands for the message it was given for.
    assert set(question.seqs) <= {one.seq for one in originals}
