"""Quotes for the ledger: sentences of the user, instructions first."""

import re
from collections.abc import Iterator, Sequence

# Characters of one quote. Shorter messages are quoted whole. The first and the newest instruction carry the task, so
# they may be longer.
QUOTE_CHARS, _TASK_CHARS = 160, 480
# A shorter message ("yes", "go on") has no meaning without the message before it.
_TYPED_CHARS_MIN = 12
# Phrases of standing instructions, and assignments on a line of their own.
_FOR_GOOD = re.compile(
    r"\b(?:remember|memori[sz]e|note that|keep in mind|(?:don't|do not) forget|from now on|always|never)\b",
    re.IGNORECASE,
)
_LAID_DOWN = re.compile(r"^[^\w\n]*\w[\w.-]{0,40} ?:?= ?\S", re.MULTILINE)
# Exact details: a number, a name in the middle of a sentence, a word in quotes or code.
_EXACT = re.compile(r"\d|(?<=[\w,;:] )[^\W\d_a-z]|[\"'`“«„]\w")
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[\n。！？]")  # noqa: RUF001 - full-width marks end sentences too
_QUESTION_MARKS = ("?", "？", "؟")  # noqa: RUF001 - question marks of other scripts

# Priority of a quote; lower is better.
TASK, FOR_GOOD, TOLD, SAID, PASTED_FOR_GOOD, ASKED, PASTED = range(7)


def one_line(text: str, chars_max: int) -> str:
    """Return a text on one line, truncated in the middle."""
    if len(text) <= chars_max and text.isprintable() and "  " not in text:
        # The only printable whitespace is the space, so most sentences are lines already.
        return text.strip()
    # Whitespace rarely makes up seven eighths of a text, so no more of it is read.
    reach = 8 * chars_max
    line = " ".join(text.split() if len(text) <= 2 * reach else [*text[:reach].split(), *text[-reach:].split()])
    if len(line) <= chars_max:
        return line
    tail = chars_max // 4
    return f"{line[: chars_max - tail].rstrip()} … {line[-tail:].lstrip()}"


def instructions(texts: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the user's messages as priority, index and line, best priority first, then newest first.

    The task, which is the first and the newest text, is yielded three times: long, short in case the long one does not
    fit, and by its own priority.
    """
    for index in dict.fromkeys((len(texts) - 1, 0) if texts else ()):
        yield TASK, index, one_line(texts[index], _TASK_CHARS)
        yield TASK, index, one_line(texts[index], QUOTE_CHARS)
    ranked = [(*_priority(text), index) for index, text in enumerate(texts)]
    ranked.sort(key=lambda candidate: (candidate[0], -candidate[2]))
    for priority, line, index in ranked:
        yield priority, index, line


def _priority(text: str) -> tuple[int, str]:
    """Return the priority of a message, and the line to quote."""
    line = one_line(text, QUOTE_CHARS)
    standing = _FOR_GOOD.search(text) or ("=" in text and _LAID_DOWN.search(text)) or None
    if len(text.strip()) > QUOTE_CHARS:
        return (PASTED, line) if standing is None else (PASTED_FOR_GOOD, _quote_at(text, standing.start()))
    if standing is not None:
        return FOR_GOOD, line
    if line.endswith(_QUESTION_MARKS) or len(line) < _TYPED_CHARS_MIN:
        return ASKED, line
    return (TOLD if _EXACT.search(line) else SAID), line


def _quote_at(text: str, at: int) -> str:
    return one_line(sentence_at(text, at, chars_max=QUOTE_CHARS), QUOTE_CHARS)


def sentence_at(text: str, at: int, *, chars_max: int | None = None) -> str:
    """Return the sentence at a position, within its line; with `chars_max`, from at most half as much before it.

    The bound also limits the search: pasted text may be a line of megabytes.
    """
    earliest, latest = (0, len(text)) if chars_max is None else (at - chars_max // 2, at + chars_max)
    first = max(text.rfind("\n", 0, at) + 1, earliest)
    start = max((end.end() for end in _SENTENCE_END.finditer(text, first, at)), default=first)
    end = _SENTENCE_END.search(text, at, latest)
    return text[start : end.end() if end else latest].strip()
