"""A session over time: what requests took of the budgets, what was marked, and what left the view and why."""

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.core.compaction.digest import represent
from holdfast.core.compaction.facts import Passage
from holdfast.core.limits.bounds import Bounds
from holdfast.gateway.api import usage
from holdfast.models.catalogue import simulated_model
from holdfast.models.fake import Simulation
from holdfast.ports import Log
from holdfast.testing.builders import a_message, a_tool_call, a_turn_ended, a_turn_started, an_input
from holdfast.types.faults import Confidence, Fault, FaultKind, Phase, Refusal, Rung
from holdfast.types.limits import Budgets, Limits
from holdfast.types.messages import Message, Reasoning, Reply, Role, StopReason, Text, ToolOutcome, ToolResult, Usage
from holdfast.types.records import (
    Abandonment,
    AttemptAbandoned,
    AttemptFailed,
    AttemptStarted,
    CompactionApplied,
    GenerationStarted,
    LeasedRecord,
    OutputMasked,
    PartReplaced,
    ReasoningDropped,
    ReplyRecorded,
    RungFinished,
    RungResult,
    RungStarted,
    SummaryKind,
    ToolSettled,
    ToolStarted,
    WindowWarned,
)
from tests.gateway.gateways import SilentModel, a_gateway

KEY = "/api/sessions/telegram:42"
# Nobody but its client goes on with such a session, so what is written here stays as it is.
LEFT_ALONE = "dropin:42"
ALONE = f"/api/sessions/{LEFT_ALONE}"
MEASURED = Budgets(700, 10_000, 2_800, 90_000, 1, 20)
OVERFLOW = Fault(FaultKind.TOKEN_OVERFLOW, Confidence.CERTAIN, limit=600)
REFUSED = Refusal("openai-chat", Phase.RESPONSE, status=400, body="too long")

# One turn that ran into the window: a tool's output is masked, thinking dropped, a part replaced; then it is answered.
TURN: tuple[LeasedRecord, ...] = (
    an_input("look at this"),  # 1
    a_turn_started(1),
    AttemptStarted(1, 1, "m", 650, budgets=MEASURED),  # 3
    ReplyRecorded(
        1,
        1,
        Reply((Reasoning("hm"), a_tool_call(call_id="c1")), StopReason.TOOL_CALLS, Usage(640, 5), "m"),
        cost_usd=0.5,
    ),
    ToolStarted(1, "c1", "look_up"),
    ToolSettled(1, ToolResult("c1", (Text("x" * 2_000),), ToolOutcome.DONE)),  # 6
    AttemptStarted(1, 2, "m", 900),  # 7
    AttemptFailed(1, 2, REFUSED, OVERFLOW, Usage(600, 1), 0.125),  # 8
    RungStarted(1, Rung.MASK, FaultKind.TOKEN_OVERFLOW),  # 9
    OutputMasked(1, 7),  # 10
    RungFinished(1, Rung.MASK, RungResult.CHANGED),
    AttemptStarted(1, 3, "m", 500),  # 12
    AttemptAbandoned(1, 3, Abandonment.INTERRUPTED),
    AttemptStarted(1, 4, "m", 500),  # 14
    AttemptFailed(1, 4, REFUSED, OVERFLOW),  # 15
    RungStarted(1, Rung.REPLACE_LARGEST, FaultKind.TOKEN_OVERFLOW),  # 16
    PartReplaced(1, 1, 0, Text("[a long text]"), "it was too long"),  # 17
    ReasoningDropped(1, 5),  # 18
    RungFinished(1, Rung.REPLACE_LARGEST, RungResult.CHANGED),
    AttemptStarted(1, 5, "m", 400),  # 20
    ReplyRecorded(1, 5, a_message("done", usage=Usage(410, 7)), cost_usd=0.25),
    WindowWarned(1, 70, "It is getting full."),  # 22
    a_turn_ended(1),  # 23
)


async def keep(store: Log, *records: LeasedRecord, after: int = 0) -> None:
    """Append records as a worker would."""
    lease = await store.acquire(LEFT_ALONE, "test", seconds=60)
    assert lease is not None
    await store.append(lease, records, after=after)
    await store.release(lease)


def reasons(left: Sequence[Any]) -> list[tuple[int, int, str, int]]:
    return [(one["first"], one["last"], one["reason"], one["by"]) for one in left]


# --- budgets -------------------------------------------------------------------------------------------------------


async def test_each_request_is_charted_with_what_it_took_what_there_was_and_what_came_of_it() -> None:
    async with a_gateway(SilentModel()) as running:
        await keep(running.engine.store, *TURN)
        chart = (await running.client.get(f"{ALONE}/budgets")).body
        told = (await running.client.get(ALONE)).body

    assert [
        (one["seq"], one["outcome"], one["usage"] and one["usage"]["input_tokens"]) for one in chart["requests"]
    ] == [
        (3, "answered", 640),
        (7, "failed", None),
        (12, "given_up", None),
        (14, "failed", None),
        (20, "answered", 410),
    ]
    assert chart["requests"][0]["gauge"] == {
        "tokens": {"used": 700, "limit": 10_000, "fraction": 0.07},
        "wire_bytes": {"used": 2_800, "limit": 90_000, "fraction": 0.0311},
        "media": {"used": 1, "limit": 20, "fraction": 0.05},
    }
    # Written before requests were measured: its tokens are all that is known.
    assert chart["requests"][1]["gauge"]["tokens"] == {"used": 900, "limit": None, "fraction": None}
    assert chart["requests"][1]["gauge"]["media"] is None
    assert [(one["cost_usd"], one["total_usd"]) for one in chart["requests"]] == [
        (0.5, 0.5),
        (0.125, 0.625),
        (None, 0.625),
        (None, 0.625),
        (0.25, 0.875),
    ]
    assert (chart["total_usd"], told["spent"]["usd"]) == (0.875, 0.875)
    assert [(mark["seq"], mark["kind"]) for mark in chart["marks"]] == [
        (8, "fault"),
        (9, "rung"),
        (10, "change"),
        (15, "fault"),
        (16, "rung"),
        (17, "change"),
        (18, "change"),
        (22, "warning"),
    ]
    assert chart["marks"][0]["words"].startswith("attempt 2 failed: the conversation exceeds the model's window")
    assert chart["next"] is None


@pytest.mark.parametrize("read_at_once", [4, 5, 5_000])
async def test_a_chart_read_in_pages_of_any_size_is_the_chart(
    read_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_gateway(SilentModel()) as running:
        await keep(running.engine.store, *TURN)
        whole = (await running.client.get(f"{ALONE}/budgets")).body
        monkeypatch.setattr(usage, "_RECORDS_MAX", read_at_once)
        for limit in (1, 2, 3, 7):
            requests, marks = list[Any](), list[Any]()
            after: int | None = 0
            total = 0.0
            while after is not None:
                asked = f"after={after}&limit={limit}&total_usd={total!r}"
                page = (await running.client.get(f"{ALONE}/budgets?{asked}")).body
                total = page["total_usd"]
                requests += page["requests"]
                marks += page["marks"]
                assert len(page["requests"]) + len(page["marks"]) <= limit
                after = page["next"]
            assert (requests, marks, total) == (whole["requests"], whole["marks"], whole["total_usd"]), limit
        absent = await running.client.get("/api/sessions/nobody/budgets")

    assert absent.code == (404, "not_found")


async def test_what_a_session_really_did_is_charted_with_its_compaction_and_undo() -> None:
    model = simulated_model(Simulation(Limits(window_tokens=16_000, output_tokens_max=2_000)))
    async with a_gateway(model, engine_bounds=Bounds(compacts_ahead=False)) as running:
        for number in range(6):
            await running.client.send("telegram:42", f"Read /srv/place{number}.txt. " + "A long letter came. " * 150)
        await running.client.post(f"{KEY}/compact", {})
        past = (await running.client.get(f"{KEY}/past")).body
        await running.client.post(f"{KEY}/undo", {})
        undone = (await running.client.get(f"{KEY}/past")).body
        chart = (await running.client.get(f"{KEY}/budgets")).body

    used = [one["gauge"]["tokens"]["used"] for one in chart["requests"]]
    assert len(used) == 6
    assert used == sorted(used)
    assert {one["gauge"]["tokens"]["limit"] for one in chart["requests"]} == {14_000}
    kinds = [mark["kind"] for mark in chart["marks"]]
    assert [kind for kind in kinds if kind in {"compaction", "undo"}] == ["compaction", "undo"]
    made = past["compactions"][0]
    assert past["in_force"]["seq"] == made["seq"]
    assert (past["in_force"]["first"], past["in_force"]["last"]) == (1, past["boundary"] - 1)
    assert reasons(past["left"]) == [(1, past["boundary"] - 1, "compacted", made["seq"])]
    assert any("/srv/place" in line for line in past["in_force"]["ledger"])
    assert all(line in past["in_force"]["text"] for line in past["in_force"]["ledger"])
    assert (undone["in_force"], undone["compactions"], undone["left"]) == (None, [], [])


# --- the past ------------------------------------------------------------------------------------------------------


async def test_what_is_shown_as_something_else_is_told_with_its_reason_and_record() -> None:
    async with a_gateway(SilentModel()) as running:
        await keep(running.engine.store, *TURN)
        past = (await running.client.get(f"{ALONE}/past")).body
        absent = await running.client.get("/api/sessions/nobody/past")

    assert reasons(past["left"]) == [(4, 4, "thinking", 18), (6, 6, "masked", 10), (1, 1, "replaced", 17)]
    assert past["left"][1]["words"] == "2,000 bytes of tool output masked by one line"
    assert (past["left"][2]["words"], past["left"][2]["shown"]) == ("it was too long", "[a long text]")
    assert (past["boundary"], past["generation"], past["in_force"], past["is_whole"]) == (0, 1, None, True)
    assert absent.code == (404, "not_found")


async def test_each_range_names_the_compaction_that_took_it_out_and_the_one_in_force_stands_for_all() -> None:
    quoted = Message(Role.USER, (Text("Please never touch /etc/harbour.conf again."),))
    seed = represent([Passage(24, quoted)], tokens_max=400)
    first = CompactionApplied(24, 24, "<x>\nwhat was said\n</x>", 900, 90, SummaryKind.SUMMARY, "m")
    redone = CompactionApplied(24, 24, "<x>\nbetter\n</x>", 90, 80, SummaryKind.SUMMARY, "m", 0, 29)
    async with a_gateway(SilentModel()) as running:
        more: list[LeasedRecord] = [
            an_input("and then?"),  # 24
            a_turn_started(24),
            AttemptStarted(24, 1, "m"),
            AttemptFailed(24, 1, REFUSED, OVERFLOW),
            RungStarted(24, Rung.SUMMARISE, FaultKind.TOKEN_OVERFLOW),  # 28
            first,  # 29
            RungFinished(24, Rung.SUMMARISE, RungResult.CHANGED),
            RungStarted(24, Rung.SUMMARISE_LESS, FaultKind.TOKEN_OVERFLOW),
            redone,  # 32
            RungFinished(24, Rung.SUMMARISE_LESS, RungResult.CHANGED),
            AttemptStarted(24, 2, "m"),  # 34
            ReplyRecorded(24, 2, a_message("so it was")),
            a_turn_ended(24),
            an_input("new"),  # 37
        ]
        await keep(running.engine.store, *TURN, *more)
        mid = (await running.client.get(f"{ALONE}/past")).body
        rolling: list[LeasedRecord] = [
            a_turn_started(37),
            AttemptStarted(37, 1, "m"),
            AttemptFailed(37, 1, REFUSED, OVERFLOW),
            RungStarted(37, Rung.ROLL_OVER, FaultKind.TOKEN_OVERFLOW),
            GenerationStarted(37, 37, seed, 800, 60, before=32, step=42),
            RungFinished(37, Rung.ROLL_OVER, RungResult.CHANGED),
        ]
        await keep(running.engine.store, *rolling, after=37)
        past = (await running.client.get(f"{ALONE}/past")).body

    assert reasons(mid["left"]) == [(1, 23, "compacted", 29)]
    assert [(one["seq"], one["first"], one["last"]) for one in mid["compactions"]] == [(32, 0, 0), (29, 1, 23)]
    assert (mid["in_force"]["text"], mid["in_force"]["ledger"]) == ("<x>\nbetter\n</x>", [])
    assert reasons(past["left"]) == [(1, 23, "compacted", 29), (24, 36, "rolled_over", 42), (38, 41, "rolled_over", 42)]
    assert [(one["seq"], one["generation"]) for one in past["compactions"]] == [(42, 2), (32, None), (29, None)]
    assert (past["generation"], past["is_whole"], past["in_force"]["last"]) == (2, True, 41)
    assert past["in_force"]["ledger"] == [
        "goal [#24] Please never touch /etc/harbour.conf again.",
        "rule [#24] Please never touch /etc/harbour.conf again.",
    ]
