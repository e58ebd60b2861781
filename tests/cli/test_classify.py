"""`holdfast classify` and `holdfast bench faults` over small files."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from holdfast.cli.commands.analysis import classify
from holdfast.errors import BadInputError
from holdfast.lab.benches.faults import (
    Figures,
    KindFigures,
    Miss,
    Part,
    Report,
    corpus_file,
    faults,
    measure,
    part_of,
    read_labelled,
)
from tests.cli.programs import holdfast


def a_file(folder: Path, *rows: object) -> Path:
    path = folder / "errors.jsonl"
    path.write_bytes(b"\n".join(row if isinstance(row, bytes) else msgspec.json.encode(row) for row in rows) + b"\n")
    return path


def test_each_row_gets_one_line(tmp_path: Path) -> None:
    path = a_file(
        tmp_path,
        {"id": "a", "status": 400, "body": {"message": "prompt is too long: 9000 tokens > 8192 maximum"}, "kind": "?"},
        {"id": 2, "status": "429", "headers": {"retry-after": 7}, "body": "slow down"},
        {"body": None, "status": 413, "provider": "cerebras"},
        b"",
    )
    result = CliRunner().invoke(classify, [str(path)])
    blank = {"alt_kind": None, "limit": None, "requested": None, "unit": None, "retry_after": None}
    assert [msgspec.json.decode(line) for line in result.stdout.splitlines()] == [
        {
            **blank,
            "id": "a",
            "kind": "token_overflow",
            "confidence": "certain",
            "limit": 8192,
            "requested": 9000,
            "unit": "tokens",
        },
        {**blank, "id": 2, "kind": "rate_limit", "confidence": "certain", "retry_after": 7.0},
        {
            **blank,
            "id": None,
            "kind": "token_overflow",
            "alt_kind": "wire_overflow",
            "confidence": "likely",
            "unit": "tokens",
        },
    ]
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"symptom": "no_first_byte", "stream": True, "body": "accepted"}, "stream_stall"),
        ({"symptom": "silence_after_first_chunk", "status": 200, "body": 'data: {"x": 1}'}, "stream_stall"),
        ({"symptom": "early_close", "stream": True, "status": 200, "body": ""}, "stream_stall"),
        ({"symptom": "empty", "status": 200, "body": {"choices": []}}, "empty_response"),
        (
            {
                "symptom": "silent_overflow",
                "status": 200,
                "window": 100,
                "body": {"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": 101}},
            },
            "token_overflow",
        ),
    ],
)
def test_what_came_without_an_error_is_read_by_its_symptom(tmp_path: Path, row: dict[str, object], kind: str) -> None:
    result = CliRunner().invoke(classify, [str(a_file(tmp_path, row))])
    assert msgspec.json.decode(result.stdout)["kind"] == kind


def test_a_bad_line_is_named_and_the_others_are_still_classified(tmp_path: Path) -> None:
    path = a_file(tmp_path, {"id": 1, "status": 401}, b"{oops", b"[1]", b"\xff", {"id": 5, "status": 402})
    result = CliRunner().invoke(classify, [str(path)])
    assert [msgspec.json.decode(line)["id"] for line in result.stdout.splitlines()] == [1, 5]
    assert [line.split(" is ")[0] for line in result.stderr.splitlines()] == ["line 2", "line 3", "line 4"]
    assert result.exit_code == 2


LABELLED = (
    {"id": 1, "status": 400, "body": "prompt is too long: 9 tokens > 8 maximum", "kind": "token_overflow", "limit": 8},
    {"id": 2, "status": 401, "kind": "quota", "requested": 7},
    {"id": 3, "status": 402, "kind": "auth", "alt_kind": "quota"},
)


def test_figures_count_what_is_right_and_name_what_is_not(tmp_path: Path) -> None:
    assert measure(read_labelled(a_file(tmp_path, *LABELLED))) == Figures(
        rows=3,
        kinds_right=2,
        limits_stated=1,
        limits_right=1,
        requests_stated=1,
        requests_right=0,
        certain=1,
        certain_right=1,
        kinds=(
            KindFigures("auth", labelled=1, given=2, right=1),
            KindFigures("quota", labelled=1, given=0, right=0),
            KindFigures("token_overflow", labelled=1, given=1, right=1),
        ),
        misses=(Miss(2, "kind", "quota", "auth"), Miss(2, "requested", 7, None)),
    )


def test_the_bench_prints_a_table_or_json(tmp_path: Path) -> None:
    unseen = {"id": 4, "provider": "groq", "status": 401, "kind": "auth"}
    path = a_file(tmp_path, *LABELLED, unseen)
    table = CliRunner().invoke(faults, ["--corpus", str(tmp_path)])
    as_json = CliRunner().invoke(faults, ["--json"], env={"HOLDFAST_CORPUS": str(path)})
    assert table.stdout == (
        "providers that the classifier is not fitted to\n"
        "kinds          1 of 1 correct (100.0%)\n"
        "certain        0 of 0 correct\n"
        "limits         0 of 0 correct where stated\n"
        "requested      0 of 0 correct where stated\n"
        "\n"
        "kind                      rows  precision  recall\n"
        "auth                         1     100.0%  100.0%\n"
        "\n"
        "all rows\n"
        "kinds          3 of 4 correct (75.0%)\n"
        "certain        1 of 1 correct\n"
        "limits         1 of 1 correct where stated\n"
        "requested      0 of 1 correct where stated\n"
        "\n"
        "kind                      rows  precision  recall\n"
        "auth                         2      66.7%  100.0%\n"
        "quota                        1     100.0%    0.0%\n"
        "token_overflow               1     100.0%  100.0%\n"
        "\n"
        "2: kind is quota, got auth\n"
        "2: requested is 7, got None\n"
    )
    rows = read_labelled(path)
    assert msgspec.json.decode(as_json.stdout, type=Report) == Report(frozen=measure(rows[3:]), all=measure(rows))


def test_services_of_one_provider_are_in_one_part() -> None:
    """The classifier would know a frozen provider's sentences from its other services."""
    assert part_of("azure-openai") is part_of("OpenAI") is part_of("codex")
    assert {part_of("groq"), part_of("bedrock-titan"), part_of("openai")} == set(Part)


def test_a_corpus_that_is_not_there_or_is_damaged_is_said(tmp_path: Path) -> None:
    missing = holdfast("bench", "faults", "--corpus", tmp_path)
    damaged = holdfast("bench", "faults", "--corpus", a_file(tmp_path, b"{oops"))
    assert (missing.returncode, damaged.returncode) == (2, 2)
    assert b"there is no file of errors at" in missing.stderr
    assert b"line 1 is not a valid row" in damaged.stderr


def test_the_file_is_found_below_a_folder_of_corpora(tmp_path: Path) -> None:
    below = tmp_path / "provider-errors"
    below.mkdir()
    assert corpus_file(tmp_path / "provider-errors" / ".." / "provider-errors" / a_file(below).name).is_file()
    assert corpus_file(tmp_path) == below / "errors.jsonl"
    with pytest.raises(BadInputError):
        corpus_file(tmp_path / "elsewhere")
