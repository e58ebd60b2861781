"""Linear model of error kinds: words, pairs of concepts, codes, status and form of a body vote for each kind.

The coefficients are data (`coefficients.json`), fitted by `make coefficients` to labelled errors. The shares are
calibrated: of the errors with a share of 0.9, nine in ten have that kind.
"""

import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import combinations
from math import exp, sqrt

import msgspec

from holdfast.core.faults import codes
from holdfast.core.faults.body import Evidence
from holdfast.core.faults.words import NUMBER, concepts, sentences
from holdfast.types.faults import FaultKind, Phase

# Longer words are cut: "authentication" and "authenticate" are one.
_STEM_CHARS, _CODE_PIECE_CHARS, _PLACES_CHARS_MAX = 7, 5, 300


def features(evidence: Evidence, phase: Phase) -> set[str]:
    """Return the names of everything about an error that may vote."""
    found = {"always", f"status:{evidence.status}", f"status:{(evidence.status or 0) // 100}xx", f"phase:{phase}"}
    found.update(_of_sentences(evidence), _of_codes(evidence), _of_form(evidence))
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
    yield f"general:{codes.kind_of(evidence.codes, codes.GENERAL)}"
    for code in evidence.codes:
        yield f"={code}"
        framed = f"^{code}$"
        starts = range(len(framed) - _CODE_PIECE_CHARS + 1)
        yield from (f"~{framed[start : start + _CODE_PIECE_CHARS]}" for start in starts)


def _of_form(evidence: Evidence) -> Iterator[str]:
    is_cut = evidence.is_stream and not evidence.has_ended
    forms = (evidence.is_page, evidence.is_stream, is_cut, evidence.says_nothing, not evidence.text, not evidence.codes)
    for number, holds in enumerate((*forms, evidence.documents)):
        if holds:
            yield f"form:{number}"
            yield f"form:{number}|{evidence.status}"
    yield f"by_status:{codes.BY_STATUS.get(evidence.status or 0)}"
    yield from (f"@{word}" for word in re.findall("[a-z]+", " ".join(evidence.places).lower()[:_PLACES_CHARS_MAX]))


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
