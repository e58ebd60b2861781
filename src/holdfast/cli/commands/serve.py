"""The command `serve`: the gateway, until somebody ends it."""

import asyncio
import gc
import resource
import signal
from datetime import datetime
from pathlib import Path

import click
import msgspec
import uvloop

from holdfast.cli.completion import model_names
from holdfast.cli.output import columns, harmless, json_option
from holdfast.config.loader import ResolvedSetting, example, read_configuration, to_toml
from holdfast.config.schema import Settings
from holdfast.errors import UsageError
from holdfast.gateway.http.auth import KeyFile
from holdfast.gateway.http.server import log_as_json
from holdfast.wiring import keys_path, open_gateway, shown_place

# --- The command `config`: what is set, and where it came from.


config_option = click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    help="The file to read; otherwise HOLDFAST_CONFIG, ./holdfast.toml, or the one in your config folder.",
)
set_option = click.option("--set", "assignments", multiple=True, metavar="NAME=VALUE", help="As in gateway.port=80.")


@click.command()
@config_option
@set_option
@json_option
@click.option("--init", "is_example", is_flag=True, help="Print a file to begin with.")
def config(path: Path | None, assignments: tuple[str, ...], *, as_json: bool, is_example: bool) -> None:
    """Show every setting, its value, and where that came from."""
    if is_example:
        click.echo(example())
        return
    found = read_configuration(path=path, assignments=assignments)
    if as_json:
        told = [
            {"name": one.setting.name, "value": _told(one), "source": one.source, "variable": one.setting.variable}
            for one in found.found
        ]
        click.echo(msgspec.json.encode(told))
        return
    rows = [(one.setting.name, harmless(to_toml(_told(one))), harmless(one.source)) for one in found.found]
    for line in columns([("setting", "value", "from"), *rows]):
        click.echo(line)


def _told(one: ResolvedSetting) -> object:
    """Return a value as it may be shown: the address of a server may hold a password."""
    return shown_place(str(one.value)) if one.setting.name == "store" else one.value


# Besides connections: the store, blobs, calls of models.
_OWN_DESCRIPTORS = 512


@click.command()
@click.option("--host", help="Address to listen on; otherwise 127.0.0.1. A public one needs keys.")
@click.option("--port", type=click.IntRange(0, 65_535), help="0 takes a free one.")
@click.option(
    "--store",
    metavar="PATH",
    help="The database file, or the postgresql:// URL, with the sessions; ':memory:' keeps nothing.",
)
@click.option(
    "--model",
    multiple=True,
    metavar="REF",
    shell_complete=model_names,
    help='"sim", "openai:NAME"; several are tried in order.',
)
@click.option("--base-url", metavar="URL", help="A server that speaks the model's dialect.")
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
    """Serve sessions over HTTP until Ctrl-C or SIGTERM. Without a model it is the simulated one, which needs no key."""
    flags = {
        "gateway.host": host,
        "gateway.port": port,
        "store": store,
        "model": list(model) or None,
        "base_url": base_url,
    }
    settings = read_configuration(flags=flags, assignments=assignments, path=path).settings
    log_as_json(settings.observing.log)
    _take_descriptors(settings.gateway_bounds.connections_max + _OWN_DESCRIPTORS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings))


def _take_descriptors(wanted: int) -> None:
    """Let this process have as many connections as it takes, as far as it is allowed to."""
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
        # What is loaded now stays for good. Looking through all of it for garbage takes some 20 ms, in which nobody is
        # answered.
        gc.collect()
        gc.freeze()
        click.echo(f"holdfast is served on {url}")
        click.echo(f"  models: {', '.join(settings.model)}   API: {url}/api/openapi.json")
        await ended.wait()
        click.echo("stopping: streams are told to connect again, running turns may end or are left to the next start")
    click.echo("stopped")


# --- The command `keys`: who may use the gateway.


_FILE = "holdfast.keys"
pass_file = click.decorators.pass_meta_key(_FILE)


@click.group()
@config_option
@click.option("--store", metavar="PATH", help="The store whose gateway they are for.")
@click.pass_context
def keys(context: click.Context, path: Path | None, store: str | None) -> None:
    """Make, list and remove the gateway's keys. Each key has its own sessions."""
    settings = read_configuration(path=path, flags={"store": store}).settings
    file = keys_path(settings)
    if file is None:
        raise UsageError(
            "keys are kept beside a store that is a file; for a store in memory or on a server, name a file for them "
            "with the setting gateway.keys_file"
        )
    context.meta[_FILE] = KeyFile(file)


@keys.command()
@click.argument("name")
@json_option
@pass_file
def add(file: KeyFile, name: str, *, as_json: bool) -> None:
    """Make a key and print it. It is shown this once: only its hash is kept."""
    key = file.add(name)
    click.echo(msgspec.json.encode({"name": name, "key": key}) if as_json else key)


@keys.command("list")
@json_option
@pass_file
def list_keys(file: KeyFile, *, as_json: bool) -> None:
    """List the names of the keys."""
    found = file.all()
    if as_json:
        for key in found:
            click.echo(msgspec.json.encode({"name": key.name, "created_at": key.created_at}))
        return
    if not found:
        click.echo("There are no keys; `holdfast keys add NAME` makes one.")
        return
    rows = [(key.name, f"{datetime.fromtimestamp(key.created_at).astimezone():%Y-%m-%d %H:%M}") for key in found]
    for line in columns([("name", "made"), *rows]):
        click.echo(line)


@keys.command()
@click.argument("name")
@json_option
@pass_file
def remove(file: KeyFile, name: str, *, as_json: bool) -> None:
    """Remove a key. A gateway that runs stops taking it within a second; its sessions stay."""
    file.remove(name)
    click.echo(msgspec.json.encode({"removed": name}) if as_json else f"{name} is removed")
