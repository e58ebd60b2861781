"""Accounts of gateway keys: record usage in a log per key, and admit requests within the limits of their key.

Usage is taken from the records that this process writes. It is gathered for a moment and appended as one record per
model, at once for a key with limits. All gateways on a store read the same logs, so limits hold over restarts, and over
nodes with a delay of at most a second. A process that is killed may lose the usage of its last moment from the account;
the sessions have it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from time import monotonic

from holdfast.core.limits.accounts import (
    EMPTY,
    READ_RECORDS,
    Account,
    Exceeded,
    account_from_end,
    add_usage,
    call_totals,
    check_request,
    fold_account,
    is_limited,
    may_use,
    plus,
    totals_due,
)
from holdfast.core.limits.bounds import RESERVED_KEYS, is_proxy_session
from holdfast.core.limits.savings import saved_by_reply, saved_by_summary
from holdfast.errors import HoldfastError
from holdfast.gateway.http.auth import tenant_of
from holdfast.gateway.http.problems import ForbiddenError, OverLimitError
from holdfast.ports import Clock, Log
from holdfast.runtime.engine.log import pages
from holdfast.types.accounts import NOTHING_SAVED, KeyLimits, UsageTotals
from holdfast.types.records import (
    AttemptFailed,
    AttemptStarted,
    Logged,
    PieceSummarised,
    ReplyRecorded,
    SummaryRefused,
    UsageRecorded,
)

log = logging.getLogger(__name__)

ACCOUNTS_KEY = f"{RESERVED_KEYS}usage:"
# Usage of a key without limits is gathered this long: one record a second at most ...
_GATHER_SECONDS = 1.0
# ... and of a key with limits this long, so that a busy key does not write a record per request.
_GATHER_LIMITED_SECONDS = 0.05
# Records of other gateways may be known this late.
_FRESH_SECONDS = 1.0
# Usage that cannot be recorded is tried again after this long.
_RETRY_SECONDS = 5.0
# Open attempts whose model is remembered until their reply; a session has one at a time.
_ATTEMPTS_MAX = 20_000
# Dialects in references to models: "openai:gpt-5".
_DIALECTS = frozenset({"openai", "responses", "anthropic", "gemini"})
# Accounts in one page of the store's list.
_PAGE = 1_000


def account_key(tenant: str) -> str:
    """Return the key of a tenant's account log."""
    return ACCOUNTS_KEY + tenant


def model_label(model: str) -> str:
    """Return the name of a model without the dialect of a reference: limits and figures are by name."""
    dialect, colon, name = model.partition(":")
    return name if colon and dialect in _DIALECTS else model


def check_allowed(limits: KeyLimits, model: str) -> None:
    """Raise `ForbiddenError` for a model that a key may not use."""
    if not may_use(limits, model_label(model)):
        raise ForbiddenError(f"this key may not use the model {model[:80]!r}; it may use: {', '.join(limits.models)}")


async def read_account(store: Log, tenant: str) -> Account:
    """Return the account of a tenant by its log."""
    key = account_key(tenant)
    known = await store.info(key)
    if known is None:
        return EMPTY
    end = await store.read(key, after=max(0, known.last_seq - READ_RECORDS))
    account = EMPTY if end and end[0].seq == 1 else account_from_end(end)
    return await _read_on(store, key, EMPTY if account is None else account)


async def _read_on(store: Log, key: str, account: Account) -> Account:
    async for page in pages(store, key, after=account.seq):
        for logged in page:
            account = fold_account(account, logged)
    return account


async def account_names(store: Log) -> AsyncIterator[str]:
    """Yield the names of all tenants that have an account."""
    after = ACCOUNTS_KEY[:-1]
    while page := await store.sessions(after=after, limit=_PAGE):
        for known in page:
            if not known.key.startswith(ACCOUNTS_KEY):
                return
            yield known.key.removeprefix(ACCOUNTS_KEY)
        after = page[-1].key


@dataclass
class _Held:
    """The account of one tenant in this process: its cached fold, and usage that is not recorded yet."""

    account: Account = EMPTY
    read_at: float = float("-inf")
    pending: dict[str, UsageTotals] = field(default_factory=dict)
    # Requests that began, by model: a part of what is pending.
    requests: dict[str, int] = field(default_factory=dict)
    # Usage in the append that is under way.
    writing: dict[str, UsageTotals] = field(default_factory=dict)
    running: dict[str, int] = field(default_factory=dict)
    limits: KeyLimits = field(default_factory=KeyLimits)
    is_limited: bool = False
    flushing: asyncio.Task[None] | None = None
    # Held while the account is read on, so that usage is counted either in it or beside it.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def add(self, model: str, totals: UsageTotals) -> None:
        self.pending[model] = plus(self.pending.get(model, UsageTotals()), totals)

    @property
    def is_pending(self) -> bool:
        """True if usage is not recorded yet, besides that of an append that is under way."""
        return bool(self.pending or self.requests)

    def take(self) -> dict[str, UsageTotals]:
        """Return what is pending, and none is from then on."""
        self._add_requests()
        taken, self.pending = self.pending, {}
        return taken

    def _add_requests(self) -> None:
        requests, self.requests = self.requests, {}
        for model, number in requests.items():
            self.add(model, UsageTotals(requests=number))

    def current(self, now: float) -> Account:
        """Return the account with the usage that is not recorded yet."""
        self._add_requests()
        account = self.account
        for unrecorded in (self.writing, self.pending):
            for model, totals in unrecorded.items():
                account = add_usage(account, model, totals, now)
        return account


class Accounts:
    """The accounts of all tenants of a gateway. `close` records the rest of their usage."""

    def __init__(self, store: Log, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._held: dict[str, _Held] = {}
        self._attempts: dict[str, str] = {}

    def observe(self, session: str, logged: Logged) -> None:
        """Add the usage of a record that this process wrote to the account of its tenant."""
        record = logged.record
        if isinstance(record, AttemptStarted):
            # An attempt of a history that a client brought along has no size, and is no call of ours.
            is_call = record.tokens_estimated > 0 or record.budgets is not None
            if is_call and len(self._attempts) < _ATTEMPTS_MAX:
                self._attempts[session] = record.model
            return
        used = _usage_of(record, self._attempts.get(session, ""), is_proxied=is_proxy_session(session))
        if used is None:
            return
        if isinstance(record, ReplyRecorded | AttemptFailed):
            self._attempts.pop(session, None)
        model, totals = used
        self._add(tenant_of(session), model_label(model), totals)

    def admitted(self, tenant: str, limits: KeyLimits, model: str) -> "_Admitted":
        """Count a request to a model while it runs. Raises if the key may not use the model or a limit is reached."""
        check_allowed(limits, model)
        return _Admitted(self, tenant, limits, model_label(model))

    async def begin(self, tenant: str, limits: KeyLimits, model: str) -> None:
        """Count a request that begins. Raises if a limit is reached."""
        held = self._of(tenant)
        if held.limits is not limits:
            held.limits, held.is_limited = limits, is_limited(limits)
        if held.is_limited:
            await self._check(tenant, held, model)
        held.requests[model] = held.requests.get(model, 0) + 1
        held.running[model] = held.running.get(model, 0) + 1
        self._record_soon(tenant, held)

    def end(self, tenant: str, model: str) -> None:
        """Count a request as no longer running."""
        running = self._of(tenant).running
        running[model] -= 1
        if not running[model]:
            del running[model]

    async def account(self, tenant: str) -> Account:
        """Return the account of a tenant, with the usage of this process that is not recorded yet."""
        held = self._of(tenant)
        await self._refresh(tenant, held)
        return held.current(self._clock.now())

    async def names(self) -> list[str]:
        """Return the names of all tenants that have an account, in order."""
        stored = [name async for name in account_names(self._store)]
        return sorted({*stored, *(name for name, held in self._held.items() if held.is_pending or held.writing)})

    async def close(self) -> None:
        """Record all usage that is not recorded yet."""
        for tenant, held in self._held.items():
            if held.flushing is not None:
                held.flushing.cancel()
                await asyncio.wait([held.flushing])
            # An append that was cancelled may have happened: usage counted twice would be money nobody spent.
            held.writing = {}
            try:
                await self._append(tenant, held)
            except HoldfastError as error:
                log.warning("usage of a key is not recorded", extra={"tenant": tenant, "code": error.code})

    def _of(self, tenant: str) -> _Held:
        held = self._held.get(tenant)
        if held is None:
            held = self._held[tenant] = _Held()
        return held

    def _add(self, tenant: str, model: str, totals: UsageTotals) -> None:
        held = self._of(tenant)
        held.add(model, totals)
        self._record_soon(tenant, held)

    def _record_soon(self, tenant: str, held: _Held) -> None:
        if held.flushing is None:
            held.flushing = asyncio.create_task(self._flush(tenant, held), name="record usage")

    async def _check(self, tenant: str, held: _Held, model: str) -> None:
        await self._refresh(tenant, held)
        now = self._clock.now()
        exceeded = check_request(held.current(now), held.limits, model, now, held.running)
        if exceeded is not None:
            self._add(tenant, model, UsageTotals(limited=1))
            raise _over_limit(exceeded)

    async def _refresh(self, tenant: str, held: _Held) -> None:
        if monotonic() - held.read_at > _FRESH_SECONDS:
            async with held.lock:
                held.account = await self._read(tenant, held.account)
                held.read_at = monotonic()

    async def _read(self, tenant: str, account: Account) -> Account:
        """Return an account with the records that were appended since."""
        if not account.seq:
            return await read_account(self._store, tenant)
        return await _read_on(self._store, account_key(tenant), account)

    async def _flush(self, tenant: str, held: _Held) -> None:
        """Record usage until none is pending. A store that fails is asked again later: usage is not lost meanwhile."""
        while held.is_pending:
            await asyncio.sleep(_GATHER_LIMITED_SECONDS if held.is_limited else _GATHER_SECONDS)
            try:
                await self._append(tenant, held)
            except HoldfastError as error:
                log.warning("usage of a key is not recorded yet", extra={"tenant": tenant, "code": error.code})
                for model, totals in held.writing.items():
                    held.add(model, totals)
                held.writing = {}
                await asyncio.sleep(_RETRY_SECONDS)
        held.flushing = None

    async def _append(self, tenant: str, held: _Held) -> None:
        held.writing = held.take()
        key = account_key(tenant)
        while held.writing:
            model, totals = next(iter(held.writing.items()))
            async with held.lock:
                await self._store.admit(key, UsageRecorded(model, totals))
                account = await self._read(tenant, held.account)
                held.account, held.read_at = account, monotonic()
                del held.writing[model]
        due = totals_due(held.account)
        if due is not None:
            await self._store.admit(key, due)


class _Admitted:
    """A request that counts while it runs. Every request has one: a generator would take several times as long."""

    __slots__ = ("_accounts", "_limits", "_model", "_tenant")

    def __init__(self, accounts: Accounts, tenant: str, limits: KeyLimits, model: str) -> None:
        self._accounts, self._tenant, self._limits, self._model = accounts, tenant, limits, model

    async def __aenter__(self) -> None:
        await self._accounts.begin(self._tenant, self._limits, self._model)

    async def __aexit__(self, *_error: object) -> None:
        self._accounts.end(self._tenant, self._model)


def _usage_of(record: object, model: str, *, is_proxied: bool) -> tuple[str, UsageTotals] | None:
    """Return the model and the totals of a record about a model call; None for other records."""
    match record:
        case ReplyRecorded(reply=reply, cost_usd=usd, own_request=own) if model or reply.usage is not None:
            # A reply without attempt and usage is of a history that a client brought along.
            return model or reply.model, call_totals(reply.usage, usd, saved_by_reply(reply.usage, usd, own))
        case AttemptFailed(usage=usage, cost_usd=usd) if usage is not None:
            return model, call_totals(usage, usd)
        case (
            PieceSummarised(model=name, usage=usage, cost_usd=usd)
            | SummaryRefused(model=name, usage=usage, cost_usd=usd)
        ) if usage is not None:
            return name, call_totals(usage, usd, saved_by_summary(usage, usd) if is_proxied else NOTHING_SAVED)
        case _:
            return None


def _over_limit(exceeded: Exceeded) -> OverLimitError:
    return OverLimitError(exceeded.sentence, limit=exceeded.limit, retry_seconds=exceeded.retry_seconds)


def usage_by_period(account: Account, *, periods_max: int) -> Iterator[tuple[str, str, UsageTotals]]:
    """Yield period, model and totals, the newest period first."""
    shown = set(sorted(account.periods, reverse=True)[:periods_max])
    for row in account.rows():
        if row.period in shown:
            yield row.period, row.model, row.totals
