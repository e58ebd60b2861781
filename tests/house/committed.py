"""Checks of committed files: nothing in them leads to a registry or to somebody's home, and every pin has its hash."""

import re
from collections.abc import Mapping

# Put together here, so that this file does not break its own rule.
_HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("crates", "io"),
        ("rubygems", "org"),
        ("conda", "anaconda", "org"),
    )
)
_REGISTRY = re.compile(r"\b(?:[\w-]+\.)*(?:" + "|".join(map(re.escape, _HOSTS)) + r")\b", re.IGNORECASE)
_HOME = re.compile(r"(?<![\w.])(?:/home/[\w.-]+|/Users/[\w.-]+|/roo[t]/[\w.-]+|[A-Z]:\\+Users\\+[\w.-]+)")

# (file or folder, text) -> why it may stand there.
ALLOWED: Mapping[tuple[str, str], str] = {}

_PIN = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)(?:\[[\w,-]+\])?==(?P<version>\S+)")
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}(?!\S)")
_ADDRESS = re.compile(r"\w+://\S+|--(?:extra-)?index-url\b|--find-links\b|\s@\s")


def check_addresses(files: Mapping[str, str]) -> list[str]:
    """Return a sentence per registry host or home folder named in files by path."""
    return [
        f"{path}:{number} names {found[0]}: {why}"
        for path, text in files.items()
        for number, line in enumerate(text.splitlines(), start=1)
        for pattern, why in (
            (_REGISTRY, "a mirror or another registry must do as well"),
            (_HOME, "a path of one machine means nothing on another"),
        )
        for found in pattern.finditer(line)
        if not any(path.startswith(place) and found[0] == allowed for place, allowed in ALLOWED)
    ]


def check_lock(path: str, text: str) -> list[str]:
    """Return a sentence per pin without a hash, per line that pins nothing, and per address in a lock file."""
    breaches = [f"{path} names an address: {found[0].strip()}" for found in _ADDRESS.finditer(text)]
    # A pin goes on as long as its lines end in a backslash.
    for entry in re.split(r"(?<!\\)\n", text):
        line = entry.strip()
        if not line or line.startswith("#"):
            continue
        pin = _PIN.match(line)
        if pin is None:
            breaches.append(f"{path}: {line.splitlines()[0]!r} pins no version")
        elif not _HASH.search(line):
            breaches.append(f"{path}: {pin['name']}=={pin['version']} has no hash")
    return breaches
