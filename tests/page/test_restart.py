"""The page outlives its gateway: a process that is killed and started again on the same port, without a reload."""

import asyncio
import signal
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.async_api import expect

from tests.cli.programs import DEADLINE_SECONDS
from tests.page.pages import FAILED_REQUEST, Browsing, a_program, at

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
async def test_a_restart_is_survived_without_a_reload(browsing: Browsing, tmp_path: Path, end: signal.Signals) -> None:
    browsing.expect(FAILED_REQUEST)
    store = tmp_path / "store.db"
    async with a_program(store) as (program, url):
        page = await browsing.open(url)
        await page.evaluate("window.wasLoadedOnce = true")
        await page.get_by_role("button", name="New session").first.click()
        await page.get_by_label("Key", exact=True).fill("telegram:42")
        await page.keyboard.press("Enter")
        box = page.get_by_label("Message", exact=True)
        await box.fill("remember harbour = Kiel")
        await page.keyboard.press("Enter")
        await expect(page.locator(".tone-reply")).to_contain_text("I will remember that harbour = Kiel.")
        program.send_signal(end)
        await asyncio.to_thread(program.wait, DEADLINE_SECONDS)
        await expect(page.locator(".connection")).to_contain_text("Gateway unreachable")
        # Written while nobody listens: it is sent as soon as somebody does, once.
        await box.fill("what is harbour?")
        await page.keyboard.press("Enter")
        await expect(page.locator(".composer-status")).to_contain_text("Not sent yet")
    async with a_program(store, urlsplit(url).port or 0):
        await expect(page.locator(".tone-reply").last).to_contain_text("harbour = Kiel.")
        await expect(page.locator(".tone-input")).to_have_count(2)
        await expect(page.locator(".connection")).to_contain_text("Live")
        await expect(page.locator(".composer-status")).to_have_text("")
        await page.goto(f"{url}/{at('telegram:42', 'timeline')}")
        assert await page.evaluate("window.wasLoadedOnce") is True
        browsing.check()
        await browsing.close()
