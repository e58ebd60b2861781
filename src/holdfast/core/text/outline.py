"""Shorten a text to a number of tokens: at a sentence, or to its beginning, an outline of its middle, and its end.

The question usually follows a pasted text, and a failure stands at the end of output, so the end is as long as the
beginning. The outline names the parts of the middle with their positions, so that the rest can be read on demand.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from holdfast.core.limits.sizing import tokens_of_text

# Returns the size of a text.
Measure: TypeAlias = Callable[[str], int]

# Shares of the room for the outline, and for each end.
_OUTLINE_SHARE, _END_SHARE = 0.1, 0.44
# Shares of the room to fill, tried in order: the second estimate of a length is within a few percent.
_FILLED_SHARES = (1.0, 0.98, 0.95, 0.92)
# Lines of an outline, their length, and the lines quoted from a text without headings or errors. Fewer lines than the
# minimum are no outline.
_LINES_MIN, _LINES_MAX, _LINE_CHARS, _SAMPLES = 4, 40, 100, 12
# A line of usual length, to spread as many over the middle as fit.
_USUAL_LINE = "123,456: A line of usual length in an outline of a text\n"
_BY_BYTE, _OUTLINE_END = "; some of them by their first byte:", "end of the outline]"
# A cut looks for the end of a line or a sentence in this share of the text.
_NEAR_SHARE = 0.1
# Characters of a middle that are searched for headings and errors: a second of work at most.
_SEARCHED_CHARS_MAX = 8 * 2**20

_HEADING = re.compile(
    r"^(?:#{1,6} +\S.*|(?:={3,}|-{3,}|\*{3,}) *\S.*|(?:diff --git|@@|commit|File|Chapter|CHAPTER|Section|SECTION)\b.*"
    r"|(?:export |public |async )?(?:def|class|func|fn|function|interface|struct|module) +\w.*|\[[\w .:-]{2,60}\]) *$",
    re.MULTILINE,
)
_FAILURE = re.compile(
    r"^.*(?:\b(?:[Ee]rror|ERROR|FAIL(?:ED|URE)?|[Ff]ailed|panic|[Ff]atal|FATAL|Traceback|CRITICAL)\b"
    r"|\b[A-Z][a-z]\w*(?:Error|Exception)\b).*$",
    re.MULTILINE,
)
_SENTENCE_END = re.compile(r"[.!?…](?=\s|\Z)|\n|[。！？]")  # noqa: RUF001 - full-width marks end sentences too


def cut_at_sentence(text: str, tokens_max: int, *, is_cut: bool = False) -> str:
    """Return the beginning of a text within a number of tokens, up to the end of a sentence if there is one.

    `is_cut`: the text itself ends inside a sentence, which is dropped.
    """
    tokens = tokens_of_text(text)
    if tokens <= tokens_max and not is_cut:
        return text
    chars = _chars_within(text, tokens, tokens_max) if tokens > tokens_max else len(text)
    ends = [found.end() for found in _SENTENCE_END.finditer(text, 0, chars)]
    # A text without a sentence end in most of it is a list or a table: it is cut at a word.
    least = chars // 4
    if ends and ends[-1] > least:
        return text[: ends[-1]].rstrip()
    space = text.rfind(" ", 0, chars)
    return text[: space if least < space and chars < len(text) else chars].rstrip()


def _chars_within(text: str, size: int, size_max: int, measure: Measure = tokens_of_text) -> int:
    """Return how many characters at the beginning of a text have at most this size."""
    chars = min(len(text), len(text) * max(size_max, 0) // max(size, 1))
    # Parts of a text differ in tokens per character.
    while chars > 0 and (found := measure(text[:chars])) > size_max:
        chars = min(chars - 1, chars * size_max // found)
    return chars


class _Ends(msgspec.Struct, frozen=True):
    """Positions at which the shown beginning of a text ends, and the shown end begins."""

    head: int
    tail: int


def size_in_bytes(text: str) -> int:
    """Return the size of a text in UTF-8."""
    return len(text.encode())


def outlined(text: str, size_max: int, advice: str, *, start_bytes: int = 0, measure: Measure = tokens_of_text) -> str:
    """Shorten a text to a size, by default in tokens: beginning, outline of the middle, end. A short one is unchanged.

    `advice` says how to read the rest; `start_bytes` is the position of the text in the record that it names.
    """
    size = measure(text)
    if size <= size_max:
        return text
    room = size_max
    while room > 0:
        shown = _outlined(text, room / size, advice, start_bytes, measure)
        excess = measure(shown) - size_max
        if excess <= 0:
            # An outline may be shorter than its share: the ends take the rest, or most of it.
            for filled in _FILLED_SHARES:
                share = filled * room / size * size_max / max(measure(shown), 1)
                longer = _outlined(text, share, advice, start_bytes, measure)
                if measure(shown) < measure(longer) <= size_max:
                    return longer
            return shown
        # A text of uneven density, or an advice that is long compared with the room.
        room = min(room * size_max // (size_max + excess), room - max(1, room // 16))
    gap = _gap(size_in_bytes(text), size_in_bytes(text), advice)
    return gap[: _chars_within(gap, measure(gap), size_max, measure)]


def _outlined(text: str, share: float, advice: str, start_bytes: int, measure: Measure) -> str:
    chars = int(len(text) * share * _END_SHARE)
    ends = _at_lines(text, _Ends(chars, len(text) - chars))
    middle = text[ends.head : ends.tail]
    head_bytes = start_bytes + size_in_bytes(text[: ends.head])
    gap = _gap(size_in_bytes(middle), size_in_bytes(text), advice)
    lines = _outline(middle, int(measure(text) * share * _OUTLINE_SHARE), head_bytes, measure)
    return "\n".join([text[: ends.head].rstrip("\n"), gap, *lines, text[ends.tail :].lstrip("\n")])


def _gap(left_out: int, total: int, advice: str) -> str:
    return f"[{left_out:,} of {total:,} bytes left out here; {advice}]"


def _at_lines(text: str, ends: _Ends) -> _Ends:
    """Move the ends of a gap to the nearest line breaks inside what is shown, else to spaces."""
    reach = int(ends.head * _NEAR_SHARE)
    head, tail = ends.head, ends.tail
    for mark in ("\n", " "):
        if (at := text.rfind(mark, head - reach, head)) > 0:
            head = at + 1
            break
    for mark in ("\n", " "):
        if (at := text.find(mark, tail, tail + reach)) >= 0:
            tail = at + 1
            break
    return _Ends(head, max(head, tail))


class _Line(msgspec.Struct, frozen=True):
    at: int
    text: str


def _outline(middle: str, size_max: int, start_bytes: int, measure: Measure) -> list[str]:
    """Return the lines of an outline: headings and errors in order, else lines at even distances."""
    searched = middle[:_SEARCHED_CHARS_MAX]
    headings, failures = list(_found(_HEADING, searched)), list(_found(_FAILURE, searched))
    counts = f"[{middle.count(chr(10)) + 1:,} lines, {len(headings):,} headings, {len(failures):,} lines with errors"
    left = size_max - measure(counts + _BY_BYTE)
    count = min(_LINES_MAX, left // measure(_USUAL_LINE))
    if count < _LINES_MIN:
        return []
    chosen = _spread(headings, count // 2) + _spread(failures, count // 2) or _spread(list(_samples(middle)), count)
    lines = [counts + _BY_BYTE]
    at, at_bytes = 0, start_bytes
    for line in sorted({line.at: line for line in chosen}.values(), key=lambda one: one.at):
        at_bytes += size_in_bytes(middle[at : line.at])
        at = line.at
        lines.append(f"{at_bytes:,}: {line.text}")
    return [*lines, _OUTLINE_END]


def _found(pattern: re.Pattern[str], text: str) -> Iterator[_Line]:
    """Yield the matching lines, each text once."""
    seen: set[str] = set()
    for found in pattern.finditer(text):
        line = " ".join(found[0][: 4 * _LINE_CHARS].split())[:_LINE_CHARS]
        if line and line not in seen:
            seen.add(line)
            yield _Line(found.start(), line)


def _spread(lines: Sequence[_Line], count: int) -> list[_Line]:
    """Return at most so many lines, at even distances."""
    if len(lines) <= count:
        return list(lines)
    return [lines[place * len(lines) // count] for place in range(count)]


def _samples(middle: str) -> Iterator[_Line]:
    for place in range(_SAMPLES):
        at = middle.find("\n", place * len(middle) // _SAMPLES) + 1
        line = " ".join(middle[at : at + 2 * _LINE_CHARS].split("\n", maxsplit=1)[0].split())[:_LINE_CHARS]
        if line:
            yield _Line(at, line)
