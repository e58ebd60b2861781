"""`holdfast search`: full-text search over everything in a session."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import click
import msgspec

from holdfast.cli.options import configure_logging, key_argument, open_to_read, require_session, store_option
from holdfast.cli.output import sanitize
from holdfast.errors import BadInputError
from holdfast.ports import Hit, Store
from holdfast.types.records import origin_of
from holdfast.wiring import Place

# A file of queries is read into memory.
_QUERIES_BYTES_MAX = 64 * 2**20


class SearchHit(msgspec.Struct, frozen=True):
    """JSON output of a hit. `origin` is the number of an imported message in its own transcript."""

    origin: int | None
    seq: int
    score: float
    excerpt: str
    # For a tool step: the record of the call, and the origin of its message.
    call: int | None = None
    call_origin: int | None = None


class QueryResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """A query with its hits."""

    query: str
    hits: list[SearchHit]
    id: str | int | None = None


class _Query(msgspec.Struct):
    query: str | None = None
    question: str | None = None
    id: str | int | None = None
    qid: str | int | None = None


@click.command()
@key_argument
@click.argument("query", required=False)
@click.option(
    "--queries",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help='One query per line, as text or as JSON such as {"query": "...", "id": "..."}.',
)
@click.option("--limit", default=10, show_default=True, type=click.IntRange(min=1, max=1_000), help="Hits per query.")
@store_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per hit; with --queries, per query.")
def search(
    key: str, query: str | None, queries: Path | None, limit: int, store: Place | None, *, as_json: bool
) -> None:
    """Find messages and tool steps of the session KEY by words, a path, a name or an id.

    All records are searched, also those that the model no longer sees. `holdfast show KEY --after N` prints the records
    around a hit.
    """
    if (query is None) == (queries is None):
        raise click.UsageError("give a QUERY or --queries FILE, one of the two")
    configure_logging()
    asyncio.run(_search(store, key, _read_queries(query, queries), limit, as_json=as_json, is_many=queries is not None))


def _read_queries(query: str | None, path: Path | None) -> list[_Query]:
    if path is None:
        return [_Query(query)]
    if path.stat().st_size > _QUERIES_BYTES_MAX:
        raise BadInputError(f"{path} has more than {_QUERIES_BYTES_MAX:,} bytes; split it")
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return [_parse_query(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()]


def _parse_query(path: Path, number: int, line: str) -> _Query:
    if not line.lstrip().startswith(("{", '"')):
        return _Query(line.strip())
    try:
        found = msgspec.json.decode(line, type=_Query | str)
    except msgspec.DecodeError as error:
        raise BadInputError(f"{path}, line {number}: invalid JSON query ({error})") from error
    query = _Query(found) if isinstance(found, str) else found
    if query.query is None and query.question is None:
        raise BadInputError(f'{path}, line {number}: it has neither "query" nor "question"')
    return query


async def _search(
    place: Place | None, key: str, questions: list[_Query], limit: int, *, as_json: bool, is_many: bool
) -> None:
    async with open_to_read(place) as store:
        await require_session(store, key)
        async for result in _results(store, key, questions, limit):
            if as_json and is_many:
                click.echo(msgspec.json.encode(result))
            elif as_json:
                for hit in result.hits:
                    click.echo(msgspec.json.encode(hit))
            else:
                _print(result, is_many=is_many)


async def _results(store: Store, key: str, questions: list[_Query], limit: int) -> AsyncIterator[QueryResult]:
    for question in questions:
        query = question.query if question.query is not None else question.question or ""
        hits = [await _search_hit(store, key, hit) for hit in await store.search(key, query, limit=limit)]
        yield QueryResult(query, hits, question.id if question.id is not None else question.qid)


async def _search_hit(store: Store, key: str, hit: Hit) -> SearchHit:
    return SearchHit(
        origin=await _origin(store, key, hit.seq),
        seq=hit.seq,
        score=round(hit.score, 4),
        excerpt=hit.excerpt,
        call=hit.call or None,
        call_origin=await _origin(store, key, hit.call) if hit.call else None,
    )


async def _origin(store: Store, key: str, seq: int) -> int | None:
    [logged] = await store.read(key, after=seq - 1, limit=1)
    return origin_of(logged.record)


def _print(result: QueryResult, *, is_many: bool) -> None:
    if is_many:
        click.echo(f"? {sanitize(result.query)}")
    for hit in result.hits:
        click.echo(f"[#{hit.seq}] {sanitize(hit.excerpt)}")
    if not result.hits:
        click.echo("nothing found")
