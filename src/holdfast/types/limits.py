"""Limits of models: declared limits, learned limits and the calibration of token estimates."""

import msgspec

# The error assumed before the first reading.
_ERROR_AT_FIRST = 0.15
# The margin in standard errors: two cover 95 % of readings.
_MARGIN = 2.0
# Below what was foreseen a report means that a part was not read only where it is four standard errors below: being
# wrong costs a compaction. Never for less than a tenth, which is how far sessions of one model are apart ...
_MARGIN_BELOW, _MISSED_SHARE_MIN = 4.0, 0.1
# ... and after as many readings as bring the error assumed at first well below that.
_READINGS_TO_MISS = 5


class Limits(msgspec.Struct, frozen=True):
    """What one model at one endpoint accepts. None: not known, so not enforced before sending.

    `window_tokens` covers input and output together, as most providers count it; `output_tokens_max` is what may be
    asked for at most.
    """

    window_tokens: int | None = None
    output_tokens_max: int | None = None
    # Bytes of the serialised request body.
    wire_bytes_max: int | None = None
    media_count_max: int | None = None
    # Bytes and longest side of a single image.
    media_bytes_max: int | None = None
    media_pixels_max: int | None = None


class Calibration(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one model counts for what we estimate: `overhead + scale * raw`, and how far off that has been.

    The sums are those of a weighted least-squares fit of relative errors, so ten readings or ten thousand take the
    same space. `strange` counts readings far from what was foreseen, in a row.
    """

    scale: float = 1.0
    overhead: float = 0.0
    error: float = _ERROR_AT_FIRST
    readings: int = 0
    strange: int = 0
    # Sums of w, w*x, w*y, w*x*x and w*x*y over readings (x raw, y reported, w = 1/y²).
    sums: tuple[float, float, float, float, float] = (0.0, 0.0, 0.0, 0.0, 0.0)

    def estimate(self, raw: int) -> int:
        """Return what the model will most likely count for a raw estimate."""
        return round(self.overhead + self.scale * raw)

    def upper(self, raw: int) -> int:
        """Return what the model will hardly exceed: the estimate with a margin for our own error."""
        return round((self.overhead + self.scale * raw) * (1.0 + _MARGIN * self.error))

    def lower(self, raw: int) -> int | None:
        """Return what the model hardly counts less than; None before enough was read to say so."""
        if self.readings < _READINGS_TO_MISS:
            return None
        return round((self.overhead + self.scale * raw) * (1.0 - max(_MARGIN_BELOW * self.error, _MISSED_SHARE_MIN)))


UNCALIBRATED = Calibration()


class Learned(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of one model at one endpoint beyond what is declared. None: nothing."""

    window_tokens: int | None = None
    wire_bytes_max: int | None = None
    media_count_max: int | None = None
    media_bytes_max: int | None = None
    media_pixels_max: int | None = None
    # The most that the model writes in one answer.
    output_tokens_max: int | None = None
    # False: it reports less than it reads, whatever is sent, so its count says nothing about cutting.
    reports_all_read: bool = True
    # True: it refuses a request that fits, if the output that it asks for does not fit beside it.
    counts_output: bool = False
    # The most that was ever accepted, by the provider's own count and in bytes.
    accepted_tokens: int = 0
    accepted_wire_bytes: int = 0
    calibration: Calibration = UNCALIBRATED


NOTHING_LEARNED = Learned()
