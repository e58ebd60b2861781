"""Real sessions of Claude Code and pi: read, torn, repaired, and read again. Skipped where there are none."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast.errors import UsageError
from holdfast.rescue.diagnosis import diagnose
from holdfast.rescue.formats.base import read_lines
from holdfast.rescue.neutral import NeutralRole
from holdfast.rescue.sessions import find_session, read_session, rescue_in_place
from tests.house.places import ROOT

CORPUS = Path(os.environ.get("HOLDFAST_CORPUS", ROOT.parent / "shared" / "corpus"))
if not CORPUS.is_dir():
    CORPUS = ROOT.parents[1] / "shared" / "corpus"
RAW = sorted((CORPUS / "transcripts" / "raw").glob("[cp][li]*.jsonl.zst"))
LONG_AGO = 1_700_000_000

pytestmark = [
    pytest.mark.skipif(not RAW, reason=f"there are no recorded sessions below {CORPUS}; set HOLDFAST_CORPUS"),
    pytest.mark.skipif(shutil.which("zstd") is None, reason="the recorded sessions need the program zstd"),
]


@pytest.fixture(params=RAW, ids=lambda path: path.name.removesuffix(".jsonl.zst"))
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "session.jsonl"
    subprocess.run(["zstd", "-q", "-d", str(request.param), "-o", str(path)], check=True)
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def test_a_recorded_session_is_read_whole_and_survives_a_torn_end_and_a_small_window(session: Path) -> None:
    ref = find_session(str(session), session.parent, {}, "")
    whole = read_session(ref)
    lines = read_lines(session.read_bytes()).lines
    # Every line is a message of the path, or counted as something else; lines of one answer are merged.
    assert len(whole.messages) + sum(whole.foreign.values()) <= 2 * len(lines)
    asked = [one for one in whole.messages if one.role is NeutralRole.USER]
    assert asked
    content = session.read_bytes()
    session.write_bytes(content + content[:200].split(b"\n")[0][:100])
    os.utime(session, (LONG_AGO, LONG_AGO))
    window = max(diagnose(whole).tokens, 4_000)
    if "parentId" not in lines[-1].value and ref.agent == "pi":
        with pytest.raises(UsageError, match="old version of pi"):
            rescue_in_place(ref, window)
        return
    repaired = rescue_in_place(ref, window)
    assert repaired.backup is not None
    assert repaired.after.symptoms == ()
    assert repaired.after.tokens < window * 0.6
    again = read_session(ref)
    assert [one.parts for one in again.messages if one.role is NeutralRole.USER][: len(asked)] == [
        one.parts for one in asked
    ]
    os.utime(session, (LONG_AGO, LONG_AGO))
    assert rescue_in_place(ref, window).backup is None
