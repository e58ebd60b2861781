"""Regular expressions that are compiled at first use.

The classifier has over a hundred, and a process without failures needs none of them: compiling them all would take
longer than importing everything else.
"""

import re
from collections.abc import Callable, Iterator
from functools import cached_property


class Pattern:
    """A lazily compiled regular expression."""

    def __init__(self, source: str, flags: int = 0) -> None:
        self.source = source
        self.flags = flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.source, self.flags)

    def search(self, text: str) -> re.Match[str] | None:
        """Find the first match anywhere."""
        return self._compiled.search(text)

    def match(self, text: str) -> re.Match[str] | None:
        """Match at the beginning."""
        return self._compiled.match(text)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """Find all matches, in order."""
        return self._compiled.finditer(text)

    def split(self, text: str) -> list[str]:
        """Split at the matches."""
        return self._compiled.split(text)

    def sub(self, replacement: str | Callable[[re.Match[str]], str], text: str) -> str:
        """Replace all matches."""
        return self._compiled.sub(replacement, text)
