"""Search in long texts: windows that have most of a query."""

import pytest

from holdfast.core.search.long_text import best_windows, window_line
from holdfast.core.search.passage_text import passages_text

FILLER = "the crew checked the ropes and wrote the usual lines into the book before the watch changed again. " * 200
FACT = "By the way, the anchor chain of Bergen pier 12 weighs 482913 grams. "
QUESTION = "How heavy is the anchor chain at pier 12 in Bergen?"


def shown(texts: list[str], query: str, limit: int = 3) -> list[str]:
    return [window_line(texts[one.text], one, seq=7, blob="abc") for one in best_windows(texts, query, limit=limit)]


def test_a_fact_in_the_middle_of_a_long_text_is_found() -> None:
    (line,) = shown([FILLER, FILLER + FACT + FILLER], QUESTION)
    assert "482913" in line


def test_the_line_says_from_which_byte_the_text_is_read_on() -> None:
    text = f"{'é' * 1_000} {FACT}"
    (window,) = best_windows([text], QUESTION, limit=1)
    offset = len(text[: window.start].encode())
    assert window.start < offset
    assert f'recall(blob="abc", offset={offset})' in window_line(text, window, seq=7, blob="abc")


def test_a_question_about_something_else_finds_nothing() -> None:
    assert shown([FILLER + FACT], "Which invoice did the accountant send to Lisbon?") == []


def test_a_part_of_another_word_is_no_match() -> None:
    assert shown(["The bergenia pierced anchorage chains at 4129. " * 30], "anchor pier Bergen 12") == []


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("We bought berries in the market.", "Which berry?"),
        ("Le café de la gare ferme tard.", "café gare"),
        ("İstanbul has a harbour with a red lamp.", "harbour red lamp"),
        ("depth_bergen_5 = 77mm", "What is depth_bergen_5 set to?"),
        ("東京の天気は晴れです。", "東京 天気"),
    ],
)
def test_words_are_found_in_every_form(text: str, query: str) -> None:
    assert len(shown([text], query)) == 1


def test_overlapping_windows_of_one_match_are_shown_once_and_others_beside() -> None:
    texts = [FACT + FILLER + FACT, FACT]
    found = best_windows(texts, QUESTION, limit=5)
    assert [(one.text, one.start == 0) for one in found] == [(0, True), (0, False), (1, True)]
    assert len(best_windows(texts, QUESTION, limit=2)) == 2


def test_a_word_on_the_border_of_a_window_is_read_to_its_end() -> None:
    text = "x " * 200 + "anchor chain pier Bergen " * 3 + "verylongidentifier_" * 3 + " end"
    assert best_windows([text], "anchor chain pier Bergen", limit=1)


def test_a_very_common_word_costs_a_bounded_number_of_places() -> None:
    assert best_windows(["ropes " * 5_000], "ropes", limit=1)[0].start == 0


def test_lines_of_long_texts_take_at_most_half_of_the_result() -> None:
    lines = [f"long text {number} {'y' * 400}" for number in range(3)]
    assert [line[:11] for line in passages_text([], "x", bytes_max=1_000, more=lines).split("\n")[1:]] == [
        "long text 0"
    ]
    assert len(passages_text([], "x", bytes_max=8_000, more=lines).split("\n")) == 4
