"""Linear model of error kinds: words, pairs of concepts, codes, status and form of a body vote for each kind.

The coefficients are data (`coefficients.py`), fitted by `python -m tests.core.fitting` to labelled errors. The shares
are calibrated: of the errors with a share of 0.9, nine in ten have that kind.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import combinations
from math import exp, sqrt

from holdfast.core.faults import codes
from holdfast.core.faults.body import Evidence
from holdfast.core.faults.coefficients import COEFFICIENTS
from holdfast.core.faults.concepts import NUMBER, concepts, plain_words, sentences
from holdfast.core.faults.numbers import stated
from holdfast.core.text.patterns import Pattern
from holdfast.types.faults import FaultKind, Phase, Unit

# Longer words are cut: "authentication" and "authenticate" are one.
_STEM_CHARS = 7
_CODE_PIECE_CHARS = 5
_PLACES_CHARS_MAX = 300
# Coefficients are in tenths of a natural logarithm.
SCALE = 10
# The letter of each kind in the data.
LETTERS: Mapping[str, FaultKind] = dict(zip("abcdefghijklmno", FaultKind, strict=True))
_COEFFICIENT = Pattern(r"([a-o])(-?\d+)")


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
    known = [table[name] for name in names if name in table]
    scale = 1 / (SCALE * sqrt(max(1, len(known))))
    votes = {kind: (extra or {}).get(kind, 0.0) for kind in FaultKind}
    for row in known:
        for kind, weight in row:
            votes[kind] += weight * scale
    most = max(votes.values())
    odds = {kind: exp(vote - most) for kind, vote in votes.items()}
    total = sum(odds.values())
    return {kind: one / total for kind, one in odds.items()}


@cache
def coefficients() -> Mapping[str, tuple[tuple[FaultKind, int], ...]]:
    """Return the coefficients of each feature, parsed at first use."""
    rows = (entry.rpartition("=") for entry in COEFFICIENTS.split())
    return {
        name: tuple((LETTERS[found[1]], int(found[2])) for found in _COEFFICIENT.finditer(weights))
        for name, _, weights in rows
    }
