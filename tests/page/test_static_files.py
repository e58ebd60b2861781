"""The page's files as they are served: what there is, of which type, with which promises to the browser."""

import gzip
import hashlib
import os
import re
import sys
import zipfile
from importlib.resources import files
from pathlib import Path

import pytest
import uv_build

from holdfast.core.compaction.layers import LABELS
from holdfast.gateway.http.page import CONTENT_SECURITY_POLICY, Page
from tests.house.places import ROOT
from tests.page.pages import a_gateway_with_page

FOLDER = Path(str(files("holdfast") / "page"))
# Libraries of other projects. They name their web sites; the policy of the page lets nothing reach them.
VENDOR = FOLDER / "vendor"
SCRIPTS = sorted((FOLDER / "app").glob("*.js"))
# Whoever needs one of these has made markup, or code, of a string.
_MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|new Function|javascript:"
)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_script_makes_markup_or_code_of_a_string(path: Path) -> None:
    assert _MARKUP.findall(path.read_text()) == []


def test_the_page_needs_nothing_from_elsewhere() -> None:
    texts = {path: path.read_text() for path in FOLDER.rglob("*") if path.is_file() and VENDOR not in path.parents}
    away = {
        path.name: found
        for path, text in texts.items()
        if (found := re.findall(r"(?:https?:)?//[\w.-]+\.\w+", text.replace("http://www.w3.org", "")))
    }
    assert len(texts) > 20
    assert away == {}


def test_vendored_libraries_are_unchanged_and_have_their_licences() -> None:
    lines = (VENDOR / "checksums.txt").read_text().splitlines()
    listed = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    found = {
        str(path.relative_to(VENDOR)): hashlib.sha256(path.read_bytes()).hexdigest() for path in VENDOR.rglob("*.js")
    }
    assert found == listed
    licences = re.findall(r"`([\w./-]+LICENSE\.txt)`", (VENDOR / "README.md").read_text())
    assert [(VENDOR / name).is_file() for name in licences] == [True] * 4


def test_the_shell_has_no_script_and_no_style_of_its_own() -> None:
    shell = (FOLDER / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\son\w+=", shell) == []


def test_every_module_that_is_imported_is_there() -> None:
    names = Page().names
    wanted = {
        f"app/{name}"
        for path in SCRIPTS
        for name in re.findall(r'(?:from|import)\s*\(?"\./([\w.]+)"', path.read_text())
    }
    wanted |= {name for path in SCRIPTS for name in re.findall(r'from "\.\./(vendor/[\w./-]+)"', path.read_text())}
    shell = (FOLDER / "index.html").read_text()
    wanted |= set(re.findall(r'(?:src|href)="/([^"]+)"', shell))
    assert wanted - names == set()


def test_the_page_knows_every_label_of_a_ledger_line() -> None:
    script = (FOLDER / "app" / "summary.js").read_text()
    table = script[script.index("const LABELS") : script.index("const LISTS")]
    known = {quoted or bare for quoted, bare in re.findall(r'(?:"([^"]+)"|(\w+)): "', table)}
    assert set(LABELS.split("|")) - known == set()


async def test_the_page_is_served_with_its_type_and_a_strict_policy() -> None:
    async with a_gateway_with_page() as running:
        shell = await running.client.get("/")
        script = await running.client.get("/app/main.js")
        style = await running.client.get("/style/base.css")
        picture = await running.client.get("/icon.svg")

    assert [one.status for one in (shell, script, style, picture)] == [200] * 4
    assert [one.headers["content-type"] for one in (shell, script, style, picture)] == [
        "text/html; charset=utf-8",
        "text/javascript; charset=utf-8",
        "text/css; charset=utf-8",
        "image/svg+xml",
    ]
    for one in (shell, script, style, picture):
        assert one.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert one.headers["x-content-type-options"] == "nosniff"
        assert one.headers["referrer-policy"] == "no-referrer"
        assert one.headers["cache-control"] == "no-cache"
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert shell.body == (FOLDER / "index.html").read_bytes()


async def test_a_file_that_has_not_changed_is_not_sent_again() -> None:
    async with a_gateway_with_page() as running:
        first = await running.client.get("/app/main.js")
        again = await running.client.get("/app/main.js", headers={"if-none-match": first.headers["etag"]})
        other = await running.client.get("/app/main.js", headers={"if-none-match": 'W/"another"'})

    assert (again.status, again.body) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert (other.status, other.body) == (200, first.body)


async def test_whoever_can_unzip_gets_it_zipped() -> None:
    async with a_gateway_with_page() as running:
        raw = await running.raw(
            b"GET /app/main.js HTTP/1.1\r\nhost: 127.0.0.1\r\naccept-encoding: gzip\r\nconnection: close\r\n\r\n"
        )
    head, _, body = raw.partition(b"\r\n\r\n")
    assert b"content-encoding: gzip" in head
    assert gzip.decompress(body) == (FOLDER / "app/main.js").read_bytes()


@pytest.mark.parametrize(
    "path",
    [
        "/../pyproject.toml",
        "/app/../../errors.py",
        "/%2e%2e/errors.py",
        "/..%2ferrors.py",
        "/app/..%2f..%2ferrors.py",
        "/app/%2e%2e%5cindex.html",
        "//etc/passwd",
        "/app",
        "/app/",
        "/app/main.js%00.html",
        "/errors.py",
    ],
)
async def test_no_path_leads_out_of_the_page(path: str) -> None:
    async with a_gateway_with_page() as running:
        raw = await running.raw(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n".encode())
    assert raw.startswith(b"HTTP/1.1 404 ")


async def test_the_page_takes_nothing() -> None:
    async with a_gateway_with_page() as running:
        answer = await running.client.post("/", {})
    assert answer.code == (405, "method_not_allowed")


async def test_with_keys_the_page_is_served_to_anybody_and_the_api_is_not(tmp_path: Path) -> None:
    async with a_gateway_with_page(keys=tmp_path / "keys") as running:
        shell = await running.client.get("/")
        sessions = await running.client.get("/api/sessions")
    assert shell.status == 200
    assert sessions.code == (401, "unauthorized")


def test_the_wheel_holds_every_file_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    # The backend looks for its program on the path; it lies beside this Python.
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    name = uv_build.build_wheel(str(tmp_path))
    with zipfile.ZipFile(tmp_path / name) as wheel:
        packed = {one for one in wheel.namelist() if one.startswith("holdfast/page/")}
    assert packed >= {f"holdfast/page/{one}" for one in Page().names}
