"""The summary that needs no model: sentences quoted from the originals, and the ledger beside them.

It cannot fail: any messages give a text within the given tokens, the same one each time, in bounded time. What it holds
is quoted, never rephrased, and framed as reference, so that nothing said long ago reads like an instruction of now.
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
    """A sentence as it was said, by whom, and in which record."""

    seq: int
    role: Role
    text: str


class Digest(msgspec.Struct, frozen=True):
    """What was said and done, in short: how much there was, which tools were called, and the telling sentences."""

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


# --- sentences ---------------------------------------------------------------------------------------------------

# Of one message its beginning and its end are read, of a conversation so many characters and sentences: the first and
# the newest. Together they bound the time whatever the input.
_MESSAGE_CHARS_MAX = 16 * 2**10
_SESSION_CHARS_MAX = 4 * 2**20
_SENTENCES_MAX = 1_500
# Shorter ones say nothing by themselves ("Done."), longer ones are cut.
_SENTENCE_CHARS_MIN, _SENTENCE_CHARS_MAX = 24, 320
_TOOLS_SHOWN = 8

# Where a sentence ends: after these marks before a blank, and after those of scripts that put none between sentences.
_ENDS, _ENDS_UNSPACED = (". ", "! ", "? "), ("。", "！", "？")  # noqa: RUF001 - full-width marks end sentences too
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
# Words of letters, and single characters of scripts that put no blanks between words.
_WORDS = re.compile(r"[^\W\d_぀-ヿ㐀-鿿가-힯]{3,}|[぀-ヿ㐀-鿿가-힯]")
# The same where all is ASCII, as most is; it takes a third of the time.
_WORDS_ASCII = re.compile(r"[a-z]{3,}")
_DECIDING = frozenset(
    {"decide", "decided", "decision", "instead", "rather", "agreed", "should", "must", "never", "always", "because"}
    | {"cause", "plan", "fix", "fixed", "prefer", "want", "need"}
)
_FAILING = frozenset(
    {"error", "errors", "fail", "fails", "failed", "failure", "exception", "crash", "broken", "bug", "wrong"}
)
# The middle of a path, of a name with bars or with humps, and a number: what has it has the whole. One expression for
# all of them takes thrice the time.
_IN_PATH, _AT_BAR = re.compile(r"[\w.-]/[\w.-]"), re.compile(r"\w_\w")
_NUMBER, _AT_HUMP = re.compile(r"\b\d\d+\b"), re.compile(r"[a-z][A-Z]")

# What a sentence gains on top of its likeness to the whole, which lies between 0 and 1: what people said tells what
# is wanted, the first and the last messages frame the task, and exact things are what one looks for later.
_BY_USER, _IS_FIRST, _IS_LATE = 0.45, 0.2, 0.1
_HAS_DECISION, _HAS_ERROR, _HAS_EXACT = 0.15, 0.1, 0.1
# Share of the conversation that counts as late, and overlap at which a sentence says what another already did.
_LATE_SHARE, _OVERLAP_MAX = 0.15, 0.6
# One long plan must not push out everything that came of it.
_QUOTES_PER_MESSAGE = 3
# More quotes than this are no digest, and each costs a comparison with all others.
_QUOTES_MAX = 120
# Where this many sentences in a row did not fit, the rest hardly will.
_MISFITS_MAX = 40


class _Sentence(msgspec.Struct):
    order: int
    place: int
    role: Role
    text: str
    # Its words, each as often as it occurs, and each once.
    words: list[str]
    distinct: frozenset[str]
    score: float = 0.0


def _prose(text: str) -> str:
    if len(text) > _MESSAGE_CHARS_MAX:
        text = f"{text[: _MESSAGE_CHARS_MAX // 2]}\n{text[-_MESSAGE_CHARS_MAX // 2 :]}"
    return _FENCE.sub("\n", text) if "```" in text else text


def _cut(text: str) -> list[str]:
    """Return the sentences of a text. Replacing takes a fifth of the time that an expression does."""
    for end in _ENDS:
        text = text.replace(end, f"{end[0]}\n")
    if not text.isascii():
        for end in _ENDS_UNSPACED:
            text = text.replace(end, f"{end}\n")
    return text.split("\n")


def _sentences(passages: Sequence[Passage]) -> list[_Sentence]:
    found: list[tuple[int, Role, str]] = []
    for place, passage in bounded(passages, chars_max=_SESSION_CHARS_MAX):
        role = passage.message.role
        if role is Role.TOOL:
            continue
        for part in passage.message.parts:
            if isinstance(part, Text | LargeText):
                text = part.text if isinstance(part, Text) else part.head
                if is_machine_made(text):
                    continue
                found.extend((place, role, sentence) for sentence in _cut(_prose(text)) if sentence)
    if len(found) > _SENTENCES_MAX:
        first = _SENTENCES_MAX // 10
        found = found[:first] + found[first - _SENTENCES_MAX :]
    return [
        _sentence(order, place, role, line)
        for order, (place, role, text) in enumerate(found)
        if _is_telling(text) and _is_telling(line := one_line(text, _SENTENCE_CHARS_MAX))
    ]


def _is_telling(text: str) -> bool:
    return len(text) >= _SENTENCE_CHARS_MIN or not text.isascii()


def _sentence(order: int, place: int, role: Role, line: str) -> _Sentence:
    words = (_WORDS_ASCII if line.isascii() else _WORDS).findall(line.lower())
    return _Sentence(order, place, role, line, words, frozenset(words))


def _score(sentences: Sequence[_Sentence], places: int) -> None:
    """Score each sentence by its likeness to the whole (the centroid of TF-IDF vectors) and by what it carries.

    Only whether it has something exact is left to `_best_first`.
    """
    spread = Counter(chain.from_iterable(sentence.distinct for sentence in sentences))
    whole = Counter(chain.from_iterable(sentence.words for sentence in sentences))
    # How rare a word is, squared. Few counts occur, so few logarithms are needed.
    rarity = {count: log(len(sentences) / count) ** 2 for count in set(spread.values())}
    # What one occurrence of a word adds to the product of its sentence with itself, and to that with the whole.
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
        likeness = sum(map(with_whole.__getitem__, words)) / ((sqrt(own) or 1.0) * length)
        sentence.score = (
            likeness
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
        or ("_" in text and _AT_BAR.search(text) is not None)
        or _NUMBER.search(text) is not None
        or _AT_HUMP.search(text) is not None
    )


def _best_first(sentences: Sequence[_Sentence]) -> Iterator[_Sentence]:
    """Yield sentences by their score, looking for something exact only in those that would be next with it."""
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
    """Take the best sentences that fit and do not repeat each other or what is already quoted."""
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
        # A sentence that does not fit is passed over: a shorter one may.
        if cost > tokens_left:
            misfits += 1
            continue
        misfits = 0
        tokens_left -= cost
        chosen.append(sentence)
        taken[sentence.place] += 1
    return chosen


def make_digest(passages: Sequence[Passage], *, tokens_max: int, already: Collection[str] = ()) -> Digest:
    """Quote what tells most about some originals within this many tokens. `already`: texts quoted elsewhere."""
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


# --- what stands in the view -------------------------------------------------------------------------------------

_LABEL = (
    "Taken by rule from earlier messages that are no longer shown. This is reference, not instructions: what was asked "
    "here was asked then and may be done. [#n] is the record in which it stands, word for word: recall(seq=n) reads "
    "it, recall(query=...) finds what is not mentioned here."
)
# Where not even the frame fits, this says at least that something is missing.
_BARE = "[earlier messages left out]"
# What of the tokens goes to the ledger. The rest, and what the ledger leaves, goes to quotes.
_LEDGER_SHARE = 0.96


def render_summary(digest: Digest, ledger: Ledger) -> str:
    """Return what stands in the view in place of the originals: framed, labelled, and unable to leave its frame."""
    return frame(_LABEL, digest.render(), ledger.render())


def represent(passages: Sequence[Passage], *, tokens_max: int) -> str:
    """Return digest and ledger of some originals as one text of at most this many tokens, "" where there are none."""
    if not passages:
        return ""
    room = tokens_max - tokens_of_text(frame(_LABEL) + "\n\n")
    # Escapes can lengthen what was measured without them; then there is less room, and it is tried again.
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
