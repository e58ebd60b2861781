"""What the measurements of stores append, and who does."""

from statistics import median

from holdfast.cli.benches.measured import Measured
from holdfast.core.messages import Reply, StopReason, Text
from holdfast.core.records import ReplyRecorded
from holdfast.ports import Lease, Store

SESSIONS_TOGETHER = 64

# A message of an ordinary length.
RECORD = ReplyRecorded(
    turn=1, attempt=1, reply=Reply((Text("All work and no play. " * 15),), StopReason.END, usage=None, model="bench")
)
_LEASE_SECONDS = 3_600.0


class Appender:
    """One session that appends a record at a time."""

    def __init__(self, store: Store, lease: Lease) -> None:
        self._store, self._lease, self._seq = store, lease, 0

    @classmethod
    async def of(cls, store: Store, session: str) -> "Appender":
        """Take the session's lease."""
        lease = await store.acquire(session, "bench", seconds=_LEASE_SECONDS)
        assert lease is not None, "the store is new"
        return cls(store, lease)

    async def append(self, times: int) -> None:
        """Append so many records, each acknowledged before the next."""
        for _ in range(times):
            self._seq = await self._store.append(self._lease, [RECORD], after=self._seq)


def compared(name: str, rates: list[float], references: list[float], floor: float) -> Measured:
    """Appends per second against a reference that ran in turns with them; the ratio is the median over the turns."""
    ratio = median(rate / reference for rate, reference in zip(rates, references, strict=True))
    return Measured(name, median(rates), median(references), ratio, floor, "appends/s")
