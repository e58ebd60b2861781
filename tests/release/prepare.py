"""Name the next version everywhere it is written: `python -m tests.release.prepare VERSION`.

It changes files and nothing else: read the difference, commit it, and run `make release-check`.
"""

import argparse
import re
import sys
import tomllib
from datetime import UTC, date, datetime
from pathlib import Path

from tests.house.places import ROOT

# File -> what stands around its version.
PLACES = {
    "pyproject.toml": '\nversion = "{}"\n',
    "deploy/compose.yml": "image: holdfast:{}\n",
    "deploy/compose.cluster.yml": "image: holdfast:{}\n",
    "deploy/kubernetes/deployment.yml": "image: holdfast:{}\n",
    "deploy/kubernetes/first-key.yml": "image: holdfast:{}\n",
    "packages/ai-sdk/package.json": '"version": "{}",\n',
    "packages/openclaw/holdfast.mjs": 'version: "{}",\n',
    "packages/openclaw/package.json": '"version": "{}",\n',
    "packages/opencode/package.json": '"version": "{}",\n',
    "packages/pi/package.json": '"version": "{}",\n',
}
_UNRELEASED = "## [Unreleased]\n"
_VERSION = re.compile(r"\d+\.\d+\.\d+")


def renamed(root: Path, version: str) -> dict[Path, str]:
    """Return the files that have the version, with another. Raises `ValueError` where a file has it not once."""
    current = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    found = {}
    for name, around in PLACES.items():
        text = (root / name).read_text("utf-8")
        if text.count(around.format(current)) != 1:
            raise ValueError(f"{name} does not have the version {current} once, as {around.format(current)!r}")
        found[root / name] = text.replace(around.format(current), around.format(version))
    return found


def dated(changelog: str, version: str, day: date) -> str:
    """Return a changelog in which what was unreleased is a version. Raises `ValueError` if that is there already."""
    if changelog.count(_UNRELEASED) != 1 or f"## [{version}]" in changelog:
        raise ValueError(f"the changelog must have {_UNRELEASED.strip()} once, and no [{version}]")
    return changelog.replace(_UNRELEASED, f"{_UNRELEASED}\n## [{version}] - {day.isoformat()}\n")


def main() -> int:
    """Write the version into all files."""
    parser = argparse.ArgumentParser(prog="python -m tests.release.prepare", description=__doc__)
    parser.add_argument("version")
    version = parser.parse_args().version
    if not _VERSION.fullmatch(version):
        parser.error("a version is three numbers, such as 0.2.0")
    changelog = ROOT / "CHANGELOG.md"
    changes = renamed(ROOT, version)
    changes[changelog] = dated(changelog.read_text("utf-8"), version, datetime.now(UTC).date())
    for path, text in changes.items():
        path.write_text(text, "utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
