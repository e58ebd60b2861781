"""What is quoted of what a person said: what was laid down first, then what was told, then the rest."""

import pytest

from holdfast.core.compaction.ledger import make_ledger
from holdfast.core.compaction.quotes import (
    ASKED,
    FOR_GOOD,
    PASTED,
    PASTED_FOR_GOOD,
    QUOTE_CHARS,
    SAID,
    TASK,
    TOLD,
    instructions,
    sentence_at,
)
from tests.core.passages import answered, called, said

PASTED_TEXT = "The harbour master keeps a list of ships and of what they carry. " * 40


@pytest.mark.parametrize(
    ("text", "worth", "line"),
    [
        ("remember harbour = Kiel", FOR_GOOD, "remember harbour = Kiel"),
        ("berth = 17", FOR_GOOD, "berth = 17"),
        ("Please answer in Danish from now on.", FOR_GOOD, "Please answer in Danish from now on."),
        ("Our berth is QX-7731.", TOLD, "Our berth is QX-7731."),
        ("We meet Lena on board.", TOLD, "We meet Lena on board."),
        ('the word is "marzipan"', TOLD, 'the word is "marzipan"'),
        ("the word is marzipan", SAID, "the word is marzipan"),
        ("where is the berth of 1913?", ASKED, "where is the berth of 1913?"),
        ("go on", ASKED, "go on"),
        (PASTED_TEXT, PASTED, f"{PASTED_TEXT[:120]} … {PASTED_TEXT.strip()[-39:]}"),
        (
            f"{PASTED_TEXT}Never moor at the old pier! {PASTED_TEXT}",
            PASTED_FOR_GOOD,
            "Never moor at the old pier!",
        ),
    ],
)
def test_what_a_message_is_worth_follows_from_how_it_was_said(text: str, worth: int, line: str) -> None:
    texts = ["the first message", text, "the newest message"]
    assert [found for found in instructions(texts) if found[1] == 1] == [(worth, 1, line)]


def test_a_sentence_without_an_end_is_quoted_around_what_lasts() -> None:
    text = f"{'and so on ' * 50}never moor here {'and so on ' * 50}"
    ((_, _, line),) = [found for found in instructions(["a", text, "b"]) if found[1] == 1]
    assert "never moor here" in line
    assert len(line) <= QUOTE_CHARS + len(" … ")


def test_the_worthiest_comes_first_and_of_those_the_newest() -> None:
    texts = [
        "build a pier",
        "it is 12 fathoms deep",
        "always ask before you sink a ship",
        "and is it deep?",
        "it is 14 fathoms deep",
        "go on with it",
    ]
    assert [(worth, index) for worth, index, _ in instructions(texts)] == [
        (TASK, 5),
        (TASK, 5),
        (TASK, 0),
        (TASK, 0),
        (FOR_GOOD, 2),
        (TOLD, 4),
        (TOLD, 1),
        (SAID, 5),
        (SAID, 0),
        (ASKED, 3),
    ]


def test_what_was_told_in_few_words_outlives_what_was_pasted_since() -> None:
    passages = [said(1, "build a pier"), said(2, "The word is 'marzipan'.")]
    passages += [said(seq, f"{seq} {PASTED_TEXT}") for seq in range(3, 60)]
    passages += [called(60, "sound"), said(61, "go on")]
    assert "user [#2] The word is 'marzipan'." in make_ledger(passages, tokens_max=1_000).render()


def test_a_newest_message_that_is_too_long_leaves_room_for_the_others() -> None:
    hashes = " ".join(f"{number:040x}" for number in range(1, 40))
    passages = [said(1, "remember harbour = Kiel"), said(2, "remember pier = 17")]
    passages += [called(3, "sound"), said(4, hashes)]
    shown = make_ledger(passages, tokens_max=1_000).render()
    assert "remember harbour = Kiel" in shown
    assert "remember pier = 17" in shown


def test_in_a_talk_what_was_said_takes_the_room_that_words_would_have() -> None:
    told = [said(seq, f"ship number {seq} is called after its owner") for seq in range(1, 60)]
    talk = make_ledger([*told, answered(60, "aye")], tokens_max=1_000)
    work = make_ledger([*told, called(60, "sound")], tokens_max=1_000)
    assert len(talk.entries) > len(work.entries)


def test_a_sentence_ends_with_its_line_and_within_its_bound() -> None:
    text = "One thing. Another 3.5 thing! A third\nA line of its own"

    assert [sentence_at(text, text.index(word)) for word in ("One", "3.5", "third", "own")] == [
        "One thing.",
        "Another 3.5 thing!",
        "A third",
        "A line of its own",
    ]
    assert sentence_at("これは一つ。それは二つ。", 8) == "それは二つ。"
    assert sentence_at("x" * 100 + "HERE" + "y" * 100, 100, chars_max=8) == "xxxxHEREyyyy"
