"""Which models a command was told to use."""

import os
from collections.abc import Sequence

import click

from holdfast.cli.completing import model_names
from holdfast.errors import UsageError
from holdfast.models.catalogue import open_model
from holdfast.models.simulated import Simulation
from holdfast.ports import Model
from holdfast.wiring import model_overrides

DEFAULT_MODEL = "sim"

model_option = click.option(
    "--model",
    "models",
    multiple=True,
    metavar="REF",
    shell_complete=model_names,
    help='"sim", "openai:NAME", "responses:NAME", "anthropic:NAME" or "gemini:NAME"; several are tried in order. '
    "Otherwise HOLDFAST_MODEL, else sim.",
)
base_url_option = click.option("--base-url", metavar="URL", help="A server that speaks the model's dialect.")


def open_models(models: Sequence[str], *, base_url: str | None, faults: str | None = None) -> list[Model]:
    """Open the models that were named. Nothing is connected before the first request.

    `faults` is the script of the simulated model; it is refused where another model is named.
    """
    references = list(models) or [os.environ.get("HOLDFAST_MODEL", "").strip() or DEFAULT_MODEL]
    simulation = None
    if faults is not None:
        real = [reference for reference in references if reference.partition(":")[0] != "sim"]
        if real:
            raise UsageError(f"--faults is a script for the simulated model; {real[0]!r} cannot be told how to fail")
        simulation = Simulation(faults=faults)
    overrides = model_overrides()
    return [
        open_model(reference, base_url=base_url, environ=os.environ, simulation=simulation, overrides=overrides)
        for reference in references
    ]
