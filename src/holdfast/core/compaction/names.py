"""Names and values of a memory, ranked by the probability that an agent uses them again.

Every name is listed under a record that contains it, with the file that the record is about, so that it can be looked
up. Values stand with the words that say what they are.
"""

from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heapreplace
from itertools import accumulate, chain
from math import exp, log1p

from holdfast.core.compaction.facts import NAME, PATH, FactKind
from holdfast.core.compaction.memory.state import Memory, Tally
from holdfast.core.compaction.memory.uses import TEXT, USER
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
# A fact of a file that the agent used lately, by the nearness of that use.
_SOURCE_NEAR = 1.0
_PSEUDO_COUNT, _PSEUDO_USED = 4, 1


def fact_scores(memory: Memory) -> dict[str, float]:
    """Return for each fact the probability that it is used again."""
    neighbours, relatives = _used_neighbours(memory), _used_relatives(memory)
    files, sources = set(memory.sources.values()), _near_sources(memory)
    edited, places = memory.edited, memory.messages
    found: dict[str, float] = {}
    for fact, tally in memory.facts.items():
        kind = tally.kind
        odds = (0.0 if kind is NAME else _BY_KIND[kind]) + _odds(tally, places)
        if tally.last_agent < 0:
            odds += _NEIGHBOURS * max(map(neighbours.__getitem__, tally.seqs))
        # The nearness of the file itself counts already.
        if fact not in files and not sources.keys().isdisjoint(tally.seqs):
            odds += _SOURCE_NEAR * max(sources.get(seq, 0.0) for seq in tally.seqs)
        if fact in edited:
            odds += _EDITED
        if fact in relatives:
            odds += _RELATED * relatives[fact] + (_PLAIN if fact[1:].islower() and fact.isalpha() else 0.0)
        found[fact] = 1.0 / (1.0 + exp(-odds))
    return found


def _odds(tally: Tally, places: int) -> float:
    printed, called, edited, said, asked = tally.uses
    odds = _BASE + _NEAR * exp((tally.last - places) / _NEARNESS_MESSAGES)
    if asked:
        odds += _PER_ASKED * log1p(asked)
    if tally.last_agent >= 0:
        by_agent = _PER_CALL * log1p(called) + _PER_EDIT * log1p(edited) + _PER_SAID * log1p(said)
        near = exp((tally.last_agent - places) / _NEARNESS_MESSAGES)
        return odds + _BY_AGENT + _NEAR_AGENT * near + by_agent
    return odds + (_SEEN_ONCE if printed == 1 and not asked else 0.0)


def _used_neighbours(memory: Memory) -> dict[int, float]:
    """Return for each record the share of its facts that the agent used, there or elsewhere."""
    tallies = memory.facts.values()
    present = Counter(chain.from_iterable(tally.seqs for tally in tallies))
    used = Counter(chain.from_iterable(tally.seqs for tally in tallies if tally.last_agent >= 0))
    return {seq: (used[seq] + _PSEUDO_USED) / (count + _PSEUDO_COUNT) for seq, count in present.items()}


def _near_sources(memory: Memory) -> dict[int, float]:
    """Return for each record that is about a file the nearness of the agent's last use of the file."""
    facts, near = memory.facts, dict[int, float]()
    for seq, source in memory.sources.items():
        tally = facts.get(source)
        if tally is not None and tally.last_agent >= 0:
            near[seq] = exp((tally.last_agent - memory.messages) / _NEARNESS_MESSAGES)
    return near


def _used_relatives(memory: Memory) -> dict[str, float]:
    """Return for each name the share of other names with its words that the agent used."""
    facts = memory.facts
    segments = {name: list(map(str.lower, CAMEL_SEGMENT.findall(name))) for name in facts if facts[name].kind is NAME}
    present = Counter(chain.from_iterable(map(set, segments.values())))
    used = Counter(chain.from_iterable(set(words) for name, words in segments.items() if facts[name].last_agent >= 0))
    # The share that each word adds to an unused name; a used name does not count itself.
    share = {word: used[word] / count for word, count in present.items()}
    itself = {word: 1.0 / count for word, count in present.items()}
    shares: dict[str, float] = {}
    for name, words in segments.items():
        total = sum(map(share.__getitem__, words))
        if facts[name].last_agent >= 0:
            total -= sum(map(itself.__getitem__, words))
        shares[name] = total / (len(words) or 1)
    return shares


# --- Selection ---

# Rough token estimate of a word with its share of citation and space, for ranking only: a separator inside it costs a
# token, and starts another word.
_WORD_TOKENS, _CHAR_TOKENS, _MARK_TOKENS = 0.7, 0.165, 1.2
# Exponent of the cost in the ranking. By its full cost a long path that is needed loses to short names that are not,
# and agents write paths from memory more often than other names.
_COST_WEIGHT = 0.7
# Tokens of a citation, and the expected number of citations: one per so many words, at most one per so many records.
_CITATION_TOKENS, _WORDS_CITED, _RECORDS_CITED = 4.5, 10, 6
# Steps of the search for the number of words, the share of the room that is sufficient, and the target share.
_STEPS_TO_FIT, _FULL, _AIM = 6, 0.97, 0.985
# Candidate records for a citation; more do not improve the choice.
_RECORDS_MAX = 16
# Names of one record that are worth a line with its file.
_OWN_LINE = 3


def merge_paths(memory: Memory) -> dict[str, Tally]:
    """Return the facts with `setup.go` and `cli/setup.go` merged into the longest path that ends with them."""
    # The longest path for each suffix. A path has few suffixes; a comparison of all pairs would be quadratic.
    longest: dict[str, str] = {}
    facts = dict(memory.facts)
    paths = [fact for fact in facts if facts[fact].kind is PATH]
    for path in sorted(paths, key=lambda path: (-len(path), path)):
        whole = longest.get(path)
        if whole is None:
            end = path
            while "/" in end:
                end = end.partition("/")[2]
                longest.setdefault(end, path)
            continue
        mine, theirs = facts[whole], facts.pop(path)
        uses = [one + other for one, other in zip(mine.uses, theirs.uses, strict=True)]
        last, last_agent = max(mine.last, theirs.last), max(mine.last_agent, theirs.last_agent)
        facts[whole] = Tally(mine.kind, uses, last, last_agent, mine.seqs)
    return facts


def rank(memory: Memory, scores: dict[str, float], shown: Callable[[str], bool]) -> dict[str, float]:
    """Return all facts that are not shown yet with their cost, highest probability for the cost first."""
    # A qualified name of plain words, `ref.Hash`, counts only if a message mentions it.
    ranking = [
        (-scores[fact] / (cost := _cost(fact)) ** _COST_WEIGHT, fact, cost)
        for fact, tally in memory.facts.items()
        if ("." not in fact or tally.kind is not NAME or tally.uses[TEXT] or tally.uses[USER]) and not shown(fact)
    ]
    ranking.sort()
    return {fact: cost for _, fact, cost in ranking}


def _cost(fact: str) -> float:
    marks = fact.count("/") + fact.count("_") + fact.count(".") + fact.count("-")
    return _WORD_TOKENS + _CHAR_TOKENS * len(fact) + _MARK_TOKENS * marks


class _Citations:
    """Assigns records to facts, for increasing prefixes of one ranked list."""

    def __init__(self, memory: Memory, ranked: Sequence[str]) -> None:
        self._memory = memory
        self._ranked = ranked
        # Facts of each record, for the longest prefix of the list so far.
        self._facts_at: dict[int, set[str]] = {}
        self._indexed = 0

    def groups(self, count: int) -> list[tuple[int, list[str]]]:
        """Return the first `count` facts, each under a record that contains it, with few distinct records."""
        self._index(count)
        # The path of a file shows its folders.
        uncited = set(self._ranked[:count])
        uncited -= _folders(uncited)
        # Greedy set cover: the record with the most uncited facts, the newer one of two equals. A record's count only
        # shrinks, so most are never counted again.
        fullest = [(-len(facts), -seq) for seq, facts in self._facts_at.items()]
        heapify(fullest)
        groups: list[tuple[int, list[str]]] = []
        while uncited:
            seq = -fullest[0][1]
            cited = self._facts_at[seq] & uncited
            now = (-len(cited), -seq)
            if now > fullest[0]:
                heapreplace(fullest, now)
                continue
            heappop(fullest)
            uncited -= cited
            groups.append((seq, sorted(cited)))
        return sorted(groups)

    def _index(self, count: int) -> None:
        facts_at, facts = self._facts_at, self._memory.facts
        for fact in self._ranked[self._indexed : count]:
            for seq in facts[fact].seqs[-_RECORDS_MAX:]:
                if seq in facts_at:
                    facts_at[seq].add(fact)
                else:
                    facts_at[seq] = {fact}
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


def render_names(memory: Memory, groups: Sequence[tuple[int, list[str]]]) -> list[str]:
    """Return lines of names: those of one record with its file, and one line for the rest."""
    lines: list[str] = []
    rest: list[str] = []
    for seq, facts in groups:
        source = memory.sources.get(seq, "")
        # The file names the group, so it is not listed in it again.
        others = [fact for fact in facts if not source.endswith(fact)]
        if source and len(others) >= _OWN_LINE:
            lines.append(f"names [#{seq}] in {source}: {', '.join(others)}")
        else:
            rest.append(f"[#{seq}] {', '.join(facts)}")
    return [*lines, *([f"names {'; '.join(rest)}"] if rest else [])]


def choose_names(memory: Memory, ranking: dict[str, float], tokens_max: int, count: Callable[[str], int]) -> list[str]:
    """Return lines with as many of the ranked names as fit into this many tokens."""
    ranked = list(ranking)
    # Find the largest number of words that fit. Tokens grow about linearly with the rough cost, so linear interpolation
    # converges in a step or two; it stays between the largest known fit and the smallest known misfit.
    costs = [0.0, *accumulate(ranking.values())]
    citations = _Citations(memory, ranked)
    best: list[str] = []
    fitting, too_many = 0, len(ranked) + 1
    number = _first_guess(ranked, costs, memory.messages, tokens_max, count)
    steps_left = _STEPS_TO_FIT
    while steps_left and fitting < number < too_many:
        steps_left -= 1
        lines = render_names(memory, citations.groups(number))
        tokens = count("\n".join(lines))
        if tokens > tokens_max:
            too_many = number
        else:
            best, fitting = lines, number
            if tokens >= _FULL * tokens_max:
                break
        cost_per_token = costs[number] / max(1, tokens)
        aim = bisect(costs, costs[number] + (_AIM * tokens_max - tokens) * cost_per_token) - 1
        number = min(max(aim, fitting + 1), too_many - 1)
    return best


def _first_guess(
    ranked: Sequence[str], costs: Sequence[float], places: int, room: int, count: Callable[[str], int]
) -> int:
    """Estimate how many of the best words fit, with their citations."""
    number = bisect(costs, room) - 1
    citations = _CITATION_TOKENS * min(number / _WORDS_CITED, places / _RECORDS_CITED)
    tokens = count(", ".join(ranked[:number])) + citations
    return int(number * min(1.0, room / max(1.0, tokens)))
