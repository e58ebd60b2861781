"""Configuration loader: flags override the environment, which overrides the file, which overrides the defaults.

Errors name the source of a bad value and, for an unknown name, the closest known one.
"""

import difflib
import os
import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, get_origin

import msgspec

from holdfast.config.schema import Setting, Settings, all_settings
from holdfast.errors import StoreIoError, UsageError

FILE_NAME = "holdfast.toml"
# Variables that are not settings: the path of the file, and those of other modules.
FILE_VARIABLE = "HOLDFAST_CONFIG"
_OTHER_VARIABLES = frozenset({FILE_VARIABLE, "HOLDFAST_ARCHIVE", "HOLDFAST_CORPUS", "HOLDFAST_MODELS"})
# Legacy names.
_ALIASES = {"HOLDFAST_LOG": "observing.log"}
# A variable at least this similar to a known one is a typing error.
_SIMILARITY_MIN = 0.75
_FILE_BYTES_MAX = 2**20


class ResolvedSetting(msgspec.Struct, frozen=True):
    """A setting's value and its source."""

    setting: Setting
    value: Any
    source: str


class Configuration(msgspec.Struct, frozen=True):
    """The settings, and every value with its source."""

    settings: Settings
    found: tuple[ResolvedSetting, ...]
    path: Path | None


def read_configuration(
    *,
    flags: Mapping[str, object] | None = None,
    assignments: Sequence[str] = (),
    path: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Configuration:
    """Load the configuration. `flags` are keyed by setting name, `assignments` are like "gateway.port=80"."""
    environ = os.environ if environ is None else environ
    known = {setting.name: setting for setting in all_settings()}
    found = {name: ResolvedSetting(setting, setting.default, "default") for name, setting in known.items()}
    file = _file(path, environ)
    layers = (
        _from_file(file, known) if file else iter(()),
        _from_environment(environ, known),
        ((name, value, f"flag --{_flag(name)}") for name, value in (flags or {}).items() if value is not None),
        _from_assignments(assignments, known),
    )
    for layer in layers:
        for name, value, source in layer:
            found[name] = ResolvedSetting(known[name], _validated(known[name], value, source), source)
    return Configuration(_settings(found), tuple(found.values()), file)


def _flag(name: str) -> str:
    return name.rpartition(".")[2].replace("_", "-")


def _file(given: Path | None, environ: Mapping[str, str]) -> Path | None:
    """Return the configuration file: the given one, else the first that exists."""
    named = given or (Path(environ[FILE_VARIABLE]) if environ.get(FILE_VARIABLE) else None)
    if named is not None:
        if not named.is_file():
            raise UsageError(f"there is no configuration at {named}; `holdfast config --init` prints an example")
        return named
    home = Path(environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    return next((path for path in (Path(FILE_NAME), home / "holdfast" / FILE_NAME) if path.is_file()), None)


def _from_file(path: Path, known: Mapping[str, Setting]) -> Iterator[tuple[str, object, str]]:
    try:
        if path.stat().st_size > _FILE_BYTES_MAX:
            raise UsageError(f"{path} has more than {_FILE_BYTES_MAX:,} bytes; that is not a configuration")
        table = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    except OSError as error:
        raise StoreIoError(f"{path} cannot be read ({error.strerror})") from error
    sections = {setting.section for setting in known.values()}
    for name, value in table.items():
        if isinstance(value, dict):
            if name not in sections:
                raise UsageError(f"{path}: there is no section [{name}]{_nearest(name, sections - {''})}")
            for inner, each in value.items():
                yield _known_name(f"{name}.{inner}", known, str(path)), each, str(path)
        else:
            yield _known_name(name, known, str(path)), value, str(path)


def _from_environment(environ: Mapping[str, str], known: Mapping[str, Setting]) -> Iterator[tuple[str, object, str]]:
    variables = {setting.variable: name for name, setting in known.items()} | _ALIASES
    for variable in sorted(name for name in environ if name.startswith("HOLDFAST_") and name not in _OTHER_VARIABLES):
        if not environ[variable].strip():
            continue
        if variable in variables:
            yield variables[variable], environ[variable].strip(), variable
        elif near := difflib.get_close_matches(variable, variables, n=1, cutoff=_SIMILARITY_MIN):
            raise UsageError(f"{variable} is not a setting; did you mean {near[0]}?")


def _from_assignments(assignments: Sequence[str], known: Mapping[str, Setting]) -> Iterator[tuple[str, object, str]]:
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise UsageError(f"--set takes NAME=VALUE, as in gateway.port=8080, not {assignment!r}")
        yield _known_name(name.strip(), known, "--set"), value.strip(), "flag --set"


def _known_name(name: str, known: Mapping[str, Setting], where: str) -> str:
    if name not in known:
        raise UsageError(f"{where}: there is no setting {name!r}{_nearest(name, known)}")
    return name


def _nearest(name: str, names: Sequence[str] | Mapping[str, object] | set[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if not near:
        # The right name in the wrong section.
        last = name.rpartition(".")[2]
        near = [one for one in names if one.rpartition(".")[2] == last]
    return f"; did you mean {near[0]!r}?" if near else "; `holdfast config` lists them all"


def _validated(setting: Setting, value: object, source: str) -> object:
    """Convert a value to the setting's type. Text is accepted for every type."""
    if isinstance(value, str) and get_origin(setting.kind) is tuple:
        value = [part.strip() for part in value.split(",") if part.strip()]
    try:
        converted = msgspec.convert(value, setting.kind, strict=not isinstance(value, str))
    except msgspec.ValidationError as error:
        reason = re.sub(r" - at `.*`$", "", str(error))
        raise UsageError(
            f"{source}: {setting.name} cannot be {value!r} ({reason}); {setting.description} Its default is "
            f"{to_toml(setting.default)}"
        ) from error
    if isinstance(converted, int | float) and not isinstance(converted, bool) and not converted >= 0:
        raise UsageError(f"{source}: {setting.name} cannot be {value!r}; it must be a number of at least 0")
    return converted


def _settings(found: Mapping[str, ResolvedSetting]) -> Settings:
    tables: dict[str, Any] = {}
    for name, one in found.items():
        section, _, field = name.rpartition(".")
        (tables.setdefault(section, {}) if section else tables)[field] = msgspec.to_builtins(one.value)
    return msgspec.convert(tables, Settings)


def to_toml(value: object) -> str:
    """Format a value as TOML."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return msgspec.json.encode(value).decode()
        case tuple() | list():
            return "[" + ", ".join(to_toml(one) for one in value) + "]"
        case float() if value.is_integer():
            return f"{value:.1f}"
        case int():
            return f"{value:_}" if value >= _GROUPED_FROM else str(value)
        case _:
            return str(value)


# Numbers from here on get digit groups; ports do not.
_GROUPED_FROM = 100_000


# --- Documentation ---

_COLUMNS = 100


def example() -> str:
    """Return an example file with every setting commented out."""
    lines = ["# Holdfast. All settings with their defaults; remove a `#` to change one.", ""]
    for section, settings in groupby(all_settings(), key=lambda setting: setting.section):
        if section:
            lines += [f"[{section}]", *_comment_lines(_section_description(section)), ""]
        for setting in settings:
            lines += [*_comment_lines(setting.description), f"# {_field(setting)} = {to_toml(setting.default)}", ""]
    return "\n".join(lines)


def reference() -> str:
    """Return all settings as Markdown tables."""
    lines: list[str] = []
    for section, settings in groupby(all_settings(), key=lambda setting: setting.section):
        lines += [f"### `[{section}]`" if section else "### Top level", ""]
        if section:
            lines += [_section_description(section), ""]
        lines += ["| name | default | description |", "|---|---|---|"]
        lines += [f"| `{_field(one)}` | `{to_toml(one.default)}` | {one.description} |" for one in settings]
        lines.append("")
    return "\n".join(lines).rstrip()


def _field(setting: Setting) -> str:
    return setting.name.rpartition(".")[2]


def _section_description(section: str) -> str:
    kind = next(field.type for field in msgspec.structs.fields(Settings) if field.name == section)
    return " ".join((kind.__doc__ or "").split())


def _comment_lines(text: str) -> list[str]:
    return textwrap.wrap(text, _COLUMNS, initial_indent="# ", subsequent_indent="# ")
