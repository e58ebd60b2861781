"""The classifier over recorded failures of real providers, where they are at hand."""

import os
from pathlib import Path

import pytest

from holdfast.errors import BadInputError
from holdfast.lab.benches.faults import Figures, corpus_file, measure, read_labelled

ROOT = Path(__file__).parents[2]
CORPUS = Path(os.environ.get("HOLDFAST_CORPUS", ROOT.parent / "shared" / "corpus"))


@pytest.fixture(scope="module")
def figures() -> Figures:
    try:
        path = corpus_file(CORPUS)
    except BadInputError:
        pytest.skip(f"there are no recorded failures at {CORPUS}; set HOLDFAST_CORPUS to the folder that has them")
    return measure(read_labelled(path))


def test_at_least_98_of_100_recorded_failures_get_their_kind(figures: Figures) -> None:
    """FM-001"""
    assert figures.accuracy >= 0.98, [miss for miss in figures.misses if miss.what == "kind"]


def test_at_least_95_of_100_stated_numbers_are_read(figures: Figures) -> None:
    right = figures.limits_right + figures.requests_right
    assert right >= 0.95 * (figures.limits_stated + figures.requests_stated), figures.misses


def test_no_kind_is_recognised_in_less_than_nine_of_ten_cases(figures: Figures) -> None:
    assert [one for one in figures.kinds if min(one.precision, one.recall) < 0.9] == []
