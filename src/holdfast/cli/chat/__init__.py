"""`holdfast chat`: chat with a model in a session that survives crashes."""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from holdfast import wiring
from holdfast.cli.chat.one_shot import OneShot
from holdfast.cli.chat.repl import LineTerminal, Repl
from holdfast.cli.chat.slash_commands import changed_settings
from holdfast.cli.chat.turn_printer import Recap, load_recap
from holdfast.cli.completion import session_keys
from holdfast.cli.configuration import settings, tuning
from holdfast.cli.options import (
    base_url_option,
    check_message,
    configure_logging,
    model_option,
    open_models,
    store_option,
    store_to_write,
)
from holdfast.cli.output import is_plain
from holdfast.core.limits.bounds import Bounds
from holdfast.errors import BadInputError
from holdfast.runtime.outputs import output_type
from holdfast.runtime.sessions.admission import check_session_key
from holdfast.types.settings import NO_SETTINGS
from holdfast.wiring import Place

# Placeholder text to check attachments before the first message is typed.
_ANY_TEXT = "…"
# Leaving does not wait long: unfinished turns resume at the next start.
_GRACE_SECONDS = 1.0


@click.command()
@click.argument("message", nargs=-1)
@click.option(
    "--session",
    "-s",
    "key",
    default="default",
    show_default=True,
    metavar="KEY",
    shell_complete=session_keys,
    help="Session key.",
)
@store_option
@model_option
@base_url_option
@click.option("--system", metavar="TEXT", help="System text; stored with the session.")
@click.option(
    "--attach",
    "-a",
    "attachments",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Attach a text, image or PDF to the first message.",
)
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="Setting of the model's requests, such as temperature=0.2; stored with the session.",
)
@click.option(
    "--output",
    "output_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With a message: a JSON Schema; the answer is JSON of it.",
)
@click.option("--faults", metavar="SCRIPT", help='Faults of the simulated model, request by request: "429*2,ok,cut".')
@click.option("--plain", is_flag=True, help="No Markdown and no redrawing, as in a dumb terminal or a pipe.")
@click.option("--json", "as_json", is_flag=True, help="With a message: print its answer as JSON.")
def chat(  # noqa: PLR0913, PLR0917 - one parameter per option, as click hands them over
    message: Sequence[str],
    key: str,
    store: Place | None,
    models: Sequence[str],
    base_url: str | None,
    system: str | None,
    attachments: Sequence[Path],
    pairs: Sequence[str],
    output_file: Path | None,
    faults: str | None,
    *,
    plain: bool,
    as_json: bool,
) -> None:
    """Chat with a model. With a MESSAGE, or one on standard input, print the answer and exit.

    The session is stored: the same --session continues it, also after a crash. You can type while an answer streams;
    messages are queued on disk. Ctrl-C stops an answer, twice leaves; /help lists the slash commands.
    """
    configure_logging()
    text = " ".join(message) if message else _piped()
    check_session_key(key)
    if text is None and as_json:
        raise click.UsageError("--json needs a message; put one after the command.")
    if text is None and output_file is not None:
        raise click.UsageError("--output needs a message; put one after the command.")
    output = _schema(output_file) if output_file is not None else None
    changed_settings(NO_SETTINGS, pairs)
    # Validate before a store is created, so that an error leaves nothing behind.
    if text is not None or attachments:
        asyncio.run(check_message(_ANY_TEXT if text is None else text, attachments))
    if system:
        asyncio.run(check_message(system, ()))
    opened = open_models(models, base_url=base_url, faults=faults)
    path, default_system, used = store_to_write(store), settings().system, tuning(grace_seconds=_GRACE_SECONDS)

    async def run() -> bool:
        recap = await load_recap(path, key)
        # A chat resumes only its own session.
        opening = wiring.open(path, model=opened, system=default_system, tuning=used)
        async with opening as client:
            session = await client.session(key, system=system)
            if pairs:
                kept = (await session.state()).settings or NO_SETTINGS
                await client.session(key, settings=changed_settings(kept, pairs))
            if text is not None:
                shot = OneShot(session, recap, output)
                return await shot.send(text, attachments, as_json=as_json, is_plain_wanted=plain)
            repl = Repl(client, session, recap, model=opened[0].name)
            return await _converse(repl, recap, attachments, is_plain_wanted=plain)

    if asyncio.run(run()):
        raise KeyboardInterrupt


def _schema(file: Path) -> Mapping[str, Any]:
    """Read a JSON Schema. Raises `BadInputError`."""
    try:
        schema = json.loads(file.read_bytes())
    except OSError as error:
        raise BadInputError(f"--output {file}: {error.strerror or error}") from error
    except ValueError as error:
        raise BadInputError(f"--output {file} is not JSON: {error}") from error
    if not isinstance(schema, dict):
        raise BadInputError(f"--output {file} is not a JSON Schema: it must be an object")
    output_type(schema, bytes_max=Bounds().output_schema_bytes_max)
    return schema


async def _converse(repl: Repl, recap: Recap, attachments: Sequence[Path], *, is_plain_wanted: bool) -> bool:
    """Chat until the user leaves, and return whether they left by Ctrl-C."""
    repl.attachments += attachments
    if is_plain_wanted or is_plain(sys.stdout):
        async with LineTerminal(repl.interrupt) as lines:
            await repl.run(lines)
        return repl.was_interrupted
    from holdfast.cli.chat.tui import TuiTerminal  # noqa: PLC0415 - slow to load, for terminals only

    async with TuiTerminal(status=repl.status, is_busy=repl.is_busy, interrupt=repl.interrupt) as screen:
        screen.remember(recap.messages)
        await repl.run(screen)
    return repl.was_interrupted


def _piped() -> str | None:
    """Return the message on standard input; None if it is a terminal."""
    if sys.stdin is None:
        raise BadInputError("there is no message and no standard input; put a message after the command")
    if sys.stdin.isatty():
        return None
    bytes_max = Bounds().message_bytes_max
    raw = sys.stdin.buffer.read(bytes_max + 1)
    if len(raw) > bytes_max:
        raise BadInputError(
            f"the message on standard input has more than {bytes_max:,} bytes; save it as a file and use --attach"
        )
    try:
        return raw.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise BadInputError(
            f"the message on standard input is not UTF-8 (byte {raw[error.start]:#04x} at position "
            f"{error.start + 1:,}); convert it, or use --attach for binary files"
        ) from error
