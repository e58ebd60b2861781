"""The command `search`: what of a session answers a question, whether or not the model still sees it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import click
import msgspec

from holdfast.cli.options import key_argument, known_session, reading, send_logs, store_option
from holdfast.cli.output import harmless
from holdfast.errors import BadInputError
from holdfast.ports import Hit, Store
from holdfast.types.records import origin_of
from holdfast.wiring import Place

# One question is a line; a file of them is read whole.
_QUERIES_BYTES_MAX = 64 * 2**20


class Found(msgspec.Struct, frozen=True):
    """A hit as programs read it. `origin` is the number that an imported message had in its own transcript."""

    origin: int | None
    seq: int
    score: float
    excerpt: str
    # For a tool step: the record of the call, and the number of its message.
    call: int | None = None
    call_origin: int | None = None


class Answered(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question with what was found."""

    query: str
    hits: list[Found]
    id: str | int | None = None


class _Question(msgspec.Struct):
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
    help='Ask many at once: a question per line, as text or as JSON such as {"query": "...", "id": "..."}.',
)
@click.option(
    "--limit", default=10, show_default=True, type=click.IntRange(min=1, max=1_000), help="Hits per question."
)
@store_option
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object per hit, for programs; with --queries per question."
)
def search(
    key: str, query: str | None, queries: Path | None, limit: int, store: Place | None, *, as_json: bool
) -> None:
    """Find messages and tool steps of the session KEY by words, a path, a name or an id.

    Everything that was ever said is searched, also what the model no longer sees. `holdfast show KEY --after N` prints
    what stands around a hit.
    """
    if (query is None) == (queries is None):
        raise click.UsageError("give a QUERY or --queries FILE, one of the two")
    send_logs()
    asyncio.run(_search(store, key, _questions(query, queries), limit, as_json=as_json, is_many=queries is not None))


def _questions(query: str | None, path: Path | None) -> list[_Question]:
    if path is None:
        return [_Question(query)]
    if path.stat().st_size > _QUERIES_BYTES_MAX:
        raise BadInputError(f"{path} has more than {_QUERIES_BYTES_MAX:,} bytes; split it")
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return [_question(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()]


def _question(path: Path, number: int, line: str) -> _Question:
    if not line.lstrip().startswith(("{", '"')):
        return _Question(line.strip())
    try:
        found = msgspec.json.decode(line, type=_Question | str)
    except msgspec.DecodeError as error:
        raise BadInputError(f"{path}, line {number}: not a question as JSON ({error})") from error
    asked = _Question(found) if isinstance(found, str) else found
    if asked.query is None and asked.question is None:
        raise BadInputError(f'{path}, line {number}: it has neither "query" nor "question"')
    return asked


async def _search(
    place: Place | None, key: str, questions: list[_Question], limit: int, *, as_json: bool, is_many: bool
) -> None:
    async with reading(place) as store:
        await known_session(store, key)
        async for answered in _answers(store, key, questions, limit):
            if as_json and is_many:
                click.echo(msgspec.json.encode(answered))
            elif as_json:
                for hit in answered.hits:
                    click.echo(msgspec.json.encode(hit))
            else:
                _print(answered, is_many=is_many)


async def _answers(store: Store, key: str, questions: list[_Question], limit: int) -> AsyncIterator[Answered]:
    for question in questions:
        query = question.query if question.query is not None else question.question or ""
        hits = [await _found(store, key, hit) for hit in await store.search(key, query, limit=limit)]
        yield Answered(query, hits, question.id if question.id is not None else question.qid)


async def _found(store: Store, key: str, hit: Hit) -> Found:
    return Found(
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


def _print(answered: Answered, *, is_many: bool) -> None:
    if is_many:
        click.echo(f"? {harmless(answered.query)}")
    for hit in answered.hits:
        click.echo(f"[#{hit.seq}] {harmless(hit.excerpt)}")
    if not answered.hits:
        click.echo("nothing was found")
