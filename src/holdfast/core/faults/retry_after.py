"""Parse the retry delay that a provider asks for, from headers, fields or the message.

There is no clock here: a date is relative to the response's own `Date` header, and ignored without one.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from holdfast.core.text.patterns import Pattern

# The weekly window of a plan is the longest plausible delay; a larger number is an epoch or a mistake.
_SECONDS_MAX = 7 * 24 * 3600.0
# An epoch in seconds has ten digits; in milliseconds it has thirteen.
_EPOCH_SECONDS_MAX = 1e11
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_DURATION = Pattern(
    r"(?<!\d)(\d{1,12}(?:\.\d{1,12})?) ?"
    r"(ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|秒|分钟?|小时)(?![a-z])"
)
_ASKED = Pattern(
    r"(?:(?:try|retry|wait|available|reset\w{0,8}|back)[^.;]{0,30}? (?:in|after|for)|retry[-_]?after|wait|请等待)"
    r"\W{0,3}"
    r"((?:\d+(?:\.\d+)? ?[a-z秒分钟小时]{0,12}[ ,]{0,2}(?:and )?){1,4})"
)
# Fields with seconds, and with milliseconds.
_SECOND_FIELDS = (
    "retryafter",
    "retryafterseconds",
    "resetsinseconds",
    "resetinseconds",
    "retryinseconds",
    "resetafter",
)
_MS_FIELDS = ("retryafterms", "retrydelayms")


def wait_seconds(headers: Mapping[str, str], text: str, fields: Mapping[str, int]) -> float | None:
    """Return the delay that a provider asks for, or None. `text` is `Evidence.text`."""
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    for seconds in (*_from_headers(lower), *_from_fields(fields), _from_text(text)):
        if seconds is not None and 0 <= seconds <= _SECONDS_MAX:
            return seconds
    return None


def _from_headers(headers: Mapping[str, str]) -> Iterator[float | None]:
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        milliseconds = _number(headers.get(name, ""))
        yield None if milliseconds is None else milliseconds / 1_000
    sent_at = _date(headers.get("date", ""))
    yield _moment(headers.get("retry-after", ""), sent_at)
    yield _resets(headers, sent_at)


def _resets(headers: Mapping[str, str], sent_at: datetime | None) -> float | None:
    """Return the reset delay of the rate limit that is exhausted; if none is reported as such, the longest."""
    known: dict[str, float] = {}
    for name, value in _rate_limits(headers, "reset").items():
        seconds = _moment(value, sent_at)
        if seconds is not None and seconds <= _SECONDS_MAX:
            known[name] = seconds
    remaining = _rate_limits(headers, "remaining")
    exhausted = [seconds for name, seconds in known.items() if remaining.get(name) == "0"]
    return max(exhausted or known.values(), default=None)


def _rate_limits(headers: Mapping[str, str], field: str) -> dict[str, str]:
    """Return one field of each rate limit in the headers, by the limit's name."""
    return {
        name.replace(f"-{field}", ""): value for name, value in headers.items() if "ratelimit" in name and field in name
    }


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


def _from_fields(fields: Mapping[str, int]) -> Iterator[float | None]:
    yield from (float(fields[name]) for name in _SECOND_FIELDS if name in fields)
    yield from (fields[name] / 1_000 for name in _MS_FIELDS if name in fields)


def _from_text(text: str) -> float | None:
    match = _ASKED.search(text)
    if match is None:
        return None
    # A number without a unit means seconds.
    return _duration(match[1]) if _DURATION.search(match[1]) else _number(match[1].strip(" ,"))


def _duration(text: str) -> float | None:
    parts = list(_DURATION.finditer(text[:60].lower()))
    if not parts:
        return None
    return sum(float(part[1][:12]) * _seconds_of(part[2]) for part in parts)


def _seconds_of(name: str) -> float:
    if name.startswith(("ms", "milli")):
        return _UNIT_SECONDS["ms"]
    return {"秒": 1.0, "分": 60.0, "小": 3_600.0}.get(name[0]) or _UNIT_SECONDS[name[0]]


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
