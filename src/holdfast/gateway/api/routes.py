"""Route table of the native API: address, handler, request and response schemas, and errors.

Dispatch, the OpenAPI document and docs/http.md are generated from it.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.errors import (
    BadInputError,
    ClientIdReusedError,
    HoldfastError,
    InternalError,
    OperatorError,
    QueueFullError,
    RetryLaterError,
    StoppingError,
    StoreFullError,
    TurnFailedError,
    UnknownModelError,
)
from holdfast.gateway.api import (
    attachments,
    doctor,
    history,
    messages,
    report_schemas,
    schemas,
    session_list,
    sessions,
    transfer,
    usage,
)
from holdfast.gateway.api.request_context import RequestContext
from holdfast.gateway.http.problems import (
    ExistsError,
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
from holdfast.runtime.tools.recall import Page
from holdfast.types.records import Logged

PREFIX = "/api"

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
_WRITING: tuple[type[HoldfastError], ...] = (QueueFullError, StoreFullError, BadInputError)


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


ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/sessions",
        session_list.list_sessions,
        "List the sessions of this key, ordered by session key, with activity and usage of budgets.",
        schemas.Sessions,
        query=schemas.SessionsQuery,
    ),
    Route(
        "PUT",
        "/sessions/{key}",
        sessions.configure_session,
        "Create a session, or set its model, system text and client tools.",
        schemas.SessionDetail,
        body=schemas.ConfigureSession,
        errors=(UnknownModelError, *_WRITING),
    ),
    Route(
        "GET",
        "/sessions/{key}",
        sessions.show_session,
        "Get the configuration and state of a session, and the tool calls that wait for the client.",
        schemas.SessionDetail,
    ),
    Route(
        "DELETE",
        "/sessions/{key}",
        transfer.delete_session,
        "Delete a session permanently: its records, including archived ones, and the blobs that only it refers to.",
        schemas.Removed,
        errors=(RetryLaterError,),
    ),
    Route(
        "POST",
        "/sessions/{key}/fork",
        transfer.fork,
        "Copy the records of this session into a new one. Open turns are not continued there.",
        schemas.Forked,
        body=schemas.Fork,
        status=201,
        errors=(ExistsError, RetryLaterError, *_WRITING),
    ),
    Route(
        "GET",
        "/sessions/{key}/export",
        transfer.export_session,
        "Export a session as one file: its records and blobs, with a checksum.",
        None,
        file_types=(transfer.FILE_TYPE,),
    ),
    Route(
        "POST",
        "/import",
        transfer.import_session,
        "Import an exported session, atomically.",
        schemas.Imported,
        status=201,
        query=schemas.ImportQuery,
        errors=(ExistsError, UnknownModelError, RetryLaterError, *_WRITING),
        takes_bytes=True,
    ),
    Route(
        "POST",
        "/sessions/{key}/messages",
        messages.send_message,
        "Send a message and wait for the answer, stream it, or return when it is accepted.",
        schemas.Answered,
        body=schemas.SendMessage,
        other_responses=((202, schemas.Accepted),),
        errors=(ClientIdReusedError, TurnFailedError, *_WRITING),
        may_stream=True,
    ),
    Route(
        "GET",
        "/sessions/{key}/turns/{turn}",
        messages.show_turn,
        "Get the state of a turn, optionally after waiting for its outcome.",
        schemas.TurnState,
        query=schemas.WaitQuery,
    ),
    Route(
        "POST",
        "/sessions/{key}/turns/{turn}/cancel",
        messages.cancel_turn,
        "Cancel a turn immediately. Completed steps are not undone.",
        schemas.Done,
        body=schemas.Nothing,
        errors=_WRITING,
    ),
    Route(
        "POST",
        "/sessions/{key}/cancel",
        messages.cancel_all,
        "Cancel all open turns.",
        schemas.Done,
        body=schemas.Nothing,
        errors=_WRITING,
    ),
    Route(
        "PUT",
        "/sessions/{key}/pins/{turn}",
        messages.pin,
        "Pin the message of a turn: it stays in the view through compactions.",
        schemas.Done,
        errors=_WRITING,
    ),
    Route(
        "DELETE",
        "/sessions/{key}/pins/{turn}",
        messages.unpin,
        "Unpin the message of a turn.",
        schemas.Done,
        errors=_WRITING,
    ),
    Route(
        "POST",
        "/sessions/{key}/results",
        messages.submit_result,
        "Submit the result of a client tool call.",
        schemas.Submitted,
        body=schemas.SubmitResult,
        errors=_WRITING,
    ),
    Route(
        "POST",
        "/sessions/{key}/compact",
        sessions.compact,
        "Compact the view now; concurrent requests share one compaction.",
        schemas.Compacted,
        body=schemas.Compact,
        other_responses=((202, schemas.Compacted),),
        errors=_WRITING,
    ),
    Route(
        "POST",
        "/sessions/{key}/compact/preview",
        sessions.preview,
        "Preview a compaction: removed records, their replacement, sizes before and after.",
        schemas.Previewed,
        body=schemas.PreviewCompact,
        errors=(RetryLaterError, BadInputError),
    ),
    Route(
        "POST",
        "/sessions/{key}/undo",
        sessions.undo,
        "Undo the current compaction: restore the view before it.",
        schemas.Undone,
        body=schemas.Undo,
        errors=_WRITING,
    ),
    Route(
        "GET",
        "/sessions/{key}/view",
        sessions.show_view,
        "Get the view that the model would get now, and its size in each budget.",
        schemas.ViewNow,
    ),
    Route(
        "GET",
        "/sessions/{key}/past",
        history.show_past,
        "List the records that left the view, with reason, causing record and replacement.",
        report_schemas.Past,
    ),
    Route(
        "GET",
        "/sessions/{key}/budgets",
        usage.show_budgets,
        "Get chart data: budget usage of each request, and warnings, compactions, faults and rungs between them.",
        report_schemas.BudgetsOverTime,
        query=report_schemas.BudgetsQuery,
    ),
    Route(
        "GET",
        "/sessions/{key}/records",
        sessions.list_records,
        "Read records.",
        schemas.Records,
        query=schemas.RecordsQuery,
    ),
    Route(
        "GET",
        "/sessions/{key}/records/{seq}",
        sessions.show_record,
        "Read one record.",
        Logged,
    ),
    Route(
        "GET",
        "/sessions/{key}/records/{seq}/attachments/{sha256}",
        attachments.show_attachment,
        "Read the original bytes of an attachment, long text or output that a record refers to by SHA-256.",
        None,
        file_types=attachments.FILE_TYPES,
    ),
    Route(
        "GET",
        "/sessions/{key}/search",
        sessions.search,
        "Search all records of a session, including those that left the view.",
        schemas.Hits,
        query=schemas.SearchQuery,
    ),
    Route(
        "GET",
        "/sessions/{key}/recall",
        sessions.recall,
        "Read the text of a record in pages, including output spilled to a blob.",
        Page,
        query=report_schemas.RecallQuery,
        errors=(BadInputError,),
    ),
    Route(
        "GET",
        "/sessions/{key}/events",
        sessions.events,
        "Watch a session: every record once, and live deltas. Resumes after a cursor, or sends `resync`.",
        None,
        query=schemas.WatchQuery,
        may_stream=True,
    ),
    Route(
        "GET",
        "/search",
        session_list.search_all,
        "Search all sessions of this key.",
        schemas.HitsOfAll,
        query=schemas.SearchQuery,
    ),
    Route(
        "GET",
        "/events",
        session_list.watch_all,
        "Watch all sessions of this key: the status of each that changes. Resumes after a cursor, or sends `resync`.",
        None,
        query=schemas.WatchAllQuery,
        may_stream=True,
    ),
    Route(
        "GET",
        "/health",
        doctor.show_health,
        "Get the health: pending and active sessions, leases, learned limits, recent faults, the last doctor check.",
        report_schemas.Health,
    ),
    Route(
        "POST",
        "/health/check",
        doctor.check_store,
        "Run the doctor on the whole store, read-only. Operator only.",
        report_schemas.CheckState,
        body=schemas.Nothing,
        other_responses=((202, report_schemas.CheckState),),
        errors=(BadInputError,),
    ),
    Route(
        "POST",
        "/attachments",
        messages.upload,
        "Upload an attachment for a later message.",
        schemas.Uploaded,
        status=201,
        query=schemas.UploadQuery,
        errors=(StoreFullError, BadInputError),
        takes_bytes=True,
    ),
)


def find_route(method: str, given: Sequence[str]) -> tuple[Route, dict[str, str]] | list[str] | None:
    """Return the route of a path with its parameters; the allowed methods if the method differs; else None."""
    allowed: list[str] = []
    for route in ROUTES:
        names = route.match(given)
        if names is None:
            continue
        if route.method == method:
            return route, names
        allowed.append(route.method)
    return allowed or None
