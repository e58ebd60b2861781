"""Settings schema: one struct per section of holdfast.toml. The comment above a field is its documentation.

The environment variable of `gateway.port` is HOLDFAST_GATEWAY_PORT; that of the top-level field `store` is
HOLDFAST_STORE.
"""

import ast
import inspect
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec

from holdfast.core.limits.bounds import Bounds, Deadlines
from holdfast.gateway.bounds import GatewayBounds

_Seconds = Annotated[float, msgspec.Meta(gt=0)]


class GatewaySettings(msgspec.Struct, frozen=True):
    """Address and keys of the gateway."""

    # Listen address. Any address other than loopback needs keys.
    host: str = "127.0.0.1"
    # Listen port; 0 selects a free one.
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 8_712
    # File with the gateway's keys; empty: NAME.db-keys next to the store. Required for a PostgreSQL store.
    keys_file: str = ""
    # Name of the key that may read /metrics, if there are keys.
    operator: str = "operator"


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
