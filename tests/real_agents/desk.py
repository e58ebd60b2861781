"""An agent program in a home folder of its own, with the simulated model or a gateway as its only provider."""

import json
import os
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tests.cli.programs import PROGRAM
from tests.real_agents.breakage import session_of

WINDOW = 64_000
_SECONDS_MAX = 120.0
_FACTS = {"harbour": "Kiel", "berth": "17"}


class Agent(msgspec.Struct, frozen=True):
    """How a program is told its provider, and how it is asked. Messages come last, or on standard input."""

    first: tuple[str, ...]
    again: tuple[str, ...]
    files: dict[str, str]
    variables: dict[str, str]
    reads_stdin: bool = False


_OPENCODE = {
    "autoupdate": False,
    "share": "disabled",
    "model": "local/model-1",
    "small_model": "local/model-1",
    "enabled_providers": ["local"],
    "compaction": {"auto": False},
    "provider": {
        "local": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "BASE/v1", "apiKey": "test-key"},
            "models": {
                "model-1": {
                    "limit": {"context": 1_000_000, "output": 4_000},
                    "attachment": True,
                    "modalities": {"input": ["text", "image"], "output": ["text"]},
                }
            },
        }
    },
}
_COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
_PI_MODEL = {"id": "model-1", "contextWindow": 1_000_000, "maxTokens": 4_000, "input": ["text", "image"]}
_PI = {
    "providers": {
        "local": {
            "baseUrl": "BASE/v1",
            "apiKey": "test-key",
            "api": "openai-completions",
            "models": [{**_PI_MODEL, "reasoning": False, "cost": _COST}],
        }
    }
}
_CODEX = """\
model = "model-1"
model_provider = "local"
model_context_window = 1000000
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[model_providers.local]
name = "Local"
base_url = "BASE/v1"
env_key = "LOCAL_API_KEY"
wire_api = "responses"
[analytics]
enabled = false
[features]
plugins = false
"""
AGENTS = {
    "claude": Agent(
        ("claude", "-p"),
        ("claude", "-p", "-c"),
        {},
        {
            "ANTHROPIC_BASE_URL": "BASE",
            "ANTHROPIC_API_KEY": "test-key",
            "ANTHROPIC_MODEL": "model-1",
            "ANTHROPIC_SMALL_FAST_MODEL": "model-1",
            "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "1000000",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "4000",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_AUTO_COMPACT": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
        reads_stdin=True,
    ),
    "codex": Agent(
        ("codex", "exec", "--skip-git-repo-check", "-"),
        ("codex", "exec", "resume", "--last", "--skip-git-repo-check", "-"),
        {".codex/config.toml": _CODEX},
        {"LOCAL_API_KEY": "test-key"},
        reads_stdin=True,
    ),
    "opencode": Agent(
        ("opencode", "run"),
        ("opencode", "run", "--continue"),
        {".config/opencode/opencode.json": json.dumps(_OPENCODE)},
        {
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        },
        reads_stdin=True,
    ),
    "pi": Agent(
        ("pi", "-p", "--provider", "local", "--model", "model-1"),
        ("pi", "-p", "--provider", "local", "--model", "model-1", "-c"),
        {".pi/agent/models.json": json.dumps(_PI)},
        {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"},
        reads_stdin=True,
    ),
}


class Desk:
    """One agent in a home folder of its own."""

    def __init__(self, name: str, home: Path, base: str) -> None:
        self.agent, self.name, self.home, self.base = AGENTS[name], name, home, base
        self.work = home / "work"
        # Variables beside the agent's own.
        self.variables: dict[str, str] = {}

    @property
    def environ(self) -> dict[str, str]:
        """Environment of the agent."""
        own = {name: value.replace("BASE", self.base) for name, value in self.agent.variables.items()}
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            **own,
            **self.variables,
        }

    def prepare(self, base: str = "") -> None:
        """Write the agent's settings, for this provider or another one."""
        self.base = base or self.base
        self.work.mkdir(parents=True, exist_ok=True)
        for name, content in self.agent.files.items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content.replace("BASE", self.base))

    def say(self, text: str, *, is_first: bool = False) -> str:
        """Send a message, and return what the agent printed; an agent that hangs is ended."""
        words = self.agent.first if is_first else self.agent.again
        try:
            ended = subprocess.run(
                words,
                input=text.encode(),
                capture_output=True,
                cwd=self.work,
                env=self.environ,
                timeout=_SECONDS_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"no answer in {_SECONDS_MAX:.0f} s"
        return (ended.stdout if ended.stdout.strip() else ended.stderr).decode(errors="replace")

    def asked(self) -> tuple[int, str]:
        """Ask for the facts; return how many were known, and the last line of the last answer."""
        known, shown = 0, ""
        for name, value in _FACTS.items():
            shown = self.say(f"what is {name}?")
            known += f"{name} = {value}" in shown
        lines = [line for line in shown.strip().splitlines() if line.strip()]
        return known, lines[-1][:150] if lines else "(nothing)"


def version(name: str) -> str:
    """Return the version that a program reports."""
    with tempfile.TemporaryDirectory() as home:
        ended = subprocess.run([name, "--version"], capture_output=True, env={**os.environ, "HOME": home}, check=False)
    words = [word.strip("v(),") for word in ended.stdout.decode().split()]
    return next((word for word in words if word[:1].isdigit()), "?")


def rescue(desk: Desk, *options: str) -> str:
    """Run `holdfast rescue`, by default of the newest session in place, and return what was wrong and done."""
    ref = session_of(desk.name, desk.home, str(desk.work))
    # It refuses files that were written a moment ago.
    time.sleep(2.5)
    words = [*PROGRAM, "rescue", *(options or (ref.id, "--in-place")), "--window", str(WINDOW), "--json"]
    ended = subprocess.run(words, capture_output=True, cwd=desk.work, env=desk.environ, check=False)
    if ended.returncode:
        return ended.stderr.decode().strip()
    if not ended.stdout.strip():
        return "nothing to write"
    told = msgspec.json.decode(ended.stdout)
    troubles = ", ".join(one["trouble"] for one in told["symptoms"])
    return f"{troubles or 'no trouble'}; {'repaired' if told['backup'] else 'unchanged'}"


@contextmanager
def provider() -> Iterator[str]:
    """Serve the simulated model, which refuses large images as Anthropic does, and yield its address."""
    program = subprocess.Popen([*PROGRAM, "sim", "--window", str(WINDOW), "--output", "4096"], stdout=subprocess.PIPE)
    try:
        assert program.stdout is not None
        base = next(word for word in program.stdout.readline().decode().split() if word.startswith("http://"))
        limits = {"window_tokens": WINDOW, "output_tokens_max": 4_096, "media_bytes_max": 5 * 2**20}
        request = urllib.request.Request(f"{base}/simulation", json.dumps({"limits": limits}).encode())
        urllib.request.urlopen(request).close()
        yield base
    finally:
        program.terminate()
        program.wait()


@contextmanager
def gateway(upstream: str, store: Path) -> Iterator[str]:
    """Serve a gateway in front of a provider, and yield its address."""
    settings = [f"upstream.openai_base_url={upstream}/v1", f"upstream.anthropic_base_url={upstream}"]
    words = [*PROGRAM, "serve", "--port", "0", "--store", str(store)]
    words += [word for one in settings for word in ("--set", one)]
    program = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert program.stdout is not None
        yield next(
            word for line in program.stdout for word in line.decode().split() if word.startswith("http://127")
        ).rstrip("/,;.")
    finally:
        program.terminate()
        program.wait()
