"""What was typed wrongly, or cannot work here: one sentence, an exit code, no traceback, and nothing changed."""

import contextlib
import hashlib
import os
import socket
import subprocess
from pathlib import Path
from typing import IO

import apsw
import pytest

from holdfast import wiring
from holdfast.cli import chat as chat_module
from holdfast.cli import command_line
from holdfast.cli.exit_codes import run
from holdfast.core.limits.bounds import Bounds
from tests.cli.programs import DEADLINE_SECONDS, PROGRAM, bounded, environment, holdfast

MIB = 2**20
PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 32


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with one exchange in it."""
    path = tmp_path / "kept" / "chat.db"
    path.parent.mkdir()
    assert holdfast("chat", "--store", path, "hello").returncode == 0
    return path


def contents(folder: Path) -> dict[str, str]:
    """Return every file below a folder, with the hash of what is in it."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def refused(
    ended: subprocess.CompletedProcess[bytes], code: int, sentence: str, *, beside: tuple[str, ...] = ()
) -> None:
    """Check that a program ended with this code and one sentence that contains this."""
    told = ended.stderr.decode().splitlines()
    assert ended.returncode == code, ended.stderr.decode()
    assert ended.stdout == b""
    assert "Traceback" not in ended.stderr.decode()
    assert told[-1].startswith("holdfast: "), told
    assert sentence in told[-1]
    assert tuple(told[:-1]) == beside


MESSAGES = [
    pytest.param(["chat", "--model", "opnai:gpt-5", "hi"], "did you mean 'openai:gpt-5'?", id="unknown model"),
    pytest.param(["chat", "--model", "openai:gpt-5", "hi"], "set OPENAI_API_KEY", id="missing key"),
    pytest.param(
        ["chat", "--model", "openai:gpt-5", "--base-url", "ftp://x", "hi"], "must start with http://", id="address"
    ),
    pytest.param(["chat", "   "], "the message is empty", id="empty message"),
    pytest.param(["chat", b"caf\xe9"], "a lone surrogate (U+DCE9) at position 4", id="invalid Unicode"),
    pytest.param(["chat", "--session", "a\nb", "hi"], "use printable characters only", id="session key"),
    pytest.param(["chat", "--session", b"\xff", "hi"], "use printable characters only", id="session key of bytes"),
    pytest.param(["chat", "--system", b"\xff", "hi"], "a lone surrogate (U+DCFF) at position 1", id="system text"),
    pytest.param(["chat", "--faults", "boom", "hi"], "fault 'boom' is not known", id="fault script"),
    pytest.param(
        ["chat", "--model", "openai:gpt-5", "--faults", "429", "hi"],
        "--faults works with the simulated model only",
        id="faults of a real model",
    ),
    pytest.param(["chat", "--attach", "/nowhere/at/all.txt", "hi"], "does not exist", id="missing attachment"),
    pytest.param(["chat", "--colour", "hi"], "No such option", id="unknown option"),
    pytest.param(["show"], "Missing argument 'KEY'", id="missing argument"),
    pytest.param(["show", "defalt"], "did you mean 'default'?", id="unknown session"),
    pytest.param(["view", "defalt"], "did you mean 'default'?", id="unknown session to view"),
    pytest.param(["cancel", "defalt"], "did you mean 'default'?", id="unknown session to cancel"),
    pytest.param(["cancel", "default", "7"], "turn 7 of session 'default' is not open", id="turn that is not open"),
    pytest.param(["show", b"\xff"], "use printable characters only", id="session key of bytes to show"),
    pytest.param(["show", "default", "--limit", "0"], "--limit", id="limit of nothing"),
]


@pytest.mark.parametrize(("arguments", "sentence"), MESSAGES)
def test_what_is_typed_wrongly_changes_nothing(store: Path, arguments: list[str | bytes], sentence: str) -> None:
    before = contents(store.parent)

    ended = holdfast(*arguments, settings={"HOLDFAST_STORE": str(store)})

    refused(ended, 2, sentence)
    assert contents(store.parent) == before


@pytest.mark.parametrize(("arguments", "sentence"), MESSAGES[:11])
def test_what_is_refused_makes_no_store(tmp_path: Path, arguments: list[str | bytes], sentence: str) -> None:
    refused(holdfast(*arguments, settings={"XDG_DATA_HOME": str(tmp_path)}), 2, sentence)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [["sessions"], ["show", "a"], ["view", "a"], ["cancel", "a"]])
def test_reading_does_not_make_a_store(tmp_path: Path, command: list[str]) -> None:
    ended = holdfast(*command, "--store", tmp_path / "none.db")

    refused(ended, 2, f"there is no store at {tmp_path}/none.db; `holdfast chat` creates one")
    assert list(tmp_path.iterdir()) == []


# --- attachments and standard input ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("photo.jpg", PNG, "claims to be a JPEG image but is a PNG image"),
        ("notes.txt", b"\x00\x01\x02\xff" * 64, "has a type that models do not accept"),
        ("empty.txt", b"", "is empty"),
    ],
)
def test_an_attachment_that_is_not_what_its_name_says_is_refused(
    tmp_path: Path, name: str, content: bytes, sentence: str
) -> None:
    (tmp_path / "files").mkdir()
    file = tmp_path / "files" / name
    file.write_bytes(content)

    ended = holdfast("chat", "--attach", file, "look", settings={"XDG_DATA_HOME": str(tmp_path / "data")})

    refused(ended, 2, sentence)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("piped", "sentence"),
    [
        (b"", "the message is empty"),
        (b"\n\n", "the message is empty"),
        (b"caf\xe9 au lait", "is not UTF-8 (byte 0xe9 at position 4)"),
        (b"nul\x00", "has a NUL character at position 4"),
        (b"x" * (16 * MIB + 1), "has more than 16,777,216 bytes; save it as a file and use --attach"),
    ],
)
def test_a_piped_message_that_cannot_be_taken_is_refused(tmp_path: Path, piped: bytes, sentence: str) -> None:
    refused(holdfast("chat", stdin=piped, settings={"XDG_DATA_HOME": str(tmp_path)}), 2, sentence)

    assert list(tmp_path.iterdir()) == []


def poured(pipe: IO[bytes], mebibytes: int) -> int:
    """Write so much, or as much as is read; return how much it was."""
    with contextlib.suppress(BrokenPipeError), pipe:
        for written in range(mebibytes):
            try:
                pipe.write(b"y" * MIB)
            except BrokenPipeError:
                return written
    return mebibytes


def test_a_hundred_megabytes_on_standard_input_are_refused_without_being_read(store: Path) -> None:
    before = contents(store.parent)
    started = subprocess.Popen(
        [*PROGRAM, "chat", "--store", store],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    with bounded(started) as program:
        assert program.stdin is not None
        assert program.stderr is not None
        assert poured(program.stdin, 100) < 100
        told = program.stderr.read().decode()
        program.wait(DEADLINE_SECONDS)
    assert (program.returncode, told.startswith("holdfast: the message on standard input has more than")) == (2, True)
    assert contents(store.parent) == before


# --- places ------------------------------------------------------------------------------------------------------


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    refused(holdfast("chat", "--store", tmp_path, "hi"), 2, "is a folder; use the path of a file in it")
    refused(holdfast("sessions", "--store", tmp_path), 2, "is a folder; use the path of a file in it")

    assert list(tmp_path.iterdir()) == []


def test_a_path_below_a_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("something else")

    refused(holdfast("chat", "--store", tmp_path / "file" / "chat.db", "hi"), 2, "does not exist")
    refused(
        holdfast("chat", "hi", settings={"XDG_DATA_HOME": str(tmp_path / "file")}),
        2,
        f"cannot create the folder {tmp_path / 'file' / 'holdfast'} (Not a directory",
    )
    assert contents(tmp_path) == {"file": hashlib.sha256(b"something else").hexdigest()}


def test_a_place_that_takes_no_files_is_no_store() -> None:
    ended = holdfast("chat", "--store", "/proc/self/chat.db", "hi")

    refused(ended, 2, "/proc/self")


def test_the_file_of_another_program_is_no_store(tmp_path: Path) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("Dear reader, this is not a database. " * 100)
    before = contents(tmp_path)

    refused(holdfast("chat", "--store", file, "hi"), 2, "is not a database; choose another path")
    assert contents(tmp_path) == before


def test_a_store_of_a_newer_version_is_left_alone(store: Path) -> None:
    db = apsw.Connection(str(store))
    db.execute("PRAGMA user_version = 999")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    before = contents(store.parent)

    refused(holdfast("chat", "--store", store, "hi"), 74, "has layout 999")
    assert contents(store.parent) == before


# --- the world outside -------------------------------------------------------------------------------------------


def test_a_server_that_cannot_be_reached_ends_the_turn_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, so that it need not wait for half a minute between its tries."""
    quick = wiring.Tuning(adopts=False, bounds=Bounds(back_off_seconds_min=0.01))
    monkeypatch.setattr(chat_module, "tuning", lambda **_: quick)
    with socket.socket() as unused:
        # Bound and not listening: nobody answers here, and nobody else can begin to.
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        where = ["--store", str(tmp_path / "chat.db"), "--model", "openai:local", "--base-url", url]
        code = run(command_line, ["chat", *where, "hi"])

    shown = capsys.readouterr()
    *waits, last = shown.err.splitlines()
    assert (code, shown.out) == (69, "")
    assert [wait.rpartition(" waiting ")[0] for wait in waits] == ["the provider could not be reached or failed;"] * 3
    assert last.startswith("holdfast: session 'default', turn 1: The provider could not be reached or failed.")


def test_a_full_output_device_is_told(store: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [*PROGRAM, "show", "default", "--store", store],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(),
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (74, b"holdfast: No space left on device\n")


def test_a_reader_that_goes_away_is_not_told_about_it(store: Path) -> None:
    readable, writable = os.pipe()
    os.close(readable)
    try:
        ended = subprocess.run(
            [*PROGRAM, "show", "default", "--store", store],
            stdout=writable,
            stderr=subprocess.PIPE,
            env=environment(),
            check=False,
        )
    finally:
        os.close(writable)
    assert (ended.returncode, ended.stderr) == (1, b"")
