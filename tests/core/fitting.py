"""Fits the coefficients of the fault classifier: `python -m tests.core.fitting` writes them and prints its figures.

Rows are split by provider (`holdfast.lab.benches.faults.part_of`): the model is fitted to two parts of them, its
settings were chosen on the second, and the frozen part is only ever measured. Examples without a provider are fitted
unless they resemble a frozen row. Rows of a corpus (HOLDFAST_CORPUS, or a folder beside the repository) are used where
they are at hand.

The fit is logistic regression over all kinds at once, in steps that shrink for features seen often (AdaGrad).
"""

import os
import random
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from math import exp, sqrt
from pathlib import Path
from typing import TypeAlias

import msgspec

from holdfast.cli.commands.analysis import refusal_of
from holdfast.core.faults import model
from holdfast.core.faults.body import read
from holdfast.errors import BadInputError
from holdfast.lab.benches.faults import LabelledRow, Part, corpus_file, measure, part_of, read_labelled, table_of
from holdfast.types.faults import FaultKind
from tests.house.places import ROOT

WRITTEN = ROOT / "src" / "holdfast" / "core" / "faults" / "coefficients.py"
FILES = (ROOT / "tests" / "core" / "refusals.jsonl", ROOT / "tests" / "core" / "fault_examples.jsonl")
# Features of fewer rows are names.
_ROWS_MIN = 2
_ROUNDS, _STEP, _SHRINK = 25, 0.2, 1e-3
# Errors this small teach nothing and take most of the time.
_ERROR_MIN = 0.004
# Smaller coefficients are left out: with them nothing was read better.
_COEFFICIENT_MIN = 0.15
# An example that shares this much of its words and codes with a frozen row would give the row away.
_ALIKE = 0.6
_LINE_CHARS = 4_000

Coefficients: TypeAlias = dict[str, list[float]]
KINDS = tuple(FaultKind)


class Taught(msgspec.Struct, frozen=True):
    """A row's features and its kind."""

    names: frozenset[str]
    kind: FaultKind


def taught(row: LabelledRow) -> Taught:
    """Return what the model sees of a row."""
    refusal = refusal_of(row)
    return Taught(frozenset(model.features(read(refusal), refusal.phase)), FaultKind(row.kind))


def rows_kept() -> list[LabelledRow]:
    """Return all labelled rows at hand."""
    files = list(FILES)
    try:
        files.append(corpus_file(Path(os.environ.get("HOLDFAST_CORPUS", ROOT.parent / "shared" / "corpus"))))
    except BadInputError as error:
        sys.stderr.write(f"fitted without a corpus: {error}\n")
    return [row for file in files for row in read_labelled(file)]


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


def fitted(rows: Sequence[Taught]) -> Coefficients:
    """Return the coefficients of each feature, in the order of the kinds and in natural logarithms."""
    counts = Counter(name for row in rows for name in row.names)
    found: Coefficients = {name: [0.0] * len(KINDS) for name in sorted(counts) if counts[name] >= _ROWS_MIN}
    squares: Coefficients = {name: [1e-4] * len(KINDS) for name in found}
    seen = []
    for row in rows:
        names = sorted(name for name in row.names if name in found)
        scale = 1 / sqrt(max(1, len(names)))
        seen.append(([(found[name], squares[name]) for name in names], scale, KINDS.index(row.kind)))
    order = random.Random(1)
    for _ in range(_ROUNDS):
        order.shuffle(seen)
        for pairs, scale, kind in seen:
            for index, chance in enumerate(_chances([one for one, _ in pairs], scale)):
                error = chance - (index == kind)
                if abs(error) < _ERROR_MIN:
                    continue
                slope = error * scale
                for one, square in pairs:
                    square[index] += slope * slope
                    one[index] -= _STEP * (slope + _SHRINK * one[index]) / sqrt(square[index])
    return found


def _chances(rows: list[list[float]], scale: float) -> list[float]:
    votes = [scale * sum(column) for column in zip(*rows, strict=True)] or [0.0] * len(KINDS)
    most = max(votes)
    odds = [exp(vote - most) for vote in votes]
    total = sum(odds)
    return [one / total for one in odds]


def module(found: Coefficients) -> str:
    """Return the text of the data module."""
    letters = {kind: letter for letter, kind in model.LETTERS.items()}
    lines = [""]
    for name, row in found.items():
        told = "".join(
            f"{letters[kind]}{round(model.SCALE * one)}"
            for kind, one in zip(KINDS, row, strict=True)
            if abs(one) >= _COEFFICIENT_MIN
        )
        if told:
            entry = f"{name}={told}"
            lines[-1:] = (
                [f"{lines[-1]} {entry}".strip()] if len(lines[-1]) + len(entry) < _LINE_CHARS else [lines[-1], entry]
            )
    data = "\n".join(lines).replace("\\", "\\\\")
    return (
        '"""Data: coefficients of the fault classifier, written by `python -m tests.core.fitting`.\n\n'
        "A feature, then the letter of each kind with its coefficient in tenths; `model.py` reads them.\n"
        f'"""\n\nCOEFFICIENTS = """\n{data}\n"""\n'
    )


def use(found: Coefficients) -> None:
    """Let the classifier of this process use other coefficients."""
    vars(model)["COEFFICIENTS"] = module(found).split('"""')[3]
    model.coefficients.cache_clear()


def main() -> None:
    """Fit to the first part and measure the second; then fit to both, measure the frozen part, and write."""
    rows = rows_kept()
    by_part = {part: [row for row in rows if row.provider and part_of(row.provider) is part] for part in Part}
    use(fitted(fitting_rows(rows, [Part.FIT])))
    sys.stdout.write(f"validation, fitted to the other part\n{table_of(measure(by_part[Part.VALIDATION]))}\n\n")
    found = fitted(fitting_rows(rows, [Part.FIT, Part.VALIDATION]))
    use(found)
    figures = msgspec.structs.replace(measure(by_part[Part.FROZEN]), misses=())
    sys.stdout.write(f"frozen, fitted to both\n{table_of(figures)}\n")
    WRITTEN.write_text(module(found), "utf-8")


if __name__ == "__main__":
    main()
