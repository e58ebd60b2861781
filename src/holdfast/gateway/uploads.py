"""Attachments that were uploaded and wait to be sent.

An upload is a file of the gateway's own, known to its tenant by a random id; nothing of it is stored with the sessions
before a message names it. It is gone when it is too old. With a folder of its own it outlives the gateway: beside each
file lies a note of whose it is and until when it waits, written last, so one without a note was never whole.
"""

import asyncio
import re
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from holdfast.core.text.media_type import safe_name
from holdfast.errors import BadInputError
from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.http.problems import NotFoundError, TooManyError
from holdfast.ports import Clock


@dataclass(frozen=True)
class Upload:
    """A file that waits to be sent."""

    tenant: str
    path: Path
    size_bytes: int
    expires_at: float


class _Metadata(msgspec.Struct, frozen=True):
    tenant: str
    name: str
    size_bytes: int
    expires_at: float


_METADATA_FILE = "note.json"
_metadata_decoder = msgspec.json.Decoder(_Metadata)


class Uploads:
    """All that wait, in a folder that is kept; without one, in one that is gone when this is closed."""

    def __init__(self, bounds: GatewayBounds, clock: Clock, folder: Path | None = None) -> None:
        self._bounds, self._clock = bounds, clock
        self._stack = ExitStack()
        if folder is None:
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-uploads-")))
        else:
            # What people attach is private.
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._pending: dict[str, Upload] = dict(self._load())
        # Bytes on their way in, by tenant: they count before they are whole.
        self._incoming: dict[str, int] = {}

    def close(self) -> None:
        """Let go. What lies in a folder that is kept stays for the next start."""
        self._pending.clear()
        self._stack.close()
        with suppress(OSError):
            # Not empty, or gone already.
            self._folder.rmdir()

    def _load(self) -> Iterator[tuple[str, Upload]]:
        """Yield what a gateway before this one left, and remove what it had not received whole, or is too old."""
        now = self._clock.now()
        for place in self._folder.iterdir():
            try:
                note = _metadata_decoder.decode((place / _METADATA_FILE).read_bytes())
                path = place / note.name
                is_whole = path.stat().st_size == note.size_bytes
            except (OSError, msgspec.MsgspecError):
                # Without a note it may be on its way in, to another gateway on the same store.
                if now - place.stat().st_mtime > self._bounds.upload_seconds_max:
                    shutil.rmtree(place, ignore_errors=True)
                continue
            if is_whole and now < note.expires_at:
                yield place.name, Upload(note.tenant, path, note.size_bytes, note.expires_at)
            else:
                shutil.rmtree(place, ignore_errors=True)

    async def save(self, tenant: str, name: str, chunks: AsyncIterator[bytes]) -> tuple[str, Upload]:
        """Write an upload to its file and return its id. One that is not whole leaves nothing."""
        self._sweep()
        upload_id = secrets.token_urlsafe(16)
        # A folder of its own, so that the file can have the name by which the model will know it.
        path = self._folder / upload_id / _file_name(name)
        size_bytes = 0
        try:
            file = await asyncio.to_thread(_create, path)
            try:
                async for chunk in chunks:
                    self._reserve(tenant, len(chunk))
                    size_bytes += len(chunk)
                    await asyncio.to_thread(file.write, chunk)
            finally:
                await asyncio.to_thread(file.close)
            _check_not_empty(size_bytes)
        except BaseException:
            _remove(path)
            raise
        finally:
            self._incoming[tenant] = self._incoming.get(tenant, 0) - size_bytes
        upload = Upload(tenant, path, size_bytes, self._clock.now() + self._bounds.upload_seconds_max)
        await asyncio.to_thread(_write_metadata, upload)
        self._pending[upload_id] = upload
        return upload_id, upload

    def pending_bytes(self, tenant: str) -> int:
        """Return what the uploads of a tenant that wait come to."""
        return sum(upload.size_bytes for upload in self._pending.values() if upload.tenant == tenant)

    def _reserve(self, tenant: str, size_bytes: int) -> None:
        kept = self.pending_bytes(tenant)
        incoming = self._incoming.get(tenant, 0) + size_bytes
        if kept + incoming > self._bounds.uploads_bytes_max:
            raise TooManyError(
                f"uploads of this key that wait to be sent have {kept + incoming:,} bytes, at most "
                f"{self._bounds.uploads_bytes_max:,} may; send some of them first"
            )
        self._incoming[tenant] = incoming

    def path_of(self, tenant: str, upload_id: str) -> Path:
        """Return the file of an upload. Raises `NotFoundError` where it is gone, or somebody else's."""
        self._sweep()
        upload = self._pending.get(upload_id)
        if upload is None or upload.tenant != tenant:
            raise NotFoundError("there is no such upload, or it is gone; upload the attachment again")
        return upload.path

    def drop(self, upload_id: str) -> None:
        """Forget an upload that has served its purpose."""
        _remove(self._pending.pop(upload_id).path)

    def strip_path(self, sentence: str) -> str:
        """Return what is told of an upload without the folder that it lies in: that is nobody's business."""
        return re.sub(re.escape(str(self._folder)) + "/[^/]+/", "", sentence)

    def _sweep(self) -> None:
        now = self._clock.now()
        for upload_id in [one for one, upload in self._pending.items() if upload.expires_at <= now]:
            _remove(self._pending.pop(upload_id).path)


def _check_not_empty(size_bytes: int) -> None:
    if not size_bytes:
        raise BadInputError("the upload is empty; send its bytes as the body")


def _file_name(name: str) -> str:
    shown = safe_name(name)
    # File systems take 255 bytes; four are the most that a character has.
    return "attachment" if shown in {"", ".", "..", _METADATA_FILE, f"{_METADATA_FILE}.new"} else shown[-60:]


def _create(path: Path) -> BinaryIO:
    # Another gateway on the same store may have removed the folder around it when it ended.
    path.parent.mkdir(mode=0o700, parents=True)
    return path.open("xb")


def _write_metadata(upload: Upload) -> None:
    """Say beside an upload whose it is. Nothing is promised for a loss of power: then it is uploaded again."""
    beside = upload.path.parent / f"{_METADATA_FILE}.new"
    note = _Metadata(upload.tenant, upload.path.name, upload.size_bytes, upload.expires_at)
    beside.write_bytes(msgspec.json.encode(note))
    beside.rename(upload.path.parent / _METADATA_FILE)


def _remove(path: Path) -> None:
    shutil.rmtree(path.parent, ignore_errors=True)
