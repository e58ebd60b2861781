"""What of a log is searchable, and which of it answers best."""

import pytest

from holdfast.core.search.passages import Passages, Scored
from holdfast.core.search.rank import (
    QUERY_WORDS_MAX,
    SNIPPET_CHARS,
    Index,
    Posting,
    Reading,
    Row,
    RowSize,
    asked_words,
    query_words,
    rank,
    read_rows,
    rebuild_row,
    shown_text,
    snippet,
    word_counts,
)
from holdfast.testing.builders import a_notice, a_reply, a_turn_ended, a_turn_started, an_attempt_started, an_input
from holdfast.types.messages import BlobRef, LargeText, Media, Part, Reasoning, Text, ToolCall, ToolResult
from holdfast.types.records import AnyRecord, InputAdmitted, Logged, ToolSettled, ToolStarted

BLOB = BlobRef("ab" * 32, 9_000)


def log_of(*records: AnyRecord, first: int = 1) -> list[Logged]:
    return [Logged(seq, 0.0, record) for seq, record in enumerate(records, start=first)]


def a_step(arguments: str = '{"path": "a.txt"}', output: str = "hello", name: str = "read") -> tuple[AnyRecord, ...]:
    return (
        a_reply("", ToolCall("c1", name, arguments)),
        ToolStarted(1, "c1", name),
        ToolSettled(1, ToolResult("c1", (Text(output),))),
    )


# --- rows ---


def test_messages_and_steps_are_rows_and_nothing_else_is() -> None:
    log = log_of(an_input("hi"), a_turn_started(), an_attempt_started(), *a_step(), a_reply("done"), a_notice())

    read = read_rows(log, after=0)

    assert read == Reading(
        (Row(1, 0, "", "hi"), Row(6, 4, "read a.txt", "hello"), Row(7, 0, "", "done")), until=8, reread=9
    )


def test_a_call_whose_result_is_still_to_come_is_read_again() -> None:
    first = log_of(an_input("hi"), *a_step())[:3]

    read = read_rows(first, after=0)
    rest = read_rows(log_of(*a_step(), first=2), after=read.until)

    assert read == Reading((Row(1, 0, "", "hi"),), until=3, reread=2)
    assert rest == Reading((Row(4, 2, "read a.txt", "hello"),), until=4, reread=5)


@pytest.mark.parametrize("closing", [a_turn_ended(), a_turn_started(9), a_reply("never mind")])
def test_a_call_that_got_no_result_is_a_row_when_that_is_clear(closing: AnyRecord) -> None:
    read = read_rows(log_of(a_step()[0], closing), after=0)

    assert read.rows[0] == Row(1, 1, "read a.txt", "")
    assert rebuild_row(RowSize(1, 1, 2, 0), log_of(a_step()[0])) == read.rows[0]


def test_a_result_without_a_call_is_a_message() -> None:
    log = log_of(ToolSettled(1, ToolResult("c1", (Text("hello"),))))

    assert read_rows(log, after=0).rows == (Row(1, 0, "", "hello"),)


def test_searches_are_not_found_by_later_searches() -> None:
    log = log_of(*a_step('{"query": "narwhal"}', "narwhal", "recall"), a_step("{}", "x", "recall")[0], a_turn_ended())

    assert read_rows(log, after=0).rows == ()


def test_an_empty_log_has_no_rows() -> None:
    assert read_rows((), after=7) == Reading((), until=7, reread=8)


@pytest.mark.parametrize(
    ("arguments", "called"),
    [
        ('{"a": ["x", {"b": 1}], "c": null}', "read x 1 None"),
        ('"plain"', "read plain"),
        ("{broken", "read {broken"),
        ("", "read "),
        ("[" * 100_000, f"read {'[' * 100_000}"),
    ],
)
def test_a_call_is_found_by_the_values_of_its_arguments(arguments: str, called: str) -> None:
    assert read_rows(log_of(*a_step(arguments)), after=0).rows[0].called == called


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (Text("a"), "a"),
        (Reasoning("hm"), "hm"),
        (LargeText(BLOB, "begins", "log.txt"), "log.txt begins"),
        (LargeText(BLOB, "begins"), "begins"),
        (Media(BLOB, "image/png", "cat.png"), "cat.png"),
        (ToolResult("c", (Text("a"), Text("b"))), "a\nb"),
        (ToolCall("c", "n", "{}"), ""),
    ],
)
def test_a_part_is_found_by_what_it_shows(part: Part, text: str) -> None:
    assert shown_text(part) == text


def test_rows_are_bounded() -> None:
    row = read_rows(log_of(InputAdmitted((Text("x" * 300_000),))), after=0).rows[0]

    assert len(row.said) == 256 * 2**10
    assert word_counts("a a a a a a a a a a b") == {"a": 8, "b": 1}


def test_a_row_that_is_gone_is_empty() -> None:
    assert rebuild_row(RowSize(3, 0, 0, 1), []) == Row(3, 0, "", "")


# --- questions ---


def test_words_that_only_ask_count_less_and_come_last() -> None:
    assert query_words("What is the harbour?") == {"harbour": 1.0, "what": 0.25, "is": 0.25, "the": 0.25}


def test_a_question_is_bounded() -> None:
    asked = query_words(" ".join(f"w{number}x" for number in range(2_000)))

    assert len(asked) == QUERY_WORDS_MAX


# --- ranking ---


def found_by(index: Index, query: str, limit: int = 10) -> list[int]:
    return [index.rows[scored.row].seq for scored in index.find(query, limit=limit)]


def indexed(*rows: Row) -> Index:
    index = Index()
    for row in rows:
        index.add(row)
    return index


def test_nothing_is_found_in_nothing() -> None:
    assert rank(asked_words("a"), {"a": [Posting(0, 0, 1)]}, [], limit=5) == []
    assert found_by(indexed(Row(1, 0, "", "a cat")), "cat", limit=0) == []
    assert found_by(indexed(Row(1, 0, "", "a cat")), "dog") == []


def test_an_index_knows_which_questions_it_has_words_of() -> None:
    index = indexed(Row(1, 0, "", "a cat"), Row(3, 2, "read src/a.py", "import os"))
    asked = ("cat", "Cats and dogs", "where is src/a.py", "dog", "")
    assert [(query, index.mentions(query)) for query in asked] == [
        (query, bool(found_by(index, query))) for query in asked
    ]
    assert [index.mentions(query) for query in ("cat", "dog", "src/a.py")] == [True, False, True]


def test_a_question_for_a_time_prefers_the_match_with_a_time() -> None:
    rows = [
        Row(1, 0, "", "the harbour visit was fun"),
        Row(2, 0, "", "the harbour visit was friday"),
        Row(3, 0, "", "the harbour visit was nice"),
        Row(4, 0, "", "see you on friday then"),
    ]
    assert found_by(indexed(*rows), "when was the harbour visit")[0] == 2
    assert 4 not in found_by(indexed(*rows), "when harbour")
    assert asked_words("how was the harbour visit").hints == {}
    assert asked_words("which day is friday").hints.keys().isdisjoint(query_words("which day is friday"))


def test_a_question_about_a_person_prefers_what_that_person_said() -> None:
    said = [
        "Ana: Bruno, the harbour was lovely",
        "Project Manager: the harbour is closed",
        "Bruno: Ana, the harbour was lovely",
    ]
    index = indexed(*(Row(seq, 0, "", text) for seq, text in enumerate(said, start=1)))
    assert found_by(index, "what did Ana say of the harbour")[0] == 1
    assert found_by(index, "what did Bruno say of the harbour")[0] == 3
    assert found_by(index, "what did the project manager say of the harbour")[0] == 2
    assert "ana:" in word_counts("Ana: hello")
    assert "https:" not in word_counts("https://example.org is up")


def test_an_answer_comes_before_the_question_that_it_follows() -> None:
    said = [
        "Any news about the harbour tickets?",
        "They are at the desk of the harbour hall.",
        "Good to know.",
        "The harbour tickets were dear.",
    ]
    index = indexed(*(Row(seq, 0, "", text) for seq, text in enumerate(said, start=1)))

    assert found_by(index, "where are the harbour tickets")[0] == 2
    assert found_by(index, "what did they ask about the harbour tickets")[0] == 1


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("Where is it?", {"?", "??"}),
        ("Where is it? And the key?", {"?", "??"}),
        ("Ana: Where is it? :)", {"?", "??"}),
        ("**Where is it?**\n", {"?", "??"}),
        ("\u9418\u5319\u5728\u54ea\u88e1\uff1f", {"?", "??"}),
        ("I lost it. Where is it?", {"?"}),
        ("I lost it\nWhere is it?", {"?"}),
        ("\u6211\u4e1f\u4e86\u3002\u5728\u54ea\u88e1\uff1f", {"?"}),
        ("Where is it? In the box.", set()),
        ("It is in the box", set()),
        ("", set()),
    ],
)
def test_a_text_has_marks_if_its_last_sentence_asks_and_if_all_do(text: str, marks: set[str]) -> None:
    assert {word for word in word_counts(text) if not word.strip("?")} == marks


def test_a_question_among_tool_steps_ranks_by_its_words_alone() -> None:
    index = indexed(Row(1, 0, "", "Is the harbour open?"), Row(3, 2, "search harbour", "Is the harbour open?"))

    assert found_by(index, "harbour")[0] == 3


def test_a_step_about_a_path_comes_before_one_whose_output_names_it() -> None:
    index = indexed(
        Row(2, 1, "grep x", "src/a.py src/a.py src/a.py"),
        Row(4, 3, "read src/a.py", "import os"),
        Row(6, 5, "edit src/a.py with many other words that are written into it", "done"),
    )

    assert found_by(index, "src/a.py") == [4, 6, 2]


def test_a_rare_word_counts_more_than_a_frequent_one() -> None:
    index = indexed(*(Row(seq, 0, "", f"boat {'long ' * 60}") for seq in range(1, 9)), Row(9, 0, "", "heron " * 60))

    assert found_by(index, "boat heron")[0] == 9


def test_of_equals_the_newer_one_comes_first() -> None:
    index = indexed(Row(2, 1, "read a.txt", "x"), Row(4, 3, "read a.txt", "x"), Row(6, 5, "read a.txt", "x"))

    assert found_by(index, "a.txt") == [6, 4, 2]


def test_in_short_talk_what_was_said_around_a_turn_counts() -> None:
    lone = [Row(seq, 0, "", "yes I see") for seq in range(1, 20)]
    lone[2] = Row(3, 0, "", "the budget")
    lone[12] = Row(13, 0, "", "the budget")
    lone[13] = Row(14, 0, "", "of the harbour")

    assert found_by(indexed(*lone), "harbour budget") == [14, 13, 3]


def a_talk(**said: str) -> Index:
    """Return an index of forty short messages, some of them with the given words by their seqs."""
    rows = [Row(seq, 0, "", said.get(f"at_{seq}", "yes I see")) for seq in range(1, 41)]
    return indexed(*rows)


def test_a_turn_beside_a_better_one_loses_to_an_equal_one_elsewhere() -> None:
    passages = Passages(dict.fromkeys(range(40), 3))
    scored = [Scored(2, 1.0), Scored(3, 0.99), Scored(20, 0.99)]

    assert [one.row for one in passages.order(scored, limit=3)] == [2, 20, 3]


def test_a_turn_beside_a_better_one_is_found_before_a_weaker_one_elsewhere() -> None:
    """The answer stands beside the question that has the same words."""
    index = a_talk(
        at_3="when is the budget of the harbour due",
        at_4="the harbour budget, Friday",
        **{f"at_{seq}": "some harbour" for seq in range(12, 40, 6)},
    )

    assert found_by(index, "harbour budget")[:2] == [4, 3]


def test_scores_fall_along_the_list() -> None:
    """Hits of several sessions are merged by their scores."""
    found = a_talk(at_3="the budget", at_4="the budget", at_5="a budget", at_20="budget").find("budget", limit=9)

    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_long_answers_do_not_drown_what_a_person_said() -> None:
    essay = "For a trip to the coast you may pack a tent, a stove and warm clothes, and plan the trip well. " * 12
    rows = [Row(2 * number, 0, "", essay) for number in range(1, 20)]
    rows += [Row(2 * number + 1, 0, "", "thanks, tell me more about it") for number in range(1, 20)]
    rows[25] = Row(15, 0, "", "my last trip to the coast was with Ada, can you plan another?")

    assert (
        found_by(indexed(*sorted(rows, key=lambda row: row.seq)), "who was with me on the trip to the coast")[0] == 15
    )


def test_in_meetings_a_long_turn_is_as_good_as_a_short_one() -> None:
    long = Row(7, 0, "", "the budget of the harbour was refused, " + "and we went on to talk of the other plans " * 10)
    index = indexed(*(long if seq == 7 else Row(seq, 0, "", "the harbour") for seq in range(1, 40)))

    assert found_by(index, "harbour budget")[0] == 7


def test_an_output_that_repeats_its_path_does_not_outrank_a_read() -> None:
    index = indexed(
        Row(2, 1, "read src/a.py 1 40", "import os"),
        Row(4, 3, "edit src/a.py old new", "src/a.py was changed"),
        Row(6, 5, "read src/b.py 1 40", "import os"),
    )

    assert found_by(index, "src/a.py")[:2] == [4, 2]
    scores = [one.score for one in index.find("src/a.py", limit=2)]
    assert scores[0] < 1.05 * scores[1]


@pytest.mark.parametrize(("words_each", "ratio_min", "ratio_max"), [(5, 1.1, 1.4), (900, 0.9, 1.02)])
def test_words_around_count_for_a_short_message_and_not_for_an_essay(
    words_each: int, ratio_min: float, ratio_max: float
) -> None:
    texts = [" ".join(f"w{seq}x{number}" for number in range(words_each)) for seq in range(60)]
    texts[10], texts[11] = "the harbour", f"budget {texts[11]}"
    texts[45] = f"budget {texts[45]}"

    beside, apart = (
        next(one.score for one in indexed(*rows).find("harbour budget", limit=9) if one.row == place)
        for rows in ([Row(seq, 0, "", text) for seq, text in enumerate(texts, start=1)],)
        for place in (11, 45)
    )

    assert ratio_min < beside / apart < ratio_max


def test_steps_stay_beside_each_other_in_short_talk() -> None:
    steps = [Row(seq, seq - 1, "read a.txt", "x") for seq in (4, 6, 8)]

    assert found_by(indexed(Row(1, 0, "", "look at a.txt"), *steps), "a.txt") == [8, 6, 4, 1]


# --- glimpses ---


def test_a_glimpse_shows_the_call_and_what_was_asked_for() -> None:
    row = Row(2, 1, "read a.txt", f"{'filler ' * 200}the needle is here{' filler' * 200}")

    shown = snippet(row, "needle")

    assert shown.startswith("read a.txt: …")
    assert "the needle is here" in shown
    assert len(shown) <= SNIPPET_CHARS + 10


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        (Row(1, 0, "", "short\n\ttext"), "short text"),
        (Row(1, 1, "read a.txt", ""), "read a.txt"),
        (Row(1, 0, "", ""), ""),
    ],
)
def test_what_is_short_is_shown_whole(row: Row, shown: str) -> None:
    assert snippet(row, "text") == shown
