"""Bill of materials in CycloneDX form: locked dependencies, and the vendored files of the page."""

import re
from typing import Any

from tests.house.places import PACKAGE

_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)==([^\s;\\]+)((?:.*\\\n)*.*)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_ROW = re.compile(r"^\| `[^`]+` \| `([^`]+)`.*? \| ([\d.]+) \| ([\w.-]+),", re.MULTILINE)


def vendored() -> list[tuple[str, str, str]]:
    """Return name, version and licence of the libraries in the page's folder."""
    return _ROW.findall((PACKAGE / "page/vendor/README.md").read_text())


def bill_of_materials(version: str, lock: str, libraries: list[tuple[str, str, str]]) -> dict[str, Any]:
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
            "name": name,
            "version": bundled,
            "purl": f"pkg:npm/{name.replace('@', '%40')}@{bundled}",
            "licenses": [{"license": {"id": licence}}],
        }
        for name, bundled, licence in libraries
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "holdfast", "version": version}},
        "components": sorted(components, key=lambda one: one["name"]),
    }
