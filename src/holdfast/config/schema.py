"""Settings: one struct per section of holdfast.toml, and their loader. The comment above a field is its documentation.

The environment variable of `gateway.port` is HOLDFAST_GATEWAY_PORT; that of the top-level field `store` is
HOLDFAST_STORE. Flags override the environment, which overrides the file, which overrides the defaults. Errors name the
source of a bad value and, for an unknown name, the closest known one.
"""

import ast
import difflib
import inspect
import os
import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin

import msgspec

from holdfast.config.files import FILE_VARIABLE, ConfigurationFile, find_file, value_in
from holdfast.core.limits.bounds import Bounds, Deadlines
from holdfast.errors import StoreIoError, UsageError
from holdfast.gateway.bounds import GatewayBounds

_Seconds = Annotated[float, msgspec.Meta(gt=0)]


class GatewaySettings(msgspec.Struct, frozen=True):
    """Address and keys of the gateway."""

    # Listen address. Any address other than loopback needs keys.
    host: str = "127.0.0.1"
    # Listen port; 0 selects a free one.
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 8_712
    # File with the gateway's keys; empty: NAME.db-keys next to a SQLite store, a table of a PostgreSQL store.
    keys_file: str = ""
    # Name of the key that may read /metrics, if there are keys.
    operator: str = "operator"
    # PEM files of a certificate chain and of its key: serve TLS; empty: plain HTTP. Read again on reload.
    tls_certificate: str = ""
    tls_key: str = ""
    # Addresses and networks of reverse proxies whose X-Forwarded-For and X-Forwarded-Proto count: "10.0.0.0/8".
    trusted_proxies: tuple[str, ...] = ()
    # Origins of web pages that may use a gateway without keys, besides its own page: "http://localhost:3000".
    origins: tuple[str, ...] = ()


class EngineSettings(msgspec.Struct, frozen=True):
    """Session workers."""

    # Lease duration: how long a crashed worker blocks its sessions.
    lease_seconds: _Seconds = 30.0
    # Shutdown grace period for running turns; the next start resumes unfinished ones.
    grace_seconds: _Seconds = 5.0


class RetentionSettings(msgspec.Struct, frozen=True):
    """Retention of inactive sessions."""

    # Delete sessions without a new record for this many days, with their archived records and blobs, like
    # `holdfast prune`; sessions that have an open turn, are in use or are damaged are kept. 0: never delete.
    days: Annotated[float, msgspec.Meta(ge=0, le=36_525)] = 0.0


class ObservingSettings(msgspec.Struct, frozen=True):
    """Logs and traces."""

    # Minimum log level.
    log: Literal["debug", "info", "warning", "error"] = "info"
    # Export turns to OpenTelemetry. Needs the extra `traces` and a configured SDK.
    traces: bool = False


class UpstreamSettings(msgspec.Struct, frozen=True):
    """Upstream servers of the proxy endpoints."""

    # OpenAI-compatible server for /v1/chat/completions and /v1/responses; empty: none.
    openai_base_url: str = "https://api.openai.com/v1"
    # Environment variable with the key for clients that send none; empty: none.
    openai_key_variable: str = "OPENAI_API_KEY"
    # Fallback models of the same server, in order, for when the requested model is overloaded.
    openai_fallbacks: tuple[str, ...] = ()
    # Anthropic-compatible server for /v1/messages; empty: none.
    anthropic_base_url: str = "https://api.anthropic.com"
    # Environment variable with the key for clients that send none; empty: none.
    anthropic_key_variable: str = "ANTHROPIC_API_KEY"
    # Fallback models of the same server, in order, for when the requested model is overloaded.
    anthropic_fallbacks: tuple[str, ...] = ()
    # Gemini-compatible server for /v1beta/models/NAME:generateContent; empty: none.
    gemini_base_url: str = "https://generativelanguage.googleapis.com"
    # Environment variable with the key for clients that send none; empty: none.
    gemini_key_variable: str = "GEMINI_API_KEY"
    # Fallback models of the same server, in order, for when the requested model is overloaded.
    gemini_fallbacks: tuple[str, ...] = ()
    # Further paths forwarded with the gateway's own provider key, for every gateway key: "POST /v1/embeddings",
    # "/v1/files/*". Without it: model calls, token counts and the list of models.
    allow_paths: tuple[str, ...] = ()
    # "safe": fold repeated lines of tool output without loss, and mask old output that the tool `recall` reads, where
    # that pays within a few requests. "off": send requests as they come while they fit.
    savings: Literal["off", "safe"] = "off"


class Settings(msgspec.Struct, frozen=True):
    """All settings."""

    # SQLite file of the sessions, or the postgresql:// URL of a database that several nodes share; empty: a file in
    # your data folder; ":memory:": not persistent.
    store: str = ""
    # Models, best first: "sim", "openai:NAME", "anthropic:NAME". Sessions can select only these.
    model: tuple[str, ...] = ("sim",)
    # Base URL of a compatible server; empty: the providers' own.
    base_url: str = ""
    # Default system text of sessions.
    system: str = ""
    # Place of old records: a folder, or "s3://BUCKET/PREFIX"; empty: a folder beside a SQLite store.
    archive: str = ""
    # File with limits and prices of models; empty: models.toml in your config folder, if it exists.
    models: str = ""
    gateway: GatewaySettings = GatewaySettings()
    engine: EngineSettings = EngineSettings()
    retention: RetentionSettings = RetentionSettings()
    upstream: UpstreamSettings = UpstreamSettings()
    observing: ObservingSettings = ObservingSettings()
    gateway_bounds: GatewayBounds = GatewayBounds()
    bounds: Bounds = Bounds()
    deadlines: Deadlines = Deadlines()


class Setting(msgspec.Struct, frozen=True):
    """One setting: name, type, default and documentation."""

    name: str
    kind: Any
    default: Any
    description: str

    @property
    def variable(self) -> str:
        """Environment variable."""
        return "HOLDFAST_" + self.name.replace(".", "_").upper()

    @property
    def section(self) -> str:
        """Section of the file; empty at top level."""
        return self.name.rpartition(".")[0]


def all_settings() -> tuple[Setting, ...]:
    """Return all settings in schema order."""
    return tuple(_settings(Settings, Settings(), ""))


def _settings(kind: type[msgspec.Struct], defaults: msgspec.Struct, prefix: str) -> Iterator[Setting]:
    descriptions = comments(kind)
    sections = []
    for field in msgspec.structs.fields(kind):
        default = getattr(defaults, field.name)
        if isinstance(default, msgspec.Struct):
            sections.append((field.name, default))
        else:
            yield Setting(prefix + field.name, field.type, default, descriptions.get(field.name, ""))
    for name, section in sections:
        yield from _settings(type(section), section, f"{name}.")


def comments(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return the comment above each field of a struct; consecutive fields share a comment."""
    lines = inspect.getsource(kind).splitlines()
    (body,) = ast.parse("\n".join(lines)).body
    assert isinstance(body, ast.ClassDef)
    descriptions: dict[str, str] = {}
    newest = ""
    before = body.lineno
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            above = [line.strip() for line in lines[before : node.lineno - 1]]
            comment = " ".join(line.removeprefix("#").strip() for line in above if line.startswith("#"))
            newest = comment or newest
            descriptions[node.target.id] = newest
        before = node.end_lineno or node.lineno
    return descriptions


# Variables that are not settings: the path of the file, and those of other programs of this project.
_OTHER_VARIABLES = frozenset({FILE_VARIABLE, "HOLDFAST_CORPUS", "HOLDFAST_CHROMIUM"}) | {
    # Of the extensions in packages/, which may share a shell with the gateway.
    "HOLDFAST_URL",
    "HOLDFAST_KEY",
    "HOLDFAST_PI_COMPACTION",
}
# Legacy names.
_ALIASES = {"HOLDFAST_LOG": "observing.log"}
# A variable at least this similar to a known one is a typing error.
_SIMILARITY_MIN = 0.75
_FILE_BYTES_MAX = 2**20


class ResolvedSetting(msgspec.Struct, frozen=True):
    """A setting's value, its source, and sources with a value that it overrides."""

    setting: Setting
    value: Any
    source: str
    overridden: tuple[str, ...] = ()


class Configuration(msgspec.Struct, frozen=True):
    """The settings, and every value with its source."""

    settings: Settings
    found: tuple[ResolvedSetting, ...]
    file: ConfigurationFile | None


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
    file = find_file(path, environ)
    layers = (
        _from_file(file, known) if file else iter(()),
        _from_environment(environ, known),
        ((name, value, f"flag --{_flag(name)}") for name, value in (flags or {}).items() if value is not None),
        _from_assignments(assignments, known),
    )
    for layer in layers:
        for name, value, source in layer:
            before = found[name]
            lost = before.overridden if before.source in {"default", source} else (before.source, *before.overridden)
            found[name] = ResolvedSetting(known[name], _validated(known[name], value, source), source, lost)
    return Configuration(_settings_from(found), tuple(found.values()), file)


def _flag(name: str) -> str:
    return name.rpartition(".")[2].replace("_", "-")


def _from_file(file: ConfigurationFile, known: Mapping[str, Setting]) -> Iterator[tuple[str, object, str]]:
    path = file.path
    for name, value in _entries(path, known):
        yield name, value_in(file, name, value), str(path)


def _entries(path: Path, known: Mapping[str, Setting]) -> Iterator[tuple[str, object]]:
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
                yield _known_name(f"{name}.{inner}", known, str(path)), each
        else:
            yield _known_name(name, known, str(path)), value


def known_variables() -> frozenset[str]:
    """Return the environment variables that Holdfast reads."""
    return frozenset({setting.variable for setting in all_settings()} | set(_ALIASES) | _OTHER_VARIABLES)


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


def _settings_from(found: Mapping[str, ResolvedSetting]) -> Settings:
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
