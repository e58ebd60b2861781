"""`holdfast serve` and `config`: run the gateway, show its settings."""

import asyncio
import gc
import resource
import signal
from pathlib import Path

import click
import msgspec
import uvloop

from holdfast.cli.completion import model_names
from holdfast.cli.output import align_columns, json_option, sanitize
from holdfast.config.schema import ResolvedSetting, Settings, example, read_configuration, to_toml
from holdfast.gateway.http.server import log_as_json
from holdfast.wiring import open_gateway, shown_place

# --- holdfast config ---


config_option = click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    help="Configuration file. Default: HOLDFAST_CONFIG, ./holdfast.toml, or the one in your config folder.",
)
set_option = click.option(
    "--set", "assignments", multiple=True, metavar="NAME=VALUE", help="Override a setting, such as gateway.port=80."
)


@click.command()
@config_option
@set_option
@json_option
@click.option("--init", "is_example", is_flag=True, help="Print an example configuration file.")
def config(path: Path | None, assignments: tuple[str, ...], *, as_json: bool, is_example: bool) -> None:
    """Show every setting, its value, and the source of the value."""
    if is_example:
        click.echo(example())
        return
    found = read_configuration(path=path, assignments=assignments)
    if as_json:
        values = [
            {
                "name": one.setting.name,
                "value": _shown_value(one),
                "source": one.source,
                "variable": one.setting.variable,
            }
            for one in found.found
        ]
        click.echo(msgspec.json.encode(values))
        return
    rows = [(one.setting.name, sanitize(to_toml(_shown_value(one))), sanitize(one.source)) for one in found.found]
    for line in align_columns([("setting", "value", "from"), *rows]):
        click.echo(line)


def _shown_value(one: ResolvedSetting) -> object:
    """Return a value for display; a store URL is to_toml without its password."""
    return shown_place(str(one.value)) if one.setting.name == "store" else one.value


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
def serve(  # noqa: PLR0913 - a parameter per option
    *,
    host: str | None,
    port: int | None,
    store: str | None,
    model: tuple[str, ...],
    base_url: str | None,
    path: Path | None,
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
    settings = read_configuration(flags=flags, assignments=assignments, path=path).settings
    log_as_json(settings.observing.log)
    _raise_descriptor_limit(settings.gateway_bounds.connections_max + _OWN_DESCRIPTORS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings))


def _raise_descriptor_limit(wanted: int) -> None:
    """Raise the limit of open files, as far as the hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


async def _serve(settings: Settings) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with open_gateway(settings) as url:
        # Objects loaded so far live until the end. Without freezing, a full collection blocks requests for about 20 ms.
        gc.collect()
        gc.freeze()
        click.echo(f"holdfast gateway on {url}")
        click.echo(f"  models: {', '.join(settings.model)}   API: {url}/api/openapi.json")
        await ended.wait()
        click.echo("stopping: clients reconnect their streams; turns that do not end in time resume at the next start")
    click.echo("stopped")
