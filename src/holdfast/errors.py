"""Exceptions of Holdfast, split by who must act.

HoldfastError
├── UsageError              the caller: the call is invalid
│   ├── BadInputError         an invalid message, key or attachment
│   │   └── UnsupportedError    the store does not implement an optional port
│   ├── PlatformError         the operating system lacks what Holdfast needs
│   ├── ClientIdReusedError   one client id for two different messages
│   ├── UnknownModelError     no such model
│   └── MissingKeyError       a model needs an API key that is not set
├── RetryLaterError         nobody yet: retry the same call later
│   ├── QueueFullError        too many pending inputs in this session
│   ├── SessionBusyError      a turn runs or waits, and the call needs an idle session
│   ├── StoreBusyError        another process holds the store
│   ├── StoreUnreachableError  the database server does not respond
│   ├── OutcomeUnknownError   the connection was lost before the server confirmed a write
│   └── StoppingError         this process is shutting down
├── OperatorError           the operator: disk, permissions, versions, damage
│   ├── StorePathError        the store cannot be opened at this path
│   ├── StoreAccessError      login failed, or a privilege is missing
│   ├── StoreReadOnlyError    the store is read-only
│   ├── StoreVersionError     the store was written by a newer version
│   ├── StoreFullError        disk full
│   ├── StoreIoError          I/O error of the disk or the database file
│   ├── StoreMovedError       the file was removed, renamed or replaced while open
│   ├── StoreDamagedError     a record cannot be read
│   ├── BlobMissingError      a referenced blob is missing or altered
│   ├── SegmentMissingError   a segment of the archive is missing or altered
│   ├── RecordsSealedError    records are in the archive, and it is not open
│   └── InternalError         a bug in Holdfast stopped the work on a session
├── ConflictError           the worker: another writer was first; it catches up or stops
│   ├── SeqMovedError         records were appended since the writer last read the log
│   └── LeaseLostError        another worker holds the lease
└── TurnFailedError         the sender: a turn ended without an answer; the session stays usable

A message is built from ids and says what to do. `code` is stable; programs match on it.
"""

from typing import ClassVar


class HoldfastError(Exception):
    """Base class of Holdfast's exceptions."""

    code: ClassVar[str] = "holdfast"


class UsageError(HoldfastError):
    """The caller must change the call."""

    code = "usage"


class BadInputError(UsageError):
    """An invalid message, key or attachment; nothing was stored."""

    code = "bad_input"


class UnsupportedError(BadInputError):
    """The store does not implement the optional port that a call needs; nothing was changed."""

    code = "unsupported"

    def __init__(self, action: str, port: str) -> None:
        self.port = port
        super().__init__(f"this store cannot {action}: it does not implement holdfast.ports.{port}; use another store")


class PlatformError(UsageError, ImportError):
    """The operating system lacks a module of Python that Holdfast needs."""

    code = "unsupported_platform"

    def __init__(self, module: str) -> None:
        super().__init__(
            f"Holdfast needs Linux or another POSIX system: Python has no module {module!r} here, and locks between "
            "processes need it; on Windows, run it in WSL"
        )


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
    """The model does not exist."""

    code = "unknown_model"


class MissingKeyError(UsageError):
    """A model needs an API key that is not set."""

    code = "missing_key"


class RetryLaterError(HoldfastError):
    """The same call may succeed later."""

    code = "retry_later"


class QueueFullError(RetryLaterError):
    """The session has too many pending inputs."""

    code = "queue_full"

    def __init__(self, session: str, waiting: int) -> None:
        self.session, self.waiting = session, waiting
        super().__init__(
            f"session {session!r} has {waiting:,} pending inputs, which is the limit; "
            "wait for some to be answered or cancel them"
        )


class SessionBusyError(RetryLaterError):
    """The session has a turn that runs or waits, and the call needs an idle one; nothing was changed."""

    code = "session_busy"

    def __init__(self, session: str) -> None:
        self.session = session
        super().__init__(
            f"session {session!r} has a turn that runs or waits; wait for its end or cancel it, then try again"
        )


class StoreBusyError(RetryLaterError):
    """Another process held the store beyond the timeout."""

    code = "store_busy"


class StoreUnreachableError(RetryLaterError):
    """The database server does not respond; nothing was stored. Work resumes when it does."""

    code = "store_unreachable"


class OutcomeUnknownError(RetryLaterError):
    """The connection to the database server was lost during a write, before the server confirmed it.

    The only error after which something may have been stored. Retry with the same client id: it stays one message.
    """

    code = "outcome_unknown"


class StoppingError(RetryLaterError):
    """This process is shutting down and accepts no more input."""

    code = "stopping"


class OperatorError(HoldfastError):
    """Someone with access to the machine must act."""

    code = "operator"


class StorePathError(OperatorError):
    """The store cannot be opened at this path."""

    code = "store_path"


class StoreAccessError(OperatorError):
    """The database server rejects the login, or a privilege is missing."""

    code = "store_access"


class StoreReadOnlyError(OperatorError):
    """The store is read-only, as on a standby server."""

    code = "store_read_only"


class StoreVersionError(OperatorError):
    """The store was written by a newer version of Holdfast."""

    code = "store_version"


class StoreFullError(OperatorError):
    """The disk of the store is full; nothing was acknowledged."""

    code = "store_full"


class StoreIoError(OperatorError):
    """The disk or the database file has an I/O error; nothing was acknowledged."""

    code = "store_io"


class StoreMovedError(OperatorError):
    """The file of an open store was removed, renamed or replaced; nothing was acknowledged."""

    code = "store_moved"


class StoreDamagedError(OperatorError):
    """A record cannot be read."""

    code = "store_damaged"

    def __init__(self, session: str, seq: int, why: str) -> None:
        self.session, self.seq = session, seq
        super().__init__(f"session {session!r}, record {seq} cannot be read ({why}); the original bytes are untouched")


class BlobMissingError(OperatorError):
    """A blob that a record references is missing or altered."""

    code = "blob_missing"

    def __init__(self, sha256: str, why: str) -> None:
        self.sha256 = sha256
        super().__init__(f"blob {sha256[:12]}… {why}; restore it from a backup of the blobs folder")


class SegmentMissingError(OperatorError):
    """A segment that a session's log references is missing from the archive or altered."""

    code = "segment_missing"

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        super().__init__(f"segment {name} {why}; restore it from a backup of the archive")


class RecordsSealedError(OperatorError):
    """Records are in the archive, and the store was opened without it."""

    code = "records_sealed"

    def __init__(self, session: str, until: int) -> None:
        self.session, self.until = session, until
        super().__init__(f"session {session!r}: the records up to {until} are in the archive; open the store with it")


class InternalError(OperatorError):
    """A bug in Holdfast stopped the work on a session. Accepted input is kept; the next message resumes it."""

    code = "internal"

    def __init__(self, session: str, cause: Exception) -> None:
        self.session = session
        super().__init__(
            f"session {session!r}: the work stopped on an internal error ({type(cause).__name__}: {cause}). "
            "Nothing accepted is lost; send another message to resume, and please report this"
        )


class ConflictError(HoldfastError):
    """Another writer was first."""

    code = "conflict"


class SeqMovedError(ConflictError):
    """Records were appended since the writer last read the log; nothing was written."""

    code = "seq_moved"

    def __init__(self, session: str, expected: int, found: int) -> None:
        self.session, self.expected, self.found = session, expected, found
        super().__init__(f"session {session!r} is at record {found}, not {expected}; read on from there and retry")


class LeaseLostError(ConflictError):
    """Another worker holds the lease; nothing was written."""

    code = "lease_lost"

    def __init__(self, session: str, fence: int) -> None:
        self.session, self.fence = session, fence
        super().__init__(f"session {session!r}: the lease with fence {fence} has ended; another worker may hold it")


class TurnFailedError(HoldfastError):
    """A turn ended without an answer. The session stays usable: the next message works.

    `reason` is the stable code of the outcome, for instance "rate_limit" or "cancelled".
    """

    code = "turn_failed"

    def __init__(self, session: str, turn: int, reason: str, sentence: str) -> None:
        self.session, self.turn, self.reason, self.sentence = session, turn, reason, sentence
        super().__init__(f"session {session!r}, turn {turn}: {sentence}")
