"""What the user says a model accepts, in a file that wins over the table.

    [models."openai:gpt-5*"]
    window_tokens = 400_000

    [models."openai:my-finetune"]
    window_tokens = 32_768
    output_tokens_max = 4_096

A name may hold `*` and `?`. For each limit the most exact name that sets it counts: the whole name, then the longest.
"""

import difflib
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from holdfast.core.limits import Limits
from holdfast.errors import UsageError

# A file that somebody typed; more is another file by mistake.
_FILE_BYTES_MAX = 2**20
_FIELDS = tuple(field.name for field in msgspec.structs.fields(Limits))


class Overrides(msgspec.Struct, frozen=True):
    """Limits by name or pattern, and the file they came from."""

    by_name: Mapping[str, Limits] = {}
    source: str = ""

    def applied(self, reference: str, declared: Limits) -> Limits:
        """Return what is declared, with what the file says in its place."""
        return replace(declared, **self.said(reference))

    def said(self, reference: str) -> dict[str, int]:
        """Return what the file says of a model, by the name of the limit."""
        said: dict[str, int] = {}
        # The most exact last, so that it has the last word.
        for name in sorted(self.by_name, key=lambda name: (name == reference, len(name))):
            if name == reference or fnmatchcase(reference, name):
                said |= {field: count for field, count in asdict(self.by_name[name]).items() if count is not None}
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
    return Overrides({name: _limits(path, name, table) for name, table in tables.items()}, str(path))


def _limits(path: Path, name: str, table: Any) -> Limits:  # noqa: ANN401 - whatever TOML holds
    where = f'{path}: [models."{name}"]'
    if ":" not in name and name != "sim" and "*" not in name:
        raise UsageError(f"{where}: a model is named with its provider, such as openai:{name}")
    if not isinstance(table, dict):
        raise UsageError(f"{where}: must be a table of limits, such as window_tokens = 32_768")
    for key, count in table.items():
        if key not in _FIELDS:
            near = difflib.get_close_matches(key, _FIELDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(_FIELDS)}"
            raise UsageError(f"{where}: {key!r} is not known; {hint}")
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise UsageError(f"{where}: {key} must be a whole number above 0, not {count!r}")
    return Limits(**table)
