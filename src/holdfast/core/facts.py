"""Which exact facts stand in a text: paths, urls, ids, names, numbers, as they were written.

Facts are found by the shape of a word alone, so that any language of code or people will do. Text is cut into chunks of
bytes and each distinct chunk is judged once per session; that is what makes a megabyte cheap.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from itertools import filterfalse

import msgspec

from holdfast.core.messages import Message


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


# Kinds of which a whole sentence or line is kept; of the others it is a word.
QUOTED = (FactKind.INSTRUCTION, FactKind.DECISION, FactKind.COMMAND, FactKind.ERROR)


class Found(msgspec.Struct, frozen=True):
    """A fact as it stands in a text."""

    kind: FactKind
    text: str


# Words with the marks that occur inside paths, urls and qualified names. Cutting bytes with a table and `split` takes
# half the time of a regular expression; the few chunks that are not ASCII are cut again by the expression.
_CHUNK = re.compile(r"[\w$@~./#:%?=&+-]{3,}")
_CUTS = bytes(byte if byte >= 0x80 or _CHUNK.match(chr(byte) * 3) else ord(" ") for byte in range(256))  # noqa: PLR2004
# The arrow between line number and line in listings of files: it would make every line's first word a new chunk.
_ARROW = "→".encode()
_CHUNK_CHARS_MIN = 3
# A longer chunk is base64, a minified line or the like: nobody types it again.
_CHUNK_CHARS_MAX = 240
# A name of more characters is generated.
_NAME_CHARS_MAX = 80

# What a chunk must have somewhere to hold a fact. Half of all distinct chunks are plain words and counts, and one look
# with an expression costs a tenth of judging them.
_TELLING = re.compile(
    rb"[/@\x80-\xff]|[A-Za-z0-9]_[A-Za-z0-9]|[a-z0-9][A-Z]|[A-Z]{2}[a-z]|[A-Za-z]\d|\d[A-Za-z]|[A-Za-z0-9]-\d|#\d"
    rb"|[A-Za-z0-9_]\.[A-Za-z]"
)

_DIGIT = re.compile(r"\d")
_URL = re.compile(r"[a-z][a-z0-9+.-]{1,11}://.+")
_PATH = re.compile(r"(?:~|\.{1,2})?/?(?:[\w$@.+#-]+/)*[\w$@.+#-]+/?")
_FILE = re.compile(r"[\w$@+-][\w$@.+-]*\.([A-Za-z][A-Za-z0-9]{0,9})")
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HASH = re.compile(r"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64}")
# ABC-123, #123, GV1N64, HAT170.
_CODE = re.compile(r"[A-Z][A-Z0-9]{1,9}-\d+|#\d+|(?=[A-Z]*\d)(?=\d*[A-Z])[A-Z0-9]{4,16}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:T[\d:.]+(?:Z|[+-][\d:]+)?)?")
_WORD = re.compile(r"(?<![\w$])[A-Za-z_$][\w$]*")
# Two parts in one word: camelCase, HTTPServer, snake_case, sha256sum.
_COMPOUND = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]|[A-Za-z0-9]_[A-Za-z0-9]|[A-Za-z]\d+[A-Za-z]")
# pkg.Name, as Go, Java and Python write exported names.
_QUALIFIED = re.compile(r"[a-z]\w+\.[A-Z][a-z]\w+")
# What follows these words is a name, however plain it looks.
_DEFINITION = re.compile(r"\b(?:def|class|func|function|fn|type|struct|enum|interface|trait)\s+([A-Za-z_]\w{3,79})\b")
# Ids that providers give to calls and replies mean nothing outside their request.
_PASSING_IDS = ("toolu_", "call_", "chatcmpl-", "msg_", "req_", "fc_", "rs_")
# Endings that tell a file from a qualified name such as `self.value`.
_FILE_ENDINGS = (
    " go mod sum ts tsx js jsx mjs cjs py pyi ipynb rs java kt swift c h cc cpp hpp cs rb php pl lua ex exs erl hs ml "
    "scala vue svelte md mdx rst txt log json jsonl toml yaml yml lock cfg ini conf env xml csv tsv sql html htm css "
    "scss sh bash zsh proto graphql tf gradle pdf png jpg jpeg gif svg zip gz tar zst db sqlite bak tmp "
)
# A number alone is a fact where it has three digits or more, or a fraction, or a percent sign; smaller ones are counts
# of things near by. The word before and the unit after it belong to it.
_NUMBER = re.compile(
    r"(?<![\w.,/:#-])[$€£]?(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+|\d{3,15}|\d+(?= ?%))"
    r"( ?%| ?[A-Za-z]{1,12}\b)?(?![\w/:-])"
)
_WORD_BEFORE = re.compile(r"[A-Za-z][\w-]*[ :=]{1,2}\Z")
_WORD_BEFORE_CHARS = 26
# A word that joins a number to the rest of the sentence says nothing about it.
_JOINING = re.compile(
    r"^(?:of|the|and|to|at|in|is|for|with|by|from|or|a)\s+|\s+(?:of|the|and|to|at|in|is|for|or)$", re.IGNORECASE
)


def _name(word: str) -> bool:
    return 4 <= len(word) <= _NAME_CHARS_MAX and _COMPOUND.search(word) is not None  # noqa: PLR2004 - tell a name


def _names(chunk: str) -> list[Found]:
    words = [Found(FactKind.NAME, word) for word in _WORD.findall(chunk) if _name(word)]
    # `agent.Default` has no telling word of its own, `os.ReadFile` has.
    return words or ([Found(FactKind.NAME, chunk)] if _QUALIFIED.fullmatch(chunk) else [])


def _is_path(path: str) -> bool:
    pieces = [piece for piece in path.split("/") if piece not in ("", ".", "..", "~")]
    if not pieces or not any(char.isalpha() for char in path):
        return False
    # "/copy" is a command of some chat, "/etc/hosts" and "./run" are paths.
    return len(pieces) > 1 or path.startswith(("./", "../", "~/")) or _is_file(pieces[0])


def _is_file(name: str) -> bool:
    found = _FILE.fullmatch(name)
    return found is not None and f" {found[1]} " in _FILE_ENDINGS


def judge(chunk: str) -> tuple[Found, ...]:
    """Return the facts in one chunk of text, none for a plain word."""
    if chunk.isidentifier() and chunk.isascii() and not _DIGIT.search(chunk):
        # The shortest way for what most chunks are: one name and nothing else.
        is_name = _name(chunk) and not chunk.startswith(_PASSING_IDS)
        return (Found(FactKind.NAME, chunk),) if is_name else ()
    chunk = chunk.strip(":?=&+%-").rstrip(".")
    if (chunk.isalpha() and chunk[1:].islower()) or len(chunk) > _CHUNK_CHARS_MAX:
        return ()
    if "://" in chunk:
        found = _URL.search(chunk)
        return (Found(FactKind.URL, found[0]),) if found else ()
    if chunk.startswith(_PASSING_IDS):
        return ()
    if "@" in chunk and _EMAIL.fullmatch(chunk):
        return (Found(FactKind.ID, chunk),)
    if _DIGIT.search(chunk):
        if _UUID.fullmatch(chunk) or _HASH.fullmatch(chunk) or _CODE.fullmatch(chunk):
            return (Found(FactKind.ID, chunk),)
        if _DATE.fullmatch(chunk):
            return (Found(FactKind.NUMBER, chunk),)
    # "main.go:42:func": a path, and maybe names behind the colon.
    head, _, rest = chunk.partition(":")
    if "/" in head:
        head = head.rstrip("/")
        path = (Found(FactKind.PATH, head),) if _PATH.fullmatch(head) and _is_path(head) else ()
        return (*path, *_names(rest))
    if "." in head and _is_file(head):
        return (Found(FactKind.PATH, head), *_names(rest))
    return tuple(_names(chunk))


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
            raw = text.encode("utf-8", "replace")
            if b"\\" in raw:
                raw = raw.replace(b"\\n", b" ").replace(b"\\t", b" ")
            chunks.update(raw.replace(_ARROW, b" ").translate(_CUTS).split())
        # Not `-=`: that would walk through all plain words of the session for each text.
        chunks = chunks.difference(self._plain)
        judged = self._judged
        unknown = chunks.difference(judged)
        # Most are words of small letters, which is told quicker without the expression.
        plain = {chunk for chunk in unknown if chunk.islower() and chunk.isalpha()}
        plain.update(filterfalse(_TELLING.search, unknown - plain))
        self._plain |= plain
        for chunk in unknown - plain:
            self._judge(chunk)
        return {fact for chunk in chunks for fact in judged.get(chunk, ())}

    def _judge(self, chunk: bytes) -> None:
        text = chunk.decode()
        found: Iterable[Found] = ()
        if text.isascii():
            found = judge(text) if len(text) >= _CHUNK_CHARS_MIN else ()
        else:
            found = [fact for cut in _CHUNK.findall(text) for fact in judge(cut)]
        if not found:
            self._plain.add(chunk)
            return
        for fact in found:
            self.name((fact.text,), fact.kind)
        self._judged[chunk] = tuple(fact.text for fact in found)

    def definitions(self, texts: Iterable[str]) -> set[str]:
        """Return the names that some pieces of code define, plain ones too."""
        found = {name for text in texts for name in _DEFINITION.findall(text)}
        self.name(found, FactKind.NAME)
        return found

    def name(self, facts: Iterable[str], kind: FactKind) -> None:
        """Say of what kind some facts are. Of two kinds the same one wins in whatever order they are found."""
        for fact in facts:
            self.kinds[fact] = min(self.kinds.get(fact, kind), kind)


def numbers(text: str) -> dict[str, str]:
    """Return the numbers of a text, each with the word before it and its unit, by the number alone."""
    found: dict[str, str] = {}
    for number in _NUMBER.finditer(text):
        before = _WORD_BEFORE.search(text, max(0, number.start() - _WORD_BEFORE_CHARS), number.start())
        found[number[1]] = _JOINING.sub("", f"{before[0] if before else ''}{number[0]}")
    return found
