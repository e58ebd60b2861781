"""The command `serve`: the gateway, until somebody ends it."""

import asyncio
import gc
import resource
import signal
from pathlib import Path

import click
import uvloop

from holdfast.cli.completing import model_names
from holdfast.cli.config import config_option, set_option
from holdfast.config.reading import read_configuration
from holdfast.config.schema import Settings
from holdfast.gateway.logs import log_as_json
from holdfast.wiring import open_gateway

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
