"""The page in a browser, talking: messages are sent, answers stream in, and what is hostile is text."""

import asyncio
from collections.abc import AsyncGenerator, Mapping

import pytest
from playwright.async_api import expect

from holdfast.ports import Delta, TextDelta
from holdfast.testing.engines import FunctionModel, says
from holdfast.types.faults import Refusal
from holdfast.types.messages import Reply, Request
from tests.page.pages import Browsing, at

pytestmark = pytest.mark.asyncio(loop_scope="session")


class SteppingModel(FunctionModel):
    """A model that writes a word whenever it is let to."""

    def __init__(self, *words: str) -> None:
        super().__init__(lambda _: says("".join(words)))
        self._words = words
        self.may_write = asyncio.Semaphore(0)

    async def stream(
        self,
        request: Request,
        blobs: Mapping[str, bytes],  # noqa: ARG002 - words need no bytes
    ) -> AsyncGenerator[Delta | Reply | Refusal, None]:
        """Write word by word."""
        self.requests.append(request)
        for word in self._words:
            await self.may_write.acquire()
            yield TextDelta(word)
        await self.may_write.acquire()
        yield says("".join(self._words))


async def test_an_answer_streams_in_and_becomes_a_record(browsing: Browsing) -> None:
    model = SteppingModel("The harbour ", "is Kiel.")
    async with browsing.gateway(model) as running:
        await running.client.ask("PUT", "/api/sessions/telegram:42", {})
        page = await browsing.open(running.url, at("telegram:42"))
        await page.get_by_label("Message", exact=True).fill("which harbour?")
        await page.keyboard.press("Enter")
        writing = page.locator(".is-writing")
        await expect(page.locator(".session-state")).to_contain_text("the model is answering")
        model.may_write.release()
        await expect(writing).to_contain_text("The harbour")
        model.may_write.release()
        await expect(writing).to_contain_text("The harbour is Kiel.")
        model.may_write.release()
        await expect(page.locator(".tone-reply:not(.is-writing)")).to_contain_text("The harbour is Kiel.")
        await expect(writing).to_have_count(0)
        await expect(page.locator(".tone-input")).to_contain_text("which harbour?")
        await expect(page.locator(".session-state")).to_contain_text("idle")


HOSTILE = (
    "<script>document.title = 'taken'</script>"
    "<img src=x onerror=\"document.title = 'taken'\">"
    "<a href=\"javascript:document.title='taken'\">here</a>"
    "<iframe srcdoc='<script>parent.document.title=1</script>'></iframe><style>body{display:none}</style>"
    "\u202egnp.exe\u202c \u2066hidden\u2069 \x1b[31m</div></main>"
)


async def test_a_hostile_message_shows_as_text(browsing: Browsing) -> None:
    model = FunctionModel(lambda _: says(HOSTILE))
    key = '<b>telegram</b>:"42"/..&amp;'
    async with browsing.gateway(model) as running:
        assert (await running.client.send(key, HOSTILE)).status == 200
        page = await browsing.open(running.url, at(key))
        reply, said = page.locator(".tone-reply .prose"), page.locator(".tone-input .prose")
        for shown in (reply, said):
            await expect(shown).to_contain_text("<script>document.title = 'taken'</script>")
            await expect(shown).to_contain_text("javascript:document.title='taken'")
            await expect(shown).to_contain_text("U+202Egnp.exeU+202C U+2066hiddenU+2069")
        elements = (
            "script:not([src]), iframe, img:not([src='/icon.svg']), body style, [onerror], a[href^='javascript:']"
        )
        assert await page.locator(elements).count() == 0
        await expect(page.get_by_role("heading", name=key)).to_be_visible()
        assert await page.title() == f"{key} · Holdfast"
        for tab in ("view", "budgets", "notices"):
            await page.goto(f"{running.url}/{at(key, tab)}")
            await expect(page.get_by_role("tab", selected=True)).to_be_visible()
            assert await page.locator(elements).count() == 0
        await page.goto(f"{running.url}/#/search/document.title")
        await expect(page.locator(".hit").first).to_contain_text("document.title")
        assert await page.locator(elements).count() == 0


async def test_an_empty_session_says_so_until_somebody_speaks(browsing: Browsing) -> None:
    async with browsing.gateway() as running:
        await running.client.ask("PUT", "/api/sessions/bare", {})
        page = await browsing.open(running.url, at("bare"))
        await expect(page.get_by_text("No messages yet.")).to_be_visible()
        await page.get_by_label("Message", exact=True).fill("hello")
        await page.keyboard.press("Enter")
        await expect(page.locator(".tone-reply")).to_have_count(1)
        await expect(page.get_by_text("No messages yet.")).to_be_hidden()
