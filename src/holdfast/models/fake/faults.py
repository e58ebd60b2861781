"""Fault script of the simulated provider.

Words are separated by commas, one per request; after the last word there are no faults. "429:retry-after=2*3" is a rate
limit with a header, three times.
"""

import difflib
import re
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from holdfast.errors import UsageError

# word -> (its setting, or ""; description)
FAULTS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "ok": ("", "no fault"),
        "401": ("", "invalid key"),
        "403": ("", "no permission for this model"),
        "404": ("", "the model does not exist"),
        "413": ("", "the request has too many bytes"),
        "429": ("retry-after", "rate limit; retry-after in seconds"),
        "500": ("", "internal error of the provider"),
        "502": ("", "gateway error as an HTML page"),
        "503": ("retry-after", "provider unavailable"),
        "529": ("", "provider overloaded"),
        "quota": ("", "account quota used up"),
        "overflow": ("limit", "the request has too many tokens; with a limit, the error has numbers"),
        "reasoning-400": ("", "the request's reasoning is rejected"),
        "content-filter": ("", "the request is rejected by a content policy"),
        "filtered": ("", "a content policy stops the reply in the middle"),
        "bad-request": ("", "a parameter is rejected"),
        "bare-400": ("", "the request is rejected with an empty body"),
        "template-500": ("", "the chat template of a local server fails on the text of a message"),
        "empty": ("", "an empty reply"),
        "length": ("", "an empty reply with stop reason length"),
        "truncate": ("limit", "the request is silently truncated to its newest tokens"),
        "shift": ("limit", "as truncate, but exactly to the limit: a part of a message is dropped"),
        "uncached": ("", "the reported usage leaves out the tokens that were cached, as older local servers do"),
        "output-cap": ("limit", "the requested output is rejected, in words that sound like the window"),
        "count-cap": ("", "a list is rejected because its maximum length is 0"),
        "pixel-range": ("", "the server's own configuration of image sizes is rejected"),
        "cut": ("after", "the stream breaks off, after so many deltas"),
        "error-event": ("after", "an error inside the stream, after so many deltas"),
        "stall": ("after", "the stream stalls, after so many deltas"),
        "mute": ("", "the stream opens and stalls before the first delta"),
        "keepalive": ("", "endless keep-alives and nothing else"),
    }
)

# Scripts are typed by hand; more steps are a mistake.
_REPEAT_MAX = 10_000
_STEP = re.compile(r"(?P<word>[\w-]+)(?::(?P<name>[\w-]+)=(?P<value>\d+(?:\.\d+)?))?(?:\*(?P<times>\d+))?")


class FaultStep(msgspec.Struct, frozen=True):
    """The fault of one request. `setting` is the number after the word, if any."""

    word: str
    setting: float | None = None

    @property
    def count(self) -> int | None:
        """The setting as a whole number."""
        return None if self.setting is None else int(self.setting)


OK = FaultStep("ok")


def parse_faults(script: str) -> tuple[FaultStep, ...]:
    """Parse a script such as "429*3,ok,cut". Raises `UsageError` with the known words."""
    steps: list[FaultStep] = []
    for entry in (part.strip() for part in script.split(",")):
        if entry:
            steps += _parse_step(entry)
            if len(steps) > _REPEAT_MAX:
                raise UsageError(f"the fault script has more than {_REPEAT_MAX:,} steps")
    return tuple(steps)


def parse_fault(word: str) -> FaultStep:
    """Parse a script of exactly one step."""
    steps = parse_faults(word)
    if len(steps) != 1:
        raise UsageError(f"{word!r} has {len(steps):,} faults; give one")
    return steps[0]


def _parse_step(entry: str) -> list[FaultStep]:
    found = _STEP.fullmatch(entry)
    word = found["word"] if found else entry
    if found is None or word not in FAULTS:
        near = difflib.get_close_matches(word, FAULTS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise UsageError(f"fault {entry!r} is not known{hint} Known are: {', '.join(FAULTS)}")
    setting, _ = FAULTS[word]
    if found["name"] is not None and found["name"] != setting:
        takes = f"takes only {setting!r}" if setting else "takes no setting"
        raise UsageError(f"fault {entry!r}: {word!r} {takes}")
    number = float(found["value"]) if found["value"] is not None else None
    times = min(int(found["times"] or 1), _REPEAT_MAX + 1)
    return [FaultStep(word, number)] * times


# --- Error response ---

_HTML_502 = b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body><h1>502 Bad Gateway</h1></body>\r\n</html>"

_TEMPLATE_500 = b'{"error":{"code":500,"message":"Failed to apply the chat template at row 41","type":"server_error"}}'


# Refusals whose numbers are not limits of the model.
_MISREAD = {
    "count-cap": "Invalid 'stop': array too long. Expected an array with maximum length 0.",
    "pixel-range": "Invalid image processor settings: min_pixels 100 > max_pixels 50",
}


def _bad_request(message: str) -> bytes:
    return msgspec.json.encode({"error": {"message": message, "type": "invalid_request_error", "code": None}})


def output_cap(limit: int) -> "ErrorResponse":
    """Error response to a requested output above a limit, which does not repeat the requested number."""
    return ErrorResponse(400, _bad_request(f"max tokens must be <= {limit}, the maximum output length of this model"))


class ErrorResponse(msgspec.Struct, frozen=True):
    """An encoded error response."""

    status: int
    body: bytes
    headers: dict[str, str] = {}
    content_type: str = "application/json"


def proxy_error(word: str) -> ErrorResponse | None:
    """Error response of a proxy before the provider: an HTML page, or an empty body."""
    match word:
        case "502":
            return ErrorResponse(502, _HTML_502, content_type="text/html")
        case "bare-400":
            return ErrorResponse(400, b"")
        case "template-500":
            return ErrorResponse(500, _TEMPLATE_500)
        case "count-cap" | "pixel-range":
            return ErrorResponse(400, _bad_request(_MISREAD[word]))
        case _:
            return None
