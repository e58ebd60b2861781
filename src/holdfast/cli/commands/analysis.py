"""`holdfast classify`, `digest` and `estimate`: analyse files without a store.

`classify` reads one failed call per line as JSON: `id`, `provider`, `api`, `status`, `headers`, `body`, and for errors
inside a stream or without an error response `stream`, `symptom` and `window`. All fields are optional; others are
ignored.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TypeVar

import click
import msgspec

from holdfast.cli.exit_codes import USAGE
from holdfast.cli.options import passages_of, read_session
from holdfast.cli.output import json_option, sanitize
from holdfast.core.compaction.digest import represent
from holdfast.core.faults import classifier
from holdfast.core.limits.sizing import bytes_of_message, tokens_of_message
from holdfast.errors import UsageError
from holdfast.types.faults import Fault, Phase, Refusal, Sent

# Symptoms of a stalled call, which has no error text.
_SILENCE = re.compile(r"silence|stall|idle|hang|keep.?alive|no_(?:first|headers|bytes?|data|chunks?|tokens?|response)")


class FaultRow(msgspec.Struct):
    """One failed call. `api` is the dialect; `window` is the context window to compare a silent symptom with."""

    id: str | int | None = None
    provider: str | None = None
    api: str | None = None
    status: int | None = None
    headers: dict[str, object] | None = None
    body: object = ""
    stream: bool | None = None
    symptom: str | None = None
    window: int | None = None


class Verdict(msgspec.Struct):
    """JSON output for one row."""

    id: str | int | None
    kind: str
    alt_kind: str | None
    confidence: str
    limit: int | None
    requested: int | None
    unit: str | None
    retry_after: float | None


def fault_of(row: FaultRow) -> Fault:
    """Classify one row."""
    return classifier.classify(refusal_of(row), Sent(window_tokens=row.window, provider=row.provider or ""))


def refusal_of(row: FaultRow) -> Refusal:
    """Return the error response of a row."""
    return Refusal(
        dialect=row.api or "other",
        phase=_phase(row),
        status=row.status,
        headers={name: str(value) for name, value in (row.headers or {}).items()},
        body=_text(row.body),
    )


def _phase(row: FaultRow) -> Phase:
    if row.symptom is not None and _SILENCE.search(row.symptom):
        return Phase.STALL
    return Phase.STREAM if row.stream else Phase.RESPONSE


def _text(body: object) -> str:
    if body is None:
        return ""
    return body if isinstance(body, str) else msgspec.json.encode(body).decode()


_AnyRow = TypeVar("_AnyRow", bound=FaultRow)


def read_rows(lines: IO[bytes], kind: type[_AnyRow]) -> Iterator[_AnyRow | str]:
    """Yield the row of each line, or an error message for an invalid line. Skips empty lines."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield msgspec.json.decode(line, type=kind, strict=False)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            yield f"line {number} is not a valid row: {error}"


@click.command("classify")
@click.argument("rows", type=click.File("rb"), metavar="FILE.jsonl")
def classify(rows: IO[bytes]) -> None:
    """Classify each error of FILE.jsonl, one JSON line per row ("-" reads standard input)."""
    is_clean = True
    for row in read_rows(rows, FaultRow):
        if isinstance(row, str):
            is_clean = False
            click.echo(f"{row}; correct or remove the line", err=True)
            continue
        fault = fault_of(row)
        verdict = Verdict(
            id=row.id,
            kind=fault.kind,
            alt_kind=fault.second_kind,
            confidence=fault.confidence,
            limit=fault.limit,
            requested=fault.requested,
            unit=fault.unit,
            retry_after=fault.retry_after_seconds,
        )
        click.echo(msgspec.json.encode(verdict).decode())
    if not is_clean:
        sys.exit(USAGE)


# --- holdfast digest ---


# A small part of a window of 100,000 tokens.
_TOKENS_MAX = 3_000


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--session", help="Session id, if the file has several.")
@click.option("--until", type=int, metavar="SEQ", help="Digest the messages before this one. Default: all.")
@click.option("--max-tokens", type=click.IntRange(min=1), default=_TOKENS_MAX, show_default=True)
@json_option
def digest(file: Path, session: str | None, until: int | None, max_tokens: int, *, as_json: bool) -> None:
    """Print the digest that would replace older messages in the view, built without a model.

    FILE is a transcript in the neutral format, .jsonl or .jsonl.gz.
    """
    messages = read_session(file, session)
    passages = passages_of([message for message in messages if until is None or message.seq < until])
    if not passages:
        raise UsageError(f"there are no messages before {until}; the first one is {messages[0].seq}")
    text = represent(passages, tokens_max=max_tokens)
    click.echo(msgspec.json.encode({"messages": len(passages), "text": text}) if as_json else sanitize(text))


# --- holdfast estimate ---


class Size(msgspec.Struct, frozen=True):
    """Estimated size of one message."""

    seq: int
    role: str
    tokens: int
    bytes: int


class Sizes(msgspec.Struct, frozen=True):
    """Estimated size of a session: each message, and the total."""

    session: str
    messages: tuple[Size, ...]
    tokens: int
    bytes: int


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--session", help="Session id, if the file has several.")
@json_option
def estimate(file: Path, session: str | None, *, as_json: bool) -> None:
    """Estimate the tokens and bytes of each message, and the total.

    FILE is a transcript in the neutral format, .jsonl or .jsonl.gz. Nothing is sent to a provider. The model's own
    count is usually within 15 percent; a running session calibrates the estimate with the usage that the model reports.
    """
    found = read_session(file, session)
    sizes = tuple(
        Size(
            passage.seq,
            passage.message.role.value,
            tokens_of_message(passage.message),
            bytes_of_message(passage.message),
        )
        for passage in passages_of(found)
    )
    total = Sizes(found[0].session_id, sizes, sum(size.tokens for size in sizes), sum(size.bytes for size in sizes))
    if as_json:
        click.echo(msgspec.json.encode(total))
        return
    click.echo(f"{'seq':>8}  {'role':<9}  {'tokens':>10}  {'bytes':>12}")
    for size in sizes:
        click.echo(f"{size.seq:>8}  {size.role:<9}  {size.tokens:>10,}  {size.bytes:>12,}")
    click.echo(f"{len(sizes):>8}  {'total':<9}  {total.tokens:>10,}  {total.bytes:>12,}")
