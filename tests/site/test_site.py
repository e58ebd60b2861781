"""The documentation site: every page is in its navigation, and nothing in it needs a network. `make site` builds it."""

import hashlib
import re

import pytest

from tests.house.places import ROOT
from tests.site.hook import PAGES, adapted, foreign_sources, independent

_DOCS = ROOT / "docs"
_NAVIGATION = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
_LISTED = set(re.findall(r"(?:: |- )([\w./-]+\.md)$", _NAVIGATION, re.MULTILINE))
_PAGES = {path.relative_to(_DOCS).as_posix() for path in _DOCS.rglob("*.md")}


def test_the_navigation_has_every_page_and_no_other() -> None:
    assert sorted(_LISTED) == sorted(_PAGES | set(PAGES))


def test_the_index_leads_to_every_page() -> None:
    text = (_DOCS / "index.md").read_text("utf-8")
    linked = set(re.findall(r"\]\(([\w./-]+\.md)", text))
    assert sorted({page for page in _PAGES if not page.startswith("adapters/")} - linked - {"index.md"}) == []


def test_every_page_begins_with_whom_it_is_for() -> None:
    begins = {page: (_DOCS / page).read_text("utf-8").split("\n", 3)[2] for page in sorted(_PAGES)}
    assert {page: line for page, line in begins.items() if not line.startswith("For ")} == {}


@pytest.mark.parametrize(
    ("markdown", "depth", "expected"),
    [
        ("[a](../SECURITY.md#x)", 0, "[a](reporting.md#x)"),
        ("[a](../../CHANGELOG.md)", 1, "[a](../changelog.md)"),
        ("[a](../README.md#what-it-does-not-do)", 0, "[a](index.md)"),
        ("```python runnable\ncode\n```", 0, "```python\ncode\n```"),
        ("[a](guarantees.md)", 0, "[a](guarantees.md)"),
    ],
)
def test_pages_are_adapted_to_the_site(markdown: str, depth: int, expected: str) -> None:
    assert adapted(markdown, depth=depth) == expected


def test_a_source_of_another_host_is_found_and_a_link_is_not() -> None:
    html = '<a href="https://semver.org">x</a><script src="https://cdn.example/x.js"></script><img src="images/a.png">'
    assert foreign_sources(html) == ["https://cdn.example/x.js"]


def test_a_page_that_loads_from_another_host_fails_the_build() -> None:
    assert independent('<script src="https://unpkg.com/iframe-worker/shim"></script>', "a", up="../") == (
        '<script src="../assets/iframe-worker.js"></script>'
    )
    with pytest.raises(ValueError, match="without a network"):
        independent('<script src="https://cdn.example/x.js"></script>', "a", up="")


def test_the_vendored_shim_is_unchanged() -> None:
    content = (_DOCS / "assets/iframe-worker.js").read_bytes()
    assert hashlib.sha256(content).hexdigest() == "e8e412dbcfea9b7e31b5ffa288d7b6035915e714c542f4176a0cdbe262fc9609"
