"""What can be learned from: the sizes of a request, and its refusal."""

from msgspec.structs import replace

from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.claims import Call
from holdfast.core.limits.fit import Sizes
from holdfast.types.faults import Confidence, Fault, FaultKind, Unit
from holdfast.types.limits import Learned

SIZES = Sizes(tokens=10_000, wire_bytes=100_000, media_count=4, media_bytes_largest=9_000, media_pixels_largest=2_000)
BOUNDS = Bounds()
CALL = Call(SIZES)


def of_size(tokens: int) -> Call:
    """Return a call with so many tokens of text."""
    return Call(Sizes(tokens, 4 * tokens, 0, 0, 0))


def values(learned: Learned) -> Learned:
    """Return what is learned without its evidence."""
    return replace(learned, claims=(), observations=())


def refused(
    kind: FaultKind,
    *,
    limit: int | None = None,
    requested: int | None = None,
    unit: Unit | None = None,
    confidence: Confidence = Confidence.CERTAIN,
) -> Fault:
    return Fault(kind, confidence, limit=limit, requested=requested, unit=unit)
