"""Search long texts that are stored in blobs, by windows.

The index has only the beginning of such a text. It is therefore searched when a model asks: query words are found as
parts of words first, which takes some milliseconds per megabyte, and the best windows are then compared word by word.
"""

import heapq
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from holdfast.core.search.rank import RECALL, one_line, query_words
from holdfast.core.search.tokenizer import words

# Characters of a window, as of a message in the result; windows overlap by half.
_WINDOW_CHARS = 480
_STEP_CHARS = _WINDOW_CHARS // 2
# A word that occurs more often in one text does not tell its windows apart.
_PLACES_MAX = 2_000
# Windows that are compared word by word.
_COMPARED_MAX = 60
# Share of the query by weight that a window must have: with less, every long text would match every question.
_COVERED_MIN = 0.5
# Stems of at least this length may have changed their last letter: "berry" is in "berries".
_STEM_CHARS_MIN = 5
_WORD = re.compile(r"\S+")


class Window(msgspec.Struct, frozen=True):
    """A matching part of a text: the text's index, the first character, and its share of the query by weight."""

    text: int
    start: int
    covered: float


def best_windows(texts: Sequence[str], query: str, *, limit: int) -> list[Window]:
    """Return the windows that have most of a query, best first; of equal ones that of the first text."""
    weights = query_words(query)
    needles = _needles(query, weights)
    masks = [_masks(text, needles) for text in texts]
    found = Counter(word for one in masks for mask in one.values() for word in mask)
    total = sum(len(text) // _STEP_CHARS + 1 for text in texts)
    rarity = {word: weight * math.log(1 + total / (found[word] + 0.5)) for word, weight in weights.items()}
    compared = _compared_windows(texts, masks, rarity)
    return _apart(compared, limit)


def _apart(windows: Sequence[Window], limit: int) -> list[Window]:
    """Return the best windows that cover enough and do not overlap."""
    best: list[Window] = []
    for window in sorted(windows, key=lambda window: (-window.covered, window.text, window.start)):
        beside = any(one.text == window.text and abs(one.start - window.start) <= _STEP_CHARS for one in best)
        if window.covered >= _COVERED_MIN and not beside and len(best) < limit:
            best.append(window)
    return best


def _compared_windows(
    texts: Sequence[str], masks: Sequence[Mapping[int, set[str]]], rarity: Mapping[str, float]
) -> list[Window]:
    """Return the likeliest windows, compared word by word."""
    scores = (
        (sum(rarity[word] for word in mask), -text, -place)
        for text, one in enumerate(masks)
        for place, mask in one.items()
    )
    whole = sum(rarity.values())
    likely = heapq.nlargest(_COMPARED_MAX, scores)
    return [_compared(texts[-text], -text, -place, rarity, whole) for _, text, place in likely]


def _needles(query: str, weights: Mapping[str, float]) -> dict[str, tuple[str, ...]]:
    """Return the characters by which each word of a query is found in lower-case text."""
    forms: dict[str, set[str]] = {word: {_root(word)} for word in weights}
    for raw in _WORD.findall(query):
        stems = words(raw)
        if len(stems) == 1 and stems[0] in forms:
            # Accents are folded in an index, not in a text.
            forms[stems[0]].add(_root(raw.strip(".,:;?!\"'()").lower()))
    return {word: tuple(sorted(filter(None, some))) for word, some in forms.items()}


def _root(word: str) -> str:
    return word[:-1] if len(word) >= _STEM_CHARS_MIN and word.endswith("y") else word


def _masks(text: str, needles: Mapping[str, Sequence[str]]) -> dict[int, set[str]]:
    """Return the query words that each window of a text may have."""
    lower = text.lower()
    if len(lower) != len(text):
        # A few letters have two in lower case; places must stay those of the text.
        lower = "".join(char if len(char.lower()) > 1 else char.lower() for char in text)
    masks: dict[int, set[str]] = {}
    for word, forms in needles.items():
        for form in forms:
            at = lower.find(form)
            for _ in range(_PLACES_MAX):
                if at < 0:
                    break
                for place in {at // _STEP_CHARS, max(at // _STEP_CHARS - 1, 0)}:
                    masks.setdefault(place, set()).add(word)
                at = lower.find(form, at + len(form))
    return masks


def _compared(text: str, number: int, place: int, rarity: Mapping[str, float], whole: float) -> Window:
    """Return a window with the share of the query that it has, word by word."""
    start = place * _STEP_CHARS
    # A word that the border of the window cuts off is read to its end.
    end = text.find(" ", start + _WINDOW_CHARS)
    near = text[start : end if 0 <= end < start + 2 * _WINDOW_CHARS else start + _WINDOW_CHARS]
    covered = sum(rarity[word] for word in set(words(near)) & rarity.keys())
    return Window(number, start, covered / whole)


def window_line(text: str, window: Window, *, seq: int, blob: str) -> str:
    """Return a window as a line, with the call that reads on from its first byte."""
    offset = len(text[: window.start].encode("utf-8", "replace"))
    shown = one_line(text[window.start :], _WINDOW_CHARS)
    return f'[#{seq}] in a long text, {RECALL}(blob="{blob}", offset={offset}) reads on: …{shown}'
