"""The ledger: exact facts taken verbatim from what was compacted, ranked by how likely an agent needs them again.

Per token the likeliest are kept. Every entry cites a record in which it stands, so that it can be looked up and
checked.
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

# --- How likely an agent uses a fact again, read off how it was used before.


# Log-odds, fitted to 52 cuts of 13 real sessions and rounded; `bench ledger` shows apart what the other half of the
# sessions gives. Each use by the agent (in a call, in an edit, said) and by the user counts by its logarithm; nearness
# fades with e^(-messages/30). How often a tool printed a fact says nothing.
_CHANCE = -4.2
_PER_CALL, _PER_EDIT, _PER_SAID, _PER_ASKED = 0.35, 0.2, 0.4, 1.05
_NEAR, _NEAR_AGENT, _BY_AGENT = 0.95, 1.3, 1.25
_NEARNESS_MESSAGES = 30.0
# Printed once by a tool, and nobody came back to it.
_SEEN_ONCE = -0.45
_BY_KIND = {FactKind.PATH: 0.35, FactKind.URL: -1.1, FactKind.ID: -1.0, FactKind.NUMBER: -1.05}
# A path that was written to. Not fitted: what was changed must be found again, even where nobody came back to it.
_EDITED = 0.3
# A definition of a plain word, `class Parser`: mostly the word is meant, not the class.
_PLAIN = -1.0
# For the share of a fact's neighbours in one tool's output that the agent took up, and for that of the names with the
# same words. A few imagined neighbours keep short outputs from deciding alone.
_COMPANY, _FAMILY = 2.3, 0.6
_IMAGINED, _IMAGINED_TAKEN = 4, 1


def chances(reading: Reading, places: int) -> dict[str, float]:
    """Return for each fact the chance that it is used again, between 0 and 1, after this many passages."""
    company, family = _company(reading), _family(reading)
    kinds, edited = reading.judge.kinds, reading.edited
    near = [exp((place - places) / _NEARNESS_MESSAGES) for place in range(places)]
    found: dict[str, float] = {}
    for fact, tally in reading.tallies.items():
        kind = kinds[fact]
        odds = (0.0 if kind is NAME else _BY_KIND[kind]) + _odds(tally, near)
        if tally.last_agent < 0:
            odds += _COMPANY * max(map(company.__getitem__, tally.places))
        if fact in edited:
            odds += _EDITED
        if fact in family:
            odds += _FAMILY * family[fact] + (_PLAIN if fact[1:].islower() and fact.isalpha() else 0.0)
        found[fact] = 1.0 / (1.0 + exp(-odds))
    return found


def _odds(tally: Tally, near: Sequence[float]) -> float:
    printed, called, edited, said, asked = tally.uses
    odds = _CHANCE + _NEAR * near[tally.last]
    if asked:
        odds += _PER_ASKED * log1p(asked)
    if tally.last_agent >= 0:
        by_agent = _PER_CALL * log1p(called) + _PER_EDIT * log1p(edited) + _PER_SAID * log1p(said)
        return odds + _BY_AGENT + _NEAR_AGENT * near[tally.last_agent] + by_agent
    return odds + (_SEEN_ONCE if printed == 1 and not asked else 0.0)


def _company(reading: Reading) -> dict[int, float]:
    """Return for each passage the share of its facts that the agent took up, there or elsewhere."""
    tallies = reading.tallies.values()
    standing = Counter(chain.from_iterable(tally.places for tally in tallies))
    taken = Counter(chain.from_iterable(tally.places for tally in tallies if tally.last_agent >= 0))
    return {place: (taken[place] + _IMAGINED_TAKEN) / (count + _IMAGINED) for place, count in standing.items()}


def _family(reading: Reading) -> dict[str, float]:
    """Return for each name how many of the other names with its words the agent took up, as a share."""
    kinds, tallies = reading.judge.kinds, reading.tallies
    humps = {name: list(map(str.lower, CAMEL_SEGMENT.findall(name))) for name in tallies if kinds[name] is NAME}
    standing = Counter(chain.from_iterable(map(set, humps.values())))
    taken = Counter(chain.from_iterable(set(words) for name, words in humps.items() if tallies[name].last_agent >= 0))
    # What a name that nobody took up gains by each of its words; of one that was, it does not count itself.
    share = {word: taken[word] / count for word, count in standing.items()}
    itself = {word: 1.0 / count for word, count in standing.items()}
    shares: dict[str, float] = {}
    for name, words in humps.items():
        total = sum(map(share.__getitem__, words))
        if tallies[name].last_agent >= 0:
            total -= sum(map(itself.__getitem__, words))
        shares[name] = total / (len(words) or 1)
    return shares


class Entry(msgspec.Struct, frozen=True):
    """One fact, as it was written, and the seq of a record in which it stands."""

    kind: FactKind
    text: str
    seq: int


class Ledger(msgspec.Struct, frozen=True):
    """The facts worth keeping, those of each kind in order of seq."""

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


# How a line of a ledger begins, of a quote and of a list alike: its title and the record that it cites.
_LINE = re.compile(rf"(?:{'|'.join(map(re.escape, _TITLES.values()))}) \[#\d+\] ")


def lines_in(summary: str) -> tuple[str, ...]:
    """Return the lines of the ledger at the end of what stands for the past, without the frame behind it."""
    lines = summary.split("\n")[:-1]
    return tuple(reversed(list(takewhile(_LINE.match, reversed(lines)))))


def _listed(entries: Sequence[Entry]) -> str:
    # One citation serves all entries that stand in the same record.
    words: list[str] = []
    seq: int | None = None
    for entry in entries:
        if entry.seq != seq:
            seq = entry.seq
            words.append(f"[#{seq}]")
        words.append(f"{entry.text};" if " " in entry.text else entry.text)
    return " ".join(words)


# --- what is kept ------------------------------------------------------------------------------------------------

# What quotes may take of a ledger. The rest is for words: they are what an agent types again, and a digest quotes too.
_QUOTE_SHARES = {
    FactKind.INSTRUCTION: 0.10,
    FactKind.DECISION: 0.02,
    FactKind.COMMAND: 0.02,
    FactKind.ERROR: 0.02,
}
# Where no tool was called nothing is typed again by a program: it is a talk, and what was said is what matters of it.
_QUOTE_SHARES_OF_A_TALK = {**_QUOTE_SHARES, FactKind.INSTRUCTION: 0.45, FactKind.DECISION: 0.10}
# What a person laid down for good, or told in few words with something exact in them, may take more: it is needed at
# any time, however long ago it was said, and stands nowhere else. Where there is less of it, words take the rest.
_TOLD_SHARE = 0.25
# In a short ledger a share is less than a sentence; so much may be taken all the same, up to an eighth of it.
_QUOTES_TOKENS_MIN = 60
# Where so many in a row did not fit, the rest hardly will.
_MISFITS_MAX = 8
# A quick guess at the tokens of a word with its share of citation and blank, for ranking alone: a mark inside it costs
# one, and begins another word.
_WORD_TOKENS, _CHAR_TOKENS, _MARK_TOKENS = 0.7, 0.165, 1.2
# What a citation takes, and how many there are about: one for so many words, and at most one for so many records. They
# make the first try come close; a try costs more than any guess.
_CITATION_TOKENS, _WORDS_CITED, _RECORDS_CITED = 4.5, 10, 6
# Steps in which the number of words is found, the share of the room at which it is good enough, and the one that is
# aimed at: in the middle between good enough and too much. Three steps reach it nearly always; the bound is for texts
# that the quick guess gets wrong.
_STEPS_TO_FIT, _FULL, _AIM = 6, 0.98, 0.99
# Facts that are ranked. A megabyte of a real session has at most 1,600, so eight have fewer than this; more of them
# are a dump of ids or of numbered names, and each would take as long as a word that is needed.
_FACTS_MAX = 2**14
# Records that a fact may cite; more than these make no better choice.
_PLACES_MAX = 16


class _Room(NamedTuple):
    """How many tokens quotes of one kind may take, and how many together with what a person told."""

    tokens: int
    for_told: int


def _rooms(reading: Reading, tokens_max: int) -> dict[FactKind, _Room]:
    shares = _QUOTE_SHARES if reading.has_calls else _QUOTE_SHARES_OF_A_TALK
    least = min(_QUOTES_TOKENS_MIN, tokens_max // 8)
    rooms = {kind: max(int(tokens_max * share), least) for kind, share in shares.items()}
    return {kind: _Room(room, max(room, int(tokens_max * _TOLD_SHARE))) for kind, room in rooms.items()}


def _cost(fact: str) -> float:
    marks = fact.count("/") + fact.count("_") + fact.count(".") + fact.count("-")
    return _WORD_TOKENS + _CHAR_TOKENS * len(fact) + _MARK_TOKENS * marks


def _forget_most(reading: Reading) -> None:
    """Where there are more facts than any session has, keep what the agent used and then the newest."""
    tallies = reading.tallies
    if len(tallies) > _FACTS_MAX:
        # By their words where all else is alike: the same conversation gives the same ledger in every process.
        kept = sorted(tallies, key=lambda fact: (tallies[fact].last_agent, tallies[fact].last, fact), reverse=True)
        reading.tallies = {fact: tallies[fact] for fact in kept[:_FACTS_MAX]}


def _merge_paths(reading: Reading) -> None:
    """Count `setup.go` and `cli/setup.go` for the longest path that ends in them: its text holds them both."""
    # The longest path for each end of one. A path has few ends; to compare it with all others would take the square.
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
            # Cited where the whole path stands, not where its end was edited.
            reading.edited.setdefault(whole, tallies[whole].places[-1])


def _quotes(reading: Reading, kind: FactKind, seqs: Sequence[int], room: _Room) -> list[Entry]:
    """Choose quotes of one kind, each text once, the worthiest and the newest first."""
    places = [place for place, _ in reading.quotes[kind]]
    texts = [text for _, text in reading.quotes[kind]]
    if kind is FactKind.INSTRUCTION:
        candidates = instructions(texts)
    else:
        candidates = ((SAID, index, one_line(texts[index], QUOTE_CHARS)) for index in reversed(range(len(texts))))
    chosen: dict[int, Entry] = {}
    seen: set[str] = set()
    taken = misfits = 0
    for worth, index, line in candidates:
        if misfits == _MISFITS_MAX:
            break
        if not line or line in seen or index in chosen:
            continue
        seq = seqs[places[index]]
        cost = tokens_of_text(f"{_TITLES[kind]} [#{seq}] {line}\n")
        if taken + cost > (room.for_told if worth in (FOR_GOOD, TOLD) else room.tokens):
            # A shorter one may fit.
            misfits += 1
            continue
        misfits = 0
        seen.add(line)
        taken += cost
        chosen[index] = Entry(kind, line, seq)
    return sorted(chosen.values(), key=lambda entry: entry.seq)


def _ranked(reading: Reading, places: int, shown: set[str]) -> dict[str, float]:
    """Return all words that are not shown yet with what each costs, those with the best chance per token first."""
    # A qualified name of plain words, `ref.Hash`, is a call like any other unless someone spoke of it.
    kinds = reading.judge.kinds
    likely = chances(reading, places)
    worth = [
        (-likely[fact] / (cost := _cost(fact)), fact, cost)
        for fact, tally in reading.tallies.items()
        if fact not in shown and ("." not in fact or kinds[fact] is not NAME or tally.uses[TEXT] or tally.uses[USER])
    ]
    worth.sort()
    return {fact: cost for _, fact, cost in worth}


class _Citing:
    """Gives facts records in which they stand, for ever new beginnings of one ranked list."""

    def __init__(self, reading: Reading, ranked: Sequence[str], seqs: Sequence[int]) -> None:
        self._reading = reading
        self._ranked = ranked
        self._seqs = seqs
        # For each place what stands there, of as many facts of the list as were asked for so far.
        self._standing: dict[int, set[str]] = {}
        self._known = 0

    def entries(self, count: int) -> list[Entry]:
        """Return the first so many facts, each with a record in which it stands, so that few are cited in all."""
        self._know(count)
        # A folder is read off the path of a file in it.
        uncited = set(self._ranked[:count])
        uncited -= _folders(uncited)
        # Always the record with most of what is uncited yet; of two alike the newer.
        # What a record can still give only shrinks, so most of them are never counted again.
        fullest = [(-len(facts), -place) for place, facts in self._standing.items()]
        heapify(fullest)
        entries: list[Entry] = []
        while uncited:
            place = -fullest[0][1]
            cited = self._standing[place] & uncited
            now = (-len(cited), -place)
            if now > fullest[0]:
                heapreplace(fullest, now)
                continue
            heappop(fullest)
            uncited -= cited
            entries += [_entry(self._reading, fact, place, self._seqs) for fact in cited]
        return sorted(entries, key=lambda entry: (entry.seq, entry.text))

    def _know(self, count: int) -> None:
        standing, tallies = self._standing, self._reading.tallies
        for fact in self._ranked[self._known : count]:
            for place in tallies[fact].places[-_PLACES_MAX:]:
                if place in standing:
                    standing[place].add(fact)
                else:
                    standing[place] = {fact}
        self._known = max(self._known, count)


def _folders(facts: Iterable[str]) -> set[str]:
    """Return every folder that a path among these names, as it would be written itself."""
    folders: set[str] = set()
    for fact in facts:
        folder = fact.rpartition("/")[0]
        # Where a folder is known, so are those around it.
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
    """Guess how many of the best words fit into so many tokens, with the records that they cite."""
    count = bisect(costs, room) - 1
    citations = _CITATION_TOKENS * min(count / _WORDS_CITED, places / _RECORDS_CITED)
    tokens = tokens_of_text(" ".join(ranked[:count])) + citations
    return int(count * min(1.0, room / max(1.0, tokens)))


def make_ledger(passages: Sequence[Passage], *, tokens_max: int) -> Ledger:
    """Take the exact facts from some originals, as many as fit into this many tokens when rendered."""
    reading = read_passages(passages)
    _forget_most(reading)
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
    # As many words as fit. Tokens grow about evenly with what words cost by the quick guess, so the rule of three comes
    # close in a step or two; it stays between the most that is known to fit and the least that is known not to.
    costs = [0.0, *accumulate(ranking.values())]
    citing = _Citing(reading, ranked, seqs)
    fitting, too_many = 0, len(ranked) + 1
    count = _first_guess(ranked, costs, len(passages), tokens_max - quoted)
    steps_left = _STEPS_TO_FIT
    while steps_left and fitting < count < too_many:
        steps_left -= 1
        ledger = Ledger((*quotes, *citing.entries(count)))
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
