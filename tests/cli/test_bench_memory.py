"""`holdfast bench memory` measures what it says, with every kind of summariser."""

import json

import pytest
from click.testing import CliRunner

from holdfast.core.limits import fit
from holdfast.core.limits.fit import Sizes
from holdfast.lab.benches.generated.scripted import KINDS
from holdfast.lab.benches.memory import (
    Figures,
    Growth,
    Shape,
    figures_of,
    is_flat,
    is_kept,
    lines_of,
    measure,
    measure_growth,
    memory,
)
from holdfast.runtime.engine import requests
from holdfast.types.messages import Request


@pytest.mark.parametrize("kind", KINDS)
async def test_a_session_knows_its_facts_with_every_kind_of_summariser(kind: str) -> None:
    figures = await measure(kind, Shape("chat", 70, 1_500, 2), seed=7)

    assert figures.compactions > 0
    assert figures.facts == 35
    assert figures.share >= 0.95, figures
    assert figures.calls_per_compaction_max <= 12, figures


@pytest.mark.parametrize(
    "shape", [Shape("20 kB messages", 10, 20_000, 1), Shape("6 kB outputs", 24, 6_000, 1, has_outputs=True)]
)
async def test_facts_in_the_middle_of_long_messages_and_outputs_are_kept(shape: Shape) -> None:
    """A good summariser keeps them in view: it has read all of each."""
    figures = await measure("good", shape, seed=7)

    assert figures.in_view >= 0.9 * figures.facts, figures
    assert (figures.refused, figures.compactions > 2) == (0, True)


async def test_the_share_in_view_tells_summarisers_apart() -> None:
    shape = Shape("chat", 90, 1_500, 2)
    good, forgetful = await measure("good", shape, seed=7), await measure("forgetful", shape, seed=7)

    assert good.in_view > 1.3 * forgetful.in_view


async def test_a_model_that_declines_is_asked_again_and_leaves_no_apology_in_the_notes() -> None:
    figures = await measure("refusing", Shape("chat", 70, 1_500, 2), seed=7)

    assert figures.refused > 0
    assert figures.calls_per_compaction_max <= 12


async def test_growth_compares_compactions_after_histories_of_different_lengths() -> None:
    found = await measure_growth((20, 80), rounds=1)

    assert [one.messages for one in found] == [20, 80]
    assert all(one.compaction_ms > 0 and one.first_message_ms > 0 and one.snapshot_kb > 1 for one in found)
    flat = [Growth(400, 100.0, 1.0, 9.0), Growth(20_000, 150.0, 1.0, 9.0)]
    steep = [flat[0], Growth(20_000, 151.0, 1.0, 9.0)]
    assert (is_flat(flat), is_flat(steep)) == (True, False)
    assert lines_of(flat)[-1].endswith("ok")
    assert lines_of(steep)[-1].endswith("ABOVE")
    assert [figure.ratio >= figure.floor for figure in (*figures_of(flat), *figures_of(steep))] == [
        True,
        True,
        False,
        True,
    ]


async def test_the_first_message_after_an_import_measures_the_whole_view_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """To see that it does not fit, and to plan the compaction."""
    measured: list[int] = []
    measure_request = fit.measure

    def counted(request: Request) -> Sizes:
        measured.append(len(request.messages))
        return measure_request(request)

    monkeypatch.setattr(requests, "measure", counted)
    await measure_growth((1_000,), rounds=1)
    assert len([count for count in measured if count >= 1_000]) == 2


@pytest.mark.parametrize(
    ("shape", "in_view", "calls", "expected"),
    [
        ("chat", 95, 12, True),
        ("chat", 94, 12, False),
        ("6 kB outputs", 90, 1, True),
        ("6 kB outputs", 89, 1, False),
        ("chat", 100, 13, False),
    ],
)
def test_a_promise_is_broken_below_its_floor(shape: str, in_view: int, calls: int, *, expected: bool) -> None:
    assert is_kept(Figures("good", shape, 9, 100, in_view, 0, {}, 1, calls, calls, 0)) is expected


def test_the_command_prints_its_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.lab.benches.memory._SHORT", (Shape("chat", 28, 2_000),))

    result = CliRunner().invoke(memory, ["--kind", "good", "--json"])
    told = CliRunner().invoke(memory, ["--kind", "good"])

    (figures,) = json.loads(result.stdout)
    assert (result.exit_code, figures["facts"]) == (0, 7)
    assert "100.0% of     7 facts" in told.output
