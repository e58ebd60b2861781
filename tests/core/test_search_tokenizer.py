"""Which words a text is found by."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.search.tokenizer import stem, words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("Don't stop", ["don", "t", "stop"]),
        ("Tests tested testing", ["test", "test", "test"]),
        ("a F", ["a", "f"]),
        ("camelCase", ["camelcase", "camel", "cas"]),
        ("snake_case", ["snake_case", "snak", "cas"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("os.path", ["os.path", "os", "path"]),
        (
            "/usr/src/setup_test.go",
            ["usr/src/setup_test.go", "usr", "src", "setup_test.go", "setup_test", "setup", "test", "go"],
        ),
        ("v1.2", ["v1.2", "v1", "v", "1", "2"]),
        ("$HOME", ["home", "$home", "hom"]),
        ("Café ZÜRICH", ["caf", "zurich"]),
        ("Straße", ["strasse"]),
        ("東京タワー", ["東京", "京タ", "タワ", "ワー"]),
        ("本", ["本"]),
        ("日本abc.py", ["日本", "abc.py", "abc", "py"]),
        ("ёлка日本", ["елка", "日本"]),
        ("½", ["1", "2"]),
        ("x\\ny", ["x", "y"]),
        ("x\\qy", ["x/qy", "x", "qy"]),
    ],
)
def test_a_text_is_cut_into_words(text: str, found: list[str]) -> None:
    assert words(text) == found


def test_a_long_hexadecimal_id_is_found_by_its_beginnings() -> None:
    found = words("3f9a2c71d04be85566aa77bb")

    assert found == ["3f9a2c71d04be85566aa77bb", "3f9a2c7", "3f9a2c71", "3f9a2c71d0", "3f9a2c71d04b"]


def test_a_short_one_is_a_word() -> None:
    assert words("e29b") == ["e29b"]


def test_noise_without_end_is_no_word() -> None:
    noise = "x" * 65

    assert words(noise) == []
    assert words(f"{noise}Y/{noise}Y/{noise}Y") == []


@pytest.mark.parametrize(
    ("word", "stemmed"),
    [
        ("stories", "story"),
        ("stopped", "stop"),
        ("running", "run"),
        ("calling", "call"),
        ("files", "fil"),
        ("file", "fil"),
        ("class", "class"),
        ("red", "red"),
        ("king", "king"),
        ("bus", "bus"),
        ("use", "use"),
        ("b2", "b2"),
    ],
)
def test_endings_go_and_short_words_stay(word: str, stemmed: str) -> None:
    assert stem(word) == stemmed


@given(st.text(max_size=200))
def test_any_text_has_words_without_spaces_or_capitals(text: str) -> None:
    for word in words(text):
        assert word
        assert not any(char.isspace() for char in word)
        assert not (word.isascii() and word != word.lower())


@given(st.text(alphabet="abCD_./-9é日本 ", max_size=60))
def test_a_text_is_found_by_each_of_its_pieces(text: str) -> None:
    whole = set(words(text))

    for piece in text.split():
        assert set(words(piece)) <= whole
