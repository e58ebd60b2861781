"""Long-term memory: notes that the sessions of one scope share."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import BadInputError
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.maintenance.supervisor import Supervisor
from holdfast.runtime.memory import notes as notes_module
from holdfast.runtime.sessions.client import Client
from holdfast.stores.memory import MemoryStore
from holdfast.testing.crashes import CrashingStore, CrashPoint, Died, Side
from holdfast.testing.engines import FunctionModel, an_engine, says
from holdfast.types.messages import Reply, Request, Role, ToolCall, ToolResult, text_of


async def test_notes_are_added_changed_removed_and_found_again_by_another_process(tmp_path: Path) -> None:
    async with holdfast.open(tmp_path / "s.db") as client:
        memory = client.memory("user:42")
        tea = await memory.add("Prefers green tea over coffee.")
        boat = await memory.add("Owns a boat in Kiel.", session="telegram:42")
        old = await memory.add("Lives in Oslo.")
        await memory.edit(tea.id, "Prefers black tea.")
        await memory.remove(old.id)

    async with holdfast.open(tmp_path / "s.db") as client:
        memory = client.memory("user:42")
        assert [(one.id, one.text, one.session) for one in await memory.notes()] == [
            (tea.id, "Prefers black tea.", ""),
            (boat.id, "Owns a boat in Kiel.", "telegram:42"),
        ]
        assert [one.id for one in await memory.search("which tea")] == [tea.id]
        assert await memory.search("Oslo") == []
        assert await client.memory("user:43").notes() == []
        assert await client.sessions() == []


async def test_two_processes_see_the_notes_of_each_other(tmp_path: Path) -> None:
    async with holdfast.open(tmp_path / "s.db") as one, holdfast.open(tmp_path / "s.db") as other:
        first, second = one.memory("u"), other.memory("u")

        await asyncio.gather(*(memory.add(f"note {number}") for number in range(10) for memory in (first, second)))

        assert len(await first.notes()) == 20
        assert await first.notes() == await second.notes()


async def test_a_note_with_a_client_id_is_added_once(tmp_path: Path) -> None:
    async with holdfast.open(tmp_path / "s.db") as client:
        memory = client.memory("u")
        assert await memory.add("a", client_id="n") == await memory.add("a", client_id="n")
        assert len(await memory.notes()) == 1


async def test_bad_notes_and_scopes_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with holdfast.open(tmp_path / "s.db") as client:
        memory = client.memory("u")
        for text in ("", "  ", "x" * 4_001):
            with pytest.raises(BadInputError, match="1 to 4,000 characters"):
                await memory.add(text)
        for change in (memory.edit("unknown", "x"), memory.remove("unknown")):
            with pytest.raises(BadInputError, match="there is no note 'unknown'"):
                await change
        with pytest.raises(BadInputError, match="reserved"):
            client.memory("holdfast:learned")
        monkeypatch.setattr(notes_module, "NOTES_MAX", 1)
        await memory.add("first")
        with pytest.raises(BadInputError, match="which is the limit; remove or merge"):
            await memory.add("second")


@pytest.mark.parametrize("side", Side)
async def test_a_crash_in_a_change_leaves_the_note_whole(side: Side) -> None:
    store = MemoryStore(clock=SystemClock())
    engine = an_engine(FunctionModel(lambda _: says("hi")), store=CrashingStore(store, CrashPoint(1, side)))
    dying = Client(engine, Supervisor(engine, owner="dying", lease_seconds=30)).memory("u")
    with pytest.raises(Died):
        await dying.add("a fact", client_id="n")

    engine = an_engine(FunctionModel(lambda _: says("hi")), store=store)
    memory = Client(engine, Supervisor(engine, owner="next", lease_seconds=30)).memory("u")
    assert [one.text for one in await memory.notes()] == (["a fact"] if side is Side.AFTER else [])
    await memory.add("a fact", client_id="n")
    assert [one.text for one in await memory.notes()] == ["a fact"]


def calling(*arguments: str) -> FunctionModel:
    """Return a model that calls the memory tool with these arguments, one after the other, and repeats the results."""
    left = list(arguments)

    def respond(request: Request) -> Reply:
        if left:
            return says("", ToolCall(f"c{len(left)}", "memory", left.pop(0)))
        results = [part for one in request.messages if one.role is Role.TOOL for part in one.parts]
        return says("\n".join(text_of(part.parts) for part in results if isinstance(part, ToolResult)))

    return FunctionModel(respond)


def user_of(key: str) -> str:
    return key.rpartition(":")[0]


async def test_a_session_writes_a_note_and_another_of_the_same_user_reads_it(tmp_path: Path) -> None:
    scope: Callable[[str], str] = user_of
    model = calling('{"action":"add","text":"Has a boat in Kiel."}')
    async with holdfast.open(tmp_path / "s.db", model=model, memory=scope) as client:
        await (await client.session("u1:monday")).send("I have a boat")
    model = calling('{"action":"search","text":"boat"}')
    async with holdfast.open(tmp_path / "s.db", model=model, memory=scope) as client:
        assert "Has a boat in Kiel." in (await (await client.session("u1:friday")).send("what do I have?")).text
    model = calling('{"action":"search"}')
    async with holdfast.open(tmp_path / "s.db", model=model, memory=scope) as client:
        assert (await (await client.session("u2:friday")).send("what do I have?")).text == "(no notes)"
        (note,) = await client.memory("u1").notes()
    edits = (f'{{"action":"edit","note":"{note.id}","text":"Sold it."}}', f'{{"action":"remove","note":"{note.id}"}}')
    async with holdfast.open(tmp_path / "s.db", model=calling(*edits, "{}"), memory="u1") as client:
        said = (await (await client.session("other")).send("sold")).text
        assert "Sold it." in said
        assert f"removed: [{note.id}]" in said
        assert "the arguments are invalid" in said
        assert await client.memory("u1").notes() == []


async def test_tenants_have_memories_of_their_own(tmp_path: Path) -> None:
    for session, text in (("@alice/u1:a", "secret of alice"), ("@bob/u1:a", "secret of bob")):
        model = calling(f'{{"action":"add","text":"{text}"}}', '{"action":"search"}')
        async with holdfast.open(tmp_path / "s.db", model=model, memory=user_of) as client:
            said = (await (await client.session(session)).send("hello")).text
            assert text in said
            assert said.count("secret") == 2
