"""Hook of the documentation site (mkdocs.yml): adapt pages to it, and fail the build if it would need a network.

Files above docs/ become pages, and links to them follow. Words behind the language of a code block are for the tests.
The search of a site opened from a disk needs a shim, which the theme would load from elsewhere; docs/assets has it.
"""

import re
from pathlib import Path
from typing import Any

# Page of the site -> file of the repository.
PAGES = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md", "reporting.md": "SECURITY.md"}
_UP = re.compile(r"\]\((?:\.\./)*(CHANGELOG|CONTRIBUTING|SECURITY|CODE_OF_CONDUCT)\.md")
_DOWN = re.compile(r"\]\(docs/")
_README = re.compile(r"\]\((?:\.\./)+README\.md(?:#[\w-]*)?\)")
_FENCE = re.compile(r"^(```[a-z]+) [a-z ]+$", re.MULTILINE)
_SHIM = re.compile(r"https://unpkg\.com/iframe-worker/shim")
_FOREIGN = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"?(https?://[^\"\s>]+)")
_HOMES = {Path(name).stem: page for page, name in PAGES.items()}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are files of the repository."""
    from mkdocs.structure.files import File  # type: ignore[import-not-found] # noqa: PLC0415 - in the site's environment

    root = Path(config["config_file_path"]).parent
    for page, name in PAGES.items():
        files.append(File.generated(config, page, content=_DOWN.sub("](", (root / name).read_text("utf-8"))))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Adapt links and code blocks of a page."""
    return adapted(markdown, depth=page.file.src_uri.count("/"))


def adapted(markdown: str, *, depth: int) -> str:
    """Return the Markdown of a page as the site reads it. `depth` counts the folders above the page."""
    up = "../" * depth
    markdown = _UP.sub(lambda link: f"]({up}{_HOMES.get(link[1], 'contributing.md')}", markdown)
    markdown = _README.sub(f"]({up}index.md)", markdown)
    return _FENCE.sub(r"\1", markdown)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Make a page independent of other hosts."""
    return independent(output, page.file.src_uri, up="../" * page.file.src_uri.count("/"))


def on_post_template(output: str, template_name: str, **_: Any) -> str:
    """Make the page for wrong addresses independent of other hosts."""
    return independent(output, template_name, up="")


def independent(html: str, name: str, *, up: str) -> str:
    """Load the shim of the search from the site itself. Raises `ValueError` if the page loads anything else."""
    html = _SHIM.sub(f"{up}assets/iframe-worker.js", html)
    if foreign := foreign_sources(html):
        raise ValueError(f"{name} loads {foreign[0]}: a reader without a network would miss it")
    return html


def foreign_sources(html: str) -> list[str]:
    """Return the addresses of other hosts that a page loads when it is shown."""
    return list(_FOREIGN.findall(html))
