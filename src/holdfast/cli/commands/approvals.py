"""`holdfast approvals`, `approve` and `deny`: tool calls that wait for a person.

These commands write the answer and run nothing: the program that has the tool continues the turn.
"""

import asyncio

import click
import msgspec

from holdfast import wiring
from holdfast.cli.options import configure_logging, key_argument, open_to_read, require_session, store_option
from holdfast.cli.options import store_to_read as existing_store
from holdfast.cli.output import align_columns, json_option, local_time, sanitize, shorten
from holdfast.errors import BadInputError
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.sessions.approving import answer_request, waiting_approvals
from holdfast.runtime.tools.tool_runs import Approval
from holdfast.wiring import Place

# Arguments of a call in a list.
_ARGUMENTS_CHARS = 80
_TUNING = wiring.Tuning(adopts=False)


@click.command()
@click.argument("key", required=False, metavar="[KEY]")
@store_option
@json_option
def approvals(key: str | None, store: Place | None, *, as_json: bool) -> None:
    """List the tool calls that wait for an approval, of the session KEY or of all sessions.

    With --json one JSON object per line.
    """
    configure_logging()

    async def run() -> list[tuple[str, Approval]]:
        async with open_to_read(store) as records:
            if key is not None:
                await require_session(records, key)
            keys = [key] if key is not None else sorted(await records.pending())
            return [(one, waiting) for one in keys for waiting in await waiting_approvals(records, one)]

    found = asyncio.run(run())
    if as_json:
        for session, one in found:
            click.echo(msgspec.json.encode({"session": session, **msgspec.structs.asdict(one)}))
        return
    rows = [
        (session, f"#{one.request}", one.tool, shorten(one.arguments, _ARGUMENTS_CHARS), local_time(one.asked_at))
        for session, one in found
    ]
    for line in align_columns(rows):
        click.echo(sanitize(line))
    if not found:
        click.echo("No tool call waits for an approval.")


@click.command()
@key_argument
@click.argument("request", type=click.IntRange(min=1), required=False, metavar="[REQUEST]")
@store_option
@json_option
def approve(key: str, request: int | None, store: Place | None, *, as_json: bool) -> None:
    """Approve the tool call REQUEST of the session KEY; without a number, the only one that waits.

    The program that has the tool runs the call, at once or when it is started again.
    """
    _answer(key, request, store, is_approved=True, note="", as_json=as_json)


@click.command()
@key_argument
@click.argument("request", type=click.IntRange(min=1), required=False, metavar="[REQUEST]")
@click.option("--note", "-m", default="", metavar="TEXT", help="The reason, which the model reads.")
@store_option
@json_option
def deny(key: str, request: int | None, note: str, store: Place | None, *, as_json: bool) -> None:
    """Deny the tool call REQUEST of the session KEY; without a number, the only one that waits."""
    _answer(key, request, store, is_approved=False, note=note, as_json=as_json)


def _answer(key: str, request: int | None, store: Place | None, *, is_approved: bool, note: str, as_json: bool) -> None:
    configure_logging()

    async def run() -> tuple[int, bool]:
        async with open_to_read(store) as records:
            await require_session(records, key)
        async with wiring.open(existing_store(store), tuning=_TUNING) as client:
            number = request or await _only_request(client.engine, key)
            return number, await answer_request(client.engine, key, number, is_approved=is_approved, note=note)

    number, is_new = asyncio.run(run())
    verb = "approved" if is_approved else "denied"
    if as_json:
        click.echo(msgspec.json.encode({"session": key, "request": number, "answer": verb, "is_new": is_new}))
    elif is_new:
        click.echo(f"Request {number} is {verb}; the program that has the tool continues.")
    else:
        click.echo(f"Request {number} was answered before, or its turn has ended; nothing was changed.")


async def _only_request(engine: Engine, key: str) -> int:
    waiting = await waiting_approvals(engine.store, key)
    if not waiting:
        raise BadInputError(f"no tool call of session {key!r} waits for an approval")
    if len(waiting) > 1:
        numbers = ", ".join(f"{one.request} ({one.tool})" for one in waiting)
        raise BadInputError(f"several tool calls of session {key!r} wait for an approval; name one of {numbers}")
    return waiting[0].request
