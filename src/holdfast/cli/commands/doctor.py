"""`holdfast doctor`: check a store and repair it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from holdfast.cli.completion import session_keys
from holdfast.cli.exit_codes import FOUND
from holdfast.cli.options import configure_logging, open_to_read, require_session, store_option, store_to_read
from holdfast.cli.output import progress_bar, sanitize
from holdfast.errors import UsageError
from holdfast.runtime.maintenance.doctor import Finding
from holdfast.wiring import Place
from holdfast.wiring.doctor import Checkup, check_server, check_store, copy_first, repair, repair_server


class DoctorOutput(msgspec.Struct, frozen=True):
    """JSON output: the findings, and with --fix the backup and the findings that are left."""

    found: Checkup
    backup: str = ""
    left: Checkup | None = None
    undone: tuple[str, ...] = ()


@click.command()
@store_option
@click.option("--session", "key", metavar="KEY", shell_complete=session_keys, help="Check only this session.")
@click.option("--fix", is_flag=True, help="Back up the store, then repair it.")
@click.option("--dumped", is_flag=True, help="PostgreSQL: confirm that you made a pg_dump, so that --fix may run.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
@click.pass_context
def doctor(ctx: click.Context, store: Place | None, key: str | None, *, fix: bool, dumped: bool, as_json: bool) -> None:
    """Check a store: its file, every record, fold and counter, tool pairs, the model's view, blobs and segments.

    Without --fix nothing is written, and the store may be in use. Exit code 0: no findings. 3: findings, which --fix
    could not all repair. Any other: the check did not run. On PostgreSQL the sessions are checked; for the database use
    pg_amcheck, and make a dump before --fix (--dumped).
    """
    configure_logging()
    place = store_to_read(store)
    if isinstance(place, str):
        if fix and not dumped:
            raise UsageError("--fix changes damaged records: make a copy with pg_dump first, then add --dumped")
        output = asyncio.run(_doctor_of_server(place, key, fix=fix))
    else:
        output = asyncio.run(_doctor(place, key, fix=fix))
    if as_json:
        click.echo(msgspec.json.encode(output))
    else:
        for line in _lines(output, fix=fix):
            click.echo(sanitize(line))
    if (output.left or output.found).findings:
        ctx.exit(FOUND)


async def _doctor(path: Path, key: str | None, *, fix: bool) -> DoctorOutput:
    if key is not None:
        async with open_to_read(path) as store:
            await require_session(store, key)
    with progress_bar() as progress:
        found = await check_store(path, key, progress)
    if not fix or not found.findings:
        return DoctorOutput(found)
    backup = await asyncio.to_thread(copy_first, path)
    undone = await repair(path, found)
    with progress_bar() as progress:
        return DoctorOutput(found, str(backup), await check_store(path, key, progress), tuple(undone))


async def _doctor_of_server(url: str, key: str | None, *, fix: bool) -> DoctorOutput:
    if key is not None:
        async with open_to_read(url) as store:
            await require_session(store, key)
    with progress_bar() as progress:
        found = await check_server(url, key, progress)
    if not fix or not found.findings:
        return DoctorOutput(found)
    undone = await repair_server(url, found)
    with progress_bar() as progress:
        return DoctorOutput(found, "", await check_server(url, key, progress), tuple(undone))


def _lines(output: DoctorOutput, *, fix: bool) -> Iterator[str]:
    found = output.found
    yield f"{found.store}: layout {found.layout}, {_count(found.sessions, 'session')} checked"
    for finding in found.findings:
        yield _line(finding)
    for note in found.notes:
        yield f"note: {note}"
    if not found.findings:
        yield "No problems found."
        return
    if not fix:
        count = _count(len(found.findings), "finding")
        yield f"{count}. Nothing was changed; `holdfast doctor --fix` repairs what it can."
        return
    if output.backup:
        yield f"Backup: {output.backup}"
    for sentence in output.undone:
        yield f"Not repaired: {sentence}"
    left = output.left.findings if output.left else ()
    for finding in left:
        yield f"Left: {_line(finding)}"
    yield "Repaired; no problems left." if not left else f"{_count(len(left), 'finding')} left."


def _line(finding: Finding) -> str:
    where = f"session {finding.session!r}" + (f", record {finding.seq}" if finding.seq else "")
    what = f"{where}: {finding.what}" if finding.session else finding.what
    return f"{what} [{finding.remedy or 'not repaired by --fix'}]"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
