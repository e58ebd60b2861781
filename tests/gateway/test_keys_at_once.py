"""Processes that add and remove gateway keys at the same time."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import StoreBusyError
from holdfast.gateway.http import keys as key_module
from holdfast.gateway.http.keys import KeyFile
from tests.cli.programs import PROGRAM, environment
from tests.cli.programs import holdfast as run_program

PROCESSES = 6
CHANGES = 10
# Adds keys of its own, removes every second of them and its share of the first ones, and prints those it keeps.
CHANGER = """
import json, sys
from pathlib import Path
from holdfast.gateway.http.keys import KeyFile

path, mine, changes = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
kept = {}
for number in range(changes):
    name = f"{mine}-{number}"
    kept[name] = KeyFile(path).add(name)
    if number % 2:
        KeyFile(path).remove(name)
        del kept[name]
    KeyFile(path).remove(f"first-{mine}-{number}")
print(json.dumps(kept))
"""


def test_no_printed_key_is_lost_and_no_removed_one_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "store.db-keys"
    for process in range(PROCESSES):
        for number in range(CHANGES):
            KeyFile(path).add(f"first-p{process}-{number}")
    stays = KeyFile(path).add("stays")
    started = [
        subprocess.Popen(
            [sys.executable, "-c", CHANGER, str(path), f"p{process}", str(CHANGES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
        )
        for process in range(PROCESSES)
    ]
    try:
        for program in started:
            assert program.stdout is not None
            assert program.stdout.readline() == b"ready\n"
        # All of them begin together.
        for program in started:
            assert program.stdin is not None
            program.stdin.write(b"\n")
            program.stdin.flush()
        printed = [program.communicate(timeout=120)[0] for program in started]
    finally:
        for program in started:
            program.kill()
            program.wait()

    kept: dict[str, str] = {"stays": stays}
    for text in printed:
        kept |= json.loads(text)
    assert len(kept) == 1 + PROCESSES * CHANGES // 2
    file = KeyFile(path)
    assert {key.name for key in file.all()} == set(kept)
    assert all(file.name_of(secret) == name for name, secret in kept.items())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["store.db-keys"]


def test_the_first_keys_of_a_new_gateway_are_all_there_when_they_are_added_at_once(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    adding = [
        subprocess.Popen(
            [*PROGRAM, "keys", "--store", str(store), "add", f"key-{number}"], stdout=subprocess.PIPE, env=environment()
        )
        for number in range(4)
    ]
    printed = [program.communicate(timeout=120)[0].decode().strip() for program in adding]
    file = KeyFile(tmp_path / "store.db-keys")
    assert [file.name_of(secret) for secret in printed] == [f"key-{number}" for number in range(4)]
    removed = run_program("keys", "--store", store, "remove", "key-0")
    assert (removed.returncode, file.name_of(printed[1])) == (0, "key-1")


def test_the_same_name_is_given_once(tmp_path: Path) -> None:
    adding = [
        subprocess.Popen(
            [*PROGRAM, "keys", "--store", str(tmp_path / "store.db"), "add", "alice"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        )
        for _ in range(3)
    ]
    said = [program.communicate(timeout=120) for program in adding]
    printed = [out.decode().strip() for out, _ in said if out]
    assert len(printed) == 1
    assert sum(b"already exists" in error for _, error in said) == 2
    assert KeyFile(tmp_path / "store.db-keys").name_of(printed[0]) == "alice"


def test_a_lock_that_is_never_released_is_named_and_nothing_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "keys"
    KeyFile(path).add("alice")
    before = path.read_bytes()
    holder = os.open(path, os.O_RDWR)
    assert key_module._is_locked(holder)
    monkeypatch.setattr(key_module, "_LOCK_SECONDS_MAX", 0.0)
    with pytest.raises(StoreBusyError, match="another process holds"):
        KeyFile(path).add("bob")
    os.close(holder)
    assert path.read_bytes() == before
    KeyFile(path).remove("alice")


def test_a_file_left_by_a_process_that_died_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.with_name("keys.new").write_text("half a f")
    secret = KeyFile(path).add("alice")
    assert KeyFile(path).name_of(secret) == "alice"
    assert [one.name for one in tmp_path.iterdir()] == ["keys"]


def test_a_change_that_leaves_the_same_time_size_and_inode_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    old = KeyFile(path).add("alice")
    reader = KeyFile(path)
    assert reader.name_of(old) == "alice"
    found, other = path.stat(), path.read_text()
    (key,) = reader.all()
    path.write_text(other.replace(key.secrets[0].sha256, "0" * 64))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    reader._checked_at = float("-inf")  # a second later
    assert reader.name_of(old) is None
