"""Passages: the messages of a session, each with its neighbours where turns are short.

Turns of a few words rarely hold both the words of a question and its answer, so a message is also scored by the words
around it. A neighbour counts less with its distance, and less if it or the message is long: an essay is a passage by
itself. Everything here is computed from the sizes of rows, so that sealed records rank as live ones do.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

# Shares of neighbours, up to six messages away: 0.6 to 0.9 per step gave the same recall within a point.
_SHARES = tuple(0.7**distance for distance in range(1, 7))
# Messages above this number of words are long: neighbours count in inverse proportion to their length.
_LONG_WORDS = 100
# Penalty for the length of a passage, as `b` of BM25.
_LENGTH_SHARE = 0.3

# If turns are long on average, as between a person and a model that writes essays, the score of messages above 60 words
# falls with the square root of their length. In meetings and chats the long turns hold the answers.
_ESSAY_MEAN_WORDS = 40
_ESSAY_WORDS = 60
_ESSAY_EXPONENT = 0.5

# A message up to five messages away from a better match loses 8 %, once. Without it one passage fills the list. If
# it came after all others, the answer to a matching question would not be found. With 15 % chats lost a point.
_APART = 5
_BESIDE_FACTOR = 0.92


# Score of a message whose last sentence asks, and of one that only asks; share that a message gains after either.
# Shares of 0.1 to 0.3 and factors of 0.6 to 0.8 helped in chats, in real dialogues and in requests with essays alike.
# They count in inverse proportion to the length of messages above 40 words: a long one that asks also tells.
_ASKS_LAST_FACTOR, _ASKS_ONLY_FACTOR, _REPLY_SHARE = 0.85, 0.65, 0.2
_TELLING_WORDS = 40


class Asking(msgspec.Struct, frozen=True):
    """Rows whose last sentence asks, and those among them without any other sentence."""

    last: frozenset[int]
    only: frozenset[int]


class Scored(msgspec.Struct, frozen=True):
    """A matching row by its index, with its score."""

    row: int
    score: float


def _inverse_share(words: int, size: int) -> float:
    """Return 1 up to this number of words, and less in inverse proportion above."""
    return min(1.0, words / size) if size else 1.0


class Passages:
    """The messages of a session as passages. `words` has the number of words of each message, by its row in order."""

    def __init__(self, words: Mapping[int, int]) -> None:
        self._rows = list(words)
        self._places = {row: place for place, row in enumerate(self._rows)}
        sizes = list(words.values())
        self.mean_words = sum(sizes) / len(sizes) if sum(sizes) else 1.0
        self._shortness = [_inverse_share(_LONG_WORDS, size) for size in sizes]
        self._brevity = [_inverse_share(_TELLING_WORDS, size) for size in sizes]
        lengths = [float(size) for size in sizes]
        for distance, share in enumerate(_SHARES, start=1):
            for place in range(len(sizes) - distance):
                both = share * self._shortness[place] * self._shortness[place + distance]
                lengths[place] += both * sizes[place + distance]
                lengths[place + distance] += both * sizes[place]
        mean = sum(lengths) / len(lengths) if sum(lengths) else 1.0
        self._length_factors = [1 - _LENGTH_SHARE + _LENGTH_SHARE * length / mean for length in lengths]
        self._weights = [self._weight(size) for size in sizes]

    def _weight(self, size: int) -> float:
        if self.mean_words <= _ESSAY_MEAN_WORDS or size <= _ESSAY_WORDS:
            return 1.0
        return float((_ESSAY_WORDS / size) ** _ESSAY_EXPONENT)

    def around(self, counts: Iterable[tuple[int, int]]) -> Iterator[tuple[int, float]]:
        """Yield rows with the count of a word in and around them, by the length of the passage.

        `counts` are the rows with the word. Rows that are not messages are ignored.
        """
        times: defaultdict[int, float] = defaultdict(float)
        last = len(self._rows) - 1
        for row, count in counts:
            place = self._places.get(row)
            if place is None:
                continue
            times[place] += count
            for distance, share in enumerate(_SHARES, start=1):
                spread = share * count * self._shortness[place]
                if place >= distance:
                    times[place - distance] += spread * self._shortness[place - distance]
                if place + distance <= last:
                    times[place + distance] += spread * self._shortness[place + distance]
        for place, found in times.items():
            yield self._rows[place], found / self._length_factors[place]

    def weigh(self, row: int, own: float, around: float) -> float:
        """Return the score of a row by its own words and the words around it."""
        place = self._places.get(row)
        return own if place is None else self._weights[place] * (own + around * self._shortness[place])

    def answer_factor(self, row: int, asking: Asking) -> float:
        """Return the factor of a row's score: below 1 if the message asks, above 1 if the message before it does."""
        place = self._places.get(row)
        if place is None:
            return 1.0
        asks = _ASKS_ONLY_FACTOR if row in asking.only else _ASKS_LAST_FACTOR if row in asking.last else 1.0
        is_reply = place > 0 and self._rows[place - 1] in asking.last
        reply = 1 + _REPLY_SHARE * self._brevity[place] * self._shortness[place - 1] if is_reply else 1.0
        return (1 - (1 - asks) * self._brevity[place]) * reply

    def order(self, scored: Sequence[Scored], *, limit: int) -> list[Scored]:
        """Return the best rows, best first, newest first among equals; messages beside a better one lose a share."""
        # A demotion lowers a score only, so a row is at its place when it is popped for the second time.
        heap = [(-one.score, -one.row, False) for one in scored]
        heapq.heapify(heap)
        best: list[Scored] = []
        taken: set[int] = set()
        while heap and len(best) < limit:
            score, row, is_demoted = heapq.heappop(heap)
            place = self._places.get(-row)
            if place is not None:
                if not is_demoted and any(place + step in taken for step in range(-_APART, _APART + 1)):
                    factor = 1 - (1 - _BESIDE_FACTOR) * self._shortness[place]
                    heapq.heappush(heap, (score * factor, row, True))
                    continue
                taken.add(place)
            best.append(Scored(-row, -score))
        return best
