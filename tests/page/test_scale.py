"""Ten thousand sessions and a hundred thousand records: the page holds what is in sight, and scrolls to the rest."""

import pytest
from playwright.async_api import expect

from holdfast.core.limits.bounds import Bounds
from holdfast.runtime.clock import SystemClock
from holdfast.stores.memory import MemoryStore
from tests.page.pages import RECORDS_OF_A_TURN, Browsing, at, make_sessions, nodes, write_turns

pytestmark = pytest.mark.asyncio(loop_scope="session")

# A screen shows some ten sessions and thirty records; each has a few elements, and as many again are drawn ahead.
NODES_MAX = 1_500


async def test_ten_thousand_sessions_keep_the_page_small_and_scroll(browsing: Browsing) -> None:
    store = MemoryStore(clock=SystemClock(), bounds=Bounds())
    await make_sessions(store, [f"agent:{number:05}" for number in range(10_000)])
    async with browsing.gateway(store=store) as running:
        page = await browsing.open(running.url)
        await expect(page.locator(".rail-count")).to_have_text("10,000 sessions")
        rows = page.get_by_role("listbox", name="Sessions").get_by_role("option")
        # Those that were made last come first.
        await expect(rows.first).to_contain_text("agent:09999")
        assert await nodes(page) < NODES_MAX
        assert await rows.first.get_attribute("aria-setsize") == "10000"
        await page.get_by_role("listbox", name="Sessions").focus()
        await page.keyboard.press("End")
        await expect(rows.last).to_contain_text("agent:00000")
        await expect(rows.last).to_be_in_viewport()
        assert await nodes(page) < NODES_MAX
        await page.get_by_label("Search sessions").fill("0777")
        await expect(page.locator(".rail-count")).to_contain_text("11 of 10,000 sessions")


async def test_a_hundred_thousand_records_keep_the_page_small_and_scroll(browsing: Browsing) -> None:
    store = MemoryStore(clock=SystemClock(), bounds=Bounds())
    turns = 100_000 // RECORDS_OF_A_TURN
    await write_turns(store, "telegram:42", turns)
    async with browsing.gateway(store=store) as running:
        page = await browsing.open(running.url, at("telegram:42"))
        feed = page.get_by_role("feed", name="Timeline")
        await expect(page.locator(".session-state")).to_contain_text("100,000 records")
        await expect(feed.get_by_text(f"answer {turns}", exact=True)).to_be_in_viewport()
        assert await nodes(page) < NODES_MAX
        # To the top, to somewhere in the middle, and back.
        await feed.focus()
        await page.keyboard.press("Home")
        await expect(feed.get_by_text("question 1", exact=True)).to_be_in_viewport()
        await page.goto(f"{running.url}/{at('telegram:42', 'timeline', 50_001)}")
        await expect(feed.get_by_text("question 10001", exact=True)).to_be_in_viewport()
        await page.mouse.move(800, 400)
        for _ in range(20):
            await page.mouse.wheel(0, 1_500)
        await expect(feed.get_by_text("question 10001", exact=True)).not_to_be_in_viewport()
        assert await nodes(page) < NODES_MAX
        await page.get_by_role("button", name="Newest").click()
        await expect(feed.get_by_text(f"answer {turns}", exact=True)).to_be_in_viewport()
        assert await nodes(page) < NODES_MAX
