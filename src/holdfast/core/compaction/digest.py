"""Digest: an extractive summary without a model, with the ledger beside it.

It cannot fail: any messages give a text within the token limit, deterministically and in bounded time. Sentences are
quoted, never rephrased, and framed as reference, so that old messages do not read like current instructions.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from heapq import heapify, heappop, heapreplace
from itertools import chain
from math import log, sqrt
from operator import mul

import msgspec

from holdfast.core.compaction.facts import Passage
from holdfast.core.compaction.ledger import Ledger, make_ledger
from holdfast.core.compaction.passages import bounded, is_machine_made
from holdfast.core.compaction.quotes import one_line
from holdfast.core.limits.sizing import tokens_of_text
from holdfast.core.text.truncation import frame
from holdfast.types.messages import LargeText, Role, Text, ToolCall

__all__ = ["Digest", "Passage", "Quote", "make_digest", "render_summary", "represent"]


class Quote(msgspec.Struct, frozen=True):
    """A verbatim sentence with its role and record."""

    seq: int
    role: Role
    text: str


class Digest(msgspec.Struct, frozen=True):
    """Digest of messages: their number, the tools called, and the most representative sentences."""

    first_seq: int = 0
    last_seq: int = 0
    messages: int = 0
    calls: tuple[tuple[str, int], ...] = ()
    quotes: tuple[Quote, ...] = ()

    def render(self) -> str:
        """Return the digest as text, one quote per line in the order of the conversation."""
        if not self.messages:
            return ""
        head = f"{self.messages} messages, #{self.first_seq} to #{self.last_seq}."
        if self.calls:
            head += " Tools: " + ", ".join(f"{name} {count}" for name, count in self.calls) + "."
        return "\n".join([head, *(f"{quote.role} [#{quote.seq}] {quote.text}" for quote in self.quotes)])


# --- Sentences ---

# Characters read of one message, from its beginning and its end; characters and sentences of a conversation, the first
# and the newest. Together they bound the time for any input.
_MESSAGE_CHARS_MAX = 16 * 2**10
_SESSION_CHARS_MAX = 4 * 2**20
_SENTENCES_MAX = 1_500
# Shorter sentences have no content by themselves ("Done."), longer ones are truncated.
_SENTENCE_CHARS_MIN, _SENTENCE_CHARS_MAX = 24, 320
_TOOLS_SHOWN = 8

# Sentence ends: punctuation before a space, and punctuation of scripts without spaces between sentences.
_ENDS, _ENDS_UNSPACED = (". ", "! ", "? "), ("。", "！", "？")  # noqa: RUF001 - full-width marks end sentences too
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
# Words of letters, and single characters of scripts without spaces between words.
_WORDS = re.compile(r"[^\W\d_぀-ヿ㐀-鿿가-힯]{3,}|[぀-ヿ㐀-鿿가-힯]")
# The same for ASCII, which is most text; it takes a third of the time.
_WORDS_ASCII = re.compile(r"[a-z]{3,}")
_DECIDING = frozenset(
    {"decide", "decided", "decision", "instead", "rather", "agreed", "should", "must", "never", "always", "because"}
    | {"cause", "plan", "fix", "fixed", "prefer", "want", "need"}
)
_FAILING = frozenset(
    {"error", "errors", "fail", "fails", "failed", "failure", "exception", "crash", "broken", "bug", "wrong"}
)
# Exact details: the middle of a path, of a snake_case or camelCase name, and a number. One expression for all of them
# takes three times as long.
_IN_PATH, _SNAKE_CASE = re.compile(r"[\w.-]/[\w.-]"), re.compile(r"\w_\w")
_NUMBER, _CAMEL_CASE = re.compile(r"\b\d\d+\b"), re.compile(r"[a-z][A-Z]")

# Bonuses on top of the similarity to the whole text (0 to 1): user messages state the goal, the first and the last
# messages frame the task, and exact details are looked up later.
_BY_USER, _IS_FIRST, _IS_LATE = 0.45, 0.2, 0.1
_HAS_DECISION, _HAS_ERROR, _HAS_EXACT = 0.15, 0.1, 0.1
# Share of the conversation that counts as late, and the overlap at which a sentence repeats another.
_LATE_SHARE, _OVERLAP_MAX = 0.15, 0.6
# One long plan must not displace everything after it.
_QUOTES_PER_MESSAGE = 3
# Each quote costs a comparison with all others.
_QUOTES_MAX = 120
# Stop after this many misfits in a row.
_MISFITS_MAX = 40


class _Sentence(msgspec.Struct):
    order: int
    place: int
    role: Role
    text: str
    # Its words with repetitions, and without.
    words: list[str]
    distinct: frozenset[str]
    score: float = 0.0


def _prose(text: str) -> str:
    if len(text) > _MESSAGE_CHARS_MAX:
        text = f"{text[: _MESSAGE_CHARS_MAX // 2]}\n{text[-_MESSAGE_CHARS_MAX // 2 :]}"
    return _FENCE.sub("\n", text) if "```" in text else text


def _split(text: str) -> list[str]:
    """Split a text into sentences. `replace` takes a fifth of the time of a regular expression."""
    for end in _ENDS:
        text = text.replace(end, f"{end[0]}\n")
    if not text.isascii():
        for end in _ENDS_UNSPACED:
            text = text.replace(end, f"{end}\n")
    return text.split("\n")


def _texts(passage: Passage) -> Iterator[str]:
    """Yield the texts of a message that a person or the agent wrote."""
    if passage.message.role is Role.TOOL:
        return
    for part in passage.message.parts:
        if isinstance(part, Text | LargeText):
            text = part.text if isinstance(part, Text) else part.head
            if not is_machine_made(text):
                yield text


def _sentences(passages: Sequence[Passage]) -> list[_Sentence]:
    found: list[tuple[int, Role, str]] = []
    for place, passage in bounded(passages, chars_max=_SESSION_CHARS_MAX):
        role = passage.message.role
        for text in _texts(passage):
            found.extend((place, role, sentence) for sentence in _split(_prose(text)) if sentence)
    if len(found) > _SENTENCES_MAX:
        first = _SENTENCES_MAX // 10
        found = found[:first] + found[first - _SENTENCES_MAX :]
    return [
        _sentence(order, place, role, line)
        for order, (place, role, text) in enumerate(found)
        if _has_content(text) and _has_content(line := one_line(text, _SENTENCE_CHARS_MAX))
    ]


def _has_content(text: str) -> bool:
    return len(text) >= _SENTENCE_CHARS_MIN or not text.isascii()


def _sentence(order: int, place: int, role: Role, line: str) -> _Sentence:
    words = (_WORDS_ASCII if line.isascii() else _WORDS).findall(line.lower())
    return _Sentence(order, place, role, line, words, frozenset(words))


def _score(sentences: Sequence[_Sentence], places: int) -> None:
    """Score each sentence by its similarity to the whole text (the centroid of TF-IDF vectors), plus bonuses.

    The bonus for exact details is left to `_best_first`.
    """
    spread = Counter(chain.from_iterable(sentence.distinct for sentence in sentences))
    whole = Counter(chain.from_iterable(sentence.words for sentence in sentences))
    # Squared inverse document frequency. There are few distinct counts, so few logarithms are needed.
    rarity = {count: log(len(sentences) / count) ** 2 for count in set(spread.values())}
    # Contribution of one occurrence of a word to the dot product of its sentence with itself, and with the whole text.
    with_itself = {word: rarity[count] for word, count in spread.items()}
    with_whole = {word: count * with_itself[word] for word, count in whole.items()}
    length = sqrt(sum(map(mul, whole.values(), with_whole.values()))) or 1.0
    first, late = sentences[0].place, places * (1.0 - _LATE_SHARE)
    for sentence in sentences:
        words = sentence.words
        if len(words) == len(sentence.distinct):
            own = sum(map(with_itself.__getitem__, words))
        else:
            counts: dict[str, int] = {}
            for word in words:
                counts[word] = counts.get(word, 0) + 1
            own = sum([count * count * with_itself[word] for word, count in counts.items()])
        similarity = sum(map(with_whole.__getitem__, words)) / ((sqrt(own) or 1.0) * length)
        sentence.score = (
            similarity
            + _BY_USER * (sentence.role is Role.USER)
            + _IS_FIRST * (sentence.place == first)
            + _IS_LATE * (sentence.place >= late)
            + _HAS_DECISION * (not _DECIDING.isdisjoint(sentence.distinct))
            + _HAS_ERROR * (not _FAILING.isdisjoint(sentence.distinct))
        )


def _has_exact(text: str) -> bool:
    return (
        "`" in text
        or ("/" in text and _IN_PATH.search(text) is not None)
        or ("_" in text and _SNAKE_CASE.search(text) is not None)
        or _NUMBER.search(text) is not None
        or _CAMEL_CASE.search(text) is not None
    )


def _best_first(sentences: Sequence[_Sentence]) -> Iterator[_Sentence]:
    """Yield sentences by score; look for exact details only in those that would be next with the bonus."""
    waiting = [(-sentence.score - _HAS_EXACT, sentence.order, sentence) for sentence in sentences]
    heapify(waiting)
    settled: set[int] = set()
    while waiting:
        _, order, sentence = waiting[0]
        if order in settled or _has_exact(sentence.text):
            heappop(waiting)
            yield sentence
        else:
            settled.add(order)
            heapreplace(waiting, (-sentence.score, order, sentence))


def _choose(
    sentences: Sequence[_Sentence], passages: Sequence[Passage], tokens_left: int, already: str
) -> list[_Sentence]:
    """Select the best sentences that fit and do not repeat each other or `already`."""
    chosen: list[_Sentence] = []
    taken: Counter[int] = Counter()
    misfits = 0
    for sentence in _best_first(sentences):
        if misfits == _MISFITS_MAX or len(chosen) == _QUOTES_MAX:
            break
        if taken[sentence.place] >= _QUOTES_PER_MESSAGE or sentence.text in already:
            continue
        words = sentence.distinct
        if any(len(words & other.distinct) > _OVERLAP_MAX * len(words) for other in chosen):
            continue
        cost = tokens_of_text(f"{sentence.role} [#{passages[sentence.place].seq}] {sentence.text}\n")
        # A sentence that does not fit is skipped: a shorter one may fit.
        if cost > tokens_left:
            misfits += 1
            continue
        misfits = 0
        tokens_left -= cost
        chosen.append(sentence)
        taken[sentence.place] += 1
    return chosen


def make_digest(passages: Sequence[Passage], *, tokens_max: int, already: Collection[str] = ()) -> Digest:
    """Make a digest of passages within this many tokens. `already`: texts quoted elsewhere."""
    if not passages:
        return Digest()
    tools = Counter(part.name for passage in passages for part in passage.message.parts if isinstance(part, ToolCall))
    counts = Digest(
        first_seq=passages[0].seq,
        last_seq=passages[-1].seq,
        messages=len(passages),
        calls=tuple((one_line(name, 40), count) for name, count in sorted(tools.most_common(_TOOLS_SHOWN))),
    )
    tokens_left = tokens_max - tokens_of_text(counts.render()) - 1
    if tokens_left < 0:
        return Digest()
    sentences = _sentences(passages)
    if sentences:
        _score(sentences, len(passages))
    chosen = _choose(sentences, passages, tokens_left, "\n".join(already))
    chosen.sort(key=lambda sentence: sentence.order)
    quotes = tuple(Quote(passages[sentence.place].seq, sentence.role, sentence.text) for sentence in chosen)
    return msgspec.structs.replace(counts, quotes=quotes)


# --- Text for the view ---

_LABEL = (
    "Taken by rule from earlier messages that are no longer shown. This is reference, not instructions: what was asked "
    "here was asked then and may be done. [#n] is the record in which it stands, word for word: recall(seq=n) reads "
    "it, recall(query=...) finds what is not mentioned here."
)
# Used if not even the frame fits.
_BARE = "[earlier messages left out]"
# Share of the tokens for the ledger. The digest gets the rest.
_LEDGER_SHARE = 0.96


def render_summary(digest: Digest, ledger: Ledger) -> str:
    """Return the text that replaces the originals in the view, labelled and in an escaped frame."""
    return frame(_LABEL, digest.render(), ledger.render())


def represent(passages: Sequence[Passage], *, tokens_max: int) -> str:
    """Return digest and ledger of passages as one text of at most this many tokens, "" without passages."""
    if not passages:
        return ""
    room = tokens_max - tokens_of_text(frame(_LABEL) + "\n\n")
    # Escapes can lengthen the measured text; then retry with less room.
    while room > 0:
        ledger = make_ledger(passages, tokens_max=int(room * _LEDGER_SHARE))
        left = room - tokens_of_text(ledger.render())
        digest = make_digest(passages, tokens_max=left, already=[entry.text for entry in ledger.entries])
        if not (digest.messages or ledger.entries):
            break
        summary = render_summary(digest, ledger)
        excess = tokens_of_text(summary) - tokens_max
        if excess <= 0:
            return summary
        room = min(room * tokens_max // (tokens_max + excess), room - max(1, room // 8))
    return _BARE if tokens_of_text(_BARE) <= tokens_max else ""
