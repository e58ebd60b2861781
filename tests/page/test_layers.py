"""The model view in a browser: layers with tokens, what earlier requests saw, changes between two, and actions."""

import pytest
from playwright.async_api import expect

from tests.page.pages import Browsing, at
from tests.page.story import KEY, a_storied_model, tell_story

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_layers_have_tokens_and_the_slider_shows_what_an_earlier_request_saw(browsing: Browsing) -> None:
    async with browsing.gateway(a_storied_model()) as running:
        await tell_story(running)
        asked = [one["seq"] for one in (await running.client.get(f"/api/sessions/{KEY}/budgets")).body["requests"]]
        page = await browsing.open(running.url, at(KEY, "view"))
        feed = page.get_by_role("feed", name="Model view")
        for name in ("Instructions", "State", "Story", "Facts", "Tail"):
            await expect(page.locator(".layer-name", has_text=name)).to_be_enabled()
        layers = (await running.client.get(f"/api/sessions/{KEY}/layers")).body["layers"]
        said = await page.locator(".layer-name b").all_text_contents()
        assert [int(one.replace(",", "")) for one in said] == [one["tokens"] for one in layers]
        await expect(feed).to_contain_text("Summary of the earlier conversation")
        await expect(page.locator(".view-where")).to_have_text("The next request")

        # The oldest request: one message, and nothing compacted yet.
        await page.get_by_label("Request", exact=True).focus()
        await page.keyboard.press("Home")
        await expect(page.locator(".view-where")).to_contain_text(f"Request 1 of {len(asked)}")
        await expect(feed).not_to_contain_text("Summary of the earlier conversation")
        await expect(feed.locator(".tone-input")).to_have_count(1)
        await expect(feed.locator(".tone-reply")).to_have_count(0)
        assert page.url.endswith(f"/view/{asked[0]}")
        await page.get_by_role("button", name="Request after").click()
        await expect(feed.locator(".tone-reply")).to_have_count(1)
        await page.go_back()
        await expect(page.locator(".view-where")).to_contain_text(f"Request 1 of {len(asked)}")


async def test_two_requests_are_compared(browsing: Browsing) -> None:
    async with browsing.gateway(a_storied_model()) as running:
        await tell_story(running)
        asked = [one["seq"] for one in (await running.client.get(f"/api/sessions/{KEY}/budgets")).body["requests"]]
        # The second saw two messages more than the first.
        page = await browsing.open(running.url, at(KEY, "view", f"{asked[1]}-{asked[0]}"))
        changes = page.get_by_role("region", name="Changes between two requests")
        await expect(changes.locator(".is-added")).to_have_count(2)
        await expect(changes.locator(".is-removed")).to_have_count(0)
        await expect(changes.locator(".diff-same")).to_have_text("2 messages unchanged")
        # The next request has a summary in place of what it replaces.
        await page.goto(f"{running.url}/{at(KEY, 'view', f'0-{asked[3]}')}")
        await expect(changes.locator(".is-added", has_text="Summary")).to_have_count(1)
        await expect(changes.locator(".is-removed").first).to_contain_text("We moved the berth plan")
        await page.get_by_label("Changes since").select_option(index=0)
        await expect(changes).to_have_count(0)
        await expect(page.get_by_role("region", name="Left the view")).to_be_visible()


async def test_messages_are_pinned_and_left_out_and_the_compaction_undone_from_the_view(browsing: Browsing) -> None:
    async with browsing.gateway(a_storied_model()) as running:
        await tell_story(running)
        page = await browsing.open(running.url, at(KEY, "view"))
        feed = page.get_by_role("feed", name="Model view")
        await page.locator(".layer-name", has_text="Tail").click()
        await feed.get_by_role("button", name="Pin: keep").first.click()
        await expect(feed.get_by_role("button", name="Pinned: stays")).to_have_count(1)
        await feed.get_by_role("button", name="Leave this out of the view").last.click()
        await expect(feed.get_by_role("button", name="Left out of the view")).to_have_count(1)
        detail = (await running.client.get(f"/api/sessions/{KEY}")).body
        await page.locator(".layer-name", has_text="Story").click()
        await feed.get_by_role("button", name="Undo this compaction").click()
        await expect(feed).not_to_contain_text("Summary of the earlier conversation")
        await expect(feed).to_contain_text("We moved the berth plan")
    assert (len(detail["pinned"]), len(detail["excluded"])) == (1, 1)
