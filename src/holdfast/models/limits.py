"""Limits and list prices of models as their providers publish them, and the user's overrides from a TOML file.

Prices are for standard calls; uncertain prices are left out. They change more often than limits. The overrides file
takes precedence, and each call records its cost at the time.

    [models."openai:gpt-5*"]
    window_tokens = 400_000

    [models."openai:my-finetune"]
    window_tokens = 32_768
    output_tokens_max = 4_096
    input_usd = 0.40
    cached_input_usd = 0.10
    output_usd = 1.60
    cache_write_usd = 0.50
    long_prompt_tokens = 200_000
    long_input_times = 2
    long_output_times = 1.5

Prices are in US dollars per million tokens; a prompt above `long_prompt_tokens` costs so many times as much. Names may
contain `*` and `?`. For each number the most specific name wins: the exact name, then the longest pattern.
"""

import difflib
import re
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from holdfast.core.limits.prices import (
    LONG_PROMPT_TOKENS,
    NO_PRICES,
    PRICE_SOURCES,
    PRICED,
    Prices,
    declared_prices,
    listed_name,
    price_in,
)
from holdfast.errors import UsageError
from holdfast.types.limits import Limits

_MIB = 2**20


def _openai(window: int, output: int) -> Limits:
    # Per request: 500 images, 50 MB in all. https://platform.openai.com/docs/guides/images-vision
    return Limits(window, output, 50 * _MIB, media_count_max=500)


def _anthropic(window: int, output: int) -> Limits:
    # Per request: 32 MB and 100 images; per image: 5 MB and 8,000 pixels a side.
    # https://platform.claude.com/docs/en/api/overview and .../build-with-claude/vision
    return Limits(window, output, 32 * _MIB, 100, 5 * _MIB, 8_000)


def _gemini(window: int, output: int) -> Limits:
    # The API limits input and output separately; the input limit is reached first. Per request: 3,600 images. The
    # payload limit is taken from the error: "Request payload size exceeds the limit: 20971520 bytes".
    # https://ai.google.dev/gemini-api/docs/models and .../image-understanding
    return Limits(window, output, 20 * _MIB, media_count_max=3_600)


# Keyed by name prefix; the longest matching prefix wins.
DECLARED: Mapping[str, Limits] = MappingProxyType(
    {
        "openai:gpt-3.5-turbo": _openai(16_385, 4_096),
        "openai:gpt-4": _openai(8_192, 8_192),
        "openai:gpt-4-turbo": _openai(128_000, 4_096),
        "openai:gpt-4o": _openai(128_000, 16_384),
        "openai:chatgpt-4o": _openai(128_000, 16_384),
        "openai:gpt-4.1": _openai(1_047_576, 32_768),
        "openai:gpt-4.5": _openai(128_000, 16_384),
        # Input is limited to 272,000 of the 400,000 tokens; that limit is reached first.
        "openai:gpt-5": _openai(272_000, 128_000),
        "openai:gpt-5-chat": _openai(128_000, 16_384),
        "openai:gpt-5.1-chat": _openai(128_000, 16_384),
        "openai:gpt-5.2-chat": _openai(128_000, 16_384),
        "openai:gpt-5.3-chat": _openai(128_000, 16_384),
        "openai:gpt-5.3-codex-spark": _openai(128_000, 32_000),
        "openai:gpt-5.4": _openai(1_050_000, 128_000),
        "openai:gpt-5.4-mini": _openai(272_000, 128_000),
        "openai:gpt-5.4-nano": _openai(272_000, 128_000),
        "openai:gpt-5.5": _openai(1_050_000, 128_000),
        "openai:gpt-5.6": _openai(1_050_000, 128_000),
        "openai:codex-mini": _openai(200_000, 100_000),
        "openai:o1": _openai(200_000, 100_000),
        "openai:o1-mini": _openai(128_000, 65_536),
        "openai:o1-preview": _openai(128_000, 32_768),
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
        "gemini:gemini-1.5-pro": _gemini(2_097_152, 8_192),
        "gemini:gemini-1.5-flash": _gemini(1_048_576, 8_192),
        "gemini:gemini-2.0-flash": _gemini(1_048_576, 8_192),
        "gemini:gemini-2.5": _gemini(1_048_576, 65_536),
        "gemini:gemini-2.5-flash-image": _gemini(65_536, 32_768),
        "gemini:gemini-3": _gemini(1_048_576, 65_536),
        "gemini:gemini-3-pro-image": _gemini(65_536, 32_768),
        "gemini:gemini-3.1-flash-image": _gemini(65_536, 32_768),
        "gemini:gemma-3": _gemini(131_072, 8_192),
    }
)

# Open-weight models: their names for people, and a pattern in the names that servers use ("llama3.1:8b",
# "meta-llama/Llama-3.1-8B-Instruct").
# Windows are from the published model configurations. A server may allow less; its first overflow error teaches that.
# The first matching pattern wins.
OPEN_MODELS: tuple[tuple[str, str, int], ...] = (
    ("gpt-oss", r"gpt-oss", 131_072),
    ("llama-4-scout", r"llama-?4-?scout", 10_485_760),
    ("llama-4", r"llama-?4", 1_048_576),
    ("llama-3.1 to 3.3", r"llama-?3[.-][123]", 131_072),
    ("llama-3", r"llama-?3", 8_192),
    ("qwen3-coder, -next, -max, -2507", r"qwen-?3-?(?:coder|next|max)|qwen-?3.*-2507", 262_144),
    ("qwen3", r"qwen-?3", 40_960),
    ("qwen2.5", r"qwen-?2[.-]5", 32_768),
    ("deepseek-v3, -r1", r"deepseek-?(?:v3|r1)(?!.*distill)", 163_840),
    ("kimi-k2-0905, -thinking", r"kimi-?k2.*(?:0905|thinking)", 262_144),
    ("kimi-k2", r"kimi-?k2", 131_072),
    ("glm-4.6", r"glm-?4\.6", 202_752),
    ("glm-4.5", r"glm-?4\.5", 131_072),
    ("minimax-m2", r"minimax-?m2", 196_608),
    ("mixtral-8x22b", r"mixtral-?8x22b", 65_536),
    ("mixtral, mistral-7b", r"mixtral|mistral-?7b", 32_768),
    ("mistral-small-3.1, -3.2, devstral", r"mistral-small-?3\.[12]|devstral", 131_072),
    ("gemma-3", r"gemma-?3(?!.*(?:270m|[^0-9]1b))", 131_072),
    ("gemma-2, gemma-3 270m and 1b", r"gemma-?[23]", 8_192),
    ("phi-4", r"phi-?4(?!-mini)", 16_384),
)
_OPEN = tuple((re.compile(pattern), Limits(window)) for _, pattern, window in OPEN_MODELS)

# First word of a model name -> its provider, for suggestions when the prefix is missing.
FAMILIES: Mapping[str, str] = MappingProxyType(
    {name.partition(":")[2].partition("-")[0]: name.partition(":")[0] for name in DECLARED}
)


def declared_limits(reference: str) -> Limits:
    """Return the declared limits of a provider's model; empty limits for an unknown one."""
    full = listed_name(reference)
    known = [declared for declared in DECLARED if full.startswith(declared)]
    return DECLARED[max(known, key=len)] if known else Limits()


def open_limits(name: str) -> Limits:
    """Return the limits of an open-weight model by its name on any server; empty limits for an unknown one."""
    return next((limits for pattern, limits in _OPEN if pattern.search(name.lower())), Limits())


# A larger file is the wrong file.
_FILE_BYTES_MAX = 2**20
# The highest list price ever was 600 dollars per million tokens; more is a mistake.
_USD_MAX = 100_000.0
_LIMITS = tuple(field.name for field in msgspec.structs.fields(Limits))
_PRICES = tuple(field.name for field in msgspec.structs.fields(Prices))
_FIELDS = _LIMITS + _PRICES


class Overrides(msgspec.Struct, frozen=True):
    """Limits and prices by name or pattern, and the path of their file."""

    by_name: Mapping[str, Limits] = {}
    source: str = ""
    prices_by_name: Mapping[str, Prices] = {}
    # Prices of a price list, and the path of its file: they replace the declared ones.
    price_list: Mapping[str, Prices] = {}
    price_list_source: str = ""

    def applied(self, reference: str, declared: Limits) -> Limits:
        """Return declared limits with the file's overrides applied."""
        return replace(declared, **self.overridden_limits(reference))

    def overridden_limits(self, reference: str) -> dict[str, int]:
        """Return the limits that the file sets for a model, by field name."""
        return _merged(reference, self.by_name)

    def prices(self, reference: str, *, is_official: bool) -> Prices:
        """Return the prices of a model: the file's, else those of the list. Lists hold for official endpoints only."""
        listed = self.listed_prices(reference)[0] if is_official else NO_PRICES
        return replace(listed, **self.overridden_prices(reference))

    @property
    def priced_models(self) -> list[str]:
        """The models with a list price, and those that the file names with a price."""
        own = (name for name, prices in self.prices_by_name.items() if prices != NO_PRICES)
        return sorted({*PRICED, *self.price_list, *own})

    def effective_prices(self, reference: str) -> tuple[Prices, str]:
        """Return the prices of a model at its provider, and all places that state them."""
        listed, stated_in = self.listed_prices(reference)
        overridden = self.overridden_prices(reference)
        places = [stated_in if listed != NO_PRICES else "", self.source if overridden else ""]
        return replace(listed, **overridden), "; ".join(filter(None, places))

    def listed_prices(self, reference: str) -> tuple[Prices, str]:
        """Return the list prices of a model and their source: the price list, else the table of this version."""
        found = price_in(self.price_list, reference)
        if found is not None:
            return found, self.price_list_source
        return declared_prices(reference), PRICE_SOURCES.get(listed_name(reference).partition(":")[0], "")

    def overridden_prices(self, reference: str) -> dict[str, float]:
        """Return the prices that the file sets for a model, by field name."""
        return _merged(reference, self.prices_by_name)


def _merged(reference: str, by_name: Mapping[str, Limits] | Mapping[str, Prices]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    # The most specific name comes last and wins.
    for name in sorted(by_name, key=lambda name: (name == reference, len(name))):
        if name == reference or fnmatchcase(reference, name):
            merged |= {field: number for field, number in asdict(by_name[name]).items() if number is not None}
    return merged


NO_OVERRIDES = Overrides()


def load_overrides(path: Path) -> Overrides:
    """Load an overrides file. Raises `UsageError` with the file, the mistake and the likely correction."""
    document = _parse(path)
    for key in document:
        if key not in {"models", "price_list"}:
            raise UsageError(f'{path}: unknown top-level key {key!r}; write [models."PROVIDER:NAME"]')
    listed = _price_list_path(path, document.get("price_list"))
    tables = document.get("models", {})
    if not isinstance(tables, dict):
        raise UsageError(f'{path}: models must be a table; write [models."PROVIDER:NAME"]')
    for name, table in tables.items():
        _check(path, name, table)
    limits = {name: Limits(**{key: table[key] for key in table if key in _LIMITS}) for name, table in tables.items()}
    prices = {name: Prices(**{key: table[key] for key in table if key in _PRICES}) for name, table in tables.items()}
    if listed is None:
        return Overrides(limits, str(path), prices)
    return Overrides(limits, str(path), prices, load_price_list(listed), str(listed))


def _price_list_path(path: Path, named: object) -> Path | None:
    if named is None:
        return None
    if not isinstance(named, str) or not named.strip():
        raise UsageError(f"{path}: price_list must be the path of a file, such as 'prices.json'")
    return path.parent / Path(named).expanduser()


class _ListedModel(msgspec.Struct):
    """A model in LiteLLM's price list, in US dollars per token. Other fields are ignored, except those of `_LONG`."""

    litellm_provider: str = ""
    input_cost_per_token: float | None = None
    cache_read_input_token_cost: float | None = None
    output_cost_per_token: float | None = None
    cache_creation_input_token_cost: float | None = None


# A price of long prompts, such as "input_cost_per_token_above_200k_tokens".
_LONG = re.compile(r"(input|output)_cost_per_token_above_(\d{1,4})k_tokens")
_LIST_BYTES_MAX = 16 * 2**20
_LIST_PROVIDERS = frozenset({"openai", "anthropic", "gemini"})


def load_price_list(path: Path) -> dict[str, Prices]:
    """Load a price list: LiteLLM's `model_prices_and_context_window.json`, or a file in its form."""
    try:
        content = path.read_bytes() if path.stat().st_size <= _LIST_BYTES_MAX else b""
        listed = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); check price_list in the models file") from error
    except msgspec.MsgspecError as error:
        raise UsageError(f"{path}: is not a price list ({error})") from error
    found = {name: _listed_model(row) for name, row in listed.items()}
    return {
        f"{row.litellm_provider}:{name.rpartition('/')[2]}": _long_prompts(listed[name], _per_million(row))
        for name, row in found.items()
        if row is not None and row.litellm_provider in _LIST_PROVIDERS and row.input_cost_per_token is not None
    }


def _long_prompts(row: msgspec.Raw, prices: Prices) -> Prices:
    """Return prices with those of long prompts, if the list has any; of several steps the first."""
    steps: dict[int, dict[str, float]] = {}
    for key, usd in msgspec.json.decode(row, type=dict[str, Any]).items():
        step = _LONG.fullmatch(key)
        if step is not None and isinstance(usd, int | float):
            steps.setdefault(int(step[2]) * 1_000, {})[step[1]] = usd * 1_000_000
    if not steps or not prices.input_usd or not prices.output_usd:
        return prices
    tokens = min(steps)
    times = {
        kind: round(steps[tokens].get(kind, usd) / usd, 6)
        for kind, usd in (("input", prices.input_usd), ("output", prices.output_usd))
    }
    return prices.above(tokens, times["input"], times["output"])


def _listed_model(row: msgspec.Raw) -> _ListedModel | None:
    try:
        return msgspec.json.decode(row, type=_ListedModel)
    except msgspec.MsgspecError:
        # A row about the list itself.
        return None


def _per_million(row: _ListedModel) -> Prices:
    return Prices(
        _million(row.input_cost_per_token),
        _million(row.cache_read_input_token_cost),
        _million(row.output_cost_per_token),
        _million(row.cache_creation_input_token_cost),
    )


def _million(usd: float | None) -> float | None:
    return None if usd is None else round(usd * 1_000_000, 6)


def _parse(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); check HOLDFAST_MODELS") from error
    if len(text) > _FILE_BYTES_MAX:
        raise UsageError(f"{path}: has more than {_FILE_BYTES_MAX:,} bytes; it should hold a few limits")
    try:
        return tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: is not TOML ({error})") from error


def _check(path: Path, name: str, table: Any) -> None:  # noqa: ANN401 - any TOML value
    where = f'{path}: [models."{name}"]'
    if ":" not in name and name != "sim" and "*" not in name:
        raise UsageError(f"{where}: a model name needs its provider, such as openai:{name}")
    if not isinstance(table, dict):
        raise UsageError(f"{where}: must be a table of limits, such as window_tokens = 32_768")
    for key, number in table.items():
        if key not in _FIELDS:
            near = difflib.get_close_matches(key, _FIELDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(_FIELDS)}"
            raise UsageError(f"{where}: unknown field {key!r}; {hint}")
        if (mistake := _mistake(key, number)) is not None:
            raise UsageError(f"{where}: {key} must be {mistake}, not {number!r}")


def _mistake(key: str, number: object) -> str | None:
    """Return what a field must be; None if it is."""
    if key in _LIMITS or key == LONG_PROMPT_TOKENS:
        return None if _is_limit(number) else "a whole number above 0"
    if _is_price(number):
        return None
    return f"{'a factor' if key.endswith('_times') else 'dollars per million tokens'}, 0 or more"


def _is_price(number: object) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number < _USD_MAX


def _is_limit(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 1
