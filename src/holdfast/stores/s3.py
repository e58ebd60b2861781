"""Archive in a bucket of S3 or a compatible server.

Credentials and endpoint come from the usual environment variables (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
AWS_REGION, AWS_ENDPOINT_URL); this module neither stores nor logs them. The blocking functions of obstore run in
threads, because its coroutines were seen to abort the process at exit.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from holdfast.errors import BadInputError, HoldfastError, SegmentMissingError, StoreIoError, StorePathError
from holdfast.stores.archives import check_name

SCHEME = "s3://"
# Sealing is retried in the next idle moment; a read has a user who waits.
_REQUEST_SECONDS = timedelta(seconds=30)
_RETRIES_MAX = 3
_RETRY_SECONDS = timedelta(seconds=60)
# Length of a server error in messages.
_REASON_CHARS = 160

ResultT = TypeVar("ResultT")


class S3Archive:
    """Segments in a bucket, all under one prefix. A prefix belongs to one store: only that store knows its seals."""

    def __init__(self, url: str) -> None:
        bucket, _, prefix = url.removeprefix(SCHEME).rstrip("/").partition("/")
        if not url.startswith(SCHEME) or not bucket:
            raise BadInputError(f"{url!r} has no bucket; write s3://BUCKET/PREFIX")
        self._url = f"{SCHEME}{bucket}/{prefix}"
        try:
            self._store = S3Store(
                bucket,
                prefix=prefix or None,
                client_options={
                    "timeout": _REQUEST_SECONDS,
                    "connect_timeout": _REQUEST_SECONDS / 3,
                    # Plain HTTP is used only if AWS_ENDPOINT_URL says http.
                    "allow_http": True,
                },
                retry_config={"max_retries": _RETRIES_MAX, "retry_timeout": _RETRY_SECONDS},
            )
        except (BaseError, ValueError) as error:
            raise StorePathError(f"the archive {self._url} cannot be used ({_reason(error)})") from error

    async def put(self, name: str, body: bytes) -> bool:
        """Store bytes unless the name exists; see `Archive.put`."""
        check_name(name)

        def put_if_absent() -> bool:
            try:
                obstore.put(self._store, name, body, mode="create")
            except AlreadyExistsError:
                return False
            except FileNotFoundError as error:
                raise StorePathError(f"the bucket of the archive {self._url} does not exist; create it") from error
            return True

        return await self._in_thread(put_if_absent, name)

    async def get(self, name: str) -> bytes:
        """Return the bytes."""
        check_name(name)
        return await self._in_thread(lambda: bytes(obstore.get(self._store, name).bytes()), name)

    async def read(self, name: str, *, start: int, length: int) -> bytes:
        """Return a range of the bytes."""
        check_name(name)

        def read_range() -> bytes:
            # The server rejects a range that begins after the end; the port returns nothing.
            first = max(start, 0)
            try:
                return bytes(obstore.get_range(self._store, name, start=first, length=max(length, 1)))[: max(length, 0)]
            except BaseError:
                if first >= obstore.head(self._store, name)["size"]:
                    return b""
                raise

        return await self._in_thread(read_range, name)

    async def names(self, prefix: str = "") -> list[str]:
        """Return the names with this prefix, in order."""
        # Prefixes of the server end at slashes.
        within = prefix.rpartition("/")[0] or None

        def list_all() -> list[str]:
            return [meta["path"] for page in obstore.list(self._store, within, chunk_size=1_000) for meta in page]

        return sorted(name for name in await self._in_thread(list_all, prefix) if name.startswith(prefix))

    async def remove(self, name: str) -> None:
        """Delete a segment."""
        check_name(name)

        def delete() -> None:
            try:
                obstore.delete(self._store, name)
            except FileNotFoundError:
                # Some servers report this.
                return

        await self._in_thread(delete, name)

    async def _in_thread(self, work: Callable[[], ResultT], name: str) -> ResultT:
        try:
            return await asyncio.to_thread(work)
        except FileNotFoundError as error:
            raise SegmentMissingError(name, f"is not in {self._url}") from error
        except BaseError as error:
            raise self._translate_error(error) from error

    def _translate_error(self, error: BaseError) -> HoldfastError:
        if isinstance(error, PermissionDeniedError | UnauthenticatedError):
            return StorePathError(
                f"the archive {self._url} denies access ({_reason(error)}); check AWS_ACCESS_KEY_ID, "
                "AWS_SECRET_ACCESS_KEY and the rights on the bucket"
            )
        return StoreIoError(f"the archive {self._url} cannot be read or written ({_reason(error)}); retry later")


def _reason(error: Exception) -> str:
    """Return the message of an error without the response body, which may quote the request and its credentials."""
    return str(error).partition("\n")[0].partition("<")[0].strip()[:_REASON_CHARS] or type(error).__name__
