"""The generator of golden files writes over nothing by itself."""

from pathlib import Path

import pytest

from tests.golden import generate

NAME = "records_full.jsonl"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a golden file in it, and a generator that makes no other."""

    async def make(made: Path) -> None:
        (made / NAME).write_text("new")

    monkeypatch.setattr(generate, "make", make)
    (tmp_path / NAME).write_text("old")
    return tmp_path


def test_an_existing_file_is_not_written_over(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main([], folder) == 1
    assert (folder / NAME).read_text() == "old"
    assert f"{NAME} exists" in capsys.readouterr().err


def test_an_existing_file_is_written_over_where_this_is_wanted(folder: Path) -> None:
    assert generate.main(["--force"], folder) == 0
    assert (folder / NAME).read_text() == "new"


def test_files_are_made_where_there_are_none(folder: Path) -> None:
    assert generate.main([], folder / "empty") == 0
    assert (folder / "empty" / NAME).read_text() == "new"


def test_an_unknown_argument_is_refused(folder: Path) -> None:
    assert generate.main(["--frobnicate"], folder) == 2
    assert (folder / NAME).read_text() == "old"
