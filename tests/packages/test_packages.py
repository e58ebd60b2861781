"""The extensions in packages/ pass their own tests, against a gateway of this source tree."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.programs import PROGRAM, environment

PACKAGES = Path(__file__).parents[2] / "packages"
NODE = shutil.which("node")
NODE_MIN = 20
# Each starts a gateway; a real host, where one is installed, takes half a minute.
SECONDS_MAX = 300


def node_version() -> int:
    if NODE is None:
        return 0
    shown = subprocess.run([NODE, "--version"], capture_output=True, check=True).stdout.decode()
    return int(shown.removeprefix("v").partition(".")[0])


@pytest.mark.skipif(node_version() < NODE_MIN, reason=f"node {NODE_MIN} or newer is not installed")
@pytest.mark.parametrize("name", sorted(path.parent.name for path in PACKAGES.glob("*/*.test.mjs")))
def test_a_package_passes_its_own_tests(name: str) -> None:
    assert NODE is not None
    settings = {"PACKAGES_COMMAND": json.dumps(PROGRAM), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    words = [NODE, "--test", "--test-reporter=tap", str(PACKAGES / name / "holdfast.test.mjs")]
    ended = subprocess.run(
        words, capture_output=True, env=environment(**settings), timeout=SECONDS_MAX, check=False, cwd=PACKAGES
    )
    told = ended.stdout.decode() + ended.stderr.decode()
    assert ended.returncode == 0, told
    # A file without a test would pass too.
    passed = re.search(r"^# pass (\d+)$", told, re.MULTILINE)
    assert passed is not None, told
    assert int(passed[1]) > 0, told


def test_every_package_has_a_readme_that_names_its_versions() -> None:
    names = [path.parent for path in PACKAGES.glob("*/holdfast.mjs")]
    assert len(names) == 4
    for folder in names:
        text = (folder / "README.md").read_text("utf-8")
        assert re.search(r"^\| .* \| \d+\.\d+\.\d+ \|", text, re.MULTILINE), folder
