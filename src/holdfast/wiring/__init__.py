"""Composition root: assembles stores, models and engine into the library and the gateway."""

from holdfast.wiring.gateway import has_key_table, keys_path, open_gateway, open_key_table
from holdfast.wiring.library import (
    ModelList,
    Tuning,
    ask,
    model_overrides,
    open,  # noqa: A004 - `holdfast.open()` reads as it should
)
from holdfast.wiring.reload import Reloader
from holdfast.wiring.stores import (
    MEMORY,
    Place,
    default_store_path,
    is_server,
    look_at_store,
    made_store_path,
    open_archive,
    open_store,
    shown_place,
)

__all__ = [
    "MEMORY",
    "ModelList",
    "Place",
    "Reloader",
    "Tuning",
    "ask",
    "default_store_path",
    "has_key_table",
    "is_server",
    "keys_path",
    "look_at_store",
    "made_store_path",
    "model_overrides",
    "open",
    "open_archive",
    "open_gateway",
    "open_key_table",
    "open_store",
    "shown_place",
]
