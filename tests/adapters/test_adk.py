"""`HoldfastSessionService` beside the services of the ADK in memory and in SQLite, and crashes."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="google-adk is not installed; `make adapters/adk` runs this")

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

import holdfast.blocking
from holdfast.adapters.adk import HoldfastSessionService, StaleSessionError
from holdfast.types.messages import Role
from tests.adapters.suites import KILLS, at_once, count_reads, killed_writer, run_page

pytestmark = pytest.mark.adapter

NAMES: Any = {"app_name": "é:app", "user_id": "u/1"}
EVENTS = [
    Event(author="user", invocation_id="i", content=types.Content(role="user", parts=[
        types.Part(text="find the harbour"),
        types.Part(inline_data=types.Blob(data=b"\0" * 60_000, mime_type="image/png"))])),
    Event(author="pilot", invocation_id="i", content=types.Content(role="model", parts=[
        types.Part(text="hidden", thought=True, thought_signature=b"\1\2\3" * 900),
        types.Part(function_call=types.FunctionCall(id="c1", name="depth", args={"place": "é"})),
        types.Part(function_call=types.FunctionCall(id="c2", name="depth", args={}))])),
    Event(author="pilot", invocation_id="i", content=types.Content(role="user", parts=[
        types.Part(function_response=types.FunctionResponse(id="c1", name="depth", response={"result": 12})),
        types.Part(function_response=types.FunctionResponse(id="c2", name="depth", response={"x": [None]}))])),
    Event(author="pilot", invocation_id="i", actions=EventActions(state_delta={"a": {"b": [0.1 + 0.2]}}),
          custom_metadata={"unknown": {"kind": None}}),
    Event(author="pilot", invocation_id="i", content=types.Content(role="model", parts=[types.Part(text="Kiel")])),
]  # fmt: skip
WRITER = """
import asyncio, sys, holdfast.blocking
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from holdfast.adapters.adk import HoldfastSessionService, StaleSessionError
service = HoldfastSessionService(holdfast.blocking.open(sys.argv[1]))
async def write():
    for n in range(int(sys.argv[2])):
        while True:
            session = await service.get_session(app_name="a", user_id="u", session_id="s")
            name = f"{sys.argv[3]}-{n}"
            try:
                await service.append_event(session, Event(author=name, actions=EventActions(state_delta={name: n})))
                break
            except StaleSessionError:
                pass
        print(n, flush=True)
asyncio.run(write())
"""


@pytest.fixture
def client() -> Iterator[holdfast.blocking.Client]:
    with holdfast.blocking.open(":memory:") as made:
        yield made


@pytest.fixture
def service(client: holdfast.blocking.Client) -> HoldfastSessionService:
    return HoldfastSessionService(client)


async def test_events_come_back_equal_and_are_messages_of_the_session(
    client: holdfast.blocking.Client, service: HoldfastSessionService
) -> None:
    session = await service.create_session(**NAMES, session_id="s")
    for event in EVENTS:
        await service.append_event(session, event)

    found = await service.get_session(**NAMES, session_id="s")

    assert found is not None
    assert found.events == EVENTS
    assert found.state == session.state == {"a": {"b": [0.1 + 0.2]}}
    roles = [one.role for one in client.session(service.key("é:app", "u/1", "s")).view().messages]
    assert roles == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]


@pytest.mark.parametrize("seed", range(10))
async def test_random_scripts_end_as_in_the_service_in_sqlite(
    service: HoldfastSessionService, tmp_path: Path, seed: int
) -> None:
    theirs = SqliteSessionService(str(tmp_path / "s.db"))

    assert await scripted(service, random.Random(seed)) == await scripted(theirs, random.Random(seed))


async def scripted(service: BaseSessionService, chance: random.Random) -> list[Any]:
    """Run a random script, and return the outcome of every step."""
    outcomes: list[Any] = []
    for step in range(80):
        user, name = chance.choice("uv"), chance.choice("st")
        keys: Any = {"app_name": "app", "user_id": user, "session_id": name}
        scope = chance.choice(["", "", "user:", "app:", "temp:"])
        change = {f"{scope}{chance.choice('xy')}": chance.choice([step, None, {"n": [step, 0.1]}])}
        action = chance.choice(["create", "append", "append", "append", "stale", "partial", "delete", "recent"])
        try:
            outcomes.append((action, await _one(service, action, keys, change, step)))
        except (AlreadyExistsError, SessionNotFoundError, ValueError) as error:
            outcomes.append((action, type(error).__name__))
        found = await service.get_session(**keys)
        outcomes.append(found and (found.state, [one.timestamp for one in found.events]))
        outcomes.append(await service.get_user_state(app_name="app", user_id=user))
    listed = await service.list_sessions(app_name="app")
    outcomes.append(
        [(one.user_id, one.id, one.state) for one in sorted(listed.sessions, key=lambda s: (s.user_id, s.id))]
    )
    return outcomes


async def _one(service: BaseSessionService, action: str, keys: Any, change: dict[str, Any], step: int) -> Any:
    # Later than the time at which sessions are created.
    event = Event(author="a", timestamp=4e9 + step, actions=EventActions(state_delta=dict(change)))
    session = await service.get_session(**keys)
    match action:
        case "create":
            return (await service.create_session(**keys, state=change)).state
        case "delete":
            return await service.delete_session(**keys)
        case "stale" if session is not None:
            await service.append_event(session.model_copy(deep=True), Event(author="b", timestamp=4e9 + step - 0.5))
            return await service.append_event(session, event)
        case "partial" if session is not None:
            event.partial = True
            return (await service.append_event(session, event)).partial
        case "append" if session is not None:
            return (await service.append_event(session, event)).actions.state_delta
        case _:
            config = GetSessionConfig(num_recent_events=step % 3)
            found = await service.get_session(**keys, config=config)
            return found and (len(found.events), found.state)


async def test_a_superseded_copy_of_a_session_is_stale(service: HoldfastSessionService) -> None:
    session = await service.create_session(**NAMES, session_id="s")
    other = await service.get_session(**NAMES, session_id="s")
    assert other is not None
    # With the same time: the revision decides, not the clock.
    first, second = (Event(author=name, timestamp=session.last_update_time) for name in "ab")
    await service.append_event(session, first)

    with pytest.raises(StaleSessionError):
        await service.append_event(other, second)

    found = await service.get_session(**NAMES, session_id="s")
    assert found is not None
    assert [one.author for one in found.events] == ["a"]


@pytest.mark.parametrize("kill", KILLS)
def test_acknowledged_events_survive_a_kill(tmp_path: Path, kill: str) -> None:
    path = tmp_path / "s.db"
    created(path)

    acknowledged = killed_writer(WRITER, str(path), "1000", "w", lines=15, kill=kill)

    authors, state = stored(path)
    assert authors == [f"w-{number}" for number in range(len(authors))]
    assert len(acknowledged) <= len(authors) <= len(acknowledged) + 1
    assert state == {f"w-{number}": number for number in range(len(authors))}


def test_two_processes_conflict_and_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    created(path)

    at_once(WRITER, str(path), "20")

    authors, state = stored(path)
    assert sorted(authors) == sorted(f"{writer}-{number}" for writer in "01" for number in range(20))
    assert sorted(state) == sorted(authors)


def created(path: Path) -> None:
    with holdfast.blocking.open(path) as client:
        asyncio.run(HoldfastSessionService(client).create_session(app_name="a", user_id="u", session_id="s"))


def stored(path: Path) -> tuple[list[str], dict[str, Any]]:
    with holdfast.blocking.open(path) as client:
        service = HoldfastSessionService(client)
        found = asyncio.run(service.get_session(app_name="a", user_id="u", session_id="s"))
    assert found is not None
    return [one.author for one in found.events], found.state


async def test_the_hundredth_event_costs_what_the_tenth_did(
    client: holdfast.blocking.Client, service: HoldfastSessionService, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await service.create_session(**NAMES, session_id="s")
    counts = count_reads(client, monkeypatch)
    for number in range(100):
        change = {f"k{number % 5}": number, f"user:k{number % 5}": number}
        await service.append_event(session, Event(author="a", actions=EventActions(state_delta=change)))
        counts.append(0)

    assert counts[99] <= 1.5 * counts[9]


def test_the_program_of_the_page_prints_what_it_says(tmp_path: Path) -> None:
    printed, shown = run_page("adk.md", tmp_path)

    assert printed == shown
