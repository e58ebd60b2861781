"""Learned limits of the models, shared by all sessions through a log of their own in the store.

Every process appends to this log and reads it before each call, so limits that one process learns apply to all and
survive restarts.
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
# The state for calls outside of a turn: nothing is suspected.
_NO_STATE = Turn()


class Known(msgspec.Struct, frozen=True):
    """Effective limits and token calibration of one model."""

    limits: Limits
    calibration: Calibration
    reports_all_read: bool = True
    # The largest request that was read completely.
    accepted_tokens: int = 0
    # The requested output must fit into the window too.
    counts_output: bool = False


class Learning:
    """Learned limits of every model, by its issuer."""

    def __init__(self, store: Log) -> None:
        self._store = store
        self._seq = 0
        self._learned: dict[str, Learned] = {}
        # The values in the log, to detect changes.
        self._published: dict[str, Learned] = {}

    async def known(self, model: Model) -> Known:
        """Return the current limits of a model, with everything that other sessions and processes have learned."""
        await self._catch_up()
        learned = self._learned.get(model.issuer, NOTHING_LEARNED)
        limits = effective(model.limits, learned)
        return Known(
            limits, learned.calibration, learned.reports_all_read, learned.accepted_tokens, learned.counts_output
        )

    async def everything(self) -> dict[str, Learned]:
        """Return the learned limits of every model, by its issuer."""
        await self._catch_up()
        return dict(self._learned)

    async def observe(
        self,
        model: Model,
        outcome: Reply | Refusal,
        fault: Fault | None,
        sizes: Sizes,
        *,
        state_before: Turn = _NO_STATE,
    ) -> bool:
        """Learn from the outcome of a call, and return whether a reply revealed an undeclared window.

        `state_before` is the session state before the call: a reply to a smaller request confirms a suspected limit.
        """
        before = self._learned.get(model.issuer, NOTHING_LEARNED)
        if fault is not None:
            # A request that was not sent says nothing about the model.
            sent = not (isinstance(outcome, Refusal) and outcome.phase is Phase.ESTIMATE)
            after = after_fault(before, model.limits, fault, sizes) if sent else before
        else:
            usage = outcome.usage if isinstance(outcome, Reply) else None
            after = after_reply(before, usage, sizes)
            if state_before.suspected is not None:
                is_cut = isinstance(outcome, Reply) and outcome.stop_reason is StopReason.LENGTH
                after = after_suspicion(after, state_before.suspected, usage, sizes, is_cut=is_cut)
            if state_before.tokens_guessed:
                after = after_guess(after, model.limits, state_before.tokens_guessed, sizes)
        self._learned[model.issuer] = after
        if is_news(self._published.get(model.issuer, NOTHING_LEARNED), after):
            await self._publish(model.issuer, after)
        return fault is None and after.window_tokens != before.window_tokens

    async def _publish(self, issuer: str, learned: Learned) -> None:
        """Append to the log. A failing disk does not fail the turn: the next call tries again."""
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
