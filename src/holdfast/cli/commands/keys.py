"""`holdfast keys` and `usage`: manage keys of the gateway with their roles and limits, and show what they used."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

import click
import msgspec
from msgspec.structs import replace

from holdfast.cli.configuration import config_option, read_settings
from holdfast.cli.options import open_to_read, store_option
from holdfast.cli.output import align_columns, json_option, sanitize
from holdfast.config.schema import Settings
from holdfast.core.limits.savings import own_totals, session_saved
from holdfast.errors import UsageError
from holdfast.gateway.accounts import account_names, read_account, usage_by_period
from holdfast.gateway.http.key_table import KeyTable
from holdfast.gateway.http.keys import GatewayKey, KeyFile, Role
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.sessions.record_text import describe_spend
from holdfast.types.accounts import NOTHING_SAVED, KeyLimits, UsageLimits, UsageTotals
from holdfast.wiring import Place, has_key_table, keys_path, open_key_table

_FILE = "holdfast.keys"
pass_file = click.decorators.pass_meta_key(_FILE)
_CommandT = TypeVar("_CommandT", bound=Callable[..., Any])
_ResultT = TypeVar("_ResultT")

# Short names of limits on the command line, in the order of `--help`.
_LIMITS: Mapping[str, tuple[str, str]] = {
    "rpm": ("requests_per_minute", "Requests per minute."),
    "tpm": ("tokens_per_minute", "Tokens per minute."),
    "concurrent": ("concurrent_requests", "Requests in flight, per gateway process."),
    "tokens-day": ("tokens_per_day", "Tokens per day (UTC)."),
    "tokens-month": ("tokens_per_month", "Tokens per month (UTC)."),
    "usd-day": ("usd_per_day", "US dollars per day, by declared prices."),
    "usd-month": ("usd_per_month", "US dollars per month, by declared prices."),
}
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
_COMMENT_CHARS_MAX = 200


class _Span(click.ParamType[float]):
    """A length of time: a number and a unit, as in "90d". "never" is 0."""

    name = "time"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        if not isinstance(value, str):
            return value
        if value == "never":
            return 0.0
        found = re.fullmatch(r"(\d{1,6})([smhdw])", value)
        if found is None:
            self.fail(f"{value!r} is not a time; use a number and s, m, h, d or w, as in 90d", param, ctx)
        return float(found[1]) * _UNITS[found[2]]


@click.group()
@config_option
@click.option("--store", metavar="PATH", help="Store of the gateway.")
@click.pass_context
def keys(context: click.Context, store: str | None) -> None:
    """Manage API keys of the gateway: roles, limits, rotation. Each key has its own sessions."""
    found = _keys_of(read_settings({"store": store}).settings)
    if found is None:
        raise UsageError("a store in memory has no keys; name a store with --store, or set gateway.keys_file")
    context.meta[_FILE] = found


def has_keys(settings: Settings) -> bool:
    """Return whether a gateway with these settings has keys."""
    found = _keys_of(settings)
    return found is not None and bool(found.all())


def _keys_of(settings: Settings) -> "KeyFile | SharedKeys | None":
    file = keys_path(settings)
    if file is not None:
        return KeyFile(file)
    return SharedKeys(settings.store) if has_key_table(settings) else None


class SharedKeys:
    """Keys in a database that several gateways share, with the methods of `KeyFile`."""

    def __init__(self, url: str) -> None:
        self._url = url

    def all(self) -> tuple[GatewayKey, ...]:
        """Return the keys."""
        return self._run(KeyTable.all)

    def add(self, name: str, key: GatewayKey | None = None) -> str:
        """Create a key and return its secret."""
        return self._run(lambda table: table.add(name, key))

    def change(self, name: str, change: Callable[[GatewayKey], GatewayKey]) -> GatewayKey:
        """Replace a key by the changed one and return it."""
        return self._run(lambda table: table.change(name, change))

    def rotate(self, name: str, *, overlap_seconds: float) -> str:
        """Give a key a new secret and return it."""
        return self._run(lambda table: table.rotate(name, overlap_seconds=overlap_seconds))

    def remove(self, name: str) -> None:
        """Remove a key."""
        self._run(lambda table: table.remove(name))

    def _run(self, work: Callable[[KeyTable], Awaitable[_ResultT]]) -> _ResultT:
        async def run() -> _ResultT:
            async with open_key_table(self._url) as table:
                return await work(table)

        return asyncio.run(run())


def _properties(command: _CommandT) -> _CommandT:
    """Add the options that describe a key."""
    options = [
        click.option("--role", type=click.Choice([role.value for role in Role]), help="Default: use."),
        click.option("--comment", metavar="TEXT", help="Note for operators."),
        click.option("--expires", type=_Span(), metavar="TIME", help='As in "90d"; "never" removes the expiry.'),
        click.option(
            "--allow", multiple=True, metavar="MODEL", help='A model it may use; "gpt-5*" for several; "*": all.'
        ),
        *(
            click.option(
                f"--{name}",
                type=click.FloatRange(min=0) if name.startswith("usd") else click.IntRange(min=0),
                metavar="NUMBER",
                help=f"{text} 0: no limit.",
            )
            for name, (_, text) in _LIMITS.items()
        ),
        click.option(
            "--model-limit",
            multiple=True,
            metavar="MODEL:NAME=NUMBER,…",
            help='Limits of some models: "gpt-5*:rpm=10,usd-day=5". "gpt-5*:" removes them.',
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


class _Given(msgspec.Struct, frozen=True):
    """Options that describe a key; None: the option was not given."""

    role: Role | None
    comment: str | None
    expires: float | None
    allow: tuple[str, ...]
    model_limit: tuple[str, ...]
    rpm: int | None
    tpm: int | None
    concurrent: int | None
    tokens_day: int | None
    tokens_month: int | None
    usd_day: float | None
    usd_month: float | None


def _changed(key: GatewayKey, given: _Given) -> GatewayKey:
    """Return a key with the properties that were given as options."""
    comment = key.comment if given.comment is None else given.comment
    if len(comment) > _COMMENT_CHARS_MAX:
        raise UsageError(f"the comment has {len(comment):,} characters, the limit is {_COMMENT_CHARS_MAX}")
    expires_at = key.expires_at
    if given.expires is not None:
        expires_at = time.time() + given.expires if given.expires else 0.0
    limits = _changed_limits(key.limits, given)
    return replace(key, role=given.role or key.role, comment=comment, expires_at=expires_at, limits=limits)


def _changed_limits(limits: KeyLimits, given: _Given) -> KeyLimits:
    amounts = {field: getattr(given, name.replace("-", "_")) for name, (field, _) in _LIMITS.items()}
    limits = replace(limits, **{field: amount for field, amount in amounts.items() if amount is not None})
    if given.allow:
        limits = replace(limits, models=() if "*" in given.allow else given.allow)
    per_model = {**limits.per_model, **dict(map(_model_limit, given.model_limit))}
    return replace(limits, per_model={model: one for model, one in per_model.items() if one != UsageLimits()})


def _model_limit(text: str) -> tuple[str, UsageLimits]:
    model, colon, pairs = text.rpartition(":")
    if not colon or not model:
        raise UsageError(f"--model-limit takes MODEL:NAME=NUMBER, as in gpt-5*:rpm=10, not {text[:80]!r}")
    found: dict[str, float] = {}
    for pair in filter(None, pairs.split(",")):
        name, _, number = pair.partition("=")
        if name not in _LIMITS:
            raise UsageError(f"--model-limit: {name[:40]!r} is not a limit; use one of {', '.join(_LIMITS)}")
        found[_LIMITS[name][0]] = _number(number)
    try:
        return model, msgspec.convert(found, UsageLimits, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"--model-limit {text[:80]!r}: {error}") from error


def _number(text: str) -> float:
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise UsageError(f"--model-limit: {text[:40]!r} is not a number") from None


@keys.command()
@click.argument("name")
@_properties
@json_option
@pass_file
def add(file: KeyFile | SharedKeys, /, name: str, *, as_json: bool, **given: object) -> None:
    """Create a key and print its secret, once: only its hash is stored."""
    key = file.add(name, _changed(GatewayKey(name), msgspec.convert(given, _Given)))
    click.echo(msgspec.json.encode({"name": name, "key": key}) if as_json else key)


@keys.command()
@click.argument("name")
@_properties
@json_option
@pass_file
def change(file: KeyFile | SharedKeys, /, name: str, *, as_json: bool, **given: object) -> None:
    """Change the role, comment, expiry or limits of a key. A running gateway follows within a second."""
    changed = file.change(name, lambda key: _changed(key, msgspec.convert(given, _Given)))
    click.echo(msgspec.json.encode(_shown(changed)) if as_json else f"changed {name}: {_limits_text(changed.limits)}")


@keys.command()
@click.argument("name")
@click.option(
    "--overlap", type=_Span(), default="1d", metavar="TIME", help="The old secret stays valid so long. Default: 1d."
)
@json_option
@pass_file
def rotate(file: KeyFile | SharedKeys, name: str, overlap: float, *, as_json: bool) -> None:
    """Give a key a new secret and print it, once. The old one stays valid for a while; sessions and limits stay."""
    secret = file.rotate(name, overlap_seconds=overlap)
    click.echo(msgspec.json.encode({"name": name, "key": secret}) if as_json else secret)


@keys.command("list")
@json_option
@pass_file
def list_keys(file: KeyFile | SharedKeys, *, as_json: bool) -> None:
    """List the keys with their roles, expiry and limits."""
    found = file.all()
    if as_json:
        for key in found:
            click.echo(msgspec.json.encode(_shown(key)))
        return
    if not found:
        click.echo("There are no keys; `holdfast keys add NAME` creates one.")
        return
    rows = [
        (key.name, key.role.value, _time(key.created_at), _expiry(key), _limits_text(key.limits), sanitize(key.comment))
        for key in found
    ]
    for line in align_columns([("name", "role", "created", "expires", "limits", "comment"), *rows]):
        click.echo(line.rstrip())


def _shown(key: GatewayKey) -> dict[str, Any]:
    """Return a key for programs, without the hashes of its secrets."""
    return {
        "name": key.name,
        "created_at": key.created_at,
        "role": key.role,
        "comment": key.comment,
        "expires_at": key.expires_at or None,
        "secrets": [{"created_at": one.created_at, "expires_at": one.expires_at or None} for one in key.all_secrets()],
        "limits": key.limits,
    }


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M}"


def _expiry(key: GatewayKey) -> str:
    if not key.expires_at:
        return "-"
    return "expired" if key.expires_at <= time.time() else _time(key.expires_at)


def _limits_text(limits: KeyLimits) -> str:
    texts = [
        _one_limits_text(limits),
        *(f"{model}: {_one_limits_text(one)}" for model, one in limits.per_model.items()),
    ]
    if limits.models:
        texts.append(f"only {', '.join(limits.models)}")
    return sanitize("; ".join(filter(None, texts)) or "none")


def _one_limits_text(limits: UsageLimits) -> str:
    amounts = ((name, getattr(limits, field)) for name, (field, _) in _LIMITS.items())
    return ", ".join(f"{name} {amount:,}" for name, amount in amounts if amount)


@keys.command()
@click.argument("name")
@json_option
@pass_file
def remove(file: KeyFile | SharedKeys, name: str, *, as_json: bool) -> None:
    """Remove a key. A running gateway rejects it within a second; its sessions stay."""
    file.remove(name)
    click.echo(msgspec.json.encode({"removed": name}) if as_json else f"removed {name}")


# --- holdfast usage ---


@click.command()
@store_option
@click.option("--key", "name", metavar="NAME", help="Only this key. Default: all.")
@click.option(
    "--periods", type=click.IntRange(1, 100), default=31, help="Newest days, and months of older usage. Default: 31."
)
@click.option("--session", "session", metavar="SESSION", help="Only this session of a client of the proxy.")
@json_option
def usage(store: Place | None, name: str | None, periods: int, session: str | None, *, as_json: bool) -> None:
    """Show requests, tokens and cost of the gateway by day, key and model.

    A second table shows requests that were sent changed as their clients sent them: estimated by the sizes and the
    cache reports, negative savings included. Summaries and recalls count as cost of the changes.
    """
    if session is not None:
        asyncio.run(_session_usage(store, session, as_json=as_json))
        return
    rows = asyncio.run(_usage(store, name, periods))
    if as_json:
        shown = [
            {
                "period": period,
                "key": key,
                "model": model,
                **msgspec.structs.asdict(totals),
                "without_changes": own_totals(totals, totals.saved),
            }
            for period, key, model, totals in rows
        ]
        click.echo(msgspec.json.encode({"rows": shown}))
        return
    if not rows:
        click.echo("No gateway has recorded usage here. `holdfast usage --session KEY` shows that of one session.")
        return
    header = ("period", "key", "model", "requests", "limited", "calls", "input", "cached", "output", "US dollars")
    for line in align_columns([header, *(_usage_row(*row) for row in rows)]):
        click.echo(line.rstrip())
    total = sum(totals.usd for *_, totals in rows)
    unpriced = sum(totals.unpriced for *_, totals in rows)
    click.echo(f"total: ${total:,.4f}" + (f", and {unpriced:,} calls without a price" if unpriced else ""))
    _print_savings([row for row in rows if row[3].saved != NOTHING_SAVED])


def _print_savings(rows: list[tuple[str, str, str, UsageTotals]]) -> None:
    if not rows:
        return
    click.echo("\nwithout the changes of the proxy, estimated:")
    header = ("period", "key", "model", "changed", "rejected", "input", "cached", "output", "US dollars", "saved")
    for line in align_columns([header, *(_own_row(*row) for row in rows)]):
        click.echo(line.rstrip())
    saved = [totals.saved for *_, totals in rows]
    rescues = sum(one.rescue_usd for one in saved)
    sentence = f"saved: {_money(sum(one.usd for one in saved))}"
    if rescues:
        refused = sum(one.refused for one in saved)
        sentence += f"; {_money(rescues)} of the cost paid for summaries and for {refused:,} answers to requests that "
        sentence += "the provider would have rejected"
    click.echo(sentence)


def _own_row(period: str, key: str, model: str, totals: UsageTotals) -> tuple[str, ...]:
    own, saved = own_totals(totals, totals.saved), totals.saved
    counts = (saved.changed, own.refused, own.input_tokens, own.cached_input_tokens, own.output_tokens)
    is_priced = totals.calls > totals.unpriced
    money = (f"{own.usd:,.4f}", _money(saved.usd)) if is_priced else ("-", "-")
    return (period, key or "-", sanitize(model) or "-", *(f"{number:,}" for number in counts), *money)


def _money(usd: float) -> str:
    return f"{'-' if usd < 0 else ''}${abs(usd):,.4f}"


async def _session_usage(store: Place | None, session: str, *, as_json: bool) -> None:
    async with open_to_read(store) as logs:
        if await logs.info(session) is None:
            raise UsageError(f"there is no session {session!r}; `holdfast sessions` lists them")
        turn = (await open_log(logs, session)).turn
    saved = session_saved(turn.saved, turn.spent_on_notes)
    own = own_totals(turn.spent, saved)
    if as_json:
        shown = {"session": session, "spent": turn.spent, "saved": saved, "without_changes": own}
        click.echo(msgspec.json.encode(shown))
        return
    click.echo(f"with the changes of the proxy:    {describe_spend(turn.spent, turn.spent_on_notes)}")
    click.echo(
        f"without them, estimated:          {own.input_tokens:,} tokens read, {own.cached_input_tokens:,} of them "
        f"cached, and {own.output_tokens:,} written, {_money(own.usd)}"
    )
    refused = f"; {saved.refused:,} of {saved.changed:,} changed requests would have been rejected"
    click.echo(f"saved:                            {_money(saved.usd)}{refused if saved.refused else ''}")


async def _usage(store: Place | None, name: str | None, periods: int) -> list[tuple[str, str, str, UsageTotals]]:
    async with open_to_read(store) as logs:
        names = [name] if name is not None else [one async for one in account_names(logs)]
        found = [
            (period, key, model, totals)
            for key in names
            for period, model, totals in usage_by_period(await read_account(logs, key), periods_max=periods)
        ]
    return sorted(found, key=lambda row: row[0], reverse=True)


def _usage_row(period: str, key: str, model: str, totals: UsageTotals) -> tuple[str, ...]:
    counts = (totals.requests, totals.limited, totals.calls, totals.input_tokens, totals.cached_input_tokens)
    numbers = (f"{number:,}" for number in (*counts, totals.output_tokens))
    money = f"{totals.usd:,.4f}" if totals.calls > totals.unpriced else "-"
    return (period, key or "-", sanitize(model) or "-", *numbers, money)
