"""What lies on the disk, for tests that look at it."""

from pathlib import Path


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder, in order."""
    return sorted(path.name for path in folder.iterdir())
