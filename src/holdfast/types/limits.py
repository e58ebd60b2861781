"""Limits of models: declared limits, learned limits and the calibration of token estimates."""

import msgspec

# Relative error assumed before the first reading.
_ERROR_AT_FIRST = 0.15
# The margin in standard errors: two cover 95 % of readings.
_MARGIN = 2.0
# Reported usage means a truncated request only if it is four standard errors below the estimate: a false alarm costs a
# compaction. Never less than a tenth, which is the spread between sessions of one model ...
_MARGIN_BELOW, _MISSED_SHARE_MIN = 4.0, 0.1
# ... and only after enough readings to bring the assumed error well below that.
_READINGS_TO_MISS = 5


class Limits(msgspec.Struct, frozen=True):
    """Limits of one model at one endpoint. None: unknown, so not enforced before sending.

    `window_tokens` covers input and output together, as most providers count it; `output_tokens_max` is the largest
    output that a request may ask for.
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
    """Map a raw token estimate to one model's own count: `overhead + scale * raw`, with the error of that fit.

    The sums are those of a weighted least-squares fit of relative errors, so ten readings or ten thousand take the
    same space. `strange` counts consecutive outliers.
    """

    scale: float = 1.0
    overhead: float = 0.0
    error: float = _ERROR_AT_FIRST
    readings: int = 0
    strange: int = 0
    # Sums of w, w*x, w*y, w*x*x and w*x*y over readings (x raw, y reported, w = 1/y²).
    sums: tuple[float, float, float, float, float] = (0.0, 0.0, 0.0, 0.0, 0.0)

    def estimate(self, raw: int) -> int:
        """Return the most likely token count for a raw estimate."""
        return round(self.overhead + self.scale * raw)

    def upper(self, raw: int) -> int:
        """Return an upper bound of the token count: the estimate plus a margin for its error."""
        return round((self.overhead + self.scale * raw) * (1.0 + _MARGIN * self.error))

    def lower(self, raw: int) -> int | None:
        """Return a lower bound of the token count; None while there are too few readings."""
        if self.readings < _READINGS_TO_MISS:
            return None
        return round((self.overhead + self.scale * raw) * (1.0 - max(_MARGIN_BELOW * self.error, _MISSED_SHARE_MIN)))


UNCALIBRATED = Calibration()


class Learned(msgspec.Struct, frozen=True, omit_defaults=True):
    """Limits and calibration learned from calls of one model at one endpoint. None: nothing learned."""

    window_tokens: int | None = None
    wire_bytes_max: int | None = None
    media_count_max: int | None = None
    media_bytes_max: int | None = None
    media_pixels_max: int | None = None
    # The model's output limit.
    output_tokens_max: int | None = None
    # False: the model always reports fewer tokens than it reads, so its usage does not reveal truncation.
    reports_all_read: bool = True
    # True: the model rejects a request whose input fits but whose requested output does not fit beside it.
    counts_output: bool = False
    # The largest request accepted so far, in reported tokens and in bytes.
    accepted_tokens: int = 0
    accepted_wire_bytes: int = 0
    calibration: Calibration = UNCALIBRATED


NOTHING_LEARNED = Learned()
