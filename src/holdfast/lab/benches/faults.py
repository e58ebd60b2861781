"""`holdfast bench faults`: accuracy of the error classifier on a file of labelled errors.

A row's `alt_kind` also counts as correct. Limits and requested sizes are compared where the row has them. The file is
not part of the package: point `--corpus` or HOLDFAST_CORPUS at it or at its folder.

Rows are split by provider. The classifier is fitted to one part, its settings were chosen on a second, and only the
third, the frozen one, shows how it reads errors of providers that it has not seen.
"""

import re
from collections import Counter
from enum import StrEnum
from hashlib import sha1
from pathlib import Path

import click
import msgspec

from holdfast.cli.commands.analysis import FaultRow, fault_of, read_rows
from holdfast.cli.output import json_option
from holdfast.errors import BadInputError
from holdfast.types.faults import Confidence, Fault

# Paths of the file below the corpus folder.
_BELOW = ("provider-errors/errors.jsonl", "errors.jsonl")


# Names of one provider's services; its errors are worded alike.
_FAMILIES = {
    "anthropic": ("anthropic", "claude"),
    "openai": ("openai", "codex", "azure"),
    "gemini": ("gemini", "vertex", "google"),
    "moonshot": ("moonshot", "kimi"),
    "dashscope": ("dashscope", "qwen"),
    "hugging": ("hugging", "tgi"),
    "zai": ("zai", "zhipu"),
    **{name: (name,) for name in ("bedrock", "qianfan", "litellm", "llama", "cloudflare", "copilot", "newapi")},
    **{name: (name,) for name in ("opencode", "openrouter")},
}
_PARTS = 10


class Part(StrEnum):
    """Use of a provider's rows."""

    FIT = "fit"
    VALIDATION = "validation"
    FROZEN = "frozen"


def part_of(provider: str) -> Part:
    """Return the part of a provider's rows: a tenth of all families is frozen, a fifth is for validation."""
    name = provider.lower()
    first = re.split(r"[-_. ]", name)[0]
    family = next((one for one, names in _FAMILIES.items() if any(known in name for known in names)), first)
    number = int(sha1(family.encode(), usedforsecurity=False).hexdigest(), 16) % _PARTS
    return {0: Part.FROZEN, 1: Part.VALIDATION, 6: Part.VALIDATION}.get(number, Part.FIT)


class LabelledRow(FaultRow):
    """A failed call with its labels."""

    kind: str = ""
    alt_kind: str | None = None
    limit: int | None = None
    requested: int | None = None


class Miss(msgspec.Struct, frozen=True):
    """One wrong value."""

    id: str | int | None
    what: str
    wanted: str | int | None
    got: str | int | None


class KindFigures(msgspec.Struct, frozen=True):
    """Counts of one kind: rows labelled with it, rows classified as it, and rows with both."""

    kind: str
    labelled: int
    given: int
    right: int

    @property
    def precision(self) -> float:
        """Share of the rows classified as this kind that have it."""
        return self.right / self.given if self.given else 1.0

    @property
    def recall(self) -> float:
        """Share of the rows of this kind that are classified as it."""
        return self.right / self.labelled if self.labelled else 1.0


class Figures(msgspec.Struct, frozen=True):
    """Figures of some rows."""

    rows: int
    kinds_right: int
    limits_stated: int
    limits_right: int
    requests_stated: int
    requests_right: int
    # Rows that were classified as certain, and how many of those are correct.
    certain: int
    certain_right: int
    kinds: tuple[KindFigures, ...]
    misses: tuple[Miss, ...]

    @property
    def accuracy(self) -> float:
        """Share of rows with the correct kind."""
        return self.kinds_right / self.rows if self.rows else 1.0


class Report(msgspec.Struct, frozen=True):
    """JSON output of a run: providers that the classifier is not fitted to, and all rows."""

    frozen: Figures
    all: Figures


def corpus_file(path: Path) -> Path:
    """Return the file of errors at this path, or below it if it is a folder."""
    if path.is_file():
        return path
    for below in _BELOW:
        if (path / below).is_file():
            return path / below
    raise BadInputError(f"there is no file of errors at {path}; choose one with --corpus or HOLDFAST_CORPUS")


def read_labelled(path: Path) -> list[LabelledRow]:
    """Read all rows of a file. Raises `BadInputError` for an invalid line, which would distort the figures."""
    with path.open("rb") as lines:
        rows = []
        for row in read_rows(lines, LabelledRow):
            if isinstance(row, str):
                raise BadInputError(f"{path}: {row}")
            rows.append(row)
        return rows


def measure(rows: list[LabelledRow]) -> Figures:
    """Classify every row and compare."""
    labelled: Counter[str] = Counter()
    given: Counter[str] = Counter()
    right: Counter[str] = Counter()
    certain: Counter[bool] = Counter()
    misses: list[Miss] = []
    for row in rows:
        fault = fault_of(row)
        # The accepted second label counts as the first.
        kind = row.kind if fault.kind in {row.kind, row.alt_kind} else str(fault.kind)
        labelled[row.kind] += 1
        given[kind] += 1
        right[row.kind] += kind == row.kind
        if fault.confidence is Confidence.CERTAIN:
            certain[kind == row.kind] += 1
        misses += _misses(row, fault, kind)
    wrong = Counter(miss.what for miss in misses)
    limits = sum(row.limit is not None for row in rows)
    requests = sum(row.requested is not None for row in rows)
    return Figures(
        rows=len(rows),
        kinds_right=len(rows) - wrong["kind"],
        limits_stated=limits,
        limits_right=limits - wrong["limit"],
        requests_stated=requests,
        requests_right=requests - wrong["requested"],
        certain=certain.total(),
        certain_right=certain[True],
        kinds=tuple(
            KindFigures(kind, labelled[kind], given[kind], right[kind]) for kind in sorted({*labelled, *given})
        ),
        misses=tuple(misses),
    )


def _misses(row: LabelledRow, fault: Fault, kind: str) -> list[Miss]:
    compared = (
        ("kind", row.kind, kind),
        ("limit", row.limit, fault.limit),
        ("requested", row.requested, fault.requested),
    )
    return [Miss(row.id, what, wanted, got) for what, wanted, got in compared if wanted is not None and wanted != got]


@click.command("faults")
@json_option
@click.option(
    "--corpus",
    type=click.Path(exists=True, path_type=Path),
    envvar="HOLDFAST_CORPUS",
    required=True,
    help="File of errors, or its folder. Default: HOLDFAST_CORPUS.",
)
def faults(corpus: Path, *, as_json: bool) -> None:
    """Measure the accuracy of the error classifier."""
    rows = read_labelled(corpus_file(corpus))
    unseen = [row for row in rows if row.provider and part_of(row.provider) is Part.FROZEN]
    report = Report(frozen=measure(unseen), all=measure(rows))
    click.echo(msgspec.json.encode(report).decode() if as_json else _text(report))


def _text(report: Report) -> str:
    unseen = msgspec.structs.replace(report.frozen, misses=())
    return f"providers that the classifier is not fitted to\n{table_of(unseen)}\n\nall rows\n{table_of(report.all)}"


def table_of(figures: Figures) -> str:
    """Return figures as lines of text."""
    lines = [
        f"kinds      {figures.kinds_right:>5} of {figures.rows} correct ({figures.accuracy:.1%})",
        f"certain    {figures.certain_right:>5} of {figures.certain} correct",
        f"limits     {figures.limits_right:>5} of {figures.limits_stated} correct where stated",
        f"requested  {figures.requests_right:>5} of {figures.requests_stated} correct where stated",
        "",
        f"{'kind':<24}{'rows':>6}{'precision':>11}{'recall':>8}",
    ]
    lines += [f"{one.kind:<24}{one.labelled:>6}{one.precision:>11.1%}{one.recall:>8.1%}" for one in figures.kinds]
    lines += ["", *(f"{one.id}: {one.what} is {one.wanted}, got {one.got}" for one in figures.misses)]
    return "\n".join(lines).rstrip()
