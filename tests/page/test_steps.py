"""Tool steps and the waterfall of a turn in a browser."""

import pytest
from playwright.async_api import expect

from holdfast.core.limits.bounds import Bounds
from holdfast.runtime.clock import SystemClock
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import a_tool_call
from holdfast.testing.engines import ScriptedModel, refuses, says
from holdfast.types.messages import Reply, StopReason, Text, ToolCall, ToolOutcome, ToolResult, Usage
from holdfast.types.records import (
    AttemptStarted,
    InputAdmitted,
    LeasedRecord,
    Outcome,
    ReplyRecorded,
    ToolSettled,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from tests.page.pages import Browsing, at

pytestmark = pytest.mark.asyncio(loop_scope="session")
KEY = "build-agent:412"
MODEL = "test:model"


def a_turn_with_tools() -> list[LeasedRecord]:
    """A turn with two tool calls: one that succeeds and one that fails."""
    calls = (
        ToolCall("c1", "read_file", '{"path": "src/plan.toml", "limit": 20}'),
        ToolCall("c2", "run_tests", '{"folder": "tests"}'),
    )
    asks = Reply((Text("I look first."), *calls), StopReason.TOOL_CALLS, Usage(1_200, 40), MODEL)
    answer = Reply((Text("The plan has two berths."),), StopReason.END, Usage(1_900, 60), MODEL)
    return [
        InputAdmitted((Text("How many berths are there?"),)),
        TurnStarted(1),
        AttemptStarted(1, 1, MODEL, 1_200),
        ReplyRecorded(1, 1, asks, cost_usd=0.0123),
        ToolStarted(1, "c1", "read_file"),
        ToolStarted(1, "c2", "run_tests"),
        ToolSettled(1, ToolResult("c1", (Text("berths = [12, 17]"),))),
        ToolSettled(1, ToolResult("c2", (Text("boom"),), ToolOutcome.FAILED)),
        AttemptStarted(1, 2, MODEL, 1_900),
        ReplyRecorded(1, 2, answer, cost_usd=0.02),
        TurnEnded(1, Outcome.ANSWERED),
    ]


async def a_store() -> MemoryStore:
    store = MemoryStore(clock=SystemClock(), bounds=Bounds())
    lease = await store.acquire(KEY, "test", seconds=600)
    assert lease is not None
    await store.append(lease, a_turn_with_tools(), after=0)
    await store.release(lease)
    return store


async def test_a_call_and_its_result_are_one_block_with_name_status_arguments_and_time(browsing: Browsing) -> None:
    async with browsing.gateway(store=await a_store()) as running:
        page = await browsing.open(running.url, at(KEY))
        steps = page.locator(".step")
        await expect(steps).to_have_count(2)
        # Two calls, two results: and no row of their own for the results.
        await expect(page.locator(".row-card")).to_have_count(3)
        read = page.locator('.step[data-tool="read_file"]')
        await expect(read.locator(".step-arguments")).to_have_text("path: src/plan.toml, limit: 20")
        await expect(read.locator(".badge")).to_have_text("done")
        await expect(read.locator(".step-time")).to_have_text("0 ms")
        await expect(read.locator(".step-result")).to_contain_text("berths = [12, 17]")
        await expect(page.locator('.step[data-tool="run_tests"] .badge')).to_have_class("badge is-high")
        await read.locator("summary").click()
        await expect(read.locator(".step-body")).to_contain_text('"limit": 20')
        await expect(read.locator(".step-body .result")).to_contain_text("berths = [12, 17]")
        await read.get_by_role("button", name="Leave this out of the view").click()
        await expect(page.get_by_role("button", name="Left out of the view")).to_be_visible()
        excluded = (await running.client.get(f"/api/sessions/{KEY}")).body["excluded"]
        # The address of a result opens its step.
        await page.goto(f"{running.url}/{at(KEY, 'timeline', 8)}")
        await expect(page.locator('.step[data-tool="run_tests"] .step-body')).to_contain_text("boom")
    assert excluded == [7]


async def test_a_result_that_arrives_completes_its_step(browsing: Browsing) -> None:
    script = ScriptedModel([says("", a_tool_call("look", call_id="c1")), "done"])
    async with browsing.gateway(script) as running:
        tool = {"name": "look", "description": "", "parameters": {"type": "object"}}
        await running.client.send(KEY, "look around", mode="post", tools=[tool])
        page = await browsing.open(running.url, at(KEY))
        step = page.locator('.step[data-tool="look"]')
        await expect(step.locator(".badge")).to_have_text("running")
        (call,) = (await running.client.get(f"/api/sessions/{KEY}")).body["calls"]
        given = {"reply": call["reply"], "call_id": "c1", "output": "a lighthouse"}
        await running.client.post(f"/api/sessions/{KEY}/results", given)
        await expect(step.locator(".badge")).to_have_text("done")
        await expect(step.locator(".step-result")).to_contain_text("a lighthouse")
        await expect(page.locator(".tone-reply").last).to_contain_text("done")


async def test_the_waterfall_of_a_turn_has_attempts_waits_rungs_tools_tokens_and_cost(browsing: Browsing) -> None:
    script = ScriptedModel([refuses(429, "Rate limit", headers={"retry-after": "0"}), "here you are"])
    async with browsing.gateway(script, store=await a_store()) as running:
        await running.client.send("limited", "hello")
        page = await browsing.open(running.url, at(KEY))
        await page.locator(".row-link").first.click()
        falls = page.get_by_role("region", name="Waterfall").get_by_role("listitem")
        await expect(falls).to_have_count(4)
        await expect(falls.nth(0)).to_contain_text("1.2k in, 40 out · $0.01")
        await expect(falls.nth(1)).to_contain_text("read_file")
        await expect(falls.nth(2)).to_contain_text("failed")
        glance = page.get_by_role("region", name="The turn at a glance")
        await expect(glance).to_contain_text("answered")
        await expect(glance).to_contain_text("3.1k / 100")
        await expect(glance).to_contain_text("$0.03")
        await page.goto(f"{running.url}/{at('limited', 'turn', 1)}")
        await expect(page.locator(".fall.is-failed")).to_contain_text("the provider limits the request rate")
        # On a busy machine the message also waited to be started.
        await expect(page.locator(".fall.is-wait").last).to_contain_text("waiting")
        await expect(page.get_by_role("tab", name="Timeline")).to_have_attribute("aria-selected", "true")
