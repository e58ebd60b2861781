"""How a text that is too long, or not really text, is shown: its beginning, its end, and a line saying what is missing.

Nothing here loses anything: callers keep the original in a blob first and name it in the line.
"""

import base64
import re
from collections.abc import Sequence

import msgspec

from holdfast.core.text.media_type import sniff, spoken

# Base64 shorter than this costs the model less than the line that would replace it is worth: hashes, keys, icons.
BASE64_CHARS_MIN = 2_048

# Letters of both base64 alphabets in lines of at least 60 (encoders break at 64 or 76), the last line of any length; a
# line break may stand as such or as JSON writes it. The look-behind makes every word be looked at once, so the search
# stays linear.
_LETTERS = "[A-Za-z0-9+/_-]"
_BREAK = r"(?:\r?\n|(?:\\r)?\\n)"
_BASE64_RUN = re.compile(
    rf"(?<!{_LETTERS})(?:data:[\w.+/-]+;base64,)?"
    rf"({_LETTERS}{{60,}}(?:(?:{_BREAK}{_LETTERS}{{60,}})+(?:{_BREAK}{_LETTERS}+)?)?={{0,2}})"
)
_NOT_LETTERS = re.compile(r"\\[rn]|[\r\n=]")
_UNFIT = re.compile("[\x00\ud800-\udfff]")


class Stripped(msgspec.Struct, frozen=True):
    """A text with its base64 replaced by lines that say what it was. `runs` counts them."""

    text: str
    runs: int


def well_formed(text: str) -> str:
    """Return the text with lone surrogates and NUL replaced: no encoder and not every store takes them."""
    return _UNFIT.sub("\N{REPLACEMENT CHARACTER}", text)


def without_base64(text: str, kept_as: str = "", *, chars_min: int = BASE64_CHARS_MIN) -> Stripped:
    """Replace long runs of base64 by a line each: a model reads them as noise, at a token for every few characters.

    A run counts only if it mixes capitals, small letters and digits: genomes, hex and rulers stay.
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
    # A run cut off by its writer still is base64: one letter alone in its group of four says nothing and goes.
    whole = letters[:-1] if len(letters) % 4 == 1 else letters
    return base64.b64decode(whole + "=" * (-len(whole) % 4), validate=True)


def excerpt(text: str, bytes_max: int, advice: str) -> str:
    """Return a text that fits `bytes_max` as UTF-8: whole if it does, else beginning, a line with sizes, and end.

    `advice` stands in that line: where the whole text is and how to ask for less.
    """
    raw = text.encode()
    if len(raw) <= bytes_max:
        return text
    # The number left out is at most the number there is, so the real line is never longer than this one.
    room = bytes_max - len(_gap(len(raw), len(raw), advice).encode())
    if room <= 0:
        return _gap(len(raw), len(raw), advice).strip().encode()[:bytes_max].decode(errors="ignore")
    # Half and half: listings are told by their beginning, failures by their end.
    tail_bytes = room // 2
    head = raw[: room - tail_bytes].decode(errors="ignore")
    tail = raw[len(raw) - tail_bytes :].decode(errors="ignore")
    left_out = len(raw) - len(head.encode()) - len(tail.encode())
    return f"{head}{_gap(left_out, len(raw), advice)}{tail}"


def _gap(left_out: int, total: int, advice: str) -> str:
    return f"\n[{left_out:,} of {total:,} bytes left out here; {advice}]\n"


def fair_shares(sizes: Sequence[int], total: int) -> list[int]:
    """Divide `total` so that small ones get all they ask for and large ones the same share of what remains."""
    shares = [0] * len(sizes)
    remaining = total
    smallest_first = sorted(range(len(sizes)), key=lambda index: sizes[index])
    for rank, index in enumerate(smallest_first):
        shares[index] = min(sizes[index], remaining // (len(sizes) - rank))
        remaining -= shares[index]
    return shares


# --- How foreign text is shown in the view: between two lines of ours, unable to leave them or to hide in them.


# Whatever could open or close a frame, ours or a provider's, loses its bracket.
_TAG = re.compile(r"<(?=\s*[/|!?A-Za-z])")
# Control characters and marks that reorder or hide text, and halves of characters.
_UNSEEN = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ud800-\udfff\ufeff]")
_OPEN, _CLOSE = "<earlier-conversation>", "</earlier-conversation>"


def without_tags(text: str) -> str:
    """Return a text in which nothing opens or closes a frame."""
    return _TAG.sub("&lt;", text)


def frame(label: str, *texts: str) -> str:
    """Return texts about the past as one, labelled as reference; those that say nothing are left out."""
    body = [without_tags(_UNSEEN.sub(" ", text.strip())) for text in texts if text.strip()]
    return "\n".join([_OPEN, label, *body, _CLOSE])
