"""`holdfast setup`: point an agent at the gateway permanently, in the agent's own file, and take it back.

The file is replaced atomically, with a copy of the old one beside it. A note in the data folder says what was set, so
that `--undo` restores the file exactly, or, if it was changed meanwhile, only the values that are still ours.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from holdfast.cli.commands.run import Plan, make_plan, read_json, settings_path
from holdfast.cli.output import json_option
from holdfast.config.schema import read_configuration
from holdfast.core.proxy.agent_launch import Gateway, launch, merged, set_value
from holdfast.core.proxy.agent_profiles import AgentProfile, agent_of
from holdfast.errors import UsageError
from holdfast.rescue.files import replace_file
from holdfast.wiring import made_store_path

_OURS = "# holdfast"
_WAS = "# holdfast, was: "
_TOP_LEVEL = re.compile(r"^(?:model_provider|model_context_window)\s*=")


class Note(msgspec.Struct, frozen=True):
    """What `setup` changed: the file, the hash of what it wrote, the old text (None: no file) and the values."""

    path: str
    written_sha256: str
    before: str | None
    # Path of names, our value, and the value before; `had` is whether there was one.
    values: list[tuple[list[str], Any, Any, bool]]


class SetUp(msgspec.Struct, frozen=True):
    """JSON output: the agent, its file, whether the agent now uses the gateway, and the copy of the old file."""

    agent: str
    path: str
    is_set: bool
    backup: str | None
    gateway: str
    # Addresses that the agent had before, which the gateway must know.
    upstreams: dict[str, str]


@click.command()
@click.argument("agent")
@click.option("--undo", is_flag=True, help="Restore the agent's own settings.")
@json_option
def setup(agent: str, *, undo: bool, as_json: bool) -> None:
    """Make the agent AGENT use the gateway of `holdfast serve` from now on: claude, codex, opencode, pi or openclaw.

    The address goes into the agent's own file, with a copy of the old file beside it. --undo takes it back. Other
    agents read only the environment; for those the lines for your shell are printed.
    """
    profile = agent_of(agent)
    if profile is None:
        raise UsageError(f"{agent!r} is not a known agent; `holdfast run --help` lists them")
    settings = read_configuration().settings
    gateway = Gateway(f"http://127.0.0.1:{settings.gateway.port}", "")
    result = _undo(profile) if undo else _set_up(profile, gateway)
    if as_json:
        click.echo(msgspec.json.encode(result))
        return
    if not result.is_set:
        click.echo(f"{result.path} no longer names the gateway")
        click.echo("sessions that the gateway compacted continue after `holdfast rescue --leave` in their folders")
        return
    click.echo(f"{result.path} now names the gateway at {result.gateway}; keep `holdfast serve` running")
    if result.backup:
        click.echo(f"the old file is {result.backup}")
    for family, upstream in result.upstreams.items():
        click.echo(f"start it with: holdfast serve --set upstream.{family}_base_url={upstream}")


def _note_path(agent: AgentProfile) -> Path:
    store = made_store_path()
    folder = (store.parent if isinstance(store, Path) else Path.home() / ".local/share/holdfast") / "setup"
    return folder / f"{agent.command}.json"


def _set_up(agent: AgentProfile, gateway: Gateway) -> SetUp:
    if _note_path(agent).exists():
        raise UsageError(f"{agent.title} is already set up; `holdfast setup {agent.command} --undo` takes it back")
    plan = make_plan((agent.command,), os.environ, Path.home())
    gateway = msgspec.structs.replace(gateway, codex_auth=plan.codex_auth)
    if agent.name == "codex":
        path = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "config.toml"
        before = path.read_text("utf-8") if path.exists() else None
        values: list[tuple[list[str], Any, Any, bool]] = []
        written = with_codex_entry(before or "", launch(agent, gateway).arguments)
    elif agent.setup is not None:
        path = settings_path(agent, os.environ, Path.home())
        before = path.read_text("utf-8") if path.exists() else None
        config, changes = read_json(path), _changes(agent, plan, gateway)
        values = [_changed(config, names, value) for names, value in _leaves(changes)]
        written = json.dumps(merged(config, changes), indent=2, ensure_ascii=False) + "\n"
    else:
        lines = [f"export {name}={value}" for name, value in launch(agent, gateway).variables.items()]
        raise UsageError(
            f"{agent.title} reads its address from the environment; add to your shell's profile: {'; '.join(lines)}"
        )
    note = Note(str(path), _sha256(written), before, values)
    note_path = _note_path(agent)
    note_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(note_path, msgspec.json.encode(note))
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    backup = replace_file(path, written.encode(), keeps_backup=before is not None)
    return SetUp(agent.title, str(path), True, str(backup) if backup else None, gateway.root, plan.upstreams)  # noqa: FBT003 - a row


def _changes(agent: AgentProfile, plan: Plan, gateway: Gateway) -> dict[str, Any]:
    """Return the values to set in an agent's JSON file."""
    changes: dict[str, Any] = json.loads(gateway.fill(json.dumps(plan.providers)))
    if agent.setup is not None and agent.providers is None:
        for names, template in agent.setup.values:
            set_value(changes, names, gateway.fill(template))
    return changes


def _undo(agent: AgentProfile) -> SetUp:
    note_path = _note_path(agent)
    if not note_path.exists():
        raise UsageError(f"{agent.title} is not set up; `holdfast setup {agent.command}` does that")
    note = msgspec.json.decode(note_path.read_bytes(), type=Note)
    path = Path(note.path)
    current = path.read_text("utf-8") if path.exists() else None
    if current is not None and _sha256(current) == note.written_sha256:
        if note.before is None:
            path.unlink()
        else:
            replace_file(path, note.before.encode())
    elif current is not None:
        kept = without_codex_entry(current) if agent.name == "codex" else _restored(current, note)
        replace_file(path, kept.encode(), keeps_backup=True)
    note_path.unlink()
    return SetUp(agent.title, note.path, False, None, "", {})  # noqa: FBT003 - a row


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# --- JSON ---


def _leaves(config: Mapping[str, Any], above: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    found: list[tuple[tuple[str, ...], Any]] = []
    for name, value in config.items():
        found += _leaves(value, (*above, name)) if isinstance(value, dict) else [((*above, name), value)]
    return found


def _changed(config: Mapping[str, Any], names: Sequence[str], value: object) -> tuple[list[str], Any, Any, bool]:
    below: Any = config
    for name in names:
        if not isinstance(below, dict) or name not in below:
            return list(names), value, None, False
        below = below[name]
    return list(names), value, below, True


def _restored(current: str, note: Note) -> str:
    """Return a changed file with our values replaced by the earlier ones, where they are still ours."""
    try:
        config = json.loads(current)
    except ValueError as error:
        raise UsageError(f"{note.path} is not valid JSON any more ({error}); remove the gateway by hand") from error
    for names, ours, before, had in note.values:
        _, _, found, is_there = _changed(config, names, None)
        if not is_there or found != ours:
            continue
        if had:
            set_value(config, names, before)
        else:
            _remove(config, names)
    return json.dumps(config, indent=2, ensure_ascii=False) + "\n"


def _remove(config: dict[str, Any], names: Sequence[str]) -> None:
    """Remove a value, and the tables above it that are then empty."""
    if len(names) > 1:
        below = config[names[0]]
        _remove(below, names[1:])
        if below:
            return
    del config[names[0]]


# --- The TOML file of Codex: lines of ours are marked, others stay byte for byte ---


def with_codex_entry(text: str, arguments: Sequence[str]) -> str:
    """Return the file with our provider first, and the user's own choice kept as a comment."""
    ours = [f"{argument}  {_OURS}" for argument in arguments if argument != "-c"]
    lines = text.split("\n")
    tables = next((number for number, line in enumerate(lines) if line.lstrip().startswith("[")), len(lines))
    top = [f"{_WAS}{line}" if _TOP_LEVEL.match(line) else line for line in lines[:tables]]
    return "\n".join([*ours, *top, *lines[tables:]])


def without_codex_entry(text: str) -> str:
    """Return the file without our lines, and with the user's own choice again."""
    kept = [line for line in text.split("\n") if not line.endswith(f"  {_OURS}")]
    return "\n".join(line.removeprefix(_WAS) for line in kept)
