"""What all sessions have learned about the models, kept in a log of its own in the same store.

It is a log like any other: anyone appends, everyone reads on, so what one process learns the others know before their
next call, and it survives them all.
"""

import logging

import msgspec

from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.bounds import RESERVED_KEYS
from holdfast.core.limits.fit import Sizes
from holdfast.core.limits.learning import after_fault, after_guess, after_reply, after_suspicion, effective, is_news
from holdfast.errors import StoreFullError, StoreIoError
from holdfast.ports import Log, Model
from holdfast.runtime.engine.log import pages
from holdfast.types.faults import Fault, Phase, Refusal
from holdfast.types.limits import NOTHING_LEARNED, Calibration, Learned, Limits
from holdfast.types.messages import Reply, StopReason
from holdfast.types.records import LimitsLearned

log = logging.getLogger("holdfast")

LEARNED_KEY = RESERVED_KEYS + "learned"
# Of a call that belongs to no turn nothing was suspected.
_NOWHERE = Turn()


class Known(msgspec.Struct, frozen=True):
    """What to go by for one model: its effective limits, and how it counts."""

    limits: Limits
    calibration: Calibration
    reports_all_read: bool = True
    # The most that was ever read whole.
    accepted_tokens: int = 0
    # Whether the output that is asked for must fit into the window too.
    counts_output: bool = False


class Learning:
    """What is known of every model, by its issuer."""

    def __init__(self, store: Log) -> None:
        self._store = store
        self._seq = 0
        self._learned: dict[str, Learned] = {}
        # What the log holds: the measure of whether something is news.
        self._published: dict[str, Learned] = {}

    async def known(self, model: Model) -> Known:
        """Return what to go by now, with whatever other sessions and processes have learned."""
        await self._catch_up()
        learned = self._learned.get(model.issuer, NOTHING_LEARNED)
        limits = effective(model.limits, learned)
        return Known(
            limits, learned.calibration, learned.reports_all_read, learned.accepted_tokens, learned.counts_output
        )

    async def everything(self) -> dict[str, Learned]:
        """Return what has been learned of every model, by its issuer."""
        await self._catch_up()
        return dict(self._learned)

    async def observe(
        self,
        model: Model,
        outcome: Reply | Refusal,
        fault: Fault | None,
        sizes: Sizes,
        *,
        standing: Turn = _NOWHERE,
    ) -> bool:
        """Learn from what came of a call, and return whether that is a window that nobody had told.

        `standing` is where the session stood before: what was suspected or guessed is confirmed by a reply to less.
        """
        before = self._learned.get(model.issuer, NOTHING_LEARNED)
        if fault is not None:
            # What was never sent teaches nothing about who would have refused it.
            sent = not (isinstance(outcome, Refusal) and outcome.phase is Phase.ESTIMATE)
            after = after_fault(before, model.limits, fault, sizes) if sent else before
        else:
            usage = outcome.usage if isinstance(outcome, Reply) else None
            after = after_reply(before, usage, sizes)
            if standing.suspected is not None:
                is_cut = isinstance(outcome, Reply) and outcome.stop_reason is StopReason.LENGTH
                after = after_suspicion(after, standing.suspected, usage, sizes, is_cut=is_cut)
            if standing.tokens_guessed:
                after = after_guess(after, model.limits, standing.tokens_guessed, sizes)
        self._learned[model.issuer] = after
        if is_news(self._published.get(model.issuer, NOTHING_LEARNED), after):
            await self._publish(model.issuer, after)
        return fault is None and after.window_tokens != before.window_tokens

    async def _publish(self, issuer: str, learned: Learned) -> None:
        """Tell the others. A disk that fails just now must not cost the turn: it is still news at the next call."""
        before = self._published.get(issuer, NOTHING_LEARNED)
        self._published[issuer] = learned
        try:
            await self._store.admit(LEARNED_KEY, LimitsLearned(issuer, learned))
        except (StoreFullError, StoreIoError) as error:
            self._published[issuer] = before
            log.warning("what was learned is not kept yet", extra={"issuer": issuer, "code": error.code})

    async def _catch_up(self) -> None:
        async for page in pages(self._store, LEARNED_KEY, after=self._seq):
            for logged in page:
                if isinstance(logged.record, LimitsLearned):
                    self._learned[logged.record.issuer] = logged.record.learned
                    self._published[logged.record.issuer] = logged.record.learned
            self._seq = page[-1].seq
