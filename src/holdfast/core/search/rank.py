"""Full-text search of a log: rows, BM25 ranking and snippets.

There is one row per message and one per tool step: the call's name and arguments in one column, because files are
searched by the path they were read from, and the text in another. BM25 scores both columns; for messages the passage
around them counts too (`passages`).
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core.search.passages import Asking, Passages, Scored
from holdfast.core.search.tokenizer import words
from holdfast.core.view.appended import NO_INPUT, expanded
from holdfast.types.messages import LargeText, Media, Part, Reasoning, Text, ToolCall, ToolResult
from holdfast.types.records import InputAdmitted, Logged, Outcome, ReplyRecorded, ToolSettled, TurnEnded, TurnStarted

# The search tool. Its own steps are not indexed: every search would find the earlier searches.
RECALL = "recall"
# Indexed text per row. Longer text is in a blob; this bounds the cost of one record.
_ROW_CHARS_MAX = 256 * 2**10
# Cap of a word's count in one row: more adds nothing to the ranking and costs index space.
TIMES_MAX = 8

# A query is a sentence or a path. Longer queries are truncated.
QUERY_CHARS_MAX = 2_000
QUERY_WORDS_MAX = 48
# Stop words. They have a small weight instead of none: a query may consist of them.
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

# BM25 parameters k1 and b. Long turns hold more answers than short ones, so the length penalty is below the usual 0.75;
# for arguments it is higher, because a short call with a path concerns that path.
_SATURATION = 1.2
_SAID_LENGTH_SHARE = 0.2
_OUTPUT_LENGTH_SHARE = 0.4
_CALLED_LENGTH_SHARE = 0.75
# A match in a call's arguments outweighs one in its output.
_CALLED_WEIGHT = 6.0
# Weight of the words in and around a message, against its own words. With 0.6 chats lost two points of recall and
# meetings gained none; from 1.3 on meetings lose.
_AROUND_WEIGHT = 0.9
# A question for a time is answered with one of these words, which it does not contain itself. Other kinds of answers
# (places, people, moods) have no closed set of words.
_ASKS_TIME = re.compile(r"\bwhen\b|\b(?:what|which) (?:date|day|month|year|time|week)\b|\bhow long\b", re.IGNORECASE)
_TIME_HINTS = dict.fromkeys(
    (
        word
        for word in words(
            "yesterday today tonight tomorrow last next ago week weekend month year morning evening day date monday "
            "tuesday wednesday thursday friday saturday sunday january february march april may june july august "
            "september october november december spring summer autumn fall winter recently since until before after "
            "during"
        )
        if word not in _COMMON
    ),
    0.25,
)
# In transcripts of several people a message begins with its speaker. A question about a person is mostly answered by
# that person, while the others address them by name. The mark has a weight of its own: names are in half of the rows.
_SPEAKER = re.compile(r"\s*([^\W\d_][\w.'-]*(?: [^\W\d_][\w.'-]*){0,3}):\s")
_SPEAKER_CHARS = 80
_SPEAKER_SCORE = 0.8
# A message that only asks repeats the words of a question and holds no answer; the message after it often does. Rows
# have a mark if their last sentence asks, and another if all do.
_ASKS_LAST, _ASKS_ONLY = "?", "??"
_QUESTION_MARK = re.compile(r"[?\uff1f]\W*\Z")
_TAIL_CHARS = 80
# Ends of sentences that do not ask, and of lines without a sentence's end.
_STATEMENT_END = re.compile(r"[.!\u2026]\s|[\u3002\uff01]|[^?\uff1f\s]\n")
# A search for questions: they are what it wants.
_WANTS_QUESTIONS = re.compile(r"\b(?:ask|asks|asked|asking|questions?|requests?|requested)\b", re.IGNORECASE)
# Of two equal matches the newer row wins; with a larger share newer rows would beat better ones.
_RECENCY_SHARE = 0.02


class Row(msgspec.Struct, frozen=True):
    """A searchable row: the text of a call, of a message, or both."""

    # The record of the text, and for a tool step that of the call.
    seq: int
    call: int
    called: str
    said: str


class RowSize(msgspec.Struct, frozen=True):
    """A row in the index: its records, and the number of words in each column."""

    seq: int
    call: int
    called_words: int
    said_words: int


class Posting(msgspec.Struct, frozen=True):
    """A word in a row: the row's index in its session, and the word's count in each column."""

    row: int
    called: int
    said: int


# --- Rows of a log ---


class Reading(msgspec.Struct, frozen=True):
    """Rows read from a log, the last record read, and the record from which the next read must start."""

    rows: tuple[Row, ...]
    until: int
    reread: int


def read_rows(records: Iterable[Logged], *, after: int) -> Reading:
    """Return the rows after the record `after`. `records` start at `reread` of the previous read, or at the first.

    A tool step becomes a row with its result, or once it is certain that there will be none.
    """
    rows: list[Row] = []
    calls: dict[str, Row] = {}
    until, reply_seq = after, 0
    for logged in expanded(records):
        completed, calls = _completed_rows(logged, calls)
        if isinstance(logged.record, ReplyRecorded):
            reply_seq = logged.seq
        if logged.seq > after:
            rows += filter(_is_searchable, completed)
        until = max(until, logged.seq)
    return Reading(tuple(rows), until, reply_seq if calls else until + 1)


def _completed_rows(logged: Logged, calls: dict[str, Row]) -> tuple[list[Row], dict[str, Row]]:
    """Return the rows that a record completes, and the calls that are pending after it."""
    match logged.record:
        case InputAdmitted(parts=parts):
            return [Row(logged.seq, 0, "", said_text(parts))], calls
        case ReplyRecorded(reply=reply):
            row = Row(logged.seq, 0, "", said_text(reply.parts))
            pending = {part.call_id: _called(logged.seq, part) for part in reply.parts if isinstance(part, ToolCall)}
            return [*calls.values(), row], pending
        case ToolSettled(result=result):
            return [_step(logged.seq, calls.pop(result.call_id, None), result)], calls
        case TurnStarted() | TurnEnded():
            return list(calls.values()), {}
        case _:
            return [], calls


def _is_searchable(row: Row) -> bool:
    return row.called.strip() != RECALL and bool(row.called or row.said) and row.said != NO_INPUT


def rebuild_row(size: RowSize, records: Sequence[Logged]) -> Row:
    """Return the row of an index entry, given the records that it names."""
    # An end of the turn completes a call without a result.
    end = Logged(size.seq + 1, 0.0, TurnEnded(0, Outcome.CANCELLED))
    found = (row for row in read_rows((*records, end), after=0).rows if (row.seq, row.call) == (size.seq, size.call))
    return next(found, Row(size.seq, size.call, "", ""))


def _called(seq: int, call: ToolCall) -> Row:
    return Row(seq, seq, _call_text(call), "")


def _call_text(call: ToolCall) -> str:
    """Return the searchable text of a call: its name, and the values of its arguments without their names."""
    if call.name == RECALL:
        return RECALL
    try:
        arguments = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, RecursionError):
        arguments = call.arguments
    return f"{call.name} {' '.join(_leaves(arguments))}"[:_ROW_CHARS_MAX]


def _leaves(value: Any) -> Iterable[str]:  # noqa: ANN401 - any JSON that a model wrote
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [leaf for inner in value for leaf in _leaves(inner)]
    return [str(value)]


def _step(seq: int, call: Row | None, result: ToolResult) -> Row:
    if call is None:
        return Row(seq, 0, "", said_text(result.parts))
    if call.called == RECALL:
        return Row(seq, call.seq, RECALL, "")
    return Row(seq, call.seq, call.called, said_text(result.parts))


def said_text(parts: Sequence[Part]) -> str:
    """Return the searchable text of a message."""
    return "\n".join(text for part in parts if (text := shown_text(part)))[:_ROW_CHARS_MAX]


def shown_text(part: Part) -> str:
    """Return the text of a part in the record: for large texts the head, for media the name."""
    match part:
        case Text(text=text) | Reasoning(text=text):
            return text
        case LargeText(head=head, name=name):
            return f"{name} {head}".strip()
        case Media(name=name):
            return name
        case ToolResult(parts=inner):
            return said_text(inner)
        case _:
            return ""


def word_counts(text: str) -> dict[str, int]:
    """Return the words of a column with their capped counts, and marks: the speaker, and whether it asks."""
    counts = {word: min(times, TIMES_MAX) for word, times in Counter(words(text)).items()}
    speaker = _SPEAKER.match(text, 0, _SPEAKER_CHARS)
    marks = [] if speaker is None else [_mark(word) for word in words(speaker[1])]
    return counts | dict.fromkeys([*marks, *_asking_marks(text)], 1)


def _asking_marks(text: str) -> tuple[str, ...]:
    if not _QUESTION_MARK.search(text[-_TAIL_CHARS:]):
        return ()
    return (_ASKS_LAST,) if _STATEMENT_END.search(text.strip()) else (_ASKS_LAST, _ASKS_ONLY)


def _mark(word: str) -> str:
    return f"{word}:"


# --- Ranking ---


def query_words(query: str) -> dict[str, float]:
    """Return the words of a query with their weights, heaviest first."""
    distinct = dict.fromkeys(words(query[:QUERY_CHARS_MAX]))
    weights = {word: _COMMON_WEIGHT if word in _COMMON else 1.0 for word in distinct}
    return dict(sorted(weights.items(), key=lambda pair: -pair[1])[:QUERY_WORDS_MAX])


class Asked(msgspec.Struct, frozen=True):
    """Words of a query with their weights, and words that are likely in its answer, which only order the matches."""

    words: Mapping[str, float]
    hints: Mapping[str, float]
    speakers: frozenset[str]
    wants_questions: bool = False

    @property
    def all(self) -> list[str]:
        """All words and marks whose postings are needed."""
        return [*self.words, *self.hints, *self.speakers, *(() if self.wants_questions else (_ASKS_LAST, _ASKS_ONLY))]


def asked_words(query: str) -> Asked:
    """Return what a ranking needs of a query."""
    weights = query_words(query)
    hints = _TIME_HINTS if _ASKS_TIME.search(query, 0, QUERY_CHARS_MAX) else {}
    speakers = frozenset(_mark(word) for word, weight in weights.items() if weight == 1.0)
    wants_questions = _WANTS_QUESTIONS.search(query, 0, QUERY_CHARS_MAX) is not None
    hints = {word: weight for word, weight in hints.items() if word not in weights}
    return Asked(weights, hints, speakers, wants_questions)


def rank(
    query: Asked, postings: Mapping[str, Sequence[Posting]], rows: Sequence[RowSize], *, limit: int
) -> list[Scored]:
    """Return the best matches, best first, newest first among equals."""
    if not rows or limit <= 0:
        return []
    passages = Passages({number: row.said_words for number, row in enumerate(rows) if not row.call})
    own = _own_scores(query.words, postings, rows, passages)
    around = _around_scores(query.words, postings, rows, passages)
    for row, score in _own_scores(query.hints, postings, rows, passages).items():
        if row in own:
            own[row] += score
    for row in _rows_with(postings, *query.speakers) & own.keys():
        own[row] += _SPEAKER_SCORE
    asking = Asking(_rows_with(postings, _ASKS_LAST), _rows_with(postings, _ASKS_ONLY))
    scored = [
        Scored(
            row,
            passages.weigh(row, score, _AROUND_WEIGHT * around[row])
            * passages.answer_factor(row, asking)
            * (1 + _RECENCY_SHARE * row / len(rows)),
        )
        for row, score in own.items()
    ]
    return passages.order(scored, limit=limit)


def _rows_with(postings: Mapping[str, Sequence[Posting]], *marks: str) -> frozenset[int]:
    return frozenset(posting.row for mark in marks for posting in postings.get(mark, ()))


def _own_scores(
    query: Mapping[str, float],
    postings: Mapping[str, Sequence[Posting]],
    rows: Sequence[RowSize],
    passages: Passages,
) -> dict[int, float]:
    """Return the BM25 scores of matching rows by their own words."""
    step_mean = _mean([row.said_words for row in rows])
    called_mean = _mean([row.called_words for row in rows])
    own: defaultdict[int, float] = defaultdict(float)
    for word, weight in query.items():
        found = postings.get(word, ())
        rarity = weight * _rarity(found, rows)
        for posting in found:
            size = rows[posting.row]
            mean, share = (step_mean, _OUTPUT_LENGTH_SHARE) if size.call else (passages.mean_words, _SAID_LENGTH_SHARE)
            # An output that repeats a word of its call adds nothing: an edit is confirmed with its path, a read is not.
            if posting.called:
                length = size.called_words / called_mean
                score = _CALLED_WEIGHT * _saturated(posting.called, length, _CALLED_LENGTH_SHARE)
            else:
                score = _saturated(posting.said, size.said_words / mean, share)
            own[posting.row] += rarity * score
    return own


def _around_scores(
    query: Mapping[str, float],
    postings: Mapping[str, Sequence[Posting]],
    rows: Sequence[RowSize],
    passages: Passages,
) -> Mapping[int, float]:
    """Return the BM25 scores of messages by the words in and around them."""
    around: defaultdict[int, float] = defaultdict(float)
    for word, weight in query.items():
        found = postings.get(word, ())
        rarity = weight * _rarity(found, rows)
        for row, times in passages.around((posting.row, posting.said) for posting in found):
            around[row] += rarity * times / (_SATURATION + times)
    return around


def _rarity(found: Sequence[Posting], rows: Sequence[RowSize]) -> float:
    return math.log(1 + (len(rows) - len(found) + 0.5) / (len(found) + 0.5))


def _mean(lengths: Sequence[int]) -> float:
    """Return the mean of the lengths above 0: a message has no call."""
    some = [length for length in lengths if length]
    return sum(some) / len(some) if some else 1.0


def _saturated(times: float, length: float, length_share: float) -> float:
    counts = times / (1 - length_share + length_share * length)
    return counts / (_SATURATION + counts)


class Index:
    """An in-memory search index."""

    def __init__(self) -> None:
        self.rows: list[RowSize] = []
        self._postings: defaultdict[str, list[Posting]] = defaultdict(list)

    def add(self, row: Row) -> None:
        """Index a row."""
        called, said = word_counts(row.called), word_counts(row.said)
        for word in called.keys() | said.keys():
            self._postings[word].append(Posting(len(self.rows), called.get(word, 0), said.get(word, 0)))
        self.rows.append(RowSize(row.seq, row.call, sum(called.values()), sum(said.values())))

    def mentions(self, query: str) -> bool:
        """Return whether any word of a query is in the index."""
        return any(word in self._postings for word in query_words(query))

    def find(self, query: str, *, limit: int) -> list[Scored]:
        """Return the best matches of a query."""
        asked = asked_words(query)
        return rank(asked, {word: self._postings.get(word, ()) for word in asked.all}, self.rows, limit=limit)


# --- Snippets ---

# Enough to recognise a match; ten of them are a page.
SNIPPET_CHARS = 320
_CALLED_CHARS = 120
# Length of text that is searched for the best window: a window costs some microseconds.
_SEARCHED_CHARS = 64 * 2**10
_SPACE = re.compile(r"\s+")


def snippet(row: Row, query: str) -> str:
    """Return the call of a tool step, and the window of the text with the most query words."""
    called = one_line(row.called, _CALLED_CHARS)
    _, said = matching_part(row.said, query, SNIPPET_CHARS - len(called))
    return f"{called}: {said}" if called and said else called or said


def matching_part(text: str, query: str, chars: int) -> tuple[int, str]:
    """Return the window of a text with the highest weight of query words as one line, and its start.

    Of equal windows it is the first.
    """
    weights = query_words(query)
    step = chars // 2
    starts = range(0, max(min(len(text), _SEARCHED_CHARS) - step, 1), step)
    start = max(starts, key=lambda at: _window_weight(text[at : at + chars], weights))
    return start, ("…" if start else "") + one_line(text[start:], chars)


def _window_weight(window: str, weights: dict[str, float]) -> float:
    return sum(weights.get(word, 0.0) for word in set(words(window)))


def one_line(text: str, chars: int) -> str:
    """Return the beginning of a text as one line."""
    line = _SPACE.sub(" ", text[: 2 * chars]).strip()
    return line if len(line) <= chars else line[: chars - 1].rstrip() + "…"
