"""Refusals as providers, gateways and client libraries word them, each read for its kind and its numbers.

They came in rounds and were labelled before the classifier saw them. `origin` says whether a report of a failure,
documentation or another client's test gave the words; those of the third round are partly written from memory, and
`unverified` where no source of the wording was found since.
Bodies are short and carry no ids of people.
"""

from pathlib import Path

import msgspec
import pytest
from _pytest.mark import ParameterSet

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


# What stays misread, and why. A rule that reads one of them makes this list fail, so that it shrinks.
MISREAD = {
    "sixth-060": "the number behind 'exceeded:' is as often the limit as what was sent",
    "fifteenth-068": "a parser counts tokens of its own, and nothing in the sentence says that they are not a model's",
}


def param(row: Row) -> ParameterSet:
    reason = MISREAD.get(row.id)
    return pytest.param(row, id=row.id, marks=[] if reason is None else [pytest.mark.xfail(strict=True, reason=reason)])


@pytest.mark.parametrize("row", [param(row) for row in ROWS])
def test_a_refusal_is_read_as_the_person_who_labelled_it_read_it(row: Row) -> None:
    refusal = Refusal(
        dialect=row.api,
        phase=Phase.STREAM if row.stream else Phase.RESPONSE,
        status=row.status,
        body=text_of(row.body),
    )

    fault = classify(refusal, Sent(provider=row.provider))

    assert fault.kind in {row.kind, row.alt_kind}
    if row.limit is not None:
        assert fault.limit == row.limit
    if row.requested is not None:
        assert fault.requested == row.requested


def test_rows_have_ids_of_their_own() -> None:
    assert len({row.id for row in ROWS}) == len(ROWS)
    assert {row.id for row in ROWS} >= MISREAD.keys()
