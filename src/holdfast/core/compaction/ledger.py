"""The ledger: exact facts extracted verbatim from compacted messages, ranked by the probability of reuse.

The facts with the highest probability per token are kept. Every entry cites a record that contains it, so that it can
be looked up and verified.
"""

import re
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heapreplace
from itertools import accumulate, chain, takewhile
from math import exp, log1p
from typing import NamedTuple

import msgspec

from holdfast.core.compaction.facts import NAME, PATH, QUOTED, FactKind, Passage, numbers
from holdfast.core.compaction.passages import TEXT, USER, Reading, Tally, read_passages
from holdfast.core.compaction.quotes import FOR_GOOD, QUOTE_CHARS, SAID, TOLD, instructions, one_line
from holdfast.core.limits.sizing import tokens_of_text
from holdfast.core.search.tokenizer import CAMEL_SEGMENT

# --- Fact score: probability that an agent uses a fact again ---

# Log-odds, fitted to 52 cuts of 13 real sessions and rounded; `bench ledger` shows the held-out half of the sessions
# separately. Each use by the agent (in a call, an edit, a message) and by the user counts by its logarithm; recency
# decays with e^(-messages/30). The number of times a tool printed a fact has no effect.
_BASE = -4.2
_PER_CALL, _PER_EDIT, _PER_SAID, _PER_ASKED = 0.35, 0.2, 0.4, 1.05
_NEAR, _NEAR_AGENT, _BY_AGENT = 0.95, 1.3, 1.25
_NEARNESS_MESSAGES = 30.0
# Printed once by a tool, and not used since.
_SEEN_ONCE = -0.45
_BY_KIND = {FactKind.PATH: 0.35, FactKind.URL: -1.1, FactKind.ID: -1.0, FactKind.NUMBER: -1.05}
# An edited path. Not fitted: a changed file must be found again, even if it was not used since.
_EDITED = 0.3
# A definition of a plain word, `class Parser`: mostly the text means the word, not the class.
_PLAIN = -1.0
# Weights of the share of used facts among the neighbours in one tool output, and among the names with the same words. A
# few pseudo-counts keep short outputs from dominating.
_NEIGHBOURS, _RELATED = 2.3, 0.6
_PSEUDO_COUNT, _PSEUDO_USED = 4, 1


def fact_scores(reading: Reading, places: int) -> dict[str, float]:
    """Return for each fact the probability that it is used again after this many passages."""
    neighbours, relatives = _used_neighbours(reading), _used_relatives(reading)
    kinds, edited = reading.judge.kinds, reading.edited
    near = [exp((place - places) / _NEARNESS_MESSAGES) for place in range(places)]
    found: dict[str, float] = {}
    for fact, tally in reading.tallies.items():
        kind = kinds[fact]
        odds = (0.0 if kind is NAME else _BY_KIND[kind]) + _odds(tally, near)
        if tally.last_agent < 0:
            odds += _NEIGHBOURS * max(map(neighbours.__getitem__, tally.places))
        if fact in edited:
            odds += _EDITED
        if fact in relatives:
            odds += _RELATED * relatives[fact] + (_PLAIN if fact[1:].islower() and fact.isalpha() else 0.0)
        found[fact] = 1.0 / (1.0 + exp(-odds))
    return found


def _odds(tally: Tally, near: Sequence[float]) -> float:
    printed, called, edited, said, asked = tally.uses
    odds = _BASE + _NEAR * near[tally.last]
    if asked:
        odds += _PER_ASKED * log1p(asked)
    if tally.last_agent >= 0:
        by_agent = _PER_CALL * log1p(called) + _PER_EDIT * log1p(edited) + _PER_SAID * log1p(said)
        return odds + _BY_AGENT + _NEAR_AGENT * near[tally.last_agent] + by_agent
    return odds + (_SEEN_ONCE if printed == 1 and not asked else 0.0)


def _used_neighbours(reading: Reading) -> dict[int, float]:
    """Return for each passage the share of its facts that the agent used, there or elsewhere."""
    tallies = reading.tallies.values()
    present = Counter(chain.from_iterable(tally.places for tally in tallies))
    used = Counter(chain.from_iterable(tally.places for tally in tallies if tally.last_agent >= 0))
    return {place: (used[place] + _PSEUDO_USED) / (count + _PSEUDO_COUNT) for place, count in present.items()}


def _used_relatives(reading: Reading) -> dict[str, float]:
    """Return for each name the share of other names with its words that the agent used."""
    kinds, tallies = reading.judge.kinds, reading.tallies
    segments = {name: list(map(str.lower, CAMEL_SEGMENT.findall(name))) for name in tallies if kinds[name] is NAME}
    present = Counter(chain.from_iterable(map(set, segments.values())))
    used = Counter(chain.from_iterable(set(words) for name, words in segments.items() if tallies[name].last_agent >= 0))
    # The share that each word adds to an unused name; a used name does not count itself.
    share = {word: used[word] / count for word, count in present.items()}
    itself = {word: 1.0 / count for word, count in present.items()}
    shares: dict[str, float] = {}
    for name, words in segments.items():
        total = sum(map(share.__getitem__, words))
        if tallies[name].last_agent >= 0:
            total -= sum(map(itself.__getitem__, words))
        shares[name] = total / (len(words) or 1)
    return shares


class Entry(msgspec.Struct, frozen=True):
    """One fact, verbatim, and the seq of a record that contains it."""

    kind: FactKind
    text: str
    seq: int


class Ledger(msgspec.Struct, frozen=True):
    """The selected facts, those of each kind in order of seq."""

    entries: tuple[Entry, ...] = ()

    def render(self) -> str:
        """Return the ledger as compact text: one line per quote, one line per kind for the rest."""
        lines: list[str] = []
        by_kind: dict[FactKind, list[Entry]] = {}
        for entry in self.entries:
            by_kind.setdefault(entry.kind, []).append(entry)
        for kind, title in _TITLES.items():
            entries = by_kind.get(kind, [])
            if kind in QUOTED:
                lines.extend(f"{title} [#{entry.seq}] {entry.text}" for entry in entries)
            elif entries:
                lines.append(f"{title} {_listed(entries)}")
        return "\n".join(lines)


_TITLES = {
    FactKind.INSTRUCTION: "user",
    FactKind.DECISION: "decided",
    FactKind.COMMAND: "ran",
    FactKind.ERROR: "error",
    FactKind.EDITED: "edited:",
    FactKind.PATH: "paths:",
    FactKind.URL: "urls:",
    FactKind.ID: "ids:",
    FactKind.NAME: "names:",
    FactKind.NUMBER: "numbers:",
}


# The beginning of a ledger line, for quotes and lists: its title and the record that it cites.
_LINE = re.compile(rf"(?:{'|'.join(map(re.escape, _TITLES.values()))}) \[#\d+\] ")


def lines_in(summary: str) -> tuple[str, ...]:
    """Return the ledger lines at the end of a summary, without the closing frame."""
    lines = summary.split("\n")[:-1]
    return tuple(reversed(list(takewhile(_LINE.match, reversed(lines)))))


def _listed(entries: Sequence[Entry]) -> str:
    # One citation for all entries of the same record.
    words: list[str] = []
    seq: int | None = None
    for entry in entries:
        if entry.seq != seq:
            seq = entry.seq
            words.append(f"[#{seq}]")
        words.append(f"{entry.text};" if " " in entry.text else entry.text)
    return " ".join(words)


# --- Selection ---

# Shares of a ledger for quotes. The rest is for words: an agent types them again, and a digest has quotes too.
_QUOTE_SHARES = {
    FactKind.INSTRUCTION: 0.10,
    FactKind.DECISION: 0.02,
    FactKind.COMMAND: 0.02,
    FactKind.ERROR: 0.02,
}
# Without tool calls the session is a chat: no words are typed again, and the messages matter most.
_QUOTE_SHARES_WITHOUT_CALLS = {**_QUOTE_SHARES, FactKind.INSTRUCTION: 0.45, FactKind.DECISION: 0.10}
# Standing instructions, and short statements with exact details, may take more: they are needed at any time, regardless
# of age, and are stored nowhere else. Words take the unused rest.
_TOLD_SHARE = 0.25
# Minimum for quotes, up to an eighth of the ledger: in a short ledger a share is less than a sentence.
_QUOTES_TOKENS_MIN = 60
# Stop after this many misfits in a row.
_MISFITS_MAX = 8
# Rough token estimate of a word with its share of citation and space, for ranking only: a separator inside it costs a
# token, and starts another word.
_WORD_TOKENS, _CHAR_TOKENS, _MARK_TOKENS = 0.7, 0.165, 1.2
# Tokens of a citation, and the expected number of citations: one per so many words, at most one per so many records.
# They make the first attempt come close; an attempt costs more than an estimate.
_CITATION_TOKENS, _WORDS_CITED, _RECORDS_CITED = 4.5, 10, 6
# Steps of the search for the number of words, the share of the room that is sufficient, and the target share: halfway
# between sufficient and too much. Three steps nearly always suffice; the bound is for texts that are estimated badly.
_STEPS_TO_FIT, _FULL, _AIM = 6, 0.98, 0.99
# Ranked facts. A megabyte of a real session has at most 1,600, so eight have fewer than this; more are a dump of ids or
# of numbered names, and would slow the ranking down.
_FACTS_MAX = 2**14
# Candidate records for a citation; more do not improve the choice.
_PLACES_MAX = 16


class _Room(NamedTuple):
    """Token limit for quotes of one kind, and the higher one for standing instructions and exact statements."""

    tokens: int
    for_told: int


def _rooms(reading: Reading, tokens_max: int) -> dict[FactKind, _Room]:
    shares = _QUOTE_SHARES if reading.has_calls else _QUOTE_SHARES_WITHOUT_CALLS
    least = min(_QUOTES_TOKENS_MIN, tokens_max // 8)
    rooms = {kind: max(int(tokens_max * share), least) for kind, share in shares.items()}
    return {kind: _Room(room, max(room, int(tokens_max * _TOLD_SHARE))) for kind, room in rooms.items()}


def _cost(fact: str) -> float:
    marks = fact.count("/") + fact.count("_") + fact.count(".") + fact.count("-")
    return _WORD_TOKENS + _CHAR_TOKENS * len(fact) + _MARK_TOKENS * marks


def _drop_excess(reading: Reading) -> None:
    """Drop facts beyond the bound; keep those that the agent used and then the newest."""
    tallies = reading.tallies
    if len(tallies) > _FACTS_MAX:
        # The text breaks ties: the same conversation gives the same ledger in every process.
        kept = sorted(tallies, key=lambda fact: (tallies[fact].last_agent, tallies[fact].last, fact), reverse=True)
        reading.tallies = {fact: tallies[fact] for fact in kept[:_FACTS_MAX]}


def _merge_paths(reading: Reading) -> None:
    """Merge `setup.go` and `cli/setup.go` into the longest path that ends with them."""
    # The longest path for each suffix. A path has few suffixes; a comparison of all pairs would be quadratic.
    longest: dict[str, str] = {}
    kinds, tallies = reading.judge.kinds, reading.tallies
    paths = [fact for fact in tallies if kinds[fact] is PATH]
    for path in sorted(paths, key=lambda path: (-len(path), path)):
        whole = longest.get(path)
        if whole is None:
            end = path
            while "/" in end:
                end = end.partition("/")[2]
                longest.setdefault(end, path)
            continue
        tallies[whole].absorb(tallies.pop(path))
        if path in reading.edited:
            # Cite a record with the full path, not the one that edited the suffix.
            reading.edited.setdefault(whole, tallies[whole].places[-1])


def _quotes(reading: Reading, kind: FactKind, seqs: Sequence[int], room: _Room) -> list[Entry]:
    """Select quotes of one kind, each text once, best priority and newest first."""
    places = [place for place, _ in reading.quotes[kind]]
    texts = [text for _, text in reading.quotes[kind]]
    if kind is FactKind.INSTRUCTION:
        candidates = instructions(texts)
    else:
        candidates = ((SAID, index, one_line(texts[index], QUOTE_CHARS)) for index in reversed(range(len(texts))))
    chosen: dict[int, Entry] = {}
    seen: set[str] = set()
    taken = misfits = 0
    for priority, index, line in candidates:
        if misfits == _MISFITS_MAX:
            break
        if not line or line in seen or index in chosen:
            continue
        seq = seqs[places[index]]
        cost = tokens_of_text(f"{_TITLES[kind]} [#{seq}] {line}\n")
        if taken + cost > (room.for_told if priority in (FOR_GOOD, TOLD) else room.tokens):
            # A shorter one may fit.
            misfits += 1
            continue
        misfits = 0
        seen.add(line)
        taken += cost
        chosen[index] = Entry(kind, line, seq)
    return sorted(chosen.values(), key=lambda entry: entry.seq)


def _ranked(reading: Reading, places: int, shown: set[str]) -> dict[str, float]:
    """Return all words that are not quoted yet with their cost, highest probability per token first."""
    # A qualified name of plain words, `ref.Hash`, counts only if a message mentions it.
    kinds = reading.judge.kinds
    scores = fact_scores(reading, places)
    ranking = [
        (-scores[fact] / (cost := _cost(fact)), fact, cost)
        for fact, tally in reading.tallies.items()
        if fact not in shown and ("." not in fact or kinds[fact] is not NAME or tally.uses[TEXT] or tally.uses[USER])
    ]
    ranking.sort()
    return {fact: cost for _, fact, cost in ranking}


class _Citations:
    """Assigns records to facts, for increasing prefixes of one ranked list."""

    def __init__(self, reading: Reading, ranked: Sequence[str], seqs: Sequence[int]) -> None:
        self._reading = reading
        self._ranked = ranked
        self._seqs = seqs
        # Facts at each place, for the longest prefix of the list so far.
        self._facts_at: dict[int, set[str]] = {}
        self._indexed = 0

    def entries(self, count: int) -> list[Entry]:
        """Return the first `count` facts, each with a record that contains it, with few distinct records."""
        self._index(count)
        # The path of a file shows its folders.
        uncited = set(self._ranked[:count])
        uncited -= _folders(uncited)
        # Greedy set cover: the record with the most uncited facts, the newer one of two equals. A record's count only
        # shrinks, so most are never counted again.
        fullest = [(-len(facts), -place) for place, facts in self._facts_at.items()]
        heapify(fullest)
        entries: list[Entry] = []
        while uncited:
            place = -fullest[0][1]
            cited = self._facts_at[place] & uncited
            now = (-len(cited), -place)
            if now > fullest[0]:
                heapreplace(fullest, now)
                continue
            heappop(fullest)
            uncited -= cited
            entries += [_entry(self._reading, fact, place, self._seqs) for fact in cited]
        return sorted(entries, key=lambda entry: (entry.seq, entry.text))

    def _index(self, count: int) -> None:
        facts_at, tallies = self._facts_at, self._reading.tallies
        for fact in self._ranked[self._indexed : count]:
            for place in tallies[fact].places[-_PLACES_MAX:]:
                if place in facts_at:
                    facts_at[place].add(fact)
                else:
                    facts_at[place] = {fact}
        self._indexed = max(self._indexed, count)


def _folders(facts: Iterable[str]) -> set[str]:
    """Return every folder of the paths among these facts."""
    folders: set[str] = set()
    for fact in facts:
        folder = fact.rpartition("/")[0]
        # The parents of a known folder are known too.
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return folders


def _entry(reading: Reading, fact: str, place: int, seqs: Sequence[int]) -> Entry:
    if fact in reading.edited:
        return Entry(FactKind.EDITED, fact, seqs[reading.edited[fact]])
    if fact in reading.numbers:
        place, fact = reading.numbers[fact]
        return Entry(FactKind.NUMBER, fact, seqs[place])
    return Entry(reading.judge.kinds[fact], fact, seqs[place])


def _first_guess(ranked: Sequence[str], costs: Sequence[float], places: int, room: int) -> int:
    """Estimate how many of the best words fit, with their citations."""
    count = bisect(costs, room) - 1
    citations = _CITATION_TOKENS * min(count / _WORDS_CITED, places / _RECORDS_CITED)
    tokens = tokens_of_text(" ".join(ranked[:count])) + citations
    return int(count * min(1.0, room / max(1.0, tokens)))


def make_ledger(passages: Sequence[Passage], *, tokens_max: int) -> Ledger:
    """Extract the exact facts from passages, as many as fit into this many tokens when rendered."""
    reading = read_passages(passages)
    _drop_excess(reading)
    _merge_paths(reading)
    seqs = [passage.seq for passage in passages]
    quotes = [
        quote for kind, room in _rooms(reading, tokens_max).items() for quote in _quotes(reading, kind, seqs, room)
    ]
    shown = reading.judge.facts(entry.text for entry in quotes)
    shown.update(number for entry in quotes for number in numbers(entry.text))
    ranking = _ranked(reading, len(passages), shown)
    ranked = list(ranking)
    best = Ledger(tuple(quotes))
    quoted = tokens_of_text(best.render())
    if quoted > tokens_max:
        return Ledger()
    # Find the largest number of words that fit. Tokens grow about linearly with the rough cost, so linear interpolation
    # converges in a step or two; it stays between the largest known fit and the smallest known misfit.
    costs = [0.0, *accumulate(ranking.values())]
    citations = _Citations(reading, ranked, seqs)
    fitting, too_many = 0, len(ranked) + 1
    count = _first_guess(ranked, costs, len(passages), tokens_max - quoted)
    steps_left = _STEPS_TO_FIT
    while steps_left and fitting < count < too_many:
        steps_left -= 1
        ledger = Ledger((*quotes, *citations.entries(count)))
        tokens = tokens_of_text(ledger.render())
        if tokens > tokens_max:
            too_many = count
        else:
            best, fitting = ledger, count
            if tokens >= _FULL * tokens_max:
                break
        cost_per_token = costs[count] / max(1, tokens - quoted)
        aim = bisect(costs, costs[count] + (_AIM * tokens_max - tokens) * cost_per_token) - 1
        count = min(max(aim, fitting + 1), too_many - 1)
    return best
