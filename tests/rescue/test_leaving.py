"""The state that a gateway holds of a session is written into the agent's own file, once, with its newest messages."""

import json
from pathlib import Path

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.core.search.rank import RECALL
from holdfast.errors import UsageError
from holdfast.rescue.diagnosis import Trouble
from holdfast.rescue.formats.base import ForeignSession, media_of
from holdfast.rescue.importing import Turns, kept_messages, turns_of
from holdfast.rescue.leaving import ProxiedState, proxied_state
from holdfast.rescue.neutral import NeutralMessage, NeutralRole
from holdfast.rescue.sessions import read_session, rescue_in_place
from holdfast.stores.memory import MemoryBlobs, MemoryStore
from holdfast.testing.builders import ManualClock, lease_on
from holdfast.types.faults import FaultKind, Rung
from holdfast.types.messages import Media, Part, Reasoning, Text, ToolCall, ToolOutcome, ToolResult
from holdfast.types.records import CompactionApplied, LeasedRecord, RungFinished, RungResult, RungStarted
from tests.rescue import foreign

KEY = "dropin:client-0011223344556677"
SUMMARY = "The harbour is Kiel [#1]."
FORMATS = ("claude_code", "codex", "opencode", "pi", "openclaw", "qwen_code", "gemini", "copilot")
PNG = "iVBORw0KGgo="


def said(*messages: tuple[NeutralRole, tuple[Part, ...]], **blobs: bytes) -> list[NeutralMessage]:
    return [NeutralMessage("s", seq, role, parts, blobs=blobs) for seq, (role, parts) in enumerate(messages)]


def user(text: str) -> tuple[NeutralRole, tuple[Part, ...]]:
    return NeutralRole.USER, (Text(text),)


def answer(text: str) -> tuple[NeutralRole, tuple[Part, ...]]:
    return NeutralRole.ASSISTANT, (Text(text),)


class Gateway:
    """The store of a gateway with one session, whose turns from number `verbatim` on are after its compaction."""

    def __init__(self) -> None:
        self.store, self.blobs = MemoryStore(clock=ManualClock()), MemoryBlobs()

    async def holds(self, messages: list[NeutralMessage], verbatim: int | None, key: str = KEY) -> None:
        turns, records, inputs = Turns(0), list[LeasedRecord](), []
        for turn in turns_of(messages):
            inputs.append(len(records) + 1)
            records += turns.records([one async for one in kept_messages(turn, self.blobs, Bounds())])
        if verbatim is not None:
            records += [
                RungStarted(0, Rung.DIGEST, FaultKind.TOKEN_OVERFLOW),
                CompactionApplied(0, inputs[verbatim], SUMMARY, 100, 10),
                RungFinished(0, Rung.DIGEST, RungResult.CHANGED),
            ]
        await self.store.append(await lease_on(self.store, key), records, after=0)

    async def state(self, session: ForeignSession, key: str | None = None) -> ProxiedState | None:
        return await proxied_state(session, self.store, self.blobs, key)


def a_call(call_id: str, name: str) -> tuple[NeutralRole, tuple[Part, ...]]:
    return NeutralRole.ASSISTANT, (Reasoning("hm"), Text("Let me look."), ToolCall(call_id, name, '{"path": "a"}'))


def a_result(call_id: str, outcome: ToolOutcome = ToolOutcome.DONE) -> tuple[NeutralRole, tuple[Part, ...]]:
    return NeutralRole.TOOL, (ToolResult(call_id, (Text("eight fathoms"),), outcome),)


def conversation_with_work() -> list[NeutralMessage]:
    """The conversation of the agents' files, then one with tools, an image, and a look-up by the gateway's own tool."""
    blobs: dict[str, bytes] = {}
    picture = media_of(PNG, "image/png", blobs)
    assert isinstance(picture, Media)
    return said(
        user(foreign.QUESTION),
        answer(foreign.ANSWER),
        (NeutralRole.USER, (Text("<system-reminder>x</system-reminder>How deep is it?"), picture)),
        a_call("call-1", "depth"),
        a_result("call-1"),
        a_call("call-2", "sound"),
        a_result("call-2", ToolOutcome.FAILED),
        (NeutralRole.ASSISTANT, (ToolCall("call-3", RECALL, '{"seq": 1}'),)),
        a_result("call-3"),
        answer("It is eight fathoms."),
        **blobs,
    )


@pytest.mark.parametrize("agent", FORMATS)
async def test_the_summary_and_the_newest_messages_are_what_the_agent_sends_afterwards(
    agent: str, tmp_path: Path
) -> None:
    ref = foreign.made(agent, tmp_path)
    before = ref.path.read_bytes()
    gateway = Gateway()
    await gateway.holds(conversation_with_work(), 1)
    state = await gateway.state(read_session(ref), KEY)
    assert state is not None
    repaired = rescue_in_place(ref, None, state)
    assert [one.trouble for one in repaired.before.symptoms] == [Trouble.PROXIED]
    assert repaired.after.symptoms == ()
    assert repaired.backup is not None
    assert agent == "opencode" or repaired.backup.read_bytes() == before
    context = read_session(ref).context
    told = json.dumps([str(part) for one in context for part in one.parts], ensure_ascii=False)
    for text in (SUMMARY, "How deep is it?", "eight fathoms", "depth", "It is eight fathoms."):
        assert text in told, (agent, text)
    # The past is only in the summary; instructions of the client, reasoning and our own tool are not the agent's.
    for text in (foreign.ANSWER, "system-reminder", RECALL + "'", "Reasoning"):
        assert text not in told, (agent, text)
    # Written once: the file has it now.
    assert await gateway.state(read_session(ref), KEY) is None
    assert rescue_in_place(ref).backup is None


@pytest.mark.parametrize("agent", ["claude_code", "codex", "opencode", "pi"])
async def test_calls_keep_their_results_and_media_their_bytes(agent: str, tmp_path: Path) -> None:
    ref = foreign.made(agent, tmp_path)
    gateway = Gateway()
    await gateway.holds(conversation_with_work(), 1)
    rescue_in_place(ref, None, await gateway.state(read_session(ref), KEY))
    parts = [part for one in read_session(ref).context for part in one.parts]
    calls = {part.call_id: (part.name, json.loads(part.arguments)) for part in parts if isinstance(part, ToolCall)}
    assert calls == {"call-1": ("depth", {"path": "a"}), "call-2": ("sound", {"path": "a"})}
    results = {part.call_id: part for part in parts if isinstance(part, ToolResult)}
    assert [results[call].parts for call in calls] == [(Text("eight fathoms"),), (Text("eight fathoms"),)]
    # Codex has no field for it.
    assert agent == "codex" or results["call-2"].outcome is ToolOutcome.FAILED
    assert [part.media_type for part in parts if isinstance(part, Media)] == ["image/png"]


def pi_session(home: Path, texts: list[str]) -> ForeignSession:
    """Write a session of pi in which each text was answered."""
    values = foreign.pi_entries()[:2]
    for number, text in enumerate(texts):
        for role in ("user", "assistant"):
            message = {"role": role, "content": [{"type": "text", "text": text if role == "user" else f"ok {number}"}]}
            parent = values[-1]["id"]
            values.append({"type": "message", "id": f"{role[0]}-{number}", "parentId": parent, "message": message})
    foreign.lines(home / ".pi/agent/sessions/--srv-ship--/2026_s-1.jsonl", values)
    return read_session(foreign.found("pi", home))


def texts_of(messages: tuple[NeutralMessage, ...]) -> list[str]:
    return [part.text for one in messages for part in one.parts if isinstance(part, Text)]


async def test_the_session_is_found_by_its_messages_and_later_messages_of_the_file_follow(tmp_path: Path) -> None:
    asked = [f"question {number} about the tide" for number in range(6)]
    session = pi_session(tmp_path, [*asked, "asked without the gateway"])
    gateway = Gateway()
    turns = [(user(f"<system-reminder>a</system-reminder>{text}"), answer("ok")) for text in asked]
    await gateway.holds(said(*(one for turn in turns for one in turn)), 4)
    await gateway.holds(said(user("something else"), answer("ok"), user("and more"), answer("ok")), 1, "dropin:b-1")
    await gateway.holds(said(user(asked[0]), answer("a title")), None, "dropin:c-1")
    state = await gateway.state(session)
    assert state is not None
    assert state.key == KEY
    assert SUMMARY in state.compaction.summary
    assert f"holdfast recall {KEY} N" in state.compaction.summary
    expected = [asked[4], "ok", asked[5], "ok", "asked without the gateway", "ok 6"]
    assert texts_of(state.compaction.tail) == expected


async def test_a_session_of_another_owner_or_without_a_compaction_is_not_taken(tmp_path: Path) -> None:
    asked = ["one thing", "another thing"]
    session = pi_session(tmp_path, asked)
    gateway = Gateway()
    turns = said(user(asked[0]), answer("ok"), user(asked[1]), answer("ok"))
    await gateway.holds(turns, 1, "@alice/dropin:client-1")
    await gateway.holds(turns, 1, "telegram:42")
    assert await gateway.state(session) is None
    await gateway.holds(turns, None)
    assert await gateway.state(session) is None
    with pytest.raises(UsageError, match="there is no session 'dropin:none'"):
        await gateway.state(session, "dropin:none")
