"""The page in a browser, looking: every view loads, by keyboard alone, in any light, at any width, and is named."""

from pathlib import Path

import msgspec
import pytest
from playwright.async_api import Page, expect

from holdfast.runtime.sessions.record_text import describe_record
from holdfast.testing.builders import a_reply, a_tool_call
from holdfast.types.accounts import UsageTotals
from holdfast.types.faults import Confidence, Fault, FaultKind, Phase, Refusal, Rung
from holdfast.types.limits import Learned
from holdfast.types.messages import BlobRef, LargeText, Media, Payload, Role, Text, ToolOutcome, ToolResult, ToolSpec
from holdfast.types.records import (
    Abandonment,
    AnswerLinked,
    AnyRecord,
    ApprovalAnswered,
    ApprovalRequested,
    AttemptAbandoned,
    AttemptFailed,
    AttemptStarted,
    BranchSwitched,
    CancelRequested,
    ClientCompacted,
    ClientResumed,
    CompactionApplied,
    CompactionOutcome,
    CompactionRequested,
    CompactionSettled,
    CompactionUndone,
    DamageSetAside,
    EffortChanged,
    GenerationStarted,
    InputAdmitted,
    LimitsLearned,
    MessageAppended,
    MessageExcluded,
    MessagePinned,
    MessagesRetracted,
    NoticePosted,
    Outcome,
    OutputClamped,
    OutputMasked,
    OutputRefused,
    ParameterDropped,
    PartReplaced,
    PayloadStored,
    PieceSummarised,
    ReasoningDropped,
    ResultSubmitted,
    RungFinished,
    RungResult,
    RungStarted,
    SegmentSealed,
    SessionConfigured,
    SessionLabelled,
    SessionLinked,
    SummaryKind,
    SummaryRefused,
    ToolInterrupted,
    ToolSettled,
    ToolStarted,
    Trigger,
    TurnEnded,
    TurnStarted,
    UsageRecorded,
    UsageTotalled,
    WindowWarned,
)
from holdfast.types.settings import Settings
from tests.page.pages import Browsing, a_program, at
from tests.page.story import a_storied_model, tell_story

pytestmark = pytest.mark.asyncio(loop_scope="session")
KEY = "telegram:42"
BLOB = BlobRef("a" * 64, 12_345)
APPLIED = CompactionApplied(0, 26, "notes", 22_750, 814, SummaryKind.SUMMARY, "sim")

# At least one record of every type, with what is optional given and left out.
EXAMPLES: tuple[AnyRecord, ...] = (
    ClientCompacted(),
    ClientResumed("0a0b", 20_480),
    UsageRecorded("deep", UsageTotals(5, 1, 4, 1_200, 340, 800, 0.25)),
    UsageTotalled(1_000, ()),
    SessionConfigured(),
    SessionConfigured("sim", "be brief " * 200, (ToolSpec("depth", "", "{}"),)),
    SessionConfigured(settings=Settings(temperature=0.5, effort="low"), tool_names=("depth",)),
    SessionConfigured(tool_names=()),
    InputAdmitted((Text("hello"), Media(BLOB, "image/png", "a.png", 10, 20), LargeText(BLOB, "head", "b.txt"))),
    CancelRequested(7),
    AnswerLinked("digest", "telegram:42", "family", 4),
    CompactionRequested(),
    CompactionRequested(Trigger.AHEAD, "the schema"),
    MessagePinned(3),
    MessagePinned(3, is_pinned=False),
    MessageExcluded(3),
    MessageExcluded(3, is_excluded=False),
    MessageExcluded(5, 1, turn=5, why="content_policy"),
    ResultSubmitted(1, 2, ToolResult("call-1", (Text("12 fathoms"),))),
    LimitsLearned("openai:https://x:gpt", Learned()),
    CompactionUndone(9),
    CompactionUndone(9, APPLIED, 4),
    TurnStarted(1),
    AttemptStarted(1, 2, "sim", 12_345),
    a_reply("hi", a_tool_call()),
    AttemptFailed(1, 1, Refusal("openai-chat", Phase.RESPONSE, 429), Fault(FaultKind.RATE_LIMIT, Confidence.CERTAIN)),
    AttemptFailed(
        1, 1, Refusal("openai-chat", Phase.RESPONSE), Fault(FaultKind.TRANSIENT, Confidence.GUESS, said="no route")
    ),
    AttemptAbandoned(1, 1, Abandonment.CANCELLED),
    AttemptAbandoned(1, 1, Abandonment.INTERRUPTED),
    ToolStarted(1, "call-1", "depth"),
    ToolStarted(1, "call-1", "depth", reply=4),
    ToolInterrupted(1, "call-1"),
    OutputRefused(1, "Not a place."),
    ApprovalRequested(1, "call-1", "pay", '{"amount": 5}'),
    ApprovalAnswered(1, 9, is_approved=True),
    ApprovalAnswered(1, 9, is_approved=False, note="not today"),
    ToolSettled(1, ToolResult("call-1", (), ToolOutcome.DENIED)),
    ToolSettled(1, ToolResult("call-1", (), ToolOutcome.TIMED_OUT)),
    RungStarted(1, Rung.BACKOFF, FaultKind.RATE_LIMIT, 1.5),
    RungStarted(0, Rung.SUMMARISE, None),
    RungFinished(1, Rung.DIGEST, RungResult.UNCHANGED),
    SummaryRefused(0, "sim", "it is empty"),
    PieceSummarised(0, 40, "notes", "sim"),
    PieceSummarised(0, 40, "notes", "sim", is_merged=True),
    PieceSummarised(0, 40, "notes", "sim", cost_usd=0.5, is_riding=True),
    SummaryRefused(0, "sim", "it holds a tool call", is_riding=True),
    APPLIED,
    CompactionApplied(0, 26, "notes", 22_750, 814),
    GenerationStarted(0, 26, "notes", 22_750, 814),
    ReasoningDropped(1, 9),
    EffortChanged(1, None),
    ParameterDropped(1, "temperature"),
    OutputClamped(1, 4_096),
    OutputMasked(1, 12),
    PartReplaced(1, 5, 0, Text("[an image]"), "it was too large"),
    PartReplaced(1, 5, 0, Text("twelve\n fathoms " * 30), "it was too large"),
    CompactionSettled(5, CompactionOutcome.NOTHING_TO_DO),
    CompactionSettled(5, CompactionOutcome.FAILED, "no model answered"),
    TurnEnded(1, Outcome.ANSWERED),
    TurnEnded(1, Outcome.FAILED, "rate_limit", "Wait a minute."),
    WindowWarned(1, 70, "The window is 70 % full."),
    NoticePosted(1, "compacted", "Something was cut."),
    DamageSetAside("checksum", "q-1"),
    SegmentSealed(1, 900, "seg", "b" * 64, 123_456),
    MessageAppended(Role.ASSISTANT, (Text("hi"),), 1),
    PayloadStored(Payload("t", "é")),
    PayloadStored(Payload("t", content=b"\xff\x00")),
    PayloadStored(Payload("t", blob=BlobRef("a" * 64, 1_234))),
    MessagesRetracted(4),
    MessagesRetracted(4, is_branch=True),
    BranchSwitched(4),
    SessionLinked(1, "call-1", "telegram:42/survey", "survey"),
    SessionLabelled(),
    SessionLabelled("Harbour", ("chart", "depth"), {"customer": "42"}),
)


async def test_the_page_says_of_every_record_what_the_command_line_says(browsing: Browsing) -> None:
    tags = {tag.__name__ for tag in AnyRecord.__args__}
    assert {type(record).__name__ for record in EXAMPLES} == tags
    async with browsing.gateway() as running:
        page = await browsing.open(running.url)
        said = await page.evaluate(
            "async (records) => records.map((await import('/app/record_text.js')).spoken)",
            [msgspec.json.decode(msgspec.json.encode(record)) for record in EXAMPLES],
        )
    assert said == [describe_record(record) for record in EXAMPLES]


async def test_every_view_loads(browsing: Browsing) -> None:
    async with browsing.gateway() as running:
        await running.client.send(KEY, "remember harbour = Kiel")
        page = await browsing.open(running.url)
        await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        await page.goto(f"{running.url}/{at(KEY)}")
        await expect(page.get_by_role("feed", name="Timeline")).to_contain_text("I will remember")
        await expect(page.get_by_role("meter", name="Tokens")).to_be_visible()
        await page.get_by_role("tab", name="Model view").click()
        await expect(page.get_by_role("feed", name="Model view")).to_contain_text("You are tested.")
        await page.get_by_role("tab", name="Budgets and costs").click()
        await expect(page.get_by_role("group", name="The three budgets over time")).to_be_visible()
        await expect(page.get_by_role("region", name="Costs", exact=True)).to_contain_text("sim")
        await page.get_by_role("tab", name="Notices").click()
        await expect(page.get_by_role("region", name="Notices")).to_contain_text("No notices")
        await page.get_by_role("link", name="Nodes and health").click()
        await expect(page.get_by_role("heading", name="Nodes and health")).to_be_visible()
        await page.get_by_label("Search sessions").fill("harbour")
        await page.keyboard.press("Enter")
        await page.locator(".hit").first.click()
        await expect(page.get_by_role("feed", name="Timeline")).to_contain_text("remember harbour = Kiel")


async def test_everything_is_reached_by_keys_alone(browsing: Browsing) -> None:
    async with browsing.gateway() as running:
        page = await browsing.open(running.url)
        await expect(page.locator(".connection")).to_contain_text("Live")
        await page.keyboard.press("n")
        await page.keyboard.type("by-keys")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="by-keys")).to_be_visible()
        await page.keyboard.press("m")
        await page.keyboard.type("remember harbour = Kiel")
        await page.keyboard.press("Enter")
        await expect(page.locator(".tone-reply")).to_contain_text("I will remember")
        await page.keyboard.press("Escape")
        for key, name in (
            ("2", "Model view"),
            ("3", "Budgets and costs"),
            ("4", "Notices"),
            ("1", "Timeline"),
        ):
            await page.keyboard.press(key)
            await expect(page.get_by_role("tab", name=name)).to_have_attribute("aria-selected", "true")
        await page.get_by_role("tab", name="Timeline").focus()
        await page.keyboard.press("ArrowRight")
        await expect(page.get_by_role("tab", name="Model view")).to_be_focused()
        await page.keyboard.press("?")
        keys = page.get_by_role("dialog", name="Keyboard shortcuts")
        await expect(keys).to_contain_text("model view")
        await page.keyboard.press("Escape")
        await expect(keys).to_have_count(0)
        await page.keyboard.press("h")
        await expect(page.get_by_role("heading", name="Nodes and health")).to_be_visible()
        await page.keyboard.press("/")
        await page.keyboard.type("harbour")
        await page.keyboard.press("Enter")
        await expect(page.locator(".hit").first).to_contain_text("harbour")
        await page.keyboard.press("Escape")
        await page.keyboard.press("j")
        await expect(page.get_by_role("heading", name="by-keys")).to_be_visible()
        # The order in which the tab key visits: the way past everything comes first.
        await page.keyboard.press("g")
        await page.reload()
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("link", name="Skip to the session")).to_be_focused()


async def test_health_tells_of_leases_and_of_what_the_doctor_found(browsing: Browsing, tmp_path: Path) -> None:
    async with a_program(tmp_path / "store.db") as (_, url):
        page = await browsing.open(url, "#/health")
        await expect(page.get_by_role("region", name="Nodes", exact=True)).to_contain_text("No process holds a session")
        await expect(page.get_by_role("region", name="Doctor")).to_contain_text("Not run since")
        await page.get_by_role("button", name="Run the doctor").click()
        await expect(page.get_by_role("region", name="Doctor")).to_contain_text("healthy")
        browsing.check()
        await browsing.close()


async def test_costs_are_told_in_dollars_where_prices_are_declared(browsing: Browsing) -> None:
    async with browsing.gateway(a_storied_model()) as running:
        await tell_story(running)
        answered = await running.client.get("/api/sessions/harbour:night-watch/budgets?limit=100")
        paid = sum(float(one["cost_usd"] or 0) for one in answered.body["requests"])
        page = await browsing.open(running.url, at("harbour:night-watch", "budgets"))
        await expect(page.get_by_role("region", name="Costs", exact=True)).to_contain_text(f"{paid:.4f}")
    assert paid > 0


async def test_health_tells_of_faults_queues_and_what_was_learned(browsing: Browsing) -> None:
    async with browsing.gateway(a_storied_model()) as running:
        await tell_story(running)
        page = await browsing.open(running.url, "#/health")
        faults = page.get_by_role("region", name="Recent faults")
        await expect(faults).to_contain_text("the provider limits the request rate (429)")
        await expect(page.get_by_role("region", name="Learned limits")).to_contain_text("test:nowhere:test:model")
        await expect(page.get_by_role("region", name="Queues")).to_contain_text("No session waits for a process")
        await faults.get_by_role("link").first.click()
        await expect(page.get_by_role("feed", name="Timeline")).to_contain_text("limits the request rate")


UNNAMED = """[...document.querySelectorAll("button, a, input, textarea, [role]")].filter((node) => {
  const isPlain = ["presentation", "status", "alert", "option", "article"].includes(node.role);
  if (node.closest("[hidden]") || isPlain) return false;
  const labels = node.labels ? [...node.labels].map((one) => one.textContent).join("") : "";
  return !(node.ariaLabel || node.getAttribute("aria-labelledby") || labels || node.textContent.trim());
}).map((node) => node.outerHTML.slice(0, 120))"""


async def test_whatever_can_be_used_has_a_name(browsing: Browsing) -> None:
    async with browsing.gateway() as running:
        await running.client.send(KEY, "remember harbour = Kiel")
        page = await browsing.open(running.url)
        for where in ("#/", at(KEY), at(KEY, "view"), at(KEY, "budgets"), at(KEY, "notices"), "#/health"):
            await page.goto(f"{running.url}/{where}")
            await expect(page.locator(".rail-row")).to_have_count(1)
            assert await page.evaluate(UNNAMED) == [], where
        assert await page.locator("main, [role=main]").count() == 1
        assert await page.locator("[aria-live=polite]").count() >= 2


async def background(page: Page) -> str:
    return str(await page.evaluate("getComputedStyle(document.body).backgroundColor"))


async def test_the_page_is_light_or_dark_as_the_system_says_or_the_person(browsing: Browsing) -> None:
    async with browsing.gateway() as running:
        light = await browsing.open(running.url, color_scheme="light")
        dark = await browsing.open(running.url, color_scheme="dark")
        seen = (await background(light), await background(dark))
        switch = dark.get_by_role("button", name="Colours")
        await switch.click()
        switched = await background(dark)
        await dark.reload()
        kept = await background(dark)
    assert seen == ("rgb(246, 245, 241)", "rgb(14, 20, 22)")
    assert (switched, kept) == (seen[0], seen[0])


async def test_on_a_phone_one_thing_is_shown_at_a_time_and_nothing_is_cut_off(browsing: Browsing) -> None:
    async with browsing.gateway() as running:
        await running.client.send(KEY, f"remember harbour = {'K' * 300}")
        page = await browsing.open(running.url, viewport={"width": 360, "height": 740})
        await expect(page.locator(".main")).to_be_hidden()
        await page.locator(".rail-row").click()
        await expect(page.locator(".rail")).to_be_hidden()
        for tab in ("timeline", "view", "budgets", "notices"):
            await page.goto(f"{running.url}/{at(KEY, tab)}")
            await expect(page.get_by_role("tab", selected=True)).to_be_visible()
            assert await page.evaluate("document.documentElement.scrollWidth") <= 360
        await page.get_by_role("link", name="All sessions").click()
        await expect(page.locator(".rail")).to_be_visible()
