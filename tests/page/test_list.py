"""The list of sessions in a browser: rows, filters, order, several at once; and the truth while it loads."""

import asyncio
import json
import zipfile
from pathlib import Path

import pytest
from playwright.async_api import Page, Route, expect

from holdfast.core.limits.bounds import Bounds
from holdfast.runtime.clock import SystemClock
from holdfast.stores.memory import MemoryStore
from tests.gateway.gateways import SilentModel
from tests.page.pages import Browsing, at, make_sessions, write_turns
from tests.page.story import KEY, a_storied_model, tell_story

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def held(page: Page, pattern: str) -> asyncio.Event:
    """Let requests wait until the event is set."""
    gate = asyncio.Event()

    async def wait(route: Route) -> None:
        await gate.wait()
        await route.continue_()

    await page.route(pattern, wait)
    return gate


async def test_while_the_list_loads_the_page_claims_no_number(browsing: Browsing) -> None:
    store = MemoryStore(clock=SystemClock(), bounds=Bounds())
    await make_sessions(store, [f"agent:{number:05}" for number in range(1_500)])
    async with browsing.gateway(store=store) as running:
        page = await browsing.open(running.url)
        gate = await held(page, "**/api/sessions?order=recent&limit**")
        rest = await held(page, "**/api/sessions?order=recent&after=**")
        await page.reload()
        await expect(page.locator(".rail-count")).to_have_text("Loading sessions…")
        await expect(page.locator(".rail-skeleton")).to_be_visible()
        gate.set()
        # The first page is shown; the number is the store's, not that of the page.
        await expect(page.locator(".rail-count")).to_have_text("1,500 sessions, 100 loaded")
        await expect(page.locator(".rail-skeleton")).to_be_hidden()
        await expect(page.locator(".rail-row").first).to_contain_text("agent:01499")
        rest.set()
        await expect(page.locator(".rail-count")).to_have_text("1,500 sessions")


async def test_while_a_session_loads_the_page_does_not_say_that_it_is_empty(browsing: Browsing) -> None:
    store = MemoryStore(clock=SystemClock(), bounds=Bounds())
    await write_turns(store, "telegram:42", 20)
    async with browsing.gateway(store=store) as running:
        page = await browsing.open(running.url)
        gate = await held(page, "**/api/sessions/telegram%3A42*")
        view = await held(page, "**/api/sessions/telegram%3A42/view*")
        await page.goto(f"{running.url}/{at('telegram:42')}")
        await expect(page.get_by_text("Loading the timeline…")).to_be_attached()
        await expect(page.get_by_text("No messages yet")).to_be_hidden()
        # The list knows the number of records.
        await expect(page.locator(".session-state")).to_contain_text("100 records")
        gate.set()
        # The timeline does not wait for the view.
        await expect(page.get_by_role("feed", name="Timeline")).to_contain_text("answer 20")
        await expect(page.locator(".gauges .bone").first).to_be_visible()
        view.set()
        await expect(page.get_by_role("meter", name="Tokens")).to_be_visible()


async def test_a_row_has_first_words_key_model_cost_and_age(browsing: Browsing) -> None:
    async with browsing.gateway(a_storied_model()) as running:
        await tell_story(running)
        long = f"build:{'x' * 80}:run-4711"
        await running.client.send(long, "Good evening.")
        page = await browsing.open(running.url)
        row = page.locator(f'.rail-row[data-key="{KEY}"]')
        await expect(row.locator(".rail-title")).to_contain_text("We moved the berth plan")
        await expect(row.locator(".rail-key")).to_have_text(KEY)
        await expect(row).to_contain_text("test:model")
        await expect(row).to_contain_text("$0.0")
        await expect(row.locator(".rail-when")).to_have_text("now")
        box = await row.bounding_box()
        assert box is not None
        assert box["height"] <= 34
        # A long key keeps its end.
        tail = page.locator(f'.rail-row[data-key="{long}"] .middle-tail')
        await expect(tail).to_be_in_viewport(ratio=1)
        await expect(tail).to_have_text("x:run-4711"[-10:])


async def test_sessions_are_filtered_by_state_model_and_key_and_ordered(browsing: Browsing) -> None:
    silent = SilentModel()
    async with browsing.gateway(silent) as running:
        for key in ("b", "c", "a"):
            await running.client.ask("PUT", f"/api/sessions/{key}", {})
        await running.client.send("busy", "hello", mode="post")
        await silent.called.wait()
        page = await browsing.open(running.url)
        rows = page.locator(".rail-title")
        await expect(rows).to_have_text(["hello", "a", "c", "b"])
        await page.keyboard.press("f")
        await page.get_by_label("State", exact=True).select_option("Working")
        await expect(rows).to_have_text(["hello"])
        await expect(page.locator(".rail-count")).to_have_text("1 of 4 sessions")
        await page.get_by_role("button", name="Show all sessions").click()
        await expect(rows).to_have_count(4)
        await page.get_by_label("Order", exact=True).select_option("Key")
        await expect(rows).to_have_text(["a", "b", "hello", "c"])
        await page.get_by_label("Model", exact=True).select_option(silent.name)
        await expect(rows).to_have_text(["hello"])


async def test_several_sessions_are_exported_and_deleted_by_keys_alone(browsing: Browsing, tmp_path: Path) -> None:
    async with browsing.gateway() as running:
        for key in ("one", "two", "three"):
            await running.client.send(key, f"this is {key}")
        page = await browsing.open(running.url)
        await expect(page.locator(".rail-row")).to_have_count(3)
        await page.keyboard.press("s")
        await page.keyboard.press("Space")
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("Space")
        bulk = page.get_by_role("toolbar", name="Selected sessions")
        await expect(bulk).to_contain_text("2 selected")
        await expect(page.get_by_role("option", selected=True)).to_have_count(2)
        async with page.expect_download() as downloading:
            await bulk.get_by_role("button", name="Export").click()
        await (await downloading.value).save_as(tmp_path / "sessions.zip")
        with zipfile.ZipFile(tmp_path / "sessions.zip") as exported:
            assert exported.testzip() is None
            assert sorted(exported.namelist()) == ["three.jsonl", "two.jsonl"]
            assert all(json.loads(line) for line in exported.read("two.jsonl").splitlines())
        await page.get_by_role("listbox", name="Sessions").focus()
        await page.keyboard.press("Delete")
        dialog = page.get_by_role("dialog", name="Delete 2 sessions?")
        await dialog.get_by_role("button", name="Delete permanently").click()
        await expect(page.locator(".rail-title")).to_have_text(["this is one"])
        await expect(bulk).to_be_hidden()
        left = (await running.client.get("/api/sessions")).body["sessions"]
    assert [one["key"] for one in left] == ["one"]


async def test_several_sessions_are_tagged_by_keys_and_found_by_tag(browsing: Browsing) -> None:
    async with browsing.gateway() as running:
        for key in ("one", "two", "three"):
            await running.client.send(key, f"this is {key}")
        await running.client.ask("PUT", "/api/sessions/three/labels", {"title": "The third", "tags": ["old", "kept"]})
        page = await browsing.open(running.url)
        rows = page.locator(".rail-title")
        await expect(rows).to_have_text(["The third", "this is two", "this is one"])
        await page.keyboard.press("s")
        await page.keyboard.press("Space")
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("Space")
        await page.keyboard.press("t")
        dialog = page.get_by_role("dialog", name="Tag 2 sessions")
        await dialog.get_by_label("Add tags").fill("ops, 2026")
        await expect(dialog.get_by_label("old")).to_be_checked()
        await dialog.get_by_label("old").uncheck()
        await page.keyboard.press("Enter")
        await expect(dialog).to_have_count(0)
        await page.keyboard.press("Escape")
        await expect(page.locator('.rail-row[data-key="two"] .rail-tags')).to_have_text("2026, ops")
        await page.keyboard.press("f")
        await page.get_by_label("Tag", exact=True).select_option("ops")
        await expect(rows).to_have_count(2)
        await page.get_by_label("Tag", exact=True).select_option("kept")
        await expect(rows).to_have_text(["The third"])
        listed = (await running.client.get("/api/sessions")).body["sessions"]
    assert {one["key"]: one["tags"] for one in listed} == {
        "one": [],
        "two": ["2026", "ops"],
        "three": ["2026", "kept", "ops"],
    }


async def test_a_session_is_made_with_model_and_system_text_and_they_are_changed(browsing: Browsing) -> None:
    async with browsing.gateway() as running:
        page = await browsing.open(running.url)
        await page.keyboard.press("n")
        dialog = page.get_by_role("dialog", name="New session")
        await dialog.get_by_label("Key").fill("made")
        await dialog.get_by_label("Model").select_option("sim")
        await dialog.get_by_label("System text").fill("Be brief.")
        await dialog.get_by_label("Tags").fill("b, a")
        await dialog.get_by_label("Temperature").fill("0.2")
        await dialog.get_by_role("button", name="Create").click()
        await expect(page.get_by_role("heading", name="made")).to_be_visible()
        made = (await running.client.get("/api/sessions/made")).body
        await page.keyboard.press("e")
        edit = page.get_by_role("dialog", name="Settings of this session")
        await expect(edit.get_by_label("System text")).to_have_value("Be brief.")
        await expect(edit.get_by_label("Tags")).to_have_value("a, b")
        await edit.get_by_label("Title").fill("Made here")
        await edit.get_by_label("Reasoning effort").select_option("low")
        await edit.get_by_label("System text").fill("Be exact.")
        await edit.get_by_role("button", name="Save").click()
        await expect(edit).to_have_count(0)
        changed = (await running.client.get("/api/sessions/made")).body
        labels = (await running.client.get("/api/sessions/made/labels")).body
    assert (made["model"], made["system"]) == ("sim", "Be brief.")
    assert (changed["model"], changed["system"]) == ("sim", "Be exact.")
    assert (made["settings"], changed["settings"]) == ({"temperature": 0.2}, {"temperature": 0.2, "effort": "low"})
    assert (labels["title"], labels["tags"]) == ("Made here", ["a", "b"])


async def test_while_records_and_budgets_load_the_page_shows_bones_and_not_unknown(browsing: Browsing) -> None:
    store = MemoryStore(clock=SystemClock(), bounds=Bounds())
    await write_turns(store, "telegram:42", 20)
    async with browsing.gateway(store=store) as running:
        page = await browsing.open(running.url)
        records = await held(page, "**/api/sessions/telegram%3A42/records*")
        budgets = await held(page, "**/api/sessions/telegram%3A42/budgets*")
        await page.goto(f"{running.url}/{at('telegram:42')}")
        await expect(page.get_by_role("meter", name="Tokens")).to_be_visible()
        await expect(page.get_by_text("Loading the timeline…")).to_be_attached()
        await expect(page.locator(".timeline > .bones")).to_be_visible()
        records.set()
        await expect(page.locator(".timeline > .bones")).to_be_hidden()
        await page.keyboard.press("3")
        await expect(page.get_by_text("Loading the budgets…")).to_be_attached()
        await expect(page.get_by_text("unknown")).to_have_count(0)
        await expect(page.get_by_role("region", name="Costs", exact=True)).to_be_hidden()
        budgets.set()
        await expect(page.get_by_role("region", name="Costs", exact=True)).to_contain_text("test:model")
