"""Limit or request: which number is which."""

import pytest

from holdfast.core.faults.numbers import Stated, stated
from holdfast.types.faults import Unit

T, B, C, N, P = Unit.TOKENS, Unit.BYTES, Unit.CHARS, Unit.COUNT, Unit.PIXELS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prompt is too long: 9000 tokens > 8192 maximum", Stated(8192, 9000, None, T)),
        ("prompt (9000 tokens) >= n_ctx (8192)", Stated(8192, 9000, None, T)),
        ("9,000 / 8,192 tokens", Stated(8192, 9000, None, T)),
        ("input and max_tokens exceed the limit: 8000 + 1000 > 8192", Stated(8192, 9000, 1000, T)),
        ("prompt 8000 plus 1000 files exceeds 8192", Stated(8192, 9000, None, T)),
        ("max_tokens is too large (30000 > 32768 - 5000)", Stated(32768, 35000, 30000, T)),
        ("range of input length should be [1, 6000]", Stated(6000, None, None, T)),
        ("use between 1 and 4096", Stated(4096, None, None, T)),
        ("the range is from 1 (inclusive) to 4097 (exclusive)", Stated(4096, None, None, T)),
        ("limit of 50000 exceeded: this request needs 60000", Stated(50000, 60000, None, T)),
        (
            "limit 8192, you requested 9000 tokens (8000 in the messages, 1000 in the completion)",
            Stated(8192, 9000, 1000, T),
        ),
        ("at most 8192. given: 8000 inputs tokens and 1000 max_new_tokens", Stated(8192, 9000, 1000, T)),
        ("the limit is 8192 tokens, exceeded by 808 tokens", Stated(8192, 9000, None, T)),
        ("exceeded the window by 808 tokens", Stated(None, None, None, T)),
        ("with 8192 maximum context length, too long: 9000", Stated(8192, 9000, None, T)),
        ("limit 8192, used 8000, requested 500", Stated(8192, 500, None, T)),
        ("max 8192, used 9000", Stated(8192, 9000, None, T)),
        ("a window of 128k tokens, 150k were given", Stated(128_000, 150_000, None, T)),
        ("a window of 1m tokens", Stated(1_000_000, None, None, T)),
        ("a 32ki window, got 40ki tokens", Stated(32_768, 40_960, None, T)),
        ("150k tokens > 128k maximum", Stated(128_000, 150_000, None, T)),
        ("at most 1 million tokens, at most 64 thousand written", Stated(1_000_000, None, None, T)),
        ("输入 13.5万 tokens 超过 12.8万", Stated(128_000, 135_000, None, T)),
        ("your input has 9000 tokens. please reduce it to 8192 tokens", Stated(8192, 9000, None, T)),
        ("input of 9000 tokens with 500 output tokens exceeds the 8192 token window", Stated(8192, 9000, 500, T)),
        ("cannot truncate to 8192, required 9000", Stated(8192, 9000, None, T)),
        ("length is 9000, which is outside the range (0, 8192]", Stated(8192, 9000, None, T)),
        # Another unit, an index, a code, a time, an id: none of them counts tokens.
        ("limit 8192, your prompt contains 40000 characters", Stated(8192, None, None, T)),
        ("at index 5, code 2013, wait for 60 seconds, messages.3.content[2], gpt-4-32768", Stated(None, None, None, T)),
        ("limit 99999999999", Stated(None, None, None, T)),
    ],
)
def test_words_around_a_number_tell_what_it_is(text: str, expected: Stated) -> None:
    assert stated(text, {}, T) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("image exceeds 5 mb maximum: 6000000 bytes > 5242880 bytes", Stated(5242880, 6000000, None, B)),
        ("max size is 4 mib", Stated(4 * 2**20, None, None, B)),
        ("max size is 1.5kb", Stated(1500, None, None, B)),
        ("at most 5 images may be sent, 7 were provided", Stated(5, 7, None, N)),
        ("max allowed: 8000 pixels", Stated(8000, None, None, P)),
        ("at most 64 characters", Stated(64, None, None, C)),
        ("at most 64", Stated(64, None, None, None)),
        ("exceeds the 800-message limit", Stated(800, None, None, N)),
    ],
)
def test_the_unit_is_read_where_it_is_not_given(text: str, expected: Stated) -> None:
    assert stated(text, {}, None) == expected


def test_named_fields_state_numbers_that_the_sentence_leaves_out() -> None:
    fields = {"code": 400, "n_ctx".replace("_", ""): 8192, "nprompttokens": 9000, "maxtokensallowed": 1}
    assert stated("the request exceeds the context size", fields, T) == Stated(8192, 9000, None, T)


def test_what_a_sentence_compares_outright_beats_its_fields() -> None:
    assert stated("9000 > 8192", {"limit": 7, "requested": 8}, T) == Stated(8192, 9000, None, T)
