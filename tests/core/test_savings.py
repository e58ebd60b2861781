"""Savings of the proxy as pure functions: the client's own request, the balance, and masks that pay."""

import msgspec
import pytest

from holdfast.core.fold.session_state import InFlight, Turn
from holdfast.core.limits.prices import NO_PRICES, Prices, Spent
from holdfast.core.limits.savings import (
    NO_CACHE,
    Compared,
    OwnTotals,
    PromptCache,
    after_reply,
    balance_usd,
    own_request,
    own_totals,
    plus_saved,
    saved_by_reply,
    saved_by_summary,
    session_saved,
)
from holdfast.core.proxy.plan import RequestFacts
from holdfast.core.proxy.savings import (
    MaskSizes,
    folds,
    is_lasting,
    is_repaired,
    mask_sizes,
    may_save,
    payback_requests,
    plan_early_mask,
)
from holdfast.core.turn.transitions import evolve
from holdfast.core.view import conversation, messages_in_view
from holdfast.types.accounts import NOTHING_SAVED, OwnRequest, Saved
from holdfast.types.faults import Confidence, Fault, FaultKind
from holdfast.types.messages import (
    BlobRef,
    Media,
    Message,
    Reply,
    Role,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from holdfast.types.records import (
    AnyRecord,
    AttemptStarted,
    InputAdmitted,
    Logged,
    MessageExcluded,
    OutputMasked,
    PartReplaced,
    ReplyRecorded,
    ToolSettled,
    ToolStarted,
    TurnStarted,
)

PRICES = Prices(3.0, 0.3, 15.0, 3.75)
VIEW = (0, 9, 0, 0, 0)
# The last request had 10,000 tokens, the client's own 40,000; four fifths of a request are read from the cache.
WARM = PromptCache(10_000, 40_000, 0.8, 1_000.0, VIEW)
BROKEN = PromptCache(40_000, 40_000, 0.8, 1_000.0, ())
NOW = 1_100.0


@pytest.mark.parametrize(
    ("compared", "usage", "cache", "now", "expected"),
    [
        pytest.param(
            Compared(20_000, 10_000),
            Usage(12_000, 500),
            NO_CACHE,
            NOW,
            (24_000, 0, 500),
            id="no cache: scaled by sizes",
        ),
        pytest.param(
            Compared(40_000, 10_000),
            Usage(11_000, 500, 9_000),
            WARM,
            NOW,
            (44_000, 36_000, 500),
            id="same beginning: the same share",
        ),
        pytest.param(
            Compared(40_000, 10_000),
            Usage(10_000, 500, 2_000),
            BROKEN,
            NOW,
            (40_000, 32_000, 500),
            id="the cache that a changed beginning broke",
        ),
        pytest.param(
            Compared(40_000, 10_000),
            Usage(10_000, 500, 2_000),
            BROKEN,
            NOW + 300,
            (40_000, 2_000, 500),
            id="a cache that was gone already",
        ),
        pytest.param(
            Compared(40_000, 10_000),
            Usage(10_000, 500),
            msgspec.structs.replace(BROKEN, read_share=None),
            NOW,
            (40_000, 40_000, 500),
            id="a share that was never measured",
        ),
        pytest.param(
            Compared(40_000, 500),
            Usage(500, 500),
            PromptCache(400, 30_000, None, 1_000.0, VIEW),
            NOW,
            (40_000, 30_000, 500),
            id="a request that became too short for a cache",
        ),
        pytest.param(
            Compared(40_000, 10_000, is_refused=True), Usage(10_000, 500), WARM, NOW, (0, 0, 0), id="rejected"
        ),
        pytest.param(Compared(40_000, 10_000, is_added=True), Usage(10_000, 500), WARM, NOW, (0, 0, 0), id="added"),
    ],
)
def test_the_clients_own_request_is_estimated_by_the_one_that_was_sent(
    compared: Compared, usage: Usage, cache: PromptCache, now: float, expected: tuple[int, int, int]
) -> None:
    own = own_request(compared, usage, PRICES, cache, VIEW, now)
    tokens, cached, output = expected
    assert (own.input_tokens, own.cached_input_tokens, own.output_tokens) == expected
    assert own.usd == PRICES.cost(Usage(tokens, output, cached))
    assert (own.is_refused, own.is_added) == (compared.is_refused, compared.is_added)


def test_a_share_that_was_never_measured_is_nothing_without_a_price_for_it() -> None:
    cache = msgspec.structs.replace(BROKEN, read_share=None)
    own = own_request(Compared(40_000, 10_000), Usage(10_000, 500), Prices(3.0, None, 15.0), cache, VIEW, NOW)
    assert own == OwnRequest(40_000, 0, 500, 0.1275)


@pytest.mark.parametrize(
    ("usage", "written"), [(Usage(10_000, 0, 0, 0, 10_000), 8_000), (Usage(10_000, 0, 10_000), 0)], ids=["all", "none"]
)
def test_the_clients_own_request_writes_the_same_share_of_what_is_not_cached(usage: Usage, written: int) -> None:
    own = own_request(Compared(40_000, 10_000), usage, PRICES, BROKEN, VIEW, NOW)
    assert own.usd == PRICES.cost(Usage(40_000, 0, 32_000, cache_write_tokens=written))


def test_a_request_without_a_price_has_tokens_and_no_cost() -> None:
    own = own_request(Compared(20_000, 10_000), Usage(10_000, 500), NO_PRICES, NO_CACHE, VIEW, NOW)
    assert own == OwnRequest(20_000, 0, 500, None)
    assert saved_by_reply(Usage(10_000, 500), None, own) == Saved(1, 0, 10_000)


@pytest.mark.parametrize(
    ("cache", "own", "view", "at", "expected"),
    [
        pytest.param(NO_CACHE, None, (), 5.0, PromptCache(8_000, 8_000, None, 5.0, ()), id="first"),
        pytest.param(WARM, None, VIEW, NOW, PromptCache(8_000, 8_000, 0.6, NOW, VIEW), id="measured"),
        pytest.param(
            PromptCache(900, 900, None, 1_000.0, VIEW),
            None,
            VIEW,
            NOW,
            PromptCache(8_000, 8_000, None, NOW, VIEW),
            id="short",
        ),
        pytest.param(WARM, None, (), NOW, PromptCache(8_000, 8_000, 0.8, NOW, ()), id="another beginning"),
        pytest.param(WARM, None, VIEW, 9_000.0, PromptCache(8_000, 8_000, 0.8, 9_000.0, VIEW), id="after a pause"),
        pytest.param(WARM, OwnRequest(9_000), VIEW, NOW, PromptCache(8_000, 9_000, 0.6, NOW, VIEW), id="changed"),
        pytest.param(
            WARM, OwnRequest(is_added=True), VIEW, NOW, PromptCache(8_000, 40_000, 0.6, NOW, VIEW), id="added"
        ),
    ],
)
def test_the_cache_is_known_by_the_last_answer(
    cache: PromptCache, own: OwnRequest | None, view: tuple[int, ...], at: float, expected: PromptCache
) -> None:
    assert after_reply(cache, Usage(8_000, 10, 6_000), own, view, at) == expected


@pytest.mark.parametrize(
    ("usage", "usd", "own", "expected"),
    [
        pytest.param(Usage(9, 9), 1.0, None, Saved(), id="unchanged"),
        pytest.param(Usage(100, 9, 50), 1.0, OwnRequest(400, 300, 9, 3.0), Saved(1, 0, 300, 250, 0, 2.0), id="saved"),
        pytest.param(Usage(100, 9), 1.0, OwnRequest(400, 300, 9, 0.25), Saved(1, 0, 300, 300, 0, -0.75), id="lost"),
        pytest.param(
            Usage(100, 9, 50),
            1.0,
            OwnRequest(usd=0.0, is_refused=True),
            Saved(1, 1, -100, -50, -9, -1.0, 1.0),
            id="rejected without the change",
        ),
        pytest.param(
            Usage(100, 9), 1.0, OwnRequest(usd=0.0, is_added=True), Saved(0, 0, -100, 0, -9, -1.0), id="added"
        ),
        pytest.param(None, 1.0, OwnRequest(5, usd=2.0), Saved(1, 0, 5, usd=1.0), id="no usage"),
    ],
)
def test_a_saving_is_the_own_request_less_the_one_sent(
    usage: Usage | None, usd: float, own: OwnRequest | None, expected: Saved
) -> None:
    assert saved_by_reply(usage, usd, own) == expected


def test_summaries_and_rejected_requests_count_in_the_savings_and_not_in_the_balance() -> None:
    summary = saved_by_summary(Usage(1_000, 100, 10), 0.5)
    rejected = saved_by_reply(Usage(100, 9), 1.0, OwnRequest(usd=0.0, is_refused=True))
    saved = saved_by_reply(Usage(100, 9), 1.0, OwnRequest(400, 300, 9, 3.0))
    total = plus_saved(plus_saved(summary, rejected), saved)
    assert total == Saved(2, 1, -800, 290, -109, 0.5, 1.5)
    assert balance_usd(total) == 2.0
    assert plus_saved(NOTHING_SAVED, total) is plus_saved(total, NOTHING_SAVED) is total
    assert saved_by_summary(None, None) == Saved()


def test_a_session_without_the_changes_has_neither_their_savings_nor_its_summaries() -> None:
    spent, on_summaries = Spent(5, 9_000, 500, 300, 2.0), Spent(1, 1_000, 100, 50, 0.5)
    saved = session_saved(Saved(2, 1, 700, -20, 0, 0.25), on_summaries)
    assert saved == Saved(2, 1, -300, -120, -50, -0.25, 0.5)
    assert own_totals(spent, saved) == OwnTotals(8_700, 380, 250, 1.75, 1)


@pytest.mark.parametrize(
    ("facts", "saved", "expected"),
    [
        (RequestFacts(), Saved(), True),
        (RequestFacts(), Saved(usd=-0.1), False),
        (RequestFacts(), Saved(usd=-0.1, rescue_usd=0.1), True),
        (RequestFacts(is_held=True), Saved(), False),
        (RequestFacts(is_compaction=True), Saved(), False),
    ],
)
def test_a_request_may_be_changed_unless_its_session_lost_money(
    facts: RequestFacts, saved: Saved, *, expected: bool
) -> None:
    assert may_save(facts, Turn(saved=saved)) is expected


def _fault(kind: FaultKind) -> Fault:
    return Fault(kind, Confidence.CERTAIN)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (None, False),
        (_fault(FaultKind.TOKEN_OVERFLOW), True),
        (_fault(FaultKind.TOOL_PAIRING), True),
        (_fault(FaultKind.OVERLOADED), False),
    ],
)
def test_a_fault_of_the_request_itself_would_come_again(fault: Fault | None, *, expected: bool) -> None:
    assert is_lasting(fault) is expected


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (Turn(), False),
        (Turn(masked_before=9), False),
        (Turn(has_repaired_pairs=True), True),
        (Turn(is_effort_changed=True), True),
        (Turn(replaced=(PartReplaced(1, 1, 0, Text(""), "w"),)), True),
        (Turn(excluded=(MessageExcluded(1, turn=4),)), True),
        (Turn(excluded=(MessageExcluded(1),)), False),
    ],
)
def test_a_session_is_repaired_where_a_rejection_changed_it(state: Turn, *, expected: bool) -> None:
    assert is_repaired(state) is expected


REPEATED = "\n".join(["the harbour is closed"] * 60)
PICTURE = Media(BlobRef("0" * 64, 9), "image/png")


def _result(call_id: str, *parts: Text | Media) -> Message:
    return Message(Role.TOOL, (ToolResult(call_id, parts),))


def test_only_new_text_output_that_is_short_when_folded_is_folded() -> None:
    messages = [
        _result("old", Text(REPEATED)),
        Message(Role.USER, (Text(REPEATED),)),
        _result("new", Text("plain"), Text(REPEATED)),
        _result("prose", Text("plain")),
        _result("picture", Text(REPEATED), PICTURE),
        _result("long", Text(REPEATED), Text("x" * 2_000)),
    ]
    folded = "[the next line occurs 60 times in a row]\nthe harbour is closed"
    assert folds(messages, first=1, bytes_max=1_000) == {"new": ("plain", folded)}


def test_the_effect_of_a_mask_counts_old_output_and_all_that_follows_it() -> None:
    before = Message(Role.USER, (Text("the harbour " * 500),))
    long, short = _result("a", Text("fathom " * 1_000)), _result("b", Text("fathom"))
    messages = [before, long, short, long, short]
    none, old = mask_sizes(messages, keep=4), mask_sizes(messages, keep=2)
    assert none == mask_sizes([before, short, short], keep=1) == MaskSizes(0, 0)
    assert old.freed > 900
    assert mask_sizes([long, short, long, short], keep=2) == old
    assert old.rewritten > old.freed - 100
    assert mask_sizes(messages, keep=1).freed > 2 * old.freed - 10


@pytest.mark.parametrize(
    ("prices", "sizes", "share", "is_cached", "expected"),
    [
        # 10,000 tokens are written for 3.75 instead of read for 0.30; 50,000 tokens less are read for 0.30 each time.
        (PRICES, MaskSizes(50_000, 10_000), 1.0, True, 2.3),
        (PRICES, MaskSizes(50_000, 10_000), 1.0, False, 0.0),
        (PRICES, MaskSizes(10_000, 50_000), 1.0, True, 57.5),
        (PRICES, MaskSizes(50_000, 10_000), 0.5, True, 0.2091),
        (PRICES, MaskSizes(50_000, 10_000), 0.0, True, 0.0),
        (Prices(3.0, None, 15.0), MaskSizes(50_000, 10_000), 1.0, True, 0.0),
        (Prices(3.0, 1.5, 15.0), MaskSizes(50_000, 10_000), 1.0, True, 0.2),
        (Prices(3.0, 0.0, 15.0), MaskSizes(50_000, 10_000), 1.0, True, None),
        (PRICES, MaskSizes(1_999, 0), 1.0, True, None),
        (NO_PRICES, MaskSizes(50_000, 10_000), 1.0, True, None),
    ],
)
def test_a_mask_pays_after_the_requests_that_earn_the_broken_cache_back(
    prices: Prices, sizes: MaskSizes, share: float, expected: float | None, *, is_cached: bool
) -> None:
    requests = payback_requests(prices, sizes, share, is_cached=is_cached)
    assert requests == (None if expected is None else pytest.approx(expected, abs=0.0001))


def test_the_first_mask_writes_the_whole_request_again_and_later_ones_its_end() -> None:
    cache = PromptCache(70_000, 70_000, 1.0, 1_000.0, VIEW)
    sizes = MaskSizes(50_000, 10_000)
    first, later = Turn(cache=cache), Turn(cache=cache, masked_before=9)
    assert plan_early_mask(first, PRICES, sizes, 70_000, NOW) == pytest.approx(4.6)
    assert plan_early_mask(first, PRICES, sizes, 80_000, NOW) is None
    assert plan_early_mask(later, PRICES, sizes, 80_000, NOW) == pytest.approx(2.3)
    # After a pause the provider has nothing cached that a mask could break.
    assert plan_early_mask(first, PRICES, sizes, 80_000, NOW + 300) == 0.0
    assert plan_early_mask(first, NO_PRICES, sizes, 80_000, NOW) is None


def _folded(*records: AnyRecord) -> tuple[Turn, list[Logged]]:
    logged = [Logged(seq, 10.0 * seq, record) for seq, record in enumerate(records, start=1)]
    turn = Turn()
    for one in logged:
        turn = evolve(turn, one)
    return turn, logged


CALLED = Reply((ToolCall("c1", "depth", "{}"),), StopReason.TOOL_CALLS, Usage(2_000, 10), "m")
STEP: tuple[AnyRecord, ...] = (
    InputAdmitted((Text("how deep?"),)),
    TurnStarted(1),
    AttemptStarted(1, 1, "m"),
    ReplyRecorded(1, 1, CALLED, cost_usd=0.5, answered_at=40.0),
    ToolStarted(1, "c1", "depth"),
    ToolSettled(1, ToolResult("c1", (Text(REPEATED),)), 2, ("folded",)),
    AttemptStarted(1, 2, "m"),
)


def test_a_session_adds_up_the_savings_of_its_answers_and_knows_its_cache() -> None:
    reply, own = Reply((Text("deep"),), StopReason.END, Usage(2_500, 5, 1_000), "m"), OwnRequest(9_000, 0, 5, 2.0)
    turn, _ = _folded(*STEP, ReplyRecorded(1, 2, reply, cost_usd=0.75, own_request=own, answered_at=80.0))
    assert turn.saved == Saved(1, 0, 6_500, -1_000, 0, 1.25)
    assert turn.cache == PromptCache(2_500, 9_000, 0.5, 80.0, turn.view_changes)
    # A provider that reports no usage tells nothing about its cache.
    silent = msgspec.structs.replace(reply, usage=None)
    before, _ = _folded(*STEP)
    after, _ = _folded(*STEP, ReplyRecorded(1, 2, silent, cost_usd=0.75, own_request=own, answered_at=80.0))
    assert (after.cache, after.saved) == (before.cache, Saved(1, 0, 9_000, 0, 5, 1.25))


def test_the_cache_of_a_session_without_a_client_of_the_proxy_is_not_followed() -> None:
    """The time of a record differs between the process that wrote it and a reader; the one in the record does not."""
    native = tuple(
        msgspec.structs.replace(one, answered_at=0.0) if isinstance(one, ReplyRecorded) else one for one in STEP
    )
    assert (_folded(*native)[0].cache, _folded(*STEP)[0].cache.at) == (NO_CACHE, 40.0)


def test_the_view_shows_folded_output_and_every_other_reader_the_original() -> None:
    turn, logged = _folded(*STEP)
    assert (turn.has_folded, turn.shows_changed, turn.hides_parts) == (True, True, False)
    assert [part for message in messages_in_view(logged, turn) for part in message.parts][-1] == ToolResult(
        "c1", (Text("folded"),)
    )
    assert conversation(logged)[-1].message.parts == (ToolResult("c1", (Text(REPEATED),)),)


def test_output_may_be_masked_between_two_attempts_without_a_full_window() -> None:
    turn, _ = _folded(*STEP[:-1], OutputMasked(1, 7, 0.5))
    assert (turn.masked_before, turn.in_flight) == (7, InFlight.READY)
