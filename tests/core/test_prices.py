"""What calls cost, what was spent, and when no more is paid."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.compaction.summary import why_not_paid
from holdfast.core.fold.recovery_state import account, in_vain_today, spent_today
from holdfast.core.fold.session_state import InFlight, PendingCompaction, Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.prices import NO_PRICES, NOTHING_SPENT, Prices, Spent, spoken_usd
from holdfast.testing.builders import a_message
from holdfast.types.faults import Confidence, Fault, FaultKind, Phase, Refusal
from holdfast.types.messages import Usage
from holdfast.types.records import (
    AnyRecord,
    AttemptFailed,
    CompactionApplied,
    CompactionOutcome,
    CompactionSettled,
    Logged,
    Outcome,
    PieceSummarised,
    ReplyRecorded,
    SessionConfigured,
    SummaryRefused,
    Trigger,
    TurnEnded,
)

DAY = 86_400.0
PRICES = Prices(2.0, 0.5, 8.0, 2.5)
USAGE = Usage(1_000, 100, 400, 0, 100)
OPEN = Turn(in_flight=InFlight.READY, number=1)


def paid(*records: AnyRecord, turn: Turn = OPEN, at: float = 0.0) -> Turn:
    for record in records:
        turn = account(turn, Logged(1, at, record))
    return turn


# What a call costs.


def test_plain_cached_kept_and_written_tokens_have_their_own_prices() -> None:
    assert PRICES.cost(USAGE) == (500 * 2.0 + 400 * 0.5 + 100 * 2.5 + 100 * 8.0) / 1e6


def test_where_no_price_of_the_cache_is_known_all_input_costs_the_same() -> None:
    assert Prices(2.0, None, 8.0).cost(USAGE) == (1_000 * 2.0 + 100 * 8.0) / 1e6


@pytest.mark.parametrize("prices", [NO_PRICES, Prices(2.0), Prices(output_usd=8.0)])
def test_a_price_that_is_not_known_is_not_guessed(prices: Prices) -> None:
    assert prices.cost(USAGE) is None
    assert prices.dearness == float("inf")


def test_a_call_that_reports_nothing_has_no_cost() -> None:
    assert PRICES.cost(None) is None


def test_tokens_that_are_no_longer_sent_save_what_cached_input_costs() -> None:
    assert PRICES.saving(10_000) == 0.005
    assert Prices(2.0, None, 8.0).saving(10_000) == 0.02
    assert NO_PRICES.saving(10_000) is None


def test_models_are_put_in_order_by_what_a_summary_costs() -> None:
    assert Prices(0.1, None, 5.0).dearness < Prices(1.0, None, 1.0).dearness < NO_PRICES.dearness


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**5), st.booleans()), max_size=20))
def test_a_sum_has_every_call_and_pretends_no_price(calls: list[tuple[int, int, bool]]) -> None:
    spent = NOTHING_SPENT
    for read, wrote, is_priced in calls:
        usage = Usage(read, wrote)
        spent = spent.plus(usage, PRICES.cost(usage) if is_priced else None)

    assert spent.tokens == sum(read + wrote for read, wrote, _ in calls)
    assert (spent.calls, spent.unpriced) == (len(calls), sum(not is_priced for *_, is_priced in calls))
    assert spent.usd == pytest.approx(sum((r * 2 + w * 8) / 1e6 for r, w, is_priced in calls if is_priced), abs=1e-7)
    assert (spent.known_usd is None) == (spent.calls == spent.unpriced)


@pytest.mark.parametrize(
    ("usd", "said"),
    [
        (None, "at an unknown price"),
        (0.0, "$0.00"),
        (0.00001, "less than $0.0001"),
        (0.0123, "$0.0123"),
        (1_234.5, "$1,234.50"),
    ],
)
def test_money_is_said_as_short_as_it_may_be(usd: float | None, said: str) -> None:
    assert spoken_usd(usd) == said


# What was spent.


def test_answers_also_those_that_could_not_be_taken_and_notes_are_all_counted() -> None:
    """FM-145."""
    reply = ReplyRecorded(1, 1, a_message(usage=USAGE), cost_usd=0.002)
    fault = Fault(FaultKind.EMPTY_RESPONSE, Confidence.LIKELY)
    failed = AttemptFailed(1, 1, Refusal("x", Phase.STREAM, 200), fault, USAGE, 0.002)
    piece = PieceSummarised(1, 9, "notes", "m", USAGE, cost_usd=0.001)
    refused = SummaryRefused(1, "m", "it is empty", usage=USAGE)

    turn = paid(reply, failed, piece, refused)

    assert turn.spent == turn.spent_on_turn == Spent(4, 4_000, 1_600, 400, 0.005, 1)
    assert turn.spent_on_notes == turn.spent_on_this == turn.spent_on_notes_today == Spent(2, 2_000, 800, 200, 0.001, 1)
    assert turn.notes_in_vain == 1


@pytest.mark.parametrize(
    "record",
    [
        ReplyRecorded(1, 1, a_message()),
        AttemptFailed(1, 1, Refusal("x", Phase.CONNECT), Fault(FaultKind.TRANSIENT, Confidence.GUESS)),
        SummaryRefused(1, "m", "rate_limit"),
    ],
)
def test_what_was_not_answered_or_not_counted_costs_nothing(record: AnyRecord) -> None:
    assert paid(record) == OPEN


def test_what_is_spent_between_turns_belongs_to_none() -> None:
    turn = paid(PieceSummarised(0, 9, "notes", "m", USAGE), turn=Turn())

    assert (turn.spent.calls, turn.spent_on_turn) == (1, NOTHING_SPENT)


@pytest.mark.parametrize(
    "record",
    [
        CompactionApplied(1, 1, "s", 9, 1),
        CompactionSettled(1, CompactionOutcome.APPLIED),
        TurnEnded(1, Outcome.ANSWERED),
    ],
)
def test_with_an_outcome_the_next_compaction_begins_at_nothing(record: AnyRecord) -> None:
    turn = paid(PieceSummarised(1, 9, "notes", "m", USAGE), record)

    assert turn.spent_on_this == NOTHING_SPENT
    assert turn.spent_on_notes.calls == 1


def test_a_day_begins_at_nothing() -> None:
    refused = SummaryRefused(1, "m", "it is empty", usage=USAGE)

    turn = paid(refused, refused, turn=paid(refused), at=DAY)

    assert (spent_today(turn, DAY).calls, in_vain_today(turn, DAY)) == (2, 2)
    assert (spent_today(turn, 2 * DAY), in_vain_today(turn, 2 * DAY)) == (NOTHING_SPENT, 0)


@pytest.mark.parametrize("record", [PieceSummarised(1, 9, "notes", "m", USAGE), SessionConfigured("other")])
def test_progress_and_another_model_set_back_what_was_in_vain(record: AnyRecord) -> None:
    """FM-147."""
    assert paid(SummaryRefused(1, "m", "it is empty", usage=USAGE), record).notes_in_vain == 0


def test_useful_pieces_between_do_not_hide_that_most_answers_are_useless() -> None:
    """A piece that succeeds takes back one refusal, not all."""
    refused, piece = SummaryRefused(1, "m", "it is empty", usage=USAGE), PieceSummarised(1, 9, "notes", "m", USAGE)

    assert paid(*(refused, refused, refused, piece) * 4).notes_in_vain == 8


def test_refusals_of_one_compaction_count_together_until_its_outcome() -> None:
    refused, piece = SummaryRefused(1, "m", "it is empty", usage=USAGE), PieceSummarised(1, 9, "notes", "m", USAGE)
    turn = paid(refused, piece, refused)

    assert turn.refused_on_this == 2
    assert paid(CompactionApplied(1, 1, "s", 9, 1), turn=turn).refused_on_this == 0
    told = why(turn, Bounds(summaries_refused_max=2))
    assert told == "2 summaries of this compaction could not be used"
    assert why(turn, Bounds(summaries_refused_max=3)) is None


# What may be paid.


def why(turn: Turn, bounds: Bounds = Bounds(), prices: Prices = PRICES) -> str | None:  # noqa: B008 - frozen
    return why_not_paid(turn, prices, Usage(1_000, 100), now=0.0, bounds=bounds)


SPENT = replace(OPEN, spent_on_this=Spent(2, 5_000, 0, 500, 0.014), spent_on_notes_today=Spent(9, 9_000, 0, 0, 0.05))


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        (Bounds(), None),
        (Bounds(summary_usd_max=0.02), None),
        (
            Bounds(summary_usd_max=0.016),
            "it would amount to $0.0168 of $0.0160 allowed for one compaction, after 2 calls",
        ),
        (Bounds(summary_tokens_max=6_600), None),
        (
            Bounds(summary_tokens_max=6_599),
            "it would amount to 6,600 tokens of 6,599 allowed for one compaction, after 2 calls",
        ),
        (Bounds(summary_usd_per_day=0.05), "it would amount to $0.0528 of $0.0500 allowed for one day, after 9 calls"),
        (
            Bounds(summary_tokens_per_day=10_000),
            "it would amount to 10,100 tokens of 10,000 allowed for one day, after 9 calls",
        ),
    ],
)
def test_a_call_that_would_exceed_what_is_allowed_is_not_made(bounds: Bounds, said: str | None) -> None:
    """FM-145."""
    assert why(SPENT, bounds) == said


def test_the_first_call_is_held_to_the_budget_too() -> None:
    expected = "it would amount to $0.0028 of $0.0010 allowed for one compaction"
    assert why(OPEN, Bounds(summary_usd_max=0.001)) == expected


def test_a_model_without_a_price_is_held_to_tokens_alone() -> None:
    assert why(SPENT, Bounds(summary_usd_max=0.001), NO_PRICES) is None
    assert why(SPENT, Bounds(summary_tokens_max=1), NO_PRICES) is not None


def test_answers_in_vain_end_it_unless_a_person_asks() -> None:
    """FM-147: what goes forward is not punished, what does not go forward does not burn on."""
    in_vain = replace(OPEN, notes_in_vain=9)

    assert why(in_vain) == "9 more summaries paid for today could not be used than could"
    assert why(replace(in_vain, notes_in_vain=8)) is None
    assert why(replace(in_vain, wanted=(PendingCompaction(1, Trigger.PERSON),))) is None
    assert why(replace(in_vain, wanted=(PendingCompaction(1, Trigger.DEBT),))) is not None
