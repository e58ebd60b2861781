"""Which kind a failure is likest to by its single words: for those that no rule explains.

Where the status alone decided, more than half of the guesses were wrong on refusals that the rules had not seen. So the
words vote there, each with a weight for some of the kinds (`weights`), fitted to the refusals that are kept as tests:
what was misread once teaches this as well as the rules. A vote is a guess, and nothing is learned from it.
"""

from collections.abc import Collection, Mapping
from functools import cache

from holdfast.core.faults.body import Evidence
from holdfast.core.faults.kinds import FaultKind
from holdfast.core.faults.weights import WEIGHTS
from holdfast.core.patterns import Pattern

# Beginnings of words, so that "authorized" and "authorization" are one; the first words of a sentence tell most. With 6
# letters, with 40 words and with 120, it made no difference.
_STEM_CHARS, _WORDS_MAX = 7, 80
_WORD = Pattern(r"[^\W\d_]{2,}")
# Shorter ones stand in a code by accident.
_IN_CODE_CHARS_MIN = 4
# One word alone decides nothing.
_WORDS_MIN = 2
# An overflow that is none costs a compaction. So it must be this far ahead, in tenths of a natural logarithm: of the
# votes for one that were, nine in ten were right, of the others one in four. And something must be said of a size.
_AHEAD_MIN = 10
_COSTLY = frozenset({FaultKind.TOKEN_OVERFLOW, FaultKind.WIRE_OVERFLOW})
_SIZE_SAID = Pattern(r"token|context|window|length|size|limit|long|large|big|many|exceed|max|short|bytes|char|payload")

_NO_STATUS = str(None)
# Stands in every failure: what is believed before any word is looked at.
ALWAYS = "always"
# By which letter a kind goes in the table.
LETTERS: Mapping[str, FaultKind] = dict(zip("abcdefghijklmno", FaultKind, strict=True))
_WEIGHT = Pattern(r"([a-o])(-?\d+)")


def stems(text: str) -> set[str]:
    """Return the beginnings of the first words of a text."""
    return {found[0][:_STEM_CHARS] for found, _ in zip(_WORD.finditer(text), range(_WORDS_MAX), strict=False)}


def signs(evidence: Evidence, vocabulary: Collection[str]) -> set[str]:
    """Return which words of a vocabulary a failure has: in its sentences, in its codes, and as its status."""
    in_codes = {
        word
        for code in evidence.codes
        for word in vocabulary
        if len(word) >= _IN_CODE_CHARS_MIN and word.isalpha() and word in code
    }
    return {word for word in {*stems(evidence.text), str(evidence.status)} if word in vocabulary} | in_codes


def likeliest(evidence: Evidence) -> FaultKind | None:
    """Return the kind that the words speak for most, or None where none is known or it is not enough for the kind."""
    weights = _weights()
    found = signs(evidence, weights.keys() - {ALWAYS})
    if sum(word.isalpha() and word != _NO_STATUS for word in found) < _WORDS_MIN:
        return None
    votes = dict.fromkeys(FaultKind, 0)
    for word in {ALWAYS, *found}:
        for kind, weight in weights[word].items():
            votes[kind] += weight
    first, second = sorted(votes, key=votes.__getitem__, reverse=True)[:2]
    is_sure = votes[first] - votes[second] >= _AHEAD_MIN and _SIZE_SAID.search(
        " ".join((evidence.text, *evidence.codes))
    )
    return first if is_sure or first not in _COSTLY else None


@cache
def _weights() -> Mapping[str, Mapping[FaultKind, int]]:
    """Return the weights of each word, read off the table when they are first needed."""
    words = (entry.partition("=") for entry in WEIGHTS.split())
    return {
        word: {LETTERS[found[1]]: int(found[2]) for found in _WEIGHT.finditer(weights)} for word, _, weights in words
    }
