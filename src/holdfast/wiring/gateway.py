"""Composition of the gateway: HTTP API, proxy endpoints, page, metrics and traces."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from holdfast.errors import UsageError
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.sessions.client import Client
from holdfast.types.records import Logged
from holdfast.wiring.library import AnyModel, LiveModels, ModelList, Tuning, model_overrides, owner_name
from holdfast.wiring.library import open as open_client
from holdfast.wiring.reload import Reloader, RunningParts
from holdfast.wiring.stores import MEMORY, is_server, made_store_path

if TYPE_CHECKING:
    from holdfast.config.schema import Settings
    from holdfast.gateway.api.request_context import AppState
    from holdfast.gateway.health import Faults, Inspection
    from holdfast.gateway.http.app import Mount, RequestSpan
    from holdfast.gateway.http.key_table import KeyTable
    from holdfast.gateway.http.keys import KeyFile
    from holdfast.gateway.http.metrics import Metrics
    from holdfast.gateway.proxy.app import ProxyApp
    from holdfast.gateway.proxy.upstream import Upstream
    from holdfast.gateway.status_cache import SessionWatches
    from holdfast.ports import KeyRows
    from holdfast.runtime.maintenance.doctor import Finding
    from holdfast.stores.postgres import PostgresStore


def keys_path(settings: "Settings") -> Path | None:
    """Return the path of the key file: from the settings, else beside the store file. None: no file."""
    if settings.gateway.keys_file:
        return Path(settings.gateway.keys_file).expanduser()
    store = _file_of(settings)
    return None if store is None else store.with_name(store.name + "-keys")


def has_key_table(settings: "Settings") -> bool:
    """Return whether the keys are in the store: for a database server, unless the settings name a file."""
    return not settings.gateway.keys_file and is_server(settings.store)


def _key_rows(client: Client) -> "KeyRows":
    from holdfast.stores.postgres.keys import PostgresKeyRows  # noqa: PLC0415 - an extra

    return PostgresKeyRows(_server_store(client).connections)


@asynccontextmanager
async def open_key_table(url: str) -> "AsyncGenerator[KeyTable, None]":
    """Open the keys in a database server."""
    from holdfast.gateway.http.key_table import KeyTable  # noqa: PLC0415 - imported on use
    from holdfast.stores.postgres import PostgresStore  # noqa: PLC0415 - an extra, and 0.3 s to import
    from holdfast.stores.postgres.keys import PostgresKeyRows  # noqa: PLC0415

    store = PostgresStore(url)
    try:
        yield KeyTable(PostgresKeyRows(store.connections))
    finally:
        await store.close()


@asynccontextmanager
async def open_gateway(settings: "Settings", reloader: Reloader | None = None) -> AsyncGenerator[str, None]:
    """Open the store of the settings, serve its sessions over HTTP, and yield the base URL.

    The `reloader` applies other settings while the gateway runs.

    Raises `UsageError`, before anything is opened, for a gateway without keys that other machines could reach.
    """
    # Imported on use: the server and its metrics take a quarter of a second.
    from holdfast.gateway.health import Faults  # noqa: PLC0415
    from holdfast.gateway.http.app import Gateway  # noqa: PLC0415
    from holdfast.gateway.http.forwarded import ForwardedClients, check_proxies  # noqa: PLC0415
    from holdfast.gateway.http.metrics import Metrics  # noqa: PLC0415
    from holdfast.gateway.http.origin import is_loopback, parse_origins  # noqa: PLC0415
    from holdfast.gateway.http.server import serve_gateway  # noqa: PLC0415
    from holdfast.gateway.http.tls import tls_context  # noqa: PLC0415
    from holdfast.gateway.status_cache import SessionWatches  # noqa: PLC0415

    host, needs_keys = settings.gateway.host, not is_loopback(settings.gateway.host)
    if needs_keys and not has_key_table(settings):
        _check_keys(host, has_keys=(await _open_keys(settings, None))[1])
    origins, proxies = parse_origins(settings.gateway.origins), check_proxies(settings.gateway.trusted_proxies)
    tls = tls_context(settings.gateway.tls_certificate, settings.gateway.tls_key)
    models = LiveModels(ModelList(settings.model, settings.base_url or None, model_overrides(settings.models)))
    metrics, watches, faults = Metrics(), SessionWatches(), Faults()
    observers: list[Callable[[str, Logged], None]] = [metrics.observe, watches.observe, faults.observe]
    observe_turns, span = _traces() if settings.observing.traces else (None, None)
    if observe_turns is not None:
        observers.append(observe_turns)
    async with open_client(
        settings.store or None,
        # Not for users of `open`, so its signature does not have it.
        model=cast("AnyModel", models),
        system=settings.system,
        archive=settings.archive or None,
        tuning=_tuning(settings, _each(observers)),
    ) as client:
        keys, has_keys = await _open_keys(settings, client)
        if needs_keys:
            _check_keys(host, has_keys=has_keys)
        state = _app_state(settings, client, keys, watches, faults)
        observers.append(state.accounts.observe)
        dropin = _dropin(settings, client, metrics)
        mounts = _mounts(state, dropin)
        gateway = Gateway(state, metrics, needs_keys=has_keys, mounts=mounts, origins=origins, request_span=span)
        clients = ForwardedClients(gateway, proxies)
        if reloader is not None:
            reloader.attach(settings, RunningParts(gateway, dropin, models, clients, tls, _upstreams))
        try:
            async with (
                _background(client, keys, observers),
                serve_gateway(gateway, host, settings.gateway.port, clients=clients, tls=tls) as url,
            ):
                yield url
        finally:
            await state.checks.close()
            await dropin.close()
            await state.accounts.close()
            state.uploads.close()


def _mounts(state: "AppState", dropin: "ProxyApp") -> "dict[str, Mount]":
    """Return the applications beside the native API: the proxy, MCP and the page."""
    from holdfast.gateway.http.app import Mount  # noqa: PLC0415 - imported on use
    from holdfast.gateway.http.page import Page  # noqa: PLC0415
    from holdfast.gateway.mcp import McpApp  # noqa: PLC0415
    from holdfast.gateway.proxy.responses import problem_response  # noqa: PLC0415

    return {
        "v1": Mount(dropin, error_response=problem_response),
        "v1beta": Mount(dropin, error_response=problem_response),
        "mcp": Mount(McpApp(state)),
        "": Mount(Page(), is_open=True),
    }


@asynccontextmanager
async def _background(
    client: Client, keys: "KeyFile | KeyTable | None", observers: list[Callable[[str, Logged], None]]
) -> AsyncGenerator[None, None]:
    """Run the background work of a gateway: index sessions, and read shared keys again."""
    from holdfast.gateway.health import Indexer  # noqa: PLC0415 - imported on use
    from holdfast.gateway.http.key_table import KeyTable  # noqa: PLC0415

    engine = client.engine
    indexer = Indexer(engine.store, engine.clock)
    observers.append(indexer.observe)
    work = [asyncio.create_task(indexer.run(), name="index sessions")]
    if isinstance(keys, KeyTable):
        work.append(asyncio.create_task(keys.keep_fresh(engine.clock), name="read keys"))
    try:
        yield
    finally:
        for task in work:
            task.cancel()
        await asyncio.wait(work)


async def _open_keys(settings: "Settings", client: Client | None) -> tuple["KeyFile | KeyTable | None", bool]:
    """Return the keys, and whether there are any. Keys in the store need its client."""
    from holdfast.gateway.http.key_table import KeyTable  # noqa: PLC0415 - imported on use
    from holdfast.gateway.http.keys import KeyFile  # noqa: PLC0415

    if client is not None and has_key_table(settings):
        table = KeyTable(_key_rows(client))
        return table, bool(await table.all())
    path = keys_path(settings)
    file = KeyFile(path) if path is not None else None
    return file, file is not None and bool(file.all())


def _check_keys(host: str, *, has_keys: bool) -> None:
    if not has_keys:
        raise UsageError(
            f"{host} is reachable from other machines, and the gateway has no keys; "
            "create one with `holdfast keys add NAME`, or listen on 127.0.0.1"
        )


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
    settings: "Settings", client: Client, keys: "KeyFile | KeyTable | None", watches: "SessionWatches", faults: "Faults"
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
        overrides=model_overrides(settings.models),
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
    from holdfast.gateway.health import Inspection, Node, StorageUse, storage_of  # noqa: PLC0415 - imported on use
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

    async def storage() -> list[StorageUse]:
        return await asyncio.to_thread(storage_of, path)

    return Inspection(nodes, check, storage)


def _inspection_of_server(url: str, client: Client) -> "Inspection":
    """Return the inspection of a PostgreSQL store, over its open connections."""
    from holdfast.gateway.health import Inspection, Node  # noqa: PLC0415 - imported on use
    from holdfast.wiring.doctor import check_server  # noqa: PLC0415

    store = _server_store(client)

    async def nodes() -> list[Node]:
        return [Node(owner, is_alive, sessions) for owner, is_alive, sessions in await store.holders()]

    async def check() -> tuple[int, Sequence["Finding"], Sequence[str]]:
        found = await check_server(url, None, lambda _what, _step, _steps: None)
        return found.sessions, found.findings, found.notes

    return Inspection(nodes, check)


def _server_store(client: Client) -> "PostgresStore":
    from holdfast.stores.archived import ArchivedStore  # noqa: PLC0415 - imported on use
    from holdfast.stores.postgres import PostgresStore  # noqa: PLC0415 - an extra, and 0.3 s to import

    configured = client.engine.store
    store = configured.live if isinstance(configured, ArchivedStore) else configured
    assert isinstance(store, PostgresStore), "a store URL means a PostgreSQL store"
    return store


def _dropin(settings: "Settings", client: Client, metrics: "Metrics") -> "ProxyApp":
    """Return the proxy endpoints, with the upstreams of the settings."""
    from holdfast.gateway.proxy.app import ProxyApp  # noqa: PLC0415 - imported on use

    return ProxyApp(
        client.engine,
        _upstreams(settings),
        bounds=settings.gateway_bounds,
        overrides=model_overrides(settings.models),
        owner=owner_name(),
        metrics=metrics,
    )


def _upstreams(settings: "Settings") -> "dict[str, Upstream]":
    """Return the upstreams of the settings by family."""
    from holdfast.gateway.proxy.access import ForwardTable  # noqa: PLC0415 - imported on use
    from holdfast.gateway.proxy.upstream import open_upstream  # noqa: PLC0415

    upstream, environ = settings.upstream, os.environ
    # Raises for a path that cannot be one.
    ForwardTable(upstream.allow_paths)
    openai = open_upstream(
        "openai", upstream.openai_base_url, upstream.openai_key_variable, upstream.openai_fallbacks, environ
    )
    anthropic = open_upstream(
        "anthropic", upstream.anthropic_base_url, upstream.anthropic_key_variable, upstream.anthropic_fallbacks, environ
    )
    gemini = open_upstream(
        "gemini", upstream.gemini_base_url, upstream.gemini_key_variable, upstream.gemini_fallbacks, environ
    )
    opened = (one for one in (openai, anthropic, gemini) if one is not None)
    return {one.family: replace(one, allowed_paths=upstream.allow_paths, savings=upstream.savings) for one in opened}


def _each(observers: Sequence[Callable[[str, Logged], None]]) -> Callable[[str, Logged], None]:
    def observe(session: str, logged: Logged) -> None:
        for one in observers:
            one(session, logged)

    return observe


def _traces() -> "tuple[Callable[[str, Logged], None], RequestSpan]":
    try:
        from holdfast.gateway.http.traces import RequestSpans, Traces  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise UsageError(
            "observing.traces needs the extra `traces`; install it with `pip install 'holdfast[traces]'`"
        ) from error
    return Traces().observe, RequestSpans().serving
