"""What holds for every test: how properties are searched for, and that the search leaves nothing behind."""

import os
import tempfile

import pytest
from hypothesis import settings
from hypothesis.configuration import set_hypothesis_home_dir

# No deadline: a busy machine is not a failure. No database: a run leaves nothing behind and repeats nothing.
settings.register_profile("local", deadline=None, database=None)
# In CI the same examples every time: a red build is about the change, not about luck.
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "local")

_FOLDER = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def pytest_configure(config: pytest.Config) -> None:
    # Besides its database hypothesis keeps the constants it finds in our code; they go with the run.
    config.stash[_FOLDER] = tempfile.TemporaryDirectory(prefix="holdfast-hypothesis-")
    set_hypothesis_home_dir(config.stash[_FOLDER].name)


def pytest_unconfigure(config: pytest.Config) -> None:
    set_hypothesis_home_dir(None)
    config.stash[_FOLDER].cleanup()
