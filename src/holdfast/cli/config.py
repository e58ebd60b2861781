"""The command `config`: what is set, and where it came from."""

from pathlib import Path

import click
import msgspec

from holdfast.cli.paper import columns, harmless, json_option
from holdfast.config.reading import Found, read_configuration, shown
from holdfast.config.telling import example
from holdfast.wiring import shown_place

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
    rows = [(one.setting.name, harmless(shown(_told(one))), harmless(one.source)) for one in found.found]
    for line in columns([("setting", "value", "from"), *rows]):
        click.echo(line)


def _told(one: Found) -> object:
    """Return a value as it may be shown: the address of a server may hold a password."""
    return shown_place(str(one.value)) if one.setting.name == "store" else one.value
