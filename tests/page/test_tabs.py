"""The page in many tabs of one browser, which gives a gateway six connections in all."""

import pytest
from playwright.async_api import Page, expect

from tests.gateway.gateways import eventually
from tests.page.pages import Browsing, at

pytestmark = pytest.mark.asyncio(loop_scope="session")
KEY = "telegram:42"
TABS = 8
# A tab is hidden when we say so: under test a browser takes all of them for visible.
HIDING = """
let isHidden = false;
Object.defineProperty(document, "hidden", { get: () => isHidden });
window.hide = (now) => { isHidden = now; document.dispatchEvent(new Event("visibilitychange")); };
"""


async def hide(page: Page, *, is_hidden: bool) -> None:
    await page.evaluate("(now) => window.hide(now)", is_hidden)


async def test_hidden_tabs_let_go_of_their_connections_and_come_back_without_a_gap(browsing: Browsing) -> None:
    async with browsing.gateway() as running:
        streams = running.gateway.state.streams
        await running.client.send(KEY, "remember harbour = Kiel")
        first = await browsing.open(running.url)
        tabs = [first, *[await first.context.new_page() for _ in range(TABS - 1)]]
        for tab in tabs:
            await tab.add_init_script(HIDING)
            await tab.goto(f"{running.url}/?{tabs.index(tab)}{at(KEY)}")
            await expect(tab.locator(".connection")).to_have_text("Live")
            await expect(tab.locator(".tone-reply")).to_have_count(1)
            if tab is not tabs[-1]:
                await hide(tab, is_hidden=True)
                await expect(tab.locator(".connection")).to_have_text("Paused")
        # The list and the session of the one tab that is seen.
        await eventually(lambda: len(streams) == 2)

        await tabs[-1].get_by_label("Message", exact=True).fill("what is harbour?")
        await tabs[-1].keyboard.press("Enter")
        await expect(tabs[-1].locator(".tone-reply").last).to_contain_text("harbour = Kiel.")
        await expect(first.locator(".tone-reply")).to_have_count(1)

        await hide(tabs[-1], is_hidden=True)
        await hide(first, is_hidden=False)
        await expect(first.locator(".tone-reply")).to_have_count(2)
        await expect(first.locator(".tone-reply").last).to_contain_text("harbour = Kiel.")
        await eventually(lambda: len(streams) == 2)


async def test_windows_side_by_side_share_their_connections_and_another_takes_over(browsing: Browsing) -> None:
    async with browsing.gateway() as running:
        streams = running.gateway.state.streams
        await running.client.send(KEY, "remember harbour = Kiel")
        first = await browsing.open(running.url)
        tabs = [first, *[await first.context.new_page() for _ in range(TABS - 1)]]
        for tab in tabs:
            await tab.goto(f"{running.url}/?{tabs.index(tab)}{at(KEY)}")
            await expect(tab.locator(".tone-reply")).to_have_count(1)
            await expect(tab.locator(".connection")).to_have_text("Live")
        # Eight windows, and as many streams as one takes.
        await eventually(lambda: len(streams) == 2)
        await running.client.send(KEY, "what is harbour?")
        for tab in tabs:
            await expect(tab.locator(".tone-reply").last).to_contain_text("harbour = Kiel.")

        await first.close()
        await eventually(lambda: len(streams) == 2)
        await running.client.send(KEY, "remember berth = 17")
        for tab in tabs[1:]:
            await expect(tab.locator(".tone-reply").last).to_contain_text("berth = 17")
            await expect(tab.locator(".connection")).to_have_text("Live")
        other = await first.context.new_page()
        await other.goto(f"{running.url}/{at(KEY)}")
        await expect(other.locator(".tone-reply")).to_have_count(3)
        await expect(other.locator(".connection")).to_have_text("Live")
        await eventually(lambda: len(streams) == 2)


async def test_a_window_that_was_hidden_beside_a_leader_catches_up(browsing: Browsing) -> None:
    async with browsing.gateway() as running:
        await running.client.send(KEY, "remember harbour = Kiel")
        leader = await browsing.open(running.url, at(KEY))
        await expect(leader.locator(".connection")).to_have_text("Live")
        other = await leader.context.new_page()
        await other.add_init_script(HIDING)
        await other.goto(f"{running.url}/{at(KEY)}")
        await expect(other.locator(".tone-reply")).to_have_count(1)
        await expect(other.locator(".connection")).to_have_text("Live")
        await hide(other, is_hidden=True)
        await running.client.send("another", "made meanwhile")
        await running.client.send(KEY, "what is harbour?")
        await expect(leader.locator(".tone-reply")).to_have_count(2)
        await expect(leader.locator(".rail-row")).to_have_count(2)
        await hide(other, is_hidden=False)
        await expect(other.locator(".tone-reply")).to_have_count(2)
        await expect(other.locator(".rail-row")).to_have_count(2)
