"""Agreements: a short answer of a person together with the question or proposal that it answers."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from holdfast.core.compaction.memory.quotes import one_line, without_code
from holdfast.core.compaction.memory.state import Agreement, Memory, Said
from holdfast.core.compaction.memory.typed import split_sentences

_ANSWER_CHARS_MAX, _QUESTION_CHARS_MAX = 200, 420
# A question below this length is shown with the sentences before it.
_CONTEXT_CHARS_MAX = 380
# Characters of the agent's message in which its proposal is looked for: at its end.
_SEARCHED_CHARS = 6_000
AGREEMENTS_MAX = 40
# Stands between a question and what was said before it.
CONTEXT = " (after: "

_PROPOSES = re.compile(
    r"[?？؟]\W*$"  # noqa: RUF001 - question marks of other scripts
    r"|\b(?:would you like|should (?:i|we)|shall (?:i|we)|want me to|do you want|let me know|"
    r"i(?:'d)? (?:suggest|recommend|propose)|i(?: can|'ll| will)|we (?:can|could)|my recommendation|option \w|"
    r"soll ich|möchtest du|voulez-vous|quieres)\b",
    re.IGNORECASE,
)
_ASKS_BACK = re.compile(r"[?？؟]\W*$")  # noqa: RUF001 - question marks of other scripts
_REFUSES = re.compile(r"\W*(?:no|nope|not|neither|skip|nein|non|нет)\b", re.IGNORECASE)
_AGREES = re.compile(
    r"\W*(?:y|yes|yep|yeah|yup|ok|okay|sure|perfect|great|good|cool|nice|fine|correct|right|agreed|exactly|"
    r"please(?: do)?|go(?: ahead| for it| on)?|do (?:it|that|so|both|all)|sounds good|looks good|lgtm|let'?s|"
    r"option \w+|(?:the )?(?:first|second|third|last|latter|former)|both|all|neither|no|nope|not|skip|continue|proceed|"
    r"\d+|[a-d]|ja|nein|gern|genau|oui|non|d'accord|sí|si|claro|vale|да|нет|好|はい|네)(?:\b|$)",
    re.IGNORECASE,
)
_CHOICE = re.compile(
    r"\W*+(?:(?:yes|yep|yeah|ok|okay|sure|great|good)\b\W*+)?(?:let'?s\s++)?(?:(?:go with|do|take|use)\s*+)?"
    r"(?:(?:option|number|choice|variant|#)\s*+)?(\d{1,2}|[A-Da-d])\b",
    re.IGNORECASE,
)
_ORDINALS = {"first": "1", "former": "1", "second": "2", "latter": "2", "third": "3"}
# "The second, please" and "first one" choose; "write the test first" and "First, run it" do not.
_ORDINAL = re.compile(
    r"\bthe\s++(?P<named>first|former|second|latter|third)(?:\s++(?:one|option|choice|approach|variant|way|plan)\b|(?!\s*+\w))"
    r"|\A\W*+(?P<leading>first|former|second|latter|third)(?:\s++(?:one|option|choice|approach|variant|way|plan)\b|\W*+\Z)",
    re.IGNORECASE,
)
_BULLET = re.compile(r"\s*(?:[-*+•]|\d{1,2}[.)])\s")
_TABLE_ROW = re.compile(r"^[ \t]*\|[^\n]*$", re.MULTILINE)
_WORDY = re.compile(r"[^\W\d_]{3,}")
_WORDS_MIN = 3
# Tools that put a question to a person: AskUserQuestion, ask_followup_question, request_user_input. A task for another
# agent is no question.
_ASKING = re.compile(r"(?:^|[_-])ask|Ask(?=[A-Z_-]|$)|(?i:question|request_user|user_input|confirm|elicit)")


class _Sentence(NamedTuple):
    """A sentence of the agent, and whether it begins an item of a list."""

    text: str
    is_bullet: bool


def observe_agent(memory: Memory, seq: int, text: str) -> None:
    """Keep what the agent said last as the possible question of the next answer."""
    prose = without_code(text)
    prose = _TABLE_ROW.sub("", prose) if "|" in prose else prose
    memory.proposal = Said(seq, prose[-_SEARCHED_CHARS:])


def observe_answer(memory: Memory, seq: int, typed: str) -> None:
    """Pair a short answer with the agent's last proposal, and forget the proposal."""
    proposal, memory.proposal = memory.proposal, None
    answer = one_line(typed, _ANSWER_CHARS_MAX)
    if proposal is None or not answer or len(typed) > _ANSWER_CHARS_MAX:
        return
    agrees = _AGREES.match(answer) is not None
    sentences = _sentences(proposal.text)
    is_asked = bool(sentences) and _PROPOSES.search(sentences[-1].text) is not None
    if not agrees and (not is_asked or _ASKS_BACK.search(answer)):
        return
    chosen = _option(proposal.text, answer)
    question = _question(sentences)
    if chosen and chosen not in question:
        question = f"{chosen} ({question})" if question else chosen
    add(memory, proposal.seq, question, seq, answer)


def _question(sentences: list[_Sentence]) -> str:
    """Return the last sentences that propose something, or the last of all, with what was said directly before them.

    "Ready to start?" says little without the sentences that it stands behind. Items of a list come after prose.
    """
    asked = ([one for one in sentences if _PROPOSES.search(one.text)] or _prose(sentences))[-2:]
    question = " ".join(one.text for one in asked)
    first = sentences.index(asked[0]) if asked else 0
    earlier = [one.text for one in _prose(sentences[:first])]
    context = _context(earlier, _CONTEXT_CHARS_MAX - len(question))
    return f"{question}{CONTEXT}{context})" if context else question


def _prose(sentences: list[_Sentence]) -> list[_Sentence]:
    """Return the sentences outside of lists, or all if there are none."""
    return [one for one in sentences if not one.is_bullet] or sentences


def _context(earlier: list[str], room: int) -> str:
    """Return the last two sentences as far as they fit, the nearest first."""
    context: list[str] = []
    for text in reversed(earlier[-2:]):
        room -= len(text) + 1
        if room < 0:
            break
        context.insert(0, text)
    return " ".join(context)


def is_consent(answer: str) -> bool:
    """Return whether an answer agrees; others choose, decline or tell something."""
    return _AGREES.match(answer) is not None and _REFUSES.match(answer) is None and _ASKS_BACK.search(answer) is None


def asked_by(name: str, arguments: Mapping[str, object]) -> str:
    """Return the question that a call puts to a person, or ""."""
    if _ASKING.search(name) is None:
        return ""
    waiting: list[object] = [dict(arguments)]
    found: list[str] = []
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, dict):
            found += [text for key in ("question", "message", "prompt") if isinstance(text := value.get(key), str)]
            waiting += [inner for inner in value.values() if isinstance(inner, list)]
        elif isinstance(value, list):
            waiting += value[:8]
    return one_line(" ".join(found), _QUESTION_CHARS_MAX)


def add(memory: Memory, question_seq: int, question: str, answer_seq: int, answer: str) -> None:
    """Keep an agreement, among the newest."""
    question = one_line(question, _QUESTION_CHARS_MAX)
    if question:
        memory.agreements.append(Agreement(question_seq, question, answer_seq, one_line(answer, _ANSWER_CHARS_MAX)))
        del memory.agreements[:-AGREEMENTS_MAX]


def _sentences(text: str) -> list[_Sentence]:
    found: list[_Sentence] = []
    for line in text.split("\n"):
        bullet = _BULLET.match(line)
        for piece in split_sentences(line[bullet.end() :] if bullet else line):
            one = piece.strip(" \t#*->")
            if one.endswith("?") or len(_WORDY.findall(one)) >= _WORDS_MIN or not one.isascii():
                found.append(_Sentence(one, bullet is not None))
    return found


def _option(text: str, answer: str) -> str:
    """Return the option of a list that an answer names by its number, letter or ordinal."""
    ordinal = _ORDINAL.search(answer)
    choice = _CHOICE.match(answer)
    mark = _ORDINALS[(ordinal["named"] or ordinal["leading"]).lower()] if ordinal else choice[1] if choice else ""
    if not mark:
        return ""
    line = re.search(
        rf"^[ \t#*-]*(?:option |variant )?{re.escape(mark)}[.):\]]?[*_ \t.:)-]+(\S[^\n]*)$",
        text,
        re.MULTILINE | re.IGNORECASE,
    )
    return line[0].strip(" \t#*-") if line else ""
