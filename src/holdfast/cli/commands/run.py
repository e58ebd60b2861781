"""`holdfast run`: start an agent behind a local gateway, with its own login, terminal, signals and exit code.

Nothing of the user's is rewritten: the agent gets environment variables, flags, or files of a temporary folder that is
removed at the end.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click
import msgspec

from holdfast.cli.commands.keys import has_keys
from holdfast.cli.local_gateway import LocalGateway, is_open_gateway
from holdfast.cli.options import open_to_read
from holdfast.cli.output import json_option, print_note
from holdfast.config.schema import Settings, read_configuration
from holdfast.core.proxy.agent_launch import (
    Gateway,
    Launch,
    codex_login,
    hermes_model,
    launch,
    merged,
    own_upstreams,
    redirect,
    why_not,
)
from holdfast.core.proxy.agent_profiles import ANY_COMMAND, AgentProfile, agent_of
from holdfast.errors import UsageError
from holdfast.ports import Store
from holdfast.types.records import CompactionApplied, InputAdmitted, OutputClamped, OutputMasked, PartReplaced
from holdfast.wiring import Place, is_server

_OFFICIAL_ANTHROPIC = "https://api.anthropic.com"
# Exit codes of shells for a program that was not found or ended by a signal.
_NOT_FOUND = 127
_SIGNALLED = 128
# The time makes it another request than that of an earlier check, which would add nothing to the log.
_CHECK_MESSAGE = "Answer with the single word ok. (Check at {at:.0f}.)"
# The gateway records an answer just after its client has it.
_RECORD_SECONDS_MAX = 2.0
_CHECK_SECONDS_MAX = 180.0
# Sessions and records that a status line reads; an agent's run has far fewer.
_PAGE = 1_000
# Records of a question that was answered at once.
_RECORDS_PER_ANSWER = 5
# Parts of a temporary folder's name.
_FOLDER_PREFIX = "holdfast-run-"


class Plan(msgspec.Struct, frozen=True):
    """A run before it starts: the agent, the upstreams of its gateway, and what it is given."""

    agent: AgentProfile
    command: tuple[str, ...]
    upstreams: dict[str, str]
    codex_auth: str
    providers: dict[str, Any]
    # The agent's whole file of settings, if it reads a copy.
    copied: dict[str, Any] | None
    # Providers of the agent that keep their own address.
    left: tuple[str, ...]
    # The agent's own file names an address.
    has_custom_address: bool = False


class Status(msgspec.Struct, frozen=True):
    """Counts of one run: messages, rescued turns, tokens that compactions saved, and the newest session."""

    messages: int
    rescues: int
    tokens_saved: int
    session: str
    restarts: int

    def line(self) -> str:
        """Return the status line."""
        named = f"session {self.session}" if self.session else "no session"
        counted = f"{self.messages:,} messages, {self.rescues:,} rescues, {self.tokens_saved:,} tokens saved"
        line = f"holdfast: {counted}, {named}"
        return line + (f"; the gateway was restarted {self.restarts} times" if self.restarts else "")


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--explain", is_flag=True, help="Show what would be set, and start nothing.")
@click.option("--check", is_flag=True, help="Send one message through the gateway with the agent, and say what works.")
@click.option("--store", metavar="PATH", help="Store of the gateway. Default: `store` of the settings.")
@json_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(command: tuple[str, ...], store: str | None, *, explain: bool, check: bool, as_json: bool) -> None:
    """Start the agent COMMAND behind a local gateway, with the arguments that follow it.

    Known agents: claude, codex, opencode, pi, openclaw, qwen, copilot, aider, hermes, crush and goose. Any other
    command gets OPENAI_BASE_URL and ANTHROPIC_BASE_URL. Logins stay as they are, and none of your files is changed.
    The terminal, signals and the exit code are the agent's own.
    """
    settings = read_configuration(flags={"store": store}).settings
    plan = make_plan(command, os.environ, Path.home())
    if explain:
        _explain(plan, as_json=as_json)
        return
    if shutil.which(command[0]) is None:
        click.echo(f"holdfast: there is no program {command[0]!r} on the PATH; install it first", err=True)
        sys.exit(_NOT_FOUND)
    with tempfile.TemporaryDirectory(prefix=_FOLDER_PREFIX) as name:
        folder = Path(name)
        began = time.time()
        with _gateway(plan, settings, store, folder) as (url, local):
            set_ = prepare(plan, url, folder)
            if check:
                sys.exit(_check(plan, set_, url, as_json=as_json))
            code = _run(plan, set_)
            restarts = local.restarts if local else 0
        status = asyncio.run(_status(_place(settings.store), began, restarts))
        click.echo(msgspec.json.encode(status), err=True) if as_json else print_note(status.line())
    sys.exit(code)


# --- Plan ---


def make_plan(command: Sequence[str], environ: Mapping[str, str], home: Path) -> Plan:
    """Decide how a command is redirected, from its profile and the user's own files, which are only read."""
    agent = agent_of(Path(command[0]).name) or ANY_COMMAND
    if reason := why_not(agent, environ):
        raise UsageError(f"{agent.title} cannot be run behind the gateway: {reason}")
    upstreams = own_upstreams(agent, environ)
    login = codex_login({}, {})
    if agent.name == "codex":
        folder = Path(environ.get("CODEX_HOME") or home / ".codex")
        login = codex_login(read_json(folder / "auth.json"), _read_toml(folder / "config.toml"))
        upstreams |= {"openai": login.upstream} if login.upstream else {}
    if agent.name == "hermes":
        return _hermes_plan(agent, command, upstreams, Path(environ.get("HERMES_HOME") or home / ".hermes"))
    providers: dict[str, Any] = {}
    copied: dict[str, Any] | None = None
    left: tuple[str, ...] = ()
    if agent.providers is not None and agent.setup is not None:
        config = read_json(settings_path(agent, environ, home))
        found = redirect(agent.providers, config, str(config.get("model", "")).partition("/")[0])
        providers, left = found.config, found.left
        upstreams |= found.upstreams
        if agent.providers.copy_variable:
            if not providers:
                raise UsageError(
                    f"{settings_path(agent, environ, home)} has no provider with a base URL; "
                    f"add the one that {agent.title} uses, then run it again"
                )
            copied = merged(config, providers)
    return Plan(agent, tuple(command), upstreams, login.auth, providers, copied, left)


def _hermes_plan(agent: AgentProfile, command: Sequence[str], upstreams: dict[str, str], folder: Path) -> Plan:
    """Redirect the provider that the file of hermes names, if it can be; else say that it keeps its address."""
    try:
        model = hermes_model((folder / "config.yaml").read_text("utf-8"))
    except FileNotFoundError:
        model = hermes_model("")
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder / 'config.yaml'} cannot be read ({error}); correct it") from error
    upstreams |= {"openai": model.base_url} if model.is_custom else {}
    is_left = not model.is_custom and model.provider not in {"", "auto", "openai-api"}
    left = (model.provider,) if is_left else ()
    return Plan(agent, tuple(command), upstreams, "", {}, None, left, model.is_custom)


def settings_path(agent: AgentProfile, environ: Mapping[str, str], home: Path) -> Path:
    """Return the path of an agent's file of settings."""
    assert agent.setup is not None, "only agents with such a file"
    folder = environ.get(agent.setup.variable) if agent.setup.variable else ""
    return Path(folder) / Path(agent.setup.path).name if folder else home / agent.setup.path


def read_json(path: Path) -> dict[str, Any]:
    """Return an agent's JSON file; empty if there is none. Raises `UsageError` if it cannot be read."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read ({error}); correct it, or start the agent without Holdfast") from error
    return found if isinstance(found, dict) else {}


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read ({error}); correct it, or start the agent without Holdfast") from error


def prepare(plan: Plan, url: str, folder: Path) -> Launch:
    """Return what the agent is given, and write its temporary files."""
    gateway = Gateway(
        url,
        str(folder),
        is_anthropic_official=plan.upstreams.get("anthropic", _OFFICIAL_ANTHROPIC) == _OFFICIAL_ANTHROPIC,
        has_custom_address=plan.has_custom_address,
        codex_auth=plan.codex_auth,
        providers=json.dumps(plan.providers),
    )
    set_ = launch(plan.agent, gateway)
    if plan.copied is not None and plan.agent.providers is not None:
        copy = folder / "settings.json"
        set_ = msgspec.structs.replace(
            set_,
            variables={**set_.variables, plan.agent.providers.copy_variable: str(copy)},
            files={**set_.files, copy.name: gateway.fill(json.dumps(plan.copied))},
        )
    for name, content in set_.files.items():
        path = folder / name
        path.write_text(content, "utf-8")
        path.chmod(0o600)
    return set_


def _explain(plan: Plan, *, as_json: bool) -> None:
    with tempfile.TemporaryDirectory(prefix=_FOLDER_PREFIX) as name:
        set_ = prepare(plan, "http://127.0.0.1:PORT", Path(name))
        shown = msgspec.convert(
            json.loads(msgspec.json.encode(set_).decode().replace(name, "FOLDER")), Launch, strict=False
        )
    if as_json:
        told = {"agent": plan.agent.title, "command": plan.command, "upstreams": plan.upstreams, "left": plan.left}
        click.echo(msgspec.json.encode({**told, **msgspec.to_builtins(shown)}))
        return
    click.echo(f"{plan.agent.title}: {' '.join([plan.command[0], *shown.arguments, *plan.command[1:]])}")
    for variable, value in shown.variables.items():
        click.echo(f"  {variable}={value}")
    for file, content in shown.files.items():
        click.echo(
            f"  FOLDER/{file}, removed at the end:\n" + "".join(f"    {line}\n" for line in content.splitlines())
        )
    for family, upstream in plan.upstreams.items():
        click.echo(f"  the gateway forwards {family} requests to {upstream}")
    for provider in plan.left:
        click.echo(f"  not redirected: provider {provider}, which has another address")
    click.echo(f"  login: {plan.agent.login}")


# --- Gateway ---


@contextmanager
def _gateway(
    plan: Plan, settings: Settings, store: str | None, folder: Path
) -> Iterator[tuple[str, LocalGateway | None]]:
    """Join the gateway of the settings if it runs and serves the same upstreams, else start one."""
    known = f"http://{settings.gateway.host}:{settings.gateway.port}"
    own = {f"upstream.{family}_base_url": url for family, url in plan.upstreams.items()}
    if store is None and not own and is_open_gateway(known):
        yield known, None
        return
    if has_keys(settings):
        raise UsageError(
            "the store has gateway keys, and agents do not send one; name a store of your own with --store, "
            "or start `holdfast serve` and set the agent up by hand"
        )
    assignments = [part for name, url in own.items() for part in ("--set", f"{name}={url}")]
    arguments = [*(["--store", store] if store else []), *assignments]
    local = LocalGateway(arguments, folder / "gateway.log", os.environ)
    try:
        yield local.url, local
    finally:
        local.stop()


# --- Agent ---


def _run(plan: Plan, set_: Launch) -> int:
    """Run the agent in the foreground of this terminal, and return its exit code."""
    child = subprocess.Popen(  # noqa: S603 - the user's own command
        [plan.command[0], *set_.arguments, *plan.command[1:]], env={**os.environ, **set_.variables}
    )

    def forward(number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(number)

    def leave_to_agent(_number: int, _frame: FrameType | None) -> None:
        """The terminal sends Ctrl-C to the agent too."""

    before = {number: signal.signal(number, forward) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)}
    # A handler, not SIG_IGN: the agent would inherit that.
    before |= {number: signal.signal(number, leave_to_agent) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        return _wait(child.pid)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        # Its end was taken from the kernel by `_wait`.
        child.returncode = 0


def _wait(pid: int) -> int:
    """Wait for the agent. When it stops itself (Ctrl-Z), stop too, and continue it when the shell continues us."""
    while True:
        _, status = os.waitpid(pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            os.kill(os.getpid(), signal.SIGSTOP)
            os.kill(pid, signal.SIGCONT)
            continue
        return os.WEXITSTATUS(status) if os.WIFEXITED(status) else _SIGNALLED + os.WTERMSIG(status)


# --- Check ---


class Checked(msgspec.Struct, frozen=True):
    """Result of a check: whether the agent answered, and the model calls that the gateway saw."""

    agent: str
    is_answered: bool
    calls: int
    answer: str


def _check(plan: Plan, set_: Launch, url: str, *, as_json: bool) -> int:
    """Send one message with the agent, and return 0 if it was answered through the gateway."""
    if not plan.agent.one_message:
        raise UsageError("--check needs a known agent; start the command itself to try it")
    # The last word before a message may be the option that takes it.
    *first, last = plan.agent.one_message
    words = [plan.command[0], *set_.arguments, *first, *plan.command[1:], last]
    words.append(_CHECK_MESSAGE.format(at=time.time()))
    before = _calls(url)
    try:
        ended = subprocess.run(  # noqa: S603 - the user's own command
            words,
            env={**os.environ, **set_.variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_CHECK_SECONDS_MAX,
            check=False,
        )
        code, output = ended.returncode, ended.stdout or ended.stderr
    except subprocess.TimeoutExpired:
        code, output = 1, f"no answer in {_CHECK_SECONDS_MAX:.0f} seconds".encode()
    deadline = time.monotonic() + _RECORD_SECONDS_MAX
    while not (calls := _calls(url) - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    lines = output.decode(errors="replace").strip().splitlines()
    result = Checked(plan.agent.title, code == 0 and calls > 0, calls, lines[-1] if lines else "")
    if as_json:
        click.echo(msgspec.json.encode(result))
    elif result.is_answered:
        click.echo(f"{result.agent} works behind the gateway: {calls} model calls, answer {result.answer!r}")
    elif not calls:
        click.echo(f"{result.agent} did not reach the gateway (exit code {code}): {result.answer}")
    else:
        click.echo(f"{result.agent} reached the gateway ({calls} calls) and failed (exit code {code}): {result.answer}")
    return 0 if result.is_answered else 1


def _calls(url: str) -> int:
    """Return how many answers and errors of upstreams the gateway has seen for proxied clients.

    A client that leaves as soon as it has its answer is in the log but not among the counted requests.
    """
    import urllib.request  # noqa: PLC0415 - for --check only

    def read(path: str) -> bytes:
        with urllib.request.urlopen(f"{url}{path}") as answer:  # noqa: S310 - our own gateway
            found: bytes = answer.read()
        return found

    errors = [
        line for line in read("/metrics").decode().splitlines() if line.startswith("holdfast_dropin_faults_total")
    ]
    sessions = msgspec.json.decode(read("/api/sessions?match=dropin:&limit=1000"))["sessions"]
    turns = sum(int(one["records"]) // _RECORDS_PER_ANSWER for one in sessions)
    return int(sum(float(line.rpartition(" ")[2]) for line in errors)) + turns


# --- Status ---


def _place(store: str) -> Place | None:
    """Return the store of the settings; None for the default one."""
    if not store:
        return None
    return store if is_server(store) else Path(store).expanduser()


async def _status(place: Place | None, began: float, restarts: int) -> Status:
    """Count what happened in proxied sessions since the start."""
    messages = saved = 0
    rescued: set[tuple[str, int]] = set()
    newest = ("", 0.0)
    try:
        async with open_to_read(place) as store:
            async for key, updated_at in _proxied(store, began):
                newest = max(newest, (key, updated_at), key=lambda one: one[1])
                for logged in await store.read(key, after=0, limit=100_000):
                    if logged.at < began:
                        continue
                    match logged.record:
                        case InputAdmitted():
                            messages += 1
                        case CompactionApplied(turn=turn, tokens_before=before, tokens_after=after):
                            rescued.add((key, turn))
                            saved += max(before - after, 0)
                        case OutputMasked(turn=turn) | PartReplaced(turn=turn) | OutputClamped(turn=turn):
                            rescued.add((key, turn))
                        case _:
                            pass
    except UsageError:
        # The agent sent nothing, so there is no store yet.
        pass
    return Status(messages, len(rescued), saved, newest[0], restarts)


async def _proxied(store: Store, began: float) -> AsyncIterator[tuple[str, float]]:
    after = ""
    while page := await store.sessions(after=after, limit=_PAGE):
        for one in page:
            if one.key.startswith("dropin:") and one.updated_at >= began:
                yield one.key, one.updated_at
        after = page[-1].key
