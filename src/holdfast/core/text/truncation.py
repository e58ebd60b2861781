"""Truncate long text to head and tail, replace base64, and escape untrusted text.

Callers store the original in a blob first and name it in the line that marks the gap.
"""

import base64
import re
from collections.abc import Sequence

import msgspec

from holdfast.core.text.media_type import sniff, spoken

# Shorter base64 stays: hashes, keys and icons cost little more than the line that would replace them.
BASE64_CHARS_MIN = 2_048

# Characters of both base64 alphabets in lines of at least 60 (encoders break at 64 or 76), the last line of any length;
# line breaks are raw or JSON-escaped. The look-behind makes the search try every word once, so that it stays linear.
_LETTERS = "[A-Za-z0-9+/_-]"
_BREAK = r"(?:\r?\n|(?:\\r)?\\n)"
_BASE64_RUN = re.compile(
    rf"(?<!{_LETTERS})(?:data:[\w.+/-]+;base64,)?"
    rf"({_LETTERS}{{60,}}(?:(?:{_BREAK}{_LETTERS}{{60,}})+(?:{_BREAK}{_LETTERS}+)?)?={{0,2}})"
)
_NOT_LETTERS = re.compile(r"\\[rn]|[\r\n=]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class Stripped(msgspec.Struct, frozen=True):
    """A text whose base64 is replaced by descriptive lines. `runs` counts them."""

    text: str
    runs: int


def well_formed(text: str) -> str:
    """Return the text with lone surrogates and NUL replaced, which encoders and some stores reject."""
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def without_base64(text: str, kept_as: str = "", *, chars_min: int = BASE64_CHARS_MIN) -> Stripped:
    """Replace long runs of base64 by a line each: they are noise to a model, at a token for every few characters.

    A run counts only if it mixes upper case, lower case and digits: genomes, hex and rulers stay.
    """
    runs = 0
    where = f"; {kept_as}" if kept_as else ""

    def line(found: re.Match[str]) -> str:
        nonlocal runs
        content = _decoded(found[1], chars_min)
        if content is None:
            return found[0]
        runs += 1
        what = f"{len(content):,} bytes, {spoken(sniff(content))}"
        return f"[{len(found[0]):,} characters of base64 left out: {what}{where}]"

    return Stripped(_BASE64_RUN.sub(line, text), runs)


def _decoded(run: str, chars_min: int) -> bytes | None:
    if len(run) < chars_min or not all(re.search(kind, run) for kind in ("[A-Z]", "[a-z]", "[0-9]")):
        return None
    letters = _NOT_LETTERS.sub("", run).translate(str.maketrans("-_", "+/"))
    # A truncated run still is base64: a single character in its group of four is dropped.
    complete = letters[:-1] if len(letters) % 4 == 1 else letters
    return base64.b64decode(complete + "=" * (-len(complete) % 4), validate=True)


def excerpt(text: str, bytes_max: int, advice: str) -> str:
    """Truncate a text to `bytes_max` of UTF-8: head, a line with sizes, and tail.

    `advice` is part of that line: where the whole text is and how to request less.
    """
    raw = text.encode()
    if len(raw) <= bytes_max:
        return text
    # The omitted number is at most the total, so the actual line is never longer than this one.
    room = bytes_max - len(_gap(len(raw), len(raw), advice).encode())
    if room <= 0:
        return _gap(len(raw), len(raw), advice).strip().encode()[:bytes_max].decode(errors="ignore")
    # Half and half: listings are recognised by their head, failures by their tail.
    tail_bytes = room // 2
    head = raw[: room - tail_bytes].decode(errors="ignore")
    tail = raw[len(raw) - tail_bytes :].decode(errors="ignore")
    left_out = len(raw) - len(head.encode()) - len(tail.encode())
    return f"{head}{_gap(left_out, len(raw), advice)}{tail}"


def _gap(left_out: int, total: int, advice: str) -> str:
    return f"\n[{left_out:,} of {total:,} bytes left out here; {advice}]\n"


def fair_shares(sizes: Sequence[int], total: int) -> list[int]:
    """Divide `total` so that small sizes are met in full and large ones get equal shares of the rest."""
    shares = [0] * len(sizes)
    remaining = total
    smallest_first = sorted(range(len(sizes)), key=lambda index: sizes[index])
    for rank, index in enumerate(smallest_first):
        shares[index] = min(sizes[index], remaining // (len(sizes) - rank))
        remaining -= shares[index]
    return shares


# --- Escaping: frame untrusted text in the view ---

# Tags that could open or close a frame, ours or a provider's.
_TAG = re.compile(r"<(?=\s*[/|!?A-Za-z])")
# Control characters, characters that reorder or hide text, and lone surrogates.
_INVISIBLE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ud800-\udfff\ufeff]")
_OPEN, _CLOSE = "<earlier-conversation>", "</earlier-conversation>"


def without_tags(text: str) -> str:
    """Escape tags, so that the text cannot open or close a frame."""
    return _TAG.sub("&lt;", text)


def frame(label: str, *texts: str) -> str:
    """Join texts about earlier messages in one labelled frame; empty texts are left out."""
    body = [without_tags(_INVISIBLE.sub(" ", text.strip())) for text in texts if text.strip()]
    return "\n".join([_OPEN, label, *body, _CLOSE])
