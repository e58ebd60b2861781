"""Files of other agents: atomic replacement with a copy beside, and signs that an agent is using one."""

import contextlib
import os
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from holdfast.errors import RetryLaterError
from holdfast.stores.folder import sync_folder

BACKUP_MARK = ".holdfast-bak-"
# An agent that is at work writes more often than this.
QUIET_SECONDS = 2.0


def backup_path(path: Path) -> Path:
    """Return a new name beside the file for its copy."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    return path.with_name(f"{path.name}{BACKUP_MARK}{stamp}")


def replace_file(path: Path, content: bytes, *, keeps_backup: bool = False) -> Path | None:
    """Replace a file atomically, with its mode and owner, and return the path of the copy, if one was asked for."""
    backup: Path | None = None
    if keeps_backup:
        backup = backup_path(path)
        _write_synced(backup, path.read_bytes(), like=path)
    _write_synced(path, content, like=path if path.exists() else None)
    return backup


def _write_synced(path: Path, content: bytes, *, like: Path | None) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:60]}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if like is not None:
                found = like.stat()
                os.fchmod(file.fileno(), found.st_mode & 0o7777)
                with contextlib.suppress(PermissionError):
                    os.fchown(file.fileno(), found.st_uid, found.st_gid)
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def check_unused(paths: list[Path], commands: tuple[str, ...], cwd: str) -> None:
    """Raise `RetryLaterError` if an agent seems to use one of these files.

    Signs: a process has it open, a process of the agent runs in the session's folder, or it was written just now.
    """
    if user := _user_of(paths, commands, cwd):
        raise RetryLaterError(f"{user} is using this session; end it, then run the command again")
    now = time.time()
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            if now - path.stat().st_mtime < QUIET_SECONDS:
                raise RetryLaterError(f"{path} was written a moment ago; end its agent, then run the command again")


def _user_of(paths: list[Path], commands: tuple[str, ...], cwd: str) -> str:
    """Return the process that uses a file or runs the agent in the folder; "" if none, or without /proc."""
    wanted = {str(path.resolve()) for path in paths}
    ours = {os.getpid(), os.getppid()}
    for folder in Path("/proc").glob("[0-9]*"):
        if int(folder.name) in ours:
            continue
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            names = {Path(os.fsdecode(word)).name for word in words[:2]}
            if names & set(commands) and cwd and str((folder / "cwd").readlink()) == cwd:
                return f"process {folder.name} ({' '.join(sorted(names & set(commands)))})"
            open_files = {str(one.readlink()) for one in (folder / "fd").iterdir()}
        except OSError:
            # It has ended, or belongs to somebody else.
            continue
        if found := wanted & open_files:
            return f"process {folder.name}, which has {min(found)} open,"
    return ""
