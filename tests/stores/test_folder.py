"""Temporary files of writers that died are swept, those of living writers never."""

import fcntl
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from holdfast.stores.folder import Incoming, sweep


def test_what_a_dead_writer_left_is_swept_and_what_is_being_written_stays(tmp_path: Path) -> None:
    (tmp_path / "left").write_bytes(b"half")
    incoming = Incoming(tmp_path)
    incoming.write(b"whole")

    sweep(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == [incoming.path.name]
    incoming.close()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_took_the_name_of_a_swept_one_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "contested"
    path.write_bytes(b"before its writer locked it")
    lock: Callable[[IO[bytes], int], None] = fcntl.flock

    def meanwhile(file: IO[bytes], operation: int) -> None:
        """Another sweep was quicker, and the writer has begun anew under the same name."""
        path.unlink()
        path.write_bytes(b"begun anew")
        lock(file, operation)

    monkeypatch.setattr("holdfast.stores.flock.fcntl.flock", meanwhile)
    sweep(tmp_path)

    assert path.read_bytes() == b"begun anew"
    assert list(tmp_path.iterdir()) == [path]
