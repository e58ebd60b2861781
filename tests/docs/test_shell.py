"""The commands that the first pages show: each is run as it stands, in order, in a fresh folder."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType

import pytest

from holdfast.cli.local_gateway import free_port
from tests.docs.test_programs import SECONDS_MAX, on_this_machine, serving
from tests.house.places import ROOT

PAGES = (
    "README.md",
    "docs/quickstart.md",
    "docs/operating.md",
    "docs/tutorials/team.md",
    "docs/how-to/costs.md",
    "docs/how-to/backup.md",
    "docs/how-to/postgres.md",
)
_FENCE = re.compile(r"^```sh\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
# What is not run, by how it begins, and why.
LEFT_OUT: Mapping[str, str] = MappingProxyType(
    {
        "git clone": "needs an address",
        "make ": "makes an environment of its own, as CI does",
        ". .venv/": "this environment is another",
        "pip install": "needs a package index",
        "export OPENAI_API_KEY": "needs a key",
        "createdb": "needs a server; tests/gateway/test_serve_on_postgres.py has one",
        "export HOLDFAST_": "means a server and a bucket; tests/stores has both",
    }
)
# Of a command that is otherwise run: what makes it need a provider or a server.
NEEDS_OTHERS = ("--model openai:", "--model anthropic:", "--base-url", "postgresql://")
# What a person types into a chat that waits for it.
TYPED = "remember berth = 17\n"
PORT = "8712"


def commands(page: str) -> Iterator[str]:
    """Yield the commands of a page: one per line, without what is said beside them."""
    for fence in _FENCE.finditer((ROOT / page).read_text("utf-8")):
        for line in fence["text"].replace("\\\n", " ").splitlines():
            if told := re.sub(r"(^|\s+)# .*$", "", line).strip():
                yield told


def is_run(command: str) -> bool:
    return not command.startswith(tuple(LEFT_OUT)) and not any(word in command for word in NEEDS_OTHERS)


def test_every_reason_to_leave_a_command_out_is_needed() -> None:
    shown = [command for page in PAGES for command in commands(page)]
    assert [start for start in LEFT_OUT if not any(command.startswith(start) for command in shown)] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_works_in_a_fresh_folder(page: str, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed, and the page shows requests with it")
    port = str(free_port())
    here = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    # The store is where a newcomer has it.
    settings = {**on_this_machine(tmp_path), "PATH": here, "HOLDFAST_GATEWAY_PORT": port}
    settings.pop("HOLDFAST_STORE")
    ran = 0
    with ExitStack() as stack:
        # A command that a page shows twice does the same twice, and a gateway is served once.
        for command in dict.fromkeys(filter(is_run, commands(page))):
            if command == "holdfast serve":
                # A request that is refused fails the command, and nothing is told beside the answer.
                (tmp_path / ".curlrc").write_text("silent\nshow-error\nfail-with-body\n", "utf-8")
                stack.enter_context(serving(tmp_path, "serve", settings=settings))
                continue
            done = subprocess.run(
                ["bash", "-euc", command.replace(PORT, port)],
                cwd=tmp_path,
                env=settings,
                input=TYPED,
                capture_output=True,
                text=True,
                timeout=SECONDS_MAX,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, ""), f"{command}: {done.stdout}"
            ran += 1
    assert ran > 1
