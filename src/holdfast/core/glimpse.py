"""What is shown of a row to somebody who searches: the few lines around the words they asked for."""

import re

from holdfast.core.finding import Row, query_words
from holdfast.core.words import words

# Enough to tell whether this is what was meant; ten of them are a page.
GLIMPSE_CHARS = 320
_CALLED_CHARS = 120
# How much of a text is looked through for its best place: a window costs some microseconds.
_LOOKED_THROUGH_CHARS = 64 * 2**10
_SPACE = re.compile(r"\s+")


def glimpse(row: Row, query: str) -> str:
    """Return the call of a row, if it is a tool step, and the part of its text that has most of what was asked for."""
    asked = query_words(query)
    called = _cut(row.called, _CALLED_CHARS)
    said = _best(row.said[:_LOOKED_THROUGH_CHARS], asked, GLIMPSE_CHARS - len(called))
    return f"{called}: {said}" if called and said else called or said


def _best(text: str, asked: dict[str, float], chars: int) -> str:
    """Return the window of a text that has most of the words, the first one of those that have as many."""
    step = chars // 2
    starts = range(0, max(len(text) - step, 1), step)
    start = max(starts, key=lambda at: _worth(text[at : at + chars], asked))
    before = "…" if start else ""
    return before + _cut(text[start:], chars)


def _worth(window: str, asked: dict[str, float]) -> float:
    return sum(asked.get(word, 0.0) for word in set(words(window)))


def _cut(text: str, chars: int) -> str:
    """Return the beginning of a text as one line."""
    line = _SPACE.sub(" ", text[: 2 * chars]).strip()
    return line if len(line) <= chars else line[: chars - 1].rstrip() + "…"
