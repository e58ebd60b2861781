"""Composition of the gateway: HTTP API, proxy endpoints, page, metrics and traces."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import UsageError
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.sessions.client import Client
from holdfast.types.records import Logged
from holdfast.wiring.library import Tuning, model_overrides, owner_name
from holdfast.wiring.library import open as open_client
from holdfast.wiring.stores import MEMORY, is_server, made_store_path

if TYPE_CHECKING:
    from holdfast.config.schema import Settings
    from holdfast.gateway.api.request_context import AppState
    from holdfast.gateway.health import Faults, Inspection
    from holdfast.gateway.http.keys import KeyFile
    from holdfast.gateway.http.metrics import Metrics
    from holdfast.gateway.proxy.app import ProxyApp
    from holdfast.gateway.status_cache import SessionWatches
    from holdfast.runtime.maintenance.doctor import Finding


def keys_path(settings: "Settings") -> Path | None:
    """Return the path of the key file: from the settings, else beside the store file. None: no file."""
    if settings.gateway.keys_file:
        return Path(settings.gateway.keys_file).expanduser()
    store = _file_of(settings)
    return None if store is None else store.with_name(store.name + "-keys")


@asynccontextmanager
async def open_gateway(settings: "Settings") -> AsyncGenerator[str, None]:
    """Open the store of the settings, serve its sessions over HTTP, and yield the base URL.

    Raises `UsageError`, before anything is opened, for a gateway without keys that other machines could reach.
    """
    # Imported on use: the server and its metrics take a quarter of a second.
    from holdfast.gateway.health import Faults, Indexer  # noqa: PLC0415
    from holdfast.gateway.http.app import Gateway, Mount  # noqa: PLC0415
    from holdfast.gateway.http.keys import KeyFile  # noqa: PLC0415
    from holdfast.gateway.http.metrics import Metrics  # noqa: PLC0415
    from holdfast.gateway.http.origin import is_loopback, parse_origins  # noqa: PLC0415
    from holdfast.gateway.http.page import Page  # noqa: PLC0415
    from holdfast.gateway.http.server import serve_gateway  # noqa: PLC0415
    from holdfast.gateway.mcp import McpApp  # noqa: PLC0415
    from holdfast.gateway.proxy.responses import problem_response  # noqa: PLC0415
    from holdfast.gateway.status_cache import SessionWatches  # noqa: PLC0415

    host, path = settings.gateway.host, keys_path(settings)
    keys = KeyFile(path) if path is not None else None
    has_keys = keys is not None and bool(keys.all())
    if not has_keys and not is_loopback(host):
        raise UsageError(
            f"{host} is reachable from other machines, and the gateway has no keys; "
            "create one with `holdfast keys add NAME`, or listen on 127.0.0.1"
        )
    origins = parse_origins(settings.gateway.origins)
    metrics, watches, faults = Metrics(), SessionWatches(), Faults()
    observers: list[Callable[[str, Logged], None]] = [metrics.observe, watches.observe, faults.observe]
    if settings.observing.traces:
        observers.append(_traces())
    async with open_client(
        settings.store or None,
        model=settings.model,
        system=settings.system,
        base_url=settings.base_url or None,
        tuning=_tuning(settings, _each(observers)),
    ) as client:
        state = _app_state(settings, client, keys, watches, faults)
        observers.append(state.accounts.observe)
        dropin = _dropin(settings, client, metrics)
        mounts = {
            "v1": Mount(dropin, error_response=problem_response),
            "mcp": Mount(McpApp(state)),
            "": Mount(Page(), is_open=True),
        }
        gateway = Gateway(state, metrics=metrics, needs_keys=has_keys, mounts=mounts, origins=origins)
        indexer = Indexer(client.engine.store, client.engine.clock)
        indexing = asyncio.create_task(indexer.run(), name="index sessions")
        try:
            async with serve_gateway(gateway, host, settings.gateway.port) as url:
                yield url
        finally:
            indexing.cancel()
            await asyncio.wait([indexing])
            await state.checks.close()
            await dropin.close()
            await state.accounts.close()
            state.uploads.close()


def _tuning(settings: "Settings", observe: Callable[[str, Logged], None]) -> Tuning:
    return Tuning(
        bounds=settings.bounds,
        deadlines=settings.deadlines,
        lease_seconds=settings.engine.lease_seconds,
        grace_seconds=settings.engine.grace_seconds,
        retention_days=settings.retention.days or None,
        observe=observe,
    )


def _app_state(
    settings: "Settings", client: Client, keys: "KeyFile | None", watches: "SessionWatches", faults: "Faults"
) -> "AppState":
    """Return the state that all requests share."""
    from holdfast.gateway.api.request_context import AppState  # noqa: PLC0415
    from holdfast.gateway.http.events import Streams  # noqa: PLC0415 - imported on use
    from holdfast.gateway.uploads import Uploads  # noqa: PLC0415

    bounds, store = settings.gateway_bounds, _file_of(settings)
    uploads_folder = None if store is None else store.with_name(store.name + "-uploads")
    return AppState(
        client,
        bounds,
        settings.model,
        keys,
        Streams(bounds),
        Uploads(bounds, SystemClock(), uploads_folder),
        operator=settings.gateway.operator,
        watches=watches,
        faults=faults,
        inspection=_inspection(settings, client),
    )


def _file_of(settings: "Settings") -> Path | None:
    """Return the store file; None for a store in memory or on a server."""
    location = settings.store or made_store_path()
    return None if location == MEMORY or is_server(location) else Path(location).expanduser()


def _inspection(settings: "Settings", client: Client) -> "Inspection | None":
    """Return the inspection of the store; None for a store in memory."""
    path = _file_of(settings)
    if path is not None:
        return _inspection_of_file(path)
    return _inspection_of_server(settings.store, client) if is_server(settings.store) else None


def _inspection_of_file(path: Path) -> "Inspection":
    from holdfast.gateway.health import Inspection, Node  # noqa: PLC0415 - imported on use
    from holdfast.stores.sqlite.inspect import lease_holders  # noqa: PLC0415
    from holdfast.stores.sqlite.process_lock import live_instances  # noqa: PLC0415
    from holdfast.wiring.doctor import check_store  # noqa: PLC0415

    def held() -> list[Node]:
        alive = live_instances(path)
        found = Counter((owner, instance in alive) for _, owner, instance in lease_holders(path))
        return [Node(owner, is_alive, count) for (owner, is_alive), count in sorted(found.items())]

    async def nodes() -> list[Node]:
        return await asyncio.to_thread(held)

    async def check() -> tuple[int, Sequence["Finding"], Sequence[str]]:
        found = await check_store(path, None, lambda _what, _step, _steps: None)
        return found.sessions, found.findings, found.notes

    return Inspection(nodes, check)


def _inspection_of_server(url: str, client: Client) -> "Inspection":
    """Return the inspection of a PostgreSQL store, over its open connections."""
    from holdfast.gateway.health import Inspection, Node  # noqa: PLC0415 - imported on use
    from holdfast.stores.archived import ArchivedStore  # noqa: PLC0415
    from holdfast.stores.postgres import PostgresStore  # noqa: PLC0415 - an extra, and 0.3 s to import
    from holdfast.wiring.doctor import check_server  # noqa: PLC0415

    configured = client.engine.store
    store = configured.live if isinstance(configured, ArchivedStore) else configured
    assert isinstance(store, PostgresStore), "a store URL means a PostgreSQL store"

    async def nodes() -> list[Node]:
        return [Node(owner, is_alive, sessions) for owner, is_alive, sessions in await store.holders()]

    async def check() -> tuple[int, Sequence["Finding"], Sequence[str]]:
        found = await check_server(url, None, lambda _what, _step, _steps: None)
        return found.sessions, found.findings, found.notes

    return Inspection(nodes, check)


def _dropin(settings: "Settings", client: Client, metrics: "Metrics") -> "ProxyApp":
    """Return the proxy endpoints, with the upstreams of the settings."""
    from holdfast.gateway.proxy.app import ProxyApp  # noqa: PLC0415 - imported on use
    from holdfast.gateway.proxy.upstream import open_upstream  # noqa: PLC0415

    upstream, environ = settings.upstream, os.environ
    openai = open_upstream(
        "openai", upstream.openai_base_url, upstream.openai_key_variable, upstream.openai_fallbacks, environ
    )
    anthropic = open_upstream(
        "anthropic", upstream.anthropic_base_url, upstream.anthropic_key_variable, upstream.anthropic_fallbacks, environ
    )
    return ProxyApp(
        client.engine,
        {
            one.family: replace(one, allowed_paths=upstream.allow_paths)
            for one in (openai, anthropic)
            if one is not None
        },
        bounds=settings.gateway_bounds,
        overrides=model_overrides(),
        owner=owner_name(),
        metrics=metrics,
    )


def _each(observers: Sequence[Callable[[str, Logged], None]]) -> Callable[[str, Logged], None]:
    def observe(session: str, logged: Logged) -> None:
        for one in observers:
            one(session, logged)

    return observe


def _traces() -> Callable[[str, Logged], None]:
    try:
        from holdfast.gateway.http.traces import Traces  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise UsageError(
            "observing.traces needs the extra `traces`; install it with `pip install 'holdfast[traces]'`"
        ) from error
    return Traces().observe
