"""Settings of all tests: hypothesis profiles, assertion rewriting of the store contracts, and shared fixtures."""

import os
import tempfile

import pytest
from hypothesis import settings
from hypothesis.configuration import set_hypothesis_home_dir

# No deadline: a busy machine is not a failure. No database: a run leaves nothing behind and repeats nothing.
# HOLDFAST_EXAMPLES=1000 searches longer where a test does not set its own number.
settings.register_profile(
    "local", deadline=None, database=None, max_examples=int(os.environ.get("HOLDFAST_EXAMPLES", "50"))
)
# The same examples in every CI run: a failure is caused by the change.
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "local")

# The contracts are plain modules: pytest must know them before the first import.
for _contract in (
    "store_fixture",
    "log_contract",
    "lease_contract",
    "sealing_contract",
    "repair_contract",
    "blob_contracts",
    "key_contract",
):
    pytest.register_assert_rewrite(f"holdfast.testing.{_contract}")

# The PostgreSQL server, for the tests of every folder.
pytest_plugins = ("tests.stores.postgres_server",)

_FOLDER = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def pytest_configure(config: pytest.Config) -> None:
    # Besides its database hypothesis stores the constants it finds in our code; remove them with the run.
    config.stash[_FOLDER] = tempfile.TemporaryDirectory(prefix="holdfast-hypothesis-")
    set_hypothesis_home_dir(config.stash[_FOLDER].name)


def pytest_unconfigure(config: pytest.Config) -> None:
    set_hypothesis_home_dir(None)
    config.stash[_FOLDER].cleanup()
