"""Preflight check: compare the estimated size of a request with the model's limits.

A request that does not fit gets the same fault as a provider's error response would, so that there is one recovery
path. Budgets for gauges and charts agree with `misfit`: above 100 % the next token, byte or image exceeds the limit.
"""

import msgspec

from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.sizing import bytes_of_request, media_of_request, tokens_of_request
from holdfast.types.faults import Confidence, Fault, FaultKind, Sent, Unit
from holdfast.types.limits import Budgets, Calibration, Limits
from holdfast.types.messages import Reasoning, Request

# Output limit that a dialect sends if it must send one and none was requested.
_OUTPUT_TOKENS_USUAL = Bounds().output_tokens_reserved


# Native sessions reserve room for a long answer; a quarter of it is enough for a page.
SHORT_ANSWERS = 4


class Sizes(msgspec.Struct, frozen=True):
    """Estimated size of a request. `tokens` is raw: apply the model's calibration to get its own count."""

    tokens: int
    # Bytes of the request body.
    wire_bytes: int
    media_count: int
    # The largest attachment in bytes, and the largest image in pixels of its longer side.
    media_bytes_largest: int
    media_pixels_largest: int


def measure(request: Request) -> Sizes:
    """Estimate the size of a request."""
    media = media_of_request(request)
    return Sizes(
        tokens=tokens_of_request(request),
        wire_bytes=bytes_of_request(request),
        media_count=media.count,
        media_bytes_largest=media.bytes_largest,
        media_pixels_largest=media.pixels_largest,
    )


def misfit(
    sizes: Sizes, limits: Limits, calibration: Calibration, bounds: Bounds, *, is_lenient: bool = False
) -> Fault | None:
    """Return the fault of a request that exceeds a known limit, or None if it fits.

    `is_lenient`: take the estimate itself and room for a short answer. A client of the proxy limits its own output, and
    a provider that counts differently says so once.
    """
    tokens = calibration.estimate(sizes.tokens) if is_lenient else calibration.upper(sizes.tokens)
    reserved = output_reserved(limits, bounds) // (SHORT_ANSWERS if is_lenient else 1)
    room = None if limits.window_tokens is None else limits.window_tokens - reserved
    checks = (
        (FaultKind.TOKEN_OVERFLOW, Unit.TOKENS, tokens, room),
        (FaultKind.WIRE_OVERFLOW, Unit.BYTES, sizes.wire_bytes, limits.wire_bytes_max or bounds.wire_bytes_max),
        (FaultKind.MEDIA_OVERFLOW, Unit.COUNT, sizes.media_count, limits.media_count_max),
        (FaultKind.MEDIA_OVERFLOW, Unit.BYTES, sizes.media_bytes_largest, limits.media_bytes_max),
        (FaultKind.MEDIA_OVERFLOW, Unit.PIXELS, sizes.media_pixels_largest, limits.media_pixels_max),
    )
    for kind, unit, found, limit in checks:
        if limit is not None and found > limit:
            return Fault(kind, Confidence.LIKELY, limit=limit, requested=found, unit=unit)
    return None


def as_estimated(limits: Limits, calibration: Calibration) -> Limits:
    """Return limits whose window is in estimated tokens, not in those of the model, for planning with estimates."""
    if limits.window_tokens is None:
        return limits
    # The overhead is left out: it is uncertain, and shares of the window leave room for it.
    return msgspec.structs.replace(limits, window_tokens=int(limits.window_tokens / calibration.scale))


def exceeds_alone(sizes: Sizes, limits: Limits, calibration: Calibration, bounds: Bounds) -> bool:
    """Return whether a request without any message is already too large, by the estimate and not its upper bound."""
    window, wire = limits.window_tokens, limits.wire_bytes_max or bounds.wire_bytes_max
    return sizes.wire_bytes > wire or (window is not None and calibration.estimate(sizes.tokens) >= window)


def output_reserved(limits: Limits, bounds: Bounds) -> int:
    """Return the tokens of the window reserved for the output: at most a sixth of it."""
    wanted = min(bounds.output_tokens_reserved, limits.output_tokens_max or bounds.output_tokens_reserved)
    return wanted if limits.window_tokens is None else min(wanted, limits.window_tokens // 6)


def output_tokens_max(sizes: Sizes, limits: Limits, calibration: Calibration) -> int | None:
    """Return the output limit to request: the model's own, clamped to the free part of the window.

    None leaves it to the dialect, which may send a default; if the window has less left, that number is returned.
    """
    if limits.window_tokens is None:
        return limits.output_tokens_max
    left = max(1, limits.window_tokens - calibration.upper(sizes.tokens))
    if limits.output_tokens_max is None:
        return left if left < _OUTPUT_TOKENS_USUAL else None
    return min(limits.output_tokens_max, left)


class Before(msgspec.Struct, frozen=True):
    """Facts from earlier calls: usage reporting, largest accepted request, and the session's last answered request."""

    reports_all_read: bool = True
    accepted_tokens: int = 0
    # Estimated; 0: none was answered yet.
    answered_tokens: int = 0
    # Of the last request answered by the same model: raw estimate and reported usage; 0: none.
    answered_raw: int = 0
    answered_reported: int = 0
    # Reported usage of the last answered request, if another model read it and no more has been sent since; 0: none.
    other_reported: int = 0
    # Only text and tool calls: the token counts of images and reasoning cannot be estimated well enough.
    is_plain: bool = False


NOTHING_BEFORE = Before()
# A request half as large again as the last answered one, and by more than a long message, is the most likely reason for
# an error response without a message.
_GROWN_SHARE, _GROWN_TOKENS = 1.5, 2_000
# From this size on, a model's count of a message is at least half of our estimate.
_ADDED_TOKENS = 300


# Labels of a provider's host that are not its name.
_HOST_LABELS = frozenset({"api", "www", "gateway", "inference", "openai-api", "llm"})


def provider_of(issuer: str) -> str:
    """Return the provider's name in an issuer ("dialect:host:model"), such as "cerebras" in "api.cerebras.ai"."""
    host = issuer.partition(":")[2].partition(":")[0].partition("/")[0]
    labels = [label for label in host.lower().split(".")[:-1] if label not in _HOST_LABELS]
    return labels[0] if labels else ""


def described(facts: Sent, request: Request, issuer: str) -> Sent:
    """Return facts about a rejected request with its provider, and whether it had tools and reasoning."""
    parts = (part for message in request.messages for part in message.parts)
    return msgspec.structs.replace(
        facts,
        provider=provider_of(issuer),
        had_tools=bool(request.tools),
        had_reasoning=request.effort is not None or any(isinstance(part, Reasoning) for part in parts),
    )


def sent(sizes: Sizes, limits: Limits, calibration: Calibration, before: Before = NOTHING_BEFORE) -> Sent:
    """Return the facts about a rejected request that the classifier uses."""
    tokens, answered = calibration.estimate(sizes.tokens), before.answered_tokens
    return Sent(
        tokens=tokens,
        wire_bytes=sizes.wire_bytes,
        media_count=sizes.media_count,
        window_tokens=limits.window_tokens,
        wire_bytes_max=limits.wire_bytes_max,
        reports_all_read=before.reports_all_read,
        tokens_least=_tokens_lower_bound(sizes, calibration, before) if before.is_plain else None,
        has_grown=0 < answered <= min(tokens / _GROWN_SHARE, tokens - _GROWN_TOKENS),
    )


def _tokens_lower_bound(sizes: Sizes, calibration: Calibration, before: Before) -> int | None:
    """Return a lower bound of the reported tokens if the model reads the whole request; None: unknown.

    Derived from the calibration, and from the previous request: its reported count must have grown by what was added.
    The latter detects a window that is exceeded in small steps before the calibration adapts to it.
    """
    known: list[int] = []
    lower = calibration.lower(sizes.tokens)
    if lower is not None and lower > before.accepted_tokens:
        # A request of an accepted size is not truncated.
        known.append(lower)
    added = round(calibration.scale * (sizes.tokens - before.answered_raw))
    if before.answered_reported and added >= _ADDED_TOKENS:
        known.append(before.answered_reported + added // 2)
    return max(known, default=None)


# --- Output limit after an error response ---

# No model has a lower output limit; a smaller number in such a message is the minimum to request.
_CAP_TOKENS_MIN = 128
# A chat template with the date, or a tokenizer that merges differently, moves a count by a few tokens between calls.
_SPARE_TOKENS = 32


def cap_stated(fault: Fault) -> int | None:
    """Return the model's output limit if the error response states it; else None."""
    if fault.kind is not FaultKind.BAD_REQUEST or fault.unit is not Unit.TOKENS or fault.limit is None:
        return None
    if fault.limit < _CAP_TOKENS_MIN or (fault.requested is not None and fault.requested <= fault.limit):
        # A limit that the request did not reach concerns something else.
        return None
    return fault.limit


def clamped(fault: Fault, *, asked: int, prompt_tokens: int, bounds: Bounds) -> int | None:
    """Return the output limit to retry with after an error response; None if less output would not help.

    `asked` is the requested output and `prompt_tokens` our estimate of the input, for errors that state no numbers.
    """
    cap = cap_stated(fault)
    if cap is not None:
        return cap if cap < (fault.requested or asked) else None
    if fault.kind is not FaultKind.TOKEN_OVERFLOW or fault.limit is None or fault.output_requested is None:
        return None
    prompt = prompt_tokens if fault.requested is None else fault.requested - fault.output_requested
    room = output_that_fits(fault.limit, prompt, bounds)
    return room if room is not None and room < fault.output_requested else None


def output_that_fits(window_tokens: int, prompt_tokens: int, bounds: Bounds) -> int | None:
    """Return the output tokens that a window leaves beside a request; None if too few for a useful answer."""
    room = window_tokens - prompt_tokens - _SPARE_TOKENS
    return room if room >= bounds.output_tokens_least else None


def budgets_of(sizes: Sizes, limits: Limits, calibration: Calibration, bounds: Bounds) -> Budgets:
    """Return use and limits for a request. Tokens reserved for the output are not part of the limit."""
    window = limits.window_tokens
    return Budgets(
        tokens=calibration.upper(sizes.tokens),
        tokens_max=None if window is None else max(window - output_reserved(limits, bounds), 1),
        wire_bytes=sizes.wire_bytes,
        wire_bytes_max=limits.wire_bytes_max or bounds.wire_bytes_max,
        media=sizes.media_count,
        media_max=limits.media_count_max,
    )


def after_change(before: Budgets | None, tokens: int) -> Budgets:
    """Return the use after a change of the view: only tokens are known until the next request."""
    return Budgets(tokens, before.tokens_max if before is not None else None)
