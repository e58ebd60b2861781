"""The command `doctor`: whether a store is as it must be, in plain words, and putting it right."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from holdfast.cli.completion import session_keys
from holdfast.cli.exit_codes import FOUND
from holdfast.cli.options import known_session, reading, send_logs, store_option, store_to_read
from holdfast.cli.output import harmless, showing
from holdfast.errors import UsageError
from holdfast.runtime.maintenance.doctor import Finding
from holdfast.wiring import Place
from holdfast.wiring.doctor import Checkup, check_server, check_store, copy_first, repair, repair_server


class Told(msgspec.Struct, frozen=True):
    """What is printed for programs: what was found, and with --fix what was done and is left."""

    found: Checkup
    backup: str = ""
    left: Checkup | None = None
    undone: tuple[str, ...] = ()


@click.command()
@store_option
@click.option("--session", "key", metavar="KEY", shell_complete=session_keys, help="Look at this session alone.")
@click.option("--fix", is_flag=True, help="Repair what can be repaired, after a backup beside the store.")
@click.option("--dumped", is_flag=True, help="A store on a server: pg_dump has kept a copy, so --fix may go on.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
@click.pass_context
def doctor(ctx: click.Context, store: Place | None, key: str | None, *, fix: bool, dumped: bool, as_json: bool) -> None:
    """Check a store: its file, every record, fold and counter, tool pairs, what the model sees, blobs and segments.

    Without --fix nothing is written, and others may use the store meanwhile. Exit code 0: all is well. 3: something was
    found, and with --fix could not all be repaired. Any other: it could not be checked. Of a store on a server the
    sessions are checked; its database has pg_amcheck, and --fix needs a dump that you made before (--dumped).
    """
    send_logs()
    place = store_to_read(store)
    if isinstance(place, str):
        if fix and not dumped:
            raise UsageError("--fix changes what is damaged: keep a copy first with pg_dump, then say so with --dumped")
        told = asyncio.run(_doctor_of_server(place, key, fix=fix))
    else:
        told = asyncio.run(_doctor(place, key, fix=fix))
    if as_json:
        click.echo(msgspec.json.encode(told))
    else:
        for line in _lines(told, fix=fix):
            click.echo(harmless(line))
    if (told.left or told.found).findings:
        ctx.exit(FOUND)


async def _doctor(path: Path, key: str | None, *, fix: bool) -> Told:
    if key is not None:
        async with reading(path) as store:
            await known_session(store, key)
    with showing() as progress:
        found = await check_store(path, key, progress)
    if not fix or not found.findings:
        return Told(found)
    backup = await asyncio.to_thread(copy_first, path)
    undone = await repair(path, found)
    with showing() as progress:
        return Told(found, str(backup), await check_store(path, key, progress), tuple(undone))


async def _doctor_of_server(url: str, key: str | None, *, fix: bool) -> Told:
    if key is not None:
        async with reading(url) as store:
            await known_session(store, key)
    with showing() as progress:
        found = await check_server(url, key, progress)
    if not fix or not found.findings:
        return Told(found)
    undone = await repair_server(url, found)
    with showing() as progress:
        return Told(found, "", await check_server(url, key, progress), tuple(undone))


def _lines(told: Told, *, fix: bool) -> Iterator[str]:
    found = told.found
    yield f"{found.store}: layout {found.layout}, {_count(found.sessions, 'session')} looked at"
    for finding in found.findings:
        yield _line(finding)
    for note in found.notes:
        yield f"note: {note}"
    if not found.findings:
        yield "All is well."
        return
    if not fix:
        count = _count(len(found.findings), "finding")
        yield f"{count}. Nothing was changed; `holdfast doctor --fix` repairs what it can."
        return
    if told.backup:
        yield f"Backup: {told.backup}"
    for sentence in told.undone:
        yield f"Not repaired: {sentence}"
    left = told.left.findings if told.left else ()
    for finding in left:
        yield f"Left: {_line(finding)}"
    yield "Repaired; all is well now." if not left else f"{_count(len(left), 'finding')} left."


def _line(finding: Finding) -> str:
    where = f"session {finding.session!r}" + (f", record {finding.seq}" if finding.seq else "")
    what = f"{where}: {finding.what}" if finding.session else finding.what
    return f"{what} [{finding.remedy or 'not repaired by --fix'}]"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
