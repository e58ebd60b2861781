"""Story layers of a digest: sentences that people typed, and what the agent said and did, quoted in order of time.

The agent's lines are chosen by the facts that they show and that are likely to be used again, so that names stand in
the sentences that explain them.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heapreplace
from math import exp

from holdfast.core.compaction.facts import Judge, numbers
from holdfast.core.compaction.memory.quotes import is_told
from holdfast.core.compaction.memory.state import Event, Memory, Typed

_NEARNESS_MESSAGES = 30.0
# Worth of a typed sentence: of any, of the first and the newest messages, with exact details, a question, and one deep
# in a long text.
_TYPED, _FIRST, _NEWEST, _TOLD, _DEEP = 1.0, 0.5, 1.2, 0.7, -0.7
# Tokens that a line costs beside its text, and the words of a sentence that says something by itself: very short
# sentences ("wow") do not win by their shortness alone.
_LINE_TOKENS, _WORDS_FULL = 12, 6
# Worth of the agent's line beside the facts it shows: its form, its nearness, and of a fact.
_FORM, _NEAR, _FACT = 0.4, 0.15, 2.0
_MISFITS_MAX = 30
_OVERLAP_MAX = 0.7


def choose_typed(memory: Memory, already: str, room: int, count: Callable[[str], int]) -> tuple[list[Typed], int]:
    """Return the best typed sentences that fit and are not shown already, and the tokens that they take."""
    first = memory.typed[0].seq if memory.typed else 0
    ranked: list[tuple[float, int, Typed, int]] = []
    seen: set[str] = set()
    for at, one in enumerate(memory.typed):
        if one.text in seen or one.text in already:
            continue
        seen.add(one.text)
        near = exp((one.place - memory.messages) / (4 * _NEARNESS_MESSAGES))
        worth = _TYPED + _FIRST * (one.seq == first) + _NEWEST * near + _TOLD * is_told(one.text) + _DEEP * one.is_deep
        worth *= min(1.0, (one.text.count(" ") + 1) / _WORDS_FULL) if one.text.isascii() else 1.0
        cost = count(one.text) + 1
        ranked.append((-worth / (cost + _LINE_TOKENS), at, one, cost))
    ranked.sort()
    chosen: list[tuple[int, Typed]] = []
    opened: set[int] = set()
    taken = misfits = 0
    for _, at, one, bare in ranked:
        cost = bare + (0 if one.seq in opened else count(f"user [#{one.seq}] ") + 1)
        if taken + cost > room:
            misfits += 1
            if misfits > _MISFITS_MAX:
                break
            continue
        opened.add(one.seq)
        taken += cost
        chosen.append((at, one))
    return [one for _, one in sorted(chosen)], taken


def render_typed(chosen: list[Typed]) -> list[tuple[int, str]]:
    """Return one line per message, in order of time."""
    lines: dict[int, list[str]] = {}
    for one in chosen:
        lines.setdefault(one.seq, []).append(one.text)
    return [(seq, f"user [#{seq}] {' '.join(texts)}") for seq, texts in lines.items()]


class Story:
    """Chooses lines of the agent, best first, for rooms that become known one after the other."""

    def __init__(self, memory: Memory, scores: dict[str, float], judge: Judge, shown: set[str], already: str) -> None:
        self._scores, self._shown = scores, shown
        self._facts: dict[int, frozenset[str]] = {}
        self._memory = memory
        self._words: list[frozenset[str]] = []
        waiting: list[tuple[float, int]] = []
        seen: set[str] = set()
        for at, event in enumerate(memory.events):
            if event.text in seen or event.text in already:
                continue
            seen.add(event.text)
            self._facts[at] = frozenset(judge.facts((event.text,))) | frozenset(numbers(event.text))
            waiting.append((-self._worth(at, event), at))
        heapify(waiting)
        self._waiting = waiting

    def _worth(self, at: int, event: Event) -> float:
        """Return the worth of a line per token, with the facts that no chosen line shows."""
        scores = self._scores
        facts = sum(scores.get(fact, 0.0) for fact in self._facts[at] if fact not in self._shown)
        near = exp((event.place - self._memory.messages) / _NEARNESS_MESSAGES)
        return (_FACT * facts + _FORM * event.worth + _NEAR * near) / (len(event.text) + 30)

    def choose(self, room: int, count: Callable[[str], int]) -> tuple[list[tuple[int, str]], int]:
        """Return the best lines that fit with their place in time, and the tokens that they take."""
        chosen: list[tuple[int, str]] = []
        taken = misfits = 0
        waiting, events = self._waiting, self._memory.events
        misfitting: list[tuple[float, int]] = []
        while waiting and misfits < _MISFITS_MAX:
            known, at = waiting[0]
            event = events[at]
            now = -self._worth(at, event)
            if now > known + 1e-12:
                # Facts that were chosen since are worth nothing again.
                heapreplace(waiting, (now, at))
                continue
            heappop(waiting)
            words = frozenset(event.text.lower().split())
            if any(len(words & other) > _OVERLAP_MAX * len(words) for other in self._words):
                continue
            line = f"{event.doing} [#{event.seq}] {event.text}"
            cost = count(line) + 1
            if taken + cost > room:
                misfits += 1
                misfitting.append((known, at))
                continue
            taken += cost
            chosen.append((at, line))
            self._words.append(words)
            self._shown |= self._facts[at]
        self._waiting += misfitting
        heapify(self._waiting)
        return chosen, taken
