"""`holdfast digest`: what the view would hold in place of the older messages of a transcript."""

from pathlib import Path

import click
import msgspec

from holdfast.cli.paper import harmless, json_option
from holdfast.cli.transcript import passages_of, read_session
from holdfast.core.digest import represent
from holdfast.errors import UsageError

# What a summary takes in a window of a hundred thousand tokens without being felt.
_TOKENS_MAX = 3_000


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--session", help="The session, where the file has several.")
@click.option("--until", type=int, metavar="SEQ", help="Stand in for the messages before this one. Default: all.")
@click.option("--max-tokens", type=click.IntRange(min=1), default=_TOKENS_MAX, show_default=True)
@json_option
def digest(file: Path, session: str | None, until: int | None, max_tokens: int, *, as_json: bool) -> None:
    """Print what would stand in the view in place of older messages.

    FILE is a transcript in the neutral format, .jsonl or .jsonl.gz. No model is asked.
    """
    messages = read_session(file, session)
    passages = passages_of([message for message in messages if until is None or message.seq < until])
    if not passages:
        raise UsageError(f"there are no messages before {until}; the first one is {messages[0].seq}")
    text = represent(passages, tokens_max=max_tokens)
    click.echo(msgspec.json.encode({"messages": len(passages), "text": text}) if as_json else harmless(text))
