"""Which image of a request a refusal points at.

Providers name the place in the body that they were sent, such as `messages.3.content.1.image`. Only whoever sent the
body knows what stood there, so the place is resolved here, and the image is named by the SHA-256 of its bytes: that is
how everybody else knows it.
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator
from hashlib import sha256

import msgspec

# The list of messages as each dialect calls it, and the steps that lead further down.
_PLACE = re.compile(r"(?<![\w])(messages|input|contents)((?:\.\w+|\[\d+\])+)")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_DATA_URL = re.compile(r"data:[\w.+/-]+;base64,")


def blamed_image(body: bytes, told: str) -> str:
    """Return the SHA-256 of the one image that a refusal of this body points at; "" where it points at none or many."""
    places = list(_PLACE.finditer(told))
    try:
        sent: object = msgspec.json.decode(body) if places else None
    except msgspec.DecodeError:
        return ""
    for place in places:
        steps = [int(step) if step.isdigit() else step for pair in _STEP.findall(place[2]) for step in pair if step]
        node, left = _follow(sent.get(place[1]) if isinstance(sent, dict) else None, steps)
        images = list(_images(node))
        # "messages[5].image[0]" counts images, of which the body itself has no list.
        counted = [step for step in left if isinstance(step, int)]
        if counted and counted[0] < len(images):
            images = [images[counted[0]]]
        if len(images) == 1:
            return _sha256(images[0])
    return ""


def _follow(node: object, steps: list[int | str]) -> tuple[object, list[int | str]]:
    """Go down as far as the steps lead, and return what is there, with the steps that lead nowhere."""
    for number, step in enumerate(steps):
        if isinstance(step, int) and isinstance(node, list) and step < len(node):
            node = node[step]
            continue
        if isinstance(step, str) and isinstance(node, dict) and step in node:
            node = node[step]
            continue
        # Nothing was found at all where not even a message was.
        return (node, steps[number:]) if number else (None, steps)
    return node, []


def _images(node: object) -> Iterator[str]:
    """Yield the base64 text of every image below a node."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "data" and isinstance(value, str):
                yield value
            else:
                yield from _images(value)
    elif isinstance(node, list):
        for value in node:
            yield from _images(value)
    elif isinstance(node, str) and (head := _DATA_URL.match(node)):
        yield node[head.end() :]


def _sha256(encoded: str) -> str:
    try:
        return sha256(b64decode(encoded, validate=True)).hexdigest()
    except (binascii.Error, ValueError):
        return ""
