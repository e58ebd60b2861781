"""Learned limits of the models, shared by all sessions through a log of their own in the store.

Every process appends to this log and reads it before each call, so limits that one process learns apply to all and
survive restarts.
"""

import asyncio
import logging
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from holdfast.core.limits.bounds import RESERVED_KEYS
from holdfast.core.limits.claims import REFUSED, REQUIRED, Call, after_cut, parameters
from holdfast.core.limits.learning import (
    after_effort,
    after_fault,
    after_guess,
    after_parameters,
    after_reply,
    after_suspicion,
    effective,
    is_news,
)
from holdfast.core.limits.sizing import within_window
from holdfast.errors import StoreFullError, StoreIoError
from holdfast.ports import Clock, Log, Model
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.log import pages
from holdfast.types.faults import Fault, Phase, Refusal
from holdfast.types.limits import NOTHING_LEARNED, Calibration, Learned, Limits
from holdfast.types.messages import Reply
from holdfast.types.records import LimitsLearned

log = logging.getLogger("holdfast")

LEARNED_KEY = RESERVED_KEYS + "learned"
# Other processes may write between reading and writing; then the change is made again on top of theirs.
_TRIES_MAX = 5


class Known(msgspec.Struct, frozen=True):
    """Effective limits and token calibration of one model."""

    limits: Limits
    calibration: Calibration
    reports_all_read: bool = True
    # The largest request that was read completely.
    accepted_tokens: int = 0
    # The requested output must fit into the window too.
    counts_output: bool = False
    # Parameters that the model refuses, and that it requires.
    refused: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    # Parameters whose refusal is to be tested: they are sent.
    tested: frozenset[str] = frozenset()


class Learning:
    """Learned limits of every model, by its issuer."""

    def __init__(self, store: Log, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self._seq = 0
        self._learned: dict[str, Learned] = {}
        # The values in the log, to detect changes.
        self._published: dict[str, Learned] = {}
        self._changing = asyncio.Lock()

    async def known(self, model: Model) -> Known:
        """Return the current limits of a model, with everything that other sessions and processes have learned."""
        await self._catch_up()
        learned, now = self._learned.get(model.issuer, NOTHING_LEARNED), self._clock.now()
        limits = effective(model.limits, learned, now)
        return Known(
            limits,
            within_window(learned.calibration, limits.window_tokens),
            learned.reports_all_read,
            learned.accepted_tokens,
            learned.counts_output,
            parameters(learned, now, REFUSED),
            parameters(learned, now, REQUIRED),
            parameters(learned, now, REFUSED, due=True),
        )

    async def everything(self) -> dict[str, Learned]:
        """Return the learned limits of every model, by its issuer."""
        await self._catch_up()
        return {issuer: learned for issuer, learned in self._learned.items() if learned != NOTHING_LEARNED}

    async def observe(self, model: Model, outcome: Reply | Refusal, fault: Fault | None, call: Call) -> bool:
        """Learn from the outcome of a call, and return whether a reply revealed an undeclared window."""
        call = replace(call, at=self._clock.now())

        def learn(learned: Learned) -> Learned:
            if isinstance(outcome, Refusal):
                # A request that was not sent says nothing about the model.
                is_sent = fault is not None and outcome.phase is not Phase.ESTIMATE
                return after_fault(learned, model.limits, fault, call) if fault and is_sent else learned
            if fault is not None:
                # A reply that is of no use was not refused.
                return learned
            return _after_answer(learned, model.limits, outcome, call)

        before, after = await self._change(model.issuer, learn)
        return fault is None and after.window_tokens is not None and after.window_tokens != before.window_tokens

    async def cut(self, model: Model, fault: Fault) -> None:
        """Count a request that was made smaller, before it was sent, because of a limit."""
        await self._change(model.issuer, lambda learned: after_cut(learned, model.limits, fault))

    async def forget(self, issuer: str) -> bool:
        """Forget everything about a model, in all processes. Return whether anything was known."""
        await self._catch_up()
        if self._learned.get(issuer, NOTHING_LEARNED) == NOTHING_LEARNED:
            return False
        await self._store.admit(LEARNED_KEY, LimitsLearned(issuer, NOTHING_LEARNED))
        await self._catch_up()
        return True

    async def _change(self, issuer: str, learn: Callable[[Learned], Learned]) -> tuple[Learned, Learned]:
        """Change what is known of a model, and publish it if it is news. Return the values before and after.

        If another process wrote in between, its value is read and changed in its place: a full value is appended, and
        must not take back what the other has learned or forgotten. Most changes are no news and wait for no other
        session: a hundred sessions that are answered together would queue here, and share no commit after it.
        """
        await self._catch_up()
        before = self._learned.get(issuer, NOTHING_LEARNED)
        after = learn(before)
        if not is_news(self._published.get(issuer, NOTHING_LEARNED), after):
            self._learned[issuer] = after
            return before, after
        async with self._changing:
            await self._catch_up()
            before = self._learned.get(issuer, NOTHING_LEARNED)
            after = self._learned[issuer] = learn(before)
            for _ in range(_TRIES_MAX):
                if not is_news(self._published.get(issuer, NOTHING_LEARNED), after):
                    break
                last = self._seq
                others = await self._newest(issuer, after=last, until=await self._publish(issuer, after))
                if others is None:
                    break
                before, after = others, learn(others)
                self._learned[issuer] = after
            return before, after

    async def _publish(self, issuer: str, learned: Learned) -> int:
        """Append to the log and return the seq. A failing disk does not fail the turn: the next call tries again."""
        before = self._published.get(issuer, NOTHING_LEARNED)
        self._published[issuer] = learned
        try:
            return (await self._store.admit(LEARNED_KEY, LimitsLearned(issuer, learned))).seq
        except (StoreFullError, StoreIoError) as error:
            self._published[issuer] = before
            log.warning("what was learned is not kept yet", extra={"issuer": issuer, "code": error.code})
            return 0

    async def _newest(self, issuer: str, *, after: int, until: int) -> Learned | None:
        """Read what others wrote before our own record `until`. Return their newest value of a model; None: none."""
        found: Learned | None = None
        if until > after + 1:
            async for page in pages(self._store, LEARNED_KEY, after=after):
                for logged in page:
                    if logged.seq < until and isinstance(logged.record, LimitsLearned):
                        if logged.record.issuer == issuer:
                            found = logged.record.learned
                        else:
                            self._take(logged.record)
        self._seq = max(self._seq, until)
        return found

    async def _catch_up(self) -> None:
        async for page in pages(self._store, LEARNED_KEY, after=self._seq):
            for logged in page:
                # Another task may have read further meanwhile.
                if logged.seq > self._seq and isinstance(logged.record, LimitsLearned):
                    self._take(logged.record)
            self._seq = max(self._seq, page[-1].seq)

    def _take(self, record: LimitsLearned) -> None:
        self._learned[record.issuer] = self._published[record.issuer] = record.learned


def _after_answer(learned: Learned, declared: Limits, reply: Reply, call: Call) -> Learned:
    learned = after_reply(learned, reply.usage, call)
    if call.suspected:
        learned = after_suspicion(learned, declared, call)
    if call.guessed:
        learned = after_guess(learned, declared, call)
    return after_parameters(after_effort(learned, call), call)
