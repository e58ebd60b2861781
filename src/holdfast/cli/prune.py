"""The command `prune`: remove the sessions that nobody has touched for a long time."""

import asyncio
import time

import click
import msgspec

from holdfast import wiring
from holdfast.cli.opening import reading, send_logs, store_option, store_to_read
from holdfast.cli.paper import columns, harmless, json_option, local_time
from holdfast.ports import SessionInfo
from holdfast.runtime.deleting import SECONDS_PER_DAY, DeletedAll, check_days, untouched
from holdfast.wiring import Place


class Pruned(msgspec.Struct, frozen=True):
    """What is printed for programs: what was found untouched, and what came of it; null where it was only looked at."""

    found: tuple[SessionInfo, ...]
    deleted: DeletedAll | None


@click.command()
@store_option
@click.option("--older-than", "days", type=float, required=True, metavar="DAYS", help="Untouched for so many days.")
@click.option("--dry-run", is_flag=True, help="List what would go, and remove nothing.")
@json_option
def prune(store: Place | None, days: float, *, dry_run: bool, as_json: bool) -> None:
    """Remove the sessions for good that nobody has touched for DAYS, with their archived records and blobs.

    One with an open turn stays, and so does one that somebody works on or that is damaged. Nothing is ever removed
    unless this is called, or `retention.days` is set where `holdfast serve` reads it.
    """
    send_logs()
    pruned = asyncio.run(_prune(store, check_days(days), dry_run=dry_run))
    if as_json:
        click.echo(msgspec.json.encode(pruned))
        return
    if not pruned.found:
        click.echo(f"No session was untouched for {days:g} days.")
        return
    header = ("session", "records", "last change")
    rows = [(harmless(one.key), f"{one.last_seq:,}", local_time(one.updated_at)) for one in pruned.found]
    for line in columns([header, *rows]):
        click.echo(line)
    if pruned.deleted is None:
        click.echo(f"{len(pruned.found):,} sessions would go; nothing was removed")
        return
    for sentence in pruned.deleted.stayed.values():
        click.echo(harmless(sentence))
    click.echo(
        f"{len(pruned.deleted.sessions):,} sessions removed, with {pruned.deleted.records:,} records, "
        f"{pruned.deleted.segments:,} segments and {pruned.deleted.blobs:,} blobs"
    )


async def _prune(place: Place | None, days: float, *, dry_run: bool) -> Pruned:
    async with reading(place) as store:
        found = tuple(await untouched(store, time.time() - days * SECONDS_PER_DAY))
    if dry_run or not found:
        return Pruned(found, None)
    async with wiring.open(store_to_read(place), tuning=wiring.Tuning(adopts=False)) as hold:
        return Pruned(found, await hold.prune(days=days))
