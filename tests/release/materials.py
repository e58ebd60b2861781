"""Bill of materials in CycloneDX form: locked dependencies, and the files of other projects in the package."""

import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from tests.house.places import PACKAGE

_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)==([^\s;\\]+)((?:.*\\\n)*.*)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_ROW = re.compile(r"^\| (`[^|]+`) \| `([^`]+)`.*? \| ([\d.]+) \| ([\w.-]+),", re.MULTILINE)
# Folders with files of other projects: a table in README.md, and checksums.txt.
_FOLDERS = (PACKAGE / "page/vendor", PACKAGE / "reference")


class Library(NamedTuple):
    """A library whose files are in the package, with the SHA-256 of each file."""

    name: str
    version: str
    licence: str
    files: dict[str, str]


def vendored() -> list[Library]:
    """Return the libraries of other projects in the package."""
    return [library for folder in _FOLDERS for library in _libraries(folder)]


def _libraries(folder: Path) -> list[Library]:
    lines = (folder / "checksums.txt").read_text().splitlines()
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    found = []
    for patterns, name, version, licence in _ROW.findall((folder / "README.md").read_text()):
        globs = re.findall(r"`([^`]+)`", patterns)
        files = {file: digest for file, digest in sums.items() if any(fnmatch(file, glob) for glob in globs)}
        found.append(Library(name, version, licence, files))
    return found


def bill_of_materials(version: str, lock: str, libraries: list[Library]) -> dict[str, Any]:
    """Return the components of a release, sorted by name, so that two runs are equal."""
    components: list[dict[str, Any]] = [
        {
            "type": "library",
            "name": name,
            "version": pinned,
            "purl": f"pkg:pypi/{name.lower()}@{pinned}",
            "hashes": [{"alg": "SHA-256", "content": content} for content in _HASH.findall(rest)],
        }
        for name, pinned, rest in _PIN.findall(lock)
    ]
    components += [
        {
            "type": "library",
            "name": one.name,
            "version": one.version,
            "purl": f"pkg:npm/{one.name.replace('@', '%40')}@{one.version}",
            "licenses": [{"license": {"id": one.licence}}],
            "components": [
                {"type": "file", "name": file, "hashes": [{"alg": "SHA-256", "content": digest}]}
                for file, digest in sorted(one.files.items())
            ],
        }
        for one in libraries
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "holdfast", "version": version}},
        "components": sorted(components, key=lambda one: one["name"]),
    }
