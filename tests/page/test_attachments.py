"""The page in a browser, with files: pictures are shown, anything else is only saved, and sessions are imported."""

import hashlib
from pathlib import Path

import pytest
from playwright.async_api import Error, FilePayload, Page, expect

from tests.core.images import a_png
from tests.gateway.gateways import Running
from tests.gateway.test_transfer import keys_in
from tests.page.pages import FAILED_REQUEST, Browsing, at
from tests.page.pictures import a_chart

pytestmark = pytest.mark.asyncio(loop_scope="session")
KEY = "telegram:42"
SCRIPT = "<script>document.title = 'it ran'</script>"
# Long enough to be kept in a blob of its own.
HOSTILE = {
    "drawing.svg": f'<svg xmlns="http://www.w3.org/2000/svg" onload="document.title=1">{SCRIPT}</svg>{" " * 40_000}',
    "page.html": f"<!doctype html>{SCRIPT}{' ' * 40_000}",
}


async def attach(running: Running, name: str, content: bytes) -> int:
    """Send something as an attachment, and return the record that names it."""
    upload = (await running.client.post(f"/api/attachments?name={name}", content)).body["upload"]
    body = {"text": "look", "attachments": [{"upload": upload}]}
    sent = await running.client.post(f"/api/sessions/{KEY}/messages", body)
    assert sent.status == 200, sent.body
    return int(sent.body["turn"])


async def saved(page: Page, name: str, folder: Path) -> bytes:
    async with page.expect_download() as downloading:
        await page.get_by_role("button", name=f"Save {name}").click()
    await (await downloading.value).save_as(folder / name)
    return (folder / name).read_bytes()


async def test_a_picture_is_shown_small_opened_large_and_saved(browsing: Browsing, tmp_path: Path) -> None:
    chart = a_chart(640, 480)
    async with browsing.gateway() as running:
        await attach(running, "chart.png", chart)
        page = await browsing.open(running.url, at(KEY))
        small = page.get_by_role("button", name="Show chart.png").locator("img")
        await expect(small).to_have_js_property("naturalWidth", 640)
        await page.get_by_role("button", name="Show chart.png").click()
        whole = page.get_by_role("dialog", name="chart.png").get_by_role("img", name="chart.png")
        await expect(whole).to_have_js_property("naturalHeight", 480)
        await page.keyboard.press("Escape")
        assert await saved(page, "chart.png", tmp_path) == chart


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_attachment_is_text_in_the_page_and_a_file_at_its_address(
    browsing: Browsing, tmp_path: Path, name: str
) -> None:
    content = HOSTILE[name].encode()
    async with browsing.gateway() as running:
        seq = await attach(running, name, content)
        page = await browsing.open(running.url, at(KEY))
        await expect(page.locator(".tone-input")).to_contain_text("document.title")
        assert await saved(page, name, tmp_path) == content
        assert await page.locator(".tone-input script, .tone-input svg[onload], .tone-input img").count() == 0
        assert await page.title() == f"{KEY} · Holdfast"

        digest = hashlib.sha256(content).hexdigest()
        other = await page.context.new_page()
        async with other.expect_download() as downloading:
            with pytest.raises(Error, match="Download is starting"):
                await other.goto(f"{running.url}/api/sessions/{KEY}/records/{seq}/attachments/{digest}")
        assert (await downloading.value).suggested_filename == f"{digest[:12]}.bin"


async def test_a_picture_that_is_damaged_is_told_of(browsing: Browsing) -> None:
    async with browsing.gateway() as running:
        await attach(running, "broken.png", a_png(30, 20)[:33])
        page = await browsing.open(running.url, at(KEY))
        await expect(page.get_by_role("button", name="Show broken.png")).to_contain_text("It cannot be shown.")


async def test_what_was_exported_is_imported_and_what_was_not_is_refused_in_words(browsing: Browsing) -> None:
    browsing.expect(FAILED_REQUEST)
    async with browsing.gateway() as running:
        await running.client.send(KEY, "remember harbour = Kiel")
        exported = (await running.client.get(f"/api/sessions/{KEY}/export")).body
        page = await browsing.open(running.url)
        await page.keyboard.press("i")
        dialog = page.get_by_role("dialog", name="Import a session")
        chosen, problem = dialog.get_by_label("Exported file"), dialog.get_by_role("alert")
        for content, sentence in (
            (b"hello", "Not an exported session"),
            (exported[:-9], "or incomplete"),
            (exported, f"Session '{KEY}' already exists; choose another key"),
        ):
            await chosen.set_input_files([FilePayload(name="a.jsonl", mimeType="text/plain", buffer=content)])
            await dialog.get_by_role("button", name="Import").click()
            await expect(problem).to_contain_text(sentence)
            await expect(problem).to_contain_text("Nothing was imported.")
        before = await keys_in(running)
        await dialog.get_by_label("Key (default").fill("a copy")
        await dialog.get_by_role("button", name="Import").click()
        await expect(page.get_by_role("heading", name="a copy")).to_be_visible()
        await expect(page.locator(".tone-input")).to_contain_text("remember harbour = Kiel")
        await expect(page.locator(".rail-row")).to_have_count(2)
    assert before == [KEY]


DROPPED = """(selector) => {
  const files = new DataTransfer();
  files.items.add(new File(["12 fathoms at Kiel"], "depths.txt", { type: "text/plain" }));
  const place = document.querySelector(selector);
  place.dispatchEvent(new DragEvent("dragover", { dataTransfer: files, bubbles: true, cancelable: true }));
  const isMarked = Boolean(document.querySelector(".is-dropping"));
  place.dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));
  const pasted = new DataTransfer();
  pasted.items.add(new File(["png"], "chart.png", { type: "image/png" }));
  document.body.dispatchEvent(new ClipboardEvent("paste", { clipboardData: pasted, bubbles: true }));
  return isMarked && !document.querySelector(".is-dropping");
}"""


async def test_files_are_attached_by_drop_on_the_timeline_and_by_paste(browsing: Browsing) -> None:
    async with browsing.gateway() as running:
        await running.client.send("telegram:42", "hello")
        page = await browsing.open(running.url, at("telegram:42"))
        await expect(page.locator(".tone-reply")).to_have_count(1)
        assert await page.evaluate(DROPPED, ".timeline")
        attached = page.get_by_role("list", name="Attached").get_by_role("listitem")
        await expect(attached).to_have_text(["depths.txt 18 B", "chart.png 3 B"])
