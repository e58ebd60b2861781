"""Limits of models: declared and learned limits, the calibration of token estimates, and a request's use of them."""

from enum import StrEnum

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

    def raw_within(self, tokens: int) -> int:
        """Return the largest raw estimate whose upper bound is at most so many tokens; 0 if there is none."""
        return max(0, int((tokens / (1.0 + _MARGIN * self.error) - self.overhead) / self.scale))

    def lower(self, raw: int) -> int | None:
        """Return a lower bound of the token count; None while there are too few readings."""
        if self.readings < _READINGS_TO_MISS:
            return None
        return round((self.overhead + self.scale * raw) * (1.0 - max(_MARGIN_BELOW * self.error, _MISSED_SHARE_MIN)))


UNCALIBRATED = Calibration()


class Evidence(StrEnum):
    """The kind of evidence for a claim."""

    # An error response stated the number, and the request exceeded it.
    STATED = "stated"
    # An error response called the request too large without a number: the value is a tenth below its size.
    REFUSED = "refused"
    # Replies to growing requests reported the same usage several times.
    OBSERVED = "observed"
    # Requests were refused without a reason several times, and answered when they were smaller.
    UNEXPLAINED = "unexplained"
    # A request was refused, and answered without this parameter, or with it.
    LEFT_OUT = "left_out"
    # Learned by an earlier version, which kept no evidence.
    INHERITED = "inherited"


class Support(msgspec.Struct, frozen=True):
    """A record that supports a claim: the session, and the last record of the call in it."""

    session: str
    seq: int


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    """A learned limit of a model with its evidence. Users see it and can forget it."""

    # A field of `Limits`, or the name of a parameter of requests.
    limit: str
    # In the unit of the field. Of a parameter 0, it is refused, or 1, it is required.
    value: int
    evidence: Evidence
    # When it was learned, and last confirmed by another refusal, in seconds since the epoch.
    at: float = 0.0
    confirmed_at: float = 0.0
    confirmed: int = 0
    contradicted: int = 0
    # Requests that were made smaller for it since it was learned or confirmed.
    cuts: int = 0
    # The newest records that support it.
    records: tuple[Support, ...] = ()
    # The provider's own message, truncated.
    said: str = ""


class Observation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One suspicion about the window. Several that agree become a claim."""

    evidence: Evidence
    # The tokens that may be the window, and by how many tokens the request had grown.
    value: int
    added: int = 0
    record: Support | None = None


class Learned(msgspec.Struct, frozen=True, omit_defaults=True):
    """Limits and calibration learned from calls of one model at one endpoint. None: nothing learned.

    `claims` holds the evidence of each limit. A limit without a claim was learned by an earlier version.
    """

    window_tokens: int | None = None
    wire_bytes_max: int | None = None
    media_count_max: int | None = None
    media_bytes_max: int | None = None
    media_pixels_max: int | None = None
    # The model's output limit.
    output_tokens_max: int | None = None
    # False: the model reports fewer tokens than it reads, such as those not cached, so usage reveals no truncation.
    reports_all_read: bool = True
    # True: the model rejects a request whose input fits but whose requested output does not fit beside it.
    counts_output: bool = False
    # The largest request accepted so far, in reported tokens and in bytes.
    accepted_tokens: int = 0
    accepted_wire_bytes: int = 0
    calibration: Calibration = UNCALIBRATED
    claims: tuple[Claim, ...] = ()
    observations: tuple[Observation, ...] = ()


NOTHING_LEARNED = Learned()


class Budgets(msgspec.Struct, frozen=True, omit_defaults=True):
    """Estimated use and limit of tokens, request bytes and media. None: unknown."""

    tokens: int
    tokens_max: int | None = None
    wire_bytes: int | None = None
    wire_bytes_max: int | None = None
    media: int | None = None
    media_max: int | None = None
