"""Approvals in a browser: the question with its tool, arguments and deadline, answered by keys alone."""

from collections.abc import Callable

import pytest
from playwright.async_api import Page, expect

import holdfast
from tests.page.pages import Browsing, at
from tests.page.test_contrast import CONTRAST_MIN, FAINT_TEXTS

pytestmark = pytest.mark.asyncio(loop_scope="session")
KEY = "ops:payments"
ASKS = 'call pay {"amount": 1200, "to": "Harbour master"}'


class Payments:
    """Payments that were made."""

    def __init__(self) -> None:
        self.made: list[int] = []

    def tool(self) -> Callable[..., object]:
        """Return a tool that needs an approval."""

        @holdfast.tool(approve=True)
        def pay(amount: int, to: str) -> str:
            """Pay somebody."""
            self.made.append(amount)
            return f"paid {amount} to {to}"

        return pay


async def asked(page: Page) -> None:
    """Wait for the question."""
    await expect(page.get_by_role("group", name="Approval of pay")).to_be_visible()


async def test_a_call_is_approved_by_keys_and_runs_once(browsing: Browsing) -> None:
    payments = Payments()
    async with browsing.gateway(tools=[payments.tool()]) as running:
        await running.client.ask("PUT", f"/api/sessions/{KEY}", {})
        page = await browsing.open(running.url, at(KEY))
        await running.client.send(KEY, ASKS, mode="post")
        await asked(page)
        question = page.get_by_role("group", name="Approval of pay")
        await expect(question.locator("dl")).to_have_text("amount1200toHarbour master")
        await expect(question).to_contain_text("denied without an answer in 7 days")
        await expect(page.locator(".session-state")).to_contain_text("waiting for an approval")
        await expect(page.locator(".step .badge")).to_have_text("waits for an approval")
        await expect(page.locator(".rail-says")).to_have_text("waiting for an approval of pay")
        assert await page.evaluate(FAINT_TEXTS, CONTRAST_MIN) == []
        assert payments.made == []
        # No single key approves: Enter after the first does nothing.
        for key in ("a", "Enter", "Tab", "Tab", "Enter"):
            await page.keyboard.press(key)
        await expect(page.get_by_role("feed", name="Timeline")).to_contain_text("paid 1200 to Harbour master")
        await expect(page.get_by_role("region", name="Approvals")).to_be_hidden()
        await expect(page.locator(".step .badge")).to_have_text("done")
    assert payments.made == [1200]


async def test_a_call_is_denied_by_keys_with_a_reason_that_the_model_reads(browsing: Browsing) -> None:
    payments = Payments()
    async with browsing.gateway(tools=[payments.tool()]) as running:
        await running.client.send(KEY, ASKS, mode="post")
        page = await browsing.open(running.url, at(KEY, "budgets"))
        await asked(page)
        await page.keyboard.press("a")
        await page.keyboard.type("at most 100")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("region", name="Approvals")).to_be_hidden()
        await page.keyboard.press("1")
        await expect(page.get_by_role("feed", name="Timeline")).to_contain_text("said: at most 100")
    assert payments.made == []


async def test_sessions_that_wait_for_an_approval_are_found_in_the_list(browsing: Browsing) -> None:
    async with browsing.gateway(tools=[Payments().tool()]) as running:
        await running.client.send("idle", "hello")
        await running.client.send(KEY, ASKS, mode="post")
        page = await browsing.open(running.url)
        await page.keyboard.press("f")
        await page.get_by_label("State", exact=True).select_option("Waiting for an approval")
        await expect(page.locator(".rail-row")).to_have_count(1)
        await expect(page.locator(".rail-row")).to_have_attribute("data-key", KEY)
