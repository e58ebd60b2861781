"""Quotes for the ledger: sentences of a person, instructions first."""

import re
from collections.abc import Iterator, Sequence

# Characters of one quote, and so of a message that is short enough to be quoted whole. The first and the newest
# instruction carry the task, so they may be longer.
QUOTE_CHARS, _TASK_CHARS = 160, 480
# A shorter message answers or urges ("yes", "go on"), and means nothing without what was asked.
_TYPED_CHARS_MIN = 12
# What a person says of something to be kept, and how one writes down that something has a value, on a line of its own.
_FOR_GOOD = re.compile(
    r"\b(?:remember|memori[sz]e|note that|keep in mind|(?:don't|do not) forget|from now on|always|never)\b",
    re.IGNORECASE,
)
_LAID_DOWN = re.compile(r"^[^\w\n]*\w[\w.-]{0,40} ?:?= ?\S", re.MULTILINE)
# What one cannot guess: a number, a name in the middle of a sentence, a word in quotes or code.
_EXACT = re.compile(r"\d|(?<=[\w,;:] )[^\W\d_a-z]|[\"'`“«„]\w")
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[\n。！？]")  # noqa: RUF001 - full-width marks end sentences too
_QUESTION_MARKS = ("?", "？", "؟")  # noqa: RUF001 - other scripts ask, too

# How much a message is worth quoting; the less the better.
TASK, FOR_GOOD, TOLD, SAID, PASTED_FOR_GOOD, ASKED, PASTED = range(7)


def one_line(text: str, chars_max: int) -> str:
    """Return a text on one line, its middle left out where it is longer than this."""
    if len(text) <= chars_max and text.isprintable() and "  " not in text:
        # Nothing printable is blank but the space, so most sentences are lines already.
        return text.strip()
    # Blanks seldom make up seven eighths of a text, so no more of it needs to be looked at.
    reach = 8 * chars_max
    line = " ".join(text.split() if len(text) <= 2 * reach else [*text[:reach].split(), *text[-reach:].split()])
    if len(line) <= chars_max:
        return line
    tail = chars_max // 4
    return f"{line[: chars_max - tail].rstrip()} … {line[-tail:].lstrip()}"


def instructions(texts: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield what a person said as worth, index and line, the worthiest first and of those the newest.

    What is the task, the first and the newest text, comes thrice: at length, in short for where there is no room for
    that, and once more as what it is worth by itself.
    """
    for index in dict.fromkeys((len(texts) - 1, 0) if texts else ()):
        yield TASK, index, one_line(texts[index], _TASK_CHARS)
        yield TASK, index, one_line(texts[index], QUOTE_CHARS)
    ranked = [(*_worth(text), index) for index, text in enumerate(texts)]
    ranked.sort(key=lambda candidate: (candidate[0], -candidate[2]))
    for worth, line, index in ranked:
        yield worth, index, line


def _worth(text: str) -> tuple[int, str]:
    """Return what a message is worth, and the line that is quoted of it."""
    line = one_line(text, QUOTE_CHARS)
    lasting = _FOR_GOOD.search(text) or ("=" in text and _LAID_DOWN.search(text)) or None
    if len(text.strip()) > QUOTE_CHARS:
        return (PASTED, line) if lasting is None else (PASTED_FOR_GOOD, _quote_at(text, lasting.start()))
    if lasting is not None:
        return FOR_GOOD, line
    if line.endswith(_QUESTION_MARKS) or len(line) < _TYPED_CHARS_MIN:
        return ASKED, line
    return (TOLD if _EXACT.search(line) else SAID), line


def _quote_at(text: str, at: int) -> str:
    return one_line(sentence_at(text, at, chars_max=QUOTE_CHARS), QUOTE_CHARS)


def sentence_at(text: str, at: int, *, chars_max: int | None = None) -> str:
    """Return the sentence around a place, which ends with its line; with a bound, from half as much before the place.

    With the bound, no more of a text than that is looked at: what was pasted may be one line of megabytes.
    """
    earliest, latest = (0, len(text)) if chars_max is None else (at - chars_max // 2, at + chars_max)
    first = max(text.rfind("\n", 0, at) + 1, earliest)
    start = max((end.end() for end in _SENTENCE_END.finditer(text, first, at)), default=first)
    end = _SENTENCE_END.search(text, at, latest)
    return text[start : end.end() if end else latest].strip()
