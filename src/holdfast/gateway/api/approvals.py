"""Approvals over HTTP: list the tool calls that wait for one, and answer them."""

from itertools import islice
from typing import Annotated

import msgspec
from msgspec.structs import asdict

from holdfast.core.limits.bounds import RESERVED_KEYS
from holdfast.gateway.api.request_context import RequestContext
from holdfast.gateway.api.schemas import RequestSchema, Submitted
from holdfast.runtime.sessions.approving import NOTE_CHARS_MAX
from holdfast.runtime.tools.tool_runs import Approval

# Sessions with pending work that are looked at for approvals; each is a cached status.
_SESSIONS_MAX = 1_000
# States of sessions that may have one: a long turn has no details.
_MAY_WAIT = frozenset({"approval", "working"})


class PendingApproval(Approval, frozen=True, kw_only=True):
    """A tool call that waits for an approval, with the deadline: not answered by then, it counts as denied."""

    # Seconds since 1970.
    expires_at: float


class Approvals(msgspec.Struct, frozen=True):
    """Tool calls that wait for an approval, oldest first."""

    approvals: list[PendingApproval]


class SessionApproval(PendingApproval, frozen=True, kw_only=True):
    """A tool call that waits for an approval, with its deadline and the key of its session."""

    session: str


class AllApprovals(msgspec.Struct, frozen=True):
    """Tool calls of all sessions that wait for an approval, oldest first.

    `is_complete` is false if more sessions have pending work than were looked at.
    """

    approvals: list[SessionApproval]
    is_complete: bool


class AnswerApproval(RequestSchema, frozen=True):
    """The answer to an approval request, identified by its `request` in the list or by the seq of its event."""

    request: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    approve: bool
    # For the model, if the call is denied.
    note: Annotated[str, msgspec.Meta(max_length=NOTE_CHARS_MAX)] = ""


async def list_approvals(context: RequestContext) -> Approvals:
    """Return the tool calls that wait for an approval."""
    session, _ = await context.session()
    seconds = _seconds_max(context)
    waiting = await session.approvals()
    return Approvals([PendingApproval(**asdict(one), expires_at=one.asked_at + seconds) for one in waiting])


def _seconds_max(context: RequestContext) -> float:
    return context.state.client.engine.bounds.approval_seconds_max


async def list_all_approvals(context: RequestContext) -> AllApprovals:
    """Return the tool calls of all sessions of this key that wait for an approval."""
    client = context.state.client
    keys = {stored: key for stored in await client.engine.store.pending() if (key := context.tenant.key_of(stored))}
    own = {stored: key for stored, key in keys.items() if not stored.startswith(RESERVED_KEYS)}
    found: list[SessionApproval] = []
    for stored, key in islice(own.items(), _SESSIONS_MAX):
        known = await client.engine.store.info(stored)
        if known is None or (await context.state.statuses.of(known)).state not in _MAY_WAIT:
            continue
        waiting = await (await client.session(stored)).approvals()
        found += [
            SessionApproval(**asdict(one), expires_at=one.asked_at + _seconds_max(context), session=key)
            for one in waiting
        ]
    return AllApprovals(sorted(found, key=lambda one: one.asked_at), len(own) <= _SESSIONS_MAX)


async def answer_approval(context: RequestContext) -> Submitted:
    """Accept the answer to an approval request."""
    body = await context.body(AnswerApproval)
    session, _ = await context.session()
    if body.approve:
        return Submitted(await session.approve(body.request))
    return Submitted(await session.deny(body.request, note=body.note))
