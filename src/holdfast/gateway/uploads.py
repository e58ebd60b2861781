"""Pending uploads: attachments that a later message names.

An upload is a temporary file that its tenant names by a random id. Sessions store nothing of it until a message names
it, and it expires. In a persistent folder uploads survive a restart: a metadata file beside each upload holds its
tenant and expiry. It is written last, so an upload without metadata is incomplete.
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
    """A file that no message has named yet."""

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
    """All pending uploads, in a persistent folder or in a temporary one that `close` removes."""

    def __init__(self, bounds: GatewayBounds, clock: Clock, folder: Path | None = None) -> None:
        self.bounds, self._clock = bounds, clock
        self._stack = ExitStack()
        if folder is None:
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-uploads-")))
        else:
            # Attachments are private.
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._pending: dict[str, Upload] = dict(self._load())
        # Bytes received so far of uploads in progress, by tenant.
        self._incoming: dict[str, int] = {}

    def close(self) -> None:
        """Release the folder. Uploads in a persistent folder stay for the next start."""
        self._pending.clear()
        self._stack.close()
        with suppress(OSError):
            # Not empty, or already removed.
            self._folder.rmdir()

    def _load(self) -> Iterator[tuple[str, Upload]]:
        """Yield the uploads of an earlier process, and remove those that are incomplete or expired."""
        now = self._clock.now()
        for folder in self._folder.iterdir():
            try:
                metadata = _metadata_decoder.decode((folder / _METADATA_FILE).read_bytes())
                path = folder / metadata.name
                is_complete = path.stat().st_size == metadata.size_bytes
            except (OSError, msgspec.MsgspecError):
                # Without metadata, another gateway on the same store may be receiving it.
                if now - folder.stat().st_mtime > self.bounds.upload_seconds_max:
                    shutil.rmtree(folder, ignore_errors=True)
                continue
            if is_complete and now < metadata.expires_at:
                yield folder.name, Upload(metadata.tenant, path, metadata.size_bytes, metadata.expires_at)
            else:
                shutil.rmtree(folder, ignore_errors=True)

    async def save(self, tenant: str, name: str, chunks: AsyncIterator[bytes]) -> tuple[str, Upload]:
        """Write an upload to its file and return its id. An incomplete upload is removed."""
        self._sweep()
        upload_id = secrets.token_urlsafe(16)
        # One folder per upload, so that the file can have the name that the model will see.
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
        upload = Upload(tenant, path, size_bytes, self._clock.now() + self.bounds.upload_seconds_max)
        await asyncio.to_thread(_write_metadata, upload)
        self._pending[upload_id] = upload
        return upload_id, upload

    def pending_bytes(self, tenant: str) -> int:
        """Return the total size of a tenant's pending uploads."""
        return sum(upload.size_bytes for upload in self._pending.values() if upload.tenant == tenant)

    def _reserve(self, tenant: str, size_bytes: int) -> None:
        pending = self.pending_bytes(tenant)
        incoming = self._incoming.get(tenant, 0) + size_bytes
        if pending + incoming > self.bounds.uploads_bytes_max:
            raise TooManyError(
                f"pending uploads of this key have {pending + incoming:,} bytes, the limit is "
                f"{self.bounds.uploads_bytes_max:,}; send some of them first"
            )
        self._incoming[tenant] = incoming

    def path_of(self, tenant: str, upload_id: str) -> Path:
        """Return the file of an upload. Raises `NotFoundError` if it expired or belongs to another tenant."""
        self._sweep()
        upload = self._pending.get(upload_id)
        if upload is None or upload.tenant != tenant:
            raise NotFoundError("upload not found or expired; upload the attachment again")
        return upload.path

    def drop(self, upload_id: str) -> None:
        """Remove an upload."""
        _remove(self._pending.pop(upload_id).path)

    def strip_path(self, sentence: str) -> str:
        """Remove the folder of an upload from an error message: clients must not see paths of the server."""
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
    # File systems allow 255 bytes; a character has up to four.
    return "attachment" if shown in {"", ".", "..", _METADATA_FILE, f"{_METADATA_FILE}.new"} else shown[-60:]


def _create(path: Path) -> BinaryIO:
    # Another gateway on the same store may have removed the parent folder when it stopped.
    path.parent.mkdir(mode=0o700, parents=True)
    return path.open("xb")


def _write_metadata(upload: Upload) -> None:
    """Write the metadata of an upload. It is not synced: after a power loss the client uploads again."""
    temporary = upload.path.parent / f"{_METADATA_FILE}.new"
    metadata = _Metadata(upload.tenant, upload.path.name, upload.size_bytes, upload.expires_at)
    temporary.write_bytes(msgspec.json.encode(metadata))
    temporary.rename(upload.path.parent / _METADATA_FILE)


def _remove(path: Path) -> None:
    shutil.rmtree(path.parent, ignore_errors=True)
