"""Titles of sessions, made from the first message without a model."""

from collections.abc import Sequence

from holdfast.types.messages import LargeText, Media, Part, Text

# Beginning of a message that is kept to make a title of; a title is shorter.
OPENING_CHARS = 200
# A line in a list on a phone or beside other columns.
TITLE_CHARS = 60
# A word that would leave less than this of the title is cut.
_WHOLE_WORDS_CHARS = 40
# Stands for the message of a person where an imported conversation has none. It says nothing about the conversation.
NO_INPUT = "(The imported conversation goes on here without a message from a person.)"
_DECORATION = "#>*-_`~=\"' \t"


def opening_of(parts: Sequence[Part]) -> str:
    """Return the beginning of a message; of one without text, the name or type of its first attachment."""
    for part in parts:
        match part:
            case Text(text=text) | LargeText(head=text) if text.strip() and text != NO_INPUT:
                return text.strip()[:OPENING_CHARS]
            case _:
                pass
    named = (part.name or part.media_type for part in parts if isinstance(part, Media))
    return next(named, "")[:OPENING_CHARS]


def title_from(opening: str) -> str:
    """Return a title made from the beginning of a message: its first line with words, shortened."""
    if opening == NO_INPUT:
        # Of a list that was written before this was left out.
        return ""
    lines = (" ".join(line.strip(_DECORATION).split()) for line in opening.splitlines())
    line = next((line for line in lines if line), "")
    if len(line) <= TITLE_CHARS:
        return line
    cut = line[:TITLE_CHARS]
    words = cut.rpartition(" ")[0]
    return (words if len(words) >= _WHOLE_WORDS_CHARS else cut[:-1]).rstrip(" ,;:.") + "…"
