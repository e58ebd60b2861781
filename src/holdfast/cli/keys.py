"""The command `keys`: who may use the gateway."""

from datetime import datetime
from pathlib import Path

import click
import msgspec

from holdfast.cli.config import config_option
from holdfast.cli.paper import columns, json_option
from holdfast.config.reading import read_configuration
from holdfast.errors import UsageError
from holdfast.gateway.keys import KeyFile
from holdfast.wiring import keys_path

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
