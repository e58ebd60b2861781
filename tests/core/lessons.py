"""What can be learned from: the sizes of a request, and its refusal."""

from holdfast.core.faults import Confidence, Fault, FaultKind, Unit
from holdfast.core.fit import Sizes
from holdfast.core.limits import Bounds

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
