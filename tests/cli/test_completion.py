"""Completion, in a real shell: commands, options, session keys with colons, models."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.cli.completion import SHELLS
from tests.cli.programs import DEADLINE_SECONDS, environment, holdfast

BASH, ZSH, FISH = (shutil.which(shell) for shell in ("bash", "zsh", "fish"))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store" / "chat.db"
    path.parent.mkdir()
    for key in ("telegram:42", "telegram:77", "signal:7", "it's $HOME"):
        assert holdfast("chat", "--store", path, "--session", key, "hello").returncode == 0
    return path


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """A folder in which the program is, as a shell finds it."""
    program = tmp_path / "bin" / "holdfast"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m holdfast "$@"\n')
    program.chmod(0o755)
    return program.parent


def completed(typed: str, folder: Path, **settings: str) -> str:
    """Type something and Tab into a real bash, and return the line that it makes of it."""
    assert BASH is not None
    # What stands in the line is printed by bash itself, between two marks.
    prepared = (
        "bind 'set bell-style none'; bind 'set show-all-if-ambiguous on'\n"
        'eval "$(holdfast completion bash)"; shown() { echo "<<$READLINE_LINE>>"; }\n'
        "bind -x '\"\\C-g\": shown'; echo rea''dy\n"
    )
    shell = [BASH, "--norc", "--noprofile", "-i"]
    return line_made(shell, prepared, "ready", typed, folder, INPUTRC="/dev/null", **settings)


def line_made(shell: list[str], prepared: str, ready: str, typed: str, folder: Path, **settings: str) -> str:
    """Type something and Tab into a shell on a terminal of its own, and return the line that stands there then."""
    screen, keyboard = pty.openpty()
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    program = subprocess.Popen(
        shell,
        stdin=keyboard,
        stdout=keyboard,
        stderr=keyboard,
        env=environment(PATH=path, PS1="$ ", TERM="dumb", **settings),
        start_new_session=True,
    )
    os.close(keyboard)
    try:
        for line in prepared.splitlines(keepends=True):
            os.write(screen, line.encode())
        read_until(screen, ready)
        os.write(screen, f"{typed}\t\x07".encode())
        shown = read_until(screen, ">>")
    finally:
        program.kill()
        program.wait()
        os.close(screen)
    return shown.rpartition("<<")[2].partition(">>")[0]


def read_until(screen: int, text: str) -> str:
    deadline, shown = time.monotonic() + DEADLINE_SECONDS, ""
    while text not in shown:
        ready, _, _ = select.select([screen], [], [], max(deadline - time.monotonic(), 0))
        assert ready, f"{text!r} never came; shown was: {shown!r}"
        shown += os.read(screen, 65_536).decode(errors="replace")
    return shown


@pytest.mark.skipif(BASH is None, reason="there is no bash on this machine")
@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("holdfast sess", "holdfast sessions "),
        ("holdfast show si", "holdfast show signal:7 "),
        ("holdfast show tele", "holdfast show telegram:"),
        ("holdfast show telegram:4", "holdfast show telegram:42 "),
        ("holdfast show it", "holdfast show it\\'s\\ \\$HOME "),
        ("holdfast chat --session sig", "holdfast chat --session signal:7 "),
        ("holdfast chat --model si", "holdfast chat --model sim "),
        ("holdfast doctor --fi", "holdfast doctor --fix "),
        ("holdfast bench gat", "holdfast bench gateway "),
    ],
)
def test_bash_completes(store: Path, bin_folder: Path, typed: str, line: str) -> None:
    assert completed(typed, bin_folder, HOLDFAST_STORE=str(store)) == line


def completed_by_zsh(typed: str, folder: Path, **settings: str) -> str:
    """Type something and Tab into a real zsh, and return the line that it makes of it."""
    assert ZSH is not None
    prepared = (
        "autoload -Uz compinit; compinit -u -D; unsetopt beep list_beep\n"
        'eval "$(holdfast completion zsh)"; shown() { print -r -- "<""<$BUFFER>"">" }\n'
        'zle -N shown; bindkey "^G" shown; print rea""dy\n'
    )
    return line_made([ZSH, "-f", "-i"], prepared, "ready\r", typed, folder, HOME=str(folder), **settings)


@pytest.mark.skipif(ZSH is None, reason="there is no zsh on this machine; apt-get install zsh")
@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("holdfast sess", "holdfast sessions "),
        ("holdfast show tele", "holdfast show telegram:"),
        ("holdfast show telegram:4", "holdfast show telegram:42 "),
        ("holdfast show it", "holdfast show it\\'s\\ \\$HOME "),
        ("holdfast doctor --fi", "holdfast doctor --fix "),
    ],
)
def test_zsh_completes(store: Path, bin_folder: Path, typed: str, line: str) -> None:
    assert completed_by_zsh(typed, bin_folder, HOLDFAST_STORE=str(store)) == line


@pytest.mark.skipif(FISH is None, reason="there is no fish on this machine; apt-get install fish")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("holdfast sess", ["sessions"]),
        ("holdfast show tele", ["telegram:42", "telegram:77"]),
        ("holdfast show telegram:4", ["telegram:42"]),
        ("holdfast show it", ["it's $HOME"]),
        ("holdfast doctor --fi", ["--fix"]),
    ],
)
def test_fish_completes(store: Path, bin_folder: Path, typed: str, offered: list[str]) -> None:
    assert FISH is not None
    path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        [FISH, "--no-config", "-c", "holdfast completion fish | source; complete -C $argv[1]", typed],
        env=environment(PATH=path, HOME=str(bin_folder), HOLDFAST_STORE=str(store)),
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [line.partition("\t")[0] for line in ended.stdout.splitlines()] == offered


@pytest.mark.skipif(BASH is None, reason="there is no bash on this machine")
def test_completing_makes_no_store(tmp_path: Path, bin_folder: Path) -> None:
    data = tmp_path / "data"

    assert completed("holdfast show tele", bin_folder, XDG_DATA_HOME=str(data)) == "holdfast show tele"
    assert not data.exists()


def asked(line: str, **settings: str) -> list[str]:
    """Return what is offered to bash for a line."""
    asking = {"_HOLDFAST_COMPLETE": "bash_complete", "COMP_LINE": line, "COMP_POINT": str(len(line)), **settings}
    offered = holdfast(settings=asking)
    assert (offered.returncode, offered.stderr) == (0, b"")
    return [entry.partition(",")[2] for entry in offered.stdout.decode().split()]


def test_a_named_store_is_looked_into_and_a_broken_one_offers_nothing(store: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.db"
    broken.write_text("Dear reader, this is not a database. " * 100)

    assert asked(f"holdfast show --store {store} telegram:") == ["telegram:42", "telegram:77"]
    assert asked(f"holdfast show --store {broken} telegram:") == []


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_a_script(shell: str) -> None:
    script = holdfast("completion", shell)

    assert script.returncode == 0
    assert b"_HOLDFAST_COMPLETE" in script.stdout
    assert b"holdfast" in script.stdout


def test_an_unknown_shell_is_refused() -> None:
    refused = holdfast("completion", "tcsh")

    assert (refused.returncode, refused.stdout) == (2, b"")
    assert b"'bash', 'zsh', 'fish'" in refused.stderr
