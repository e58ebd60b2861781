"""One browser per worker, and windows in it that may not complain."""

from collections.abc import AsyncGenerator

import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from tests.page.chromium import ARGUMENTS, chromium_path
from tests.page.pages import Browsing


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncGenerator[Browser]:
    path = chromium_path()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def browsing(chromium: Browser) -> AsyncGenerator[Browsing]:
    made = Browsing(chromium)
    yield made
    await made.close()
