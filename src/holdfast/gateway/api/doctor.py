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


async def show_health(call: RequestContext) -> report_schemas.Health:
    """Answer with how this gateway is, as far as the asker may know."""
    gateway, engine = call.gateway, call.gateway.hold.engine
    is_operator = gateway.is_operator(call.tenant)
    owing = [key for one in await engine.store.pending() if (key := _own(call, one, is_operator)) is not None]
    working = [key for one in gateway.hold.working() if (key := _own(call, one, is_operator)) is not None]
    return report_schemas.Health(
        is_operator=is_operator,
        models=list(gateway.models),
        streams=len(gateway.streams) if is_operator else call.tenant.streams,
        requests=sum(one.requests for one in gateway.tenants.values()) if is_operator else call.tenant.requests,
        owing_count=len(owing),
        owing=owing[:_OWING_MAX],
        working=sorted(working)[:_OWING_MAX],
        faults=_faults(call, is_operator=is_operator),
        learned=await engine.learning.everything() if is_operator else None,
        nodes=await _nodes(call) if is_operator else None,
        check=gateway.checks.newest if is_operator else None,
        is_checking=gateway.checks.is_running if is_operator else False,
    )


def _own(call: RequestContext, session: str, is_operator: bool) -> str | None:  # noqa: FBT001 - who asks
    """Return what the asker calls a session of the store; None where it is none of its business."""
    if session.startswith(RESERVED_KEYS):
        return None
    return session if is_operator else call.tenant.key_of(session)


def _faults(call: RequestContext, *, is_operator: bool) -> list[RecentFault]:
    return [
        replace(fault, session=key)
        for fault in call.gateway.faults.newest()
        if (key := _own(call, fault.session, is_operator)) is not None
    ]


async def _nodes(call: RequestContext) -> list[Node] | None:
    inspection = call.gateway.inspection
    return None if inspection is None else await inspection.nodes()


async def check_store(call: RequestContext) -> report_schemas.CheckState:
    """Look at the whole store, and answer with what was found, or that it takes longer than anybody waits."""
    await call.body(schemas.Nothing)
    call.gateway.check_operator(call.tenant, "checks of the store")
    inspection = call.gateway.inspection
    if inspection is None:
        raise BadInputError("this store is in memory, so there is nothing here to check")
    try:
        async with asyncio.timeout(call.gateway.bounds.wait_seconds_max):
            found = await call.unless_gone(call.gateway.checks.run(inspection.check))
    except TimeoutError:
        call.status = 202
        return report_schemas.CheckState(None, is_running=True)
    return report_schemas.CheckState(found, is_running=False)
