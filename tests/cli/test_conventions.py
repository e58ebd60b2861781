"""What every command has in common: JSON, examples, exit codes, colours."""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import msgspec
import pytest

from holdfast.cli import BENCHES, COMMANDS, command_line
from holdfast.cli.examples import EXAMPLES
from holdfast.cli.exit_codes import EXITS, exit_code
from holdfast.errors import HoldfastError
from tests.cli.programs import holdfast, terminal

# Commands without --json, each with its reason.
WITHOUT_JSON: Mapping[str, str] = {
    "serve": "serves until it is ended; its log is JSON",
    "sim": "serves until it is ended",
    "export": "what it writes is JSON lines as it is",
    "classify": "what it writes is JSON lines as it is",
    "mcp": "speaks a protocol of JSON lines",
    "completion": "prints a script for a shell",
}


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command that does something, with its name."""
    pending: list[tuple[str, click.Command]] = [("", command_line)]
    while pending:
        name, command = pending.pop()
        if not isinstance(command, click.Group):
            yield name, command
            continue
        context = click.Context(command, info_name=name or "holdfast")
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            pending.append((f"{name} {below}".strip(), found))


ALL = dict(commands())


def options(command: click.Command) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts if option.startswith("-")}


def test_every_command_is_walked() -> None:
    groups = {"bench", "keys"}
    assert {name.split()[0] for name in ALL} == set(COMMANDS)
    assert {name.split()[1] for name in ALL if name.startswith("bench ")} == set(BENCHES)
    assert {name for name in ALL if name.split()[0] in groups} == {name for name in ALL if " " in name}


def test_every_command_speaks_json_or_has_a_reason_not_to() -> None:
    silent = {name for name, command in ALL.items() if "--json" not in options(command)}
    assert silent == set(WITHOUT_JSON)


def test_every_command_has_an_example_and_examples_use_options_that_exist() -> None:
    assert set(EXAMPLES) == set(COMMANDS)
    for name, lines in EXAMPLES.items():
        for line, _ in lines:
            ours = re.search(r"holdfast (?P<rest>[^|>)]*)", line)
            assert ours is not None, line
            words = shlex.split(ours["rest"])
            assert words[0] == name
            below = " ".join(words[:2])
            command = ALL[below] if below in ALL else ALL[name]
            used = {word for word in words if word.startswith("--")}
            assert used <= options(command), line


def test_examples_stand_below_the_help() -> None:
    shown = holdfast("undo", "--help").stdout.decode()
    assert "Examples:\n    holdfast undo telegram:42  # repeat to undo earlier ones\n" in shown


def test_every_exit_code_has_a_meaning_and_every_error_such_a_code() -> None:
    kinds = [HoldfastError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    assert {exit_code(kind.__new__(kind)) for kind in kinds} <= set(EXITS)
    shown = holdfast("--help").stdout.decode()
    assert [int(code) for code in re.findall(r"^ +(\d+) ", shown.partition("Exit codes:")[2], re.MULTILINE)] == list(
        EXITS
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    assert holdfast("chat", "--store", path, "--session", "telegram:42", "hello").returncode == 0
    return path


def test_small_commands_tell_programs_what_they_did(store: Path, tmp_path: Path) -> None:
    def told(*arguments: str | Path) -> object:
        ended = holdfast(*arguments, "--json", settings={"HOLDFAST_STORE": str(store)})
        assert (ended.returncode, ended.stderr) == (0, b"")
        return msgspec.json.decode(ended.stdout)

    copy, other = tmp_path / "copy.db", tmp_path / "other.db"
    assert told("undo", "telegram:42") == {"is_undone": False, "boundary": None, "generation": None}
    assert told("cancel", "telegram:42") == {"session": "telegram:42", "cancelled": []}
    assert told("backup", copy) == {"store": str(store), "backup": str(copy), "files": 0}
    # What is known of models is a log, too, and no session.
    restored = {"backup": str(copy), "store": str(other), "files": 0, "sessions": 1, "moved": None}
    assert told("restore", copy, "--store", other) == restored
    made = told("keys", "add", "alice")
    assert isinstance(made, dict)
    assert made["name"] == "alice"
    listed = told("keys", "list")
    assert isinstance(listed, dict)
    assert listed.keys() == {"name", "created_at", "role", "comment", "expires_at", "secrets", "limits"}
    assert told("keys", "remove", "alice") == {"removed": "alice"}


# How each command that speaks JSON is called on a store with one session; `{…}` are paths of the test.
SPOKEN: Mapping[str, tuple[str, ...]] = {
    "chat": ("hello again",),
    "models": ("gpt",),
    "sessions": (),
    "show": ("telegram:42",),
    "view": ("telegram:42",),
    "search": ("telegram:42", "hello"),
    "recall": ("telegram:42", "1"),
    "import": ("{transcript}",),
    "compact": ("telegram:42",),
    "undo": ("telegram:42",),
    "exclude": ("telegram:42", "1"),
    "prune": ("--older-than", "1", "--dry-run"),
    "doctor": (),
    "backup": ("{folder}/copy.db",),
    "restore": ("{backup}", "--store", "{folder}/restored.db"),
    "cancel": ("telegram:42",),
    "rename": ("telegram:42", "A title"),
    "tag": ("telegram:42", "a"),
    "fork": ("telegram:42", "copy"),
    "branches": ("telegram:42",),
    "memory": ("user", "--add", "A note."),
    "version": (),
    "keys add": ("bob",),
    "keys list": (),
    "keys change": ("alice", "--rpm", "5"),
    "keys rotate": ("alice",),
    "keys remove": ("alice",),
    "usage": (),
    "config": (),
    "digest": ("{transcript}",),
    "estimate": ("{transcript}",),
}
# Those that take long, or need another home folder or a waiting call, have tests of their own.
SPOKEN_ELSEWHERE = {
    "approvals",
    "approve",
    "deny",
    "delete",
    "demo",
    "crashlab",
    "attack",
    "run",
    "setup",
    "rescue",
    *(name for name in ALL if name.startswith("bench ")),
}


def test_every_command_that_speaks_json_is_called_with_it() -> None:
    assert set(SPOKEN) | SPOKEN_ELSEWHERE == set(ALL) - set(WITHOUT_JSON)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store, a backup of it, a key and a transcript."""
    folder = tmp_path_factory.mktemp("prepared")
    settings = {"HOLDFAST_STORE": str(folder / "store.db")}
    assert holdfast("chat", "--session", "telegram:42", "hello", settings=settings).returncode == 0
    assert holdfast("backup", folder / "backup.db", settings=settings).returncode == 0
    assert holdfast("keys", "add", "alice", settings=settings).returncode == 0
    said = '{{"session_id": "s1", "seq": {}, "role": "{}", "parts": [{{"type": "text", "text": "hello"}}]}}\n'
    (folder / "transcript.jsonl").write_text(said.format(1, "user") + said.format(2, "assistant"), "utf-8")
    return folder


@pytest.mark.parametrize("name", SPOKEN)
def test_what_is_printed_for_programs_is_json_and_nothing_else(name: str, prepared: Path, tmp_path: Path) -> None:
    settings = {"HOLDFAST_STORE": str(prepared / "store.db")}
    transcript, backup = prepared / "transcript.jsonl", prepared / "backup.db"
    given = [word.format(transcript=transcript, backup=backup, folder=tmp_path) for word in SPOKEN[name]]
    ended = holdfast(*name.split(), *given, "--json", settings=settings)

    assert (ended.returncode, ended.stderr) == (0, b"")
    lines = ended.stdout.splitlines()
    assert lines
    for line in lines:
        msgspec.json.decode(line)


@pytest.mark.parametrize("arguments", [("show", "telegram:42"), ("view", "telegram:42"), ("doctor",), ("--help",)])
def test_without_colours_or_in_a_pipe_there_are_none(arguments: tuple[str, ...], store: Path) -> None:
    settings = {"TERM": "xterm-256color", "NO_COLOR": "1", "HOLDFAST_STORE": str(store)}
    piped = holdfast(*arguments, settings={**settings, "NO_COLOR": ""})
    with terminal(*arguments, settings=settings) as screen:
        assert screen.end() == 0
    # Colours are what is left out; a bar may still be drawn and taken away.
    assert re.findall(r"\x1b\[[0-9;]*[34][0-9](?:;[0-9;]*)?m", screen.shown) == []
    assert (piped.returncode, b"\x1b" in piped.stdout + piped.stderr) == (0, False)


def test_a_bar_is_shown_on_a_terminal_alone(store: Path, tmp_path: Path) -> None:
    piped = holdfast("doctor", "--store", store)
    with terminal("doctor", "--store", store, settings={"TERM": "xterm-256color"}) as screen:
        assert screen.end() == 0
    with terminal("backup", tmp_path / "copy.db", "--store", store, settings={"TERM": "dumb"}) as dumb:
        assert dumb.end() == 0

    assert (piped.stderr, b"No problems found." in piped.stdout) == (b"", True)
    assert "\x1b[" in screen.shown
    assert "No problems found." in screen.shown
    assert "\x1b" not in dumb.shown
