"""A session that has lived: talk, a refusal, a compaction. For pictures."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.prices import Prices
from holdfast.core.limits.sizing import tokens_of_request
from holdfast.runtime.clock import SystemClock
from holdfast.stores.memory import MemoryStore
from holdfast.testing.engines import FunctionModel, refuses
from holdfast.types.faults import Confidence, Fault, FaultKind, Phase, Refusal, Rung
from holdfast.types.limits import Limits
from holdfast.types.messages import (
    Reply,
    Request,
    Role,
    StopReason,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
    Usage,
    text_of,
)
from holdfast.types.records import (
    ApprovalRequested,
    AttemptFailed,
    AttemptStarted,
    InputAdmitted,
    LeasedRecord,
    Outcome,
    ReplyRecorded,
    RungFinished,
    RungResult,
    RungStarted,
    ToolSettled,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from tests.gateway.gateways import Running

KEY = "harbour:night-watch"
WORK_KEY = "build-agent:0412-9c41d2e5f6a7b8c9:refactor"
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


# The turn with tools: seconds after its message, and the record.
_CALLS = (
    ToolCall("c1", "read_file", '{"path": "src/tides/parser.py", "limit": 200}'),
    ToolCall("c2", "run_tests", '{"folder": "tests/tides"}'),
)
_EDIT = ToolCall("c3", "edit_file", '{"path": "src/tides/parser.py", "old": "hour * 60", "new": "hour * MINUTES"}')
_LIMITED = Refusal("openai-chat", Phase.RESPONSE, 429)
_DONE = """The parser reads a day at a time now, and all tests pass.

```python
def read_day(lines: Iterable[str]) -> list[Tide]:
    return [Tide.parse(line) for line in lines if line.strip()]
```

| file | before | after |
|---|---|---|
| `parser.py` | 214 lines | 96 lines |
| `tables.py` | 80 lines | 80 lines |"""
_WORK: tuple[tuple[float, LeasedRecord], ...] = (
    (0.0, InputAdmitted((Text("Refactor the tide parser, and keep its tests green."),))),
    (0.1, TurnStarted(1)),
    (0.1, AttemptStarted(1, 1, MODEL, 5_100)),
    (
        3.4,
        ReplyRecorded(
            1,
            1,
            Reply(
                (Text("I read the parser and run its tests first."), *_CALLS),
                StopReason.TOOL_CALLS,
                Usage(5_140, 96),
                MODEL,
            ),
            cost_usd=0.0169,
        ),
    ),
    (3.4, ToolStarted(1, "c1", "read_file")),
    (3.4, ToolStarted(1, "c2", "run_tests")),
    (3.6, ToolSettled(1, ToolResult("c1", (Text("class TideParser:\n    MINUTES = 60\n    ..."),)))),
    (9.8, ToolSettled(1, ToolResult("c2", (Text("2 failed, 41 passed in 6.1s"),), ToolOutcome.FAILED))),
    (9.8, AttemptStarted(1, 2, MODEL, 5_400)),
    (10.4, AttemptFailed(1, 2, _LIMITED, Fault(FaultKind.RATE_LIMIT, Confidence.CERTAIN))),
    (10.4, RungStarted(1, Rung.BACKOFF, FaultKind.RATE_LIMIT, 4.0)),
    (14.5, RungFinished(1, Rung.BACKOFF, RungResult.CHANGED)),
    (14.5, AttemptStarted(1, 3, MODEL, 5_400)),
    (
        17.9,
        ReplyRecorded(1, 3, Reply((_EDIT,), StopReason.TOOL_CALLS, Usage(5_480, 210, 5_100), MODEL), cost_usd=0.0058),
    ),
    (17.9, ToolStarted(1, "c3", "edit_file")),
    (18.0, ToolSettled(1, ToolResult("c3", (Text("src/tides/parser.py: 1 replacement"),)))),
    (18.0, AttemptStarted(1, 4, MODEL, 5_800)),
    (
        23.1,
        ReplyRecorded(1, 4, Reply((Text(_DONE),), StopReason.END, Usage(5_820, 180, 5_400), MODEL), cost_usd=0.0056),
    ),
    (23.2, TurnEnded(1, Outcome.ANSWERED, cost_usd=0.0283)),
)


APPROVAL_KEY = "ops:invoices"
_PAY = ToolCall("c9", "pay", '{"amount": 1200, "to": "Harbour master, Kiel", "memo": "berth 17, November"}')
_APPROVAL: tuple[LeasedRecord, ...] = (
    InputAdmitted((Text("Pay the invoice of the harbour master, if it is the usual amount."),)),
    TurnStarted(1),
    AttemptStarted(1, 1, MODEL, 640),
    ReplyRecorded(
        1,
        1,
        Reply(
            (Text("It is the usual 1,200 for berth 17. I pay it now."), _PAY),
            StopReason.TOOL_CALLS,
            Usage(640, 40),
            MODEL,
        ),
        cost_usd=0.0025,
    ),
    ApprovalRequested(1, _PAY.call_id, _PAY.name, _PAY.arguments),
)


class StoryClock(SystemClock):
    """The clock of this machine, set back while a turn is told."""

    behind = 0.0

    def now(self) -> float:
        return super().now() - self.behind


def a_storied_store() -> tuple[MemoryStore, StoryClock]:
    """Return a store whose clock can be set back."""
    clock = StoryClock()
    return MemoryStore(clock=clock, bounds=Bounds()), clock


async def tell_work(store: MemoryStore, clock: StoryClock) -> None:
    """Write a turn with tools that took a while."""
    clock.behind = _WORK[-1][0]
    lease = await store.acquire(WORK_KEY, "story", seconds=600)
    assert lease is not None
    for place, (seconds, record) in enumerate(_WORK):
        clock.behind = _WORK[-1][0] - seconds
        await store.append(lease, [record], after=place)
    clock.behind = 0.0
    await store.release(lease)


async def tell_approval(store: MemoryStore) -> None:
    """Write a turn whose tool call waits for an approval."""
    lease = await store.acquire(APPROVAL_KEY, "story", seconds=600)
    assert lease is not None
    await store.append(lease, list(_APPROVAL), after=0)
    await store.release(lease)


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
