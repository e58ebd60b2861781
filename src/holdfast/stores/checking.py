"""Whether a database gives back what was put there: a record that is damaged or missing is never passed over."""

from collections.abc import Iterable
from struct import pack
from typing import Any
from zlib import crc32

import msgspec

from holdfast.core.records import Logged, decode_record
from holdfast.errors import StoreDamagedError


def record_crc32(number: int, seq: int, at: float, body: bytes) -> int:
    """Return the checksum of a record in its place: a row that was altered or moved does not match it."""
    return crc32(body, crc32(pack("<qqd", number, seq, at)))


def checked_records(session: str, number: int, after: int, rows: Iterable[Any]) -> list[Logged]:
    """Return the records in rows of seq, time, checksum and body, which must follow `after` without a gap.

    Raises `StoreDamagedError` at the first that is altered or missing.
    """
    logged: list[Logged] = []
    expected = after
    for seq, at, checksum, body in rows:
        expected += 1
        if seq != expected:
            raise StoreDamagedError(session, expected, "its row is missing")
        if record_crc32(number, seq, at, body) != checksum:
            raise StoreDamagedError(session, seq, "its bytes do not match their checksum")
        try:
            logged.append(Logged(seq, at, decode_record(body)))
        except msgspec.DecodeError as error:
            raise StoreDamagedError(
                session, seq, f"its bytes are whole, but no record is known by them: {error}"
            ) from error
    return logged
