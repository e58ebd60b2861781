"""Launch of an agent behind a gateway: variables, arguments and temporary files, decided from its profile.

The user's own files are only read. Addresses that they already have become the gateway's upstreams.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core.proxy.agent_profiles import WINDOW_TOLD, AgentProfile, BaseUrl, ProviderTable

# A ChatGPT subscription is served at another address than the API.
CHATGPT_BASE_URL = "https://chatgpt.com/backend-api/codex"
KEY_IN_ENVIRONMENT = 'env_key="OPENAI_API_KEY"'
STORED_LOGIN = "requires_openai_auth=true"


class Launch(msgspec.Struct, frozen=True):
    """Everything that a run sets: variables, arguments before the user's, files of the temporary folder."""

    variables: dict[str, str]
    arguments: tuple[str, ...]
    files: dict[str, str]


class Gateway(msgspec.Struct, frozen=True):
    """The gateway of a run, and facts about the user's login and settings that decide the launch."""

    root: str
    folder: str
    # Whether Anthropic itself is behind it.
    is_anthropic_official: bool = True
    # How the provider entry of Codex finds its credential.
    codex_auth: str = KEY_IN_ENVIRONMENT
    # The agent's providers with the gateway's addresses, as JSON.
    providers: str = "{}"

    def fill(self, template: str) -> str:
        """Return a template with its names replaced. Other braces stay."""
        names = {
            "{providers}": self.providers,
            "{auth}": self.codex_auth,
            "{root}": self.root,
            "{v1}": f"{self.root}/v1",
            "{window}": str(WINDOW_TOLD),
            "{folder}": self.folder,
        }
        for name, value in names.items():
            template = template.replace(name, value)
        return template


class Redirected(msgspec.Struct, frozen=True):
    """Providers of an agent that get the gateway's address, the addresses they had, and those that keep theirs."""

    config: dict[str, Any]
    upstreams: dict[str, str]
    left: tuple[str, ...]


def redirect(table: ProviderTable, config: Mapping[str, Any], chosen: str = "") -> Redirected:
    """Return an agent's settings with only the base URLs of its providers, as templates.

    The gateway has one upstream per family: that of the `chosen` provider, else of the first one with an address.
    Providers with another address keep it.
    """
    found = _table(config, table.at)
    entries = {name: entry for name, entry in found.items() if isinstance(entry, dict)}
    ordered = sorted(entries, key=lambda name: name != chosen)
    upstreams: dict[str, str] = {}
    left: list[str] = []
    urls = {name: table.anthropic_template if family == "anthropic" else "{v1}" for name, family in table.built_in}
    for name in ordered:
        own = _own_url(table, name, entries[name])
        if own is None:
            continue
        if upstreams.setdefault(own.family, own.variable) == own.variable:
            urls[name] = own.template
        else:
            left.append(name)
            urls.pop(name, None)
    changed: dict[str, Any] = {}
    for name, url in urls.items():
        set_value(changed, (*table.at, name, *table.url), url)
    return Redirected(changed, upstreams, tuple(left))


def _own_url(table: ProviderTable, name: str, entry: Mapping[str, Any]) -> BaseUrl | None:
    """Return the address of a provider in the form of the settings, with its family and template; None without one."""
    own = _table(entry, table.url[:-1]).get(table.url[-1])
    if not isinstance(own, str) or not own.strip():
        return None
    family = "anthropic" if entry.get(table.dialect) == table.anthropic or name == "anthropic" else "openai"
    template = table.anthropic_template if family == "anthropic" else "{v1}"
    return BaseUrl(as_setting(own.strip().rstrip("/"), BaseUrl("", family, template)), family, template)


def _table(config: Mapping[str, Any], path: Sequence[str]) -> Mapping[str, Any]:
    for name in path:
        below = config.get(name)
        config = below if isinstance(below, dict) else {}
    return config


def set_value(config: dict[str, Any], path: Sequence[str], value: object) -> None:
    """Set a value by its path of names; tables on the way are created."""
    for name in path[:-1]:
        below = config.get(name)
        if not isinstance(below, dict):
            below = config[name] = {}
        config = below
    config[path[-1]] = value


def merged(config: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with the values of another one over its own, table by table."""
    result = dict(config)
    for name, value in changes.items():
        below = result.get(name)
        if isinstance(below, dict) and isinstance(value, dict):
            result[name] = merged(below, value)
        else:
            result[name] = value
    return result


def launch(agent: AgentProfile, gateway: Gateway) -> Launch:
    """Return all that a run of this agent sets."""
    official = agent.official_variables if gateway.is_anthropic_official else ()
    templates = [*((one.variable, one.template) for one in agent.base_urls), *agent.variables, *official]
    return Launch(
        {name: gateway.fill(template) for name, template in templates},
        tuple(gateway.fill(argument) for argument in agent.arguments),
        {name: gateway.fill(content) for name, content in agent.files},
    )


def own_upstreams(agent: AgentProfile, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the base URLs that the user has already set for this agent, by family, in the form of the settings."""
    found: dict[str, str] = {}
    for one in agent.base_urls:
        own = environ.get(one.variable, "").strip().rstrip("/")
        if own and one.family not in found:
            found[one.family] = as_setting(own, one)
    return found


def as_setting(url: str, one: BaseUrl) -> str:
    """Return a base URL as the setting wants it: OpenAI's ends in /v1, Anthropic's does not."""
    if one.family == "openai":
        return url if one.template == "{v1}" else f"{url}/v1"
    return url.removesuffix("/v1")


def why_not(agent: AgentProfile, environ: Mapping[str, str]) -> str:
    """Return why this agent cannot be redirected; "" if it can."""
    if agent.needs_one_of and not any(environ.get(name) for name in agent.needs_one_of):
        return agent.refusal_without
    return ""


class CodexLogin(msgspec.Struct, frozen=True):
    """The credential of Codex as a fragment of a provider entry, and the address that accepts it ("": the usual)."""

    auth: str
    upstream: str = ""


def codex_login(stored: Mapping[str, Any], config: Mapping[str, Any]) -> CodexLogin:
    """Return the login of Codex from its two files: stored tokens, and the provider that its settings name."""
    provider = _table(config, ("model_providers", str(config.get("model_provider", ""))))
    own = provider.get("base_url")
    if isinstance(own, str) and own:
        key = provider.get("env_key")
        auth = f"env_key={msgspec.json.encode(key).decode()}" if isinstance(key, str) and key else STORED_LOGIN
        return CodexLogin(auth, own.rstrip("/"))
    if stored.get("OPENAI_API_KEY"):
        return CodexLogin(STORED_LOGIN)
    if stored.get("tokens"):
        return CodexLogin(STORED_LOGIN, CHATGPT_BASE_URL)
    return CodexLogin(KEY_IN_ENVIRONMENT)
