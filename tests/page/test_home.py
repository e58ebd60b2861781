"""The home of the page: sessions, usage over time, rescues, faults, learned limits and storage."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from holdfast.gateway.accounts import account_key
from holdfast.testing.engines import ScriptedModel
from holdfast.types.accounts import Saved, UsageTotals
from holdfast.types.records import UsageRecorded
from tests.page.pages import Browsing, a_program
from tests.page.story import KEY, MODEL, a_storied_model, tell_story

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_home_has_usage_rescues_faults_and_learned_limits_that_can_be_forgotten(browsing: Browsing) -> None:
    async with browsing.gateway(a_storied_model()) as running:
        await tell_story(running)
        page = await browsing.open(running.url)
        glance = page.get_by_role("region", name="At a glance")
        await expect(glance).to_contain_text("8sessions")
        await expect(glance).to_contain_text("1turns rescued")
        rows = (await running.client.get("/api/usage")).body["rows"]
        tokens = sum(one["totals"].get("input_tokens", 0) for one in rows)
        assert tokens > 1_000
        await expect(page.get_by_role("img", name="read and written by day")).to_be_visible()
        await expect(page.get_by_role("img", name="US dollars by day")).to_be_visible()
        await expect(page.get_by_role("region", name="Rescues by cause")).to_contain_text("limits the request rate")
        await expect(page.get_by_role("region", name="Faults by model")).to_contain_text(MODEL)
        active = page.get_by_role("region", name="Active sessions")
        await expect(active).to_contain_text("All sessions are idle")
        learned = page.get_by_role("region", name="Learned limits")
        await learned.get_by_role("button", name="Forget").click()
        await page.get_by_role("dialog", name="Forget learned limits").get_by_role("button", name="Forget").click()
        await expect(learned).to_contain_text("No limits learned")
        await active.get_by_role("link").first.click()
        await expect(page.get_by_role("heading", name=KEY)).to_be_visible()
        await page.keyboard.press("o")
        await expect(page.get_by_role("heading", name="Overview")).to_be_visible()


@pytest.mark.parametrize(("usd", "shown"), [(1.25, "$1.25"), (-0.5, "\N{MINUS SIGN}$0.500")])
async def test_home_tells_what_the_proxy_saved_also_where_it_cost_more(
    browsing: Browsing, usd: float, shown: str
) -> None:
    saved = Saved(changed=4, refused=1, input_tokens=1_000, usd=usd, rescue_usd=0.25)
    async with browsing.gateway(ScriptedModel(["hello"])) as running:
        usage = UsageRecorded("sim", UsageTotals(requests=6, calls=6, usd=2.0, saved=saved))
        await running.engine.store.admit(account_key(""), usage)
        page = await browsing.open(running.url)
        card = page.get_by_role("region", name="Savings")
        await expect(card).to_contain_text(f"Saved{shown}")
        await expect(card).to_contain_text(f"Cost without, estimated${2.0 + usd:.2f}")
        await expect(card).to_contain_text("Requests changed4")
        await expect(card).to_contain_text("Rejected without Holdfast1")


async def test_home_has_no_savings_where_no_request_was_changed(browsing: Browsing) -> None:
    async with browsing.gateway(ScriptedModel(["hello"])) as running:
        await running.engine.store.admit(account_key(""), UsageRecorded("sim", UsageTotals(requests=6, calls=6)))
        page = await browsing.open(running.url)
        await expect(page.get_by_role("region", name="At a glance")).to_contain_text("requests today")
        await expect(page.get_by_role("region", name="Savings")).to_have_count(0)


async def test_home_tells_the_size_of_a_store_on_disk(browsing: Browsing, tmp_path: Path) -> None:
    async with a_program(tmp_path / "store.db") as (_, url):
        page = await browsing.open(url)
        await expect(page.get_by_role("region", name="Storage")).to_contain_text("Records")
        await expect(page.get_by_role("region", name="Active sessions")).to_contain_text("No sessions yet")
        browsing.check()
        await browsing.close()
