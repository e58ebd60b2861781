"""`holdfast models`: limits and prices of each model, with their sources. `holdfast sim`: serve the simulated model."""

import asyncio
import difflib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import msgspec
from msgspec.structs import asdict, replace

from holdfast.cli.configuration import default_place
from holdfast.cli.options import configure_logging, open_to_read, open_to_write, store_option
from holdfast.cli.output import align_columns, sanitize
from holdfast.core.limits.claims import ClaimInWords, all_claims, in_words
from holdfast.core.limits.learning import effective
from holdfast.core.limits.prices import LONG_PROMPT_TOKENS, NO_PRICES, PRICED
from holdfast.errors import OperatorError, UsageError
from holdfast.models.catalogue import PROVIDERS
from holdfast.models.fake import DEFAULT_LIMITS, Simulation
from holdfast.models.fake.server import CONTROL_PATH, serve_simulation
from holdfast.models.limits import (
    DECLARED,
    OPEN_MODELS,
    Overrides,
    declared_limits,
    open_limits,
)
from holdfast.models.transport import parse_endpoint
from holdfast.runtime.engine.learning import Learning
from holdfast.types.limits import Learned, Limits
from holdfast.wiring import Place, model_overrides

_TITLES = {
    "window_tokens": "window",
    "output_tokens_max": "output",
    "wire_bytes_max": "bytes",
    "media_count_max": "images",
    "media_bytes_max": "bytes each",
    "media_pixels_max": "pixels",
}
_PRICE_TITLES = {
    "input_usd": "$ in",
    "cached_input_usd": "$ cached",
    "output_usd": "$ out",
    "cache_write_usd": "$ kept",
}


class KnownLimit(msgspec.Struct, frozen=True, rename={"source": "from"}):
    """One limit and its source: declared, override or learned."""

    value: int
    source: str


class KnownPrice(msgspec.Struct, frozen=True, rename={"source": "from"}):
    """US dollars per million tokens, and the source: declared, list or override; and the page or file that has it."""

    value: float
    source: str
    stated_in: str = ""


class KnownModel(msgspec.Struct, frozen=True):
    """Limits and prices of a model. With `is_prefix` its limits hold for every name that begins so.

    Prices hold for this name and its dated forms only.
    """

    model: str
    limits: dict[str, KnownLimit]
    prices: dict[str, KnownPrice] = {}
    claims: list[ClaimInWords] = []
    is_prefix: bool = False


@click.command()
@click.argument("words", nargs=-1, metavar="[PART] | forget NAME")
@store_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line, for programs.")
def models(words: tuple[str, ...], store: Place | None, *, as_json: bool) -> None:
    """List the limits and prices of models whose name contains PART: declared, overridden and learned.

    Learned limits are claims: each is shown with its evidence in words. `models forget NAME` drops what was learned
    about a model, in all processes; the next calls learn again.

    With PART, each price is followed by the page or file that states it. Put your own numbers in the file named by
    HOLDFAST_MODELS, else in models.toml in your config folder; `price_list = "FILE"` there replaces the list prices.
    """
    configure_logging()
    match words:
        case ("forget", name):
            asyncio.run(_forget(store, name, as_json=as_json))
        case () | (_,):
            _list(words[0] if words else None, store, as_json=as_json)
        case _:
            raise UsageError("models takes one PART of a name, or: models forget NAME")


def _list(wanted: str | None, store: Place | None, *, as_json: bool) -> None:
    overrides = model_overrides()
    learned = asyncio.run(_learned(store))
    known = [row for row in _rows(overrides, learned) if wanted is None or wanted.lower() in row.model.lower()]
    if as_json:
        for row in known:
            click.echo(msgspec.json.encode(row))
    elif not known:
        click.echo(f"No model matches {wanted!r}; limits of unknown models are learned from calls.")
    else:
        titles = ("model", *_TITLES.values(), *_PRICE_TITLES.values())
        for line in align_columns([titles, *(_cells(row) for row in known)]):
            click.echo(line)
        for line in _notes(known, with_prices=wanted is not None):
            click.echo(sanitize(line))


def _notes(known: list[KnownModel], *, with_prices: bool) -> Iterator[str]:
    """Yield the claims about models in words, and where their prices are stated."""
    for row in known:
        stated = dict.fromkeys(price.stated_in for price in row.prices.values()) if with_prices else {}
        for place in stated:
            stated_here = [name for name, price in row.prices.items() if price.stated_in == place]
            fields = ", ".join(_PRICE_TITLES[name] for name in stated_here if name in _PRICE_TITLES)
            yield f"{row.model}: {fields} from {place}"
        if with_prices and (step := _long_prompts(row.prices)):
            yield f"{row.model}: {step}"
        yield from (f"{row.model} {claim.words}" for claim in row.claims)


def _long_prompts(prices: Mapping[str, KnownPrice]) -> str:
    """Return the step for long prompts in words; "" if there is none."""
    longer = prices.get(LONG_PROMPT_TOKENS)
    if longer is None:
        return ""
    of_input, of_output = (prices.get(f"long_{kind}_times") for kind in ("input", "output"))
    return (
        f"above {longer.value:,.0f} tokens input costs {of_input.value if of_input else 1:g} times, "
        f"output {of_output.value if of_output else 1:g} times"
    )


async def _forget(store: Place | None, name: str, *, as_json: bool) -> None:
    """Drop the claims of a model, given as it is listed, by its reference or by its name."""
    async with open_to_write(store) as logs:
        learning = Learning(logs)
        issuers = sorted(await learning.everything())
        found = [one for one in issuers if name in {one, _reference(one)[0], _reference(one)[0].partition(":")[2]}]
        if not found:
            near = difflib.get_close_matches(name, issuers, n=1, cutoff=0.3)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UsageError(f"nothing was learned about a model {name!r}{hint}")
        for issuer in found:
            await learning.forget(issuer)
            click.echo(msgspec.json.encode({"forgotten": issuer}) if as_json else f"forgotten: {sanitize(issuer)}")


async def _learned(store: Place | None) -> dict[str, Learned]:
    """Read the learned limits; empty if no store was named and the default one does not exist."""
    usual = default_place()
    if store is None and isinstance(usual, Path) and not usual.exists():
        return {}
    async with open_to_read(store) as logs:
        return await Learning(logs).everything()


def _rows(overrides: Overrides, learned: dict[str, Learned]) -> list[KnownModel]:
    rows = [
        replace(
            _row(name, declared_limits(name), overrides.overridden_limits(name)),
            prices=_prices(name, overrides),
            is_prefix=True,
        )
        for name in DECLARED
    ]
    rows += [replace(_row(name, Limits(window), {}), is_prefix=True) for name, _, window in OPEN_MODELS]
    own = (name for name in overrides.by_name if name not in DECLARED)
    rows += [
        replace(_row(name, Limits(), overrides.overridden_limits(name)), prices=_prices(name, overrides))
        for name in own
    ]
    priced = sorted({*PRICED, *overrides.price_list} - {*DECLARED, *overrides.by_name})
    rows += [KnownModel(name, {}, _prices(name, overrides)) for name in priced]
    rows += [_learned_row(issuer, model, overrides) for issuer, model in sorted(learned.items())]
    return rows


def _prices(reference: str, overrides: Overrides, *, is_official: bool = True) -> dict[str, KnownPrice]:
    listed, stated_in = overrides.listed_prices(reference) if is_official else (NO_PRICES, "")
    kind = "list" if stated_in == overrides.price_list_source else "declared"
    known = {field: KnownPrice(usd, kind, stated_in) for field, usd in asdict(listed).items() if usd is not None}
    overridden = overrides.overridden_prices(reference)
    return known | {field: KnownPrice(usd, "override", overrides.source) for field, usd in overridden.items()}


def _row(name: str, declared: Limits, overridden: dict[str, int]) -> KnownModel:
    limits = {field: KnownLimit(count, "declared") for field, count in asdict(declared).items() if count is not None}
    return KnownModel(name, limits | {field: KnownLimit(count, "override") for field, count in overridden.items()})


def _learned_row(issuer: str, learned: Learned, overrides: Overrides) -> KnownModel:
    """Return the effective limits of a model that has been called."""
    reference, is_official = _reference(issuer)
    declared = declared_limits(reference) if is_official else open_limits(reference.partition(":")[2])
    before = _row(issuer, declared, overrides.overridden_limits(reference))
    in_effect = asdict(effective(overrides.applied(reference, declared), learned))
    limits: dict[str, KnownLimit] = {}
    for field, count in in_effect.items():
        known = before.limits.get(field)
        if count is not None:
            limits[field] = known if known is not None and known.value == count else KnownLimit(count, "learned")
    claims = [in_words(claim) for claim in all_claims(learned)]
    return KnownModel(issuer, limits, _prices(reference, overrides, is_official=is_official), claims)


def _reference(issuer: str) -> tuple[str, bool]:
    """Return the model reference of an issuer, and whether it is the provider's official endpoint."""
    dialect, _, rest = issuer.partition(":")
    for prefix, spoken in PROVIDERS.items():
        if dialect == spoken.NAME:
            place = parse_endpoint(spoken.DEFAULT_BASE_URL, prefix, os.environ).place
            is_official = rest.startswith(f"{place}:")
            name = rest.removeprefix(f"{place}:") if is_official else rest.rpartition(":")[2]
            return f"{prefix}:{name}", is_official
    return issuer, False


def _cells(row: KnownModel) -> tuple[str, ...]:
    limits, prices = map(row.limits.get, _TITLES), map(row.prices.get, _PRICE_TITLES)
    return (sanitize(row.model), *map(_cell, limits), *map(_price_cell, prices))


def _price_cell(price: KnownPrice | None) -> str:
    if price is None:
        return "-"
    return f"{price.value:g}" if price.source != "override" else f"{price.value:g} ({price.source})"


def _cell(limit: KnownLimit | None) -> str:
    if limit is None:
        return "-"
    return f"{limit.value:,}" if limit.source == "declared" else f"{limit.value:,} ({limit.source})"


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=0, show_default=True, type=click.IntRange(0, 65_535), help="0 chooses a free port.")
@click.option("--window", default=DEFAULT_LIMITS.window_tokens, show_default=True, help="Context window in tokens.")
@click.option("--output", default=DEFAULT_LIMITS.output_tokens_max, show_default=True, help="Output token limit.")
@click.option("--wire-bytes", type=click.IntRange(min=1), help="Limit of the request body in bytes.")
@click.option("--faults", default="", metavar="SCRIPT", help='Outcome of each request in order: "429*2,ok,cut".')
@click.option(
    "--refuse",
    "refused",
    multiple=True,
    metavar="TEXT=FAULT",
    help='Outcome of every request with this text: "secret=content-filter". May be repeated.',
)
def sim(  # noqa: PLR0913 - a parameter per option
    *, host: str, port: int, window: int, output: int, wire_bytes: int | None, faults: str, refused: tuple[str, ...]
) -> None:
    """Serve the simulated model until Ctrl-C. It implements the OpenAI and Anthropic APIs and needs no key."""
    limits = Limits(window, output, wire_bytes)
    try:
        simulation = Simulation(limits, faults=faults)
    except UsageError as error:
        raise click.BadParameter(str(error), param_hint="--faults") from error
    try:
        simulation.set_refused(dict(map(_refusal, refused)))
    except UsageError as error:
        raise click.BadParameter(str(error), param_hint="--refuse") from error
    try:
        asyncio.run(_serve(simulation, host, port))
    except KeyboardInterrupt:
        click.echo("stopped")
    except OSError as error:
        raise OperatorError(
            f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port"
        ) from error


def _refusal(option: str) -> tuple[str, str]:
    text, is_given, word = option.rpartition("=")
    if not (text and is_given):
        raise click.BadParameter(f"{option!r} is not TEXT=FAULT", param_hint="--refuse")
    return text, word


async def _serve(simulation: Simulation, host: str, port: int) -> None:
    async with serve_simulation(simulation, host, port) as url:
        click.echo(f"simulated model on {url}")
        click.echo(f"  OPENAI_BASE_URL={url}/v1  ANTHROPIC_BASE_URL={url}  (any key)")
        click.echo(f"  faults and limits: POST {url}{CONTROL_PATH}; counters: GET {url}{CONTROL_PATH}")
        await asyncio.Event().wait()
