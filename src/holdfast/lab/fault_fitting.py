"""Fit the coefficients of the fault classifier to labelled errors: `make coefficients` writes them and prints figures.

Rows are split by provider (`holdfast.lab.benches.faults.part_of`): the model is fitted to two parts of them, its
settings were chosen on the second, and the frozen part is only ever measured. Examples without a provider are fitted
unless they resemble a frozen row.

The fit is logistic regression over all kinds at once, in steps that shrink for features seen often (AdaGrad).
"""

import json
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from math import exp, sqrt
from pathlib import Path
from typing import TypeAlias

import click
import msgspec

from holdfast.cli.commands.analysis import refusal_of
from holdfast.core.faults import model
from holdfast.core.faults.body import read
from holdfast.lab.benches.faults import LabelledRow, Part, corpus_file, measure, part_of, read_labelled, table_of
from holdfast.types.faults import FaultKind

WRITTEN = Path(model.__file__).with_name("coefficients.json")
# Features of fewer rows are names.
_ROWS_MIN = 2
_ROUNDS, _STEP, _SHRINK = 25, 0.2, 1e-3
# Errors this small teach nothing and take most of the time.
_ERROR_MIN = 0.004
# Coefficients are in tenths of a natural logarithm.
_SCALE = 10
# Smaller coefficients are left out: with them nothing was read better.
_COEFFICIENT_MIN = 0.15
# An example that shares this much of its words and codes with a frozen row would give the row away.
_ALIKE = 0.6

Weights: TypeAlias = dict[str, list[float]]
KINDS = tuple(FaultKind)


class Taught(msgspec.Struct, frozen=True):
    """A row's features and its kind."""

    names: frozenset[str]
    kind: FaultKind


def taught(row: LabelledRow) -> Taught:
    """Return what the model sees of a row."""
    refusal = refusal_of(row)
    return Taught(frozenset(model.features(read(refusal), refusal.phase)), FaultKind(row.kind))


def fitting_rows(rows: Sequence[LabelledRow], parts: Iterable[Part]) -> list[Taught]:
    """Return the rows of some parts without examples that resemble a row of the others."""
    kept = set(parts)
    hidden = [_surface(taught(row)) for row in rows if row.provider and part_of(row.provider) not in kept]
    found = []
    for row in rows:
        if row.provider:
            if part_of(row.provider) in kept:
                found.append(taught(row))
        else:
            example = taught(row)
            if not any(_is_alike(_surface(example), other) for other in hidden):
                found.append(example)
    return found


def _surface(row: Taught) -> frozenset[str]:
    return frozenset(name for name in row.names if name[0] in "=~" or not set(name) & set("&|:!"))


def _is_alike(one: frozenset[str], other: frozenset[str]) -> bool:
    shared = len(one & other)
    return shared > _ALIKE * (len(one) + len(other) - shared)


def fitted(rows: Sequence[Taught]) -> Weights:
    """Return the coefficients of each feature, in the order of the kinds and in natural logarithms."""
    counts = Counter(name for row in rows for name in row.names)
    found: Weights = {name: [0.0] * len(KINDS) for name in sorted(counts) if counts[name] >= _ROWS_MIN}
    squares: Weights = {name: [1e-4] * len(KINDS) for name in found}
    seen = []
    for row in rows:
        names = sorted(name for name in row.names if name in found)
        scale = 1 / sqrt(max(1, len(names)))
        seen.append(([(found[name], squares[name]) for name in names], scale, KINDS.index(row.kind)))
    order = random.Random(1)  # noqa: S311 - a fit can be repeated
    for _ in range(_ROUNDS):
        order.shuffle(seen)
        for pairs, scale, kind in seen:
            _learn(pairs, scale, kind)
    return found


def _learn(pairs: Sequence[tuple[list[float], list[float]]], scale: float, kind: int) -> None:
    """Change the coefficients of one row's features, each with the squares of its slopes so far."""
    for index, chance in enumerate(_chances([one for one, _ in pairs], scale)):
        error = chance - (index == kind)
        if abs(error) < _ERROR_MIN:
            continue
        slope = error * scale
        for one, square in pairs:
            square[index] += slope * slope
            one[index] -= _STEP * (slope + _SHRINK * one[index]) / sqrt(square[index])


def _chances(rows: list[list[float]], scale: float) -> list[float]:
    votes = [scale * sum(column) for column in zip(*rows, strict=True)] or [0.0] * len(KINDS)
    most = max(votes)
    odds = [exp(vote - most) for vote in votes]
    total = sum(odds)
    return [one / total for one in odds]


def rounded(found: Weights) -> model.Coefficients:
    """Return coefficients as the data file has them; features without any of use are left out."""
    features = {
        name: [round(_SCALE * one) if abs(one) >= _COEFFICIENT_MIN else 0 for one in row] for name, row in found.items()
    }
    return model.Coefficients(_SCALE, KINDS, {name: row for name, row in features.items() if any(row)})


def text_of(found: model.Coefficients) -> str:
    """Return the text of the data file, with a line for each feature."""
    lines = ",\n".join(
        f"{json.dumps(name, ensure_ascii=False)}:{json.dumps(row)}" for name, row in found.features.items()
    )
    kinds = json.dumps(found.kinds)
    return f'{{"scale":{found.scale},"kinds":{kinds},"features":{{\n{lines}\n}}}}\n'.replace(", ", ",")


def use(found: model.Coefficients) -> None:
    """Let the classifier of this process use other coefficients."""
    vars(model)["coefficients"] = lambda: found


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--out", default=WRITTEN, type=click.Path(path_type=Path), help="File to write.")
def main(files: tuple[Path, ...], out: Path) -> None:
    """Fit to the first part and measure the second; then fit to both, measure the frozen part, and write."""
    rows = [row for file in files for row in read_labelled(corpus_file(file))]
    by_part = {part: [row for row in rows if row.provider and part_of(row.provider) is part] for part in Part}
    use(rounded(fitted(fitting_rows(rows, [Part.FIT]))))
    click.echo(f"validation, fitted to the other part\n{table_of(measure(by_part[Part.VALIDATION]))}\n")
    found = rounded(fitted(fitting_rows(rows, [Part.FIT, Part.VALIDATION])))
    use(found)
    figures = msgspec.structs.replace(measure(by_part[Part.FROZEN]), misses=())
    click.echo(f"frozen, fitted to both\n{table_of(figures)}")
    out.write_text(text_of(found), "utf-8")


if __name__ == "__main__":
    main()
