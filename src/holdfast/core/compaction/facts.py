"""Which exact facts stand in a text: paths, urls, ids, names, numbers, as they were written.

Facts are found by the shape of a word alone, so that any language of code or people will do. Text is cut into chunks of
bytes and each distinct chunk is judged once per session; that is what makes a megabyte cheap.
"""

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

from holdfast.types.messages import Message


class Passage(msgspec.Struct, frozen=True):
    """An original that is being represented: a message and the seq of the record that carries it."""

    seq: int
    message: Message


class FactKind(StrEnum):
    """What a fact is. The order is the one in which a ledger shows them."""

    INSTRUCTION = "instruction"
    DECISION = "decision"
    COMMAND = "command"
    ERROR = "error"
    # A path that was written to, and one that was only read or named.
    EDITED = "edited"
    PATH = "path"
    URL = "url"
    ID = "id"
    NAME = "name"
    NUMBER = "number"


# The two kinds that nearly all facts have. To read a member off its class costs as much as a call, and these are read
# for every fact.
NAME, PATH = FactKind.NAME, FactKind.PATH

# Kinds of which a whole sentence or line is kept; of the others it is a word.
QUOTED = (FactKind.INSTRUCTION, FactKind.DECISION, FactKind.COMMAND, FactKind.ERROR)


# Words with the marks that occur inside paths, urls and qualified names. Cutting bytes with a table and `split` takes
# half the time of a regular expression; the few chunks that are not ASCII are cut again by the expression.
_CHUNK = re.compile(r"[\w$@~./#:%?=&+-]{3,}")
_CUTS = bytes(byte if byte >= 0x80 or _CHUNK.match(chr(byte) * 3) else ord(" ") for byte in range(256))  # noqa: PLR2004
# The arrow between line number and line in listings of files: it would make every line's first word a new chunk.
_ARROW = "→"
_CHUNK_CHARS_MIN = 3
# A longer chunk is base64, a minified line or the like: nobody types it again.
_CHUNK_CHARS_MAX = 240
# A name of fewer characters tells nothing, one of more is generated.
_NAME_CHARS_MIN, _NAME_CHARS_MAX = 4, 80

# What a chunk must have somewhere to hold a fact. Half of all distinct chunks are plain words and counts, and one look
# with an expression costs a tenth of judging them.
# The branches are told apart by one byte, so that only one of them is ever tried.
_TELLING = re.compile(
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
# What follows these words is a name, however plain it looks.
_DEFINITION = re.compile(r"\b(?:def|class|func|function|fn|type|struct|enum|interface|trait)\s+([A-Za-z_]\w{3,79})\b")
# One of these begins each of them; the expression is tried only where one stands.
_DEFINING = ("def", "class", "func", "fn", "type", "struct", "enum", "interface", "trait")
# Ids that providers give to calls and replies mean nothing outside their request.
_PASSING_IDS = ("toolu_", "call_", "chatcmpl-", "msg_", "req_", "fc_", "rs_")
_PASSING_BYTES = tuple(ids.encode() for ids in _PASSING_IDS)
# Marks that may stand around a word and are no part of it.
_AROUND = b".:=-?&+%"
# Endings that tell a file from a qualified name such as `self.value`.
_ENDINGS = (
    "go mod sum ts tsx js jsx mjs cjs py pyi ipynb rs java kt swift c h cc cpp hpp cs rb php pl lua ex exs erl hs ml "
    "scala vue svelte md mdx rst txt log json jsonl toml yaml yml lock cfg ini conf env xml csv tsv sql html htm css "
    "scss sh bash zsh proto graphql tf gradle pdf png jpg jpeg gif svg zip gz tar zst db sqlite bak tmp"
)
_FILE_ENDINGS = frozenset(_ENDINGS.split())
# A number alone is a fact where it has three digits or more, or a fraction, or a percent sign; smaller ones are counts
# of things near by. The word before and the unit after it belong to it.
_NUMBER = re.compile(
    r"(?<![\w.,/:#-])[$€£]?(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+|\d{3,15}|\d+(?= ?%))"
    r"( ?%| ?[A-Za-z]{1,12}\b)?(?![\w/:-])"
)
# Where the expression can match: it begins at the first digit of a run, or at the sign of a currency before it.
_DIGITS = re.compile(r"\d[\d.,]*")
_CURRENCIES = ("$", "€", "£")
_WORD_BEFORE = re.compile(r"[A-Za-z][\w-]*[ :=]{1,2}\Z")
_WORD_BEFORE_CHARS = 26
# A word that joins a number to the rest of the sentence says nothing about it.
_JOINING = re.compile(
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
    # `agent.Default` has no telling word of its own, `os.ReadFile` has.
    return {chunk: NAME} if _QUALIFIED.fullmatch(chunk) else {}


def _dotted(chunk: str) -> dict[str, FactKind]:
    """Judge what has only letters and dots, as every third chunk that is judged: it needs hardly an expression."""
    stem, _, ending = chunk.rpartition(".")
    if ending in _FILE_ENDINGS and stem and not stem.startswith("."):
        return {chunk: PATH}
    names = {
        word: NAME
        for word in chunk.split(".")
        # A word has two parts unless it is small, large, or small behind its first.
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
    if chunk.startswith(_PASSING_IDS):
        return {}
    if "@" in chunk and _EMAIL.fullmatch(chunk):
        return {chunk: FactKind.ID}
    # "main.go:42:func": a path, and maybe names behind the colon.
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
    """Return the facts in a chunk as it was cut, with their kinds; what most chunks are is told without `judge`."""
    core = chunk.strip(_AROUND)
    if core.isalpha():
        # All letters: it has two parts unless it is small, large, or small behind its first. That needs no expression.
        return {} if core.islower() or core.istitle() or core.isupper() else _name(core)
    if core.isdigit() or _TELLING.search(chunk) is None:
        return {}
    if core.replace(b"_", b"").isalpha():
        return {} if core.startswith(_PASSING_BYTES) or _TELLING.search(core) is None else _name(core)
    text = chunk.decode()
    if text.isascii():
        return judge(text) if len(text) >= _CHUNK_CHARS_MIN else {}
    found: dict[str, FactKind] = {}
    for cut in _CHUNK.findall(text):
        found |= judge(cut)
    return found


def _defined(text: str) -> Iterator[str]:
    for word in _DEFINING:
        at = text.find(word)
        while at >= 0:
            definition = _DEFINITION.match(text, at)
            if definition is not None:
                yield definition[1]
            at = text.find(word, at + len(word))


class Judge:
    """Finds facts in many texts, remembering what it has judged. One per ledger, so that it ends with it."""

    def __init__(self) -> None:
        self.kinds: dict[str, FactKind] = {}
        self._judged: dict[bytes, tuple[str, ...]] = {}
        self._plain: set[bytes] = set()

    def facts(self, texts: Iterable[str]) -> set[str]:
        """Return the distinct facts in some texts; `kinds` says what each one is. Numbers have their own function."""
        chunks: set[bytes] = set()
        for text in texts:
            # Without its arrows a listing is mostly ASCII, which is encoded by copying it.
            raw = (text if text.isascii() else text.replace(_ARROW, " ")).encode("utf-8", "replace")
            if b"\\" in raw:
                # What is replaced by as much needs no counting first.
                raw = raw.replace(b"\\n", b"  ").replace(b"\\t", b"  ")
            chunks.update(raw.translate(_CUTS).split())
        # Not `-=`: that would walk through all plain words of the session for each text.
        chunks = chunks.difference(self._plain)
        judged = self._judged
        kinds, plain = self.kinds, self._plain
        for chunk in chunks.difference(judged):
            # Half of them are words of small letters, which is told quickest.
            found = {} if chunk.islower() and chunk.isalpha() else _facts_of(chunk)
            if not found:
                plain.add(chunk)
                continue
            judged[chunk] = tuple(found)
            for fact, kind in found.items():
                if fact not in kinds or kind < kinds[fact]:
                    kinds[fact] = kind
        return {fact for chunk in chunks for fact in judged.get(chunk, ())}

    def definitions(self, texts: Iterable[str]) -> set[str]:
        """Return the names that some pieces of code define, plain ones too."""
        found = {name for text in texts for name in _defined(text)}
        self.name(found, FactKind.NAME)
        return found

    def name(self, facts: Iterable[str], kind: FactKind) -> None:
        """Say of what kind some facts are. Of two kinds the same one wins in whatever order they are found."""
        for fact in facts:
            self.kinds[fact] = min(self.kinds.get(fact, kind), kind)


def _found_numbers(text: str) -> Iterator[re.Match[str]]:
    for digits in _DIGITS.finditer(text):
        at = digits.start()
        is_priced = text[max(0, at - 1) : at] in _CURRENCIES
        number = (is_priced and _NUMBER.match(text, at - 1)) or _NUMBER.match(text, at)
        if number is not None:
            yield number


def numbers(text: str) -> dict[str, str]:
    """Return the numbers of a text, each with the word before it and its unit, by the number alone."""
    found: dict[str, str] = {}
    for number in _found_numbers(text):
        before = _WORD_BEFORE.search(text, max(0, number.start() - _WORD_BEFORE_CHARS), number.start())
        found[number[1]] = _JOINING.sub("", f"{before[0] if before else ''}{number[0]}")
    return found
