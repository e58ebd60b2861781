"""`holdfast sim`: serve the simulated model over HTTP."""

import asyncio

import click

from holdfast.errors import OperatorError, UsageError
from holdfast.models.fake import DEFAULT_LIMITS, Simulation
from holdfast.models.fake.server import CONTROL_PATH, serve_simulation
from holdfast.types.limits import Limits


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=0, show_default=True, type=click.IntRange(0, 65_535), help="0 chooses a free port.")
@click.option("--window", default=DEFAULT_LIMITS.window_tokens, show_default=True, help="Context window in tokens.")
@click.option("--output", default=DEFAULT_LIMITS.output_tokens_max, show_default=True, help="Output token limit.")
@click.option("--wire-bytes", type=click.IntRange(min=1), help="Limit of the request body in bytes.")
@click.option("--faults", default="", metavar="SCRIPT", help='Outcome of each request in order: "429*2,ok,cut".')
def sim(*, host: str, port: int, window: int, output: int, wire_bytes: int | None, faults: str) -> None:
    """Serve the simulated model until Ctrl-C. It implements the OpenAI and Anthropic APIs and needs no key."""
    limits = Limits(window, output, wire_bytes)
    try:
        simulation = Simulation(limits, faults=faults)
    except UsageError as error:
        raise click.BadParameter(str(error), param_hint="--faults") from error
    try:
        asyncio.run(_serve(simulation, host, port))
    except KeyboardInterrupt:
        click.echo("stopped")
    except OSError as error:
        raise OperatorError(
            f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port"
        ) from error


async def _serve(simulation: Simulation, host: str, port: int) -> None:
    async with serve_simulation(simulation, host, port) as url:
        click.echo(f"simulated model on {url}")
        click.echo(f"  OPENAI_BASE_URL={url}/v1  ANTHROPIC_BASE_URL={url}  (any key)")
        click.echo(f"  faults and limits: POST {url}{CONTROL_PATH}; counters: GET {url}{CONTROL_PATH}")
        await asyncio.Event().wait()
