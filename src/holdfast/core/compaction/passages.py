"""Extract facts with their uses, and sentences to quote, from messages.

The ledger makes the selection. The amount of text read per message and per session is bounded.
"""

import re
from collections.abc import Iterable, Sequence

import msgspec

from holdfast.core.compaction.facts import QUOTED, FactKind, Judge, Passage, numbers
from holdfast.core.compaction.quotes import sentence_at
from holdfast.types.messages import LargeText, Part, Role, Text, ToolCall, ToolOutcome, ToolResult

# Characters read of one text, half from its beginning and half from its end; more is a dump, and its important parts
# are quoted elsewhere. Of a session, an eighth from its beginning, where the task is, and the rest from its end.
_TEXT_CHARS_MAX = 128 * 2**10
_SESSION_CHARS_MAX = 8 * 2**20
_FIRST_SHARE = 8
_EDITS = re.compile(r"edit|write|patch|replace|create|insert|append", re.IGNORECASE)
# Tools that rewrite todo lists do not edit files.
_NO_EDITS = re.compile(r"todo|task|plan", re.IGNORECASE)
_COMMAND_KEYS = ("command", "cmd", "script")
_FAILURE = re.compile(
    r"\b(?:[Ee]rror|ERROR|FAIL(?:ED)?|[Ff]ailed|panic|[Ff]atal|FATAL|Traceback|[A-Z][a-z]\w*(?:Error|Exception)|"
    r"[Uu]ndefined|[Dd]enied|[Nn]ot found)\b"
)
# Every match of the expression above contains one of these; a search for them first takes a tenth of the time.
_FAILURE_SIGNS = (
    "rror",
    "ERROR",
    "FAIL",
    "ailed",
    "panic",
    "atal",
    "FATAL",
    "Traceback",
    "Exception",
    "ndefined",
    "enied",
    "ot found",
)
# Commands report failures at the beginning or at the end of their output.
_REPORT_CHARS = 4 * 2**10
_DECISION = re.compile(
    r"\b(?:decid\w+|instead of|rather than|agreed|approved?|(?:we|I)(?:'ll| will) (?:use|keep|go with|leave)|"
    r"let's (?:use|keep|go with)|going with|chose|chosen|root cause|the (?:fix|problem|issue|reason) (?:is|was))\b",
    re.IGNORECASE,
)
# Every match of the expression above contains one of these in lower case, with at most "we" before it, and is no longer
# than this except for the end of a word.
_BEFORE_SIGN, _DECISION_CHARS = 2, 40
_DECISION_SIGNS = (
    "decid",
    "instead of",
    "rather than",
    "agreed",
    "approve",
    "'ll ",
    " will ",
    "let's ",
    "going with",
    "chose",
    "root cause",
    "the fix",
    "the problem",
    "the issue",
    "the reason",
)
# "The issue is:" only announces a decision.
_DECISION_CHARS_MIN = 30
_TAGGED = re.compile(r"\s*(?:<[a-z][\w-]*>.*>|\[[^\]\n]*\])\s*\Z", re.DOTALL)

# Uses of a fact, as indices into a tally: in tool output, in arguments of a call, in arguments of an edit, in a message
# of the agent, in a message of the user.
RESULT, CALL, EDIT, TEXT, USER = range(5)


class Tally:
    """Uses of a fact so far. Places are indices of passages."""

    __slots__ = ("last", "last_agent", "places", "uses")

    def __init__(self) -> None:
        self.uses = [0, 0, 0, 0, 0]
        self.last = self.last_agent = -1
        self.places: list[int] = []

    def absorb(self, other: "Tally") -> None:
        """Add the uses of another form of the same fact."""
        self.uses = [mine + theirs for mine, theirs in zip(self.uses, other.uses, strict=True)]
        self.last = max(self.last, other.last)
        self.last_agent = max(self.last_agent, other.last_agent)


class Reading:
    """Facts and quotes found in passages, before selection."""

    def __init__(self) -> None:
        self.judge = Judge()
        self.tallies: dict[str, Tally] = {}
        # Edited paths with the place of the last edit.
        self.edited: dict[str, int] = {}
        # Numbers with their place and the words around them.
        self.numbers: dict[str, tuple[int, str]] = {}
        self.quotes: dict[FactKind, list[tuple[int, str]]] = {kind: [] for kind in QUOTED}
        self.has_calls = False
        self._commands: set[str] = set()

    def read(self, place: int, passage: Passage) -> None:
        """Read one passage; places must ascend."""
        for part in passage.message.parts:
            match part:
                case Text() | LargeText():
                    self._read_text(place, passage.message.role, _clipped(_text_of(part)))
                case ToolCall():
                    self._read_call(place, part)
                case ToolResult():
                    self._read_result(place, part)
                case _:
                    # Media has no text, and reasoning is not part of the conversation.
                    continue

    def _read_text(self, place: int, role: Role, text: str) -> None:
        facts = self.judge.facts((text,))
        if role is Role.TOOL:
            self._count(place, RESULT, facts)
            return
        found = numbers(text)
        self.numbers.update((number, (place, words)) for number, words in found.items())
        self.judge.name(found, FactKind.NUMBER)
        facts.update(found)
        if role is Role.USER:
            self._count(place, USER, facts)
            if not is_machine_made(text):
                self.quotes[FactKind.INSTRUCTION].append((place, text))
            return
        self._count(place, TEXT, facts)
        at = _decision(text)
        if at is not None:
            sentence = sentence_at(text, at)
            if len(sentence) >= _DECISION_CHARS_MIN and not sentence.endswith(":"):
                self.quotes[FactKind.DECISION].append((place, sentence))

    def _read_call(self, place: int, call: ToolCall) -> None:
        self.has_calls = True
        texts, arguments = _strings(call.arguments)
        is_edit = _EDITS.search(call.name) is not None and not _NO_EDITS.search(call.name)
        facts = self.judge.facts(texts)
        if is_edit:
            facts |= self.judge.definitions(texts)
            kinds = self.judge.kinds
            self.edited.update((text, place) for text in texts if kinds.get(text) is FactKind.PATH)
        self._count(place, EDIT if is_edit else CALL, facts)
        for key in _COMMAND_KEYS:
            command = arguments.get(key)
            if isinstance(command, str) and command.strip():
                self.quotes[FactKind.COMMAND].append((place, command))
                self._commands.add(call.call_id)

    def _read_result(self, place: int, result: ToolResult) -> None:
        texts = [_clipped(_text_of(part)) for part in result.parts if isinstance(part, Text | LargeText)]
        self._count(place, RESULT, self.judge.facts(texts))
        has_failed = result.outcome is not ToolOutcome.DONE
        # File contents mention errors too; only command output and failed tools report one.
        if has_failed or result.call_id in self._commands:
            for text in texts:
                found = _failure(text)
                if found is not None or has_failed:
                    self.quotes[FactKind.ERROR].append((place, _line_at(text, found.start() if found else 0)))

    def _count(self, place: int, use: int, facts: Iterable[str]) -> None:
        tallies = self.tallies
        by_agent = use in (CALL, EDIT, TEXT)
        for fact in facts:
            tally = tallies.get(fact)
            if tally is None:
                tally = tallies[fact] = Tally()
            tally.uses[use] += 1
            tally.last = place
            tally.places.append(place)
            if by_agent:
                tally.last_agent = place


def _decision(text: str) -> int | None:
    """Return the position of the first decision in a text; the expression runs only near a sign of one."""
    lower = text.lower()
    first: int | None = None
    for sign in _DECISION_SIGNS:
        at = lower.find(sign, 0, first)
        while at >= 0:
            found = _DECISION.search(text, max(0, at - _BEFORE_SIGN), at + _DECISION_CHARS)
            if found is not None:
                first = found.start() if first is None else min(first, found.start())
                break
            at = lower.find(sign, at + 1, first)
    return first


def _failure(text: str) -> re.Match[str] | None:
    """Find a reported failure at the beginning or at the end of a text."""
    if len(text) <= 2 * _REPORT_CHARS:
        return _failure_in(text, 0, len(text))
    return _failure_in(text, 0, _REPORT_CHARS) or _failure_in(text, len(text) - _REPORT_CHARS, len(text))


def _failure_in(text: str, start: int, end: int) -> re.Match[str] | None:
    if not any(text.find(sign, start, end) >= 0 for sign in _FAILURE_SIGNS):
        return None
    return _FAILURE.search(text, start, end)


def is_machine_made(text: str) -> bool:
    """Return whether a program wrote a user message: it is one tag or one bracket."""
    return _TAGGED.match(text) is not None


def _text_of(part: Text | LargeText) -> str:
    return part.text if isinstance(part, Text) else part.head


def _clipped(text: str) -> str:
    if len(text) <= _TEXT_CHARS_MAX:
        return text
    return f"{text[: _TEXT_CHARS_MAX // 2]}\n{text[-_TEXT_CHARS_MAX // 2 :]}"


def _strings(arguments: str) -> tuple[list[str], dict[str, object]]:
    """Return all strings in the arguments of a call, and the arguments if they are an object."""
    try:
        decoded: object = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return [_clipped(arguments)], {}
    texts: list[str] = []
    waiting = [decoded]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            texts.append(_clipped(value))
        elif isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return texts, decoded if isinstance(decoded, dict) else {}


def _line_at(text: str, at: int) -> str:
    start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    return text[start : end if end >= 0 else len(text)]


def bounded(passages: Sequence[Passage], *, chars_max: int = _SESSION_CHARS_MAX) -> list[tuple[int, Passage]]:
    """Return the passages to read with their places: the first and the newest, within the bound."""
    end, left = 0, chars_max // _FIRST_SHARE
    while end < len(passages) and left > 0:
        left -= sum(map(_chars_of, passages[end].message.parts))
        end += 1
    start, left = len(passages), chars_max - chars_max // _FIRST_SHARE
    while start > end and left > 0:
        start -= 1
        left -= sum(map(_chars_of, passages[start].message.parts))
    return [(place, passages[place]) for place in (*range(end), *range(start, len(passages)))]


def read_passages(passages: Sequence[Passage]) -> Reading:
    """Read passages, within the bounds."""
    reading = Reading()
    for place, passage in bounded(passages):
        reading.read(place, passage)
    return reading


def _chars_of(part: Part) -> int:
    match part:
        case Text():
            return 1 + min(len(part.text), _TEXT_CHARS_MAX)
        case ToolCall():
            return 1 + len(part.arguments)
        case ToolResult():
            return 1 + sum(map(_chars_of, part.parts))
        case _:
            return 1
