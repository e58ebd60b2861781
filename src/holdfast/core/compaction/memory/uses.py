"""Uses of facts: by whom, how often, and where. Values are kept with the words that say what they are."""

import re
from collections.abc import Mapping
from typing import TypeVar

from holdfast.core.compaction.facts import FactKind, Judge, merged, numbers
from holdfast.core.compaction.memory.quotes import one_line
from holdfast.core.compaction.memory.state import Memory, Said, Tally

# Uses of a fact, as indices into a tally: in tool output, in arguments of a call, in arguments of an edit, in a message
# of the agent, in a message of the user.
RESULT, CALL, EDIT, TEXT, USER = range(5)

# Facts kept. A megabyte of a real session has at most 1,600; more are a dump of ids or of numbered names.
FACTS_MAX = 3_072
# Records kept of a fact, for its citation; they are cut back when twice as many have gathered.
_SEQS_MAX = 16
_VALUES_MAX, _SOURCES_MAX = 600, 2_048
# An argument of a call that is a value by itself: an id, a date, an amount.
_VALUE = re.compile(r"(?=\S*\d)[\w$€£@.:+#/%-]{2,60}")
_KEY = re.compile(r"[^\W\d_][\w -]{1,40}")
_NO_VALUES = re.compile(
    r"path|file|dir|url|line|offset|limit|start|end|count|timeout|command|pattern|query|id$", re.IGNORECASE
)
_LABEL = re.compile(r"[^\W\d_][\w-]*(?: [^\W\d_][\w-]*){0,2}(?: is| id| ID| code| number|:|=) ?['\"`*]*\Z")
_LABEL_CHARS = 40
# Ids of a text that get a label; more are a listing.
_LABELLED_MAX = 12


# A quarter more of anything may gather before the excess is dropped, so that dropping costs little per message.
_SLACK = 1.25


def is_excess(gathered: int, most: int) -> bool:
    """Return whether so much has gathered that the excess over `most` is dropped."""
    return gathered > _SLACK * most


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def count(memory: Memory, seq: int, use: int, facts: Mapping[str, FactKind]) -> None:
    """Count one use of each of these facts in a record."""
    known, place = memory.facts, memory.messages
    by_agent = use in (CALL, EDIT, TEXT)
    for fact, kind in facts.items():
        tally = known.get(fact)
        if tally is None:
            tally = known[fact] = Tally(kind, [0, 0, 0, 0, 0], place, -1, [])
        elif kind is not tally.kind and kind < tally.kind:
            tally.kind = kind
        tally.uses[use] += 1
        tally.last = place
        seqs = tally.seqs
        seqs.append(seq)
        if len(seqs) >= 2 * _SEQS_MAX:
            del seqs[:-_SEQS_MAX]
        if by_agent:
            tally.last_agent = place


def drop_excess(memory: Memory, most: int = FACTS_MAX) -> None:
    """Drop facts beyond the bound; keep those that the agent used and then the newest."""
    facts = memory.facts
    if is_excess(len(facts), most):
        # The text breaks ties: the same conversation gives the same memory in every process.
        kept = sorted(facts, key=lambda fact: (facts[fact].last_agent, facts[fact].last, fact), reverse=True)
        memory.facts = {fact: facts[fact] for fact in kept[:most]}
    memory.edited = _newest(memory.edited, _VALUES_MAX)
    memory.values = _newest(memory.values, _VALUES_MAX)
    memory.sources = _newest(memory.sources, _SOURCES_MAX)


def _newest(kept: dict[_Key, _Value], most: int) -> dict[_Key, _Value]:
    return dict(list(kept.items())[-most:]) if is_excess(len(kept), most) else kept


def read_text(memory: Memory, judge: Judge, seq: int, use: int, text: str) -> None:
    """Count the facts of a message of a person or the agent, and keep its values with their words."""
    facts = judge.facts((text,))
    found = numbers(text)
    memory.values.update((number, Said(seq, words)) for number, words in found.items())
    # In order of the text: a set of words has another order in every process.
    ids = sorted((text.find(fact), fact) for fact, kind in facts.items() if kind is FactKind.ID)
    for at, fact in ids[:_LABELLED_MAX]:
        label = _LABEL.search(text, max(0, at - _LABEL_CHARS), max(at, 0))
        if label is not None:
            memory.values[fact] = Said(seq, one_line(f"{label[0].strip(' :=')} {fact}", 2 * _LABEL_CHARS))
    count(memory, seq, use, merged(facts, dict.fromkeys(found, FactKind.NUMBER)))


def read_arguments(memory: Memory, seq: int, arguments: Mapping[str, object], facts: Mapping[str, FactKind]) -> None:
    """Keep arguments of a call as `name = value` where the value is an id, a date or an amount; `facts` are in them."""
    for key, value in arguments.items():
        text = str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
        if (
            text
            and _KEY.fullmatch(key)
            and _VALUE.fullmatch(text)
            and not (_NO_VALUES.search(key) and text.isdigit())
            and "/" not in text
        ):
            memory.values[text] = Said(seq, f"{one_line(key, _LABEL_CHARS)} = {text}")
            count(memory, seq, CALL, {text: facts.get(text, FactKind.NUMBER)})
