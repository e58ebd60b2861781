"""The reference page: files of the package, a strict policy, and every operation shown without the network."""

import hashlib
import re
from importlib.resources import files
from pathlib import Path

import pytest
from playwright.async_api import expect

from holdfast.gateway.http.page import REFERENCE_POLICY
from tests.page.pages import Browsing, a_gateway_with_page

FOLDER = Path(str(files("holdfast") / "reference"))
pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_vendored_files_are_unchanged_and_have_their_licences() -> None:
    lines = (FOLDER / "checksums.txt").read_text().splitlines()
    listed = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    found = {name: hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() for name in listed}
    assert (found, len(listed)) == (listed, 2)
    licences = re.findall(r"`([\w.-]+(?:LICENSE|NOTICE)\.txt)`", (FOLDER / "README.md").read_text())
    assert [(FOLDER / name).is_file() for name in licences] == [True, True, True]


async def test_the_shell_has_no_script_and_no_style_of_its_own() -> None:
    shell = (FOLDER / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\son\w+=|https?://", shell) == []


async def test_it_is_served_without_a_key_and_with_a_policy_that_allows_this_gateway_alone(tmp_path: Path) -> None:
    async with a_gateway_with_page(keys=tmp_path / "keys") as running:
        moved = await running.client.get("/api/reference", allow_redirects=False)
        index = await running.client.get("/api/reference/")
        script = await running.client.get("/api/reference/swagger-ui-bundle.js")
        absent = await running.client.get("/api/reference/checksums.txt")
    assert (moved.status, moved.headers["location"]) == (308, "reference/")
    assert (index.status, script.status, absent.status) == (200, 200, 404)
    assert index.headers["content-security-policy"] == REFERENCE_POLICY
    sources = {source for part in REFERENCE_POLICY.split(";") for source in part.split()[1:]}
    assert sources == {"'none'", "'self'", "data:"}


async def test_a_browser_shows_every_operation_and_asks_no_other_host(browsing: Browsing) -> None:
    async with browsing.gateway() as running:
        page = await browsing.open(running.url, "api/reference/")
        asked: set[str] = set()
        page.on("request", lambda request: asked.add(request.url))
        await expect(page.locator(".opblock")).not_to_have_count(0)
        shown = await page.locator(".opblock-summary-path").all_text_contents()
        await page.locator("#operations-proxy-proxy_chat_completions .opblock-summary-control").click()
        await expect(page.locator("#operations-proxy-proxy_chat_completions")).to_contain_text("harbour")
    paths = {text.replace("\u200b", "").strip() for text in shown}
    assert {"/api/sessions/{key}/messages", "/v1/chat/completions", "/v1/messages"} <= paths
    assert [url for url in asked if not url.startswith(running.url) and not url.startswith("data:")] == []
