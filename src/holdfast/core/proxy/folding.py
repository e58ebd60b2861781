"""Fold repeated lines of tool output without loss.

A block of lines that follows itself again and again is shown once, after a line that states how often it occurs. Its
numbers may differ from one occurrence to the next, as times and counters do: the line lists their values. `unfold`
restores the text.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec

# Lines of one block: a stanza of a log. And occurrences that are worth the line that states them.
_BLOCK_LINES_MAX = 8
_OCCURRENCES_MIN = 3
# A fold must save this much of a text: small ones are not worth a changed request.
_SAVED_CHARS_MIN = 400
_SAVED_SHARE_MIN = 0.1
# A longer text is left as it is: folding takes some microseconds per line.
_TEXT_CHARS_MAX = 2**19
# Values that differ: numbers, and identifiers in hexadecimal digits.
_VALUE = re.compile(r"0x[0-9a-f]{1,32}|(?<![0-9A-Za-z])(?=[a-f]{0,31}[0-9])[0-9a-f]{7,64}(?![0-9A-Za-z])|[0-9]{1,18}")
_HEADER = re.compile(r"\[the next (?:line occurs|([0-9]+) lines occur) ([0-9]+) times in a row(?:; with (.+))?\]")
_PLACE = re.compile(r"\{([0-9]{1,3})\}")
_SEGMENT = re.compile(r"([0-9a-fx]+)(?:\.\.([0-9]+)(?: step ([0-9]+))?| x([0-9]+))?")
_HINT = "[the next "
# Numbers in a row that are shorter as a range, and equal ones that are shorter as a count.
_RANGE_MIN = 3


class _Line(msgspec.Struct, frozen=True):
    """A line: its text around the values, and the values."""

    form: tuple[str, ...]
    values: tuple[str, ...]


class _Run(msgspec.Struct, frozen=True):
    """A block of so many lines that occurs so often in a row."""

    lines: int
    times: int

    @property
    def length(self) -> int:
        return self.lines * self.times


def fold_repeats(text: str) -> str | None:
    """Return a text with its repeated lines folded; None if that would save too little."""
    if len(text) > _TEXT_CHARS_MAX or _HINT in text or _PLACE.search(text) is not None:
        # It would take too long, or be ambiguous.
        return None
    lines = text.split("\n")
    parsed = [_parsed(line) for line in lines]
    folded: list[str] = []
    place = 0
    while place < len(lines):
        shown = [(run, _shown(parsed[place : place + run.length], run)) for run in _runs(parsed, place)]
        # A run that is as long folded as it is unfolded is passed over, so that no line is compared again and again.
        run, block = max(shown, key=lambda one: _gain(lines, place, *one), default=(_Run(1, 1), [lines[place]]))
        if _gain(lines, place, run, block) <= 0:
            run = max((run for run, _ in shown), key=lambda one: one.length, default=run)
            block = lines[place : place + run.length]
        folded += block
        place += run.length
    result = "\n".join(folded)
    saved = len(text) - len(result)
    return result if saved >= _SAVED_CHARS_MIN and saved >= _SAVED_SHARE_MIN * len(text) else None


def _parsed(line: str) -> _Line:
    return _Line(tuple(_VALUE.split(line)), tuple(_VALUE.findall(line)))


def _runs(parsed: Sequence[_Line], place: int) -> Iterator[_Run]:
    """Yield the runs of blocks at a place, the smallest block first; larger ones only if they reach further."""
    longest = 0
    for size in range(1, min(_BLOCK_LINES_MAX, len(parsed) - place - 1) + 1):
        end = place + size
        while end < len(parsed) and parsed[end].form == parsed[end - size].form:
            end += 1
        run = _Run(size, (end - place) // size)
        if run.times >= _OCCURRENCES_MIN and run.length > longest:
            longest = run.length
            yield run


def _gain(lines: Sequence[str], place: int, run: _Run, block: Sequence[str]) -> int:
    return sum(map(len, lines[place : place + run.length])) + run.length - sum(map(len, block)) - len(block)


def _shown(parsed: Sequence[_Line], run: _Run) -> list[str]:
    """Return a run as a line that states it, and its block once."""
    columns: list[str] = []
    block: list[str] = []
    for place in range(run.lines):
        occurrences = parsed[place :: run.lines]
        text = occurrences[0].form[0]
        for column, after in enumerate(occurrences[0].form[1:]):
            values = [one.values[column] for one in occurrences]
            if len(set(values)) == 1:
                text += values[0] + after
            else:
                columns.append(f"{{{len(columns) + 1}}} = {', '.join(_segments(values))}")
                text += f"{{{len(columns)}}}{after}"
        block.append(text)
    told = "line occurs" if run.lines == 1 else f"{run.lines} lines occur"
    listed = f"; with {'; '.join(columns)}" if columns else ""
    return [f"[the next {told} {run.times} times in a row{listed}]", *block]


def _segments(values: Sequence[str]) -> Iterator[str]:
    """Yield values in order: equal ones as a count, numbers at equal steps as a range."""
    counted = [(value, len(list(same))) for value, same in groupby(values)]
    place = 0
    while place < len(counted):
        value, times = counted[place]
        end, step = _range_end(counted, place)
        if end - place >= _RANGE_MIN:
            yield f"{value}..{counted[end - 1][0]}" + (f" step {step}" if step != 1 else "")
            place = end
            continue
        yield value if times == 1 else f"{value} x{times}"
        place += 1


def _range_end(counted: Sequence[tuple[str, int]], place: int) -> tuple[int, int]:
    """Return the end of a range of numbers that each occur once, and its step."""
    first = counted[place][0]
    if place + 1 == len(counted) or not first.isdecimal() or not counted[place + 1][0].isdecimal():
        return place, 0
    step = int(counted[place + 1][0]) - int(first)
    end = place
    while step > 0 and end < len(counted) and counted[end] == (_number(first, (end - place) * step), 1):
        end += 1
    return end, step


def _number(first: str, added: int) -> str:
    return str(int(first) + added).zfill(len(first))


def unfold(text: str) -> str:
    """Return the text that was folded."""
    lines = text.split("\n")
    restored: list[str] = []
    place = 0
    while place < len(lines):
        header = _HEADER.fullmatch(lines[place])
        if header is None:
            restored.append(lines[place])
            place += 1
            continue
        size, times = int(header[1] or 1), int(header[2])
        columns = [_values(column.partition(" = ")[2]) for column in (header[3] or "").split("; ") if column]
        block = lines[place + 1 : place + 1 + size]
        restored += [_filled(line, columns, occurrence) for occurrence in range(times) for line in block]
        place += 1 + size
    return "\n".join(restored)


def _filled(line: str, columns: Sequence[Sequence[str]], occurrence: int) -> str:
    return _PLACE.sub(lambda at: columns[int(at[1]) - 1][occurrence], line)


def _values(listed: str) -> list[str]:
    values: list[str] = []
    for segment in listed.split(", "):
        found = _SEGMENT.fullmatch(segment)
        assert found is not None, "a fold lists values in this form"
        first, last, step, times = found.groups()
        if last is None:
            values += [first] * int(times or 1)
            continue
        ends = int(last) - int(first) + 1
        values += [_number(first, added) for added in range(0, ends, int(step or 1))]
    return values
