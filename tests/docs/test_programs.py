"""The programs in examples/: each is run as it stands, and prints what it says."""

import ast
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.cli.programs import PROGRAM
from tests.docs.test_examples import without_keys_and_network
from tests.house.places import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# On a busy machine, importing a client alone has taken most of a minute.
SECONDS_MAX = 240
GATEWAY_NEEDED = {"openai_client.py", "watch_events.py"}


def printed(program: Path) -> str:
    """Return what the docstring of a program says that it prints."""
    told = ast.get_docstring(ast.parse(program.read_text("utf-8")), clean=True) or ""
    return textwrap.dedent(told.partition("t prints:\n")[2].lstrip("\n")) + "\n"


def on_this_machine(folder: Path) -> dict[str, str]:
    """Return an environment for programs that talk to each other here: without keys, and with no proxy in between."""
    settings = without_keys_and_network(folder)
    return {name: value for name, value in settings.items() if not name.lower().endswith("_proxy")}


@contextmanager
def serving(folder: Path, *arguments: str, settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """Run a command that serves until the end of the context, and give its address."""
    started = subprocess.Popen(
        [*PROGRAM, *arguments],
        cwd=folder,
        env=dict(settings) if settings is not None else on_this_machine(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with started:
        try:
            assert started.stdout is not None
            yield started.stdout.readline().decode().split()[-1]
        finally:
            started.kill()


@contextmanager
def a_gateway(folder: Path) -> Iterator[str]:
    with ExitStack() as stack:
        provider = stack.enter_context(serving(folder, "sim", "--window", "4000"))
        upstream = f"upstream.openai_base_url={provider}/v1"
        yield stack.enter_context(serving(folder, "serve", "--port", "0", "--set", upstream))


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda program: program.name)
def test_a_program_runs_and_prints_what_it_says(program: Path, tmp_path: Path) -> None:
    settings = without_keys_and_network(tmp_path)
    with ExitStack() as stack:
        if program.name in GATEWAY_NEEDED:
            settings = {**on_this_machine(tmp_path), "HOLDFAST_URL": stack.enter_context(a_gateway(tmp_path))}
        done = subprocess.run(
            [sys.executable, "-W", "error", program],
            cwd=tmp_path,
            env=settings,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == printed(program)


def test_there_are_examples_and_each_says_what_it_prints() -> None:
    assert len(EXAMPLES) >= 6
    assert {program.name for program in EXAMPLES} >= GATEWAY_NEEDED
    assert [program.name for program in EXAMPLES if not printed(program).strip()] == []


def test_the_page_on_fastapi_shows_a_part_of_the_example_as_it_is() -> None:
    page = (ROOT / "docs/how-to/fastapi.md").read_text("utf-8")
    shown = page.partition("```python\n")[2].partition("```")[0].partition("import holdfast\n\n\n")[2]
    assert shown
    assert shown in (ROOT / "examples/fastapi_stream.py").read_text("utf-8")
