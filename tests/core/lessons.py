"""What can be learned from: the sizes of a request, and its refusal."""

from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.fit import Sizes
from holdfast.types.faults import Confidence, Fault, FaultKind, Unit

SIZES = Sizes(tokens=10_000, wire_bytes=50_000, media_count=4, media_bytes_largest=9_000, media_pixels_largest=2_000)
BOUNDS = Bounds()


def refused(
    kind: FaultKind,
    *,
    limit: int | None = None,
    requested: int | None = None,
    unit: Unit | None = None,
    confidence: Confidence = Confidence.CERTAIN,
) -> Fault:
    return Fault(kind, confidence, limit=limit, requested=requested, unit=unit)
