"""Linear model of error kinds: words, pairs of concepts, codes, status and form of a body vote for each kind.

The coefficients are data (`coefficients.json`), fitted by `make coefficients` to labelled errors. The shares are
calibrated: of the errors with a share of 0.9, nine in ten have that kind.
"""

import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import combinations
from math import exp, sqrt

import msgspec

from holdfast.core.faults import codes
from holdfast.core.faults.body import Evidence
from holdfast.core.faults.concepts import NUMBER, concepts, plain_words, sentences
from holdfast.core.faults.numbers import stated
from holdfast.types.faults import FaultKind, Phase, Unit

# Longer words are cut: "authentication" and "authenticate" are one.
_STEM_CHARS = 7
_CODE_PIECE_CHARS = 5
_PLACES_CHARS_MAX = 300


def features(evidence: Evidence, phase: Phase) -> set[str]:
    """Return the names of everything about an error that may vote."""
    found = {"always", f"status:{evidence.status}", f"status:{(evidence.status or 0) // 100}xx", f"phase:{phase}"}
    found.update(_of_sentences(evidence), _of_codes(evidence), _of_form(evidence), _of_numbers(evidence))
    return found


def _of_sentences(evidence: Evidence) -> Iterator[str]:
    everywhere: set[str] = set()
    for words in sentences(evidence.text):
        yield from (word[:_STEM_CHARS] for word in words)
        meant = concepts(words)
        everywhere |= meant
        yield from (f"{one}&{other}" for one, other in combinations(sorted(meant), 2))
        if NUMBER in words:
            yield from (f"{one}&#" for one in meant)
    for one in everywhere:
        yield f"!{one}"
        yield f"{one}|{evidence.status}"


def _of_codes(evidence: Evidence) -> Iterator[str]:
    for rows, name in ((codes.SPECIFIC, "code"), (codes.GENERAL, "general")):
        if (kind := codes.kind_of(evidence.codes, rows)) is not None:
            yield f"{name}:{kind}"
    for code in evidence.codes:
        yield f"={code}"
        framed = f"^{code}$"
        yield from (
            f"~{framed[start : start + _CODE_PIECE_CHARS]}" for start in range(len(framed) - _CODE_PIECE_CHARS + 1)
        )


def _of_form(evidence: Evidence) -> Iterator[str]:
    forms = {
        "page": evidence.is_page,
        "stream": evidence.is_stream,
        "unended": evidence.is_stream and not evidence.has_ended,
        "silent": evidence.says_nothing,
        "wordless": not evidence.text,
        "codeless": not evidence.codes,
        "json": bool(evidence.documents),
    }
    for name, holds in forms.items():
        if holds:
            yield f"form:{name}"
            yield f"form:{name}|{evidence.status}"
    yield f"by_status:{codes.BY_STATUS.get(evidence.status or 0)}"
    yield from (f"@{word}" for word in plain_words(evidence.places[:_PLACES_CHARS_MAX]))


def _of_numbers(evidence: Evidence) -> Iterator[str]:
    numbers = stated(evidence.text, evidence.numbers, Unit.TOKENS)
    if numbers.limit is not None:
        yield f"limit:{min(7, len(str(numbers.limit)))}"
    if numbers.requested is not None:
        yield f"requested:{min(7, len(str(numbers.requested)))}"
    if numbers.limit is not None and numbers.requested is not None:
        yield "both_above" if numbers.requested > numbers.limit else "both_below"
    if numbers.output is not None:
        yield "output_stated"


def shares(names: Iterable[str], extra: Mapping[FaultKind, float] | None = None) -> dict[FaultKind, float]:
    """Return the share of each kind; `extra` are votes for what is known beside the error, in natural logarithms."""
    table = coefficients()
    known = [table.features[name] for name in names if name in table.features]
    scale = 1 / (table.scale * sqrt(max(1, len(known))))
    sums = [sum(column) for column in zip(*known, strict=True)] or [0] * len(table.kinds)
    votes = {kind: one * scale + (extra or {}).get(kind, 0.0) for kind, one in zip(table.kinds, sums, strict=True)}
    most = max(votes.values())
    odds = {kind: exp(vote - most) for kind, vote in votes.items()}
    total = sum(odds.values())
    return {kind: one / total for kind, one in odds.items()}


class Coefficients(msgspec.Struct, frozen=True):
    """The data file: the coefficients of each feature, in the order of `kinds`, as fractions of a natural logarithm."""

    scale: int
    kinds: tuple[FaultKind, ...]
    features: dict[str, list[int]]


@cache
def coefficients() -> Coefficients:
    """Return the coefficients, read at first use."""
    return msgspec.json.decode(pkgutil.get_data(__package__, "coefficients.json") or b"", type=Coefficients)
