"""The classifier over recorded failures of providers that it was not fitted to, where they are at hand."""

import os
from pathlib import Path

import pytest

from holdfast.errors import BadInputError
from holdfast.lab.benches.faults import Figures, Part, corpus_file, measure, part_of, read_labelled

ROOT = Path(__file__).parents[2]
CORPUS = Path(os.environ.get("HOLDFAST_CORPUS", ROOT.parent / "shared" / "corpus"))


@pytest.fixture(scope="module")
def figures() -> Figures:
    try:
        path = corpus_file(CORPUS)
    except BadInputError:
        pytest.skip(f"there are no recorded failures at {CORPUS}; set HOLDFAST_CORPUS to the folder that has them")
    return measure([row for row in read_labelled(path) if row.provider and part_of(row.provider) is Part.FROZEN])


def test_recorded_failures_of_unseen_providers_get_their_kind(figures: Figures) -> None:
    """FM-001. A few dozen rows, so that two misreadings are five in a hundred."""
    assert figures.rows >= 10
    assert figures.accuracy >= 0.9, [miss for miss in figures.misses if miss.what == "kind"]


def test_at_least_95_of_100_stated_numbers_are_read(figures: Figures) -> None:
    right = figures.limits_right + figures.requests_right
    assert right >= 0.95 * (figures.limits_stated + figures.requests_stated), figures.misses
