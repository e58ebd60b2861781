"""Labelled error responses: the classifier is measured on providers that it was not fitted to.

The rows came in rounds and were labelled before any classifier saw them. `origin` says whether a report of a failure,
documentation or another client's test gave the words; `unverified` where no source of the wording was found since.
`make coefficients` fits the coefficients; `holdfast bench faults` prints the figures. Nothing is asserted
about rows that were fitted, except that no wrong limit is taken from any of them.
"""

from pathlib import Path

import pytest

from holdfast.cli.commands.analysis import fault_of
from holdfast.core.limits.claims import RULES
from holdfast.lab.benches.faults import Figures, LabelledRow, Part, measure, part_of, read_labelled
from holdfast.types.faults import Confidence, FaultKind

ROWS = read_labelled(Path(__file__).with_name("refusals.jsonl"))
EXAMPLES = read_labelled(Path(__file__).with_name("fault_examples.jsonl"))
UNSEEN = [row for row in ROWS if part_of(row.provider or "") is Part.FROZEN]


# Rows whose limit would be wrong if the request agreed with it, and why.
MISLEADING = {"fifteenth-068": "a parser counts tokens of its own, and nothing in the sentence says so"}


@pytest.fixture(scope="module")
def figures() -> Figures:
    return measure(UNSEEN)


def test_errors_of_unseen_providers_get_their_kind(figures: Figures) -> None:
    """FM-001: wording that is in no list is still recognised by its meaning."""
    assert figures.rows > 100
    assert figures.accuracy >= 0.95, figures.misses


def test_overflows_of_unseen_providers_are_found_and_nothing_else_is_taken_for_one(figures: Figures) -> None:
    (overflow,) = (one for one in figures.kinds if one.kind == FaultKind.TOKEN_OVERFLOW)
    assert min(overflow.precision, overflow.recall) >= 0.97, figures.misses


def test_numbers_of_unseen_providers_are_read(figures: Figures) -> None:
    assert figures.limits_right >= 0.95 * figures.limits_stated
    assert figures.requests_right >= 0.95 * figures.requests_stated


def test_a_certain_kind_of_an_unseen_provider_is_right(figures: Figures) -> None:
    assert figures.certain > 0.3 * figures.rows
    assert figures.certain_right >= 0.99 * figures.certain


def taught_wrong(row: LabelledRow) -> str | None:
    """Return the limit that a row would teach for any request, although its label has another or another kind."""
    fault = fault_of(row)
    is_taught = (fault.kind, fault.unit) in RULES and fault.confidence is not Confidence.GUESS
    if not is_taught or fault.limit is None:
        return None
    is_right = fault.kind in {row.kind, row.alt_kind} and fault.limit == (row.limit or fault.limit)
    return None if is_right else f"{row.body}: {fault.kind} {fault.limit} {fault.unit}, not {row.kind} {row.limit}"


def test_no_row_teaches_a_wrong_limit() -> None:
    found = {row.id: told for row in ROWS + EXAMPLES if (told := taught_wrong(row))}
    assert found.keys() == MISLEADING.keys(), found


def test_rows_have_ids_of_their_own() -> None:
    assert len({row.id for row in ROWS}) == len(ROWS)
