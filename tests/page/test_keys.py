"""A gateway with keys: the page asks for one, keeps it for the tab, and sees what that key may see."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from holdfast.gateway.http.keys import KeyFile
from tests.page.pages import FAILED_REQUEST, Browsing

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_page_asks_for_the_key_and_keeps_it_for_the_tab(browsing: Browsing, tmp_path: Path) -> None:
    browsing.expect(FAILED_REQUEST)
    keys = KeyFile(tmp_path / "keys")
    alice, bob = keys.add("alice"), keys.add("bob")
    async with browsing.gateway(keys=tmp_path / "keys") as running:
        await running.with_key(alice).send("of-alice", "hello")
        await running.with_key(bob).send("of-bob", "hello")
        page = await browsing.open(running.url)
        dialog = page.get_by_role("dialog", name="Enter a gateway key")
        await dialog.get_by_label("Gateway key").fill("hf_wrong")
        await page.keyboard.press("Enter")
        await expect(dialog.get_by_role("alert")).to_contain_text("needs one of its keys")
        await dialog.get_by_label("Gateway key").fill(alice)
        await page.keyboard.press("Enter")
        await expect(page.locator(".rail-row")).to_have_count(1)
        await expect(page.locator(".rail-row")).to_contain_text("of-alice")
        await expect(page.locator(".connection")).to_contain_text("Live")
        await page.reload()
        await expect(page.locator(".rail-row")).to_contain_text("of-alice")
        assert await page.evaluate("[sessionStorage.length, localStorage.length]") == [1, 0]
        other = await browsing.open(running.url)
        await expect(other.get_by_role("dialog", name="Enter a gateway key")).to_be_visible()
