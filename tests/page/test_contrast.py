"""Every text has a contrast of 4.5 to its background, in light and dark; and no view is wider than a phone."""

import pytest
from playwright.async_api import expect

from tests.page.pages import Browsing, at
from tests.page.story import KEY, a_storied_model, tell_story

pytestmark = pytest.mark.asyncio(loop_scope="session")
CONTRAST_MIN = 4.5

FAINT_TEXTS = """(least) => {
  const parsed = (text) => {
    const numbers = (text.match(/[\\d.]+(e-?\\d+)?/g) ?? []).map(Number);
    const scale = text.startsWith("color(") ? 255 : 1;
    const shown = text.startsWith("color(") ? numbers.slice(-(text.includes("/") ? 4 : 3)) : numbers;
    const [r = 0, g = 0, b = 0, a = 1] = shown;
    return [r * scale, g * scale, b * scale, a];
  };
  const over = (top, below) => top.slice(0, 3).map((one, place) => one * top[3] + below[place] * (1 - top[3]));
  const background = (node) => {
    if (!node) return [255, 255, 255];
    const own = parsed(getComputedStyle(node).backgroundColor);
    return own[3] === 1 ? own.slice(0, 3) : over(own, background(node.parentElement));
  };
  const light = (colour) => {
    const linear = (one) => (one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = colour.map((one) => linear(one / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const said = [...node.childNodes].filter((one) => one.nodeType === 3).map((one) => one.data.trim()).join("");
    const box = node.getBoundingClientRect();
    const isOff = node.closest("[hidden], .hidden, .skip, :disabled, [popover]:not(:popover-open), option");
    if (!said || !box.width || !box.height || isOff) continue;
    const style = getComputedStyle(node);
    const below = background(node);
    const colour = parsed(style.fill && node instanceof SVGElement ? style.fill : style.color);
    let opacity = 1;
    for (let each = node; each; each = each.parentElement) opacity *= Number(getComputedStyle(each).opacity);
    const shown = over([...colour.slice(0, 3), colour[3] * opacity], below);
    const [high, low] = [light(shown), light(below)].sort((a, b) => b - a);
    const contrast = (high + 0.05) / (low + 0.05);
    const name = node.className?.baseVal ?? node.className;
    if (contrast < least) found.push(`${contrast.toFixed(2)} ${name}: ${said.slice(0, 40)}`);
  }
  return [...new Set(found)];
}"""


# What scrolls or is cut by itself may be wider.
TOO_WIDE = """[...document.querySelectorAll(".page *, .sides *")].filter((one) =>
  one.getBoundingClientRect().right > 361
  && !one.closest(".table-scroll, .v-list, .layer-bar, .middle, .hit-where")).length"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_text_stands_out_from_its_background(browsing: Browsing, scheme: str) -> None:
    async with browsing.gateway(a_storied_model()) as running:
        await tell_story(running)
        compaction = (await running.client.get(f"/api/sessions/{KEY}")).body["compaction"]
        views = {
            "#/": ".bars",
            at(KEY): ".tone-reply",
            at(KEY, "timeline", 1): ".is-out",
            at(KEY, "view"): ".layer-head",
            at(KEY, "view", "0-3"): ".diff-row",
            at(KEY, "compaction", compaction): ".ledger",
            at(KEY, "turn", 11): ".fall",
            at(KEY, "budgets"): ".mark-compaction",
            at(KEY, "notices"): ".notice",
            "#/health": ".card table",
            "#/search/berth": ".hit mark",
        }
        page = await browsing.open(running.url, color_scheme=scheme, reduced_motion="reduce")
        faint: dict[str, list[str]] = {}
        for where, shown in views.items():
            await page.goto(f"{running.url}/{where}")
            await expect(page.locator(shown).first).to_be_visible()
            if found := await page.evaluate(FAINT_TEXTS, CONTRAST_MIN):
                faint[where] = found
    assert faint == {}


async def test_no_view_is_wider_than_a_phone(browsing: Browsing) -> None:
    async with browsing.gateway(a_storied_model()) as running:
        await tell_story(running)
        page = await browsing.open(running.url, viewport={"width": 360, "height": 740})
        for where, shown in (
            ("#/", ".rail-row"),
            ("#/home", ".bars"),
            ("#/search/berth", ".hit"),
            ("#/health", ".card"),
            (at(KEY, "turn", 11), ".fall"),
            (at(KEY, "view", "0-3"), ".layer-head"),
        ):
            await page.goto(f"{running.url}/{where}")
            await expect(page.locator(shown).first).to_be_visible()
            assert await page.evaluate("document.documentElement.scrollWidth") <= 360, where
            assert await page.evaluate(TOO_WIDE) == 0, where
        # One pane at a time: each has the screen to itself.
        await expect(page.get_by_role("region", name="In the view")).to_be_visible()
        await expect(page.get_by_role("region", name="Changes", exact=True)).to_be_hidden()
        await page.get_by_role("button", name="Left or changed").click()
        await expect(page.get_by_role("region", name="In the view")).to_be_hidden()
        await expect(page.get_by_role("region", name="Changes", exact=True)).to_be_visible()
