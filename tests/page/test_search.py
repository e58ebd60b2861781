"""Search over all sessions in a browser: highlighted, with phrase, date, author and key."""

import pytest
from playwright.async_api import expect

from tests.page.pages import Browsing

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_search_is_highlighted_and_narrowed_by_phrase_author_key_and_date(browsing: Browsing) -> None:
    async with browsing.gateway() as running:
        await running.client.send("telegram:42", "remember the harbour pilot = Hansen")
        await running.client.send("telegram:43", "the pilot left the harbour at noon")
        await running.client.send("notes", "harbour dues rise in May")
        page = await browsing.open(running.url, "#/search/harbour%20pilot")
        hits = page.locator(".hit")
        await expect(page.locator(".hit mark").first).to_be_visible()
        marked = {text.lower() for text in await hits.first.locator("mark").all_text_contents()}
        assert marked == {"harbour", "pilot"}
        await expect(page.get_by_role("status").filter(has_text="best first")).to_contain_text("in 3 sessions")
        await expect(page.locator(".hit", has_text="dues").first).to_be_visible()

        await page.get_by_label("Exact phrase").check()
        await expect(page.locator(".hit", has_text="noon")).to_have_count(0)
        await expect(page.locator(".hit", has_text="Hansen").first).to_be_visible()
        await page.get_by_label("Said by").select_option("The user")
        await expect(hits).to_have_count(1)
        await expect(hits).to_contain_text("the user")
        await page.get_by_label("Exact phrase").uncheck()
        await expect(hits).to_have_count(3)
        await page.get_by_label("Key contains").fill("telegram")
        await expect(hits).to_have_count(2)
        await page.get_by_label("To", exact=True).fill("2020-01-01")
        await expect(hits).to_have_count(0)
        await expect(page.get_by_role("status").filter(has_text="No hits")).to_be_visible()
        await page.get_by_label("To", exact=True).fill("")
        await hits.first.click()
        await expect(page.get_by_role("feed", name="Timeline")).to_contain_text("pilot")


async def test_a_query_in_quotation_marks_is_an_exact_phrase(browsing: Browsing) -> None:
    async with browsing.gateway() as running:
        await running.client.send("one", "berth twelve is free")
        await running.client.send("two", "twelve ships wait for a berth")
        page = await browsing.open(running.url)
        await page.keyboard.press("/")
        await page.keyboard.type('"berth twelve"')
        await page.keyboard.press("Enter")
        await expect(page.get_by_label("Exact phrase")).to_be_checked()
        await expect(page.locator(".hit").first).to_contain_text("berth twelve is free")
        await expect(page.locator(".hit", has_text="ships")).to_have_count(0)
