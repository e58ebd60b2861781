"""How likely an agent uses a fact again, read off how it was used before.

By whom, how often, how lately, in an edit or only in passing; and by its company: what a tool printed beside names that
the agent took up, or what shares its words with such names, is likelier to be taken up next.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from math import exp, log1p

from holdfast.core.facts import NAME, FactKind
from holdfast.core.reading import Reading, Tally
from holdfast.core.words import HUMP

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
    humps = {name: list(map(str.lower, HUMP.findall(name))) for name in tallies if kinds[name] is NAME}
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
