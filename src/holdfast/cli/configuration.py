"""The configuration of the running command, which every command reads in the same way."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from holdfast.config.schema import Configuration, Settings, read_configuration
from holdfast.wiring import Place, Tuning, default_store_path, is_server

_CONFIG_PATH = "holdfast.config.path"
_CONFIG = "holdfast.config"
# Settings of the file that reach the library by its variables.
_EXPORTED = ("archive", "models")


def _keep_path(ctx: click.Context, _param: click.Parameter, path: Path | None) -> Path | None:
    if path is not None:
        ctx.meta[_CONFIG_PATH] = path
    return path


config_option = click.option(
    "--config",
    type=click.Path(path_type=Path),
    expose_value=False,
    is_eager=True,
    callback=_keep_path,
    help="Configuration file. Default: HOLDFAST_CONFIG, ./holdfast.toml, the one in your config folder, or "
    "/etc/holdfast/holdfast.toml.",
)


def read_settings(flags: Mapping[str, object] | None = None, assignments: Sequence[str] = ()) -> Configuration:
    """Return the configuration of the running command: flags, environment, file, defaults."""
    ctx = click.get_current_context(silent=True)
    path = ctx.meta.get(_CONFIG_PATH) if ctx is not None else None
    return read_configuration(flags=flags, assignments=assignments, path=path)


def settings() -> Settings:
    """Return the settings of the running command, without its own flags. They are read once."""
    ctx = click.get_current_context(silent=True)
    meta = ctx.meta if ctx is not None else {}
    if _CONFIG not in meta:
        meta[_CONFIG] = read_settings().settings
        for name in _EXPORTED:
            if value := getattr(meta[_CONFIG], name):
                os.environ[f"HOLDFAST_{name.upper()}"] = value
    found = meta[_CONFIG]
    assert isinstance(found, Settings)
    return found


def default_place() -> Place:
    """Return the store of the settings, else the file in the user's data folder."""
    store = settings().store
    if not store:
        return default_store_path()
    return store if is_server(store) else Path(store).expanduser()


def tuning(*, grace_seconds: float | None = None) -> Tuning:
    """Return the tuning of a command that works on one session: limits and timeouts of the settings."""
    found = settings()
    grace = found.engine.grace_seconds if grace_seconds is None else grace_seconds
    return Tuning(bounds=found.bounds, deadlines=found.deadlines, adopts=False, grace_seconds=grace)
