"""Spend limit for summaries, checked before each summary call.

A compaction that makes progress may use its whole budget; one whose summaries are all unusable stops earlier. A
compaction requested by the user is held to the budget only.
"""

from holdfast.core.fold.recovery_state import in_vain_today, spent_today
from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.prices import Prices, Spent, spoken_usd
from holdfast.types.messages import Usage
from holdfast.types.records import Trigger


def why_not_paid(turn: Turn, prices: Prices, expected: Usage, *, now: float, bounds: Bounds) -> str | None:
    """Return the reason why a summary call with the expected usage is over the limit; None if it is allowed."""
    by_a_person = any(wanted.trigger is Trigger.PERSON for wanted in turn.wanted)
    in_vain = in_vain_today(turn, now)
    if in_vain >= bounds.summaries_in_vain_max and not by_a_person:
        return f"none of {in_vain} summaries paid for today could be used"
    budgets = (
        ("one compaction", turn.spent_on_this, bounds.summary_usd_max, bounds.summary_tokens_max),
        ("one day", spent_today(turn, now), bounds.summary_usd_per_day, bounds.summary_tokens_per_day),
    )
    usd = prices.cost(expected)
    for what, spent, usd_max, tokens_max in budgets:
        then = spent.plus(expected, usd)
        if usd_max and usd is not None and then.usd > usd_max:
            return _over(what, f"{spoken_usd(then.usd)} of {spoken_usd(usd_max)}", spent)
        if tokens_max and then.tokens > tokens_max:
            return _over(what, f"{then.tokens:,} tokens of {tokens_max:,}", spent)
    return None


def _over(what: str, amount: str, spent: Spent) -> str:
    before = f", after {spent.calls} calls" if spent.calls else ""
    return f"it would amount to {amount} allowed for {what}{before}"
