"""One address of the native API."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.errors import HoldfastError, InternalError, OperatorError, StoppingError
from holdfast.gateway.api import schemas
from holdfast.gateway.api.request_context import RequestContext
from holdfast.gateway.http.problems import (
    ForbiddenError,
    InvalidError,
    MalformedError,
    MediaTypeError,
    NotFoundError,
    TooLargeError,
    TooManyError,
    TooSlowError,
    UnauthorizedError,
)

# Errors of every address.
_ALWAYS: tuple[type[HoldfastError], ...] = (
    MalformedError,
    UnauthorizedError,
    ForbiddenError,
    InvalidError,
    TooManyError,
    InternalError,
    OperatorError,
    StoppingError,
)
_WITH_BODY: tuple[type[HoldfastError], ...] = (TooSlowError, TooLargeError, MediaTypeError)


@dataclass(frozen=True)
class Route:
    """One address and method. `response` is None for events and for files, of one of `file_types`.

    `other_responses` are successful responses with another status.
    """

    method: str
    path: str
    run: Callable[[RequestContext], Awaitable[Any]]
    summary: str
    response: Any
    status: int = 200
    body: type[Any] | None = None
    query: type[Any] = schemas.Nothing
    other_responses: tuple[tuple[int, Any], ...] = ()
    errors: tuple[type[HoldfastError], ...] = ()
    takes_bytes: bool = False
    may_stream: bool = False
    file_types: tuple[str, ...] = ()

    @property
    def is_stream(self) -> bool:
        """Whether the response is always an endless event stream."""
        return self.response is None and self.may_stream

    @property
    def all_errors(self) -> tuple[type[HoldfastError], ...]:
        """Every error that the address may return."""
        with_body = _WITH_BODY if self.body is not None or self.takes_bytes else ()
        named = (NotFoundError,) if "{" in self.path else ()
        return tuple(dict.fromkeys((*_ALWAYS, *with_body, *named, *self.errors)))

    @property
    def parts(self) -> tuple[str, ...]:
        """The path segments after the prefix."""
        return tuple(self.path.split("/")[1:])

    def match(self, given: Sequence[str]) -> dict[str, str] | None:
        """Return the path parameters; None if the path does not match."""
        if len(given) != len(self.parts):
            return None
        names: dict[str, str] = {}
        for part, found in zip(self.parts, given, strict=True):
            if part.startswith("{"):
                names[part[1:-1]] = found
            elif part != found:
                return None
        return names
