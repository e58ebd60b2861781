"""Whether rows of a SQLite store are what was written: a record is read, or a mark stands in its place.

A row that does not match its checksum may have a wrong number as well, so its number is believed only where it stands
right behind the row before it. Nobody can be led to the end of the world by one flipped bit.
"""

from collections.abc import Iterable, Iterator
from struct import error as StructError  # noqa: N812 - a class, whatever its module calls it
from typing import Any

import apsw
import msgspec

from holdfast.core.reconcile import BadRow, Run
from holdfast.core.records import DamageSetAside, InputAdmitted, Logged, decode_record
from holdfast.errors import StoreDamagedError
from holdfast.ports import Examined
from holdfast.stores.rows import record_crc32
from holdfast.stores.sqlite.sealing import sealed_until

# So many missing records are each shown by a mark. A log with a longer gap was not damaged but cut: no bit does that.
GAP_MAX = 10_000
ALTERED = "its bytes do not match their checksum"
MISSING = "its row is missing"
LOWEST_SEQ = -(2**63)

# How the bytes of a message begin: a hint, no more, at what a damaged record was.
_INPUT_HEAD = f'{{"type":"{InputAdmitted.__name__}"'.encode()

_SELECT_ROWS = """
    SELECT seq, at, crc32, body FROM records WHERE session = ?1 AND seq > ?2
    UNION ALL
    SELECT seq, at, crc32, body FROM recent WHERE session = ?1 AND seq > ?2
    ORDER BY seq LIMIT ?3
"""
_SELECT_FROM_THE_END = """
    SELECT seq, at, crc32, body FROM records WHERE session = ?1
    UNION ALL
    SELECT seq, at, crc32, body FROM recent WHERE session = ?1
    ORDER BY seq DESC
"""


def is_whole(number: int, row: tuple[Any, ...]) -> bool:
    """Whether a row (seq, at, crc32, body) matches its checksum."""
    seq, at, checksum, body = row
    try:
        return bool(record_crc32(number, seq, at, body) == checksum)
    except (TypeError, StructError):
        # A damaged file may hold something of another type.
        return False


def read_marked(session: str, number: int, rows: Iterable[tuple[Any, ...]], after: int) -> Iterator[Logged]:
    """Yield records in order of seq, with a mark for each that is damaged or missing.

    Raises `StoreDamagedError` at one that is whole and that this code does not know.
    """
    expected = after
    pending: Logged | None = None
    for row in rows:
        seq = row[0]
        if not is_whole(number, row):
            if (fits_at(number, row) or seq) == expected + 1:
                if pending is not None:
                    yield pending
                expected += 1
                pending = _mark(expected, row[1], ALTERED)
            continue
        if seq < expected or (seq == expected and pending is None):
            # A second row for what was read already.
            continue
        if pending is not None and seq != expected:
            yield pending
        pending = None
        if seq - expected > GAP_MAX:
            raise StoreDamagedError(session, expected + 1, f"{seq - expected - 1:,} records are missing at once")
        for lost in range(expected + 1, seq):
            yield _mark(lost, row[1], MISSING)
        expected = seq
        yield _decoded(session, row)
    if pending is not None:
        yield pending


def _mark(seq: int, at: object, why: str) -> Logged:
    return Logged(seq, at if isinstance(at, float) else 0.0, DamageSetAside(why))


def _decoded(session: str, row: tuple[Any, ...]) -> Logged:
    seq, at, _, body = row
    try:
        return Logged(seq, at, decode_record(body))
    except msgspec.DecodeError as error:
        raise StoreDamagedError(
            session, seq, f"its bytes are whole, but no record is known by them: {error}"
        ) from error


def credible_end(db: apsw.Connection, number: int) -> int:
    """Return how far a log goes, where its last row says something odd: up to the last that checks out.

    Rows right behind that one are records too, though damaged; others have numbers that nobody can believe.
    """
    behind: list[int] = []
    end = sealed_until(db, number)
    cursor = db.execute(_SELECT_FROM_THE_END, (number,))
    for row in cursor:
        if is_whole(number, row):
            end = row[0]
            break
        behind.append(fits_at(number, row) or row[0])
    cursor.close()
    for place in reversed(behind):
        end += place == end + 1
    return end


def examine(db: apsw.Connection, session: str, after: int | None, limit: int) -> Examined:
    """Look at rows one by one; see `Store.examine`."""
    number = db.execute("SELECT number FROM sessions WHERE key = ?", (session,)).get
    whole: list[Run] = []
    bad: list[BadRow] = []
    last: int | None = None
    count = 0
    start = LOWEST_SEQ if after is None else after
    rows: list[tuple[Any, ...]] = []
    if number is not None:
        rows = db.execute(_SELECT_ROWS, (number, start, max(limit, 1))).fetchall()
    for row in rows:
        seq = last = row[0]
        count += 1
        if not is_whole(number, row):
            bad.append(_bad(number, row))
        elif whole and seq <= whole[-1].last + 1:
            whole[-1] = Run(whole[-1].first, max(seq, whole[-1].last))
        else:
            whole.append(Run(seq, seq))
    return Examined(tuple(whole), tuple(bad), last if count == max(limit, 1) else None)


def _bad(number: int, row: tuple[Any, ...]) -> BadRow:
    seq, _, _, body = row
    head = bytes(body[: len(_INPUT_HEAD)]) if isinstance(body, bytes) else b""
    same = sum(here == there for here, there in zip(head, _INPUT_HEAD, strict=False))
    # A flipped bit or two leave most of the name as it was.
    return BadRow(seq, ALTERED, fits_at(number, row), same >= len(_INPUT_HEAD) - 2)


def fits_at(number: int, row: tuple[Any, ...]) -> int:
    """Return where a row belongs of whose number one bit was flipped: the checksum tells. 0: that is not what it is."""
    seq, at, checksum, body = row
    candidates = (seq ^ (1 << bit) for bit in range(63))
    return max(next((other for other in candidates if is_whole(number, (other, at, checksum, body))), 0), 0)
