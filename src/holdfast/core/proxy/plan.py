"""Plan a proxied request: forward it, recover it on the ladder, answer it here, or return the provider's error.

Inputs are the folded state of the session, the log of the client's own compactions, and the ladder.

Message digests match a request to its session, because a client sends its whole history in every request. Digests
exclude everything that clients change between requests: reasoning, cache markers, text encoding, and asides beside the
conversation.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.fit import cap_stated
from holdfast.core.proxy.client_profiles import ASIDE
from holdfast.core.turn.ladder import Evidence, rungs_for
from holdfast.types.faults import Confidence, Fault, FaultKind, Rung, Unit
from holdfast.types.messages import (
    ContentPart,
    LargeText,
    Media,
    Message,
    Reply,
    Role,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
)
from holdfast.types.records import ClientCompacted, ClientResumed

# Faults that a smaller request cures.
OVERSIZE = frozenset({FaultKind.TOKEN_OVERFLOW, FaultKind.WIRE_OVERFLOW, FaultKind.MEDIA_OVERFLOW})
# Compactions for one message, without a smaller request, that count as a loop.
_LOOP_COMPACTIONS = 2
# Windows are multiples of one of these, and usage of a full window is exact to one token. One in fifty answers that end
# at their own length limit matches by chance.
_WINDOW_STEPS = (256, 500)
_WINDOW_OFF_BY = 1
# Smallest window of a chat model.
_WINDOW_LEAST = 2_048


class RequestFacts(msgspec.Struct, frozen=True):
    """Facts of a client's request that a plan depends on."""

    # The client's own call to compact its history, and how many messages its conversation has.
    is_compaction: bool = False
    messages: int = 0
    # The provider holds a part of the history.
    is_held: bool = False
    # The same request was sent before, and no answer to it is in the log.
    is_repeated: bool = False
    # Abilities that rungs need: another model, signed reasoning, a reasoning setting.
    has_fallback: bool = False
    # It has more than one part, so that one can be left out.
    is_divisible: bool = False
    has_reasoning: bool = False
    has_effort: bool = False
    # Parameters that it can do without.
    parameters: frozenset[str] = frozenset()
    # The digest of the newest message of a person, and the size of the request.
    newest: str = ""
    wire_bytes: int = 0


class Forward(msgspec.Struct, frozen=True):
    """Send the request as it came, and record it with its answer."""


class Recover(msgspec.Struct, frozen=True):
    """Answer from the session's view; `fault` is the reason that is not in the log yet."""

    fault: Fault | None = None


class AnswerCompaction(msgspec.Struct, frozen=True):
    """Answer the client's own compaction without a model."""


class ReturnError(msgspec.Struct, frozen=True):
    """Return the provider's error to the client."""


RequestPlan: TypeAlias = Forward | Recover | AnswerCompaction
FailurePlan: TypeAlias = Recover | AnswerCompaction | ReturnError


class ClientLoop(msgspec.Struct, frozen=True):
    """Compactions of a client since its newest message, and the first request after them."""

    compactions: int = 0
    newest: str = ""
    wire_bytes: int = 0


def fold_loop(loop: ClientLoop, record: ClientCompacted | ClientResumed) -> ClientLoop:
    """Return the state after one more record of a client's log."""
    if isinstance(record, ClientCompacted):
        return (
            ClientLoop(1) if not loop.compactions else msgspec.structs.replace(loop, compactions=loop.compactions + 1)
        )
    if not loop.newest:
        return ClientLoop(loop.compactions, record.newest, record.wire_bytes)
    if record.newest != loop.newest or record.wire_bytes < loop.wire_bytes:
        # A new message, or a compaction that helped.
        return ClientLoop(0, record.newest, record.wire_bytes)
    return loop


def resumption(loop: ClientLoop, facts: RequestFacts) -> ClientResumed | None:
    """Return the record of a request that follows a compaction; None if it changes nothing."""
    record = ClientResumed(facts.newest, facts.wire_bytes)
    return record if loop.compactions and fold_loop(loop, record) != loop else None


def is_looping(loop: ClientLoop, facts: RequestFacts) -> bool:
    """Return whether a client compacts again and again without making its request smaller."""
    if facts.is_compaction or not loop.compactions:
        return False
    return fold_loop(loop, ClientResumed(facts.newest, facts.wire_bytes)).compactions >= _LOOP_COMPACTIONS


def plan_request(
    facts: RequestFacts,
    state: Turn,
    loop: ClientLoop,
    *,
    is_changed: bool,
    preflight: Callable[[], Fault | None],
    tokens: Callable[[], int],
) -> RequestPlan:
    """Plan a request before it is sent. `preflight` measures it, `tokens` estimates it; both cost time."""
    plan: RequestPlan = Forward()
    if is_changed or (facts.is_repeated and state.fault is not None):
        # The view differs from the client's history, or the ladder has already started for this request.
        plan = Recover()
    elif (fault := preflight()) is not None:
        plan = Recover(fault)
    elif is_looping(loop, facts):
        size = tokens()
        plan = Recover(
            Fault(FaultKind.TOKEN_OVERFLOW, Confidence.GUESS, limit=size // 2, requested=size, unit=Unit.TOKENS)
        )
    if isinstance(plan, Recover) and facts.is_compaction and facts.messages == 1:
        # One message holds the whole history, so no part of it can be removed before the summary.
        return AnswerCompaction()
    return plan


def plan_failure(facts: RequestFacts, fault: Fault, bounds: Bounds) -> FailurePlan:
    """Plan after a forwarded request failed before the client received any of the answer."""
    if facts.is_compaction and facts.messages == 1 and fault.kind in OVERSIZE:
        return AnswerCompaction()
    rungs = rungs_for(fault, bounds, Evidence(is_refused=True))
    if any(_is_applicable(rung, facts, fault) for rung in rungs):
        return Recover(fault)
    return plan_end(facts)


def plan_end(facts: RequestFacts) -> AnswerCompaction | ReturnError:
    """Plan after the ladder ended without an answer."""
    return AnswerCompaction() if facts.is_compaction else ReturnError()


def _is_applicable(rung: Rung, facts: RequestFacts, fault: Fault) -> bool:
    """Return whether a rung can change a client's request; without such a rung no turn is recorded."""
    match rung:
        case Rung.FALLBACK_MODEL:
            return facts.has_fallback
        case Rung.CLAMP_OUTPUT:
            return fault.kind in OVERSIZE or cap_stated(fault) is not None
        case Rung.DROP_REASONING:
            return facts.has_reasoning
        case Rung.CHANGE_EFFORT:
            return facts.has_effort
        case Rung.DROP_PARAMETER:
            return fault.parameter in facts.parameters
        case Rung.LEAVE_OUT_UNANSWERED | Rung.LEAVE_OUT_NEW:
            # A compaction of the client is answered here instead: it should not lack a part of its history.
            return facts.is_divisible and not facts.is_compaction
        case Rung.RETRY:
            # Clients repeat a request themselves; a guess alone is no reason to do it for them.
            return fault.confidence is not Confidence.GUESS
        case Rung.TAKE_BACK:
            return False
        case _:
            return True


def filled_window(reply: Reply, output_tokens_max: int | None, bounds: Bounds) -> int | None:
    """Return the window that an incomplete answer has filled; None if it stopped for another reason."""
    usage = reply.usage
    if reply.stop_reason is not StopReason.LENGTH or usage is None:
        return None
    reserved = bounds.output_tokens_reserved
    if usage.output_tokens >= min(output_tokens_max or reserved, reserved):
        # The answer reached its output limit, or the output that native sessions reserve.
        return None
    filled = usage.input_tokens + usage.output_tokens
    windows = [round(filled / step) * step for step in _WINDOW_STEPS]
    return next((one for one in windows if abs(one - filled) <= _WINDOW_OFF_BY and one >= _WINDOW_LEAST), None)


def truncation_fault(window_tokens: int) -> Fault:
    """Return the fault of an answer that was cut because the window was full."""
    return Fault(
        FaultKind.TOKEN_OVERFLOW,
        Confidence.GUESS,
        limit=window_tokens,
        requested=window_tokens,
        unit=Unit.TOKENS,
    )


_DIGEST_BYTES = 16


def _only_text(message: Message) -> str | None:
    """Return the text of a message that is nothing else, and not an aside of its client."""
    if len(message.parts) != 1 or not isinstance(part := message.parts[0], Text):
        return None
    return None if ASIDE.match(part.text) else part.text


def digest_of(message: Message) -> bytes:
    """Return the digest of a message."""
    text = _only_text(message)
    if text is not None:
        # Most messages are one text: the same digest in one step.
        whole = f"{message.role}{text.strip()}".encode("utf-8", "replace")
        return hashlib.blake2b(whole, digest_size=_DIGEST_BYTES).digest()
    digest = hashlib.blake2b(message.role.encode(), digest_size=_DIGEST_BYTES)
    texts: list[str] = []
    calls: list[str] = []
    for part in message.parts:
        match part:
            case Text(text=text):
                if not ASIDE.match(text):
                    texts.append(text)
            case ToolCall():
                calls.append(f"{part.call_id}\0{part.name}")
            case ToolResult():
                calls.append(part.call_id)
                texts += [_content(piece) for piece in part.parts]
            case LargeText() | Media():
                texts.append(_content(part))
            case _:
                pass
    # The call ids identify a reply with tool calls; clients often trim its text.
    if message.role is not Role.ASSISTANT or not calls:
        digest.update("".join(texts).strip().encode("utf-8", "replace"))
    for call in calls:
        digest.update(b"\0" + call.encode("utf-8", "replace"))
    return digest.digest()


def _content(part: ContentPart) -> str:
    return part.text if isinstance(part, Text) else part.blob.sha256


def common_messages(known: Sequence[bytes | None], digests: Sequence[bytes]) -> int:
    """Return the length of the common prefix of two histories. None, an unreadable message, matches any digest."""
    shorter = min(len(known), len(digests))
    if [*known[:shorter]] == [*digests[:shorter]]:
        # The usual case, many times faster for a long history.
        return shorter
    common = 0
    for ours, theirs in zip(known, digests, strict=False):
        if ours is not None and ours != theirs:
            break
        common += 1
    return common
