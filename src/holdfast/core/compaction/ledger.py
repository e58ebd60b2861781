"""The ledger: state and exact facts of compacted messages, to stand beside a model's summary.

Every line cites a record that contains it, so that it can be looked up and verified.
"""

from collections.abc import Sequence
from itertools import takewhile

import msgspec

from holdfast.core.compaction.digest import DIGEST, Count, Shares, remember, render_fitting
from holdfast.core.compaction.facts import Passage
from holdfast.core.compaction.layers import LINE
from holdfast.core.compaction.memory.state import Memory
from holdfast.core.limits.sizing import tokens_of_text

# The model tells the story. Without its text only the tokens of the names are bounded.
_SHARES = Shares((0.08, 0.09, 0.10, 0.08, 0.09, 0.07, 0.07, 0.05, 0.01), 0.10, 0.0, 0.04, 0.22, 4.0)


class Ledger(msgspec.Struct, frozen=True):
    """Lines of the form `label [#seq] text`, state first and names last."""

    lines: tuple[str, ...] = ()

    def render(self) -> str:
        """Return the ledger as text."""
        return "\n".join(self.lines)


def make_ledger(passages: Sequence[Passage], *, tokens_max: int, count: Count = tokens_of_text) -> Ledger:
    """Extract state and exact facts from passages, as many as fit into this many tokens when rendered."""
    return ledger_of(remember(passages), tokens_max=tokens_max, count=count)


def ledger_of(memory: Memory, *, tokens_max: int, count: Count = tokens_of_text, notes: str = "") -> Ledger:
    """Return the ledger of a memory, as much as fits into this many tokens.

    Names take at most a quarter of it and of the notes beside it, however short the notes are.
    """
    shares = msgspec.structs.replace(_SHARES, names_chars=DIGEST.names_chars, beside_chars=len(notes))
    text = render_fitting(memory, tokens_max, count, shares if notes else _SHARES)
    return Ledger(tuple(text.split("\n"))) if text else Ledger()


def lines_in(summary: str) -> tuple[str, ...]:
    """Return the ledger lines at the end of a summary, without the closing frame."""
    lines = summary.split("\n")[:-1]
    return tuple(reversed(list(takewhile(LINE.match, reversed(lines)))))
