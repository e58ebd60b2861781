"""Reader of the neutral transcript format."""

import base64
import gzip
import json
from hashlib import sha256
from pathlib import Path

import pytest

from holdfast.errors import BadInputError
from holdfast.rescue import neutral
from holdfast.rescue.neutral import NeutralMessage, NeutralRole, read_neutral
from holdfast.types.messages import (
    BlobRef,
    Media,
    Message,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
)


def a_line(seq: int = 0, role: str = "user", session_id: str = "s", **fields: object) -> str:
    parts = fields.pop("parts", [{"type": "text", "text": f"message {seq}"}])
    return json.dumps({"session_id": session_id, "seq": seq, "role": role, "parts": parts, **fields})


def a_file(folder: Path, *lines: str) -> Path:
    path = folder / "transcript.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def the_parts(folder: Path, *parts: object) -> tuple[Part, ...]:
    [message] = read_neutral(a_file(folder, a_line(parts=parts)))
    return message.parts


def test_a_message_is_read_with_everything_that_stands_in_it(tmp_path: Path) -> None:
    path = a_file(
        tmp_path, a_line(7, "assistant", ts="2025-12-09T00:53:29Z", meta={"model": "m", "usage": {"input": 3}})
    )
    assert list(read_neutral(path)) == [
        NeutralMessage(
            session_id="s",
            seq=7,
            role=NeutralRole.ASSISTANT,
            parts=(Text("message 7"),),
            ts="2025-12-09T00:53:29Z",
            meta={"model": "m", "usage": {"input": 3}},
        )
    ]


def test_each_kind_of_part_becomes_ours(tmp_path: Path) -> None:
    parts = the_parts(
        tmp_path,
        {"type": "text", "text": "hello"},
        {"type": "text", "text": "hm", "kind": "thinking"},
        {"type": "tool_call", "id": "c1", "name": "read", "args": {"path": "a", "n": 1.50}},
        {"type": "tool_result", "id": "c1", "name": "read", "text": "done"},
        {"type": "tool_result", "id": "c2", "text": "no such file", "is_error": True},
        # Some agents number nothing.
        {"type": "tool_call", "id": None, "name": "ls", "args": "raw"},
        {"type": "tool_result", "id": None, "text": ""},
    )
    assert parts == (
        Text("hello"),
        Reasoning("hm"),
        ToolCall("c1", "read", '{"path": "a", "n": 1.5}'),
        ToolResult("c1", (Text("done"),)),
        ToolResult("c2", (Text("no such file"),), ToolOutcome.FAILED),
        ToolCall("", "ls", '"raw"'),
        ToolResult("", (Text(""),)),
    )


def test_arguments_keep_the_text_in_which_they_were_written(tmp_path: Path) -> None:
    line = a_line(parts=[{"type": "tool_call", "id": "1", "name": "x", "args": "ARGS"}])
    [message] = read_neutral(a_file(tmp_path, line.replace('"ARGS"', '{"n":1.50,  "s":"\\u00e9"}')))
    assert message.parts == (ToolCall("1", "x", '{"n":1.50,  "s":"\\u00e9"}'),)


def test_an_image_is_named_by_its_hash_and_its_bytes_are_at_hand(tmp_path: Path) -> None:
    body = b"\x89PNG not really"
    part = {"type": "image", "media_type": "image/png", "data_b64": base64.b64encode(body).decode()}
    [message] = read_neutral(a_file(tmp_path, a_line(parts=[part])))
    name = sha256(body).hexdigest()
    assert message.parts == (Media(BlobRef(name, len(body)), "image/png"),)
    assert message.blobs == {name: body}


def test_a_system_text_keeps_its_role_and_is_no_message_of_ours(tmp_path: Path) -> None:
    system, user = read_neutral(a_file(tmp_path, a_line(0, "system"), a_line(1, "user")))
    assert (system.role, system.message) == (NeutralRole.SYSTEM, None)
    assert user.message == Message(Role.USER, (Text("message 1"),))


def test_a_compressed_file_reads_like_a_plain_one(tmp_path: Path) -> None:
    plain = a_file(tmp_path, a_line(0), a_line(1))
    packed = tmp_path / "transcript.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert list(read_neutral(packed)) == list(read_neutral(plain))


def test_one_session_can_be_read_alone(tmp_path: Path) -> None:
    path = a_file(tmp_path, a_line(0, session_id="a"), a_line(0, session_id="b"), a_line(1, session_id="a"))
    assert [(message.session_id, message.seq) for message in read_neutral(path, "a")] == [("a", 0), ("a", 1)]


def test_two_objects_on_one_line_are_both_read(tmp_path: Path) -> None:
    path = a_file(tmp_path, a_line(0) + a_line(1), f"  {a_line(2)}  {a_line(3)} ", "", a_line(4))
    assert [message.seq for message in read_neutral(path)] == [0, 1, 2, 3, 4]


def test_half_of_an_emoji_is_replaced_and_the_rest_kept(tmp_path: Path) -> None:
    """FM-087: a lone surrogate must neither stop the rescue nor be carried along."""
    [message] = read_neutral(a_file(tmp_path, a_line(parts=[{"type": "text", "text": "a \ud83d b \U0001f600"}])))
    assert message.parts == (Text("a \ufffd b \U0001f600"),)


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        '{"session_id": "s"',
        '{"session_id": "s", "seq": 0, "role": "user"}',
        a_line(role="robot"),
        a_line(parts=[{"type": "video"}]),
        a_line(parts=[{"type": "image", "media_type": "image/png", "data_b64": "***"}]),
        a_line() + " rest",
        "[1]",
    ],
)
def test_a_line_that_is_no_message_is_named(tmp_path: Path, line: str) -> None:
    path = a_file(tmp_path, a_line(0), line, a_line(2))
    reading = read_neutral(path)
    assert next(reading).seq == 0
    with pytest.raises(BadInputError, match=r"transcript\.jsonl, line 2: not a message of the neutral format"):
        next(reading)


def test_bytes_that_are_no_text_are_named_by_their_line(tmp_path: Path) -> None:
    path = tmp_path / "transcript.jsonl"
    path.write_bytes(b"\xff\xfe\n")
    with pytest.raises(BadInputError, match="line 1"):
        list(read_neutral(path))


def test_a_damaged_archive_gives_what_it_has_and_then_says_so(tmp_path: Path) -> None:
    packed = tmp_path / "transcript.jsonl.gz"
    whole = gzip.compress("\n".join(a_line(seq, text=sha256(bytes(seq)).hexdigest()) for seq in range(999)).encode())
    packed.write_bytes(whole[: len(whole) // 2])
    reading = read_neutral(packed)
    assert next(reading).seq == 0
    with pytest.raises(BadInputError, match=r"after line \d+: the compressed file is damaged"):
        list(reading)


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neutral, "LINE_BYTES_MAX", 50)
    with pytest.raises(BadInputError, match=r"line 1: longer than 50 bytes"):
        list(read_neutral(a_file(tmp_path, a_line())))
