"""How foreign text is shown in the view: between two lines of ours, unable to leave them or to hide in them."""

import re

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
