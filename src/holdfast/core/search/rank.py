"""What of a log is searchable, and which of it answers a question best.

There is a row per message and a row per tool step: the call's name and arguments in a column of their own, because a
file is asked for by the path it was read from, and its content in another. Rows are scored by BM25 over both columns;
where turns are short, what was said around one counts too, because an answer then seldom stands in a single turn.
"""

import math
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core.search.tokenizer import words
from holdfast.types.messages import LargeText, Media, Part, Reasoning, Text, ToolCall, ToolResult
from holdfast.types.records import InputAdmitted, Logged, Outcome, ReplyRecorded, ToolSettled, TurnEnded, TurnStarted

# The tool that searches. Its own steps are not rows: every search would find the searches before it.
RECALL = "recall"
# Text of one row that is looked at. Longer text lives in a blob; this bounds what one record can cost.
_ROW_CHARS_MAX = 256 * 2**10
# A word counts at most so often in one row: more of it says no more about the row, and costs room in the index.
TIMES_MAX = 8

# A question is a sentence or a path. Of anything longer the beginning is asked.
QUERY_CHARS_MAX = 2_000
QUERY_WORDS_MAX = 48
# Words that say how a question is asked more than what about. They count a little: a question may have no others.
_COMMON = frozenset(
    word
    for text in (
        "a an the of to in on at for from by with about and or not no is are was were be been being do does did done",
        "have has had i you he she it we they me him her us them my your his its our their this that these those",
        "there here what which who whom whose when where why how as if then than so but into out up down over can",
        "could would should will shall may might must find show tell say said talk talked think thought mention",
        "mentioned describe explain discuss discussed discussion opinion summarize summarise summary regarding",
    )
    for word in words(text)
)
_COMMON_WEIGHT = 0.25

# BM25: how soon repeating a word stops to count, and how much a long row must have more of it. Long turns hold more
# answers than short ones, so less is asked of them than the usual 0.75; of arguments more, because a call that names
# little beside a path is about that path.
_SATURATION = 1.2
_SAID_LENGTH_SHARE = 0.4
_CALLED_LENGTH_SHARE = 0.75
# What a call was about outweighs what stands somewhere in its output.
_CALLED_WEIGHT = 6.0
# Of two rows that match alike the newer one wins; more than this and newer rows would win over better ones.
_RECENCY_SHARE = 0.02

# Turns are short where messages have fewer words than this on average, as in meetings and chats. There a message is
# scored together with six on either side, each step away counting four fifths of the one before, and of messages that
# stand close together one is shown first: they are one passage.
_SHORT_WORDS = 40
_AROUND = tuple(0.8**distance for distance in range(1, 7))
_AROUND_WEIGHT = 0.5
_APART = 5


class Row(msgspec.Struct, frozen=True):
    """Something to be found: by the words of a call, of a text, or both."""

    # The record to read, and for a tool step the one with the call.
    seq: int
    call: int
    called: str
    said: str


class RowSize(msgspec.Struct, frozen=True):
    """A row as an index knows it: where it stands in the log, and how many words each column has."""

    seq: int
    call: int
    called_words: int
    said_words: int


class Posting(msgspec.Struct, frozen=True):
    """A word in a row, by the row's place among the rows of its session, and how often it stands in each column."""

    row: int
    called: int
    said: int


# --- from records to rows ----------------------------------------------------------------------------------------


class Reading(msgspec.Struct, frozen=True):
    """What was read of a log: its rows, how far it was read, and from where the next reading must begin again."""

    rows: tuple[Row, ...]
    until: int
    reread: int


def read_rows(records: Iterable[Logged], *, after: int) -> Reading:
    """Return the rows that came behind `after`. `records` begin where the reading before said, or at the beginning.

    A step is a row once its result is there, or once it is clear that none will come.
    """
    rows: list[Row] = []
    calls: dict[str, Row] = {}
    until, reply_seq = after, 0
    for logged in records:
        found: list[Row] = []
        match logged.record:
            case InputAdmitted(parts=parts):
                found.append(Row(logged.seq, 0, "", _said(parts)))
            case ReplyRecorded(reply=reply):
                found += calls.values()
                calls = {part.call_id: _called(logged.seq, part) for part in reply.parts if isinstance(part, ToolCall)}
                reply_seq = logged.seq
                found.append(Row(logged.seq, 0, "", _said(reply.parts)))
            case ToolSettled(result=result):
                found.append(_step(logged.seq, calls.pop(result.call_id, None), result))
            case TurnStarted() | TurnEnded():
                found += calls.values()
                calls = {}
            case _:
                pass
        if logged.seq > after:
            rows += (row for row in found if row.called.strip() != RECALL and (row.called or row.said))
        until = max(until, logged.seq)
    return Reading(tuple(rows), until, reply_seq if calls else until + 1)


def row_again(size: RowSize, records: Sequence[Logged]) -> Row:
    """Return what a row was made of, given the records that it names."""
    # An end behind them settles a call that has no result.
    end = Logged(size.seq + 1, 0.0, TurnEnded(0, Outcome.CANCELLED))
    found = (row for row in read_rows((*records, end), after=0).rows if (row.seq, row.call) == (size.seq, size.call))
    return next(found, Row(size.seq, size.call, "", ""))


def _called(seq: int, call: ToolCall) -> Row:
    return Row(seq, seq, _call_text(call), "")


def _call_text(call: ToolCall) -> str:
    """Return a call as the words it is found by: its name, and the values of its arguments without their names."""
    if call.name == RECALL:
        return RECALL
    try:
        arguments = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, RecursionError):
        arguments = call.arguments
    return f"{call.name} {' '.join(_leaves(arguments))}"[:_ROW_CHARS_MAX]


def _leaves(value: Any) -> Iterable[str]:  # noqa: ANN401 - whatever a model wrote as JSON
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [leaf for inner in value for leaf in _leaves(inner)]
    return [str(value)]


def _step(seq: int, call: Row | None, result: ToolResult) -> Row:
    if call is None:
        return Row(seq, 0, "", _said(result.parts))
    if call.called == RECALL:
        return Row(seq, call.seq, RECALL, "")
    return Row(seq, call.seq, call.called, _said(result.parts))


def _said(parts: Sequence[Part]) -> str:
    return "\n".join(text for part in parts if (text := shown_text(part)))[:_ROW_CHARS_MAX]


def shown_text(part: Part) -> str:
    """Return what a part says in the record itself: of something large its beginning, of media its name."""
    match part:
        case Text(text=text) | Reasoning(text=text):
            return text
        case LargeText(head=head, name=name):
            return f"{name} {head}".strip()
        case Media(name=name):
            return name
        case ToolResult(parts=inner):
            return _said(inner)
        case _:
            return ""


def counted(text: str) -> dict[str, int]:
    """Return the words of a column with how often each counts."""
    return {word: min(times, TIMES_MAX) for word, times in Counter(words(text)).items()}


# --- from a question to rows -------------------------------------------------------------------------------------


def query_words(query: str) -> dict[str, float]:
    """Return the words that a question asks for, with what each counts, those first that say most."""
    asked = list(dict.fromkeys(words(query[:QUERY_CHARS_MAX])))
    weights = {word: _COMMON_WEIGHT if word in _COMMON else 1.0 for word in asked}
    return dict(sorted(weights.items(), key=lambda pair: -pair[1])[:QUERY_WORDS_MAX])


class Scored(msgspec.Struct, frozen=True):
    """A row that answers, by its place, and how well."""

    row: int
    score: float


def rank(
    asked: Mapping[str, float], postings: Mapping[str, Sequence[Posting]], rows: Sequence[RowSize], *, limit: int
) -> list[Scored]:
    """Return the rows that answer best, best first, newest first among equals."""
    if not rows or limit <= 0:
        return []
    said_mean = _mean([row.said_words for row in rows])
    called_mean = _mean([row.called_words for row in rows])
    talk = _short_talk(rows)
    scores: defaultdict[int, float] = defaultdict(float)
    for word, weight in asked.items():
        found = postings.get(word, ())
        rarity = weight * math.log(1 + (len(rows) - len(found) + 0.5) / (len(found) + 0.5))
        for posting in found:
            size = rows[posting.row]
            scores[posting.row] += rarity * (
                _CALLED_WEIGHT * _saturated(posting.called, size.called_words / called_mean, _CALLED_LENGTH_SHARE)
                + _saturated(posting.said, size.said_words / said_mean, _SAID_LENGTH_SHARE)
            )
        if talk is not None:
            for row, times in talk.around(found).items():
                scores[row] += rarity * _AROUND_WEIGHT * times / (_SATURATION + times)
    own = {posting.row for word in asked for posting in postings.get(word, ())}
    best = sorted(
        (Scored(row, score * (1 + _RECENCY_SHARE * row / len(rows))) for row, score in scores.items() if row in own),
        key=lambda scored: (-scored.score, -scored.row),
    )
    return (best if talk is None else talk.apart(best))[:limit]


def _mean(lengths: Sequence[int]) -> float:
    """Return the mean of the lengths that are not nothing: a message has no call to be compared with."""
    some = [length for length in lengths if length]
    return sum(some) / len(some) if some else 1.0


def _saturated(times: float, length: float, length_share: float) -> float:
    if not times:
        return 0.0
    counts = times / (1 - length_share + length_share * length)
    return counts / (_SATURATION + counts)


class _Talk:
    """The messages of a session whose turns are short: who stands beside whom, and how long each passage is."""

    def __init__(self, rows: Sequence[RowSize], messages: list[int]) -> None:
        self._messages = messages
        lengths = [rows[row].said_words for row in messages]
        self._lengths = [float(length) for length in lengths]
        for distance, share in enumerate(_AROUND, start=1):
            for at in range(len(lengths) - distance):
                self._lengths[at] += share * lengths[at + distance]
                self._lengths[at + distance] += share * lengths[at]
        self._mean = sum(self._lengths) / len(self._lengths)

    def _place(self, row: int) -> int | None:
        at = bisect_left(self._messages, row)
        return at if at < len(self._messages) and self._messages[at] == row else None

    def around(self, found: Sequence[Posting]) -> dict[int, float]:
        """Return how much of a word stands in and around each message, as against how long that passage is."""
        times: defaultdict[int, float] = defaultdict(float)
        for posting in found:
            place = self._place(posting.row)
            if place is None:
                continue
            times[place] += posting.said
            for distance, share in enumerate(_AROUND, start=1):
                times[place - distance] += share * posting.said
                times[place + distance] += share * posting.said
        share = _SAID_LENGTH_SHARE
        return {
            self._messages[at]: many / (1 - share + share * self._lengths[at] / self._mean)
            for at, many in times.items()
            if 0 <= at < len(self._messages)
        }

    def apart(self, best: Sequence[Scored]) -> list[Scored]:
        """Put messages that stand beside a better one behind all others."""
        first: list[Scored] = []
        beside: list[Scored] = []
        taken: set[int] = set()
        for scored in best:
            place = self._place(scored.row)
            if place is not None and place in taken:
                beside.append(scored)
                continue
            first.append(scored)
            if place is not None:
                taken.update(range(place - _APART, place + _APART + 1))
        return first + beside


def _short_talk(rows: Sequence[RowSize]) -> _Talk | None:
    messages = [number for number, row in enumerate(rows) if not row.call]
    if not messages or sum(rows[number].said_words for number in messages) > _SHORT_WORDS * len(messages):
        return None
    return _Talk(rows, messages)


class Index:
    """An index in memory: rows as they come, and the words in each."""

    def __init__(self) -> None:
        self.rows: list[RowSize] = []
        self._postings: defaultdict[str, list[Posting]] = defaultdict(list)

    def add(self, row: Row) -> None:
        """Make a row findable."""
        called, said = counted(row.called), counted(row.said)
        for word in called.keys() | said.keys():
            self._postings[word].append(Posting(len(self.rows), called.get(word, 0), said.get(word, 0)))
        self.rows.append(RowSize(row.seq, row.call, sum(called.values()), sum(said.values())))

    def mentions(self, query: str) -> bool:
        """Return whether any word of a question is in it."""
        return any(word in self._postings for word in query_words(query))

    def find(self, query: str, *, limit: int) -> list[Scored]:
        """Return the rows that answer a question best."""
        asked = query_words(query)
        return rank(asked, {word: self._postings.get(word, ()) for word in asked}, self.rows, limit=limit)


# --- What is shown of a row to somebody who searches: the few lines around the words they asked for.


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
