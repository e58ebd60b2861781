"""Extract exact facts from text: paths, URLs, ids, names and numbers, verbatim.

Facts are recognised by the form of a word alone, in any programming or natural language. Text is split into chunks of
bytes and each distinct chunk is classified once per session, which makes a megabyte cheap.
"""

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

from holdfast.types.messages import Message


class Passage(msgspec.Struct, frozen=True):
    """A message to be compacted, with the seq of its record."""

    seq: int
    message: Message


class FactKind(StrEnum):
    """Kinds of facts, in the order of a ledger."""

    INSTRUCTION = "instruction"
    DECISION = "decision"
    COMMAND = "command"
    ERROR = "error"
    # An edited path, and one that was only read or mentioned.
    EDITED = "edited"
    PATH = "path"
    URL = "url"
    ID = "id"
    NAME = "name"
    NUMBER = "number"


# The kinds of nearly all facts. Enum member access costs as much as a call, and these are accessed for every fact.
NAME, PATH = FactKind.NAME, FactKind.PATH

# Kinds that are a sentence or a line; the others are words.
QUOTED = (FactKind.INSTRUCTION, FactKind.DECISION, FactKind.COMMAND, FactKind.ERROR)


# Words with the separators of paths, URLs and qualified names. Splitting bytes with a table and `split` takes half the
# time of a regular expression; the few chunks that are not ASCII are split again by the expression.
_CHUNK = re.compile(r"[\w$@~./#:%?=&+-]{3,}")
_SEPARATORS = bytes(byte if byte >= 0x80 or _CHUNK.match(chr(byte) * 3) else ord(" ") for byte in range(256))  # noqa: PLR2004
# The arrow between line number and line in file listings: it would make every line's first word a new chunk.
_ARROW = "→"
_CHUNK_CHARS_MIN = 3
# A longer chunk is base64, a minified line or the like, which is not typed again.
_CHUNK_CHARS_MAX = 240
# Shorter names are not specific, longer ones are generated.
_NAME_CHARS_MIN, _NAME_CHARS_MAX = 4, 80

# Every chunk with a fact matches this. Half of all distinct chunks are plain words and counts, and this check costs a
# tenth of classifying them. The branches differ in their first byte, so that only one of them is tried.
_MAY_HAVE_FACT = re.compile(
    rb"[/@\x80-\xff]"
    rb"|[a-z](?:[A-Z\d]|_[A-Za-z\d]|\.[A-Za-z]|-\d)"
    rb"|[A-Z](?:\d|[A-Z][a-z]|_[A-Za-z\d]|\.[A-Za-z]|-\d)"
    rb"|\d(?:[A-Za-z]|_[A-Za-z\d]|\.[A-Za-z]|-\d)"
    rb"|_\.[A-Za-z]|#\d"
)

_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")
_URL = re.compile(r"[a-z][a-z0-9+.-]{1,11}://.+")
_PATH = re.compile(r"~?[\w$@.+#/-]+")
_FILE = re.compile(r"[\w$@+-][\w$@.+-]*")
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
# A UUID, the hash of something, and codes: ABC-123, #123, GV1N64, HAT170.
_ID = re.compile(
    r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"|(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64}"
    r"|[A-Z][A-Z0-9]{1,9}-\d+|#\d+|(?=[A-Z]*\d)(?=\d*[A-Z])[A-Z0-9]{4,16}"
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:T[\d:.]+(?:Z|[+-][\d:]+)?)?")
_WORD = re.compile(r"(?<![\w$])[A-Za-z_$][\w$]*")
# Two parts in one word: camelCase, HTTPServer, snake_case, sha256sum.
_COMPOUND = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]|[A-Za-z0-9]_[A-Za-z0-9]|[A-Za-z]\d+[A-Za-z]")
# pkg.Name, as Go, Java and Python write exported names.
_QUALIFIED = re.compile(r"[a-z]\w+\.[A-Z][a-z]\w+")
# The word after these keywords is a name, even if it is a plain word.
_DEFINITION = re.compile(r"\b(?:def|class|func|function|fn|type|struct|enum|interface|trait)\s+([A-Za-z_]\w{3,79})\b")
# Their prefixes; the expression is tried only at one of these.
_DEFINING = ("def", "class", "func", "fn", "type", "struct", "enum", "interface", "trait")
# Providers' ids of calls and replies have no meaning outside their request.
_TRANSIENT_IDS = ("toolu_", "call_", "chatcmpl-", "msg_", "req_", "fc_", "rs_")
_TRANSIENT_BYTES = tuple(ids.encode() for ids in _TRANSIENT_IDS)
# Punctuation around a word that is not part of it.
_AROUND = b".:=-?&+%"
# Extensions that distinguish a file from a qualified name such as `self.value`.
_ENDINGS = (
    "go mod sum ts tsx js jsx mjs cjs py pyi ipynb rs java kt swift c h cc cpp hpp cs rb php pl lua ex exs erl hs ml "
    "scala vue svelte md mdx rst txt log json jsonl toml yaml yml lock cfg ini conf env xml csv tsv sql html htm css "
    "scss sh bash zsh proto graphql tf gradle pdf png jpg jpeg gif svg zip gz tar zst db sqlite bak tmp"
)
_FILE_ENDINGS = frozenset(_ENDINGS.split())
# A number is a fact if it has three digits or more, a fraction, or a percent sign; smaller ones are mostly counts. The
# word before it and the unit after it belong to it.
_NUMBER = re.compile(
    r"(?<![\w.,/:#-])[$€£]?(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+|\d{3,15}|\d+(?= ?%))"
    r"( ?%| ?[A-Za-z]{1,12}\b)?(?![\w/:-])"
)
# Positions where the expression can match: the first digit of a run, or a currency sign before it.
_DIGITS = re.compile(r"\d[\d.,]*")
_CURRENCIES = ("$", "€", "£")
_WORD_BEFORE = re.compile(r"[A-Za-z][\w-]*[ :=]{1,2}\Z")
_WORD_BEFORE_CHARS = 26
# Function words next to a number are dropped.
_FUNCTION_WORD = re.compile(
    r"^(?:of|the|and|to|at|in|is|for|with|by|from|or|a)\s+|\s+(?:of|the|and|to|at|in|is|for|or)$", re.IGNORECASE
)


def _names(chunk: str) -> dict[str, FactKind]:
    names = {
        word: NAME
        for word in _WORD.findall(chunk)
        if _NAME_CHARS_MIN <= len(word) <= _NAME_CHARS_MAX and _COMPOUND.search(word)
    }
    return names or _qualified(chunk)


def _qualified(chunk: str) -> dict[str, FactKind]:
    # `agent.Default` has no compound word, `os.ReadFile` has.
    return {chunk: NAME} if _QUALIFIED.fullmatch(chunk) else {}


def _dotted(chunk: str) -> dict[str, FactKind]:
    """Classify a chunk of letters and dots, which is every third one, mostly without regular expressions."""
    stem, _, ending = chunk.rpartition(".")
    if ending in _FILE_ENDINGS and stem and not stem.startswith("."):
        return {chunk: PATH}
    names = {
        word: NAME
        for word in chunk.split(".")
        # A word is compound unless it is lower case, upper case, or capitalised.
        if _NAME_CHARS_MIN <= len(word) <= _NAME_CHARS_MAX and not (word[1:].islower() or word.isupper())
    }
    return names or _qualified(chunk)


def _is_path(path: str) -> bool:
    if "//" in path or _PATH.fullmatch(path) is None or _LETTER.search(path) is None:
        return False
    if "/" in path.strip("./~"):
        return True
    # "/copy" is a command of some chat, "/etc/hosts" and "./run" are paths.
    pieces = [piece for piece in path.split("/") if piece not in ("", ".", "..", "~")]
    return len(pieces) > 1 or path.startswith(("./", "../", "~/")) or _is_file(pieces[0])


def _is_file(name: str) -> bool:
    stem, _, ending = name.rpartition(".")
    return ending in _FILE_ENDINGS and _FILE.fullmatch(stem) is not None


def judge(chunk: str) -> dict[str, FactKind]:
    """Return the facts in one chunk of text with their kinds, none for a plain word."""
    chunk = chunk.strip(":?=&+%-").rstrip(".")
    if len(chunk) > _CHUNK_CHARS_MAX:
        return {}
    if chunk.isascii() and chunk.replace(".", "").isalpha():
        return _dotted(chunk)
    if "://" in chunk:
        found = _URL.search(chunk)
        return {found[0]: FactKind.URL} if found else {}
    if chunk.startswith(_TRANSIENT_IDS):
        return {}
    if "@" in chunk and _EMAIL.fullmatch(chunk):
        return {chunk: FactKind.ID}
    return _path_or_names(chunk)


def _path_or_names(chunk: str) -> dict[str, FactKind]:
    # "main.go:42:func": a path, and maybe names after the colon.
    head, _, rest = chunk.partition(":")
    if "/" in head:
        head = head.rstrip("/")
        path = {head: PATH} if _is_path(head) else {}
        return path | _names(rest) if rest else path
    if _DIGIT.search(chunk):
        if _ID.fullmatch(chunk):
            return {chunk: FactKind.ID}
        if _DATE.fullmatch(chunk):
            return {chunk: FactKind.NUMBER}
    if "." in head and _is_file(head):
        return {head: PATH} | _names(rest)
    return _names(chunk)


def _name(word: bytes) -> dict[str, FactKind]:
    return {word.decode(): NAME} if _NAME_CHARS_MIN <= len(word) <= _NAME_CHARS_MAX else {}


def _facts_of(chunk: bytes) -> dict[str, FactKind]:
    """Return the facts in a chunk of bytes with their kinds; most chunks are classified without `judge`."""
    core = chunk.strip(_AROUND)
    if core.isalpha():
        # All letters: it is compound unless it is lower case, upper case, or capitalised.
        return {} if core.islower() or core.istitle() or core.isupper() else _name(core)
    if core.isdigit() or _MAY_HAVE_FACT.search(chunk) is None:
        return {}
    if core.replace(b"_", b"").isalpha():
        return {} if core.startswith(_TRANSIENT_BYTES) or _MAY_HAVE_FACT.search(core) is None else _name(core)
    text = chunk.decode()
    if text.isascii():
        return judge(text) if len(text) >= _CHUNK_CHARS_MIN else {}
    return _facts_of_unicode(text)


def _facts_of_unicode(text: str) -> dict[str, FactKind]:
    return {fact: kind for part in _CHUNK.findall(text) for fact, kind in judge(part).items()}


def _defined(text: str) -> Iterator[str]:
    for word in _DEFINING:
        at = text.find(word)
        while at >= 0:
            definition = _DEFINITION.match(text, at)
            if definition is not None:
                yield definition[1]
            at = text.find(word, at + len(word))


def _chunks(texts: Iterable[str]) -> set[bytes]:
    """Split texts into their distinct chunks."""
    chunks: set[bytes] = set()
    for text in texts:
        # Without its arrows a listing is mostly ASCII, which is encoded by copying it.
        raw = (text if text.isascii() else text.replace(_ARROW, " ")).encode("utf-8", "replace")
        if b"\\" in raw:
            # A replacement of the same length is faster.
            raw = raw.replace(b"\\n", b"  ").replace(b"\\t", b"  ")
        chunks.update(raw.translate(_SEPARATORS).split())
    return chunks


class Judge:
    """Extracts facts from many texts, with a cache of classified chunks.

    The cache changes no result: the facts of a text and their kinds depend on that text alone, so that a memory can be
    continued with another judge.
    """

    def __init__(self) -> None:
        self._judged: dict[bytes, tuple[tuple[str, FactKind], ...]] = {}
        self._plain: set[bytes] = set()

    def facts(self, texts: Iterable[str]) -> dict[str, FactKind]:
        """Return the distinct facts in some texts with their kinds. Numbers have their own function."""
        # Not `-=`: that would iterate over all plain words of the session for each text.
        chunks = _chunks(texts).difference(self._plain)
        judged, plain = self._judged, self._plain
        for chunk in chunks.difference(judged):
            # Half of them are lower-case words, which is the fastest check.
            found = {} if chunk.islower() and chunk.isalpha() else _facts_of(chunk)
            if found:
                judged[chunk] = tuple(found.items())
            else:
                plain.add(chunk)
        kinds: dict[str, FactKind] = {}
        for chunk in chunks:
            for fact, kind in judged.get(chunk, ()):
                if fact not in kinds or kind < kinds[fact]:
                    kinds[fact] = kind
        return kinds


def definitions(texts: Iterable[str]) -> dict[str, FactKind]:
    """Return the names that code defines, plain words too."""
    return {name: NAME for text in texts for name in _defined(text)}


def merged(facts: dict[str, FactKind], others: dict[str, FactKind]) -> dict[str, FactKind]:
    """Return facts together with others. Of two kinds the same one wins in any order."""
    return facts | {fact: min(facts.get(fact, kind), kind) for fact, kind in others.items()}


def _found_numbers(text: str) -> Iterator[re.Match[str]]:
    for digits in _DIGITS.finditer(text):
        at = digits.start()
        is_priced = text[max(0, at - 1) : at] in _CURRENCIES
        number = (is_priced and _NUMBER.match(text, at - 1)) or _NUMBER.match(text, at)
        if number is not None:
            yield number


def numbers(text: str) -> dict[str, str]:
    """Return the numbers of a text with the word before each and its unit, by the number alone."""
    found: dict[str, str] = {}
    for number in _found_numbers(text):
        before = _WORD_BEFORE.search(text, max(0, number.start() - _WORD_BEFORE_CHARS), number.start())
        found[number[1]] = _FUNCTION_WORD.sub("", f"{before[0] if before else ''}{number[0]}")
    return found
