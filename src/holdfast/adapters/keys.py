"""Session keys of foreign ids whose parts can be listed: all sessions of a thread or of a project share a prefix."""

from hashlib import sha256
from urllib.parse import quote

# Characters of an id in a key; a longer one is hashed. Three of them fit into a key.
_CHARS_MAX = 66


def key_part(name: str) -> str:
    """Return an id as a part of a key or of a client id. It has no colon, and different ids have different parts."""
    quoted = quote(name.encode("utf-8", "surrogatepass"), safe="").replace("~", "%7E") or "%"
    return quoted if len(quoted) <= _CHARS_MAX else f"~{sha256(quoted.encode()).hexdigest()}"
