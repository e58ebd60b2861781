"""A session that has lived: talk, a refusal, a compaction. For pictures."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast.core.limits.prices import Prices
from holdfast.core.limits.sizing import tokens_of_request
from holdfast.testing.engines import FunctionModel, refuses
from holdfast.types.faults import Refusal
from holdfast.types.limits import Limits
from holdfast.types.messages import Reply, Request, Role, StopReason, Text, Usage, text_of
from tests.gateway.gateways import Running

KEY = "harbour:night-watch"
MODEL = "test:model"
_TIDES = "\n".join(
    f"{step * 25 // 60 % 24:02}:{step * 25 % 60:02}  {1.4 + step * 7 % 19 / 10:.1f} m above datum"
    for step in range(110)
)
_TEXT = Path(__file__).with_suffix(".txt").read_text()
_SAID = [part.split("\n", 1) for part in re.split("^== ", _TEXT, flags=re.MULTILINE)[1:]]
_ASKED = [text.strip().format(tides=_TIDES) for who, text in _SAID if who == "you"]
_ANSWERED = [text.strip() for who, text in _SAID if who == "model"]
# What a summary says of it all.
_NOTES = next(text.strip() for who, text in _SAID if who == "summary")
_OTHERS = {
    "telegram:ada": "Remind me on Friday that the Aurora leaves berth 17.",
    "build-agent:412": "Refactor the tide parser and keep its tests green.",
    "build-agent:0413-f3b1a2c4d5e6f7a8:review": "Review the change to the tide parser.",
    "support:7781": "The display in the pilot house shows yesterday's tides.",
    "notes": "remember harbour = Kiel",
    "telegram:grace": "Which berths are free tonight?",
    "research:tides": "Collect the tide tables of the last ten years.",
}


def a_storied_model() -> FunctionModel:
    """A model that answers the talk, and is refused once on the way."""
    answers = dict(zip(_ASKED, _ANSWERED, strict=True))
    faults = iter([None, None, refuses(429, "Rate limit reached", headers={"retry-after": "0"})])
    return FunctionModel(
        _answering(answers, faults),
        name=MODEL,
        limits=Limits(window_tokens=7_000, output_tokens_max=800),
        prices=Prices(input_usd=3.0, cached_input_usd=0.3, output_usd=15.0),
    )


def _answering(answers: dict[str, str], faults: Iterator[Refusal | None]) -> Callable[[Request], Reply | Refusal]:
    def respond(request: Request) -> Reply | Refusal:
        asked = next(text_of(one.parts) for one in reversed(request.messages) if one.role is Role.USER)
        if "working notes" in request.system or "working notes" in asked:
            return _says(_NOTES, request)
        refusal = next(faults, None)
        if refusal is not None:
            return refusal
        return _says(answers.get(asked, "Understood."), request)

    return respond


def _says(text: str, request: Request) -> Reply:
    # What it was really shown: a count that does not grow with the request is taken for a cut.
    read = tokens_of_request(request)
    usage = Usage(input_tokens=read, output_tokens=len(text) // 4, cached_input_tokens=read // 2)
    return Reply((Text(text),), StopReason.END, usage, MODEL)


async def tell_story(running: Running) -> None:
    """Let it all happen."""
    for key, asked in _OTHERS.items():
        await running.client.send(key, asked)
    for asked in _ASKED[:4]:
        await running.client.send(KEY, asked)
    await running.client.post(f"/api/sessions/{KEY}/compact", {"focus": "berths and depths"})
    for asked in _ASKED[4:]:
        await running.client.send(KEY, asked)
