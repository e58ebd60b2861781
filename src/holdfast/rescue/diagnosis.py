"""Diagnosis of a foreign session in plain words, and the summary with which it is compacted without a model."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from holdfast.core.compaction.digest import represent
from holdfast.core.compaction.facts import Passage
from holdfast.core.limits.sizing import tokens_of_message
from holdfast.core.text.truncation import excerpt
from holdfast.models.limits import declared_limits
from holdfast.rescue.formats.base import MEDIA_BYTES_MAX, ForeignSession, open_calls
from holdfast.rescue.neutral import NeutralMessage, NeutralRole
from holdfast.types.messages import Media, Text, ToolCall, ToolResult

# A model of which nothing is known; most have more.
_WINDOW_TOKENS = 128_000
# A context above this share of the window leaves no room for tools, system text and an answer.
_FULL_SHARE = 0.75
# Share of the window that a summary may take, and its bounds in tokens.
_SUMMARY_SHARE = 0.2
_SUMMARY_TOKENS_MIN, _SUMMARY_TOKENS_MAX = 500, 12_000
# Tokens of the newest message that are quoted beside the summary.
_QUOTED_CHARS = 4_000


class Trouble(StrEnum):
    """Kinds of trouble."""

    TOO_LONG = "too_long"
    ORPHANED_CALL = "orphaned_call"
    ORPHANED_RESULT = "orphaned_result"
    LARGE_MEDIA = "large_media"
    DAMAGED = "damaged"
    FAILED_COMPACTION = "failed_compaction"
    EMPTY = "empty"
    # A gateway holds the compacted state of the session.
    PROXIED = "proxied"


class Symptom(msgspec.Struct, frozen=True):
    """One thing that is wrong, as a sentence."""

    trouble: Trouble
    says: str


class Diagnosis(msgspec.Struct, frozen=True):
    """The size of what the agent would send, the window of its model, and what is wrong."""

    tokens: int
    window_tokens: int
    symptoms: tuple[Symptom, ...]

    def followed_by(self, symptom: Symptom) -> "Diagnosis":
        """Return the diagnosis with one more symptom."""
        return msgspec.structs.replace(self, symptoms=(*self.symptoms, symptom))

    @property
    def is_too_long(self) -> bool:
        """Whether it does not fit the window."""
        return any(one.trouble is Trouble.TOO_LONG for one in self.symptoms)

    @property
    def needs_summary(self) -> bool:
        """Whether only a summary makes it usable again."""
        return self.is_too_long or any(one.trouble is Trouble.FAILED_COMPACTION for one in self.symptoms)


def window_of(model: str) -> int:
    """Return the declared window of a model by its name, whatever its provider."""
    for reference in (f"anthropic:{model}", f"openai:{model}", f"gemini:{model}"):
        if (found := declared_limits(reference).window_tokens) is not None:
            return found
    return _WINDOW_TOKENS


def diagnose(session: ForeignSession, window_tokens: int | None = None) -> Diagnosis:
    """Return what is wrong with a session."""
    window = window_tokens or window_of(session.model)
    tokens = _tokens(session.context)
    found: list[Symptom] = []
    if tokens > window * _FULL_SHARE:
        found.append(Symptom(Trouble.TOO_LONG, f"it has {tokens:,} tokens, and its model takes {window:,}"))
    if calls := open_calls(session.context):
        found.append(Symptom(Trouble.ORPHANED_CALL, f"{len(calls)} tool calls have no result"))
    if count := _orphaned_results(session.context):
        found.append(Symptom(Trouble.ORPHANED_RESULT, f"{count} tool results belong to no call"))
    found += _large_media(session.context)
    found += [Symptom(Trouble.DAMAGED, says) for says in session.faults]
    found += [Symptom(Trouble.FAILED_COMPACTION, says) for says in session.failed_compactions]
    if not session.messages:
        found.append(Symptom(Trouble.EMPTY, "it has no messages"))
    return Diagnosis(tokens, window, tuple(found))


def _tokens(context: Sequence[NeutralMessage]) -> int:
    return sum(tokens_of_message(said) for one in context if (said := one.message) is not None)


def _large_media(context: Sequence[NeutralMessage]) -> list[Symptom]:
    sizes = [part.blob.size_bytes for one in context for part in media_of_message(one)]
    large = [f"{size / 1e6:.1f} MB" for size in sizes if size > MEDIA_BYTES_MAX]
    says = f"{len(large)} images are larger than providers accept ({', '.join(large[:3])})"
    return [Symptom(Trouble.LARGE_MEDIA, says)] if large else []


def media_of_message(message: NeutralMessage) -> list[Media]:
    """Return the media of a message, also those in tool results."""
    inner = [piece for part in message.parts if isinstance(part, ToolResult) for piece in part.parts]
    return [part for part in (*message.parts, *inner) if isinstance(part, Media)]


def _orphaned_results(context: Sequence[NeutralMessage]) -> int:
    calls: set[str] = set()
    count = 0
    for message in context:
        for part in message.parts:
            if isinstance(part, ToolCall):
                calls.add(part.call_id)
            elif isinstance(part, ToolResult) and part.call_id not in calls:
                count += 1
    return count


def summary_of(session: ForeignSession, window_tokens: int) -> str:
    """Return the text that replaces a conversation: a digest without a model, and the newest request of the user."""
    room = min(max(int(window_tokens * _SUMMARY_SHARE), _SUMMARY_TOKENS_MIN), _SUMMARY_TOKENS_MAX)
    passages = [Passage(one.seq, said) for one in session.messages if (said := one.message) is not None]
    text = represent(passages, tokens_max=room)
    asked = [one for one in session.messages if one.role is NeutralRole.USER]
    if asked:
        newest = "\n".join(part.text for part in asked[-1].parts if isinstance(part, Text))
        text += f"\n\nThe user's newest message was:\n{_quoted(newest)}"
    return text


def _quoted(text: str) -> str:
    return (
        text
        if len(text) <= _QUOTED_CHARS
        else excerpt(text, _QUOTED_CHARS, "the rest is in the session before its compaction")
    )
