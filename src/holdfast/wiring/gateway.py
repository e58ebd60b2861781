"""The gateway put together: sessions over HTTP, drop-in endpoints, counters and traces."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import UsageError
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.sessions.client import Client
from holdfast.types.records import Logged
from holdfast.wiring.library import Tuning, model_overrides, owner_name
from holdfast.wiring.library import open as open_hold
from holdfast.wiring.stores import MEMORY, is_server, made_store_path

if TYPE_CHECKING:
    from holdfast.config.schema import Settings
    from holdfast.gateway.api.request_context import AppState
    from holdfast.gateway.health import Faults, Inspection
    from holdfast.gateway.http.auth import KeyFile
    from holdfast.gateway.http.metrics import Metrics
    from holdfast.gateway.proxy.app import DropIn
    from holdfast.gateway.session_watch import SessionWatches
    from holdfast.runtime.maintenance.doctor import Finding


def keys_path(settings: "Settings") -> Path | None:
    """Return where the gateway's keys are kept: where the settings say, else beside the store. None: nowhere."""
    if settings.gateway.keys_file:
        return Path(settings.gateway.keys_file).expanduser()
    store = _file_of(settings)
    return None if store is None else store.with_name(store.name + "-keys")


@asynccontextmanager
async def open_gateway(settings: "Settings") -> AsyncGenerator[str, None]:
    """Open a store as the settings say, serve its sessions over HTTP, and give the base URL.

    Raises `UsageError` before anything is opened where anybody could reach a gateway that has no keys.
    """
    # Only what is used is loaded: a server and its counters are a quarter of a second.
    from holdfast.gateway.health import Faults, Indexer  # noqa: PLC0415
    from holdfast.gateway.http.app import Gateway, Mounted, is_loopback  # noqa: PLC0415
    from holdfast.gateway.http.auth import KeyFile  # noqa: PLC0415
    from holdfast.gateway.http.metrics import Metrics  # noqa: PLC0415
    from holdfast.gateway.http.page import Page  # noqa: PLC0415
    from holdfast.gateway.http.server import serve_gateway  # noqa: PLC0415
    from holdfast.gateway.proxy.responses import told_problem  # noqa: PLC0415
    from holdfast.gateway.session_watch import SessionWatches  # noqa: PLC0415

    host, path = settings.gateway.host, keys_path(settings)
    keys = KeyFile(path) if path is not None else None
    has_keys = keys is not None and bool(keys.all())
    if not has_keys and not is_loopback(host):
        raise UsageError(
            f"{host} can be reached from elsewhere, and there are no keys, so anybody could use this gateway; "
            "make one with `holdfast keys add NAME`, or listen on 127.0.0.1"
        )
    metrics, pulses, faults = Metrics(), SessionWatches(), Faults()
    observers: list[Callable[[str, Logged], None]] = [metrics.observe, pulses.observe, faults.observe]
    if settings.observing.traces:
        observers.append(_traces())
    async with open_hold(
        settings.store or None,
        model=settings.model,
        system=settings.system,
        base_url=settings.base_url or None,
        tuning=_tuning(settings, _each(observers)),
    ) as hold:
        shared = _shared(settings, hold, keys, pulses, faults)
        dropin = _dropin(settings, hold, metrics)
        mounts = {"v1": Mounted(dropin, tell=told_problem), "": Mounted(Page(), is_open=True)}
        gateway = Gateway(shared, metrics=metrics, needs_keys=has_keys, mounts=mounts)
        indexer = Indexer(hold.engine.store, hold.engine.clock)
        indexing = asyncio.create_task(indexer.run(), name="index sessions")
        try:
            async with serve_gateway(gateway, host, settings.gateway.port) as url:
                yield url
        finally:
            indexing.cancel()
            await asyncio.wait([indexing])
            await shared.checks.close()
            await dropin.close()
            shared.uploads.close()


def _tuning(settings: "Settings", observe: Callable[[str, Logged], None]) -> Tuning:
    return Tuning(
        bounds=settings.bounds,
        deadlines=settings.deadlines,
        lease_seconds=settings.engine.lease_seconds,
        grace_seconds=settings.engine.grace_seconds,
        retention_days=settings.retention.days or None,
        observe=observe,
    )


def _shared(
    settings: "Settings", hold: Client, keys: "KeyFile | None", pulses: "SessionWatches", faults: "Faults"
) -> "AppState":
    """Return what all requests share, with the uploads and a look at the store where that is a file."""
    from holdfast.gateway.api.request_context import AppState  # noqa: PLC0415
    from holdfast.gateway.http.events import Streams  # noqa: PLC0415 - only what is used is loaded
    from holdfast.gateway.uploads import Uploads  # noqa: PLC0415

    bounds, store = settings.gateway_bounds, _file_of(settings)
    kept = None if store is None else store.with_name(store.name + "-uploads")
    return AppState(
        hold,
        bounds,
        settings.model,
        keys,
        Streams(bounds),
        Uploads(bounds, SystemClock(), kept),
        operator=settings.gateway.operator,
        pulses=pulses,
        faults=faults,
        inspection=_inspection(settings, hold),
    )


def _file_of(settings: "Settings") -> Path | None:
    """Return the file that the sessions are in; None where they are elsewhere."""
    place = settings.store or made_store_path()
    return None if place == MEMORY or is_server(place) else Path(place).expanduser()


def _inspection(settings: "Settings", hold: Client) -> "Inspection | None":
    """Return how to look at a store from outside; None where it is in memory."""
    path = _file_of(settings)
    if path is not None:
        return _inspection_of_file(path)
    return _inspection_of_server(settings.store, hold) if is_server(settings.store) else None


def _inspection_of_file(path: Path) -> "Inspection":
    from holdfast.gateway.health import Inspection, Node  # noqa: PLC0415 - only what is used is loaded
    from holdfast.stores.sqlite.inspect import lease_holders  # noqa: PLC0415
    from holdfast.stores.sqlite.process_lock import live_instances  # noqa: PLC0415
    from holdfast.wiring.doctor import look_over  # noqa: PLC0415

    def held() -> list[Node]:
        alive = live_instances(path)
        found = Counter((owner, instance in alive) for _, owner, instance in lease_holders(path))
        return [Node(owner, is_alive, count) for (owner, is_alive), count in sorted(found.items())]

    async def nodes() -> list[Node]:
        return await asyncio.to_thread(held)

    async def check() -> tuple[int, Sequence["Finding"], Sequence[str]]:
        found = await look_over(path, None, lambda _what, _step, _steps: None)
        return found.sessions, found.findings, found.notes

    return Inspection(nodes, check)


def _inspection_of_server(url: str, hold: Client) -> "Inspection":
    """Return how to look at a store that a server keeps, over the connections that are there."""
    from holdfast.gateway.health import Inspection, Node  # noqa: PLC0415 - only what is used is loaded
    from holdfast.stores.archived import ArchivedStore  # noqa: PLC0415
    from holdfast.stores.postgres import PostgresStore  # noqa: PLC0415 - an extra, and 0.3 s to import
    from holdfast.wiring.doctor import look_over_server  # noqa: PLC0415

    kept = hold.engine.store
    store = kept.live if isinstance(kept, ArchivedStore) else kept
    assert isinstance(store, PostgresStore), "a store with the address of a server is on one"

    async def nodes() -> list[Node]:
        return [Node(owner, is_alive, sessions) for owner, is_alive, sessions in await store.holders()]

    async def check() -> tuple[int, Sequence["Finding"], Sequence[str]]:
        found = await look_over_server(url, None, lambda _what, _step, _steps: None)
        return found.sessions, found.findings, found.notes

    return Inspection(nodes, check)


def _dropin(settings: "Settings", hold: Client, metrics: "Metrics") -> "DropIn":
    """Return the drop-in endpoints, with the upstreams that the settings name."""
    from holdfast.gateway.proxy.app import DropIn  # noqa: PLC0415 - only what is used is loaded
    from holdfast.gateway.proxy.upstream import open_upstream  # noqa: PLC0415

    told, environ = settings.upstream, os.environ
    openai = open_upstream("openai", told.openai_base_url, told.openai_key_variable, told.openai_fallbacks, environ)
    anthropic = open_upstream(
        "anthropic", told.anthropic_base_url, told.anthropic_key_variable, told.anthropic_fallbacks, environ
    )
    return DropIn(
        hold.engine,
        {one.family: one for one in (openai, anthropic) if one is not None},
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
