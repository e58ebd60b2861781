"""Messages for turns that end without an answer: a stable code, and a sentence with advice."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from holdfast.types.faults import Fault, FaultKind


class Ending(msgspec.Struct, frozen=True):
    """The reason why a turn ended without an answer."""

    code: str
    sentence: str


class FailedModel(msgspec.Struct, frozen=True):
    """A model that was given up, and its last fault."""

    model: str
    kind: FaultKind


CANCELLED = Ending("cancelled", "The turn was cancelled, as you asked. Send the message again if you want it answered.")
OUT_OF_STEPS = Ending(
    "out_of_steps",
    "The model kept calling tools and did not come to an answer within the steps allowed. "
    "Ask for a smaller step, or raise steps_max.",
)
OUTPUT_INVALID = Ending(
    "output_invalid",
    "The model did not return a value of the requested type, also after it was shown what was wrong. Ask for a simpler "
    "type, describe its fields, or use another model; the answers are in the log.",
)
INTERRUPTED = Ending(
    "interrupted",
    "The process died several times while this message was being answered, so it was given up. "
    "Look into why it dies (memory is the usual cause), then send the message again.",
)
UNREADABLE = Ending(
    "damaged",
    "This message was damaged on the disk before it was answered and cannot be read any more. Send it again; what is "
    "left of it is kept beside the store, and `holdfast doctor` says where.",
)
BROKEN_OFF = Ending("broken_off", "The answer broke off after a part of it was sent. Send the message again.")

CHOICE = Ending(
    "overflow_choice",
    "The conversation no longer fits the model's window, and you want to be asked before it is compacted. Compact it, "
    "with a focus if you like, pin what must stay word for word, or use a model with a larger window; then send the "
    "message again. If you just send the next message, older ones are represented so that it can be answered.",
)

_ADVICE: Mapping[FaultKind, str] = MappingProxyType(
    {
        FaultKind.TOKEN_OVERFLOW: "The newest message and the work done on it, with the system text and the tools, "
        "exceed the model's window. Ask for less at once, offer fewer tools, or use a model with a larger window.",
        FaultKind.WIRE_OVERFLOW: "The newest message is larger than the provider takes in one request. "
        "Send it in pieces or leave out an attachment.",
        FaultKind.MEDIA_OVERFLOW: "The provider does not take an image of the newest message. "
        "Send it smaller, or fewer of them.",
        FaultKind.RATE_LIMIT: "The provider limits how often it is asked. Wait a minute and send the message again.",
        FaultKind.QUOTA: "The provider's quota or credit is used up. Top it up or use another model.",
        FaultKind.OVERLOADED: "The provider is overloaded. Wait a few minutes and send the message again.",
        FaultKind.TRANSIENT: "The provider could not be reached or failed. Check the network and its status page, "
        "then send the message again.",
        FaultKind.STREAM_STALL: "The provider began to answer and then went silent. Send the message again.",
        FaultKind.AUTH: "The provider does not accept the key. Check the key and what it may be used for.",
        FaultKind.MODEL_NOT_FOUND: "The provider does not know this model. Check its name.",
        FaultKind.BAD_REQUEST_REASONING: "The model does not take the reasoning setting it was sent. "
        "Change the setting or use another model.",
        FaultKind.TOOL_PAIRING: "The provider refuses to read the conversation so far. Send the message again; "
        "what came before is represented by a digest.",
        FaultKind.CONTENT_POLICY: "The provider's content filter refused this. Word it differently, or use "
        "another model.",
        FaultKind.EMPTY_RESPONSE: "The model answered nothing, twice. Send the message again or use another model.",
        FaultKind.BAD_REQUEST: "The provider refused the request. What it said follows; if it makes no sense to you, "
        "try another model.",
    }
)


_FORBIDDEN = (
    "The provider forbids this request. Check what the key may be used for; if other messages are answered, a filter "
    "or a firewall refuses something in this one: word it differently."
)
_WRONG_PATH = (
    "The server answers, but not at this address: base_url may be wrong, or the model unknown. Compare base_url with "
    "the provider's documentation (many end in /v1), then check the model's name."
)


def after_fault(fault: Fault, failed: Sequence[FailedModel] = (), model: str = "") -> Ending:
    """Return the ending of a turn for which the ladder has no rung left. `failed` are models tried before `model`."""
    sentence = _ADVICE[fault.kind]
    if fault.kind is FaultKind.MODEL_NOT_FOUND and "model" not in fault.said.lower():
        # An address without this path names no model.
        sentence = _WRONG_PATH
    if fault.kind is FaultKind.AUTH and fault.second_kind is FaultKind.CONTENT_POLICY:
        sentence = _FORBIDDEN
    if fault.said:
        sentence = f'{sentence} The provider said: "{fault.said}"'
    if failed:
        tried = [*failed, FailedModel(model, fault.kind)]
        told = "; ".join(f"{one.model or 'a model'} ({one.kind.value.replace('_', ' ')})" for one in tried)
        sentence = f"{sentence} No model answered: {told}."
    return Ending(fault.kind.value, sentence)


# Codes of turns that ended because the request was too large.
OVERFLOW_CODES = frozenset(
    kind.value for kind in (FaultKind.TOKEN_OVERFLOW, FaultKind.WIRE_OVERFLOW, FaultKind.MEDIA_OVERFLOW)
)


class Shares(msgspec.Struct, frozen=True):
    """Estimated sizes of a request that does not fit, and the model's window (None: unknown)."""

    # Includes tokens that the provider adds.
    tokens: int
    system_tokens: int
    tools_tokens: int
    messages_tokens: int
    window_tokens: int | None
    wire_bytes: int
    # Instructions that a client of the proxy sends in its first message.
    instructions_tokens: int = 0


def with_sizes(ending: Ending, shares: Shares) -> Ending:
    """Add the request sizes, and advice drawn from them, to the ending of a turn that was too large."""
    window = f"the window has {shares.window_tokens:,}" if shares.window_tokens else "the window is not known"
    sizes = (
        f"The smallest request came to about {shares.tokens:,} tokens ({window}) and {shares.wire_bytes:,} bytes: "
        f"system text {shares.system_tokens:,} tokens, tools {shares.tools_tokens:,}, "
        f"messages {shares.messages_tokens:,}."
    )
    if shares.instructions_tokens:
        sizes += f" The client's own instructions in its first message take {shares.instructions_tokens:,} more."
    if shares.window_tokens is not None and shares.tokens - shares.messages_tokens >= shares.window_tokens:
        whose = "System text, tools and instructions" if shares.instructions_tokens else "System text and tools"
        what = "instructions" if shares.instructions_tokens > shares.system_tokens else "system text"
        sizes += (
            f" {whose} alone exceed the window: shorten the {what}, offer fewer tools, or use a model with a larger "
            "window."
        )
    return Ending(ending.code, f"{ending.sentence} {sizes}")


def oversize(code: str) -> Ending:
    """Return the ending for a part that was too large if `on_oversize` is "stop". The next message works."""
    return Ending(
        code,
        "A part of this message was too large for the provider and has been left out of what the model sees. "
        "Send the message again without it, or send it smaller.",
    )


def cut_notice(model: str, tokens: int) -> str:
    """Return the notice for an answer after which the model seems to have read only a part of the request."""
    return (
        f"{model} seems to have read only about {tokens:,} tokens of this request: its count did not grow with "
        "it. The answer may lack what came before; the next request will be smaller."
    )


def window_notice(model: str, window: int | None) -> str:
    """Return the notice for a window that was learned from refused or cut requests."""
    return (
        f"{model} takes no more than about {window or 0:,} tokens, which it does not say: what was longer was cut "
        "or refused without a word. No session sends it more from here on."
    )
