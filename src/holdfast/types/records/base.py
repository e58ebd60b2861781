"""Base class of records; records of notices to the user, and of damage and sealing of the log itself."""

import msgspec


class Record(msgspec.Struct, frozen=True, tag=True, tag_field="type", omit_defaults=True):
    """One immutable fact in the log."""


class DamageSetAside(Record, frozen=True):
    """Mark for an unreadable record. Written when the log is repaired; `kept` names the quarantined bytes."""

    why: str
    kept: str = ""
    # The last record written before the damage was found. 0: found, but not repaired yet.
    until: int = 0
    # The damaged record was a message or a request that has no outcome.
    is_owed: bool = False


class WindowWarned(Record, frozen=True):
    """Notice to the user: the window has reached this fill level."""

    turn: int
    percent: int
    sentence: str


class NoticePosted(Record, frozen=True):
    """Notice to the user. It is not in the model's view."""

    turn: int
    code: str
    sentence: str


class SegmentSealed(Record, frozen=True):
    """Records well before the boundary moved to the archive, as this segment. The view did not change."""

    first: int
    last: int
    # Name in the archive, SHA-256 and size in bytes.
    name: str
    sha256: str
    size: int
