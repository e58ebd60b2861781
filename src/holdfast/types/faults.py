"""Provider errors as received and as classified, and the recovery steps that answer them."""

from enum import StrEnum

import msgspec


class FaultKind(StrEnum):
    """Kinds of failure, split by the recovery that helps."""

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
    """The phase in which a call failed."""

    # Not sent: by our own estimate the request exceeds a limit.
    ESTIMATE = "estimate"
    CONNECT = "connect"
    RESPONSE = "response"
    # The status was 200, and the stream carried an error or ended early.
    STREAM = "stream"
    # No data arrived within the deadline.
    STALL = "stall"


class Refusal(msgspec.Struct, frozen=True, omit_defaults=True):
    """The raw error of a failed call, truncated and without API keys: input of the classifier, stored in the log."""

    dialect: str
    phase: Phase
    status: int | None = None
    headers: dict[str, str] = {}
    body: str = ""
    # The HTTP library's error where there was no response.
    cause: str = ""
    # The SHA-256 of the image that the error names; "": none.
    blamed: str = ""


class Sent(msgspec.Struct, frozen=True):
    """Known facts about the failed request, for the classifier. Unknown fields are ignored."""

    # Estimated tokens of the request, and bytes of its serialised body.
    tokens: int | None = None
    wire_bytes: int | None = None
    media_count: int = 0
    # Limits in force for the model; None: unknown.
    window_tokens: int | None = None
    wire_bytes_max: int | None = None
    # False: the model is known to report fewer tokens than it reads.
    reports_all_read: bool = True
    # Lower bound of the reported input tokens if the model reads the whole request and never accepted one as large;
    # None: unknown.
    tokens_least: int | None = None
    # The request is far larger than the last answered one of its session.
    has_grown: bool = False
    had_tools: bool = False
    had_reasoning: bool = False
    # Provider name, for instance "openai" or "dashscope": a few providers give one code two meanings.
    provider: str = ""


class Unit(StrEnum):
    """Unit of a provider's numbers."""

    TOKENS = "tokens"
    BYTES = "bytes"
    CHARS = "chars"
    COUNT = "count"
    PIXELS = "pixels"


class Confidence(StrEnum):
    """Confidence of a classification."""

    CERTAIN = "certain"
    LIKELY = "likely"
    GUESS = "guess"


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """A classified failure. `second_kind` is the next best kind where two are plausible."""

    kind: FaultKind
    confidence: Confidence
    second_kind: FaultKind | None = None
    limit: int | None = None
    requested: int | None = None
    unit: Unit | None = None
    retry_after_seconds: float | None = None
    # The provider's own message, truncated, for the user.
    said: str = ""
    # Output tokens included in `requested`, where stated: if the rest fits, request less output.
    output_requested: int | None = None
    # As in `Refusal`.
    blamed: str = ""
    # The wire name of the parameter that was refused, if the request can do without it; "": none.
    parameter: str = ""


class Rung(StrEnum):
    """One recovery step."""

    BACKOFF = "back_off"
    RETRY = "try_again"
    # Switch to the next model, for the turn or for summaries only.
    FALLBACK_MODEL = "next_model"
    NEXT_SUMMARISER = "next_summariser"
    # Request less output: the model's output limit is lower, or the window has less left beside the input.
    CLAMP_OUTPUT = "clamp_output"
    # Give every tool call of a proxied request its result, and every result its call.
    REPAIR_PAIRS = "repair_pairs"
    # Send no reasoning back; turn reasoning on or off.
    DROP_REASONING = "drop_reasoning"
    CHANGE_EFFORT = "change_effort"
    # Leave out a refused parameter, or send it under its other name.
    DROP_PARAMETER = "drop_parameter"
    # Mask old tool output, one line each.
    MASK = "mask"
    # Replace old messages by a model's summary: of all of them, of less of each message, or piece by piece.
    SUMMARISE = "summarise"
    SUMMARISE_LESS = "summarise_less"
    SUMMARISE_PIECES = "summarise_pieces"
    # Replace them by a digest made without a model and keep the tail; keep only the open turn.
    DIGEST = "digest"
    KEEP_NEWEST = "keep_newest"
    # Downscale the image that is too large.
    SHRINK_IMAGE = "shrink_image"
    # Replace the part that is too large, or the largest, by one line.
    REPLACE_LARGEST = "replace_largest"
    # Leave out messages of turns that ended without an answer; what came since the last answered request.
    LEAVE_OUT_UNANSWERED = "leave_out_unanswered"
    LEAVE_OUT_NEW = "leave_out_new"
    # Nothing helped: take back what was left out or compacted for this fault.
    TAKE_BACK = "take_back"
    # Only our own estimate exceeds the limit, and it may be wrong: send the request.
    SEND_ANYWAY = "send_anyway"
    # Start a generation: the view keeps a digest of the past and the newest input.
    ROLL_OVER = "roll_over"
