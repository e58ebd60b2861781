"""What is promised of sizes and of the ledger, measured on real sessions. Skipped where there are none."""

import os
from pathlib import Path

import pytest

from holdfast.lab.benches import recall
from holdfast.lab.benches.digest import HELD_FLOOR as TOLD_FLOOR
from holdfast.lab.benches.digest import measure_told
from holdfast.lab.benches.ledger import HELD_FLOOR, LedgerReport, measure_ledger
from holdfast.lab.benches.masking import COST_MAX, measure_masking
from holdfast.lab.benches.sizing import WITHIN_SHARE_FLOOR, measure_sizing
from holdfast.lab.benches.view import SHARE_WANTED, VIEW_MS_MAX, measure_prefix, measure_view
from holdfast.rescue.neutral import read_neutral
from tests.house.places import ROOT

CORPUS = Path(os.environ.get("HOLDFAST_CORPUS", ROOT.parent / "shared" / "corpus"))
NEUTRAL = CORPUS / "transcripts" / "neutral"

pytestmark = pytest.mark.skipif(
    not NEUTRAL.is_dir(),
    reason=f"there are no real transcripts at {NEUTRAL}; set HOLDFAST_CORPUS to the folder that has them",
)


@pytest.fixture(scope="module")
def report() -> LedgerReport:
    return measure_ledger(CORPUS)


def test_every_transcript_is_read_to_its_end() -> None:
    counts = {path.name: sum(1 for _ in read_neutral(path)) for path in sorted(NEUTRAL.glob("*.jsonl.gz"))}
    assert counts
    assert all(counts.values())


def test_estimates_are_within_a_tenth_of_reported_usage_after_ten_calls() -> None:
    """FM-012, FM-013: the estimate is learned per model, and good before it is needed."""
    found = measure_sizing(CORPUS)
    assert found.whole_per_session.within_10_percent >= WITHIN_SHARE_FLOOR
    # Without the hidden part, and with one calibration for all sessions of a model: 96.8 % were seen, 98.6 % of those
    # from 5,000 tokens on.
    assert found.visible_per_model.within_10_percent >= WITHIN_SHARE_FLOOR
    assert found.visible_large_per_model.within_10_percent >= 0.97
    # The margin holds what it promises: two standard errors, so 95 % and more.
    assert found.visible_per_model.above_upper <= 0.05


def test_three_thousand_tokens_hold_what_agents_use_again(report: LedgerReport) -> None:
    """FM-072: exact facts survive a compaction, on sessions that no weight was fitted to and on average over all."""
    # A quarter of the characters is for names, so the text holds some 150 of them beside its sentences. After two
    # compactions of one session 844 were used again, which takes a larger window.
    assert report.held_out.pooled >= HELD_FLOOR
    assert report.held_out.mean >= HELD_FLOOR
    assert report.all.mean >= 0.65


def test_a_larger_window_holds_more_of_what_agents_use_again(report: LedgerReport) -> None:
    wide = measure_ledger(CORPUS, 4 * report.tokens_max)
    assert wide.all.pooled >= HELD_FLOOR
    assert wide.all.mean >= 0.87


def test_the_digest_holds_more_names_than_models_summaries_held(report: LedgerReport) -> None:
    assert report.all.pooled >= 1.5 * report.all.pooled_agents_summary


def test_what_a_person_told_in_few_words_is_kept_without_a_model() -> None:
    assert measure_told(CORPUS).share >= TOLD_FLOOR


def test_searches_find_what_was_read_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    # Generated conversations are the subject of cli/test_bench_recall.py, and of `holdfast bench recall`.
    for seeds in ("CHAT_SEEDS", "ESSAYS_SEEDS"):
        monkeypatch.setattr(recall, seeds, ())
    found = recall.measure_recall(CORPUS)
    assert found.path_recall_5 >= recall.PATH_RECALL_FLOOR
    assert found.other_agent_recall_5 >= recall.PATH_RECALL_FLOOR
    assert found.hit_5 >= recall.HIT_5_FLOOR
    assert found.hit_10 >= recall.HIT_10_FLOOR


def test_masking_saves_what_it_promises_and_hides_nothing_for_good() -> None:
    found = measure_masking(CORPUS)
    assert found.cost <= COST_MAX
    assert found.masked_outputs > 0
    assert found.unreadable == ()


def test_a_full_window_is_built_in_no_time() -> None:
    # 2.4 ms were seen, so that even a crowded machine keeps the promise.
    found = measure_view(CORPUS)
    assert found.tokens >= 200_000
    assert found.view.value <= VIEW_MS_MAX


def test_between_changes_of_the_view_each_request_starts_with_the_one_before() -> None:
    found = measure_prefix(CORPUS, sessions=6)
    assert found.pairs > 0
    assert found.share == SHARE_WANTED
