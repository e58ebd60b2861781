"""What is shown of text that is too long, or is not text."""

import base64
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.text.truncation import BASE64_CHARS_MIN, Stripped, excerpt, fair_shares, well_formed, without_base64
from tests.core.images import a_png

NOISE = random.Random(1).randbytes(3_000)
PNG = a_png(10, 10) + NOISE


def test_a_text_that_fits_is_shown_as_it_is() -> None:
    assert excerpt("grüße", 7, "advice") == "grüße"


def test_a_text_too_long_shows_its_beginning_its_end_and_how_much_is_missing() -> None:
    text = "a" * 500 + "b" * 500

    shown = excerpt(text, 100, "kept")

    assert shown == "a" * 28 + "\n[944 of 1,000 bytes left out here; kept]\n" + "b" * 28


@given(st.text(alphabet="aé世😀\n", max_size=400), st.integers(0, 300))
def test_an_excerpt_keeps_its_bound_and_never_splits_a_character(text: str, bytes_max: int) -> None:
    shown = excerpt(text, bytes_max, "advice")

    assert len(shown.encode()) <= bytes_max
    assert "\ufffd" not in shown
    assert (shown == text) == (len(text.encode()) <= bytes_max)


@given(st.lists(st.integers(0, 1_000), max_size=8), st.integers(0, 3_000))
def test_shares_never_exceed_the_total_and_only_large_ones_give_way(sizes: list[int], total: int) -> None:
    shares = fair_shares(sizes, total)

    assert sum(shares) <= total
    assert all(share <= size for share, size in zip(shares, sizes, strict=True))
    cut = [share for share, size in zip(shares, sizes, strict=True) if share < size]
    whole = [share for share, size in zip(shares, sizes, strict=True) if share == size]
    # Whoever was cut got no less than anyone who was not, but for a rounding by one.
    assert not cut or not whole or min(cut) + 1 >= max(whole)
    assert cut or shares == sizes


def test_half_characters_and_nul_are_replaced_and_nothing_else() -> None:
    assert well_formed("a\ud800b\x00c\udfff\td\r\n😀\x1b[0m") == "a\ufffdb\ufffdc\ufffd\td\r\n😀\x1b[0m"


def _wrapped(line_break: str) -> str:
    letters = base64.b64encode(PNG).decode()
    return line_break.join(letters[start : start + 76] for start in range(0, len(letters), 76))


RUNS = {
    "one line": base64.b64encode(PNG).decode(),
    "as a data address": "data:image/png;base64," + base64.b64encode(PNG).decode(),
    "of the alphabet for addresses": base64.urlsafe_b64encode(PNG).decode(),
    "in lines": _wrapped("\n"),
    "in lines of Windows": _wrapped("\r\n"),
    "in lines inside JSON": _wrapped("\\n"),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_base64_is_replaced_by_a_line_that_says_what_it_was(run: str) -> None:
    found = without_base64(f'{{"image": "{run}", "ok": true}}', "kept somewhere")

    line = f"[{len(run):,} characters of base64 left out: {len(PNG):,} bytes, a PNG image; kept somewhere]"
    assert found == Stripped(f'{{"image": "{line}", "ok": true}}', 1)


def test_base64_cut_off_by_its_writer_is_still_base64() -> None:
    run = base64.b64encode(NOISE).decode()[:-1]
    assert without_base64(run) == Stripped("[3,999 characters of base64 left out: 2,999 bytes, of an unknown type]", 1)


LOOKALIKES = {
    "short": base64.b64encode(NOISE).decode()[: BASE64_CHARS_MIN - 1],
    "hex": NOISE.hex(),
    "a genome": "ACGT" * 1_000,
    "a ruler": "-" * 5_000,
    "prose": "The quick brown fox jumps over 13 lazy dogs. " * 200,
    "padding inside": ("Ab1=" * 700),
}


@pytest.mark.parametrize("text", LOOKALIKES.values(), ids=LOOKALIKES)
def test_what_only_looks_like_base64_stays(text: str) -> None:
    assert without_base64(text) == Stripped(text, 0)


def test_one_letter_too_many_does_not_hide_base64() -> None:
    run = base64.b64encode(NOISE).decode() + "A"
    assert without_base64(run) == Stripped("[4,001 characters of base64 left out: 3,000 bytes, of an unknown type]", 1)


def test_what_was_replaced_once_is_not_replaced_again() -> None:
    once = without_base64(f"{RUNS['one line']} and {RUNS['in lines']}", "kept")
    assert once.runs == 2
    assert without_base64(once.text) == Stripped(once.text, 0)
