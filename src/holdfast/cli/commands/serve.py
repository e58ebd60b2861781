"""`holdfast serve` and `config`: run the gateway, show its settings."""

import asyncio
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial

import click
import msgspec
import uvloop

from holdfast.cli.completion import model_names
from holdfast.cli.configuration import config_option, default_place, read_settings
from holdfast.cli.output import align_columns, json_option, sanitize
from holdfast.cli.service import notify
from holdfast.config.schema import Configuration, ResolvedSetting, Settings, example, to_toml
from holdfast.config.uses import commands_of, unused
from holdfast.errors import HoldfastError, UsageError
from holdfast.gateway.http.server import log_as_json
from holdfast.wiring import Reloader, open_gateway, shown_place

log = logging.getLogger(__name__)

# --- holdfast config ---


set_option = click.option(
    "--set", "assignments", multiple=True, metavar="NAME=VALUE", help="Override a setting, such as gateway.port=80."
)


@click.command()
@config_option
@set_option
@json_option
@click.option("--for", "command", metavar="COMMAND", help="Only settings that this command uses.")
@click.option("--init", "is_example", is_flag=True, help="Print an example configuration file.")
def config(assignments: tuple[str, ...], command: str | None, *, as_json: bool, is_example: bool) -> None:
    """Show the configuration file, every setting, its value, its source, and the commands that use it.

    A value that is set and that no command uses is a warning on standard error.
    """
    if is_example:
        click.echo(example())
        return
    found = read_settings(assignments=assignments)
    rows = [(one, commands_of(one.setting.name)) for one in found.found]
    if command is not None:
        rows = [(one, commands) for one, commands in rows if command in commands]
        if not rows:
            raise UsageError(f"no setting is used by a command {command[:40]!r}; `holdfast --help` lists the commands")
    if as_json:
        click.echo(msgspec.json.encode([_setting_row(one, commands) for one, commands in rows]))
    else:
        _print_settings(found, rows)
    for sentence in unused(found, os.environ):
        click.echo(sanitize(f"warning: {sentence}"), err=True)


def _print_settings(found: Configuration, rows: Sequence[tuple[ResolvedSetting, tuple[str, ...]]]) -> None:
    file = found.file
    click.echo(f"file: {sanitize(str(file.path))} ({file.scope.value})" if file else "file: none")
    click.echo(f"store: {sanitize(shown_place(default_place()))}")
    lines = [(one.setting.name, _value_text(one), _source_text(one), _commands_text(names)) for one, names in rows]
    for line in align_columns([("setting", "value", "from", "used by"), *lines]):
        click.echo(line.rstrip())


def _setting_row(one: ResolvedSetting, commands: tuple[str, ...]) -> dict[str, object]:
    return {
        "name": one.setting.name,
        "value": _shown_value(one),
        "source": one.source,
        "overridden": one.overridden,
        "variable": one.setting.variable,
        "commands": commands,
    }


def _shown_value(one: ResolvedSetting) -> object:
    """Return a value for display; a store URL is shown without its password."""
    return shown_place(str(one.value)) if one.setting.name == "store" else one.value


def _value_text(one: ResolvedSetting) -> str:
    return sanitize(to_toml(_shown_value(one)))


def _source_text(one: ResolvedSetting) -> str:
    return sanitize(one.source + (f", over {', '.join(one.overridden)}" if one.overridden else ""))


def _commands_text(commands: tuple[str, ...]) -> str:
    more = len(commands) - _COMMANDS_SHOWN
    return ", ".join(commands[:_COMMANDS_SHOWN]) + (f" and {more} more" if more > 0 else "")


# Commands in a line; --json has all.
_COMMANDS_SHOWN = 5


# File descriptors besides client connections: the store, blobs, calls to models.
_OWN_DESCRIPTORS = 512


@click.command()
@click.option("--host", help="Address to listen on. Default: 127.0.0.1. A public one needs keys.")
@click.option("--port", type=click.IntRange(0, 65_535), help="0 chooses a free port.")
@click.option(
    "--store",
    metavar="PATH",
    help="Database file or postgresql:// URL; ':memory:' keeps nothing after the end.",
)
@click.option(
    "--model",
    multiple=True,
    metavar="REF",
    shell_complete=model_names,
    help='"sim", "openai:NAME" and so on; repeat it to add fallbacks.',
)
@click.option("--base-url", metavar="URL", help="Base URL of a server with the provider's API.")
@config_option
@set_option
def serve(
    *,
    host: str | None,
    port: int | None,
    store: str | None,
    model: tuple[str, ...],
    base_url: str | None,
    assignments: tuple[str, ...],
) -> None:
    """Serve sessions over HTTP until Ctrl-C or SIGTERM. The default model is the simulated one, which needs no key."""
    flags = {
        "gateway.host": host,
        "gateway.port": port,
        "store": store,
        "model": list(model) or None,
        "base_url": base_url,
    }
    read = partial(read_settings, flags, assignments)
    found = read()
    settings = found.settings
    log_as_json(settings.observing.log)
    for sentence in unused(found, os.environ):
        log.warning("unused setting", extra={"reason": sentence})
    _raise_descriptor_limit(settings.gateway_bounds.connections_max + _OWN_DESCRIPTORS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, read))


def _raise_descriptor_limit(wanted: int) -> None:
    """Raise the limit of open files, as far as the hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


async def _serve(settings: Settings, read: Callable[[], Configuration]) -> None:
    ended, reloads, reloader = asyncio.Event(), asyncio.Event(), Reloader()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    # A terminal sends SIGHUP when it closes; a gateway that was started on one ends then.
    on_terminal = sys.stdin is not None and sys.stdin.isatty()
    loop.add_signal_handler(signal.SIGHUP, ended.set if on_terminal else reloads.set)
    async with open_gateway(settings, reloader) as url:
        # Objects loaded so far live until the end. Without freezing, a full collection blocks requests for about 20 ms.
        gc.collect()
        gc.freeze()
        click.echo(f"holdfast gateway on {url}")
        click.echo(f"  models: {', '.join(settings.model)}   API: {url}/api/openapi.json")
        notify("READY=1")
        reloading = asyncio.create_task(_reload_on(reloads, reloader, read), name="reload settings")
        await ended.wait()
        reloading.cancel()
        notify("STOPPING=1")
        click.echo("stopping: clients reconnect their streams; turns that do not end in time resume at the next start")
    click.echo("stopped")


async def _reload_on(wanted: asyncio.Event, reloader: Reloader, read: Callable[[], Configuration]) -> None:
    """Read the settings again whenever it is wanted. Settings that cannot be used change nothing."""
    while True:
        await wanted.wait()
        wanted.clear()
        try:
            reloaded = await reloader.reload(read().settings)
        except HoldfastError as error:
            log.error("reload failed; the settings are as before", extra={"code": error.code, "reason": str(error)})  # noqa: TRY400 - the sentence says it all
            continue
        log.info("reloaded", extra={"changed": ", ".join(reloaded.changed)})
        if reloaded.needs_restart:
            log.warning("settings need a restart", extra={"settings": ", ".join(reloaded.needs_restart)})
