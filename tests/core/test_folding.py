"""Repeated lines are folded without loss."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.proxy.folding import fold_repeats, unfold

HEARTBEATS = "\n".join(
    f"12:{number // 60:02}:{number % 60:02} worker 7 is alive, id={number + 98}" for number in range(90)
)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        pytest.param(
            "\n".join(["begin", *["the harbour is closed"] * 40, "end"]),
            "begin\n[the next line occurs 40 times in a row]\nthe harbour is closed\nend",
            id="a line",
        ),
        pytest.param(
            "\n".join(["GET /chart", "  not found"] * 30),
            "[the next 2 lines occur 30 times in a row]\nGET /chart\n  not found",
            id="a block",
        ),
        pytest.param(
            HEARTBEATS,
            "[the next line occurs 90 times in a row; with {1} = 00 x60, 01 x30; {2} = 00..59, 00..29; {3} = 98..187]\n"
            "12:{1}:{2} worker 7 is alive, id={3}",
            id="counters",
        ),
        pytest.param(
            "\n".join(f"depth of the sounding is {depth} fathoms" for depth in range(40, 240, 5)),
            "[the next line occurs 40 times in a row; with {1} = 40..235 step 5]\ndepth of the sounding is {1} fathoms",
            id="steps",
        ),
        pytest.param(
            "\n".join(f"commit {name} is in the harbour already" for name in ("00c0ffee", "1badcafe", "2badcafe") * 6),
            "[the next line occurs 18 times in a row; with {1} = "
            + ", ".join(["00c0ffee", "1badcafe", "2badcafe"] * 6)
            + "]\ncommit {1} is in the harbour already",
            id="identifiers",
        ),
        pytest.param(
            "\n".join(f"berth {13 - number} of the harbour in the north is free" for number in range(14)),
            "[the next line occurs 14 times in a row; with {1} = 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]\n"
            "berth {1} of the harbour in the north is free",
            id="downwards",
        ),
    ],
)
def test_a_run_is_stated_with_the_values_that_differ(text: str, folded: str) -> None:
    assert (fold_repeats(text), unfold(folded)) == (folded, text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("one line\n" * 5, id="too little to save"),
        pytest.param("\n".join(f"{number * 7919 % 10_007}" for number in range(400)), id="numbers only"),
        pytest.param("\n".join(["alive {1} and well in the harbour"] * 40), id="it has our marks"),
        pytest.param(
            "\n".join(["[the next line occurs 4 times in a row]", *["alive and well, all of us"] * 40]), id="a header"
        ),
        pytest.param("the harbour is closed\n" * 30_000, id="too long"),
        pytest.param(("prose " * 900) + "\n" + "\n".join(["alive and well in the harbour"] * 18), id="a small share"),
    ],
)
def test_a_text_is_left_as_it_is_where_a_fold_is_ambiguous_or_saves_too_little(text: str) -> None:
    assert fold_repeats(text) is None


_LINES = st.sampled_from(
    [
        "alive",
        "alive 0",
        "alive 01 of 5",
        "id=0x1f at 09:59",
        "",
        "  at line 7",
        "deadbeef01 gone",
        "alive 10",
        "x 2 y 3",
    ]
)


@given(
    st.lists(st.tuples(st.lists(_LINES, min_size=1, max_size=9), st.integers(1, 40)), max_size=6), st.integers(0, 99)
)
def test_every_fold_can_be_undone(blocks: list[tuple[list[str], int]], first: int) -> None:
    chance = random.Random(first)
    lines = [
        line.replace("0", str(chance.choice([first + place, chance.randrange(10**6), 0])).zfill(chance.choice([1, 3])))
        for block, times in blocks
        for place in range(times)
        for line in block
    ]
    text = "\n".join(lines)
    folded = fold_repeats(text)
    assert folded is None or (unfold(folded) == text and len(folded) < len(text))
