"""Where a Chromium is, or why there is none."""

import os
import shutil

import pytest

# Never downloaded: a browser of the system, without a sandbox because CI is root, and without calls to its maker.
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_MISSING = "the page is tested in a real Chromium and there is none; get one with `apt-get install chromium`"


def chromium_path() -> str:
    """Return the path of a Chromium. Skips the test where there is none, or fails it in CI."""
    found = os.environ.get("HOLDFAST_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail(_MISSING)
        pytest.skip(_MISSING)
    return found
