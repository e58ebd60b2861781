"""Everything that Holdfast raises, split by who must act.

HoldfastError
├── UsageError              the caller: what was asked for cannot be done as asked
│   ├── BadInputError         a message, key or attachment that cannot be taken
│   │   └── UnsupportedError    the store does not implement an optional port
│   ├── ClientIdReusedError   one client id for two different messages
│   ├── UnknownModelError     no such model
│   └── MissingKeyError       a model needs an API key that is not set
├── RetryLaterError         nobody yet: the same call may succeed later
│   ├── QueueFullError        too many inputs wait in this session
│   ├── StoreBusyError        another process holds the store
│   ├── StoreUnreachableError  the database server does not answer
│   ├── OutcomeUnknownError   the server was lost before it could say whether a write happened
│   └── StoppingError         this process is shutting down
├── OperatorError           the operator: disk, permissions, versions, damage
│   ├── StorePathError        the store cannot be opened at this path
│   ├── StoreAccessError      the database server does not let us in, or not do what is needed
│   ├── StoreReadOnlyError    the store may be read and not written
│   ├── StoreVersionError     the store was written by a newer version
│   ├── StoreFullError        no space left
│   ├── StoreIoError          the disk or the database file fails
│   ├── StoreDamagedError     a record cannot be read
│   ├── BlobMissingError      a blob that a record names is gone or altered
│   ├── SegmentMissingError   a segment of the archive is gone or altered
│   ├── RecordsSealedError    records are in the archive, and none is open
│   └── InternalError         a bug of ours stopped the work on a session
├── ConflictError           the worker: someone else wrote first; it catches up or gives way
│   ├── SeqMovedError         records were appended since the writer last looked
│   └── LeaseLostError        another worker owns the session now
└── TurnFailedError         the sender: a turn ended without an answer; the session goes on

A message is built from ids and says what to do. `code` is stable and is what programs match on.
"""

from typing import ClassVar


class HoldfastError(Exception):
    """The base of everything Holdfast raises."""

    code: ClassVar[str] = "holdfast"


class UsageError(HoldfastError):
    """The caller must change something."""

    code = "usage"


class BadInputError(UsageError):
    """A message, key or attachment that cannot be taken; nothing was stored."""

    code = "bad_input"


class UnsupportedError(BadInputError):
    """The store does not implement the optional port that a call needs; nothing was changed."""

    code = "unsupported"

    def __init__(self, action: str, port: str) -> None:
        self.port = port
        super().__init__(f"this store cannot {action}: it does not implement holdfast.ports.{port}; use another store")


class ClientIdReusedError(UsageError):
    """One client id was used for two different messages."""

    code = "client_id_reused"

    def __init__(self, session: str, client_id: str, seq: int) -> None:
        self.session, self.client_id, self.seq = session, client_id, seq
        super().__init__(
            f"session {session!r}: client id {client_id!r} already names another message (record {seq}); "
            "use a new client id for a new message"
        )


class UnknownModelError(UsageError):
    """No such model."""

    code = "unknown_model"


class MissingKeyError(UsageError):
    """A model needs an API key that is not set."""

    code = "missing_key"


class RetryLaterError(HoldfastError):
    """The same call may succeed later."""

    code = "retry_later"


class QueueFullError(RetryLaterError):
    """Too many inputs wait in this session."""

    code = "queue_full"

    def __init__(self, session: str, waiting: int) -> None:
        self.session, self.waiting = session, waiting
        super().__init__(
            f"session {session!r} has {waiting:,} inputs without an answer, which is the most it takes; "
            "wait for some to be answered or cancel them"
        )


class StoreBusyError(RetryLaterError):
    """Another process holds the store for longer than we wait."""

    code = "store_busy"


class StoreUnreachableError(RetryLaterError):
    """The database server does not answer; nothing was stored. Work goes on when it does."""

    code = "store_unreachable"


class OutcomeUnknownError(RetryLaterError):
    """The database server was lost in the middle of a write and did not come back in time to say what came of it.

    The one error after which something may have been stored. What is sent again under the same client id is one
    message.
    """

    code = "outcome_unknown"


class StoppingError(RetryLaterError):
    """This process is shutting down and takes no more input."""

    code = "stopping"


class OperatorError(HoldfastError):
    """Someone with access to the machine must act."""

    code = "operator"


class StorePathError(OperatorError):
    """The store cannot be opened at this path."""

    code = "store_path"


class StoreAccessError(OperatorError):
    """The database server does not let us in, or does not let us do what is needed."""

    code = "store_access"


class StoreReadOnlyError(OperatorError):
    """The store may be read and not written, as on a standby server."""

    code = "store_read_only"


class StoreVersionError(OperatorError):
    """The store was written by a newer version of Holdfast."""

    code = "store_version"


class StoreFullError(OperatorError):
    """No space is left where the store lives; nothing was acknowledged."""

    code = "store_full"


class StoreIoError(OperatorError):
    """The disk or the database file fails; nothing was acknowledged."""

    code = "store_io"


class StoreDamagedError(OperatorError):
    """A record cannot be read."""

    code = "store_damaged"

    def __init__(self, session: str, seq: int, why: str) -> None:
        self.session, self.seq = session, seq
        super().__init__(f"session {session!r}, record {seq} cannot be read ({why}); the original bytes are untouched")


class BlobMissingError(OperatorError):
    """A blob that a record names is gone or altered."""

    code = "blob_missing"

    def __init__(self, sha256: str, why: str) -> None:
        self.sha256 = sha256
        super().__init__(f"blob {sha256[:12]}… {why}; restore it from a backup of the blobs folder")


class SegmentMissingError(OperatorError):
    """A segment that a session's log names is not in the archive, or is not what was put there."""

    code = "segment_missing"

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        super().__init__(f"segment {name} {why}; restore it from a backup of the archive")


class RecordsSealedError(OperatorError):
    """Records were sealed, and whoever reads has the store without its archive."""

    code = "records_sealed"

    def __init__(self, session: str, until: int) -> None:
        self.session, self.until = session, until
        super().__init__(f"session {session!r}: the records up to {until} are in the archive; open the store with it")


class InternalError(OperatorError):
    """A bug of ours stopped the work on a session. What was accepted is kept and resumed by the next message."""

    code = "internal"

    def __init__(self, session: str, cause: Exception) -> None:
        self.session = session
        super().__init__(
            f"session {session!r}: the work stopped on an internal error ({type(cause).__name__}: {cause}). "
            "Nothing accepted is lost; send another message to resume, and please report this"
        )


class ConflictError(HoldfastError):
    """Someone else wrote first."""

    code = "conflict"


class SeqMovedError(ConflictError):
    """Records were appended since the writer last looked; nothing was written."""

    code = "seq_moved"

    def __init__(self, session: str, expected: int, found: int) -> None:
        self.session, self.expected, self.found = session, expected, found
        super().__init__(f"session {session!r} is at record {found}, not {expected}; read on from there and try again")


class LeaseLostError(ConflictError):
    """Another worker owns the session now; nothing was written."""

    code = "lease_lost"

    def __init__(self, session: str, fence: int) -> None:
        self.session, self.fence = session, fence
        super().__init__(f"session {session!r}: the lease with fence {fence} has ended; another worker may hold it")


class TurnFailedError(HoldfastError):
    """A turn ended without an answer. The session goes on: the next message works.

    `reason` is the stable code of the outcome, for instance "rate_limit" or "cancelled".
    """

    code = "turn_failed"

    def __init__(self, session: str, turn: int, reason: str, sentence: str) -> None:
        self.session, self.turn, self.reason, self.sentence = session, turn, reason, sentence
        super().__init__(f"session {session!r}, turn {turn}: {sentence}")
