"""The command `chat`: talk with a model in a session that outlives crashes."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from holdfast import wiring
from holdfast.cli.chat.one_shot import Once
from holdfast.cli.chat.recap import Past, look_back
from holdfast.cli.chat.repl import Lines, Talk
from holdfast.cli.completion import session_keys
from holdfast.cli.options import (
    base_url_option,
    check_message,
    model_option,
    open_models,
    send_logs,
    store_option,
    store_to_write,
)
from holdfast.cli.output import is_plain
from holdfast.core.limits.bounds import Bounds
from holdfast.errors import BadInputError
from holdfast.ports import Model
from holdfast.runtime.sessions.admission import check_session_key
from holdfast.runtime.sessions.session import Session
from holdfast.wiring import Place

# Stands in for what is not written yet where only the attachments are to be checked.
_ANY_TEXT = "…"
# A chat resumes its own session and no other, and somebody who leaves does not want to wait: what is not finished by
# then goes on at the next start.
_TUNING = wiring.Tuning(adopts=False, grace_seconds=1.0)


@click.command()
@click.argument("message", nargs=-1)
@click.option(
    "--session",
    "key",
    default="default",
    show_default=True,
    metavar="KEY",
    shell_complete=session_keys,
    help="Which conversation.",
)
@store_option
@model_option
@base_url_option
@click.option("--system", metavar="TEXT", help="What the model is told first; kept with the session.")
@click.option(
    "--attach",
    "attachments",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Send a text, an image or a PDF along with the first message.",
)
@click.option("--faults", metavar="SCRIPT", help='How the simulated model fails, request by request: "429*2,ok,cut".')
@click.option("--plain", is_flag=True, help="No Markdown and nothing drawn anew, as in a dumb terminal or a pipe.")
@click.option("--json", "as_json", is_flag=True, help="With a message: print its answer as JSON, for programs.")
def chat(  # noqa: PLR0913, PLR0917 - one parameter per option, as click hands them over
    message: Sequence[str],
    key: str,
    store: Place | None,
    models: Sequence[str],
    base_url: str | None,
    system: str | None,
    attachments: Sequence[Path],
    faults: str | None,
    *,
    plain: bool,
    as_json: bool,
) -> None:
    """Talk with a model. With a MESSAGE, or one on standard input, answer it and exit.

    The conversation is kept: come back with the same --session and it goes on, also after a crash. You may write while
    an answer comes in: what you send waits its turn, on disk. Ctrl-C stops an answer, twice leaves; /help lists what
    else you can order.
    """
    send_logs()
    text = " ".join(message) if message else _piped()
    check_session_key(key)
    if text is None and as_json:
        raise click.UsageError("--json is for a single message; write one behind the command.")
    # All of this before a store is made: what is refused leaves nothing behind.
    if text is not None or attachments:
        asyncio.run(check_message(_ANY_TEXT if text is None else text, attachments))
    if system:
        asyncio.run(check_message(system, ()))
    opened = open_models(models, base_url=base_url, faults=faults)
    path = store_to_write(store)

    async def talk() -> bool:
        past = await look_back(path, key)
        async with wiring.open(path, model=opened, tuning=_TUNING) as client:
            session = await client.session(key, system=system)
            if text is not None:
                return await Once(session, past).send(text, attachments, as_json=as_json, is_plain_wanted=plain)
            return await _converse(session, past, opened[0], attachments, is_plain_wanted=plain)

    if asyncio.run(talk()):
        raise KeyboardInterrupt


async def _converse(
    session: Session, past: Past, model: Model, attachments: Sequence[Path], *, is_plain_wanted: bool
) -> bool:
    """Talk until the person leaves, and return whether they did so by Ctrl-C."""
    talk = Talk(session, past, model=model.name)
    talk.attachments += attachments
    if is_plain_wanted or is_plain(sys.stdout):
        async with Lines(talk.interrupt) as lines:
            await talk.converse(lines)
        return talk.was_interrupted
    from holdfast.cli.chat.tui import Screen  # noqa: PLC0415 - slow to load, and for a person at a terminal only

    async with Screen(status=talk.status, is_busy=talk.is_busy, interrupt=talk.interrupt) as screen:
        screen.remember(past.asked)
        await talk.converse(screen)
    return talk.was_interrupted


def _piped() -> str | None:
    """Return what was piped in, or None where a person sits at a terminal."""
    if sys.stdin is None:
        raise BadInputError("there is no message and no standard input; write a message behind the command")
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
            f"{error.start + 1:,}); convert it, or use --attach for what is not text"
        ) from error
