"""The script of faults: which request of the simulated model fails, and how.

Words are separated by commas and consumed one per request; when they are used up, all goes well. "429:retry-after=2*3"
is a rate limit with a header, three times.
"""

import difflib
import re
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from holdfast.errors import UsageError

# word -> (the setting it takes, or "" for none; what happens)
FAULTS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "ok": ("", "no fault"),
        "401": ("", "the key is refused"),
        "403": ("", "the key may not use this model"),
        "404": ("", "the model does not exist"),
        "413": ("", "the request has too many bytes"),
        "429": ("retry-after", "rate limit; retry-after in seconds"),
        "500": ("", "the provider's own error"),
        "502": ("", "a gateway's error, as a page of HTML"),
        "503": ("retry-after", "the provider is not available"),
        "529": ("", "the provider is overloaded"),
        "quota": ("", "the account has no money left"),
        "overflow": ("limit", "the request has too many tokens; with a limit the numbers are told"),
        "reasoning-400": ("", "the request's reasoning is refused"),
        "content-filter": ("", "the request is refused by a content policy"),
        "filtered": ("", "the answer stops in the middle for a content policy"),
        "bad-request": ("", "a parameter is refused"),
        "bare-400": ("", "the request is refused without a word"),
        "empty": ("", "an answer without anything in it"),
        "length": ("", "an answer that stops for its length before it begins"),
        "truncate": ("limit", "only so many tokens of the request are read, the newest, and nothing is said"),
        "cut": ("after", "the stream ends in the middle, after so many deltas"),
        "error-event": ("after", "an error inside the stream, after so many deltas"),
        "stall": ("after", "the stream falls silent, after so many deltas"),
        "mute": ("", "the stream opens, and falls silent before it says anything"),
        "keepalive": ("", "nothing but signs of life, without end"),
    }
)

# A script is typed by hand; more would be a slip of the finger.
_REPEAT_MAX = 10_000
_STEP = re.compile(r"(?P<word>[\w-]+)(?::(?P<name>[\w-]+)=(?P<value>\d+(?:\.\d+)?))?(?:\*(?P<times>\d+))?")


class FaultStep(msgspec.Struct, frozen=True):
    """What happens to one request. `setting` is the number behind the word, if there was one."""

    word: str
    setting: float | None = None

    @property
    def count(self) -> int | None:
        """Return the setting as a whole number."""
        return None if self.setting is None else int(self.setting)


OK = FaultStep("ok")


def parse_faults(script: str) -> tuple[FaultStep, ...]:
    """Read a script such as "429*3,ok,cut". Raises `UsageError` that names what is known."""
    steps: list[FaultStep] = []
    for entry in (part.strip() for part in script.split(",")):
        if entry:
            steps += _parse_step(entry)
            if len(steps) > _REPEAT_MAX:
                raise UsageError(f"the fault script has more than {_REPEAT_MAX:,} steps")
    return tuple(steps)


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


# --- A refusal of the simulated model, ready for the wire.


_HTML_502 = b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body><h1>502 Bad Gateway</h1></body>\r\n</html>"


class ErrorResponse(msgspec.Struct, frozen=True):
    """A refusal: its status, body and headers."""

    status: int
    body: bytes
    headers: dict[str, str] = {}
    content_type: str = "application/json"


def proxy_error(word: str) -> ErrorResponse | None:
    """Return what stands in front of every provider: a gateway that speaks HTML, or says nothing at all."""
    match word:
        case "502":
            return ErrorResponse(502, _HTML_502, content_type="text/html")
        case "bare-400":
            return ErrorResponse(400, b"")
        case _:
            return None
