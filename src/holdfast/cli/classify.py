"""`holdfast classify`: what kind of failure each row of a file is.

A row is one failed call as JSON on one line: `id`, `provider`, `api`, `status`, `headers`, `body`, and for what came in
a stream or without any error `stream`, `symptom` and `window`. Everything may be absent; other fields are ignored.
"""

import re
import sys
from collections.abc import Iterator
from typing import IO, TypeVar

import click
import msgspec

from holdfast.cli.exits import USAGE
from holdfast.core import faults
from holdfast.core.faults import Fault, Phase, Refusal, Sent

# What a client saw when nothing came: no failure to read, only silence.
_SILENCE = re.compile(r"silence|stall|idle|hang|keep.?alive|no_(?:first|headers|bytes?|data|chunks?|tokens?|response)")


class FaultRow(msgspec.Struct):
    """One failed call. `api` is the dialect; `window` is what a silent symptom must be compared with."""

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
    """What is printed for one row."""

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
    refusal = Refusal(
        dialect=row.api or "other",
        phase=_phase(row),
        status=row.status,
        headers={name: str(value) for name, value in (row.headers or {}).items()},
        body=_text(row.body),
    )
    return faults.classify(refusal, Sent(window_tokens=row.window, provider=row.provider or ""))


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
    """Yield the row of each line, or a sentence about what is wrong with it. Empty lines are skipped."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield msgspec.json.decode(line, type=kind, strict=False)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            yield f"line {number} is no row of failures: {error}"


@click.command("classify")
@click.argument("rows", type=click.File("rb"), metavar="FILE.jsonl")
def classify(rows: IO[bytes]) -> None:
    """Say what kind of failure each row of FILE.jsonl is, one JSON line per row ("-" reads standard input)."""
    is_clean = True
    for row in read_rows(rows, FaultRow):
        if isinstance(row, str):
            is_clean = False
            click.echo(f"{row}; correct the line or leave it out", err=True)
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
