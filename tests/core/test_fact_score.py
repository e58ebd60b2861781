"""How likely a fact is used again: by its use, its kind, its company and its family."""

import pytest

from holdfast.core.compaction.digest import remember
from holdfast.core.compaction.facts import Passage
from holdfast.core.compaction.names import fact_scores, rank
from tests.core.passages import answered, called, returned, said


def of(passages: list[Passage]) -> dict[str, float]:
    return fact_scores(remember(passages))


@pytest.mark.parametrize(
    ("likelier", "than"),
    [
        # The agent wrote to one, and read the other a little later.
        ("src/edited.go", "src/read.go"),
        # One was called for, one only printed.
        ("src/read.go", "src/printed.go"),
        # What a person named, against what a tool printed.
        ("askedFor", "printedAlone"),
        # One stands beside a name that the agent took up, the other beside none.
        ("besideTaken", "printedAlone"),
        # One shares a word with names that the agent took up, in an output of which it took up nothing.
        ("printedTaken", "printedAlone"),
        # The same use of a compound name and of a plain one.
        ("fooParser", "Parser"),
    ],
)
def test_one_fact_is_likelier_used_again_than_another(likelier: str, than: str) -> None:
    found = of(
        [
            said(1, "<note>askedFor</note>"),
            returned(2, "printedAlone printedTaken"),
            returned(3, "src/printed.go besideTaken wasTaken"),
            called(4, "write", path="src/edited.go", text="class Parser\nclass fooParser"),
            called(5, "read", path="src/read.go"),
            answered(6, "wasTaken, alsoTaken"),
        ]
    )

    assert found[likelier] > found[than]


def test_names_of_a_file_are_likelier_while_the_agent_uses_the_file() -> None:
    read_long_ago = [
        called(1, "read", path="src/old.go"),
        returned(2, "parseOld"),
        called(3, "read", path="src/new.go"),
        returned(4, "parseNew"),
        *(said(seq, "go on") for seq in range(5, 60)),
    ]
    before = of(read_long_ago)
    after = of([*read_long_ago, called(60, "bash", command="wc -l src/new.go")])

    assert before["parseNew"] == pytest.approx(before["parseOld"], rel=0.2)
    assert after["parseNew"] > 1.5 * after["parseOld"]


def test_a_likely_path_is_listed_before_unlikely_short_names() -> None:
    path = "/srv/harbour/services/planning/internal/booking/reservation_calendar.py"
    memory = remember(
        [returned(1, " ".join(f"xy{letter}Z" for letter in "abcdefghijklmnop"))]
        + [called(seq, "read", path=path) for seq in range(2, 8)]
    )

    assert next(iter(rank(memory, fact_scores(memory), lambda _: False))) == path


def test_chances_are_between_nothing_and_certainty() -> None:
    found = of([said(seq, "src/main.go isReady 8080 HOLD-12 https://example.org/a") for seq in range(60)])

    assert set(found) == {"src/main.go", "isReady", "8080", "HOLD-12", "https://example.org/a"}
    assert all(0.0 < chance < 1.0 for chance in found.values())


def test_without_facts_there_are_no_chances() -> None:
    assert of([]) == {}
