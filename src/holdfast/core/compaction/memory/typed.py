"""Separate the sentences that a person typed from pasted and machine-made text, and find standing instructions.

A quoted or pasted instruction is data. Only a sentence of the person's own counts as a standing instruction.
"""

import re
from collections.abc import Iterator

from holdfast.core.compaction.memory.quotes import is_assignment, one_line
from holdfast.core.compaction.memory.state import Said

# Characters read of one message, half from its beginning and half from its end, and sentences kept of it.
_MESSAGE_CHARS_MAX = 16 * 2**10
_SENTENCES_FIRST, _SENTENCES_LAST = 24, 8
# Sentences of a message that carry the request.
_SENTENCES_SHALLOW = 10
SENTENCE_CHARS_MAX = 320
# A message of one short line is typed, whatever its form: "port = 8080".
_LINE_CHARS_MAX = 240

# Elements: reminders of the client, or pasted markup. Each costs a search to the end of the text, so few are tried.
_OPENING = re.compile(r"<([A-Za-z][\w-]{0,60})(?:\s[^<>]{0,500})?>")
_ELEMENTS_MAX = 64
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
# Texts that clients send in the user's name.
_CLIENT_TEXT = re.compile(
    r"\s*(?:\[[^\]\n]*\]\s*\Z|Caveat: The messages|This session is being continued|Base directory for this skill)"
)
_PASTED_LINE = re.compile(
    r"""\s*+(?:
      [-+]{3}\s|@@|diff\ --git|index\ [0-9a-f]{7}|[+-]\s*[\w"'(){}\[\]./*&]+.*[;{}(),=:]\s*$
    | \|.*\|\s*$ | [{}\[\]()<>]+[;,]?\s*$ | "[\w.-]+"\s*:
    | \S+\.\w{1,5}:\d+ | File\ "[^"]+",\ line\ \d | at\ \S+\ ?\(.*\)\s*$ | \#\d+\s+0x[0-9a-f]
    | \[?\d{4}-\d\d-\d\d[T\ ]\d\d: | \[?\d\d:\d\d:\d\d | [A-Z][a-z]{2}\s+\d{1,2}\s\d\d:\d\d: | \[\d
    | (?:\$|>|>>>|\#!|//|/\*)\s?
    | [\u23bf\u276f\u25cf\u273b\u2502\u251c\u2514\u256d\u2570] | (?:Traceback|Caused\ by:|panic:|Exception\ in)
    | (?:def|class|func|fn|function|import|from|package|return|const|var|let|public|private|static|type|if|for|while)
      \b.*[{(;=:]\s*$
    | .*(?:[{;]|:=|=>|->|&&|\|\|)\s*$
    )""",
    re.VERBOSE,
)
_PLAIN_WORD = re.compile(r"[\"'(`*_]*[^\W\d_][^\W\d_'’-]*[\"')`*_.,:;?!…]*")  # noqa: RUF001 - typographic apostrophe
_PLAIN_SHARE = 0.5
_ENDS, _ENDS_UNSPACED = (". ", "! ", "? "), ("。", "！", "？")  # noqa: RUF001 - full-width marks end sentences too

# Phrases of standing instructions, in the languages that people type most.
_STANDING = re.compile(
    r"\b(?:always|never|from now on|going forward|from here on|in (?:the )?future|at all times|as a rule|by default|"
    r"every time|each time|whenever|unless I|without asking|must(?: not|n't)|under no circumstances|"
    r"remember|memori[sz]e|keep in mind|(?:don't|do not) forget|note that|"
    r"(?:answer|reply|respond|write|speak|talk)(?: to me)?(?: only)? in [A-Z]\w+|only (?:answer|reply|respond|speak)|"
    r"niemals|immer|ab (?:jetzt|sofort)|künftig|merk dir|toujours|jamais|désormais|siempre|nunca|a partir de ahora|"
    r"sempre|mai più|altijd|nooit|voortaan|altid|aldrig|alltid|zawsze|nigdy)\b"
    r"|всегда|никогда|отныне|必ず|常に|今後|絶対に|总是|永远|从现在|以后都|항상|절대",
    re.IGNORECASE,
)
# Words before one of these phrases by which a sentence tells something instead: "it was never called", "I remember".
_TELLING = re.compile(
    r"(?:\b(?:I|he|she|it|they|is|are|was|were|be|been|has|have|had|can|could|would|will|do|does|did|may|might)"
    r"|n['’]t|['’](?:ll|s|re|ve|d|m))\s+(?:also |just |not )?\Z",  # noqa: RUF001 - typographic apostrophe
    re.IGNORECASE,
)
_TELLING_CHARS = 24
_PROHIBITION = re.compile(r"(?:[Pp]lease |[Aa]nd |[Bb]ut )?(?:[Dd]on'?t|[Dd]o not|[Ss]top|[Nn]o longer)\s+[a-z]+")
_RULE_CHARS_MAX = 240
# A sentence that offers a choice, as reviews do, holds for its occasion.
_OFFERS = re.compile(r"\W*(?:alternatively|optionally|otherwise)\b", re.IGNORECASE)
RULES_MAX = 40
_WORD = re.compile(r"[^\W_]{2,}")
_SMALL = frozenset(
    [
        "a",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "but",
        "by",
        "do",
        "don",
        "for",
        "from",
        "has",
        "have",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "me",
        "my",
        "of",
        "on",
        "or",
        "our",
        "please",
        "so",
        "that",
        "the",
        "then",
        "this",
        "to",
        "us",
        "use",
        "was",
        "we",
        "will",
        "with",
        "you",
        "your",
        "always",
        "never",
        "only",
        "now",
        "again",
        "more",
        "no",
        "not",
    ]
)
# Words by which a person takes back an earlier instruction.
_REVISION = re.compile(
    r"\b(?:instead|no longer|any ?more|from now on|actually|changed my mind|now|again|forget (?:that|what)|"
    r"scratch that|doch|stattdessen|plutôt|en lugar|ab jetzt)\b",
    re.IGNORECASE,
)
_LANGUAGE = re.compile(r"\b(?:answer|reply|respond|write|speak|talk)\w*\b.{0,30}?\bin ([A-Z]\w+)")
_ALIKE, _REVISED = 0.8, 0.5


def typed_text(text: str) -> str:
    """Return the part of a user message that the person typed, without pasted and machine-made text."""
    if len(text) > _MESSAGE_CHARS_MAX:
        text = f"{text[: _MESSAGE_CHARS_MAX // 2]}\n{text[-_MESSAGE_CHARS_MAX // 2 :]}"
    if "</" in text:
        text = _without_elements(text)
    if _CLIENT_TEXT.match(text):
        return ""
    if "```" in text:
        text = _FENCE.sub("\n", text)
    text = text.strip()
    if "\n" not in text and len(text) <= _LINE_CHARS_MAX:
        return text
    return "\n".join(line for line in text.split("\n") if line.strip() and not _is_pasted(line))


def _without_elements(text: str) -> str:
    """Return a text without its elements: opening tag, content and closing tag."""
    kept: list[str] = []
    end = 0
    for tried, opening in enumerate(_OPENING.finditer(text)):
        if tried == _ELEMENTS_MAX:
            break
        if opening.start() >= end:
            closing = text.find(f"</{opening[1]}", opening.end())
            close = text.find(">", closing) if closing >= 0 else -1
            if close >= 0:
                kept.append(text[end : opening.start()])
                end = close + 1
    return "\n".join([*kept, text[end:]])


def _is_pasted(line: str) -> bool:
    if _PASTED_LINE.match(line) is not None:
        return True
    tokens = line.split()
    if not line.isascii():
        return False
    plain = sum(_PLAIN_WORD.fullmatch(token) is not None for token in tokens)
    return plain < _PLAIN_SHARE * len(tokens) and not is_assignment(line) and _STANDING.search(line) is None


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences. `replace` takes a fifth of the time of a regular expression."""
    for end in _ENDS:
        text = text.replace(end, f"{end[0]}\n")
    if not text.isascii():
        for end in _ENDS_UNSPACED:
            text = text.replace(end, f"{end}\n")
    return text.split("\n")


def typed_sentences(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield the sentences of typed text with their order, the middle of long texts left out; True if it is deep."""
    found = [line for sentence in split_sentences(text) if (line := one_line(sentence, SENTENCE_CHARS_MAX))]
    last = len(found) - _SENTENCES_LAST
    for order, line in enumerate(found):
        if order < _SENTENCES_FIRST or order >= last:
            yield order, line, order >= _SENTENCES_SHALLOW and order < len(found) - 2


def is_standing(sentence: str) -> bool:
    """Return whether a typed sentence is a standing instruction."""
    if len(sentence) > _RULE_CHARS_MAX or sentence.endswith(("?", ":")) or _OFFERS.match(sentence):
        return False
    if _PROHIBITION.match(sentence) is not None:
        return True
    return any(
        _TELLING.search(sentence, max(0, found.start() - _TELLING_CHARS), found.start()) is None
        for found in _STANDING.finditer(sentence)
    )


def add_rule(rules: list[Said], rule: Said) -> None:
    """Add a standing instruction; an earlier version of the same one is dropped."""
    rules[:] = [one for one in rules if not _replaces(rule.text, one.text)]
    rules.append(rule)
    del rules[:-RULES_MAX]


def _replaces(new: str, old: str) -> bool:
    """Return whether an instruction is a newer version of another: about the same, or a revision of it."""
    if _LANGUAGE.search(new) is not None and _LANGUAGE.search(old) is not None:
        return True
    mine, theirs = _content(new), _content(old)
    shared = len(mine & theirs)
    if not shared:
        return False
    if shared >= _ALIKE * max(len(mine), len(theirs)):
        return True
    return _REVISION.search(new) is not None and shared >= _REVISED * min(len(mine), len(theirs))


def _content(text: str) -> set[str]:
    return set(map(str.lower, _WORD.findall(text))) - _SMALL
