"""Start real agents with `holdfast run`: `python -m tests.real_agents.started [AGENT ...]`.

Each installed agent has a home folder of its own, with settings that name the simulated model as its provider, as a
user has them before Holdfast. `holdfast run --check AGENT` then sends one message with it through a gateway of its own.
The exit code is 1 if an agent was not answered.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from holdfast.core.proxy.agent_profiles import AGENTS as PROFILES
from tests.cli.programs import PROGRAM
from tests.real_agents.desk import AGENTS, provider, version

_SECONDS_MAX = 300.0
_COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
_OPENCLAW_MODEL = {"id": "model-1", "name": "model-1", "reasoning": False, "input": ["text"], "cost": _COST}
_OPENCLAW = {
    "models": {
        "mode": "replace",
        "providers": {
            "local": {
                "baseUrl": "BASE/v1",
                "apiKey": "test-key",
                "api": "openai-completions",
                "models": [{**_OPENCLAW_MODEL, "contextWindow": 1_000_000, "maxTokens": 4_000}],
            }
        },
    },
    "agents": {"defaults": {"model": {"primary": "local/model-1"}}},
}
_HERMES = """\
model:
  default: model-1
  provider: custom
  base_url: BASE/v1
  api_key: test-key
  context_length: 1000000
  max_tokens: 4000
"""
_OPENAI = {"OPENAI_API_KEY": "test-key", "OPENAI_BASE_URL": "BASE/v1", "OPENAI_MODEL": "model-1"}
# Files and variables of a user before Holdfast; those of the other agents are on their desks.
_BEFORE: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "openclaw": (
        {".openclaw/openclaw.json": json.dumps(_OPENCLAW)},
        {"OPENCLAW_DISABLE_TELEMETRY": "1", "OPENCLAW_SKIP_UPDATE_CHECK": "1"},
    ),
    "qwen": ({}, _OPENAI),
    "copilot": (
        {},
        {
            "COPILOT_PROVIDER_BASE_URL": "BASE/v1",
            "COPILOT_PROVIDER_API_KEY": "test-key",
            "COPILOT_MODEL": "model-1",
            "COPILOT_PROVIDER_MAX_OUTPUT_TOKENS": "4000",
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
        },
    ),
    "aider": (
        {},
        {
            "OPENAI_API_KEY": "test-key",
            "OPENAI_API_BASE": "BASE/v1",
            "AIDER_MODEL": "openai/model-1",
            "AIDER_ANALYTICS": "false",
            "AIDER_CHECK_UPDATE": "false",
            "AIDER_GIT": "false",
            "AIDER_SHOW_MODEL_WARNINGS": "false",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
    ),
    "hermes": ({".hermes/config.yaml": _HERMES}, {}),
    "crush": ({}, {"OPENAI_API_KEY": "test-key", "OPENAI_API_ENDPOINT": "BASE/v1", "CRUSH_DISABLE_METRICS": "1"}),
    "goose": (
        {},
        {
            "GOOSE_PROVIDER": "openai",
            "GOOSE_MODEL": "model-1",
            "OPENAI_API_KEY": "test-key",
            "OPENAI_HOST": "BASE",
            "GOOSE_DISABLE_KEYRING": "1",
        },
    ),
}


def check(name: str, base: str, home: Path) -> dict[str, object]:
    """Run the check of an agent in a home folder, and return its result."""
    files, variables = _BEFORE.get(name) or (AGENTS[name].files, AGENTS[name].variables)
    work = home / "work"
    work.mkdir(parents=True)
    for path, content in files.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(content.replace("BASE", base))
    known = {path: (home / path).read_bytes() for path in files}
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "dumb", "LANG": "C.UTF-8"}
    environ |= {key: value.replace("BASE", base) for key, value in variables.items()}
    words = [*PROGRAM, "run", "--check", "--json", "--store", str(home / "store.db"), name]
    ended = subprocess.run(words, capture_output=True, cwd=work, env=environ, timeout=_SECONDS_MAX, check=False)
    found: dict[str, object] = {"is_answered": False, "calls": 0, "answer": ended.stderr.decode().strip()[-200:]}
    if ended.stdout.strip():
        found = msgspec.json.decode(ended.stdout)
    changed = [path for path, content in known.items() if (home / path).read_bytes() != content]
    return {**found, "changed": changed}


def main(names: list[str]) -> int:
    """Check the agents that are installed, and print the table."""
    sys.stdout.write(
        "| agent | answered | model calls | files of the user that changed | answer |\n|---|---|---|---|---|\n"
    )
    is_well = True
    for name in names or [agent.command for agent in PROFILES]:
        if not shutil.which(name):
            sys.stdout.write(f"| {name} | not installed | | | |\n")
            continue
        with (
            tempfile.TemporaryDirectory(prefix="holdfast-agents-", ignore_cleanup_errors=True) as folder,
            provider() as base,
        ):
            found = check(name, base, Path(folder) / "home")
        is_well = is_well and bool(found["is_answered"])
        is_answered = "yes" if found["is_answered"] else "no"
        told = f"{is_answered} | {found['calls']} | {found['changed'] or 'none'} | {found['answer']}"
        sys.stdout.write(f"| {name} {version(name)} | {told} |\n")
        sys.stdout.flush()
    return 0 if is_well else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
