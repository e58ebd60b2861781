"""The words in which a provider's failure is told: kinds, units, how sure we are, what came and what was sent.

Import them from `holdfast.core.faults`. They stand apart only so that the tables and the classifier can share them.
"""

from enum import StrEnum

import msgspec


class FaultKind(StrEnum):
    """What went wrong, by what can be done about it."""

    TOKEN_OVERFLOW = "token_overflow"
    WIRE_OVERFLOW = "wire_overflow"
    MEDIA_OVERFLOW = "media_overflow"
    RATE_LIMIT = "rate_limit"
    QUOTA = "quota"
    OVERLOADED = "overloaded"
    TRANSIENT = "transient"
    STREAM_STALL = "stream_stall"
    AUTH = "auth"
    MODEL_NOT_FOUND = "model_not_found"
    BAD_REQUEST_REASONING = "bad_request_reasoning"
    TOOL_PAIRING = "tool_pairing"
    CONTENT_POLICY = "content_policy"
    EMPTY_RESPONSE = "empty_response"
    BAD_REQUEST = "bad_request"


class Phase(StrEnum):
    """How far a call had come when it failed."""

    # Not sent at all: our own estimate says that it would not be accepted.
    ESTIMATE = "estimate"
    CONNECT = "connect"
    RESPONSE = "response"
    # The status was 200 and the failure came inside the stream, or the stream ended early.
    STREAM = "stream"
    # Nothing came for longer than the deadline.
    STALL = "stall"


class Refusal(msgspec.Struct, frozen=True, omit_defaults=True):
    """A failed call exactly as it came, bounded, without keys: what the classifier reads and the log keeps."""

    dialect: str
    phase: Phase
    status: int | None = None
    headers: dict[str, str] = {}
    body: str = ""
    # What the client library said, where there was no response at all.
    cause: str = ""
    # The SHA-256 of the image that it points at; "": it points at none.
    blamed: str = ""


class Sent(msgspec.Struct, frozen=True):
    """What is known of the request that failed. Everything is optional; what is unknown decides nothing."""

    # Our own estimate of the request in tokens, and the bytes of its serialised body.
    tokens: int | None = None
    wire_bytes: int | None = None
    media_count: int = 0
    # What the model is believed to accept; None where it is not known.
    window_tokens: int | None = None
    wire_bytes_max: int | None = None
    # Whether the model reports all that it read, as far as is known.
    reports_all_read: bool = True
    # What the model hardly reports less than for this request, if it reads all of it and nothing as large was ever read
    # whole; None where too little is known to say so.
    tokens_least: int | None = None
    # It is far larger than the last request of its session that was answered.
    has_grown: bool = False
    had_tools: bool = False
    had_reasoning: bool = False
    # Who was asked, for instance "openai" or "dashscope": a few providers give one code two meanings.
    provider: str = ""


class Unit(StrEnum):
    """What a provider's numbers count."""

    TOKENS = "tokens"
    BYTES = "bytes"
    CHARS = "chars"
    COUNT = "count"
    PIXELS = "pixels"


class Confidence(StrEnum):
    """How sure a classification is."""

    CERTAIN = "certain"
    LIKELY = "likely"
    GUESS = "guess"


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """A classified failure. `second_kind` is the next best reading where two are plausible."""

    kind: FaultKind
    confidence: Confidence
    second_kind: FaultKind | None = None
    limit: int | None = None
    requested: int | None = None
    unit: Unit | None = None
    retry_after_seconds: float | None = None
    # The provider's own sentence, bounded, for the person who must act.
    said: str = ""
    # The part of `requested` that was asked for as output, where it is told: if the rest fits, ask for less output.
    output_requested: int | None = None
    # As in `Refusal`.
    blamed: str = ""


class Rung(StrEnum):
    """One way of recovering."""

    BACKOFF = "back_off"
    RETRY = "try_again"
    # Go on with the next model; for the summariser alone, the same.
    FALLBACK_MODEL = "next_model"
    NEXT_SUMMARISER = "next_summariser"
    # Ask for less output: the model writes no more, or the window has no more left beside what is sent.
    CLAMP_OUTPUT = "clamp_output"
    # Give every tool call of a proxied request its result, and every result its call.
    REPAIR_PAIRS = "repair_pairs"
    # Send no thinking back; ask for some thinking, or for none.
    DROP_REASONING = "drop_reasoning"
    CHANGE_EFFORT = "change_effort"
    # Show old tool output by a line each.
    MASK = "mask"
    # Represent what is old by a model's summary: of all of it, of less of each message, piece by piece.
    SUMMARISE = "summarise"
    SUMMARISE_LESS = "summarise_less"
    SUMMARISE_PIECES = "summarise_pieces"
    # Represent it by a text made without a model, and keep the tail; keep nothing but the turn being answered.
    DIGEST = "digest"
    KEEP_NEWEST = "keep_newest"
    # Show the image that is too large smaller.
    SHRINK_IMAGE = "shrink_image"
    # Show the part that is too large, or the largest, by a line that says what it was.
    REPLACE_LARGEST = "replace_largest"
    # Where only our own estimate says no: an estimate may be wrong, so the model has the last word.
    SEND_ANYWAY = "send_anyway"
    # Begin a generation: nothing of the past is carried along but a digest, and the newest input.
    ROLL_OVER = "roll_over"
