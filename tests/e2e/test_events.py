"""What operators read in the log: fixed names, the same fields on each, no text of messages."""

import logging
from pathlib import Path

import pytest

from holdfast.errors import TurnFailedError
from holdfast.rescue.importing import import_session
from holdfast.rescue.neutral import NeutralMessage, NeutralRole
from holdfast.runtime.engine.log_events import MESSAGES_MAX
from holdfast.types.limits import Limits
from holdfast.types.messages import Text
from holdfast.types.records import CompactionApplied
from tests.e2e.world import DIALECTS, HASTY, KEY, SMALL, a_world, records_of, talk

# On every event about sizes; `tokens` is the size of the request, further sizes stand beside it.
COMMON = {"session", "turn", "attempt", "kind", "rung", "tokens"}
OWN = {
    "context.overflow.detected": {"wire_bytes", "limit", "requested"},
    "context.overflow.attempting.recovery": set(),
    "context.overflow.failed": set(),
    "compaction.complete": {"boundary", "tokens_before", "tokens_after", "model", "cost_usd"},
    "session.message-limit-exceeded": {"messages"},
}
PLAIN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def events_in(caplog: pytest.LogCaptureFixture) -> dict[str, list[dict[str, object]]]:
    """Return the fields of each event, by its name."""
    found: dict[str, list[dict[str, object]]] = {}
    for record in caplog.records:
        if record.name == "holdfast":
            own = {name: value for name, value in vars(record).items() if name not in PLAIN}
            found.setdefault(record.getMessage(), []).append(own | {"levelname": record.levelname})
    return found


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_overflow_its_recovery_and_its_failure_have_their_names_and_fields(
    tmp_path: Path, dialect: str, caplog: pytest.LogCaptureFixture
) -> None:
    """FM-138: what is recovered from is information, what is not is an error."""
    caplog.set_level(logging.INFO, logger="holdfast")
    rules = ["Be brief."]
    async with (
        a_world(tmp_path, dialect) as world,
        world.open(world.model(declared=SMALL), bounds=HASTY, system=lambda: rules[-1]) as hold,
    ):
        session = await hold.session(KEY)
        await talk(session, messages=9)
        assert await records_of(session, CompactionApplied)
        rules.append("Follow every rule of the harbour master. " * 900)
        with pytest.raises(TurnFailedError):
            await session.send("and now?")

    events = events_in(caplog)
    levels = {"context.overflow.failed": "ERROR"}
    for name in OWN.keys() - {"session.message-limit-exceeded"}:
        for fields in events[name]:
            assert fields.keys() == COMMON | OWN[name] | {"levelname"}, name
            assert fields["session"] == KEY
            assert fields["levelname"] == levels.get(name, "INFO")
    assert all(fields["rung"] for fields in events["context.overflow.attempting.recovery"])
    # Beside rules that fill the window a digest has no room for more than the newest message.
    assert {fields["rung"] for fields in events["compaction.complete"]} == {"summarise", "digest"}
    assert "has a bug in line" not in caplog.text


async def test_a_view_of_more_than_a_thousand_messages_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    roles = (NeutralRole.USER, NeutralRole.ASSISTANT)
    said = [
        NeutralMessage("s", number, roles[number % 2], (Text(f"line {number}"),)) for number in range(MESSAGES_MAX + 2)
    ]
    large = Limits(window_tokens=100_000)
    async with a_world(tmp_path, limits=large) as world, world.open(world.model(), bounds=HASTY) as hold:
        engine = hold.engine
        await import_session(said[: MESSAGES_MAX - 2], "few", store=engine.store, blobs=engine.blobs, bounds=HASTY)
        await import_session(said, KEY, store=engine.store, blobs=engine.blobs, bounds=HASTY)

        await (await hold.session("few")).send("hello")
        for _ in range(3):
            await (await hold.session(KEY)).send("hello")

    # One line for the change, not one for every request.
    (fields,) = events_in(caplog)["session.message-limit-exceeded"]
    assert fields.keys() == COMMON | OWN["session.message-limit-exceeded"] | {"levelname"}
    assert (fields["session"], fields["messages"], fields["levelname"]) == (KEY, MESSAGES_MAX + 3, "WARNING")
