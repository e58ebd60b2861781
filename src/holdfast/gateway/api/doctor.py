"""Handlers for health: pending and active sessions, lease holders, recent faults, doctor checks, learned limits.

Every key sees its own sessions; only the operator sees the whole store.
"""

import asyncio
from collections.abc import Iterable

from msgspec.structs import replace

from holdfast.core.limits.bounds import RESERVED_KEYS, is_proxy_session
from holdfast.core.limits.claims import all_claims, in_words
from holdfast.errors import BadInputError
from holdfast.gateway.api import report_schemas, schemas
from holdfast.gateway.api.request_context import RequestContext
from holdfast.gateway.health import Node, RecentFault, oldest_unanswered
from holdfast.gateway.http.problems import NotFoundError

# Sessions listed by key; the rest are only counted.
_LISTED_MAX = 100


async def show_health(context: RequestContext) -> report_schemas.Health:
    """Return the health of this gateway, limited to the caller's own sessions unless it is the operator."""
    state, engine = context.state, context.state.client.engine
    stored = await engine.store.pending()
    pending = _visible(context, stored)
    own_keys = [one for one in stored if _visible_key(context, one) is not None and not is_proxy_session(one)]
    own = report_schemas.Health(
        is_operator=False,
        models=list(state.models),
        streams=context.tenant.streams,
        requests=context.tenant.requests,
        owing_count=len(pending),
        owing=pending[:_LISTED_MAX],
        oldest_unanswered_seconds=await oldest_unanswered(engine.store, own_keys, engine.clock.now()),
        working=sorted(_visible(context, state.client.working()))[:_LISTED_MAX],
        faults=_faults(context),
        learned=None,
        nodes=None,
        check=None,
        is_checking=False,
    )
    if not state.is_operator(context.tenant):
        return own
    return replace(
        own,
        is_operator=True,
        streams=len(state.streams),
        requests=sum(one.requests for one in state.tenants.values()),
        learned=await engine.learning.everything(),
        nodes=await _nodes(context),
        check=state.checks.newest,
        is_checking=state.checks.is_running,
    )


def _visible(context: RequestContext, sessions: Iterable[str]) -> list[str]:
    return [key for one in sessions if (key := _visible_key(context, one)) is not None]


def _visible_key(context: RequestContext, session: str) -> str | None:
    """Return the caller's key of a stored session; None if the caller may not see it."""
    if session.startswith(RESERVED_KEYS):
        return None
    return session if context.state.is_operator(context.tenant) else context.tenant.key_of(session)


def _faults(context: RequestContext) -> list[RecentFault]:
    return [
        replace(fault, session=key)
        for fault in context.state.faults.newest()
        if (key := _visible_key(context, fault.session)) is not None
    ]


async def _nodes(context: RequestContext) -> list[Node] | None:
    inspection = context.state.inspection
    return None if inspection is None else await inspection.nodes()


async def list_models(context: RequestContext) -> report_schemas.LearnedModels:
    """Return the claims about each model, with their evidence in words."""
    context.state.check_operator(context.tenant, "learned limits")
    learned = await context.state.client.engine.learning.everything()
    models = [
        report_schemas.LearnedModel(
            issuer, [in_words(claim) for claim in all_claims(one)], one.accepted_tokens, one.accepted_wire_bytes
        )
        for issuer, one in sorted(learned.items())
    ]
    overrides = context.state.overrides
    prices = [report_schemas.ModelPrices(name, *overrides.effective_prices(name)) for name in overrides.priced_models]
    return report_schemas.LearnedModels(models, prices)


async def forget_model(context: RequestContext) -> report_schemas.Forgotten:
    """Drop everything that was learned about a model, in all processes."""
    context.state.check_operator(context.tenant, "learned limits")
    issuer = context.names["model"]
    if not await context.state.client.engine.learning.forget(issuer):
        raise NotFoundError("nothing was learned about this model; GET /api/models lists those that are known")
    return report_schemas.Forgotten(issuer)


async def check_store(context: RequestContext) -> report_schemas.CheckState:
    """Check the whole store and return the result, or 202 if the check outlasts the request timeout."""
    await context.body(schemas.Nothing)
    context.state.check_operator(context.tenant, "checks of the store")
    inspection = context.state.inspection
    if inspection is None:
        raise BadInputError("a store in memory cannot be checked")
    try:
        async with asyncio.timeout(context.state.bounds.wait_seconds_max):
            found = await context.unless_gone(context.state.checks.run(inspection.check))
    except TimeoutError:
        context.status = 202
        return report_schemas.CheckState(None, is_running=True)
    return report_schemas.CheckState(found, is_running=False)
