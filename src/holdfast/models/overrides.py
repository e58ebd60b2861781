"""User overrides of model limits and prices, from a TOML file.

    [models."openai:gpt-5*"]
    window_tokens = 400_000

    [models."openai:my-finetune"]
    window_tokens = 32_768
    output_tokens_max = 4_096
    input_usd = 0.40
    cached_input_usd = 0.10
    output_usd = 1.60
    cache_write_usd = 0.50

Prices are in US dollars per million tokens. Names may contain `*` and `?`. For each number the most specific name wins:
the exact name, then the longest pattern.
"""

import difflib
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from holdfast.core.limits.prices import Prices
from holdfast.errors import UsageError
from holdfast.types.limits import Limits

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

    def applied(self, reference: str, declared: Limits) -> Limits:
        """Return declared limits with the file's overrides applied."""
        return replace(declared, **self.overridden_limits(reference))

    def overridden_limits(self, reference: str) -> dict[str, int]:
        """Return the limits that the file sets for a model, by field name."""
        return _merged(reference, self.by_name)

    def priced(self, reference: str, declared: Prices) -> Prices:
        """Return declared prices with the file's overrides applied."""
        return replace(declared, **self.overridden_prices(reference))

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
        if key != "models":
            raise UsageError(f'{path}: unknown top-level key {key!r}; write [models."PROVIDER:NAME"]')
    tables = document.get("models", {})
    if not isinstance(tables, dict):
        raise UsageError(f'{path}: models must be a table; write [models."PROVIDER:NAME"]')
    for name, table in tables.items():
        _check(path, name, table)
    limits = {name: Limits(**{key: table[key] for key in table if key in _LIMITS}) for name, table in tables.items()}
    prices = {name: Prices(**{key: table[key] for key in table if key in _PRICES}) for name, table in tables.items()}
    return Overrides(limits, str(path), prices)


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
        if key in _PRICES and not _is_price(number):
            raise UsageError(f"{where}: {key} must be dollars per million tokens, 0 or more, not {number!r}")
        if key in _LIMITS and not _is_limit(number):
            raise UsageError(f"{where}: {key} must be a whole number above 0, not {number!r}")


def _is_price(number: object) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number < _USD_MAX


def _is_limit(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 1
