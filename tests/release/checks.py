"""Checks of a wheel, an sdist and their metadata. Each returns a sentence per problem."""

import re
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

# Files without which the installed package fails later than at its import.
_NEEDED = (
    "holdfast/py.typed",
    "holdfast/page/index.html",
    "holdfast/page/vendor/checksums.txt",
    "holdfast/stores/sql/sqlite/",
    "holdfast/stores/sql/postgres/",
)
_NOT_SHIPPED = re.compile(r"(?:^|/)(?:tests|__pycache__|\.venv|\.github|node_modules)/|\.py[co]$")
_LINK = re.compile(r"(\]\()(?!https?://|#|mailto:)([^)\s]+)(\))")
_IMAGES = (".png", ".svg", ".jpg", ".webp")


def changelog_problem(version: str, changelog: str) -> str:
    """Return a sentence if the changelog has no dated section for a version, else ""."""
    if re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d{{2}}-\d{{2}}$", changelog, re.MULTILINE):
        return ""
    return f"CHANGELOG.md has no section `## [{version}] - DATE`: date the section of this release"


def wheel_problems(wheel: Path) -> list[str]:
    """Check the files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    return _content_problems(wheel.name, names, _NEEDED)


def sdist_problems(sdist: Path) -> list[str]:
    """Check the files of an sdist."""
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    return _content_problems(sdist.name, names, (*(f"src/{name}" for name in _NEEDED), "README.md", "LICENSE"))


def _content_problems(archive: str, names: list[str], needed: tuple[str, ...]) -> list[str]:
    lacking = [name for name in needed if not any(one == name or one.startswith(name) for one in names)]
    extra = [name for name in names if _NOT_SHIPPED.search(name)]
    return [f"{archive} lacks {name}" for name in lacking] + [f"{archive} has {name}" for name in extra[:5]]


def metadata_problems(wheel: Path, repository: str) -> list[str]:
    """Check the metadata of a wheel; with a repository also that nothing in it leads to a relative path."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        metadata = message_from_string(archive.read(name).decode())
    problems = [
        f"the metadata has no {field}"
        for field in ("Summary", "Author", "License-Expression", "Requires-Python", "Keywords", "Classifier")
        if not metadata.get(field)
    ]
    if metadata.get("Description-Content-Type", "").partition(";")[0] != "text/markdown":
        problems.append("the description is not Markdown, so an index shows it as plain text")
    if repository:
        relative = [link[2] for link in _LINK.finditer(str(metadata.get_payload()))]
        problems += [f"README links to {link}, which leads nowhere on an index" for link in relative]
        problems += [] if metadata.get_all("Project-URL") else ["the metadata has no Project-URL"]
    return problems


def absolute_links(readme: str, repository: str, ref: str) -> str:
    """Return a README whose links to files of the repository are absolute; images lead to the file itself."""

    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if link[2].endswith(_IMAGES) else "blob"
        return f"{link[1]}{repository}/{kind}/{ref}/{link[2]}{link[3]}"

    return _LINK.sub(absolute, readme)
