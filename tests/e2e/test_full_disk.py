"""A real disk that is really full, small enough to be filled in a moment: turns end, nothing is lost, work goes on."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

# Space for the ends of turns, as much again, and some messages.
DISK = "16m"
MOUNT = 'mount -t tmpfs -o size="$1" holdfast-test "$2"'
SECONDS_MAX = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that a small disk can be mounted on, seen by nobody else."""
    command = ["unshare", "-rm", "sh", "-c", MOUNT, "sh", DISK, str(tmp_path)]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=SECONDS_MAX)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system of our own can be mounted here (`unshare -rm` and tmpfs): {error}")
    return tmp_path


def happened(folder: Path, what: str) -> dict[str, object]:
    run = f'{MOUNT} && exec "$3" -m tests.e2e.full_disk "$4" "$2"'
    command = ["unshare", "-rm", "sh", "-c", run, "sh", DISK, str(folder), sys.executable, what]
    ended = subprocess.run(command, check=False, capture_output=True, timeout=SECONDS_MAX)
    assert ended.returncode == 0, ended.stderr.decode()
    found: dict[str, object] = json.loads(ended.stdout)
    return found


def test_a_disk_that_fills_up_ends_the_turn_refuses_the_next_and_works_when_there_is_room(folder: Path) -> None:
    """FM-124."""
    assert happened(folder, "fills up") == {
        "before": "aye",
        "filling": "ended: store_full",
        "given up": True,
        "while full": ["refused: store_full"] * 2,
        "attached while full": "refused: store_full",
        "others while full": "refused: store_full",
        "with room": "aye",
        "made again": True,
        "full again": "refused: store_full",
        "outcomes": ["", "store_full", ""],
    }


def test_a_process_that_died_on_a_full_disk_is_followed_by_one_that_ends_its_turn(folder: Path) -> None:
    """FM-124."""
    assert happened(folder, "dies") == {
        "owed": "ended: store_full",
        "while full": "refused: store_full",
        "with room": "aye",
        "outcomes": ["store_full", ""],
    }
