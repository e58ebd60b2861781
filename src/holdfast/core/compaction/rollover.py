"""Start of a generation: how much of the newest input stays in the view, and the size of the digest of the past.

The last rung of the ladder. It needs no model, and each attempt is smaller than the one before it, down to one line and
a few hundred tokens.
"""

from collections.abc import Sequence
from typing import assert_never

import msgspec

from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.fit import Sizes
from holdfast.core.limits.sizing import tokens_of_text
from holdfast.core.text.truncation import excerpt
from holdfast.types.faults import FaultKind, Rung
from holdfast.types.messages import ContentPart, LargeText, Media, Text
from holdfast.types.records import GenerationStarted, PartReplaced

# An input of this size costs no more than the line that would replace it.
_LINE_BYTES = 200


class Beginning(msgspec.Struct, frozen=True):
    """Sizes of a new generation: tokens of the digest, and bytes of each part of the input."""

    seed_tokens: int
    # None: verbatim. 0: one line for the whole input.
    part_bytes: int | None


# From largest to smallest. A digest gains little beyond 3,000 tokens; 200 still hold the newest facts. 2,000 bytes show
# the subject of a part, 400 only that it exists.
_BEGINNINGS = (Beginning(3_000, None), Beginning(1_500, 2_000), Beginning(600, 400), Beginning(200, 0))
# After an overflow in bytes or media, an input with all its parts would be rejected again.
_WITHOUT_LARGE_PARTS = _BEGINNINGS[1:]


def beginnings(kind: FaultKind) -> tuple[Beginning, ...]:
    """Return the sizes to try after a fault, in order."""
    return _WITHOUT_LARGE_PARTS if kind in (FaultKind.WIRE_OVERFLOW, FaultKind.MEDIA_OVERFLOW) else _BEGINNINGS


def is_smaller(kind: FaultKind, before: Sizes, after: Sizes) -> bool:
    """Return whether a request became smaller in the exceeded unit."""
    if kind in (FaultKind.WIRE_OVERFLOW, FaultKind.MEDIA_OVERFLOW):
        return after.wire_bytes < before.wire_bytes
    return after.tokens < before.tokens


def generation_after(turn: Turn, seed: str, tokens_before: int) -> GenerationStarted:
    """Return the record that starts the next generation at the newest turn. Its size is not known yet."""
    newest = turn.number or turn.last_turn
    return GenerationStarted(
        turn.number,
        newest,
        seed,
        tokens_before,
        0,
        step=turn.seq,
        before=turn.compaction_seq,
        generation=turn.generations + 1,
        left=turn.generation,
        pins_left=tuple(pin for pin in turn.pins if pin < newest),
    )


def shown_less(turn: Turn, parts: Sequence[ContentPart], part_bytes: int | None) -> list[PartReplaced]:
    """Return the records that truncate the newest input to this size per part. `parts` are its parts in the view."""
    if part_bytes is None:
        return []
    newest = turn.number or turn.last_turn
    shortened = (_shortened(newest, part, part_bytes) for part in parts)
    shown = list(shortened) if part_bytes else _as_one_line(newest, parts)
    why = turn.fault.kind.value if turn.fault else Rung.ROLL_OVER.value
    return [
        PartReplaced(turn.number, newest, place, Text(text), why)
        for place, text in enumerate(shown)
        if text is not None
    ]


def _as_one_line(seq: int, parts: Sequence[ContentPart]) -> list[str | None]:
    size = sum(_size(part) for part in parts)
    if size <= _LINE_BYTES:
        return []
    line = f"[a message of {len(parts):,} parts, {size:,} bytes, stands here; recall(seq={seq}) reads it]"
    # An empty part is left out of the view.
    return [line, *[""] * (len(parts) - 1)]


def _shortened(seq: int, part: ContentPart, part_bytes: int) -> str | None:
    """Return the truncated text of a part, or None if it is unchanged."""
    advice = f"recall(seq={seq}) reads all of it"
    match part:
        case Text(text=text):
            shown = excerpt(text, part_bytes, advice)
            return shown if tokens_of_text(shown) < tokens_of_text(text) else None
        case LargeText(blob=blob, head=head):
            line = f"\n[{part.name or 'a text'} of {blob.size_bytes:,} bytes begins so; {advice}]"
            return head.encode()[:part_bytes].decode(errors="ignore") + line
        case Media(blob=blob):
            return f"[{part.name or 'an attachment'} ({part.media_type}, {blob.size_bytes:,} bytes) is not shown]"
        case _:
            assert_never(part)


def _size(part: ContentPart) -> int:
    return len(part.text.encode()) if isinstance(part, Text) else part.blob.size_bytes


def told_of(started: GenerationStarted, *, is_whole: bool) -> str:
    """Return the notice to the user about a new generation."""
    message = "your newest message" if is_whole else "a part of your newest message"
    pins = len(started.pins_left)
    unpinned = f" {pins:,} pinned message{'s are' if pins > 1 else ' is'} not carried along; pin again what is needed."
    return (
        f"Nothing else made the conversation fit, so generation {started.generation} of this session begins here: the "
        f"model sees {message} and a digest of all before, about {started.tokens_after:,} tokens instead of "
        f"{started.tokens_before:,}.{unpinned if pins else ''} Everything stays in the log, where it can be read and "
        "searched; undo takes this back."
    )
