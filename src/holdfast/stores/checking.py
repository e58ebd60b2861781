"""Whether rows of a database are what was written: a record is read, or a mark stands in its place.

A row that does not match its checksum may have a wrong number as well, so its number is believed only where it stands
right behind the row before it. Nobody can be led to the end of the world by one flipped bit. A row here is seq, time,
checksum and body.
"""

from collections.abc import Iterable, Iterator, Sequence
from struct import error as StructError  # noqa: N812 - a class, whatever its module calls it
from typing import Any

import msgspec

from holdfast.core.reconcile import BadRow, Run
from holdfast.core.records import DamageSetAside, InputAdmitted, Logged, decode_record
from holdfast.core.segments import Kept
from holdfast.errors import StoreDamagedError
from holdfast.ports import Examined
from holdfast.stores.rows import record_crc32

# So many missing records are each shown by a mark. A log with a longer gap was not damaged but cut: no bit does that.
GAP_MAX = 10_000
ALTERED = "its bytes do not match their checksum"
MISSING = "its row is missing"
LOWEST_SEQ = -(2**63)

# How the bytes of a message begin: a hint, no more, at what a damaged record was.
_INPUT_HEAD = f'{{"type":"{InputAdmitted.__name__}"'.encode()


def is_whole(number: int, row: Sequence[Any]) -> bool:
    """Whether a row matches its checksum."""
    seq, at, checksum, body = row
    try:
        return bool(record_crc32(number, seq, at, body) == checksum)
    except (TypeError, StructError):
        # A damaged file may hold something of another type.
        return False


def read_marked(
    session: str, number: int, rows: Iterable[Sequence[Any]], after: int, *, until: int = 0
) -> Iterator[Logged]:
    """Yield records in order of seq, with a mark for each that is damaged or missing.

    `until` is how far the log goes, where that is known otherwise and the rows are its last. Raises `StoreDamagedError`
    at a row that is whole and that this code does not know, and where more is missing than damage explains.
    """
    expected, at = after, 0.0
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
        yield from _marks(session, expected, seq, row[1])
        expected, at = seq, row[1]
        yield _decoded(session, row)
    if pending is not None:
        yield pending
    yield from _marks(session, expected, until + 1, at)


def _marks(session: str, last: int, next_seq: int, at: float) -> Iterator[Logged]:
    """Yield a mark for each record between two others."""
    if next_seq - last > GAP_MAX:
        raise StoreDamagedError(session, last + 1, f"{next_seq - last - 1:,} records are missing at once")
    for lost in range(last + 1, next_seq):
        yield _mark(lost, at, MISSING)


def _mark(seq: int, at: object, why: str) -> Logged:
    return Logged(seq, at if isinstance(at, float) else 0.0, DamageSetAside(why))


def _decoded(session: str, row: Sequence[Any]) -> Logged:
    seq, at, _, body = row
    try:
        return Logged(seq, at, decode_record(body))
    except msgspec.DecodeError as error:
        raise StoreDamagedError(
            session, seq, f"its bytes are whole, but no record is known by them: {error}"
        ) from error


def kept_rows(session: str, number: int, rows: Sequence[Sequence[Any]], after: int) -> list[Kept]:
    """Return rows as they are kept, which must follow `after` without a gap.

    Raises `StoreDamagedError` at one that is altered or missing: what is not clean is not to be sealed.
    """
    for expected, row in enumerate(rows, start=after + 1):
        if row[0] != expected:
            raise StoreDamagedError(session, expected, MISSING)
        if not is_whole(number, row):
            raise StoreDamagedError(session, row[0], ALTERED)
    return [Kept(*row) for row in rows]


def examined(number: int, rows: Sequence[Sequence[Any]], limit: int) -> Examined:
    """Look at rows one by one, of which `limit` were asked for; see `Store.examine`.

    Where more came, they say the same number as the last.
    """
    whole: list[Run] = []
    bad: list[BadRow] = []
    for row in rows:
        seq = row[0]
        if not is_whole(number, row):
            bad.append(_bad(number, row))
        elif whole and seq <= whole[-1].last + 1:
            whole[-1] = Run(whole[-1].first, max(seq, whole[-1].last))
        else:
            whole.append(Run(seq, seq))
    return Examined(tuple(whole), tuple(bad), rows[-1][0] if len(rows) >= limit else None)


def _bad(number: int, row: Sequence[Any]) -> BadRow:
    seq, _, _, body = row
    head = bytes(body[: len(_INPUT_HEAD)]) if isinstance(body, bytes) else b""
    same = sum(here == there for here, there in zip(head, _INPUT_HEAD, strict=False))
    # A flipped bit or two leave most of the name as it was.
    return BadRow(seq, ALTERED, fits_at(number, row), same >= len(_INPUT_HEAD) - 2)


def fits_at(number: int, row: Sequence[Any]) -> int:
    """Return where a row belongs of whose number one bit was flipped: the checksum tells. 0: that is not what it is."""
    seq, at, checksum, body = row
    candidates = (seq ^ (1 << bit) for bit in range(63))
    return max(next((other for other in candidates if is_whole(number, (other, at, checksum, body))), 0), 0)


class LogEnd:
    """How far a log goes, where its rows say something odd: up to the last that checks out.

    Records that are damaged and belong right behind that one count too, wherever their row says it stands: one flipped
    bit may have sent the newest of all among the others. Other numbers are not to be believed. All rows are shown to
    it, in any order.
    """

    def __init__(self, number: int, sealed_until: int) -> None:
        self._number, self._end = number, sealed_until
        self._places: set[int] = set()

    def add(self, row: Sequence[Any]) -> None:
        """Look at one more row."""
        if is_whole(self._number, row):
            self._end = max(self._end, row[0])
        else:
            self._places.add(fits_at(self._number, row) or row[0])

    @property
    def seq(self) -> int:
        """The last record."""
        end = self._end
        while end + 1 in self._places:
            end += 1
        return end
