"""The steps of the image without a container engine: wheel, clean prefix, other user, read-only folder, health."""

import os
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.cli.programs import environment
from tests.house.places import ROOT

NOBODY = 65_534
HANGS_SECONDS = 120
_SERVE = """
import sys
import holdfast
print(holdfast.__file__, flush=True)
from holdfast.cli import main
sys.argv = ["holdfast", "serve"]
main()
"""


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which a wheel of this tree was installed, and nothing else."""
    folder = tmp_path_factory.mktemp("image")
    built = subprocess.run(
        [sys.executable, "-c", f"import uv_build; print(uv_build.build_wheel({str(folder)!r}))"],
        cwd=ROOT,
        # The build backend looks for its own program there.
        env={**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_SECONDS,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    target = folder / "site"
    installed = subprocess.run(
        [sys.executable, "-m", "zipfile", "-e", str(wheel), str(target)],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_SECONDS,
    )
    assert installed.returncode == 0, installed.stderr
    for path in (folder, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return target


def interpreter_of_nobody(prefix: Path) -> str:
    """Return an interpreter of this version that another user can start; "" if there is none."""
    if os.getuid() != 0:
        return ""
    usual = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    for program in (sys.executable, usual):
        try:
            done = subprocess.run(
                [program, "-c", f"import os; os.listdir({str(prefix)!r})"],
                user=NOBODY,
                group=NOBODY,
                extra_groups=[],
                capture_output=True,
                check=False,
                timeout=HANGS_SECONDS,
            )
        except OSError:
            continue
        if done.returncode == 0:
            return program
    return ""


def test_an_installed_wheel_serves_from_a_folder_that_it_cannot_write(prefix: Path, tmp_path: Path) -> None:
    data, root = tmp_path / "data", tmp_path / "root"
    data.mkdir(mode=0o700)
    root.mkdir()
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        if folder.stat().st_uid == os.getuid():
            folder.chmod(folder.stat().st_mode | 0o055)
    interpreter = interpreter_of_nobody(prefix)
    other = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if interpreter else {}
    if other:
        os.chown(data, NOBODY, NOBODY)
    root.chmod(0o555)
    # The prefix first: the dependencies come from the environment of the tests, Holdfast itself from the wheel.
    path = os.pathsep.join([str(prefix), sysconfig.get_paths()["purelib"]])
    settings = environment(
        PYTHONPATH=path,
        PYTHONDONTWRITEBYTECODE="1",
        HOME=str(data),
        HOLDFAST_STORE=str(data / "sessions.db"),
        HOLDFAST_GATEWAY_PORT="0",
    )
    program = subprocess.Popen(
        [interpreter or sys.executable, "-c", _SERVE],
        cwd=root,
        env=settings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **other,  # type: ignore[call-overload] # user and groups, or nothing
    )
    try:
        assert program.stdout is not None
        place = program.stdout.readline()
        line = program.stdout.readline()
        assert line.startswith("holdfast gateway on "), program.stderr and program.stderr.read()
        assert place.startswith(str(prefix)), place
        assert healthy(line.split()[-1])
    finally:
        program.terminate()
        program.communicate(timeout=HANGS_SECONDS)

    assert program.returncode == 0
    assert list(root.iterdir()) == []
    assert (data / "sessions.db").stat().st_uid == (NOBODY if other else os.getuid())


def healthy(url: str) -> bool:
    """Ask as the health check of the image does."""
    deadline = time.monotonic() + HANGS_SECONDS
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=4) as answer:
                return bool(answer.status == 200)
        except urllib.error.URLError:
            continue
    return False
