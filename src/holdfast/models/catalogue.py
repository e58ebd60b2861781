"""Which model a reference names, where it is reached, and what it is declared to accept.

References: "sim" or "sim:DIALECT", "openai:NAME", "anthropic:NAME". Keys and addresses come from the environment
that is handed in. A model that stands in no table has no declared limits: they are learned.
"""

import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from holdfast.core.limits import Limits
from holdfast.errors import MissingKeyError, UnknownModelError, UsageError
from holdfast.models import anthropic_messages, openai_chat
from holdfast.models.dialects import DIALECTS, Dialect
from holdfast.models.endpoints import parse_endpoint
from holdfast.models.http import HttpModel, ModelCard
from holdfast.models.transport import SocketTransport

if TYPE_CHECKING:
    from holdfast.models.simulated import Simulation

PROVIDERS: Mapping[str, Dialect] = MappingProxyType({"openai": openai_chat, "anthropic": anthropic_messages})

_MIB = 2**20


def _openai(window: int, output: int) -> Limits:
    # Per request: 500 images, 50 MB in all. https://platform.openai.com/docs/guides/images-vision
    return Limits(window, output, 50 * _MIB, media_count_max=500)


def _anthropic(window: int, output: int) -> Limits:
    # Per request: 32 MB and 100 images; per image: 5 MB and 8,000 pixels a side.
    # https://platform.claude.com/docs/en/api/overview and .../build-with-claude/vision
    return Limits(window, output, 32 * _MIB, 100, 5 * _MIB, 8_000)


# The longest name that a model's own starts with counts. Windows and outputs as the providers publish them.
_DECLARED: Mapping[str, Limits] = MappingProxyType(
    {
        "openai:gpt-3.5-turbo": _openai(16_385, 4_096),
        "openai:gpt-4": _openai(8_192, 8_192),
        "openai:gpt-4-turbo": _openai(128_000, 4_096),
        "openai:gpt-4o": _openai(128_000, 16_384),
        "openai:gpt-4.1": _openai(1_047_576, 32_768),
        # Of 400,000 tokens no more than 272,000 may be input, which is the bound that is met first.
        "openai:gpt-5": _openai(272_000, 128_000),
        "openai:gpt-5-chat": _openai(128_000, 16_384),
        "openai:gpt-5.4": _openai(1_050_000, 128_000),
        "openai:gpt-5.5": _openai(1_050_000, 128_000),
        "openai:o1": _openai(200_000, 100_000),
        "openai:o3": _openai(200_000, 100_000),
        "openai:o4-mini": _openai(200_000, 100_000),
        "anthropic:claude-3": _anthropic(200_000, 4_096),
        "anthropic:claude-3-5": _anthropic(200_000, 8_192),
        "anthropic:claude-3-7": _anthropic(200_000, 64_000),
        "anthropic:claude-opus-4": _anthropic(200_000, 32_000),
        "anthropic:claude-opus-4-5": _anthropic(200_000, 64_000),
        "anthropic:claude-opus-4-6": _anthropic(1_000_000, 128_000),
        "anthropic:claude-opus-4-7": _anthropic(1_000_000, 128_000),
        "anthropic:claude-opus-4-8": _anthropic(1_000_000, 128_000),
        "anthropic:claude-opus-5": _anthropic(1_000_000, 128_000),
        "anthropic:claude-sonnet-4": _anthropic(200_000, 64_000),
        "anthropic:claude-sonnet-4-6": _anthropic(1_000_000, 128_000),
        "anthropic:claude-sonnet-5": _anthropic(1_000_000, 128_000),
        "anthropic:claude-haiku-4-5": _anthropic(200_000, 64_000),
        "anthropic:claude-fable-5": _anthropic(1_000_000, 128_000),
    }
)


def declared_limits(reference: str) -> Limits:
    """Return what a model is declared to accept; nothing where it is not in the table."""
    known = [name for name in _DECLARED if reference.startswith(name)]
    return _DECLARED[max(known, key=len)] if known else Limits()


def open_model(
    reference: str,
    *,
    base_url: str | None = None,
    environ: Mapping[str, str],
    simulation: "Simulation | None" = None,
) -> HttpModel:
    """Return the model that a reference names. Nothing is connected before the first request.

    `base_url` wins over OPENAI_BASE_URL and ANTHROPIC_BASE_URL. An endpoint other than the provider's own may do
    without a key. Raises `UnknownModelError`, `MissingKeyError`, or `UsageError` for a malformed address.
    """
    prefix, _, name = reference.partition(":")
    if prefix == "sim":
        return _open_simulated(reference, name, simulation)
    if prefix not in PROVIDERS:
        raise UnknownModelError(_unknown(reference))
    if not name:
        raise UnknownModelError(f"model {reference!r} has no name behind the colon; write it as {prefix}:NAME")
    dialect = PROVIDERS[prefix]
    if base_url is not None:
        url, source = base_url, "base_url"
    else:
        url = environ.get(dialect.BASE_URL_VARIABLE, "").strip() or dialect.DEFAULT_BASE_URL
        source = dialect.BASE_URL_VARIABLE
    endpoint = parse_endpoint(url, source, environ)
    official = parse_endpoint(dialect.DEFAULT_BASE_URL, source, {})
    is_official = endpoint.place == official.place
    # A compatible server may give its own model a well-known name.
    limits = declared_limits(reference) if is_official else Limits()
    card = ModelCard(reference, name, endpoint.place, limits, is_official)
    key = _key(dialect, environ, reference, is_needed=is_official)
    return HttpModel(dialect, card, SocketTransport(endpoint.base_url, proxy=endpoint.proxy), key=key)


def simulated_model(
    simulation: "Simulation", dialect: str = "openai-chat", *, name: str = "sim", declared: Limits | None = None
) -> HttpModel:
    """Return the simulated model without a socket, speaking a dialect.

    It declares the simulation's own limits; `declared` says otherwise, so that learning the real ones can be tested.
    """
    # Half of what importing this room costs, and only whoever simulates needs it.
    from holdfast.models.simulated import SimulationTransport  # noqa: PLC0415

    limits = simulation.limits if declared is None else declared
    card = ModelCard(name, name, "simulation", limits)
    return HttpModel(DIALECTS[dialect], card, SimulationTransport(simulation, dialect))


def _open_simulated(reference: str, dialect: str, simulation: "Simulation | None") -> HttpModel:
    from holdfast.models.simulated import Simulation  # noqa: PLC0415 - as above

    if dialect and dialect not in DIALECTS:
        raise UnknownModelError(f"model {reference!r}: the simulated model speaks {' and '.join(DIALECTS)}")
    chosen = simulation if simulation is not None else Simulation()
    return simulated_model(chosen, dialect or openai_chat.NAME, name=reference)


def _unknown(reference: str) -> str:
    hint = _nearest(reference)
    meant = f"; did you mean {hint!r}?" if hint else "."
    return f"model {reference!r} is not known{meant} Known are sim, openai:NAME and anthropic:NAME"


def _nearest(reference: str) -> str:
    """Guess what was meant: a prefix with a slip in it, or a well-known name without its prefix."""
    prefix, colon, name = reference.partition(":")
    near = difflib.get_close_matches(prefix, ["sim", *PROVIDERS], n=1)
    if near:
        return near[0] if near[0] == "sim" else f"{near[0]}:{name or 'NAME'}"
    families = {declared.partition(":")[2].partition("-")[0]: declared.partition(":")[0] for declared in _DECLARED}
    provider = families.get(reference.partition("-")[0]) if not colon else None
    return f"{provider}:{reference}" if provider else ""


def _key(dialect: Dialect, environ: Mapping[str, str], reference: str, *, is_needed: bool) -> str:
    variable = dialect.KEY_VARIABLE
    key = environ.get(variable, "").strip()
    if not key and is_needed:
        raise MissingKeyError(f"model {reference!r} needs a key: set {variable}, or set {dialect.BASE_URL_VARIABLE}")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(f"{variable} has characters that cannot stand in a header; copy the key again")
    return key
