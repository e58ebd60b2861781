"""The public names: all of them there, and none that is not."""

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
