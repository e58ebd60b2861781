"""The table of the native API: every address, what it takes, what it answers, and which errors to expect.

Dispatch, the OpenAPI document and docs/http.md are made from it, so none of them can say something else.
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

# What every address may answer: who asks, how, and how the gateway is.
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
    """One address and method. `answer` is None where the answer is events or a file, of one of `file_types`.

    `also` are answers of another status.
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
        """Whether the answer is events and nothing else, without end."""
        return self.response is None and self.may_stream

    @property
    def all_errors(self) -> tuple[type[HoldfastError], ...]:
        """Every error that may be answered."""
        with_body = _WITH_BODY if self.body is not None or self.takes_bytes else ()
        named = (NotFoundError,) if "{" in self.path else ()
        return tuple(dict.fromkeys((*_ALWAYS, *with_body, *named, *self.errors)))

    @property
    def parts(self) -> tuple[str, ...]:
        """The path in pieces, behind the prefix."""
        return tuple(self.path.split("/")[1:])

    def match(self, given: Sequence[str]) -> dict[str, str] | None:
        """Return what a path has in the places of names; None where it is another path."""
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
        "List the sessions of this key, in order of their keys: what each is doing, and how full its budgets are.",
        schemas.Sessions,
        query=schemas.SessionsQuery,
    ),
    Route(
        "PUT",
        "/sessions/{key}",
        sessions.configure_session,
        "Make a session, or tell it which model, system text and tools of the client to use.",
        schemas.SessionDetail,
        body=schemas.ConfigureSession,
        errors=(UnknownModelError, *_WRITING),
    ),
    Route(
        "GET",
        "/sessions/{key}",
        sessions.show_session,
        "Say what a session was told, where it stands, and which calls await the client.",
        schemas.SessionDetail,
    ),
    Route(
        "DELETE",
        "/sessions/{key}",
        transfer.delete_session,
        "Remove a session for good: its records, also archived ones, and the blobs that it alone names.",
        schemas.Removed,
        errors=(RetryLaterError,),
    ),
    Route(
        "POST",
        "/sessions/{key}/fork",
        transfer.fork,
        "Make a session of its own of the records of this one. What is open here is not answered there.",
        schemas.Forked,
        body=schemas.Fork,
        status=201,
        errors=(ExistsError, RetryLaterError, *_WRITING),
    ),
    Route(
        "GET",
        "/sessions/{key}/export",
        transfer.export_session,
        "Read a session as one file: records as they were written, with the blobs that they name, and a checksum.",
        None,
        file_types=(transfer.FILE_TYPE,),
    ),
    Route(
        "POST",
        "/import",
        transfer.import_session,
        "Make a session of a file that was exported: all of it, or nothing.",
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
        "Send a message and wait for its answer, or stream it, or only have it accepted.",
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
        "Say how a turn stands, having waited for its outcome if asked to.",
        schemas.TurnState,
        query=schemas.WaitQuery,
    ),
    Route(
        "POST",
        "/sessions/{key}/turns/{turn}/cancel",
        messages.cancel_turn,
        "Stop working on a turn, at once. What was done stays done.",
        schemas.Done,
        body=schemas.Nothing,
        errors=_WRITING,
    ),
    Route(
        "POST",
        "/sessions/{key}/cancel",
        messages.cancel_all,
        "Stop working on every turn that is open.",
        schemas.Done,
        body=schemas.Nothing,
        errors=_WRITING,
    ),
    Route(
        "PUT",
        "/sessions/{key}/pins/{turn}",
        messages.pin,
        "Keep the message of a turn in the view, whatever is compacted.",
        schemas.Done,
        errors=_WRITING,
    ),
    Route(
        "DELETE",
        "/sessions/{key}/pins/{turn}",
        messages.unpin,
        "Keep it no longer.",
        schemas.Done,
        errors=_WRITING,
    ),
    Route(
        "POST",
        "/sessions/{key}/results",
        messages.submit_result,
        "Report what came of a call that the client was told to run.",
        schemas.Submitted,
        body=schemas.SubmitResult,
        errors=_WRITING,
    ),
    Route(
        "POST",
        "/sessions/{key}/compact",
        sessions.compact,
        "Make the view smaller now; whoever else asks meanwhile gets the same compaction.",
        schemas.Compacted,
        body=schemas.Compact,
        other_responses=((202, schemas.Compacted),),
        errors=_WRITING,
    ),
    Route(
        "POST",
        "/sessions/{key}/compact/preview",
        sessions.preview,
        "Show what a compaction would do now: what would go, what would stand in its place, sizes before and after.",
        schemas.Previewed,
        body=schemas.PreviewCompact,
        errors=(RetryLaterError, BadInputError),
    ),
    Route(
        "POST",
        "/sessions/{key}/undo",
        sessions.undo,
        "Undo the compaction in force: the view is again as it was before it.",
        schemas.Undone,
        body=schemas.Undo,
        errors=_WRITING,
    ),
    Route(
        "GET",
        "/sessions/{key}/view",
        sessions.show_view,
        "Show what the model would see now, and what that comes to in each budget.",
        schemas.ViewNow,
    ),
    Route(
        "GET",
        "/sessions/{key}/past",
        history.show_past,
        "Show what left the view, why and by which record, and what stands in its place.",
        report_schemas.Past,
    ),
    Route(
        "GET",
        "/sessions/{key}/budgets",
        usage.show_budgets,
        "Chart a session: what each request took of the budgets, and warnings, compactions, faults and rungs between.",
        report_schemas.BudgetsOverTime,
        query=report_schemas.BudgetsQuery,
    ),
    Route(
        "GET",
        "/sessions/{key}/records",
        sessions.list_records,
        "Read records as they were written.",
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
        "Read the original bytes of an attachment, a long text or an output that a record names by its SHA-256.",
        None,
        file_types=attachments.FILE_TYPES,
    ),
    Route(
        "GET",
        "/sessions/{key}/search",
        sessions.search,
        "Find what was said or done, also what the model no longer sees.",
        schemas.Hits,
        query=schemas.SearchQuery,
    ),
    Route(
        "GET",
        "/sessions/{key}/recall",
        sessions.recall,
        "Read what a record holds as text, a page at a time: also output that was spilled and is in a blob.",
        Page,
        query=report_schemas.RecallQuery,
        errors=(BadInputError,),
    ),
    Route(
        "GET",
        "/sessions/{key}/events",
        sessions.events,
        "Watch a session: every record once, deltas as they are written. Resumes behind a cursor or says `resync`.",
        None,
        query=schemas.WatchQuery,
        may_stream=True,
    ),
    Route(
        "GET",
        "/search",
        session_list.search_all,
        "Find what was said or done in any session of this key.",
        schemas.HitsOfAll,
        query=schemas.SearchQuery,
    ),
    Route(
        "GET",
        "/events",
        session_list.watch_all,
        "Watch all sessions of this key: how each stands when it changes. Resumes behind a cursor or says `resync`.",
        None,
        query=schemas.WatchAllQuery,
        may_stream=True,
    ),
    Route(
        "GET",
        "/health",
        doctor.show_health,
        "Say how the gateway is: what is owed and worked on, leases, limits learned, recent faults, the last check.",
        report_schemas.Health,
    ),
    Route(
        "POST",
        "/health/check",
        doctor.check_store,
        "Have the doctor look at the whole store, without changing it. For the operator.",
        report_schemas.CheckState,
        body=schemas.Nothing,
        other_responses=((202, report_schemas.CheckState),),
        errors=(BadInputError,),
    ),
    Route(
        "POST",
        "/attachments",
        messages.upload,
        "Upload an attachment; a message then names it.",
        schemas.Uploaded,
        status=201,
        query=schemas.UploadQuery,
        errors=(StoreFullError, BadInputError),
        takes_bytes=True,
    ),
)


def find_route(method: str, given: Sequence[str]) -> tuple[Route, dict[str, str]] | list[str] | None:
    """Return the route of a path with its names; the methods it takes where it takes others; None where it is none."""
    allowed: list[str] = []
    for route in ROUTES:
        names = route.match(given)
        if names is None:
            continue
        if route.method == method:
            return route, names
        allowed.append(route.method)
    return allowed or None
