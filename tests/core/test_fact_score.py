"""How likely a fact is used again: by its use, its kind, its company and its family."""

import pytest

from holdfast.core.compaction.digest import remember
from holdfast.core.compaction.facts import Passage
from holdfast.core.compaction.names import fact_scores
from tests.core.passages import answered, called, returned, said


def of(passages: list[Passage]) -> dict[str, float]:
    return fact_scores(remember(passages))


@pytest.mark.parametrize(
    ("likelier", "than"),
    [
        # The agent wrote to one and read the other just as lately.
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
            called(4, "read", path="src/read.go"),
            called(4, "write", path="src/edited.go", text="class Parser\nclass fooParser"),
            answered(5, "wasTaken, alsoTaken"),
        ]
    )

    assert found[likelier] > found[than]


def test_chances_are_between_nothing_and_certainty() -> None:
    found = of([said(seq, "src/main.go isReady 8080 HOLD-12 https://example.org/a") for seq in range(60)])

    assert set(found) == {"src/main.go", "isReady", "8080", "HOLD-12", "https://example.org/a"}
    assert all(0.0 < chance < 1.0 for chance in found.values())


def test_without_facts_there_are_no_chances() -> None:
    assert of([]) == {}
