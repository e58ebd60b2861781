"""Agent profiles: how each agent program is pointed at a gateway, and where it keeps its login and its sessions.

One row per agent, keyed by the name of its client profile. `holdfast run`, `setup` and `rescue` and docs/agents.md read
this table. Values are templates: `{root}` is the gateway's address, `{v1}` the same with `/v1`, `{window}` the context
window that the agent is told, `{folder}` the temporary folder of one run.
"""

from collections.abc import Sequence

import msgspec

# Larger than any model's window: the agent then sends its whole history, and the gateway makes it fit.
WINDOW_TOLD = 1_000_000


class BaseUrl(msgspec.Struct, frozen=True):
    """An environment variable with a base URL, the provider family it belongs to, and its template."""

    variable: str
    family: str
    template: str


class ConfigEdit(msgspec.Struct, frozen=True):
    """Values that `holdfast setup` sets in a JSON file of the agent, by their path of names."""

    # Below the home folder. `variable` names the folder that replaces all but the file's name.
    path: str
    values: tuple[tuple[tuple[str, ...], str], ...]
    variable: str = ""


class ProviderTable(msgspec.Struct, frozen=True):
    """The table of providers in an agent's JSON file, with the place of their base URLs and of their dialect."""

    at: tuple[str, ...]
    url: tuple[str, ...]
    # The field that names the dialect, and its value for Anthropic's.
    dialect: str
    anthropic: str
    # Anthropic's base URL, without or with /v1.
    anthropic_template: str
    # Providers that the agent knows without an entry, by family. Empty: every provider has an entry.
    built_in: tuple[tuple[str, str], ...] = (("anthropic", "anthropic"), ("openai", "openai"))
    # Variable that names another file of settings; the agent then reads a copy with the gateway's addresses.
    copy_variable: str = ""


class AgentProfile(msgspec.Struct, frozen=True):
    """One agent program. `name` is that of its client profile."""

    name: str
    title: str
    # The program, and the word after `holdfast run`.
    command: str
    api: str
    base_urls: tuple[BaseUrl, ...] = ()
    # Further variables, and those only for an official provider behind the gateway.
    variables: tuple[tuple[str, str], ...] = ()
    official_variables: tuple[tuple[str, str], ...] = ()
    # Arguments before the user's own.
    arguments: tuple[str, ...] = ()
    # Files in the temporary folder of a run: name, and content.
    files: tuple[tuple[str, str], ...] = ()
    # Arguments that send one message and end.
    one_message: tuple[str, ...] = ()
    # The permanent form, if the agent reads one from a JSON file, and the providers in that file.
    setup: ConfigEdit | None = None
    providers: ProviderTable | None = None
    # What happens to a subscription login.
    login: str = ""
    # One of these variables must be set, else `refusal_without` says why it cannot be redirected.
    needs_one_of: tuple[str, ...] = ()
    refusal_without: str = ""
    # Version with which `holdfast run` was tried; "": not tried.
    tried: str = ""


_ANTHROPIC_ROOT = BaseUrl("ANTHROPIC_BASE_URL", "anthropic", "{root}")
_OPENAI_V1 = BaseUrl("OPENAI_BASE_URL", "openai", "{v1}")
_PI_EXTENSION = """\
// Written by `holdfast run`; removed when the run ends.
export default function (pi) {
  for (const [name, provider] of Object.entries({providers}.providers)) pi.registerProvider(name, provider);
}
"""
_QWEN_SETTINGS = '{"model":{"generationConfig":{"contextWindowSize":{window}}}}'
_CODEX_PROVIDER = 'model_providers.holdfast={name="Holdfast",base_url="{v1}",wire_api="responses",{auth}}'

AGENTS: tuple[AgentProfile, ...] = (
    AgentProfile(
        "claude_code",
        "Claude Code",
        "claude",
        "messages",
        base_urls=(_ANTHROPIC_ROOT,),
        # Without it some versions load every tool behind a foreign base URL.
        variables=(("ENABLE_TOOL_SEARCH", "true"), ("CLAUDE_CODE_MAX_CONTEXT_TOKENS", "{window}")),
        # Sends the beta headers that it sends to Anthropic itself; another server may not know them.
        official_variables=(("_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL", "1"),),
        one_message=("-p",),
        setup=ConfigEdit(
            ".claude/settings.json",
            (
                (("env", "ANTHROPIC_BASE_URL"), "{root}"),
                (("env", "ENABLE_TOOL_SEARCH"), "true"),
                (("env", "CLAUDE_CODE_MAX_CONTEXT_TOKENS"), "{window}"),
            ),
            "CLAUDE_CONFIG_DIR",
        ),
        login="The subscription token is sent through the gateway to Anthropic unchanged.",
        tried="2.1.326",
    ),
    AgentProfile(
        "codex",
        "Codex CLI",
        "codex",
        "responses",
        arguments=("-c", 'model_provider="holdfast"', "-c", _CODEX_PROVIDER, "-c", "model_context_window={window}"),
        one_message=("exec", "--skip-git-repo-check"),
        login="With a ChatGPT login the gateway forwards to ChatGPT's own address, with the token unchanged.",
        tried="0.169.0",
    ),
    AgentProfile(
        "opencode",
        "opencode",
        "opencode",
        "chat completions, responses, messages",
        variables=(("OPENCODE_CONFIG_CONTENT", "{providers}"),),
        one_message=("run",),
        setup=ConfigEdit(
            ".config/opencode/opencode.json",
            (
                (("provider", "anthropic", "options", "baseURL"), "{v1}"),
                (("provider", "openai", "options", "baseURL"), "{v1}"),
            ),
        ),
        providers=ProviderTable(("provider",), ("options", "baseURL"), "npm", "@ai-sdk/anthropic", "{v1}"),
        login=(
            "API keys of Anthropic and OpenAI are kept. A ChatGPT or Copilot login has an address of its own inside "
            "opencode and is not redirected."
        ),
        tried="1.18.33",
    ),
    AgentProfile(
        "pi",
        "pi",
        "pi",
        "messages, responses",
        arguments=("-e", "{folder}/holdfast.mjs"),
        files=(("holdfast.mjs", _PI_EXTENSION),),
        providers=ProviderTable(("providers",), ("baseUrl",), "api", "anthropic-messages", "{root}"),
        one_message=("-p",),
        setup=ConfigEdit(
            ".pi/agent/models.json",
            (
                (("providers", "anthropic", "baseUrl"), "{root}"),
                (("providers", "openai", "baseUrl"), "{v1}"),
            ),
        ),
        login="API keys and an Anthropic login are kept; ChatGPT and Copilot logins use providers of their own.",
        tried="0.87.1",
    ),
    AgentProfile(
        "openclaw",
        "OpenClaw",
        "openclaw",
        "chat completions, messages",
        one_message=("agent", "--local", "--agent", "main", "--message"),
        setup=ConfigEdit(".openclaw/openclaw.json", ()),
        providers=ProviderTable(
            ("models", "providers"),
            ("baseUrl",),
            "api",
            "anthropic-messages",
            "{root}",
            built_in=(),
            copy_variable="OPENCLAW_CONFIG_PATH",
        ),
        login="API keys of the providers in its file are kept. A daemon that already runs is not redirected.",
        tried="2026.9.6",
    ),
    AgentProfile(
        "qwen_code",
        "qwen-code",
        "qwen",
        "chat completions",
        base_urls=(_OPENAI_V1,),
        variables=(("QWEN_CODE_SYSTEM_SETTINGS_PATH", "{folder}/settings.json"),),
        files=(("settings.json", _QWEN_SETTINGS),),
        arguments=("--auth-type", "openai"),
        one_message=("-p",),
        needs_one_of=("OPENAI_API_KEY",),
        refusal_without=(
            "qwen-code with its own login speaks to an address that the login names; set OPENAI_API_KEY and "
            "OPENAI_BASE_URL of your provider"
        ),
        login="Its own login is bound to its own address and cannot be redirected; an API key can.",
        tried="0.24.4",
    ),
    AgentProfile(
        "copilot",
        "Copilot CLI",
        "copilot",
        "chat completions",
        base_urls=(BaseUrl("COPILOT_PROVIDER_BASE_URL", "openai", "{v1}"),),
        variables=(("COPILOT_PROVIDER_MAX_PROMPT_TOKENS", "{window}"),),
        one_message=("-s", "-p"),
        needs_one_of=("COPILOT_PROVIDER_API_KEY",),
        refusal_without=(
            "Copilot CLI with a GitHub subscription speaks only to GitHub; set COPILOT_PROVIDER_API_KEY, COPILOT_MODEL "
            "and, for another provider than OpenAI, COPILOT_PROVIDER_BASE_URL"
        ),
        login="A GitHub subscription speaks only to GitHub and cannot be redirected; a provider key can.",
        tried="1.0.102",
    ),
    AgentProfile(
        "gemini",
        "Gemini CLI",
        "gemini",
        "Gemini",
        base_urls=(BaseUrl("GOOGLE_GEMINI_BASE_URL", "gemini", "{root}"),),
        one_message=("-p",),
        needs_one_of=("GEMINI_API_KEY",),
        refusal_without=(
            "Gemini CLI with a Google login speaks to an address of its own; set GEMINI_API_KEY, and choose the API "
            "key in its /auth"
        ),
        login="A Google login speaks to its own address and cannot be redirected; an API key can.",
        tried="0.61.0",
    ),
    AgentProfile(
        "aider",
        "aider",
        "aider",
        "chat completions, messages",
        base_urls=(
            BaseUrl("OPENAI_API_BASE", "openai", "{v1}"),
            BaseUrl("ANTHROPIC_API_BASE", "anthropic", "{root}"),
        ),
        arguments=("--max-chat-history-tokens", "{window}"),
        one_message=("--yes-always", "--message"),
        login="It has no subscription login; API keys are kept.",
        tried="0.86.2",
    ),
    AgentProfile(
        "hermes",
        "hermes",
        "hermes",
        "chat completions",
        base_urls=(_OPENAI_V1,),
        one_message=("chat", "-Q", "-q"),
        login="API keys are kept. A provider in its config.yaml precedes the environment: set its base_url.",
    ),
    AgentProfile(
        "crush",
        "Crush",
        "crush",
        "messages, chat completions",
        base_urls=(
            BaseUrl("ANTHROPIC_API_ENDPOINT", "anthropic", "{root}"),
            BaseUrl("OPENAI_API_ENDPOINT", "openai", "{v1}"),
        ),
        one_message=("run",),
        login="API keys are kept.",
    ),
    AgentProfile(
        "goose",
        "goose",
        "goose",
        "chat completions, messages",
        base_urls=(BaseUrl("OPENAI_HOST", "openai", "{root}"), BaseUrl("ANTHROPIC_HOST", "anthropic", "{root}")),
        one_message=("run", "-t"),
        login="API keys are kept.",
    ),
)

# A command without a row: the variables that SDKs and most programs read.
ANY_COMMAND = AgentProfile(
    "unknown",
    "any command",
    "",
    "all",
    base_urls=(_OPENAI_V1, BaseUrl("OPENAI_API_BASE", "openai", "{v1}"), _ANTHROPIC_ROOT),
    login="Keys are kept.",
)


def agent_of(command: str) -> AgentProfile | None:
    """Return the profile of a program by its name."""
    return next((agent for agent in AGENTS if agent.command == command), None)


def agents_table(agents: Sequence[AgentProfile] = AGENTS) -> str:
    """Return the table of docs/agents.md."""
    lines = ["| command | agent | API | it is given | login | tried with |", "|---|---|---|---|---|---|"]
    lines += [
        f"| `holdfast run {agent.command}` | {agent.title} | {agent.api} | {_given(agent)} | {agent.login} | "
        f"{agent.tried or 'not tried'} |"
        for agent in agents
    ]
    return "\n".join(lines)


def _given(agent: AgentProfile) -> str:
    names = [one.variable for one in agent.base_urls]
    names += [name for name, _ in (*agent.variables, *agent.official_variables)]
    names += [agent.providers.copy_variable] if agent.providers and agent.providers.copy_variable else []
    given = [f"`{name}`" for name in names]
    given += ["flags"] if agent.arguments else []
    given += ["a temporary file"] if agent.files else []
    return ", ".join(given)
