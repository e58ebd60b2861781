"""The page in a browser, acting: compact, undo, pin, cancel, fork, export, delete, attach."""

import json
from pathlib import Path

import pytest
from playwright.async_api import FilePayload, Page, expect

from holdfast.models.catalogue import simulated_model
from holdfast.models.fake import Simulation
from holdfast.ports import Model
from holdfast.types.limits import Limits
from tests.gateway.gateways import Running, SilentModel
from tests.page.pages import Browsing, at

pytestmark = pytest.mark.asyncio(loop_scope="session")
KEY = "telegram:42"
BERTHS = 6


def a_small_model() -> Model:
    return simulated_model(Simulation(Limits(window_tokens=6_000, output_tokens_max=1_000)))


async def a_talk(running: Running) -> None:
    """Talk until there is something to compact."""
    for berth in range(BERTHS):
        said = f"remember berth{berth} = {berth}; its file is /srv/port/berth-{berth}.toml. write 300 words"
        assert (await running.client.send(KEY, said)).status == 200


async def choose(page: Page, words: str) -> None:
    await page.get_by_role("button", name="Actions").click()
    await page.get_by_role("menuitem", name=words).click()


async def test_a_compaction_is_previewed_appears_live_and_is_undone(browsing: Browsing) -> None:
    async with browsing.gateway(a_small_model()) as running:
        await a_talk(running)
        page = await browsing.open(running.url, at(KEY))
        await expect(page.locator(".is-out")).to_have_count(0)
        await choose(page, "Compact…")
        dialog = page.get_by_role("dialog", name="Compact this session")
        await dialog.get_by_role("button", name="Preview").click()
        await expect(dialog.locator(".preview")).to_contain_text("Would leave the view")
        await expect(dialog.locator(".preview")).to_contain_text("10 messages of 5 turns")
        await dialog.get_by_role("button", name="Compact", exact=True).click()
        await expect(page.locator(".tone-turning")).to_contain_text("a summary replaces everything before message")
        await expect(page.locator(".is-out").first).to_be_visible()

        await page.get_by_role("button", name="Summary and originals").click()
        left = page.get_by_role("region", name="Compaction")
        await expect(left).to_contain_text("current")
        await expect(left.locator(".ledger")).to_contain_text("/srv/port/berth-3.toml")
        originals = page.get_by_role("feed", name="Originals")
        await left.get_by_role("button", name="Show record 16").first.click()
        await expect(originals.get_by_text("remember berth3 = 3")).to_be_in_viewport()

        await page.goto(f"{running.url}/{at(KEY, 'view')}")
        sees = page.get_by_role("feed", name="Model view")
        await expect(sees).to_contain_text("Summary of the earlier conversation")
        left_view = page.get_by_role("region", name="Left the view")
        await expect(left_view).to_contain_text("remember berth0 = 0")
        await expect(left_view.get_by_role("article").first).to_contain_text("summar")

        await page.keyboard.press("u")
        await expect(sees).not_to_contain_text("Summary of the earlier conversation")
        await expect(left_view.get_by_role("article")).to_have_count(0)
        await page.keyboard.press("1")
        await expect(page.locator(".tone-turning").last).to_contain_text("was undone")
        await expect(page.locator(".is-out")).to_have_count(0)


async def test_a_message_is_pinned_and_unpinned(browsing: Browsing) -> None:
    async with browsing.gateway() as running:
        await running.client.send(KEY, "remember harbour = Kiel")
        page = await browsing.open(running.url, at(KEY))
        await page.get_by_role("button", name="Pin: keep this message").click()
        await expect(page.get_by_role("button", name="Pinned: stays")).to_have_attribute("aria-pressed", "true")
        pinned = (await running.client.get(f"/api/sessions/{KEY}")).body["pinned"]
        await page.get_by_role("button", name="Pinned: stays").click()
        await expect(page.get_by_role("button", name="Pin: keep this message")).to_be_visible()
        unpinned = (await running.client.get(f"/api/sessions/{KEY}")).body["pinned"]
    assert (pinned, unpinned) == ([1], [])


async def test_a_message_is_left_out_and_taken_back(browsing: Browsing) -> None:
    async with browsing.gateway() as running:
        await running.client.send(KEY, "remember harbour = Kiel")
        page = await browsing.open(running.url, at(KEY))
        await page.get_by_role("button", name="Leave this out of the view").first.click()
        left = page.get_by_role("button", name="Left out of the view")
        await expect(left).to_have_attribute("aria-pressed", "true")
        excluded = (await running.client.get(f"/api/sessions/{KEY}")).body["excluded"]
        await left.click()
        await expect(left).to_have_count(0)
        taken_back = (await running.client.get(f"/api/sessions/{KEY}")).body["excluded"]
    assert (excluded, taken_back) == ([1], [])


async def test_what_is_open_is_cancelled(browsing: Browsing) -> None:
    model = SilentModel()
    async with browsing.gateway(model) as running:
        await running.client.send(KEY, "hello", mode="post")
        page = await browsing.open(running.url, at(KEY))
        await page.get_by_role("button", name="Cancel the answer").click()
        await expect(page.locator(".session-state")).to_contain_text("idle")
        await expect(page.get_by_role("button", name="Cancel the answer")).to_be_hidden()
        state = await running.client.get(f"/api/sessions/{KEY}/turns/1")
    assert state.body["outcome"] == "cancelled"


async def test_a_file_is_attached_and_sent(browsing: Browsing) -> None:
    async with browsing.gateway() as running:
        await running.client.ask("PUT", f"/api/sessions/{KEY}", {})
        page = await browsing.open(running.url, at(KEY))
        note = FilePayload(name="depths.txt", mimeType="text/plain", buffer=b"12 fathoms at Kiel")
        await page.locator("input[type=file]").set_input_files([note])
        await expect(page.get_by_role("list", name="Attached")).to_contain_text("depths.txt")
        await page.get_by_label("Message", exact=True).fill("read this")
        await page.keyboard.press("Enter")
        await expect(page.locator(".tone-input")).to_contain_text("12 fathoms at Kiel")
        await expect(page.get_by_role("list", name="Attached").get_by_role("listitem")).to_have_count(0)


async def test_a_session_is_forked_exported_and_deleted(browsing: Browsing, tmp_path: Path) -> None:
    async with browsing.gateway() as running:
        await running.client.send(KEY, "remember harbour = Kiel")
        await running.client.send(KEY, "remember berth = 17")
        page = await browsing.open(running.url, at(KEY))
        await page.get_by_role("button", name="Fork the session before this message").last.click()
        await page.get_by_role("dialog", name="Fork this session").get_by_label("Key of the new session").fill("a fork")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="a fork")).to_be_visible()
        await expect(page.locator(".tone-input")).to_have_count(1)
        await expect(page.locator(".rail-row")).to_have_count(2)

        async with page.expect_download() as downloading:
            await choose(page, "Export")
        download = await downloading.value
        await download.save_as(tmp_path / "export.jsonl")
        lines = (tmp_path / "export.jsonl").read_text().splitlines()
        assert (download.suggested_filename, len(lines) > 5) == ("a_fork.jsonl", True)
        assert all(isinstance(json.loads(line), dict) for line in lines)

        await choose(page, "Delete…")
        dialog = page.get_by_role("dialog", name="Delete this session?")
        await dialog.get_by_role("button", name="Cancel").click()
        await choose(page, "Delete…")
        await dialog.get_by_role("button", name="Delete permanently").click()
        await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        await expect(page.locator(".rail-row")).to_have_count(1)
        gone = await running.client.get("/api/sessions/a%20fork")
    assert gone.status == 404


async def test_a_message_is_edited_and_answered_again_and_versions_are_switched(browsing: Browsing) -> None:
    async with browsing.gateway() as running:
        await running.client.send(KEY, "remember harbour = Kiel")
        await running.client.send(KEY, "what is harbour?")
        page = await browsing.open(running.url, at(KEY))
        timeline = page.get_by_role("feed", name="Timeline")
        await page.get_by_role("button", name="Edit this message").last.click()
        dialog = page.get_by_role("dialog", name="Edit this message")
        await expect(dialog.get_by_label("Message")).to_have_value("what is harbour?")
        await dialog.get_by_label("Message").fill("what is the harbour called?")
        await dialog.get_by_role("button", name="Send the edited message").click()
        await expect(timeline).to_contain_text("what is the harbour called?")
        await expect(timeline.get_by_text("become a branch of their own")).to_be_visible()
        await expect(page.locator(".session-state")).to_contain_text("idle")
        await page.keyboard.press("r")
        await expect(timeline.get_by_text("become a branch of their own")).to_have_count(2)
        await expect(page.locator(".session-state")).to_contain_text("idle")
        await page.keyboard.press("b")
        branches = page.get_by_role("dialog", name="Branches")
        await expect(branches.get_by_role("listitem")).to_have_count(3)
        await branches.get_by_role("listitem").first.get_by_role("button", name="Switch").click()
        await expect(branches).to_have_count(0)
        seen = (await running.client.get(f"/api/sessions/{KEY}/context")).body["messages"]
    assert [part["text"] for one in seen for part in one["parts"] if one["role"] == "user"] == [
        "remember harbour = Kiel",
        "what is harbour?",
    ]
