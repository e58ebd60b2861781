"""Records of a gateway key's account: its usage by model. Kept in a log per key; anyone may append them."""

from holdfast.types.accounts import UsageRow, UsageTotals
from holdfast.types.records.base import Record


class UsageRecorded(Record, frozen=True):
    """Usage of a key since its last record, for one model. It belongs to the day on which it is recorded."""

    model: str
    totals: UsageTotals


class UsageTotalled(Record, frozen=True):
    """Totals of all records up to `until`, so that a reader needs only the end of the log. It may be repeated."""

    until: int
    rows: tuple[UsageRow, ...]
