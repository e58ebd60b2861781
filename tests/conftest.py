"""What holds for every test: how properties are searched for, what is explained, and that nothing is left behind."""

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

# The contracts are plain modules, and whoever imports one first decides: pytest must be told here, before anybody does.
for _contract in (
    "store_fixture",
    "log_contract",
    "lease_contract",
    "sealing_contract",
    "repair_contract",
    "blob_contracts",
):
    pytest.register_assert_rewrite(f"holdfast.testing.{_contract}")

# The server of the PostgreSQL tests, for every room.
pytest_plugins = ("tests.stores.postgres_server",)

_FOLDER = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def pytest_configure(config: pytest.Config) -> None:
    # Besides its database hypothesis keeps the constants it finds in our code; they go with the run.
    config.stash[_FOLDER] = tempfile.TemporaryDirectory(prefix="holdfast-hypothesis-")
    set_hypothesis_home_dir(config.stash[_FOLDER].name)


def pytest_unconfigure(config: pytest.Config) -> None:
    set_hypothesis_home_dir(None)
    config.stash[_FOLDER].cleanup()
