"""Every format is read as the same conversation; damage is repaired once, with a copy, and nothing is lost."""

import base64
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from holdfast.errors import BadInputError, RetryLaterError, UsageError
from holdfast.rescue.diagnosis import Trouble, diagnose, window_of
from holdfast.rescue.files import BACKUP_MARK
from holdfast.rescue.formats.base import INTERRUPTED, ForeignSession, SessionRef, read_lines
from holdfast.rescue.neutral import NeutralRole
from holdfast.rescue.sessions import Listed, find_session, list_sessions, read_session, rescue_in_place
from holdfast.types.messages import Text, ToolCall, ToolResult
from tests.rescue.foreign import (
    ANSWER,
    CALL,
    CWD,
    LINE_FORMATS,
    LONG_AGO,
    OUTPUT,
    QUESTION,
    WRITERS,
    found,
    lines,
    made,
    rows,
    task,
)

WINDOW = 20_000
# 6 MB, as base64.
IMAGE = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(6 * 2**20)).decode()


def shown(session: ForeignSession) -> list[tuple[str, str]]:
    """Return a conversation as roles and texts."""
    told: list[tuple[str, str]] = []
    for message in session.messages:
        if message.role is NeutralRole.SYSTEM:
            continue
        for part in message.parts:
            match part:
                case Text(text=text):
                    told.append((message.role.value, text))
                case ToolCall(arguments=arguments):
                    told.append((message.role.value, json.dumps(json.loads(arguments))))
                case ToolResult(parts=(Text(text=text),)):
                    told.append((message.role.value, text.strip('"')))
                case _:
                    told.append((message.role.value, "?"))
    return told


WHOLE = [("user", QUESTION), ("assistant", json.dumps(CALL)), ("tool", OUTPUT), ("assistant", ANSWER)]


@pytest.mark.parametrize("agent", WRITERS)
def test_every_format_is_read_as_the_same_conversation(agent: str, tmp_path: Path) -> None:
    session = read_session(made(agent, tmp_path))
    assert shown(session) == WHOLE
    assert session.context == session.messages
    assert diagnose(session).symptoms == ()


@pytest.mark.parametrize("agent", [*LINE_FORMATS, "opencode"])
def test_a_healthy_session_is_not_touched(agent: str, tmp_path: Path) -> None:
    ref = made(agent, tmp_path)
    before = ref.path.read_bytes()
    assert rescue_in_place(ref).backup is None
    assert ref.path.read_bytes() == before
    assert list(ref.path.parent.glob(f"*{BACKUP_MARK}*")) == []


def test_sessions_of_all_agents_are_listed_newest_first(tmp_path: Path) -> None:
    for write in WRITERS.values():
        write(tmp_path)
    newest = made("pi", tmp_path).path
    os.utime(newest, (LONG_AGO + 1_000_000_000, LONG_AGO + 1_000_000_000))
    listed = list_sessions(tmp_path, {}, CWD)
    assert listed[0].ref.path == newest
    here = set(WRITERS) - {"crush"}
    assert sorted(one.ref.agent for one in listed) == sorted(here), "Crush has its sessions in the folder of work"
    assert all(one.diagnosis is not None and one.messages == 4 for one in listed if one.ref.agent != "codex")
    assert list_sessions(tmp_path / "nothing", {}, CWD) == []


def test_a_session_that_cannot_be_read_is_listed_with_the_reason(tmp_path: Path) -> None:
    ref = made("openclaw_rows", tmp_path)
    rows(ref.path, "", [("UPDATE transcript_events SET event_json = '{' WHERE seq = 1", ())])
    [listed] = list_sessions(tmp_path, {}, CWD)
    assert listed == Listed(ref, fault=listed.fault)
    assert "not readable as a session of openclaw" in listed.fault


# --- Damage of lines ---


def test_lines_are_read_as_crashed_programs_leave_them() -> None:
    whole = b'{"a": "one\xe2\x80\xa8line"}'
    content = b'{"b": 1}{"c": 2}\n' + whole + b'\n{"torn": "x{"d": 3}\n{"e": "raw\nbreak"}\n\0\0{"f": 6}\n{"half": "'
    read = read_lines(content)
    assert [line.value for line in read.lines] == [
        {"b": 1},
        {"c": 2},
        {"a": "one\u2028line"},
        {"d": 3},
        {"e": "raw\nbreak"},
        {"f": 6},
    ]
    assert read.lines[2].raw == whole
    assert len(read.faults) == 5
    assert read.faults[-1] == "line 7 is torn: its end was never written"


@pytest.mark.parametrize("agent", LINE_FORMATS)
def test_a_torn_end_is_removed_once_and_a_copy_stays(agent: str, tmp_path: Path) -> None:
    ref = made(agent, tmp_path)
    whole = ref.path.read_bytes()
    # Agents write to the end of a file whatever is there.
    torn = whole + b'{"type": "user", "mess'
    ref.path.write_bytes(torn)
    os.utime(ref.path, (LONG_AGO, LONG_AGO))
    repaired = rescue_in_place(ref)
    assert [one.trouble for one in repaired.before.symptoms] == [Trouble.DAMAGED]
    assert repaired.after.symptoms == ()
    assert repaired.backup is not None
    assert repaired.backup.read_bytes() == torn
    assert ref.path.read_bytes() == whole
    os.utime(ref.path, (LONG_AGO, LONG_AGO))
    assert rescue_in_place(ref).backup is None


@pytest.mark.parametrize("agent", LINE_FORMATS)
def test_glued_lines_are_split_and_unknown_lines_stay_byte_for_byte(agent: str, tmp_path: Path) -> None:
    ref = made(agent, tmp_path)
    unknown = b'{"kind":  "of a later version", "x": 1.0}'
    pieces = [unknown, *ref.path.read_bytes().splitlines()]
    ref.path.write_bytes(b"\n".join([*pieces[:2], pieces[2] + pieces[3], *pieces[4:]]) + b"\n")
    os.utime(ref.path, (LONG_AGO, LONG_AGO))
    rescue_in_place(ref)
    assert ref.path.read_bytes().splitlines() == pieces
    session = read_session(found(agent, tmp_path))
    assert shown(session) == WHOLE


@pytest.mark.parametrize("agent", LINE_FORMATS)
def test_a_session_that_is_too_long_is_compacted_in_its_own_form(agent: str, tmp_path: Path) -> None:
    ref = made(agent, tmp_path)
    text = ref.path.read_text("utf-8").replace(OUTPUT, "The tide is high today. " * 10_000)
    ref.path.write_text(text, "utf-8")
    os.utime(ref.path, (LONG_AGO, LONG_AGO))
    repaired = rescue_in_place(ref, WINDOW)
    assert Trouble.TOO_LONG in [one.trouble for one in repaired.before.symptoms]
    assert repaired.after.symptoms == ()
    assert repaired.after.tokens < WINDOW // 2
    session = read_session(found(agent, tmp_path))
    sent = "\n".join(part.text for one in session.context for part in one.parts if isinstance(part, Text))
    assert "harbour = Kiel" in sent
    assert ref.path.read_text("utf-8").startswith(text)
    os.utime(ref.path, (LONG_AGO, LONG_AGO))
    assert rescue_in_place(ref, WINDOW).backup is None


def _with_image(agent: str, ref: SessionRef) -> None:
    """Put a large image beside the question."""
    images: dict[str, Any] = {
        "claude_code": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}},
        "codex": {"type": "input_image", "image_url": f"data:image/png;base64,{IMAGE}"},
        "pi": {"type": "image", "data": IMAGE, "mimeType": "image/png"},
    }
    text = {"type": "input_text" if agent == "codex" else "text", "text": QUESTION}
    values = [json.loads(line) for line in ref.path.read_text().splitlines()]
    for value in values:
        message = value.get("payload" if agent == "codex" else "message") or {}
        if message.get("role") == "user" and QUESTION in json.dumps(message.get("content")):
            message["content"] = [images[agent], text]
    lines(ref.path, values)


@pytest.mark.parametrize("agent", ["claude_code", "codex", "pi"])
def test_a_large_image_becomes_a_line_and_its_text_stays(agent: str, tmp_path: Path) -> None:
    ref = made(agent, tmp_path)
    _with_image(agent, ref)
    repaired = rescue_in_place(ref)
    assert [one.trouble for one in repaired.before.symptoms] == [Trouble.LARGE_MEDIA]
    assert repaired.after.symptoms == ()
    session = read_session(found(agent, tmp_path))
    told = [part.text for one in session.context for part in one.parts if isinstance(part, Text)]
    assert QUESTION in told
    assert any(text.startswith("[image removed: 6.3 MB") for text in told)
    os.utime(ref.path, (LONG_AGO, LONG_AGO))
    assert rescue_in_place(ref).backup is None


@pytest.mark.parametrize("agent", ["claude_code", "copilot"])
def test_an_open_call_gets_a_result_that_says_that_its_effect_is_unknown(agent: str, tmp_path: Path) -> None:
    ref = made(agent, tmp_path)
    lines(ref.path, [json.loads(line) for line in ref.path.read_text().splitlines()][:3])
    before = ref.path.read_bytes()
    repaired = rescue_in_place(ref)
    assert [one.trouble for one in repaired.before.symptoms] == [Trouble.ORPHANED_CALL]
    assert repaired.after.symptoms == ()
    assert ref.path.read_bytes().startswith(before)
    assert shown(read_session(ref))[-1] == ("tool", INTERRUPTED)


# --- Forms of single agents ---


def test_claude_code_follows_a_parent_that_was_never_written(tmp_path: Path) -> None:
    ref = made("claude_code", tmp_path)
    values = [json.loads(line) for line in ref.path.read_text().splitlines()]
    values[3]["parentUuid"] = "never-written"
    lines(ref.path, values)
    assert shown(read_session(ref)) == WHOLE
    rescue_in_place(ref)
    assert json.loads(ref.path.read_text().splitlines()[3])["parentUuid"] == "u-1"


def test_claude_code_finishes_a_compaction_that_has_no_summary(tmp_path: Path) -> None:
    ref = made("claude_code", tmp_path)
    values = [json.loads(line) for line in ref.path.read_text().splitlines()]
    boundary = {**values[-1], "type": "system", "subtype": "compact_boundary", "uuid": "b-1", "parentUuid": None}
    lines(ref.path, [*values, {**boundary, "logicalParentUuid": "u-3"}])
    session = read_session(ref)
    assert (shown(session), session.context) == (WHOLE, ())
    repaired = rescue_in_place(ref)
    assert [one.trouble for one in repaired.before.symptoms] == [Trouble.FAILED_COMPACTION]
    again = read_session(ref)
    assert again.failed_compactions == ()
    [summary] = again.context
    assert "harbour = Kiel" in str(summary.parts)
    assert shown(again)[:4] == WHOLE


def test_an_empty_summary_of_claude_code_is_a_failed_compaction(tmp_path: Path) -> None:
    ref = made("claude_code", tmp_path)
    values = [json.loads(line) for line in ref.path.read_text().splitlines()]
    boundary = {**values[-1], "type": "system", "subtype": "compact_boundary", "uuid": "b-1", "parentUuid": None}
    empty = {**values[1], "uuid": "b-2", "parentUuid": "b-1", "isCompactSummary": True}
    empty["message"] = {"role": "user", "content": ""}
    lines(ref.path, [*values, {**boundary, "logicalParentUuid": "u-3"}, empty])
    repaired = rescue_in_place(ref)
    assert [one.trouble for one in repaired.before.symptoms] == [Trouble.FAILED_COMPACTION]
    assert repaired.after.symptoms == ()
    assert "harbour = Kiel" in str([one.parts for one in read_session(ref).context])


def test_claude_code_keeps_side_chains_out_and_counts_them(tmp_path: Path) -> None:
    ref = made("claude_code", tmp_path)
    values = [json.loads(line) for line in ref.path.read_text().splitlines()]
    side = {**values[1], "isSidechain": True, "uuid": "x-1", "parentUuid": None}
    lines(ref.path, [*values, side])
    session = read_session(ref)
    assert (shown(session), session.foreign) == (WHOLE, {"mode": 1, "side chain": 1})


def test_claude_code_reads_results_of_parallel_calls_on_side_branches(tmp_path: Path) -> None:
    ref = made("claude_code", tmp_path)
    values = [json.loads(line) for line in ref.path.read_text().splitlines()]
    second = json.loads(json.dumps(values[2]).replace("c-1", "c-2").replace("u-1", "u-1b").replace("u-0", "u-1"))
    result = json.loads(json.dumps(values[3]).replace("c-1", "c-2").replace("u-2", "u-2b").replace("u-1", "u-1b"))
    values[4]["parentUuid"] = "u-2b"
    lines(ref.path, [*values[:3], second, values[3], result, values[4]])
    assert diagnose(read_session(ref)).symptoms == ()


def test_codex_drops_turns_that_were_rolled_back_and_reads_its_compactions(tmp_path: Path) -> None:
    ref = made("codex", tmp_path)
    values = [json.loads(line) for line in ref.path.read_text().splitlines()]
    rolled = {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}}
    lines(ref.path, [*values, rolled])
    assert [one.role for one in read_session(ref).context] == [NeutralRole.SYSTEM]
    history = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "So far: Kiel"}]}]
    compacted = {"type": "compacted", "payload": {"message": "So far", "replacement_history": history}}
    lines(ref.path, [*values, compacted])
    session = read_session(ref)
    assert [part for one in session.context for part in one.parts] == [Text("So far: Kiel")]
    assert shown(session)[:4] == WHOLE


def test_codex_gets_a_first_line_again(tmp_path: Path) -> None:
    ref = made("codex", tmp_path)
    ref.path.write_bytes(ref.path.read_bytes().replace(b'{"type": "session_meta"', b'"type": "session_meta', 1))
    os.utime(ref.path, (LONG_AGO, LONG_AGO))
    rescue_in_place(found("codex", tmp_path))
    first = json.loads(ref.path.read_text().splitlines()[0])
    assert (first["type"], first["payload"]["cwd"]) == ("session_meta", CWD)


def test_pi_applies_edits_and_keeps_entries_after_the_boundary(tmp_path: Path) -> None:
    ref = made("pi", tmp_path)
    values = [json.loads(line) for line in ref.path.read_text().splitlines()]
    edit = {"type": "context_edit", "id": "x-1", "parentId": "e-4", "targetId": "e-4", "replacement": None}
    cut = {"type": "compaction", "id": "x-2", "parentId": "x-1", "summary": "So far: Kiel", "firstKeptEntryId": "e-3"}
    lines(ref.path, [*values, edit, cut])
    context = [part for one in read_session(ref).context for part in one.parts]
    assert [type(part) for part in context] == [ToolResult, Text]
    assert context[-1] == Text("So far: Kiel")


def test_opencode_is_repaired_in_one_transaction(tmp_path: Path) -> None:
    ref = made("opencode", tmp_path)
    image = {"type": "file", "mime": "image/png", "url": f"data:image/png;base64,{IMAGE}"}
    running = {"type": "tool", "callID": "c-2", "tool": "bash", "state": {"status": "running", "input": CALL}}
    part = "INSERT INTO part VALUES (?, ?, 's-1', 9, 9, ?)"
    order = {"role": "user", "time": {"created": 9}}
    rows(
        ref.path,
        "",
        [
            (part, ("p-90", "m-0", json.dumps(image))),
            (part, ("p-91", "m-2", json.dumps(running))),
            ("INSERT INTO message VALUES ('m-8', 's-1', 9, 9, ?)", (json.dumps(order),)),
            (part, ("p-92", "m-8", json.dumps({"type": "compaction", "auto": True}))),
            (part, ("p-93", "m-0", json.dumps({"type": "text", "text": "The tide is high. " * 10_000}))),
        ],
    )
    repaired = rescue_in_place(ref, WINDOW)
    assert {one.trouble for one in repaired.before.symptoms} == {
        Trouble.TOO_LONG,
        Trouble.ORPHANED_CALL,
        Trouble.LARGE_MEDIA,
        Trouble.FAILED_COMPACTION,
    }
    assert repaired.after.symptoms == ()
    session = read_session(ref)
    assert "harbour = Kiel" in str([one.parts for one in session.context])
    assert repaired.backup is not None
    with contextlib.closing(apsw.Connection(str(repaired.backup))) as copy:
        assert list(copy.execute("SELECT count(*) FROM message WHERE id = 'm-8'")) == [(1,)]
    os.utime(ref.path, (LONG_AGO, LONG_AGO))
    assert rescue_in_place(ref, WINDOW).backup is None


def test_opencode_loses_only_the_compaction_that_never_finished(tmp_path: Path) -> None:
    ref = made("opencode", tmp_path)
    order = json.dumps({"role": "user", "time": {"created": 9}})
    part = json.dumps({"type": "compaction", "auto": True})
    rows(
        ref.path,
        "",
        [
            ("INSERT INTO message VALUES ('m-8', 's-1', 9, 9, ?)", (order,)),
            ("INSERT INTO part VALUES ('p-92', 'm-8', 's-1', 9, 9, ?)", (part,)),
        ],
    )
    repaired = rescue_in_place(ref)
    assert [one.trouble for one in repaired.before.symptoms] == [Trouble.FAILED_COMPACTION]
    session = read_session(ref)
    assert (shown(session), session.context) == (WHOLE, session.messages)


def test_opencode_is_rid_of_rows_that_cannot_be_read(tmp_path: Path) -> None:
    ref = made("opencode", tmp_path)
    torn = [
        ("UPDATE message SET data = substr(data, 1, 9) WHERE id = 'm-2'", ()),
        ("INSERT INTO part VALUES ('p-95', 'm-0', 's-1', 9, 9, '{\"type\": \"te')", ()),
    ]
    rows(ref.path, "", torn)
    repaired = rescue_in_place(ref)
    [symptom] = repaired.before.symptoms
    assert (symptom.trouble, symptom.says[:26]) == (Trouble.DAMAGED, "2 rows cannot be read, so ")
    assert repaired.after.symptoms == ()
    assert shown(read_session(ref)) == WHOLE[:3]
    with contextlib.closing(apsw.Connection(str(ref.path))) as left:
        assert list(left.execute("SELECT count(*) FROM part WHERE message_id = 'm-2' OR id = 'p-95'")) == [(0,)]


def test_a_finished_summary_of_opencode_without_a_text_is_a_failed_compaction(tmp_path: Path) -> None:
    ref = made("opencode", tmp_path)
    order = json.dumps({"role": "user", "time": {"created": 9}})
    answer = {"role": "assistant", "parentID": "m-8", "summary": True, "finish": "stop", "time": {"created": 9}}
    inserts = [
        ("INSERT INTO message VALUES ('m-8', 's-1', 9, 9, ?)", (order,)),
        ("INSERT INTO part VALUES ('p-92', 'm-8', 's-1', 9, 9, '{\"type\": \"compaction\"}')", ()),
        ("INSERT INTO message VALUES ('m-9', 's-1', 9, 9, ?)", (json.dumps(answer),)),
    ]
    rows(ref.path, "", inserts)
    repaired = rescue_in_place(ref)
    assert [one.trouble for one in repaired.before.symptoms] == [Trouble.FAILED_COMPACTION]
    assert shown(read_session(ref)) == WHOLE


def test_openclaws_database_is_only_imported(tmp_path: Path) -> None:
    ref = made("openclaw_rows", tmp_path)
    with pytest.raises(UsageError, match="not repaired in place"):
        rescue_in_place(ref)
    rows(ref.path, "", [("INSERT INTO transcript_events VALUES ('s-1', 99, NULL, x'00')", ())])
    assert read_session(ref).faults == ("1 events are compressed and were not read",)


def test_hermes_reads_sessions_before_a_compression_and_leaves_inactive_rows_out(tmp_path: Path) -> None:
    ref = made("hermes", tmp_path)
    rows(
        ref.path,
        "",
        [
            ("INSERT INTO sessions VALUES ('s-2', 's-1', NULL, ?, 2.0)", (CWD,)),
            ("INSERT INTO messages VALUES (NULL, 's-2', 'user', 'and now?', NULL, NULL, 1, 0)", ()),
            ("INSERT INTO messages VALUES (NULL, 's-2', 'user', 'rewound', NULL, NULL, 0, 0)", ()),
        ],
    )
    session = read_session(found("hermes", tmp_path))
    assert shown(session) == [*WHOLE, ("user", "and now?"), ("user", "rewound")]
    assert [part for one in session.context for part in one.parts] == [Text("and now?")]


@pytest.mark.parametrize(
    ("agent", "statement"),
    [
        ("goose", "UPDATE messages SET content_json = '[' WHERE id = 2"),
        ("docker_agent", "UPDATE session_items SET message_json = '[' WHERE position = 1"),
    ],
)
def test_one_unreadable_row_is_named_and_the_others_are_read(agent: str, statement: str, tmp_path: Path) -> None:
    ref = made(agent, tmp_path)
    rows(ref.path, "", [(statement, ())])
    session = read_session(ref)
    assert shown(session) == [WHOLE[0], *WHOLE[2:]]
    assert "cannot be read" in session.faults[0]


def test_files_without_a_place_of_their_own_are_recognised(tmp_path: Path) -> None:
    viking = lines(tmp_path / "v" / "messages.jsonl", [{"role": "user", "parts": [{"type": "text", "text": QUESTION}]}])
    lines(viking.parent / "history/archive_001/messages.jsonl", [{"role": "user", "content": "older"}])
    session = read_session(find_session(str(viking), tmp_path, {}, CWD))
    assert (session.ref.agent, shown(session)) == ("openviking", [("user", "older"), ("user", QUESTION)])
    assert session.failed_compactions == ("archive_001 was never finished",)
    aider = tmp_path / ".aider.chat.history.md"
    aider.write_text(f"# aider chat started\n\n#### {QUESTION}\n\n{ANSWER}\n\n> Tokens: 1\n")
    session = read_session(find_session(str(aider), tmp_path, {}, CWD))
    assert (session.ref.agent, shown(session)) == ("aider", [("user", QUESTION), ("assistant", ANSWER)])
    table = "CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id TEXT, message_data TEXT);"
    items = [
        {"role": "user", "content": QUESTION},
        {"type": "function_call_output", "call_id": "c-1", "output": OUTPUT},
    ]
    inserts = [("INSERT INTO agent_messages VALUES (NULL, 's-1', ?)", (json.dumps(item),)) for item in items]
    session = read_session(find_session(str(rows(tmp_path / "agents.db", table, inserts)), tmp_path, {}, CWD))
    assert (session.ref.agent, shown(session)) == ("openai_agents", [("user", QUESTION), ("tool", OUTPUT)])


@pytest.mark.parametrize("agent", LINE_FORMATS)
def test_a_file_cut_off_anywhere_is_read_as_far_as_it_goes(agent: str, tmp_path: Path) -> None:
    ref = made(agent, tmp_path)
    content = ref.path.read_bytes()
    last = content.rfind(b"\n", 0, len(content) - 1)
    for end in {*range(0, len(content), 37), *range(last, len(content), 5)}:
        ref.path.write_bytes(content[:end])
        session = read_session(ref)
        # Gemini's sample has an older version of its first line.
        rest = iter([("user", "an older text"), *WHOLE])
        assert all(one in rest for one in shown(session)), "in order, and nothing that was not said"
        is_torn = bool(content[:end].rpartition(b"\n")[2].strip(b"}")) and content[end : end + 1] != b"\n"
        assert bool(session.faults) or not is_torn or not session.messages


def test_an_object_inside_a_torn_end_is_not_a_line_of_its_own() -> None:
    torn = b'{"id": "g-1", "type": "user"}\n{"id": "g-2", "toolCalls": [{"id": "c-1", "type": "call"}'
    assert [one.value["id"] for one in read_lines(torn).lines] == ["g-1"]


def test_a_task_of_cline_that_was_cut_off_keeps_every_whole_message(tmp_path: Path) -> None:
    ref = made("cline", tmp_path)
    content = ref.path.read_bytes()
    counts = set()
    for end in range(1, len(content)):
        ref.path.write_bytes(content[:end])
        session = read_session(ref)
        assert shown(session) == WHOLE[: len(session.messages)]
        assert "reads as empty" in session.faults[0]
        counts.add(len(session.messages))
    assert counts == {0, 1, 2, 3, 4}
    ref.path.write_bytes(b'[1, {"role": "user", "content": "x"}]')
    assert read_session(ref).faults == ("entry 1 is not a message",)
    ref.path.write_bytes(b"\0\0")
    with pytest.raises(BadInputError, match="no list of messages"):
        read_session(ref)


def test_a_task_is_named_by_its_file_and_its_folder_says_of_which_extension(tmp_path: Path) -> None:
    for agent in ("cline", "roo"):
        path = made(agent, tmp_path).path
        assert find_session(str(path), tmp_path, {}, CWD).agent == agent


def test_roo_begins_at_its_summary_and_hides_what_a_marker_cut(tmp_path: Path) -> None:
    values: list[dict[str, Any]] = [
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "In short: first.", "isSummary": True},
        {"role": "user", "content": "hidden", "truncationParent": "t-1"},
        {"role": "user", "content": "shown", "truncationParent": "t-gone"},
        {"role": "user", "content": "cut here", "isTruncationMarker": True, "truncationId": "t-1"},
    ]
    task(tmp_path, "rooveterinaryinc.roo-cline", values, {"workspace": CWD})
    session = read_session(found("roo", tmp_path))
    assert [text for _, text in shown(session)] == [str(one["content"]) for one in values]
    sent = [part.text for one in session.context for part in one.parts if isinstance(part, Text)]
    assert sent == ["In short: first.", "shown", "cut here"]


def test_crush_begins_at_its_summary_and_names_rows_that_cannot_be_read(tmp_path: Path) -> None:
    ref = made("crush", tmp_path)
    picture = {"type": "binary", "data": {"Data": base64.b64encode(b"png").decode(), "MIMEType": "image/png"}}
    thought = {"type": "reasoning", "data": {"thinking": "hm"}}
    added = "INSERT INTO messages VALUES (?, 's-1', ?, ?, ?, 'm')"
    statements = [
        (added, ("sum", "assistant", json.dumps([{"type": "text", "data": {"text": "In short."}}]), 9)),
        (added, ("bad", "user", "[", 10)),
        (added, ("new", "user", json.dumps([picture, thought, "x", {"type": "text", "data": 3}]), 11)),
        ("UPDATE sessions SET summary_message_id = 'sum' WHERE id = 's-1'", ()),
    ]
    rows(ref.path, "", statements)
    session = read_session(ref)
    assert [one.role.value for one in session.context] == ["user", "user"]
    assert [type(part).__name__ for part in session.context[1].parts] == ["Media", "Reasoning"]
    assert (session.model, session.faults) == ("m", ("message bad cannot be read",))
    assert session.foreign == {"part finish": 1, "part that is no object": 1, "part text": 1}


def _checkpoint(values: dict[str, object]) -> bytes:
    return msgspec.msgpack.encode({"v": 4, "channel_values": values})


def _langchain(kind: str, content: object, **fields: object) -> msgspec.msgpack.Ext:
    told = {"content": content, "type": kind, **fields}
    return msgspec.msgpack.Ext(
        5, msgspec.msgpack.encode(["langchain_core.messages", kind, told, "model_validate_json"])
    )


def test_threads_of_langgraph_are_read_with_messages_that_a_summary_removed(tmp_path: Path) -> None:
    call = {"name": "bash", "args": CALL, "id": "c-1", "type": "tool_call"}
    said = [
        _langchain("human", QUESTION, id="1"),
        _langchain("ai", "", id="2", tool_calls=[call]),
        _langchain("tool", OUTPUT, id="3", tool_call_id="c-1", status="success"),
        _langchain("ai", [{"type": "text", "text": ANSWER}], id="4", tool_calls=[]),
    ]
    table = """CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, type TEXT,
        checkpoint BLOB);"""
    old = {"messages": said, "step": 3, "other": [msgspec.msgpack.Ext(1, msgspec.msgpack.encode("x"))]}
    bodies = [
        ("", "1", "msgpack", _checkpoint({"messages": said[:1]})),
        ("", "2", "msgpack", _checkpoint(old)),
        ("", "3", "msgpack", _checkpoint({"messages": said[-1:]})),
        ("sub", "4", "msgpack", _checkpoint({"messages": said[:1]})),
        ("", "5", "msgpack", b"\xc1"),
        ("", "6", "msgpack", msgspec.msgpack.encode([1])),
        ("", "7", "msgpack", "text"),
    ]
    inserts = [("INSERT INTO checkpoints VALUES ('s-1', ?, ?, ?, ?)", body) for body in bodies]
    path = rows(tmp_path / "graph.db", table, inserts)
    session = read_session(find_session(str(path), tmp_path, {}, CWD))
    assert (session.ref.agent, shown(session)) == ("langgraph", WHOLE)
    assert [part for one in session.context for part in one.parts] == [Text(ANSWER)]
    assert session.foreign == {"channel step": 1, "channel other": 1, "checkpoint of a subgraph": 1}
    assert session.faults == tuple(f"checkpoint {number} cannot be read" for number in (5, 6, 7))
    rows(path, "", [("INSERT INTO checkpoints VALUES ('s-2', '', '1', 'json', ?)", (b'{"channel_values": {}}',))])
    with pytest.raises(UsageError, match=r"2 sessions of a known form; .* FILE#s-1"):
        find_session(str(path), tmp_path, {}, CWD)
    assert find_session(f"{path}#s-2", tmp_path, {}, CWD).id == "s-2"


def test_parallel_calls_of_claude_code_on_a_side_branch_are_read_and_other_branches_are_counted(tmp_path: Path) -> None:
    ref = made("claude_code", tmp_path)
    values = [json.loads(line) for line in ref.path.read_text().splitlines()]
    answer = values[2]
    beside = {"type": "tool_use", "id": "c-2", "name": "Bash", "input": CALL}
    call = {**answer, "uuid": "side", "parentUuid": "u-1", "message": {**answer["message"], "content": [beside]}}
    told = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c-2", "content": "berth 18"}]}
    result = {**values[3], "uuid": "side-2", "parentUuid": "side", "message": told}
    left = {**values[1], "uuid": "left", "parentUuid": "u-0", "message": {"role": "user", "content": "another way"}}
    lines(ref.path, [*values[:3], call, result, left, left, *values[3:], values[-1]])
    session = read_session(ref)
    calls = [part.call_id for one in session.messages for part in one.parts if isinstance(part, ToolCall)]
    results = [part.call_id for one in session.messages for part in one.parts if isinstance(part, ToolResult)]
    assert (calls, sorted(results)) == (["c-1", "c-2"], ["c-1", "c-2"])
    assert session.foreign == {"mode": 1, "line of another branch": 2, "line that was written twice": 1}
    assert diagnose(session).symptoms == ()


def test_gemini_counts_messages_that_a_rewind_or_another_history_removed(tmp_path: Path) -> None:
    ref = made("gemini", tmp_path)
    whole = read_session(ref)
    content = ref.path.read_bytes()
    removed = []
    changes: list[dict[str, Any]] = [{"$rewindTo": "unknown"}, {"$set": {"messages": []}}]
    for change in changes:
        ref.path.write_bytes(content + json.dumps(change).encode() + b"\n")
        session = read_session(ref)
        assert session.messages == ()
        removed.append({name: count for name, count in session.foreign.items() if name not in whole.foreign})
    (name, count), (other, again) = (next(iter(one.items())) for one in removed)
    assert (name, other, count) == ("message that a rewind removed", "message that was replaced", again)
    assert count > 0


# --- Names and refusals ---


def test_a_session_is_named_by_its_file_its_id_or_the_beginning_of_one(tmp_path: Path) -> None:
    ref = made("pi", tmp_path)
    assert find_session("s-1", tmp_path, {}, CWD) == find_session("s-", tmp_path, {}, CWD) == ref
    assert find_session(str(ref.path), tmp_path, {}, CWD).agent == "pi"
    WRITERS["qwen_code"](tmp_path)
    with pytest.raises(UsageError, match="2 sessions begin with"):
        find_session("s-", tmp_path, {}, CWD)
    with pytest.raises(UsageError, match="no file or session"):
        find_session("t-", tmp_path, {}, CWD)
    other = tmp_path / "notes.txt"
    other.write_text("hello")
    with pytest.raises(UsageError, match="not a session of a known agent"):
        find_session(str(other), tmp_path, {}, CWD)
    with pytest.raises(BadInputError):
        read_session(SessionRef("opencode", "s-1", other, CWD, 0.0, 5))


@contextmanager
def _holding(path: Path, folder: Path) -> Iterator[None]:
    code = f"f = open({str(path)!r}); print('open', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdout is not None
        program.stdout.readline()
        yield
        program.communicate(b"\n")


def test_a_session_in_use_is_refused(tmp_path: Path) -> None:
    ref = made("claude_code", tmp_path)
    ref.path.write_bytes(ref.path.read_bytes() + b'{"torn')
    with pytest.raises(RetryLaterError, match="a moment ago"):
        rescue_in_place(ref)
    os.utime(ref.path, (LONG_AGO, LONG_AGO))
    with _holding(ref.path, tmp_path), pytest.raises(RetryLaterError, match="is using this session"):
        rescue_in_place(ref)
    assert rescue_in_place(ref).backup is not None


def test_the_window_of_a_model_is_known_by_its_name_alone() -> None:
    assert window_of("claude-sonnet-4-5") == 200_000
    assert window_of("a model of tomorrow") == 128_000
