"""What can be set: one struct per section. The comment above a field is its documentation, wherever it is shown.

A section of holdfast.toml is a section here; the environment variable of `gateway.port` is HOLDFAST_GATEWAY_PORT, and
fields that stand in no section have no second part, as HOLDFAST_STORE.
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
    """Where the gateway listens, and who may use it."""

    # The address to listen on. Any other than a loopback one needs keys.
    host: str = "127.0.0.1"
    # The port to listen on; 0 takes a free one.
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 8_712
    # The file with the gateway's keys; empty: beside the store, NAME.db-keys. For a store on a server it must be named.
    keys_file: str = ""
    # The name of the key that may read /metrics where there are keys.
    operator: str = "operator"


class EngineSettings(msgspec.Struct, frozen=True):
    """How sessions are worked on."""

    # How long a worker that vanished without a trace keeps others from its session.
    lease_seconds: _Seconds = 30.0
    # How long running turns may end when the process stops; what is left is resumed by the next start.
    grace_seconds: _Seconds = 5.0


class RetentionSettings(msgspec.Struct, frozen=True):
    """How long what nobody touches is kept."""

    # Sessions without a record for so many days are removed for good in idle moments, with their archived records and
    # blobs, as `holdfast prune` does; one with an open turn, in use or damaged stays. 0: nothing is ever removed.
    days: Annotated[float, msgspec.Meta(ge=0, le=36_525)] = 0.0


class ObservingSettings(msgspec.Struct, frozen=True):
    """What operators see."""

    # The least level that is logged.
    log: Literal["debug", "info", "warning", "error"] = "info"
    # Whether turns are told to OpenTelemetry. Needs the extra `traces`, and an SDK that sends them somewhere.
    traces: bool = False


class UpstreamSettings(msgspec.Struct, frozen=True):
    """Where requests to the drop-in endpoints go."""

    # A server that speaks OpenAI's dialects, for /v1/chat/completions and /v1/responses; empty: none.
    openai_base_url: str = "https://api.openai.com/v1"
    # The environment variable with the key for clients that bring none of their own; empty: none.
    openai_key_variable: str = "OPENAI_API_KEY"
    # Models of the same server that may answer where the one that was asked for is overloaded, in this order.
    openai_fallbacks: tuple[str, ...] = ()
    # A server that speaks Anthropic's dialect, for /v1/messages; empty: none.
    anthropic_base_url: str = "https://api.anthropic.com"
    # The environment variable with the key for clients that bring none of their own; empty: none.
    anthropic_key_variable: str = "ANTHROPIC_API_KEY"
    # Models of the same server that may answer where the one that was asked for is overloaded, in this order.
    anthropic_fallbacks: tuple[str, ...] = ()


class Settings(msgspec.Struct, frozen=True):
    """Everything that can be set."""

    # The database file with the sessions, or the postgresql:// URL of a database that several nodes share; empty: a
    # file in your data folder. ":memory:" keeps nothing.
    store: str = ""
    # The models to use, best first: "sim", "openai:NAME", "anthropic:NAME". Sessions may ask for those alone.
    model: tuple[str, ...] = ("sim",)
    # A server that speaks the models' dialect; empty: the providers' own.
    base_url: str = ""
    # The system text of sessions that have none of their own.
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
    """One thing that can be set: its name in the file, in the environment, its type, default and documentation."""

    name: str
    kind: Any
    default: Any
    description: str

    @property
    def variable(self) -> str:
        """The environment variable."""
        return "HOLDFAST_" + self.name.replace(".", "_").upper()

    @property
    def section(self) -> str:
        """The section of the file; empty at the top."""
        return self.name.rpartition(".")[0]


def all_settings() -> tuple[Setting, ...]:
    """Return everything that can be set, in the order of the schema."""
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
    """Return the comment above each field of a struct; one that stands above several fields counts for all of them."""
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
