"""Quotes: one-line texts, and the worth of a sentence by its form."""

import re

# An assignment on a line of its own.
_LAID_DOWN = re.compile(r"^[^\w\n]*\w[\w.-]{0,40} ?:?= ?\S", re.MULTILINE)
# Exact details: a number, a name in the middle of a sentence, a word in quotes or code.
_EXACT = re.compile(r"\d|(?<=[\w,;:] )[^\W\d_a-z]|[\"'`“«„]\w")
_QUESTION_MARKS = ("?", "？", "؟")  # noqa: RUF001 - question marks of other scripts
# Words of decisions and findings, and of failures.
_DECIDING = re.compile(
    r"\b(?:decid\w+|instead|rather|agreed|should|must|never|always|because|root cause|the (?:fix|problem|issue|reason)|"
    r"turns out|need(?:s|ed)? to|so that|found|fix(?:ed|es)?|works? now)\b",
    re.IGNORECASE,
)
_FAILING = re.compile(r"\b(?:errors?|fail(?:s|ed|ure|ing)?|exception|crash\w*|broken|bug|wrong)\b", re.IGNORECASE)
# Announcements of the next step, which the steps themselves tell.
_ANNOUNCES = re.compile(
    r"(?:(?:now|next|okay|ok|good|great|perfect)[,. ]+)?(?:let me|let's|i'll|i will|now)\b", re.IGNORECASE
)
_DECIDES, _FAILS, _IS_EXACT, _IS_ANNOUNCEMENT = 0.3, 0.15, 0.2, -0.3

# Code in an agent's message: fenced, or as an edit with conflict markers, whatever fence is around it.
_CODE = re.compile(r"```.*?(?:```|\Z)|^<{5,9} ?\w*\n.*?(?:^>{5,9} ?\w*$|\Z)", re.DOTALL | re.MULTILINE)


def without_code(text: str) -> str:
    """Return a text without its blocks of code. Do this before truncating: a cut inside of one opens another."""
    return _CODE.sub("\n", text) if "```" in text or "<<<<<" in text else text


def one_line(text: str, chars_max: int) -> str:
    """Return a text on one line, truncated in the middle."""
    if len(text) <= chars_max and text.isprintable() and "  " not in text:
        # The only printable whitespace is the space, so most sentences are lines already.
        return text.strip()
    # Whitespace rarely makes up seven eighths of a text, so no more of it is read.
    reach = 8 * chars_max
    line = " ".join(text.split() if len(text) <= 2 * reach else [*text[:reach].split(), *text[-reach:].split()])
    if len(line) <= chars_max:
        return line
    tail = chars_max // 4
    return f"{line[: chars_max - tail].rstrip()} … {line[-tail:].lstrip()}"


def is_assignment(text: str) -> bool:
    """Return whether a text has a line of the form `name = value`."""
    return "=" in text and _LAID_DOWN.search(text) is not None


def is_told(line: str) -> bool:
    """Return whether a sentence states something exact: a number, a name, a word in quotes; questions do not."""
    return not line.endswith(_QUESTION_MARKS) and (is_assignment(line) or _EXACT.search(line) is not None)


def worth_of(line: str) -> float:
    """Return the worth of an agent's sentence by its form: decisions and findings, less for announcements."""
    return (
        _DECIDES * (_DECIDING.search(line) is not None)
        + _FAILS * (_FAILING.search(line) is not None)
        + _IS_EXACT * (_EXACT.search(line) is not None)
        + _IS_ANNOUNCEMENT * (_ANNOUNCES.match(line) is not None or line.endswith(":"))
    )
