"""Attachments that were uploaded and wait to be sent.

An upload is a file of the gateway's own, known to its tenant by a random id; nothing of it is stored with the sessions
before a message names it. It is gone when it is too old or the gateway ends: whoever was slower uploads again.
"""

import asyncio
import re
import secrets
import tempfile
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from holdfast.core.media import safe_name
from holdfast.errors import BadInputError
from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.problems import NotFoundError, TooManyError
from holdfast.ports import Clock


@dataclass(frozen=True)
class Upload:
    """A file that waits to be sent."""

    tenant: str
    path: Path
    size_bytes: int
    expires_at: float


class Uploads:
    """All that wait, in one folder that is gone when this is closed."""

    def __init__(self, bounds: GatewayBounds, clock: Clock) -> None:
        self._bounds, self._clock = bounds, clock
        self._stack = ExitStack()
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-uploads-"))
        self._folder = Path(folder)
        self._waiting: dict[str, Upload] = {}
        # Bytes on their way in, by tenant: they count before they are whole.
        self._incoming: dict[str, int] = {}

    def close(self) -> None:
        """Remove everything."""
        self._waiting.clear()
        self._stack.close()

    async def keep(self, tenant: str, name: str, chunks: AsyncIterator[bytes]) -> tuple[str, Upload]:
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
                    self._count(tenant, len(chunk))
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
        self._waiting[upload_id] = upload
        return upload_id, upload

    def waiting_bytes(self, tenant: str) -> int:
        """Return what the uploads of a tenant that wait come to."""
        return sum(upload.size_bytes for upload in self._waiting.values() if upload.tenant == tenant)

    def _count(self, tenant: str, size_bytes: int) -> None:
        kept = self.waiting_bytes(tenant)
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
        upload = self._waiting.get(upload_id)
        if upload is None or upload.tenant != tenant:
            raise NotFoundError("there is no such upload, or it is gone; upload the attachment again")
        return upload.path

    def drop(self, upload_id: str) -> None:
        """Forget an upload that has served its purpose."""
        _remove(self._waiting.pop(upload_id).path)

    def without_place(self, sentence: str) -> str:
        """Return what is told of an upload without the folder that it lies in: that is nobody's business."""
        return re.sub(re.escape(str(self._folder)) + "/[^/]+/", "", sentence)

    def _sweep(self) -> None:
        now = self._clock.now()
        for upload_id in [one for one, upload in self._waiting.items() if upload.expires_at <= now]:
            _remove(self._waiting.pop(upload_id).path)


def _check_not_empty(size_bytes: int) -> None:
    if not size_bytes:
        raise BadInputError("the upload is empty; send its bytes as the body")


def _file_name(name: str) -> str:
    shown = safe_name(name)
    # File systems take 255 bytes; four are the most that a character has.
    return "attachment" if shown in {"", ".", ".."} else shown[-60:]


def _create(path: Path) -> BinaryIO:
    path.parent.mkdir(mode=0o700)
    return path.open("xb")


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    if path.parent.exists():
        path.parent.rmdir()
