"""Where files live in memory: opening thousands of stores need not wear out a real disk."""

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of random name is made in it


@contextmanager
def scratch(purpose: str) -> Generator[Path, None, None]:
    """Make a folder, in memory where that is possible, and remove it in the end."""
    folder = Path(tempfile.mkdtemp(prefix=f"holdfast-{purpose}-", dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
