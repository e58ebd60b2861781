"""Parse the retry delay that a provider asks for, from headers, fields or the message.

There is no clock here: a date is relative to the response's own `Date` header, and ignored without one.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from holdfast.core.text.patterns import Pattern

# The weekly window of a plan is the longest plausible delay; a larger number is an epoch or a mistake.
_SECONDS_MAX = 7 * 24 * 3600.0
# An epoch in seconds has ten digits; in milliseconds it has thirteen.
_EPOCH_SECONDS_MAX = 1e11
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "秒": 1.0, "分": 60.0, "小": 3_600.0}
_DURATION = Pattern(
    r"(?<!\d)(\d{1,12}(?:\.\d{1,12})?) ?"
    r"(ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|秒|分钟?|小时)(?![a-z])"
)
_ASKED = Pattern(
    r"(?:(?:try|retry|wait|available|reset\w{0,8}|back)[^.;]{0,30}? (?:in|after|for)|retry[-_]?after|wait|请等待)"
    r"\W{0,3}((?:\d+(?:\.\d+)? ?[a-z秒分钟小时]{0,12}[ ,]{0,2}(?:and )?){1,4})"
)
# Fields and headers with seconds, or with milliseconds.
_FIELD = Pattern("^(?:retry|resets?)(?:after|in|delay)(?:seconds|ms)?$")
_MS_HEADERS = ("retry-after-ms", "x-ms-retry-after-ms")


def wait_seconds(headers: Mapping[str, str], text: str, fields: Mapping[str, int]) -> float | None:
    """Return the delay that a provider asks for, or None. `text` is `Evidence.text`."""
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    sent_at = _date(lower.get("date", ""))
    found = (
        *(_duration(f"{lower[name]}ms") for name in _MS_HEADERS if name in lower),
        _moment(lower.get("retry-after", ""), sent_at),
        _resets(lower, sent_at),
        *(value / (1_000 if name.endswith("ms") else 1) for name, value in fields.items() if _FIELD.match(name)),
        _from_text(text),
    )
    return next((seconds for seconds in found if seconds is not None and 0 <= seconds <= _SECONDS_MAX), None)


def _resets(headers: Mapping[str, str], sent_at: datetime | None) -> float | None:
    """Return the reset delay of the rate limit that is exhausted; if none is reported as such, the longest."""
    resets = {name: value for name, value in headers.items() if "ratelimit" in name and "reset" in name}
    moments = {name: _moment(value, sent_at) for name, value in resets.items()}
    known = {name: one for name, one in moments.items() if one is not None and one <= _SECONDS_MAX}
    exhausted = [one for name, one in known.items() if headers.get(name.replace("reset", "remaining")) == "0"]
    return max(exhausted or known.values(), default=None)


def _moment(value: str, sent_at: datetime | None) -> float | None:
    """Read seconds, a duration, an epoch or a date."""
    number = _number(value)
    if number is not None and number <= _SECONDS_MAX:
        return number
    if number is None and (seconds := _duration(value)) is not None:
        return seconds
    if sent_at is None:
        return None
    if number is not None:
        return (number / 1_000 if number > _EPOCH_SECONDS_MAX else number) - sent_at.timestamp()
    moment = _date(value)
    return None if moment is None else (moment - sent_at).total_seconds()


def _from_text(text: str) -> float | None:
    match = _ASKED.search(text)
    if match is None:
        return None
    # A number without a unit means seconds.
    return _duration(match[1]) if _DURATION.search(match[1]) else _number(match[1].strip(" ,"))


def _duration(text: str) -> float | None:
    parts = list(_DURATION.finditer(text[:60].lower()))
    return sum(float(part[1][:12]) * _seconds_of(part[2]) for part in parts) if parts else None


def _seconds_of(name: str) -> float:
    return _UNIT_SECONDS["ms" if name.startswith(("ms", "milli")) else name[0]]


def _number(text: str) -> float | None:
    return float(text[:18]) if re.fullmatch(r"\d+(?:\.\d+)?", text) else None


def _date(text: str) -> datetime | None:
    """Read an HTTP date or an ISO 8601 one."""
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - slow to import, and dates are rare

    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text)
        except (ValueError, OverflowError):
            continue
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return None
