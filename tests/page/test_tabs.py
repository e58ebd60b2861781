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
