"""A stored log: its records are what the script says, and mean after each record what they meant."""

import msgspec
import pytest

from holdfast.types.records import Logged
from tests.golden.derived import values_after_each
from tests.golden.files import json_line, read_lines
from tests.golden.script import CLIENT_LOG, LOG

LOGS = {"log": LOG, "client_log": CLIENT_LOG}
NAMED = pytest.mark.parametrize("name", LOGS)


def _records(name: str) -> list[Logged]:
    return [msgspec.json.decode(line, type=Logged) for line in read_lines(f"{name}.jsonl")]


@NAMED
def test_a_stored_log_is_read_as_it_was_written(name: str) -> None:
    records = _records(name)

    assert records == list(LOGS[name])
    assert [msgspec.json.encode(logged) for logged in records] == read_lines(f"{name}.jsonl")


@NAMED
def test_after_each_record_a_session_stands_where_it_stood(name: str) -> None:
    _, values = values_after_each(_records(name))

    # Through JSON, as the file was.
    found = [msgspec.json.decode(json_line(line)) for line in values]
    stored = [msgspec.json.decode(line) for line in read_lines(f"{name}_values.jsonl")]
    for line, expected in zip(found, stored, strict=True):
        assert line == expected


@NAMED
def test_the_model_sees_the_messages_that_it_saw(name: str) -> None:
    messages, _ = values_after_each(_records(name))

    assert [message.encode() for message in messages] == read_lines(f"{name}_messages.jsonl")
