"""`holdfast estimate`: how many tokens and bytes the messages of a transcript would take in a request."""

from pathlib import Path

import click
import msgspec

from holdfast.cli.paper import json_option
from holdfast.cli.transcript import passages_of, read_session
from holdfast.core.sizing import bytes_of_message, tokens_of_message


class Size(msgspec.Struct, frozen=True):
    """What one message takes."""

    seq: int
    role: str
    tokens: int
    bytes: int


class Sizes(msgspec.Struct, frozen=True):
    """What a session takes, message by message and in total."""

    session: str
    messages: tuple[Size, ...]
    tokens: int
    bytes: int


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--session", help="The session, where the file has several.")
@json_option
def estimate(file: Path, session: str | None, *, as_json: bool) -> None:
    """Estimate the tokens and bytes of every message, and of all of them.

    FILE is a transcript in the neutral format, .jsonl or .jsonl.gz. Nothing is sent anywhere. A model's own count is
    usually within 15 percent; a running session learns the difference from the usage that the model reports.
    """
    found = read_session(file, session)
    sizes = tuple(
        Size(
            passage.seq,
            passage.message.role.value,
            tokens_of_message(passage.message),
            bytes_of_message(passage.message),
        )
        for passage in passages_of(found)
    )
    total = Sizes(found[0].session_id, sizes, sum(size.tokens for size in sizes), sum(size.bytes for size in sizes))
    if as_json:
        click.echo(msgspec.json.encode(total))
        return
    click.echo(f"{'seq':>8}  {'role':<9}  {'tokens':>10}  {'bytes':>12}")
    for size in sizes:
        click.echo(f"{size.seq:>8}  {size.role:<9}  {size.tokens:>10,}  {size.bytes:>12,}")
    click.echo(f"{len(sizes):>8}  {'in all':<9}  {total.tokens:>10,}  {total.bytes:>12,}")
