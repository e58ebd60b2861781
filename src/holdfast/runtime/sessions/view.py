"""The next request of a session as its model would see it."""

import msgspec

from holdfast.core.limits.fit import Sizes
from holdfast.core.limits.prices import NOTHING_SPENT, Spent
from holdfast.types.limits import Limits
from holdfast.types.messages import Message, ToolSpec


class View(msgspec.Struct, frozen=True):
    """The next request as the model would see it, and its size."""

    # The system text, and the messages.
    system: str
    messages: tuple[Message, ...]
    # Its size in tokens of the model and in bytes, and the window of the model; None: unknown.
    tokens_estimated: int
    wire_bytes_estimated: int
    window_tokens: int | None
    # Turns before this one are replaced by a summary.
    boundary: int
    # Its size in each of the three budgets, and the known limits of the model.
    sizes: Sizes
    limits: Limits
    tools: tuple[ToolSpec, ...] = ()
    # Incremented by every roll-over.
    generation: int = 1
    # Spend of all calls of the session so far, and of its summary calls.
    spent: Spent = NOTHING_SPENT
    spent_on_notes: Spent = NOTHING_SPENT
    # The first record of its messages, and whether they are all.
    first: int = 0
    is_whole: bool = True
    # The record of each message; 0 for the summary and for instructions of a proxied client.
    origins: tuple[int, ...] = ()
