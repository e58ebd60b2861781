"""Approvals over HTTP: list the tool calls that wait for one, and answer them."""

from typing import Annotated

import msgspec

from holdfast.gateway.api.request_context import RequestContext
from holdfast.gateway.api.schemas import RequestSchema, Submitted
from holdfast.runtime.sessions.approving import NOTE_CHARS_MAX
from holdfast.runtime.tools.tool_runs import Approval


class PendingApproval(Approval, frozen=True):
    """A tool call that waits for an approval, with the deadline: not answered by then, it counts as denied."""

    # Seconds since 1970.
    expires_at: float


class Approvals(msgspec.Struct, frozen=True):
    """Tool calls that wait for an approval, oldest first."""

    approvals: list[PendingApproval]


class AnswerApproval(RequestSchema, frozen=True):
    """The answer to an approval request, identified by its `request` in the list or by the seq of its event."""

    request: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    approve: bool
    # For the model, if the call is denied.
    note: Annotated[str, msgspec.Meta(max_length=NOTE_CHARS_MAX)] = ""


async def list_approvals(context: RequestContext) -> Approvals:
    """Return the tool calls that wait for an approval."""
    session, _ = await context.session()
    seconds = context.state.client.engine.bounds.approval_seconds_max
    return Approvals(
        [
            PendingApproval(**msgspec.structs.asdict(one), expires_at=one.asked_at + seconds)
            for one in await session.approvals()
        ]
    )


async def answer_approval(context: RequestContext) -> Submitted:
    """Accept the answer to an approval request."""
    body = await context.body(AnswerApproval)
    session, _ = await context.session()
    if body.approve:
        return Submitted(await session.approve(body.request))
    return Submitted(await session.deny(body.request, note=body.note))
