"""`holdfast.classify`: the classifier for users of other client libraries."""

from collections.abc import Mapping

import msgspec

from holdfast.core.faults import classifier
from holdfast.types.faults import Confidence, FaultKind, Phase, Refusal, Sent, Unit


class Classification(msgspec.Struct, frozen=True):
    """A provider's error, classified."""

    # The kind of the fault.
    kind: FaultKind
    # Certain is right in 99 of 100 cases, likely in 19 of 20. On a guess, retry rather than drop messages.
    certainty: Confidence
    # Stated limit and size of the request, in `unit`; None: not stated.
    limit: int | None = None
    size: int | None = None
    unit: Unit | None = None
    # Seconds that the provider asks to wait.
    retry_after: float | None = None
    # The provider's own message, truncated and without keys.
    sentence: str = ""


def classify(
    status: int | None,
    headers: Mapping[str, str] | None = None,
    body: str | bytes = "",
    *,
    provider: str = "",
    tokens: int | None = None,
    window_tokens: int | None = None,
) -> Classification:
    """Classify the error response of a model's provider: its kind, its numbers, and how certain both are.

        error = holdfast.classify(400, {}, '{"message": "prompt is too long: 9000 tokens > 8192 maximum"}')
        print(error.kind, error.limit, error.size)

    `status` None: there was no response, and `body` is the client library's message. `provider` is a name such as
    "openai". `tokens` of the request and `window_tokens` of the model help where the response gives no reason. Works
    without a store, a network or an open client, and raises for no input.
    """
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    refusal = Refusal("other", Phase.RESPONSE, status, dict(headers or {}), text)
    fault = classifier.classify(refusal, Sent(tokens=tokens, window_tokens=window_tokens, provider=provider))
    return Classification(
        kind=fault.kind,
        certainty=fault.confidence,
        limit=fault.limit,
        size=fault.requested,
        unit=fault.unit,
        retry_after=fault.retry_after_seconds,
        sentence=fault.said,
    )
