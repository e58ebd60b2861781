"""The generated parts of the docs are up to date."""

from pathlib import Path

import pytest

from tests.house.generate import GENERATED, Generated, MarkersMissingError, ladder_table, main, outdated, state_diagram
from tests.house.places import ROOT

PART = Generated("page.md", "greeting", lambda: "hello")


def test_the_docs_are_up_to_date() -> None:
    assert [path.name for path in outdated(ROOT)] == [], "run `make docs`"


def test_the_diagram_has_every_way_out_of_a_running_tool() -> None:
    lines = state_diagram().splitlines()
    assert lines[:3] == ["```mermaid", "stateDiagram-v2", "    [*] --> rest"]
    assert "    tools --> ready: nothing runs any more" in lines
    assert "    model --> ready: ReplyRecorded, AttemptFailed, AttemptAbandoned" in lines


def test_the_ladder_names_a_repeated_rung_once_with_its_number() -> None:
    assert "| rate_limit | back_off (up to 3 times) · next_model |" in ladder_table().splitlines()


def _page(folder: Path, inside: str) -> Path:
    page = folder / "page.md"
    page.write_text(f"# Page\n{PART.begin}\n\n{inside}\n\n{PART.end}\nby hand\n")
    return page


def test_only_what_is_between_the_markers_changes(tmp_path: Path) -> None:
    page = _page(tmp_path, "bonjour")
    assert outdated(tmp_path, (PART,)) == {page: f"# Page\n{PART.begin}\n\nhello\n\n{PART.end}\nby hand\n"}


def test_a_page_that_is_up_to_date_is_left_alone(tmp_path: Path) -> None:
    _page(tmp_path, "hello")
    assert outdated(tmp_path, (PART,)) == {}


@pytest.mark.parametrize(
    "text",
    [
        "# Page\n",
        f"{PART.begin}\n",
        f"{PART.end}\n{PART.begin}\n",
        f"{PART.begin}\n{PART.end}\n{PART.begin}\n{PART.end}\n",
        f"{PART.end}\n{PART.begin}\n{PART.end}\n",
    ],
)
def test_a_page_without_its_markers_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "page.md").write_text(text)
    with pytest.raises(MarkersMissingError, match=r"page\.md must have these two lines once"):
        outdated(tmp_path, (PART,))


def test_the_command_checks_writes_and_then_has_nothing_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = sorted({part.path for part in GENERATED})
    for path in pages:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("".join(f"{part.begin}\n{part.end}\n" for part in GENERATED if part.path == path))

    codes = [main(arguments, tmp_path) for arguments in (["--check"], [], ["--check"], ["--frobnicate"])]

    assert codes == [1, 0, 0, 2]
    assert capsys.readouterr().out == (
        "".join(f"{path} is out of date: run `make docs`\n" for path in pages)
        + "".join(f"{path} written\n" for path in pages)
    )
    assert state_diagram() in (tmp_path / "docs" / "architecture.md").read_text()
