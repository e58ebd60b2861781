"""What a shell may complete: sessions and models by name, read from the store without making one."""

import asyncio
import os
from pathlib import Path

from click import Context, Parameter
from click.shell_completion import CompletionItem

# More than this nobody reads in a list of completions.
_OFFERED_MAX = 100
# A shell waits while somebody looks at its cursor; a store that does not answer is as good as an empty one.
_SECONDS_MAX = 2.0
_SIMULATED = "sim"


def session_keys(ctx: Context, param: Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the sessions of the store that the command would open. Nothing is written, and nothing is ever told."""
    del param
    return [CompletionItem(key) for key in _keys(ctx.params.get("store"), incomplete)]


def model_names(ctx: Context, param: Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the models that are known by name."""
    del ctx, param
    from holdfast.models.declared import DECLARED  # noqa: PLC0415 - only a shell that asks for models waits for it

    names = [_SIMULATED, *DECLARED]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)][:_OFFERED_MAX]


def _keys(store: object, incomplete: str) -> list[str]:
    from holdfast.errors import HoldfastError  # noqa: PLC0415 - what only a shell with a store waits for
    from holdfast.wiring import default_store_path, is_server  # noqa: PLC0415

    place = default_store_path() if store is None else store
    if not isinstance(place, str | Path) or (not is_server(place) and not os.access(place, os.R_OK)):
        return []
    try:
        return asyncio.run(asyncio.wait_for(_read(place, incomplete), _SECONDS_MAX))
    except (HoldfastError, OSError, TimeoutError):
        return []


async def _read(place: str | Path, incomplete: str) -> list[str]:
    from holdfast.core.limits import RESERVED_KEYS, Bounds  # noqa: PLC0415 - as above
    from holdfast.wiring import look_at_store  # noqa: PLC0415

    records, _ = look_at_store(place, Bounds())
    try:
        # Sessions are handed out in the order of their keys, so those that begin alike stand together.
        before = incomplete[:-1] + chr(max(ord(incomplete[-1]) - 1, 0)) if incomplete else ""
        found = [known.key for known in await records.sessions(after=before, limit=10 * _OFFERED_MAX)]
    finally:
        await records.close()
    offered = [key for key in found if key.startswith(incomplete) and not key.startswith(RESERVED_KEYS)]
    return offered[:_OFFERED_MAX]
