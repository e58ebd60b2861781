"""The table of the native API: every address, what it takes, what it answers, and which errors to expect.

Dispatch, the OpenAPI document and docs/http.md are made from it, so none of them can say something else.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core.records import Logged
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
from holdfast.gateway import attachments, checkup, copying, listing, looking, over_time, past, reports, shapes, talking
from holdfast.gateway.call import Call
from holdfast.gateway.problems import (
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
from holdfast.runtime.recall import Page

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
    run: Callable[[Call], Awaitable[Any]]
    summary: str
    answer: Any
    status: int = 200
    body: type[Any] | None = None
    query: type[Any] = shapes.Nothing
    also: tuple[tuple[int, Any], ...] = ()
    errors: tuple[type[HoldfastError], ...] = ()
    takes_bytes: bool = False
    may_stream: bool = False
    file_types: tuple[str, ...] = ()

    @property
    def is_stream(self) -> bool:
        """Whether the answer is events and nothing else, without end."""
        return self.answer is None and self.may_stream

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
        listing.list_sessions,
        "List the sessions of this key, in order of their keys: what each is doing, and how full its budgets are.",
        shapes.Sessions,
        query=shapes.PageOfSessions,
    ),
    Route(
        "PUT",
        "/sessions/{key}",
        looking.configure_session,
        "Make a session, or tell it which model, system text and tools of the client to use.",
        shapes.SessionDetail,
        body=shapes.ConfigureSession,
        errors=(UnknownModelError, *_WRITING),
    ),
    Route(
        "GET",
        "/sessions/{key}",
        looking.show_session,
        "Say what a session was told, where it stands, and which calls await the client.",
        shapes.SessionDetail,
    ),
    Route(
        "DELETE",
        "/sessions/{key}",
        copying.delete_session,
        "Remove a session for good: its records, also archived ones, and the blobs that it alone names.",
        shapes.Removed,
        errors=(RetryLaterError,),
    ),
    Route(
        "POST",
        "/sessions/{key}/fork",
        copying.fork,
        "Make a session of its own of the records of this one. What is open here is not answered there.",
        shapes.Forked,
        body=shapes.Fork,
        status=201,
        errors=(ExistsError, RetryLaterError, *_WRITING),
    ),
    Route(
        "GET",
        "/sessions/{key}/export",
        copying.export_session,
        "Read a session as one file: records as they were written, with the blobs that they name, and a checksum.",
        None,
        file_types=(copying.FILE_TYPE,),
    ),
    Route(
        "POST",
        "/import",
        copying.import_session,
        "Make a session of a file that was exported: all of it, or nothing.",
        shapes.Imported,
        status=201,
        query=shapes.ImportAs,
        errors=(ExistsError, UnknownModelError, RetryLaterError, *_WRITING),
        takes_bytes=True,
    ),
    Route(
        "POST",
        "/sessions/{key}/messages",
        talking.send_message,
        "Send a message and wait for its answer, or stream it, or only have it accepted.",
        shapes.Answered,
        body=shapes.SendMessage,
        also=((202, shapes.Accepted),),
        errors=(ClientIdReusedError, TurnFailedError, *_WRITING),
        may_stream=True,
    ),
    Route(
        "GET",
        "/sessions/{key}/turns/{turn}",
        talking.show_turn,
        "Say how a turn stands, having waited for its outcome if asked to.",
        shapes.TurnState,
        query=shapes.WaitFor,
    ),
    Route(
        "POST",
        "/sessions/{key}/turns/{turn}/cancel",
        talking.cancel_turn,
        "Stop working on a turn, at once. What was done stays done.",
        shapes.Done,
        body=shapes.Nothing,
        errors=_WRITING,
    ),
    Route(
        "POST",
        "/sessions/{key}/cancel",
        talking.cancel_all,
        "Stop working on every turn that is open.",
        shapes.Done,
        body=shapes.Nothing,
        errors=_WRITING,
    ),
    Route(
        "PUT",
        "/sessions/{key}/pins/{turn}",
        talking.pin,
        "Keep the message of a turn in the view, whatever is compacted.",
        shapes.Done,
        errors=_WRITING,
    ),
    Route(
        "DELETE",
        "/sessions/{key}/pins/{turn}",
        talking.unpin,
        "Keep it no longer.",
        shapes.Done,
        errors=_WRITING,
    ),
    Route(
        "POST",
        "/sessions/{key}/results",
        talking.submit_result,
        "Report what came of a call that the client was told to run.",
        shapes.Submitted,
        body=shapes.SubmitResult,
        errors=_WRITING,
    ),
    Route(
        "POST",
        "/sessions/{key}/compact",
        looking.compact,
        "Make the view smaller now; whoever else asks meanwhile gets the same compaction.",
        shapes.Compacted,
        body=shapes.Compact,
        also=((202, shapes.Compacted),),
        errors=_WRITING,
    ),
    Route(
        "POST",
        "/sessions/{key}/compact/preview",
        looking.preview,
        "Show what a compaction would do now: what would go, what would stand in its place, sizes before and after.",
        shapes.Previewed,
        body=shapes.PreviewCompact,
        errors=(RetryLaterError, BadInputError),
    ),
    Route(
        "POST",
        "/sessions/{key}/undo",
        looking.undo,
        "Undo the compaction in force: the view is again as it was before it.",
        shapes.Undone,
        body=shapes.Undo,
        errors=_WRITING,
    ),
    Route(
        "GET",
        "/sessions/{key}/view",
        looking.show_view,
        "Show what the model would see now, and what that comes to in each budget.",
        shapes.ViewNow,
    ),
    Route(
        "GET",
        "/sessions/{key}/past",
        past.show_past,
        "Show what left the view, why and by which record, and what stands in its place.",
        reports.Past,
    ),
    Route(
        "GET",
        "/sessions/{key}/budgets",
        over_time.show_budgets,
        "Chart a session: what each request took of the budgets, and warnings, compactions, faults and rungs between.",
        reports.BudgetsOverTime,
        query=reports.PageOfBudgets,
    ),
    Route(
        "GET",
        "/sessions/{key}/records",
        looking.list_records,
        "Read records as they were written.",
        shapes.Records,
        query=shapes.PageOfRecords,
    ),
    Route(
        "GET",
        "/sessions/{key}/records/{seq}",
        looking.show_record,
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
        looking.search,
        "Find what was said or done, also what the model no longer sees.",
        shapes.Hits,
        query=shapes.Search,
    ),
    Route(
        "GET",
        "/sessions/{key}/recall",
        looking.recall,
        "Read what a record holds as text, a page at a time: also output that was spilled and is in a blob.",
        Page,
        query=reports.Recalled,
        errors=(BadInputError,),
    ),
    Route(
        "GET",
        "/sessions/{key}/events",
        looking.events,
        "Watch a session: every record once, deltas as they are written. Resumes behind a cursor or says `resync`.",
        None,
        query=shapes.WatchFrom,
        may_stream=True,
    ),
    Route(
        "GET",
        "/search",
        listing.search_all,
        "Find what was said or done in any session of this key.",
        shapes.HitsOfAll,
        query=shapes.Search,
    ),
    Route(
        "GET",
        "/events",
        listing.watch_all,
        "Watch all sessions of this key: how each stands when it changes. Resumes behind a cursor or says `resync`.",
        None,
        query=shapes.WatchAllFrom,
        may_stream=True,
    ),
    Route(
        "GET",
        "/health",
        checkup.show_health,
        "Say how the gateway is: what is owed and worked on, leases, limits learned, recent faults, the last check.",
        reports.Health,
    ),
    Route(
        "POST",
        "/health/check",
        checkup.check_store,
        "Have the doctor look at the whole store, without changing it. For the operator.",
        reports.CheckState,
        body=shapes.Nothing,
        also=((202, reports.CheckState),),
        errors=(BadInputError,),
    ),
    Route(
        "POST",
        "/attachments",
        talking.upload,
        "Upload an attachment; a message then names it.",
        shapes.Uploaded,
        status=201,
        query=shapes.NameOfUpload,
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
