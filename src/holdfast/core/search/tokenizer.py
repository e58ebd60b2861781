"""Search tokenizer: plain words, and paths, names and ids both whole and in parts.

Index and queries use the same function: case and accents are folded, plurals and past tenses are stemmed, and text
without spaces becomes pairs of characters.
"""

import re
from functools import lru_cache
from unicodedata import normalize

# Words with the separators of paths, URLs, versions, qualified names and ids.
_CHUNK = re.compile(r"[\w$]+(?:[./\\:@~+#-]+[\w$]+)*")
# Separators within a chunk, from the outside in: a path into names, a name into words; camelCase into segments.
_PATH_CUT = re.compile(r"[/\\:@~+#]+")
_NAME_CUT = re.compile(r"[.$-]+")
CAMEL_SEGMENT = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Escapes that JSON and logs leave between two words.
_ESCAPES = (("\\n", " "), ("\\t", " "))
# A longer chunk is base64, a minified line or a ruler: it is not searched for as a whole.
_WHOLE_CHARS_MAX = 160
_PIECE_CHARS_MAX = 64
# Hexadecimal ids are searched by prefixes of the lengths that git, docker and Holdfast display.
_HEX = re.compile(r"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{4,64}")
_HEX_PREFIXES = (7, 8, 10, 12)
# Accents: the combining marks of Latin, Greek and Cyrillic. Those of other scripts form another letter.
_ACCENT = re.compile("[\u0300-\u036f]")
# Scripts without spaces, or with particles attached to words: kana, ideographs, hangul.
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f]+")
# Cached chunks: some 10 MB, and a session rarely has more.
_CACHED_CHUNKS = 2**16


def words(text: str) -> list[str]:
    """Return the words of a text in order, with repetitions."""
    if "\\" in text:
        for escape, space in _ESCAPES:
            text = text.replace(escape, space)
    found: list[str] = []
    for chunk in _CHUNK.findall(text):
        found.extend(_words_of(chunk))
    return found


@lru_cache(maxsize=_CACHED_CHUNKS)
def _words_of(chunk: str) -> tuple[str, ...]:
    if chunk.isascii():
        return _ascii_words(chunk)
    plain = normalize("NFKC", _ACCENT.sub("", normalize("NFKD", chunk)))
    if plain.isascii():
        # Compatibility forms may contain spaces and separators of their own.
        return tuple(word for part in _CHUNK.findall(plain) for word in _ascii_words(part))
    found: list[str] = []
    at = 0
    for run in _UNSPACED.finditer(plain):
        found += _spaced(plain[at : run.start()])
        found += _pairs(run[0])
        at = run.end()
    return tuple(found + _spaced(plain[at:]))


def _spaced(text: str) -> list[str]:
    """Return the words of a text with spaces, in any script."""
    found: list[str] = []
    for chunk in _CHUNK.findall(text):
        found += _ascii_words(chunk) if chunk.isascii() else [chunk.casefold()[:_WHOLE_CHARS_MAX]]
    return found


def _pairs(run: str) -> list[str]:
    """Return all pairs of adjacent characters: they find a word of two or more at any position."""
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


def _ascii_words(chunk: str) -> tuple[str, ...]:
    if chunk.isalpha() and (chunk[1:].islower() or len(chunk) == 1):
        return (stem(chunk.lower()),) if len(chunk) <= _PIECE_CHARS_MAX else ()
    # A dictionary keeps the order and each word once.
    found: dict[str, None] = {}
    if len(chunk) <= _WHOLE_CHARS_MAX:
        found[chunk.lower().replace("\\", "/").strip("$")] = None
    for name in _PATH_CUT.split(chunk):
        if len(name) <= _PIECE_CHARS_MAX:
            found[name.lower()] = None
        for word in _NAME_CUT.split(name):
            found.update(dict.fromkeys(_pieces(word)))
    found.pop("", None)
    return tuple(found)


def _pieces(word: str) -> list[str]:
    """Return a word of a name, whole and in its camelCase segments."""
    lower = word.lower()
    if len(word) > _PIECE_CHARS_MAX:
        return []
    if _HEX.fullmatch(lower):
        # Its segments would be short runs of letters and digits that match everywhere.
        return [lower, *(lower[:chars] for chars in _HEX_PREFIXES if chars < len(lower))]
    segments = CAMEL_SEGMENT.findall(word)
    if len(segments) == 1 and len(segments[0]) == len(word):
        return [stem(lower)]
    return [lower, *(stem(segment.lower()) for segment in segments)]


# Letters that English doubles before an ending; "l", "s" and "z" are as often doubled in the stem itself.
_DOUBLED = frozenset("bdfgmnprt")
# Minimum length of a stem: in shorter words the ending is mostly part of it, as in "red", "bus" and "king".
_STEM_CHARS_MIN = 3


def stem(word: str) -> str:
    """Return a plain word without its plural or tense ending."""
    if not word.isalpha():
        return word
    cut = word
    for ending, instead in (("ies", "y"), ("ing", ""), ("ed", ""), ("s", "")):
        if word.endswith(ending) and not word.endswith("ss"):
            cut = word.removesuffix(ending) + instead
            break
    if len(cut) < _STEM_CHARS_MIN:
        return word
    if cut is not word and cut[-1] == cut[-2] and cut[-1] in _DOUBLED:
        return cut[:-1]
    return cut[:-1] if cut.endswith("e") and len(cut) > _STEM_CHARS_MIN else cut
