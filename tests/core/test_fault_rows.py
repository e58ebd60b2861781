"""Refusals as providers, gateways and client libraries word them, each read for its kind and its numbers.

They came in rounds and were labelled before the classifier saw them. `origin` says whether a report of a failure,
documentation or another client's test gave the words; those of the third round are partly written from memory, and
`unverified` where no source of the wording was found since.
Bodies are short and carry no ids of people.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.core.faults.classifier import classify
from holdfast.types.faults import Phase, Refusal, Sent
from tests.core.fitting import text_of


class Row(msgspec.Struct, forbid_unknown_fields=True):
    """One refusal and what it says. `alt_kind` is right as well."""

    id: str
    provider: str
    api: str
    status: int | None
    body: object
    kind: str
    origin: str
    alt_kind: str | None = None
    limit: int | None = None
    requested: int | None = None
    stream: bool = False


ROWS = [
    msgspec.json.decode(line, type=Row) for line in Path(__file__).with_name("refusals.jsonl").read_bytes().splitlines()
]


# Rows that stay misread, and why. The test fails for a row of this list that is read right, so that the list shrinks.
MISREAD = {
    "sixth-060": "the number behind 'exceeded:' is as often the limit as what was sent",
    "fifteenth-068": "a parser counts tokens of its own, and nothing in the sentence says that they are not a model's",
}


def wrong(row: Row) -> str:
    """Return what is read differently from the label of a row, or nothing."""
    refusal = Refusal(
        dialect=row.api,
        phase=Phase.STREAM if row.stream else Phase.RESPONSE,
        status=row.status,
        body=text_of(row.body),
    )
    fault = classify(refusal, Sent(provider=row.provider))
    labelled: dict[str, tuple[set[object], object]] = {
        "kind": ({row.kind, row.alt_kind}, fault.kind),
        "limit": ({fault.limit if row.limit is None else row.limit}, fault.limit),
        "requested": ({fault.requested if row.requested is None else row.requested}, fault.requested),
    }
    return "; ".join(
        f"{what} is {found}, not {' or '.join(sorted(str(one) for one in right if one is not None))}"
        for what, (right, found) in labelled.items()
        if found not in right
    )


def test_a_refusal_is_read_as_the_person_who_labelled_it_read_it() -> None:
    """One test lists every row that is read wrongly: an item per row was a third of all items of the suite."""
    found = {row.id: told for row in ROWS if (told := wrong(row))}

    assert {name: told for name, told in found.items() if name not in MISREAD} == {}
    assert {name: reason for name, reason in MISREAD.items() if name not in found} == {}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, ""),
        ({"kind": "quota", "alt_kind": "token_overflow"}, ""),
        ({"kind": "quota"}, "kind is token_overflow, not quota"),
        ({"kind": "auth", "alt_kind": "quota"}, "kind is token_overflow, not auth or quota"),
        ({"limit": 1, "requested": 2}, "limit is 8192, not 1; requested is 9000, not 2"),
    ],
)
def test_a_wrong_row_is_listed_with_what_was_read(changed: dict[str, Any], told: str) -> None:
    body = {"error": {"message": "prompt is too long: 9000 tokens > 8192 maximum"}}
    row = Row("x", "", "anthropic", 400, body, "token_overflow", "docs", limit=8192, requested=9000)

    assert wrong(msgspec.structs.replace(row, **changed)) == told


def test_rows_have_ids_of_their_own() -> None:
    assert len({row.id for row in ROWS}) == len(ROWS)
    assert {row.id for row in ROWS} >= MISREAD.keys()
