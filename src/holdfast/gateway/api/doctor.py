"""The native API, health: what is owed and worked on, who holds leases, what failed lately, what the doctor found.

Everybody is told about its own sessions; what is about the whole store goes to the operator alone.
"""

import asyncio

from msgspec.structs import replace

from holdfast.core.limits.bounds import RESERVED_KEYS
from holdfast.errors import BadInputError
from holdfast.gateway.api import report_schemas, schemas
from holdfast.gateway.api.request_context import RequestContext
from holdfast.gateway.health import Node, RecentFault

# Sessions that are told one by one; the rest is counted.
_OWING_MAX = 100


async def show_health(context: RequestContext) -> report_schemas.Health:
    """Answer with how this gateway is, as far as the asker may know."""
    gateway, engine = context.state, context.state.client.engine
    is_operator = gateway.is_operator(context.tenant)
    owing = [key for one in await engine.store.owing() if (key := _own(context, one, is_operator)) is not None]
    working = [key for one in gateway.client.working() if (key := _own(context, one, is_operator)) is not None]
    return report_schemas.Health(
        is_operator=is_operator,
        models=list(gateway.models),
        streams=len(gateway.streams) if is_operator else context.tenant.streams,
        requests=sum(one.requests for one in gateway.tenants.values()) if is_operator else context.tenant.requests,
        owing_count=len(owing),
        owing=owing[:_OWING_MAX],
        working=sorted(working)[:_OWING_MAX],
        faults=_faults(context, is_operator=is_operator),
        learned=await engine.learning.everything() if is_operator else None,
        nodes=await _nodes(context) if is_operator else None,
        check=gateway.checks.newest if is_operator else None,
        is_checking=gateway.checks.is_running if is_operator else False,
    )


def _own(context: RequestContext, session: str, is_operator: bool) -> str | None:  # noqa: FBT001 - who asks
    """Return what the asker calls a session of the store; None where it is none of its business."""
    if session.startswith(RESERVED_KEYS):
        return None
    return session if is_operator else context.tenant.key_of(session)


def _faults(context: RequestContext, *, is_operator: bool) -> list[RecentFault]:
    return [
        replace(fault, session=key)
        for fault in context.state.faults.newest()
        if (key := _own(context, fault.session, is_operator)) is not None
    ]


async def _nodes(context: RequestContext) -> list[Node] | None:
    inspection = context.state.inspection
    return None if inspection is None else await inspection.nodes()


async def check_store(context: RequestContext) -> report_schemas.CheckState:
    """Look at the whole store, and answer with what was found, or that it takes longer than anybody waits."""
    await context.body(schemas.Nothing)
    context.state.check_operator(context.tenant, "checks of the store")
    inspection = context.state.inspection
    if inspection is None:
        raise BadInputError("this store is in memory, so there is nothing here to check")
    try:
        async with asyncio.timeout(context.state.bounds.wait_seconds_max):
            found = await context.unless_gone(context.state.checks.run(inspection.check))
    except TimeoutError:
        context.status = 202
        return report_schemas.CheckState(None, is_running=True)
    return report_schemas.CheckState(found, is_running=False)
