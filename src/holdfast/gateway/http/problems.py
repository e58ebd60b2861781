"""What went wrong, for a program and for a person: RFC 9457 problem details, from one table.

`code` is stable and is what programs match on; `detail` says what to do. An error that is not in the table is a bug of
ours: its text stays in the log of the gateway and is not told.
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
    # Of a turn that ended without an answer: its number, and the stable code of its outcome.
    turn: int = 0
    reason: str = ""


class RejectedError(HoldfastError):
    """The gateway does not take a request. What was asked for has not happened."""

    code = "refused"


class MalformedError(RejectedError):
    """A body, query or header that cannot be read."""

    code = "malformed"


class InvalidError(RejectedError):
    """A body or query that can be read, but is not of the shape that is asked for."""

    code = "invalid"


class UnauthorizedError(RejectedError):
    """No gateway key, or one that is not known."""

    code = "unauthorized"


class ForbiddenError(RejectedError):
    """A request that this gateway serves to others, or from elsewhere."""

    code = "forbidden"


class NotFoundError(RejectedError):
    """There is no such thing, or it is somebody else's."""

    code = "not_found"


class ExistsError(RejectedError):
    """There is a session of this key already."""

    code = "exists"


class MethodError(RejectedError):
    """The address exists, but not for this method."""

    code = "method_not_allowed"


class TooSlowError(RejectedError):
    """A body that came too slowly."""

    code = "too_slow"


class TooLargeError(RejectedError):
    """A body that is too long."""

    code = "too_large"


class MediaTypeError(RejectedError):
    """A body of another type than the one that is taken."""

    code = "media_type"


class TooManyError(RejectedError):
    """This key has too much under way."""

    code = "too_many"


# The first class that fits counts, so the narrow ones stand first. Title: what kind of thing happened, always the same.
STATUSES: Mapping[type[HoldfastError], tuple[int, str]] = MappingProxyType(
    {
        MalformedError: (400, "The request cannot be read"),
        UnauthorizedError: (401, "A gateway key is needed"),
        ForbiddenError: (403, "Not from here"),
        NotFoundError: (404, "There is no such thing"),
        MethodError: (405, "The address does not take this method"),
        ExistsError: (409, "There is such a thing already"),
        TooSlowError: (408, "The request came too slowly"),
        TooLargeError: (413, "The request is too large"),
        MediaTypeError: (415, "The request is of a type that is not taken"),
        InvalidError: (422, "The request is not of the right shape"),
        TooManyError: (429, "Too much at once"),
        BadInputError: (422, "The request cannot be taken"),
        ClientIdReusedError: (409, "The client id names another message"),
        UnknownModelError: (422, "The model is not known"),
        MissingKeyError: (422, "The model cannot be used here"),
        UsageError: (422, "The request cannot be taken"),
        QueueFullError: (429, "Too many messages wait"),
        StoreBusyError: (503, "The store is busy"),
        StoppingError: (503, "The gateway is stopping"),
        RetryLaterError: (503, "Not now"),
        ConflictError: (409, "Somebody else was first"),
        StoreFullError: (507, "The disk is full"),
        InternalError: (500, "An internal error"),
        OperatorError: (500, "The store needs its operator"),
        TurnFailedError: (502, "The turn ended without an answer"),
    }
)
# What `Retry-After` says: long enough that a burst has passed, short enough that nobody notices.
RETRY_SECONDS = 1
_RETRIABLE = {429, 503}
_UNKNOWN = (
    "the gateway failed in a way that nobody foresaw; nothing accepted is lost: ask again, and see the gateway's log"
)
# What an operator must do is told to the operator: paths and causes do not leave the machine.
_OPERATOR = (
    "the gateway's store cannot do this now (code {code}); nothing accepted is lost: ask again later, and tell the "
    "operator, whose log has the details"
)


def statuses_of(*kinds: type[HoldfastError]) -> dict[int, list[type[HoldfastError]]]:
    """Return kinds of errors by their status."""
    found: dict[int, list[type[HoldfastError]]] = {}
    for kind in kinds:
        found.setdefault(_row(kind)[0], []).append(kind)
    return found


def problem_of(error: BaseException) -> Problem:
    """Return what to tell of an error."""
    if not isinstance(error, HoldfastError):
        return _problem(500, "An internal error", _UNKNOWN, InternalError.code)
    status, title = _row(type(error))
    if isinstance(error, InternalError):
        return _problem(status, title, _UNKNOWN, error.code)
    if isinstance(error, OperatorError):
        return _problem(status, title, _OPERATOR.format(code=error.code), error.code)
    if isinstance(error, TurnFailedError):
        return msgspec.structs.replace(
            _problem(status, title, error.sentence, error.code), turn=error.turn, reason=error.reason
        )
    return _problem(status, title, str(error), error.code)


def headers_of(problem: Problem) -> list[tuple[bytes, bytes]]:
    """Return what goes with a problem besides its body."""
    headers = []
    if problem.status in _RETRIABLE:
        headers.append((b"retry-after", str(RETRY_SECONDS).encode()))
    if problem.status == UNAUTHORIZED:
        headers.append((b"www-authenticate", b'Bearer realm="holdfast"'))
    return headers


UNAUTHORIZED = STATUSES[UnauthorizedError][0]


def _row(kind: type[HoldfastError]) -> tuple[int, str]:
    exact = STATUSES.get(kind)
    if exact is not None:
        return exact
    return next((row for known, row in STATUSES.items() if issubclass(kind, known)), (500, "An internal error"))


def _problem(status: int, title: str, detail: str, code: str) -> Problem:
    return Problem(f"urn:holdfast:problem:{code}", title, status, detail, code)
