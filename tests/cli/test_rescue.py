"""`holdfast rescue` as a person uses it: list, look, import, repair."""

import json
import os
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from tests.cli.agents import make_agent, provider
from tests.cli.programs import PROGRAM, environment
from tests.rescue import foreign


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "ship"
    folder.mkdir()
    monkeypatch.setattr(foreign, "CWD", str(folder))
    return folder


def rescue(work: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    settings = {"HOME": str(work.parent), "HOLDFAST_STORE": str(work.parent / "store.db")}
    words = [*PROGRAM, *arguments]
    return subprocess.run(words, cwd=work, capture_output=True, env=environment(**settings), timeout=60, check=False)


def write_session(work: Path) -> Path:
    """Write a session of pi whose newest line is torn."""
    name = str(work).removeprefix("/").replace("/", "-")
    entries = foreign.pi_entries()
    entries[0]["cwd"] = str(work)
    path = foreign.lines(work.parent / f".pi/agent/sessions/--{name}--/2026_s-1.jsonl", entries)
    path.write_bytes(path.read_bytes() + b'{"type": "mess')
    os.utime(path, (foreign.LONG_AGO, foreign.LONG_AGO))
    return path


def test_alone_it_lists_the_sessions_of_the_folder_and_what_is_wrong(work: Path) -> None:
    assert rescue(work, "rescue").stdout.startswith(b"no session of a known agent for ")
    write_session(work)
    [head, row] = rescue(work, "rescue").stdout.decode().splitlines()
    assert head.split() == ["agent", "id", "age", "size", "messages", "tokens", "wrong"]
    assert row.split()[:2] == ["pi", "s-1"]
    assert row.endswith("is torn: its end was never written")
    [told] = [msgspec.json.decode(line) for line in rescue(work, "rescue", "--json").stdout.splitlines()]
    assert told["diagnosis"]["symptoms"][0]["trouble"] == "damaged"


def test_a_dry_run_changes_nothing(work: Path) -> None:
    path = write_session(work)
    before = path.read_bytes()
    told = rescue(work, "rescue", "s-1", "--in-place", "--dry-run").stdout.decode()
    assert "wrong: line 7 is torn" in told
    assert "its file would be copied, and the entries above repaired" in told
    assert "it would be imported" in rescue(work, "rescue", "s-1", "--dry-run").stdout.decode()
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert not (work.parent / "store.db").exists()


def test_an_imported_session_can_be_searched_and_importing_again_adds_nothing(work: Path) -> None:
    write_session(work)
    told = rescue(work, "rescue", "s-1").stdout.decode()
    assert "4 messages imported as pi:s-1" in told
    assert "continue it: holdfast chat --session pi:s-1" in told
    assert b"harbour = Kiel" in rescue(work, "search", "pi:s-1", "harbour").stdout
    assert b"0 messages imported as pi:s-1, 4 were already there" in rescue(work, "rescue", "s-1").stdout
    answered = rescue(work, "chat", "--session", "pi:s-1", "what is harbour?")
    assert b"harbour = Kiel." in answered.stdout


def test_a_repair_says_how_to_resume_and_a_second_one_changes_nothing(work: Path) -> None:
    path = write_session(work)
    told = msgspec.json.decode(rescue(work, "rescue", "s-1", "--in-place", "--json").stdout)
    assert (told["resume"], Path(told["backup"]).parent) == ("pi --session s-1", path.parent)
    assert all(json.loads(line) for line in path.read_text().splitlines())
    assert b"nothing was changed; resume it: pi --session s-1" in rescue(work, "rescue", "s-1", "--in-place").stdout


def test_a_session_in_use_is_refused_with_the_code_for_later(work: Path) -> None:
    path = write_session(work)
    # Later than now, because a program starts slowly on a busy machine.
    os.utime(path, (time.time() + 60, time.time() + 60))
    ended = rescue(work, "rescue", "s-1", "--in-place")
    assert (ended.returncode, b"a moment ago" in ended.stderr) == (75, True)
    assert rescue(work, "rescue", "unknown").returncode == 2


# Grows a conversation behind the gateway, and keeps it in a session of pi.
_GROWS = """
said, entries = [], [{"type": "session", "version": 3, "id": "s-1", "cwd": os.getcwd()}]
for number in range(8):
    text = f"remember key{number} = value{number}. " + "The tide is high. " * 150
    said.append({"role": "user", "content": text})
    body = {"model": "model-1", "max_tokens": 100, "messages": said}
    headers = {"content-type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": "test-key"}
    request = urllib.request.Request(BASE + "/v1/messages", json.dumps(body).encode(), headers)
    said.append({"role": "assistant", "content": json.load(urllib.request.urlopen(request))["content"]})
for number, message in enumerate(said):
    entries.append({"type": "message", "id": f"e-{number}", "parentId": f"e-{number - 1}" if number else None,
                    "message": message})
folder = os.path.expanduser("~/.pi/agent/sessions/--" + os.getcwd()[1:].replace("/", "-") + "--")
os.makedirs(folder)
with open(folder + "/2026_s-1.jsonl", "w") as file:
    file.writelines(json.dumps(entry) + "\\n" for entry in entries)
os.utime(file.name, (1_700_000_000, 1_700_000_000))
"""


def test_leaving_writes_the_gateways_compaction_into_the_agents_file_once(work: Path) -> None:
    assert (rescue(work, "rescue", "--leave").returncode, rescue(work, "rescue", "s", "--leave").returncode) == (2, 2)
    assert rescue(work, "rescue", "--from", "x").returncode == 2
    programs = make_agent(work.parent / "bin", "claude", _GROWS)
    with provider("--window", "2000", "--output", "200") as small:
        settings = {"HOME": str(work.parent), "HOLDFAST_STORE": str(work.parent / "store.db")}
        settings |= {"ANTHROPIC_BASE_URL": small, "HOLDFAST_GATEWAY_PORT": "1"}
        settings["PATH"] = f"{programs}:{os.environ['PATH']}"
        ran = subprocess.run(
            [*PROGRAM, "run", "claude"], cwd=work, env=environment(**settings), timeout=60, check=False
        )
    assert ran.returncode == 0
    would = rescue(work, "rescue", "s-1", "--in-place", "--dry-run", "--window", "200000").stdout.decode()
    assert "its compaction is only in session dropin:" in would
    assert "the conversation compacted" in would
    shown = rescue(work, "rescue", "--leave", "--dry-run").stdout.decode()
    assert shown.startswith("pi session s-1: 16 messages")
    told = msgspec.json.decode(rescue(work, "rescue", "--leave", "--window", "200000", "--json").stdout)
    assert [one["trouble"] for one in told["symptoms"]] == ["proxied"]
    entries = [json.loads(line) for line in Path(told["path"]).read_text().splitlines()]
    [compacted] = [entry for entry in entries if entry["type"] == "compaction"]
    assert "key0 = value0" in compacted["summary"]
    newest = [entry["message"] for entry in entries[entries.index(compacted) + 1 :]]
    assert newest[-2]["content"][0]["text"].startswith("remember key7 = value7")
    assert len(newest) < 16
    assert b"no gateway holds the state" in rescue(work, "rescue", "--leave").stdout
