"""Signatures of simulated thinking: made from the model and the text, so that a changed or foreign one is found out."""

import base64
import binascii
import hashlib

_DIGEST_BYTES = 32


def sign(model: str, thought: str) -> str:
    """Return the signature of a thought."""
    return base64.b64encode(_digest(model, thought.encode())).decode()


def seal(model: str, thought: str) -> str:
    """Return a thought that only its model can read, signed."""
    raw = thought.encode()
    return base64.b64encode(_digest(model, raw) + raw).decode()


def is_signed(model: str, thought: str, signature: str) -> bool:
    """Whether this model made this signature for this thought."""
    return signature == sign(model, thought)


def is_sealed(model: str, sealed: str) -> bool:
    """Whether this model sealed this thought and nobody changed it."""
    try:
        raw = base64.b64decode(sealed, validate=True)
    except binascii.Error:
        return False
    return raw[:_DIGEST_BYTES] == _digest(model, raw[_DIGEST_BYTES:])


def _digest(model: str, thought: bytes) -> bytes:
    return hashlib.sha256(b"simulated thinking\0" + model.encode() + b"\0" + thought).digest()
