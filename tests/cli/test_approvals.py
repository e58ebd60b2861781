"""Approvals and settings on the command line: a person answers, the program that has the tool continues."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

import holdfast as library
from holdfast.cli.chat.slash_commands import changed_settings
from holdfast.errors import BadInputError
from holdfast.types.records import ApprovalAnswered, ApprovalRequested, Logged
from holdfast.types.settings import NO_SETTINGS, Settings
from tests.cli.programs import holdfast, terminal
from tests.runtime.talks import next_record


@library.tool(approve=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store in which the call of a program that was ended waits for an approval."""
    path = tmp_path / "bot.db"

    async def ask() -> None:
        async with library.open(path, tools=[pay]) as client:
            chat = await client.session("telegram:42")
            await chat.post('call pay {"amount": 5}')
            await next_record(chat, ApprovalRequested)

    asyncio.run(ask())
    return path


def answers(store: Path) -> list[ApprovalAnswered]:
    shown = holdfast("show", "telegram:42", "--store", store, "--after", "0", "--limit", "1000", "--json")
    records = [msgspec.json.decode(line, type=Logged).record for line in shown.stdout.splitlines()]
    return [record for record in records if isinstance(record, ApprovalAnswered)]


def finished(store: Path) -> str:
    """Return the answer after the program has come back."""

    async def wait() -> str:
        async with library.open(store, tools=[pay]) as client:
            return (await (await client.session("telegram:42")).wait(1)).text

    return asyncio.run(wait())


def test_a_waiting_call_is_listed_and_approved_by_a_command_and_the_program_runs_it(store: Path) -> None:
    listed = holdfast("approvals", "--store", store)
    assert listed.stdout.decode().split()[:3] == ["telegram:42", "#5", "pay"]
    (line,) = holdfast("approvals", "telegram:42", "--store", store, "--json").stdout.splitlines()
    assert {**json.loads(line), "asked_at": 0, "call_id": ""} == {
        "session": "telegram:42",
        "request": 5,
        "turn": 1,
        "call_id": "",
        "tool": "pay",
        "arguments": '{"amount": 5}',
        "asked_at": 0,
    }
    approved = holdfast("approve", "telegram:42", "--store", store, "--json")
    assert json.loads(approved.stdout) == {"session": "telegram:42", "request": 5, "answer": "approved", "is_new": True}
    again = holdfast("deny", "telegram:42", "5", "--note", "late", "--store", store)
    assert again.stdout == b"Request 5 was answered before, or its turn has ended; nothing was changed.\n"
    none_left = holdfast("approve", "telegram:42", "--store", store)
    assert none_left.returncode == 2
    assert b"no tool call of session 'telegram:42' waits for an approval" in none_left.stderr
    assert holdfast("approvals", "--store", store).stdout == b"No tool call waits for an approval.\n"
    assert finished(store) == "The tool pay returned: paid 5"


def test_one_message_to_a_session_that_waits_is_not_sent_and_says_how_to_answer(store: Path) -> None:
    told = holdfast("chat", "--store", store, "-s", "telegram:42", "hello", "--json")
    assert told.returncode == 75
    assert json.loads(told.stdout)["error"]["message"] == (
        '[#5] pay {"amount": 5} waits for an approval; the message was not sent. Answer with `holdfast approve '
        "telegram:42 5` or `holdfast deny telegram:42 5`"
    )


def test_a_chat_shows_what_waits_and_takes_the_answer(store: Path) -> None:
    with terminal("chat", "--store", store, "-s", "telegram:42") as screen:
        screen.until('[#5] pay {"amount": 5} waits for an approval; answer with /approve, or /deny WHY\n')
        screen.write("/approve now\n")
        screen.until("/approve takes the number of a request, or nothing")
        screen.write("/deny at most 4\n")
        screen.until("[#5] denied: at most 4\n")
        screen.write("/approve 5\n")
        screen.until("Request 5 was answered before, or its turn has ended.")
        screen.write("/approve\n")
        screen.until("No tool call waits for an approval.")
        screen.write("/settings temperature=0.2 stop=END\n")
        screen.until('Settings of this session: temperature=0.2 stop=["END"].')
        screen.write("/settings temprature=1\n")
        screen.until("'temprature=1' is not a setting")
        screen.write("/settings 'a\n")
        screen.until("the quotes do not match")
        screen.write("/settings -\n")
        screen.until("Settings of this session: none.")
        screen.write("/quit\n")
        assert screen.end() == 0
    assert answers(store) == [ApprovalAnswered(1, 5, is_approved=False, note="at most 4")]
    assert "said: at most 4" in finished(store)


def test_settings_are_read_as_a_shell_gives_them() -> None:
    given = ["temperature=0.2", "seed=7", "stop=a b", 'metadata={"a": "b"}', "tool_choice=none", "effort=high"]
    kept = changed_settings(NO_SETTINGS, [*given, "parallel_tool_calls=false"])
    assert kept == Settings(
        temperature=0.2,
        seed=7,
        stop=("a b",),
        metadata={"a": "b"},
        tool_choice="none",
        effort="high",
        parallel_tool_calls=False,
    )
    assert changed_settings(kept, ["seed=", 'stop=["x", "y"]']).stop == ("x", "y")
    for pair, sentence in [
        ("temperature", "is not a setting; use NAME=VALUE with one of temperature"),
        ("temperature=hot", "temperature=hot: expected `float | null`"),
        ("temperature=5", "give a number from 0 to 2"),
    ]:
        with pytest.raises(BadInputError, match=sentence.replace("|", r"\|")):
            changed_settings(NO_SETTINGS, [pair])


def test_a_message_with_a_schema_prints_json_of_it(tmp_path: Path) -> None:
    schema = tmp_path / "port.json"
    schema.write_text('{"type": "object", "properties": {"depth": {"type": "integer"}}, "required": ["depth"]}')
    store = tmp_path / "a.db"
    options = ("--store", store, "--output", schema)
    plain = holdfast("chat", *options, "--set", "temperature=0", "depth = 12")
    assert (plain.returncode, json.loads(plain.stdout)) == (0, {"depth": 12})
    told = holdfast("chat", *options, "--json", "depth = 13")
    assert json.loads(told.stdout)["output"] == {"depth": 13}
    schema.write_text('{"type": "array"}')
    refused = holdfast("chat", *options, "depth = 12")
    assert (refused.returncode, b'must be of type "object"' in refused.stderr) == (2, True)
    schema.write_text("[")
    assert b"is not JSON" in holdfast("chat", *options, "depth = 12").stderr
