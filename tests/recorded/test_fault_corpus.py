"""The classifier over recorded failures of providers that it was not fitted to, where they are at hand."""

import os
from pathlib import Path

import pytest

from holdfast.errors import BadInputError
from holdfast.lab.benches.faults import Figures, LabelledRow, Part, corpus_file, measure, part_of, read_labelled
from tests.core.test_fault_rows import taught_wrong

ROOT = Path(__file__).parents[2]
CORPUS = Path(os.environ.get("HOLDFAST_CORPUS", ROOT.parent / "shared" / "corpus"))


@pytest.fixture(scope="module")
def rows() -> list[LabelledRow]:
    try:
        path = corpus_file(CORPUS)
    except BadInputError:
        pytest.skip(f"there are no recorded failures at {CORPUS}; set HOLDFAST_CORPUS to the folder that has them")
    return read_labelled(path)


@pytest.fixture(scope="module")
def figures(rows: list[LabelledRow]) -> Figures:
    return measure([row for row in rows if row.provider and part_of(row.provider) is Part.FROZEN])


def test_recorded_failures_of_unseen_providers_get_their_kind(figures: Figures) -> None:
    """FM-001. A few dozen rows, so that two misreadings are five in a hundred."""
    assert figures.rows >= 10
    assert figures.accuracy >= 0.9, [miss for miss in figures.misses if miss.what == "kind"]


def test_at_least_95_of_100_stated_numbers_are_read(figures: Figures) -> None:
    right = figures.limits_right + figures.requests_right
    assert right >= 0.95 * (figures.limits_stated + figures.requests_stated), figures.misses


def test_no_recorded_failure_teaches_a_wrong_limit(rows: list[LabelledRow]) -> None:
    """Of all rows, fitted or not, and for any request that would agree with the number."""
    assert [told for row in rows if (told := taught_wrong(row))] == []
