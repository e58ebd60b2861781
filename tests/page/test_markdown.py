"""Markdown of messages in a real browser: rendered, and never markup of its own."""

import json

import pytest
from playwright.async_api import expect

from holdfast.testing.engines import FunctionModel, says
from tests.page.pages import Browsing, at

pytestmark = pytest.mark.asyncio(loop_scope="session")
KEY = "telegram:42"

ANSWER = """# Depths

- first **bold** and `inline`
- second
  1. nested

| place | depth |
|---|---|
| Kiel | 12 |

> quoted

```python
def depth(place: str) -> int:
    return 12  # fathoms
```

See https://example.org/a and [the chart](https://example.org/chart) and ![a map](https://example.org/map.png).
"""
HOSTILE = """<img src=x onerror="document.title='hit'"><script>document.title='hit'</script>

[click](javascript:document.title='hit') ![x](data:text/html,<script>1</script>) [file](file:///etc/passwd)

<svg onload="document.title='hit'"></svg> a\u202eb

```html
<script>document.title = "hit"</script>
```
"""


async def test_an_answer_shows_headings_lists_tables_links_and_coloured_code(browsing: Browsing) -> None:
    async with browsing.gateway(FunctionModel(lambda _: says(ANSWER))) as running:
        await running.client.send(KEY, "how deep?")
        page = await browsing.open(running.url, at(KEY))
        reply = page.locator(".tone-reply .prose")
        await expect(reply.get_by_role("heading", name="Depths")).to_be_visible()
        await expect(reply.locator("ul > li")).to_have_count(2)
        await expect(reply.locator("ul ol > li")).to_have_text("nested")
        await expect(reply.locator("strong")).to_have_text("bold")
        await expect(reply.locator("table td").nth(1)).to_have_text("12")
        await expect(reply.locator("blockquote")).to_contain_text("quoted")
        await expect(reply.locator("pre .hl-keyword").first).to_have_text("def")
        await expect(reply.locator("pre .hl-comment")).to_have_text("# fathoms")
        links = reply.locator("a")
        addresses = [await links.nth(place).get_attribute("href") for place in range(await links.count())]
        images = await reply.locator("img").count()
    assert addresses == ["https://example.org/a", "https://example.org/chart", "https://example.org/map.png"]
    assert images == 0


LISTS = """| berth | depth | ship |
|:--|--:|:-:|
| 17 | 12.0 | Aurora |

- [x] moored
- [ ] paid

text

* الرصيف **8.4**
"""


async def test_cells_are_aligned_tasks_have_boxes_and_lists_follow_their_script(browsing: Browsing) -> None:
    async with browsing.gateway(FunctionModel(lambda _: says(LISTS))) as running:
        await running.client.send(KEY, "which berth?")
        page = await browsing.open(running.url, at(KEY))
        reply = page.locator(".tone-reply .prose")
        sides = await reply.locator("td").evaluate_all("all => all.map((one) => getComputedStyle(one).textAlign)")
        boxes = await reply.get_by_role("checkbox").evaluate_all("all => all.map((one) => [one.checked, one.disabled])")
        written = await reply.locator("ul").evaluate_all(
            "all => all.map((one) => getComputedStyle(one.firstChild).direction)"
        )
        await expect(reply.locator("li").first).to_have_text("moored")
    assert sides == ["start", "right", "center"]
    assert boxes == [[True, True], [False, True]]
    assert written == ["ltr", "rtl"]


async def test_the_newest_answer_is_shown_whole_and_older_ones_are_folded(browsing: Browsing) -> None:
    lines = "\n\n".join(f"line {number}" for number in range(60))
    async with browsing.gateway(FunctionModel(lambda _: says(lines))) as running:
        for text in ("first", "second"):
            await running.client.send(KEY, text)
        page = await browsing.open(running.url, at(KEY))
        older, newest = page.locator(".tone-reply").first, page.locator(".tone-reply").last
        await expect(newest.get_by_role("button", name="Show less")).to_be_visible()
        await expect(newest.get_by_text("line 59")).to_be_visible()
        await newest.get_by_role("button", name="Show less").click()
        await expect(newest.get_by_role("button", name="Show all")).to_be_visible()
        await expect(older.get_by_role("button", name="Show all")).to_be_visible()


async def test_code_is_copied(browsing: Browsing) -> None:
    async with browsing.gateway(FunctionModel(lambda _: says(ANSWER))) as running:
        await running.client.send(KEY, "how deep?")
        page = await browsing.open(running.url, at(KEY))
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await page.get_by_role("button", name="Copy this code").click()
        await expect(page.get_by_role("button", name="Copy this code")).to_contain_text("Copied")
        copied = await page.evaluate("navigator.clipboard.readText()")
    assert copied == "def depth(place: str) -> int:\n    return 12  # fathoms"


async def test_hostile_markdown_stays_text(browsing: Browsing) -> None:
    async with browsing.gateway(FunctionModel(lambda _: says(HOSTILE))) as running:
        await running.client.send(KEY, HOSTILE)
        page = await browsing.open(running.url, at(KEY))
        reply = page.locator(".tone-reply .prose")
        await expect(reply).to_contain_text('<img src=x onerror="document.title=')
        await expect(reply.locator(".unseen").first).to_have_text("U+202E")
        counted = await page.locator(".prose :is(img, script, a, [onerror], [onload])").count()
        title = await page.title()
    assert counted == 0
    assert "hit" not in json.dumps(title)
