"""Pictures of the page for docs/, taken where HOLDFAST_SCREENSHOTS names a folder (`make screenshots`)."""

import io
import os
from pathlib import Path

import pytest
from PIL import Image
from playwright.async_api import expect

from tests.page.pages import Browsing, at
from tests.page.story import (
    APPROVAL_KEY,
    KEY,
    WORK_KEY,
    a_storied_model,
    a_storied_store,
    tell_approval,
    tell_story,
    tell_work,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")

# As a laptop and a phone show it.
WIDE, NARROW = {"width": 1360, "height": 860}, {"width": 390, "height": 800}
# Colours of a picture: the page has few, and fewer make it small enough to be kept with the code.
COLOURS = 256
BYTES_MAX = 200 * 2**10


async def test_pictures_show_a_session_that_has_lived(browsing: Browsing, tmp_path: Path) -> None:
    told = os.environ.get("HOLDFAST_SCREENSHOTS")
    folder = Path(told) if told else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    store, clock = a_storied_store()
    async with browsing.gateway(a_storied_model(), store=store) as running:
        await tell_story(running)
        await tell_work(store, clock)
        await tell_approval(store)
        compaction = (await running.client.get(f"/api/sessions/{KEY}")).body["compaction"]
        places = {
            "home": (WIDE, "light", "#/", ".bars"),
            "session": (WIDE, "light", at(WORK_KEY), ".tone-reply .code"),
            "turn": (WIDE, "light", at(WORK_KEY, "turn", 1), ".fall"),
            "view": (WIDE, "light", at(KEY, "view"), ".stretch"),
            "changes": (WIDE, "dark", at(KEY, "view", "30-18"), ".diff-row"),
            "compaction": (WIDE, "dark", at(KEY, "compaction", compaction), ".ledger"),
            "approval": (WIDE, "light", at(APPROVAL_KEY), ".approval"),
            "budgets": (WIDE, "light", at(KEY, "budgets"), ".mark-compaction"),
            "search": (WIDE, "dark", "#/search/berth", ".hit mark"),
            "phone": (NARROW, "dark", at(WORK_KEY), ".tone-reply"),
            "phone-list": (NARROW, "light", "#/", ".rail-row"),
            "phone-view": (NARROW, "light", at(KEY, "view"), ".layer-head"),
        }
        for name, (size, scheme, where, shown) in places.items():
            page = await browsing.open(running.url, where, viewport=size, color_scheme=scheme, reduced_motion="reduce")
            await expect(page.locator(shown).first).to_be_visible()
            await expect(page.locator(".connection")).to_contain_text("Live")
            picture = Image.open(io.BytesIO(await page.screenshot()))
            picture.quantize(COLOURS).save(folder / f"{name}.png", optimize=True)
            await page.close()
    sizes = {path.name: path.stat().st_size for path in folder.glob("*.png")}
    assert set(sizes) >= {f"{name}.png" for name in places}
    assert max(sizes.values()) < BYTES_MAX
