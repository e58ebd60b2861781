"""What the user says a model accepts and costs, in a file that wins over the tables.

    [models."openai:gpt-5*"]
    window_tokens = 400_000

    [models."openai:my-finetune"]
    window_tokens = 32_768
    output_tokens_max = 4_096
    input_usd = 0.40
    cached_input_usd = 0.10
    output_usd = 1.60
    cache_write_usd = 0.50

Prices are in US dollars for a million tokens. A name may hold `*` and `?`. For each number the most exact name that
sets it counts: the whole name, then the longest.
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

# A file that somebody typed; more is another file by mistake.
_FILE_BYTES_MAX = 2**20
# The dearest model ever listed took 600 dollars for a million tokens; more is a price for something else.
_USD_MAX = 100_000.0
_LIMITS = tuple(field.name for field in msgspec.structs.fields(Limits))
_PRICES = tuple(field.name for field in msgspec.structs.fields(Prices))
_FIELDS = _LIMITS + _PRICES


class Overrides(msgspec.Struct, frozen=True):
    """Limits and prices by name or pattern, and the file they came from."""

    by_name: Mapping[str, Limits] = {}
    source: str = ""
    prices_by_name: Mapping[str, Prices] = {}

    def applied(self, reference: str, declared: Limits) -> Limits:
        """Return what is declared, with what the file says in its place."""
        return replace(declared, **self.said(reference))

    def said(self, reference: str) -> dict[str, int]:
        """Return what the file says of a model, by the name of the limit."""
        return _merged(reference, self.by_name)

    def priced(self, reference: str, declared: Prices) -> Prices:
        """Return what is declared to be paid, with what the file says in its place."""
        return replace(declared, **self.overridden_prices(reference))

    def overridden_prices(self, reference: str) -> dict[str, float]:
        """Return what the file says of a model's prices, by their name."""
        return _merged(reference, self.prices_by_name)


def _merged(reference: str, by_name: Mapping[str, Limits] | Mapping[str, Prices]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    # The most exact last, so that it has the last word.
    for name in sorted(by_name, key=lambda name: (name == reference, len(name))):
        if name == reference or fnmatchcase(reference, name):
            said |= {field: number for field, number in asdict(by_name[name]).items() if number is not None}
    return said


NO_OVERRIDES = Overrides()


def load_overrides(path: Path) -> Overrides:
    """Read a file. Raises `UsageError` that names the file, what is wrong in it, and what was probably meant."""
    try:
        with path.open("rb") as file:
            text = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); check HOLDFAST_MODELS") from error
    if len(text) > _FILE_BYTES_MAX:
        raise UsageError(f"{path}: has more than {_FILE_BYTES_MAX:,} bytes; it should hold a few limits")
    try:
        read = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: is not TOML ({error})") from error
    for key in read:
        if key != "models":
            raise UsageError(f'{path}: {key!r} is not known at the top; write [models."PROVIDER:NAME"]')
    tables = read.get("models", {})
    if not isinstance(tables, dict):
        raise UsageError(f'{path}: models must be a table; write [models."PROVIDER:NAME"]')
    for name, table in tables.items():
        _check(path, name, table)
    limits = {name: Limits(**{key: table[key] for key in table if key in _LIMITS}) for name, table in tables.items()}
    prices = {name: Prices(**{key: table[key] for key in table if key in _PRICES}) for name, table in tables.items()}
    return Overrides(limits, str(path), prices)


def _check(path: Path, name: str, table: Any) -> None:  # noqa: ANN401 - whatever TOML holds
    where = f'{path}: [models."{name}"]'
    if ":" not in name and name != "sim" and "*" not in name:
        raise UsageError(f"{where}: a model is named with its provider, such as openai:{name}")
    if not isinstance(table, dict):
        raise UsageError(f"{where}: must be a table of limits, such as window_tokens = 32_768")
    for key, number in table.items():
        if key not in _FIELDS:
            near = difflib.get_close_matches(key, _FIELDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(_FIELDS)}"
            raise UsageError(f"{where}: {key!r} is not known; {hint}")
        if key in _PRICES:
            if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < _USD_MAX:
                raise UsageError(f"{where}: {key} must be dollars for a million tokens, from 0 on, not {number!r}")
        elif isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise UsageError(f"{where}: {key} must be a whole number above 0, not {number!r}")
