"""Error responses: RFC 9457 problem details, from one table.

Programs match on `code`, which is stable; `detail` says what to do. An error that is not in the table is a bug of ours:
the response omits its text, which is in the gateway's log.
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from holdfast.errors import (
    BadInputError,
    ClientIdReusedError,
    ConflictError,
    HoldfastError,
    InternalError,
    MissingKeyError,
    OperatorError,
    QueueFullError,
    RetryLaterError,
    SessionBusyError,
    StoppingError,
    StoreBusyError,
    StoreFullError,
    TurnFailedError,
    UnknownModelError,
    UsageError,
)


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """RFC 9457 problem details."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    # Of a failed turn: its number, and the stable code of its outcome.
    turn: int = 0
    reason: str = ""
    # Of a reached limit: its name, and the seconds until a retry can succeed.
    limit: str = ""
    retry_seconds: int = 0


class RejectedError(HoldfastError):
    """The gateway rejects a request. The request had no effect."""

    code = "refused"


class MalformedError(RejectedError):
    """A body, query or header that cannot be parsed."""

    code = "malformed"


class InvalidError(RejectedError):
    """A body or query that does not match its schema."""

    code = "invalid"


class UnauthorizedError(RejectedError):
    """A missing or unknown gateway key."""

    code = "unauthorized"


class ForbiddenError(RejectedError):
    """A request that this key or this origin may not make."""

    code = "forbidden"


class NotFoundError(RejectedError):
    """The resource does not exist or belongs to another tenant."""

    code = "not_found"


class ExistsError(RejectedError):
    """A session with this key already exists."""

    code = "exists"


class MethodError(RejectedError):
    """The address does not allow this method."""

    code = "method_not_allowed"


class TooSlowError(RejectedError):
    """A body that timed out."""

    code = "too_slow"


class TooLargeError(RejectedError):
    """A body that exceeds its limit."""

    code = "too_large"


class MediaTypeError(RejectedError):
    """A body of an unsupported media type."""

    code = "media_type"


class TooManyError(RejectedError):
    """This key has too many requests, streams or uploads open."""

    code = "too_many"


class OverLimitError(RejectedError):
    """A rate limit or budget of this key is reached."""

    code = "over_limit"

    def __init__(self, sentence: str, *, limit: str, retry_seconds: int) -> None:
        super().__init__(sentence)
        self.limit = limit
        self.retry_seconds = retry_seconds


# The first matching class counts, so subclasses come first. The title is fixed per class.
STATUSES: Mapping[type[HoldfastError], tuple[int, str]] = MappingProxyType(
    {
        MalformedError: (400, "Malformed request"),
        UnauthorizedError: (401, "Gateway key required"),
        ForbiddenError: (403, "Forbidden"),
        NotFoundError: (404, "Not found"),
        MethodError: (405, "Method not allowed"),
        ExistsError: (409, "Already exists"),
        TooSlowError: (408, "Request timeout"),
        TooLargeError: (413, "Request too large"),
        MediaTypeError: (415, "Unsupported media type"),
        InvalidError: (422, "Request does not match the schema"),
        TooManyError: (429, "Too many requests, streams or uploads"),
        OverLimitError: (429, "Limit of this key reached"),
        BadInputError: (422, "Invalid input"),
        ClientIdReusedError: (409, "Client id already used for another message"),
        UnknownModelError: (422, "Unknown model"),
        MissingKeyError: (422, "Provider key missing"),
        UsageError: (422, "Invalid request"),
        QueueFullError: (429, "Message queue full"),
        SessionBusyError: (409, "Session busy"),
        StoreBusyError: (503, "Store busy"),
        StoppingError: (503, "Gateway stopping"),
        RetryLaterError: (503, "Retry later"),
        ConflictError: (409, "Conflict with another writer"),
        StoreFullError: (507, "Disk full"),
        InternalError: (500, "Internal error"),
        OperatorError: (500, "Store error"),
        TurnFailedError: (502, "Turn failed"),
    }
)
# Value of `Retry-After`: long enough for a burst to pass, short enough to go unnoticed.
RETRY_SECONDS = 1
_RETRIABLE = {429, 503}
_UNKNOWN = "unexpected error in the gateway; nothing accepted is lost: retry, and see the gateway's log"
# Paths and causes go to the operator's log only.
_OPERATOR = (
    "the gateway's store failed (code {code}); nothing accepted is lost: retry later, and report it to the operator, "
    "whose log has the details"
)


def statuses_of(*kinds: type[HoldfastError]) -> dict[int, list[type[HoldfastError]]]:
    """Group error classes by HTTP status."""
    found: dict[int, list[type[HoldfastError]]] = {}
    for kind in kinds:
        found.setdefault(_row(kind)[0], []).append(kind)
    return found


def problem_of(error: BaseException) -> Problem:
    """Return the problem details of an error."""
    if not isinstance(error, HoldfastError):
        return _problem(500, "Internal error", _UNKNOWN, InternalError.code)
    status, title = _row(type(error))
    if isinstance(error, InternalError):
        return _problem(status, title, _UNKNOWN, error.code)
    if isinstance(error, OperatorError):
        return _problem(status, title, _OPERATOR.format(code=error.code), error.code)
    if isinstance(error, TurnFailedError):
        return msgspec.structs.replace(
            _problem(status, title, error.sentence, error.code), turn=error.turn, reason=error.reason
        )
    problem = _problem(status, title, str(error), error.code)
    if isinstance(error, OverLimitError):
        return msgspec.structs.replace(problem, limit=error.limit, retry_seconds=error.retry_seconds)
    return problem


def headers_of(problem: Problem) -> list[tuple[bytes, bytes]]:
    """Return the response headers of a problem."""
    headers = []
    if problem.status in _RETRIABLE:
        headers.append((b"retry-after", str(problem.retry_seconds or RETRY_SECONDS).encode()))
    if problem.status == UNAUTHORIZED:
        headers.append((b"www-authenticate", b'Bearer realm="holdfast"'))
    return headers


UNAUTHORIZED = STATUSES[UnauthorizedError][0]


def _row(kind: type[HoldfastError]) -> tuple[int, str]:
    exact = STATUSES.get(kind)
    if exact is not None:
        return exact
    return next((row for known, row in STATUSES.items() if issubclass(kind, known)), (500, "Internal error"))


def _problem(status: int, title: str, detail: str, code: str) -> Problem:
    return Problem(f"urn:holdfast:problem:{code}", title, status, detail, code)
