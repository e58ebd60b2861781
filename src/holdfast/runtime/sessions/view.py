"""Views of a session: its next request, one within a budget, and one after a compaction. Types alone, quick to load."""

from collections.abc import Mapping
from typing import Any

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


class Context(msgspec.Struct, frozen=True):
    """The messages that a model would be shown, within a budget of tokens."""

    # The system text, which is not one of the messages.
    system: str
    messages: tuple[Message, ...]
    # Tools of the session and of this process.
    tools: tuple[ToolSpec, ...]
    # Estimated for the model of the session, with system text and tools.
    tokens_estimated: int
    # False: older messages are represented by a digest, because all together would exceed the budget.
    is_whole: bool = True
    # The request in the API of a provider, if one was asked for: the JSON body as an object.
    request: Mapping[str, Any] | None = None


class Preview(msgspec.Struct, frozen=True):
    """The result of a compaction if it were requested now, with the numbers of its record."""

    # The first turn that would stay verbatim, and its first step; 0: all of it.
    boundary: int
    step: int
    # Records that would leave the view: first and last seq, number of messages and turns. All 0 if a summary would only
    # replace a digest of the same past.
    first_seq: int
    last_seq: int
    messages: int
    turns: int
    # Messages that would stay, and pinned inputs before the boundary.
    messages_kept: int
    pins: tuple[int, ...]
    tokens_before: int
    tokens_after: int
    # The digest with its ledger; and a model's summary, if one was requested and given.
    digest: str
    summary: str = ""
    model: str = ""
    # Reasons why summaries of models are unusable.
    refused: tuple[str, ...] = ()
