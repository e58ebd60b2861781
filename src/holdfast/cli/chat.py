"""The command `chat`: talk with a model in a session that outlives crashes."""

import asyncio
import contextlib
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import click

from holdfast import wiring
from holdfast.cli.models import base_url_option, model_option, open_models
from holdfast.cli.opening import check_message, send_logs, store_option, store_to_write
from holdfast.cli.past import look_back
from holdfast.cli.side_loop import SideLoop
from holdfast.cli.talk import Talk
from holdfast.core.limits import Bounds
from holdfast.errors import BadInputError
from holdfast.runtime.admission import check_session_key
from holdfast.wiring import Place

with contextlib.suppress(ImportError):
    # Where there is one, importing it gives `input` editing and a history.
    import readline  # noqa: F401

# Stands in for what is not written yet where only the attachments are to be checked.
_ANY_TEXT = "…"
# A chat resumes its own session and no other, and somebody who leaves does not want to wait: what is not finished by
# then goes on at the next start.
_TUNING = wiring.Tuning(adopts=False, grace_seconds=1.0)


@click.command()
@click.argument("message", nargs=-1)
@click.option("--session", "key", default="default", show_default=True, metavar="KEY", help="Which conversation.")
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
def chat(  # noqa: PLR0913, PLR0917 - one parameter per option, as click hands them over
    message: Sequence[str],
    key: str,
    store: Place | None,
    models: Sequence[str],
    base_url: str | None,
    system: str | None,
    attachments: Sequence[Path],
    faults: str | None,
) -> None:
    """Talk with a model. With a MESSAGE, or one on standard input, answer it and exit.

    The conversation is kept: come back with the same --session and it goes on, also after a crash. Ctrl-C stops an
    answer, Ctrl-D leaves.
    """
    send_logs()
    text = " ".join(message) if message else _piped()
    check_session_key(key)
    # All of this before a store is made: what is refused leaves nothing behind.
    if text is not None or attachments:
        asyncio.run(check_message(_ANY_TEXT if text is None else text, attachments))
    if system:
        asyncio.run(check_message(system, ()))
    opened = open_models(models, base_url=base_url, faults=faults)
    path = store_to_write(store)
    with SideLoop() as loop:
        past = loop.run(look_back(path, key))
        stack = AsyncExitStack()
        try:
            opening = wiring.open(path, model=opened, tuning=_TUNING)
            hold = loop.run(stack.enter_async_context(opening))
            talk = Talk(loop, loop.run(hold.session(key, system=system)), past)
            if text is None:
                talk.converse(attachments, model=opened[0].name)
            else:
                talk.send_once(text, attachments)
        finally:
            loop.run(stack.aclose())


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
