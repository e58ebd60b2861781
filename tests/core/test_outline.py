"""A text that is too long is shown by its beginning, an outline of its middle, and its end."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.limits.sizing import tokens_of_text
from holdfast.core.text.outline import cut_at_sentence, outlined, size_in_bytes
from holdfast.core.text.truncation import well_formed
from tests.core.passages import texts

LINES = [f"2026-01-01 worker {number} has taken task {number * 7}" for number in range(2_000)]
PASTE = "\n".join(LINES) + "\nWhich task has worker 1?"


def test_the_question_behind_a_paste_is_shown_and_most_of_the_room_is_used() -> None:
    shown = outlined(PASTE, 5_000, "recall(seq=3, offset=n) reads on")

    assert shown.startswith(LINES[0])
    assert shown.endswith("Which task has worker 1?")
    assert 4_500 < tokens_of_text(shown) <= 5_000
    assert re.search(r"\[[\d,]+ of [\d,]+ bytes left out here; recall\(seq=3, offset=n\) reads on\]", shown)


@pytest.mark.parametrize("size_max", range(3_000, 12_000, 700))
@pytest.mark.parametrize("every", [0, 3, 500])
def test_most_of_any_room_is_used_whatever_the_outline_takes(size_max: int, every: int) -> None:
    lines = [f"ERROR: {line}" if every and place % every == 0 else line for place, line in enumerate(LINES)]

    assert 0.88 * size_max <= tokens_of_text(outlined("\n".join(lines), size_max, "recall")) <= size_max


def test_headings_and_errors_of_the_middle_are_named_by_their_byte() -> None:
    text = "\n".join([*LINES[:800], "## The harbour", *LINES[800:1_200], "ERROR: disk 7 failed", *LINES[1_200:]])

    shown = outlined(text, 3_000, "recall", start_bytes=1_000)

    for line in ("## The harbour", "ERROR: disk 7 failed"):
        at = re.search(rf"^([\d,]+): {line}$", shown, re.MULTILINE)
        assert at is not None
        assert text.encode()[int(at[1].replace(",", "")) - 1_000 :].startswith(line.encode())
    assert "1 headings, 1 lines with errors" in shown


def test_many_headings_are_spread_over_the_middle() -> None:
    text = "\n".join(f"## Part {number}\n{line}" for number, line in enumerate(LINES))

    parts = [
        int(found) for found in re.findall(r"^[\d,]+: ## Part (\d+)$", outlined(text, 4_000, "recall"), re.MULTILINE)
    ]

    assert len(parts) > 5
    assert parts[0] < 400
    assert parts[-1] > 1_500


def test_a_middle_without_headings_is_sampled() -> None:
    assert len(re.findall(r"^[\d,]+: 2026-01-01 worker", outlined(PASTE, 3_000, "recall"), re.MULTILINE)) >= 8


def test_blank_lines_of_a_middle_are_no_sample() -> None:
    assert "some of them by their first byte:\nend of the outline]" in outlined("\n" * 90_000 + "end", 3_000, "recall")


def test_a_short_text_is_unchanged_and_a_tiny_room_holds_at_most_the_line() -> None:
    assert outlined("short", 100, "recall") == "short"
    assert "bytes left out" in outlined(PASTE, 60, "recall")
    assert outlined(PASTE, 0, "recall") == ""


def test_a_text_of_one_line_is_shown_by_both_ends() -> None:
    shown = outlined("x" * 5_000 + "the end", 600, "recall", measure=size_in_bytes)

    assert shown.startswith("x" * 200)
    assert shown.endswith("xthe end")
    assert size_in_bytes(shown) <= 600


@given(text=texts.map(well_formed), times=st.integers(1, 400), size_max=st.integers(0, 400))
def test_the_size_holds_for_any_text(text: str, times: int, size_max: int) -> None:
    whole = text * times
    for measure in (tokens_of_text, size_in_bytes):
        shown = outlined(whole, size_max, "recall", measure=measure)

        assert measure(shown) <= size_max
        assert shown == whole or measure(whole) > size_max


@pytest.mark.parametrize(
    ("text", "tokens_max", "is_cut", "expected"),
    [
        ("One is done. Two is done.", 100, False, "One is done. Two is done."),
        ("One is done. Two is do", 100, True, "One is done."),
        ("One is done. Two is done. Three is not done yet", 6, False, "One is done."),
        ("no sentence at all but many words in a row", 4, False, "no sentence at"),
        ("One is do", 100, True, "One is do"),
        ("x" * 90, 9, False, "x" * 18),
        ("anything", 0, False, ""),
    ],
)
def test_a_text_is_cut_at_a_sentence(text: str, tokens_max: int, is_cut: bool, expected: str) -> None:  # noqa: FBT001
    assert cut_at_sentence(text, tokens_max, is_cut=is_cut) == expected
