"""The public names: all of them there, and none that is not."""

import os
import subprocess
import sys

import pytest

import holdfast


def test_every_public_name_can_be_used() -> None:
    assert sorted(holdfast._HOMES) == sorted(holdfast.__all__) == dir(holdfast)
    for name in holdfast.__all__:
        assert getattr(holdfast, name) is not None


def test_a_name_that_is_not_there_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="'opne'"):
        holdfast.opne  # type: ignore[attr-defined] # noqa: B018 - that it is not there is the point


def test_importing_the_package_loads_nothing_that_takes_time() -> None:
    program = (
        "import sys, holdfast; print(sorted({'asyncio', 'msgspec', 'apsw', 'aiohttp', 'click'} & set(sys.modules)))"
    )

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert run.stdout.strip() == "[]"


def test_loading_every_public_name_loads_no_server_no_provider_and_no_summaries() -> None:
    """They take longer than all public names together, and a program that sends one message needs few of them."""
    program = (
        "import sys, holdfast; [getattr(holdfast, name) for name in holdfast.__all__]; print(*sorted(sys.modules))"
    )
    # Without the measurement of coverage, which loads modules of its own.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    loaded = run.stdout.split()

    heavy = {"aiohttp", "apsw", "click", "httpx", "jsonschema", "mcp", "PIL", "prompt_toolkit", "psycopg", "pydantic"}
    ours = {"holdfast.runtime.engine.compaction", "holdfast.core.compaction.digest", "holdfast.gateway.http.app"}
    assert sorted((heavy | ours | {"rich", "starlette", "yarl"}) & set(loaded)) == []
    assert len(loaded) < 340, "each module takes time; import late what few programs need"
