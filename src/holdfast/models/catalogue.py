"""Model catalogue: open a model by its reference, with endpoint, key, limits and prices.

References: "sim" or "sim:DIALECT", "openai:NAME" (chat completions), "responses:NAME" (OpenAI's responses),
"anthropic:NAME", "gemini:NAME". Keys and base URLs come from the `environ` argument. A model in no table has no
declared limits: they are learned.
"""

import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from holdfast.errors import MissingKeyError, UnknownModelError
from holdfast.models import anthropic, gemini, openai_chat, openai_responses
from holdfast.models.dialects import DIALECTS, Dialect
from holdfast.models.http import HttpModel, ModelCard
from holdfast.models.limits import FAMILIES, NO_OVERRIDES, Overrides, declared_limits, open_limits
from holdfast.models.reference import Model, checked_key
from holdfast.models.transport import SocketTransport, parse_endpoint
from holdfast.types.limits import Limits

if TYPE_CHECKING:
    from holdfast.models.fake import Simulation

PROVIDERS: Mapping[str, Dialect] = MappingProxyType(
    {
        "openai": openai_chat,
        "responses": openai_responses,
        "anthropic": anthropic,
        "gemini": gemini,
    }
)


def open_model(
    reference: str | Model,
    *,
    base_url: str | None = None,
    environ: Mapping[str, str],
    simulation: "Simulation | None" = None,
    overrides: Overrides = NO_OVERRIDES,
) -> HttpModel:
    """Open the model of a reference. It connects with the first request.

    `base_url` takes precedence over the dialect's variable, such as OPENAI_BASE_URL. Only the provider's own endpoint
    requires a key. `overrides` take precedence over the tables. Raises `UnknownModelError`, `MissingKeyError`, or
    `UsageError` for a malformed URL.
    """
    given = reference if isinstance(reference, Model) else Model(reference)
    reference = given.reference
    prefix, _, name = reference.partition(":")
    if prefix == "sim":
        return _open_simulated(given, name, simulation)
    if prefix not in PROVIDERS:
        raise UnknownModelError(_unknown(reference))
    if not name:
        raise UnknownModelError(f"model {reference!r} has no name after the colon; write it as {prefix}:NAME")
    dialect = PROVIDERS[prefix]
    if (base_url := base_url if given.base_url is None else given.base_url) is not None:
        url, source = base_url, "base_url"
    else:
        url = environ.get(dialect.BASE_URL_VARIABLE, "").strip() or dialect.DEFAULT_BASE_URL
        source = dialect.BASE_URL_VARIABLE
    endpoint = parse_endpoint(without_version(dialect, url), source, environ)
    official = parse_endpoint(dialect.DEFAULT_BASE_URL, source, {})
    is_official = endpoint.place == official.place
    # A compatible server may reuse a provider's model name for its own model; names of open-weight models are reliable.
    declared = declared_limits(reference) if is_official else open_limits(name)
    prices = overrides.prices(reference, is_official=is_official)
    card = ModelCard(given.name, name, endpoint.place, overrides.applied(reference, declared), is_official, prices)
    if (key := given.key(environ)) is None:
        key = _key(dialect, environ, reference, is_needed=is_official)
    transport = SocketTransport(endpoint.base_url, proxy=endpoint.proxy)
    return HttpModel(dialect, card, transport, key=key, headers=given.headers)


def without_version(dialect: Dialect, url: str) -> str:
    """Return a base URL without the version that the dialect's own path begins with.

    OpenAI's clients are given addresses with the version, others are not; one server may serve both.
    """
    version = dialect.request_path("m").split("/")[1]
    bare = url.strip().rstrip("/")
    return bare.removesuffix(f"/{version}") if version.startswith("v1") else url


def simulated_model(
    simulation: "Simulation", dialect: str = "openai-chat", *, name: str = "sim", declared: Limits | None = None
) -> HttpModel:
    """Return the simulated model in a dialect, without a socket.

    It declares the simulation's own limits; `declared` overrides them, to test learning of the real ones.
    """
    # Half of this package's import time, needed only for simulations.
    from holdfast.models.fake import SimulationTransport  # noqa: PLC0415

    limits = simulation.limits if declared is None else declared
    card = ModelCard(name, name, "simulation", limits)
    return HttpModel(DIALECTS[dialect], card, SimulationTransport(simulation, dialect))


def _open_simulated(given: Model, dialect: str, simulation: "Simulation | None") -> HttpModel:
    from holdfast.models.fake import Simulation  # noqa: PLC0415 - as above

    if dialect and dialect not in DIALECTS:
        raise UnknownModelError(f"model {given.reference!r}: the simulated model speaks {', '.join(DIALECTS)}")
    chosen = simulation if simulation is not None else Simulation()
    return simulated_model(chosen, dialect or openai_chat.NAME, name=given.name)


def _unknown(reference: str) -> str:
    hint = _nearest(reference)
    meant = f"; did you mean {hint!r}?" if hint else "."
    named = ", ".join(f"{prefix}:NAME" for prefix in PROVIDERS)
    return f"model {reference!r} is not known{meant} Known are sim, {named}"


def _nearest(reference: str) -> str:
    """Suggest a reference: for a mistyped prefix, or a known name without its prefix."""
    prefix, colon, name = reference.partition(":")
    family = FAMILIES.get(reference.partition("-")[0]) if not colon else None
    if family:
        return f"{family}:{reference}"
    near = difflib.get_close_matches(prefix, ["sim", *PROVIDERS], n=1)
    if not near:
        return ""
    return near[0] if near[0] == "sim" else f"{near[0]}:{name or 'NAME'}"


def _key(dialect: Dialect, environ: Mapping[str, str], reference: str, *, is_needed: bool) -> str:
    variables = dialect.KEY_VARIABLES
    variable = next((name for name in variables if environ.get(name, "").strip()), variables[0])
    key = environ.get(variable, "").strip()
    if not key and is_needed:
        either = " or ".join(variables)
        raise MissingKeyError(f"model {reference!r} needs a key: set {either}, or set {dialect.BASE_URL_VARIABLE}")
    return checked_key(key, variable)
