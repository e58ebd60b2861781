"""`holdfast rename`, `tag`, `fork`, `branches`, `delete`, `memory` and `version`."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version as version_of

import click
import msgspec

from holdfast import wiring
from holdfast.cli.options import configure_logging, key_argument, open_to_read, require_session, store_option
from holdfast.cli.options import store_to_read as existing_store
from holdfast.cli.output import align_columns, json_option, local_time, sanitize
from holdfast.errors import RetryLaterError, UsageError
from holdfast.runtime.memory.notes import Note
from holdfast.runtime.sessions.admission import check_session_key
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.labels import Labels
from holdfast.runtime.sessions.session import Session
from holdfast.stores.fallbacks import need_session_admin
from holdfast.wiring import Place

# These commands run no turns.
_TUNING = wiring.Tuning(adopts=False)
_LEASE_SECONDS = 30.0


@asynccontextmanager
async def _opened(place: Place | None) -> AsyncGenerator[Client, None]:
    async with wiring.open(existing_store(place), tuning=_TUNING) as client:
        yield client


@asynccontextmanager
async def _session(place: Place | None, key: str) -> AsyncGenerator[tuple[Client, Session], None]:
    async with open_to_read(place) as store:
        await require_session(store, key)
    async with _opened(place) as client:
        yield client, await client.session(key)


def _print_labels(key: str, labels: Labels, *, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode({"session": key, **msgspec.structs.asdict(labels)}))
        return
    tags = "".join(f" #{tag}" for tag in labels.tags)
    click.echo(sanitize(f"session {key!r}: {labels.title or '(no title)'}{tags}"))


@click.command()
@key_argument
@click.argument("title", nargs=-1, required=False)
@click.option("--key", "new_key", metavar="KEY", help="Give the session another key instead.")
@store_option
@json_option
def rename(key: str, title: Sequence[str], new_key: str | None, store: Place | None, *, as_json: bool) -> None:
    """Give the session KEY a TITLE; an empty one returns to the title made from its first message.

    With --key the session gets another key. It must be idle then, and its records must not be in the archive.
    """
    if (new_key is None) == (not title):
        raise click.UsageError("give a TITLE or --key KEY, one of the two")
    configure_logging()

    async def run() -> Labels:
        async with _session(store, key) as (client, session):
            if new_key is None:
                return await session.label(title=" ".join(title))
            await _rekey(client, key, new_key)
            return await (await client.session(new_key)).labels()

    _print_labels(new_key or key, asyncio.run(run()), as_json=as_json)


async def _rekey(client: Client, key: str, new_key: str) -> None:
    check_session_key(new_key)
    store = need_session_admin(client.engine.store, "renaming a session")
    lease = await store.acquire(key, "rename", seconds=_LEASE_SECONDS)
    known = await store.info(key)
    if lease is None or known is None or known.owed:
        if lease is not None:
            await store.release(lease)
        raise RetryLaterError(f"session {key!r} is working; wait for its answer or cancel it, then rename it")
    try:
        lease = await store.rename(lease, new_key, after=known.last_seq)
    finally:
        await store.release(lease)


@click.command()
@key_argument
@click.argument("tags", nargs=-1, required=True)
@click.option("--remove", "-d", is_flag=True, help="Remove these tags.")
@store_option
@json_option
def tag(key: str, tags: Sequence[str], store: Place | None, *, remove: bool, as_json: bool) -> None:
    """Add TAGS to the session KEY. `holdfast sessions --tag TAG` lists the sessions with a tag."""
    configure_logging()

    async def run() -> Labels:
        async with _session(store, key) as (_, session):
            return await (session.untag(*tags) if remove else session.tag(*tags))

    _print_labels(key, asyncio.run(run()), as_json=as_json)


@click.command()
@key_argument
@click.argument("new_key")
@click.option("--at", type=click.IntRange(min=1), metavar="SEQ", help="Copy up to this record. Default: all.")
@store_option
@json_option
def fork(key: str, new_key: str, at: int | None, store: Place | None, *, as_json: bool) -> None:
    """Copy the session KEY into a new session NEW_KEY. Open turns are not continued there."""
    configure_logging()

    async def run() -> int:
        async with _session(store, key) as (_, session):
            known = await (await session.fork(new_key, at=at)).known()
            return known.last_seq if known else 0

    records = asyncio.run(run())
    if as_json:
        click.echo(msgspec.json.encode({"session": new_key, "records": records}))
    else:
        click.echo(sanitize(f"session {new_key!r} has {records:,} records of {key!r}"))


@click.command()
@key_argument
@click.option("--switch", type=click.IntRange(min=1), metavar="HEAD", help="Continue from the branch with this head.")
@store_option
@json_option
def branches(key: str, switch: int | None, store: Place | None, *, as_json: bool) -> None:
    """List the branches of the session KEY: versions that an edit or another answer has left."""
    configure_logging()

    async def run() -> list[tuple[str, str, str]]:
        async with _session(store, key) as (_, session):
            if switch is not None:
                await session.switch(switch)
            found = await session.branches()
        if as_json:
            for branch in found:
                click.echo(msgspec.json.encode(branch))
        return [("*" if one.is_current else " ", str(one.head), sanitize(one.text)) for one in found]

    rows = asyncio.run(run())
    for line in [] if as_json else align_columns([("", "head", "newest message"), *rows]):
        click.echo(line)


@click.command()
@key_argument
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--force", is_flag=True, help="Also if its log is damaged: the rest may be the only copy.")
@store_option
@json_option
def delete(key: str, store: Place | None, *, yes: bool, force: bool, as_json: bool) -> None:
    """Delete the session KEY with its archived records and the blobs that only it names. This cannot be undone."""
    configure_logging()

    async def run() -> None:
        async with _session(store, key) as (client, _):
            if not yes and sys.stdin.isatty() and not as_json:
                click.confirm(f"Delete session {key!r} permanently?", abort=True)
            elif not yes:
                raise UsageError("there is no terminal to ask; use --yes")
            deleted = await client.delete(key, force=force)
        if as_json:
            click.echo(msgspec.json.encode({"session": key, **msgspec.structs.asdict(deleted)}))
        else:
            click.echo(sanitize(f"session {key!r} deleted: {deleted.records:,} records, {deleted.blobs:,} blobs"))

    asyncio.run(run())


@click.command()
@click.argument("scope")
@click.argument("query", nargs=-1)
@click.option("--add", metavar="TEXT", help="Add a note.")
@click.option("--edit", nargs=2, metavar="ID TEXT", help="Replace the text of a note.")
@click.option("--remove", metavar="ID", help="Remove a note.")
@store_option
@json_option
def memory(  # noqa: PLR0913 - one parameter per option, as click hands them over
    scope: str,
    query: Sequence[str],
    add: str | None,
    edit: tuple[str, str] | None,
    remove: str | None,
    store: Place | None,
    *,
    as_json: bool,
) -> None:
    """List the long-term notes of SCOPE, such as a user, or those that match QUERY; or change one."""
    if sum((bool(query), add is not None, edit is not None, remove is not None)) > 1:
        raise click.UsageError("give a QUERY, --add, --edit or --remove, one of them")
    configure_logging()

    async def run() -> list[Note]:
        async with _opened(store) as client:
            notes = client.memory(scope)
            if add is not None:
                return [await notes.add(add)]
            if edit is not None:
                return [await notes.edit(*edit)]
            if remove is not None:
                await notes.remove(remove)
            return await notes.search(" ".join(query)) if query else await notes.notes()

    found = asyncio.run(run())
    if as_json:
        for note in found:
            click.echo(msgspec.json.encode(note))
    elif not found:
        click.echo(sanitize(f"The memory {scope!r} has no notes{' that match' if query else ''}."))
    for note in [] if as_json else found:
        click.echo(sanitize(f"{note.id}  {local_time(note.updated_at)}  {note.text}"))


@click.command()
@json_option
def version(*, as_json: bool) -> None:
    """Print the version of Holdfast."""
    found = version_of("holdfast")
    click.echo(msgspec.json.encode({"version": found}) if as_json else f"holdfast {found}")
