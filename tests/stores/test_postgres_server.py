"""The server of the tests: what happens where there is none, and that it goes with the run."""

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.stores.postgres_server import _is_alive, _started, unavailable


def test_without_a_server_a_test_fails_in_ci_and_is_skipped_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no server here"):
        unavailable("no server here")

    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="no server here"):
        unavailable("no server here")


def test_the_server_ends_with_the_run_and_leaves_nothing_behind() -> None:
    run = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    said = _started(run.pid)
    if "why_not" in said:
        run.communicate(b"\n")
        unavailable(said["why_not"])
    folder = Path(parse_qs(urlsplit(said["url"]).query)["host"][0])
    server = int((folder / "cluster" / "postmaster.pid").read_text().split()[0])
    assert _is_alive(server)

    run.communicate(b"\n")
    os.waitpid(int(said["keeper"]), 0)

    assert not _is_alive(server)
    assert not folder.exists()
