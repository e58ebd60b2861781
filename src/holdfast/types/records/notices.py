"""Records of what the person was told, and of what became of the log itself."""

from holdfast.types.records.base import Record


class DamageSetAside(Record, frozen=True):
    """What stood in this place cannot be read. Written when the log is healed; `kept` names the bytes in quarantine."""

    why: str
    kept: str = ""
    # The last record that was written by whoever still knew what stood here. 0: it is found and not set aside yet.
    until: int = 0
    # It was a message, or a request, that has no outcome.
    is_owed: bool = False


class WindowWarned(Record, frozen=True):
    """A sentence to the person: the window has filled up to this much."""

    turn: int
    percent: int
    sentence: str


class NoticePosted(Record, frozen=True):
    """A sentence to the person. The model does not see it."""

    turn: int
    code: str
    sentence: str


class SegmentSealed(Record, frozen=True):
    """Records well behind the boundary moved into the archive, as this segment. Nothing that the model sees changed."""

    first: int
    last: int
    # Its name in the archive, the SHA-256 of its bytes, and how many there are.
    name: str
    sha256: str
    size: int
