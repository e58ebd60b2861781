"""The client without asyncio: threads, loops, streams, and the end of the program."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import holdfast
import holdfast.blocking
from holdfast.adapters.loop_thread import LoopThread
from holdfast.errors import StoppingError, UsageError
from holdfast.types.messages import Message, Role, Text


def test_a_session_works_without_asyncio_and_survives(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with holdfast.blocking.open(path) as client:
        chat = client.session("s")
        assert str(chat.send("remember harbour = Kiel")) == "I will remember that harbour = Kiel."
        deltas = [one.text for one in chat.stream("what is harbour?") if isinstance(one, holdfast.TextDelta)]
        assert "".join(deltas) == "harbour = Kiel."
        assert [one.key for one in client.sessions()] == ["s"]
    with holdfast.blocking.open(path) as client:
        assert client.session("s").view().messages[0] == Message(Role.USER, (Text("remember harbour = Kiel"),))
        assert client.pending() == 0


def test_every_method_of_a_session_and_a_client_is_there() -> None:
    left = {"at_close", "close_interfaces", "engine"}
    for ours, theirs in ((holdfast.blocking.Session, holdfast.Session), (holdfast.blocking.Client, holdfast.Client)):
        public = {name for name in dir(theirs) if not name.startswith("_")}
        assert public - left <= set(dir(ours))


def test_a_reader_that_leaves_a_stream_does_not_cancel_the_turn() -> None:
    with holdfast.blocking.open(":memory:") as client:
        chat = client.session("s")
        events = chat.stream("hello")
        next(events)
        events.close()
        (turn,) = [one.seq for one in chat.history(limit=1)]
        assert chat.wait(turn).text


def test_a_client_is_used_from_many_threads_at_once() -> None:
    with holdfast.blocking.open(":memory:") as client:
        answers: list[str] = []
        threads = [
            threading.Thread(target=lambda key=f"s{n}": answers.append(client.session(key).send("hello").text))
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(answers) == 8


def test_a_client_is_awaited_from_several_event_loops() -> None:
    with holdfast.blocking.open(":memory:") as client:

        async def ask() -> str:
            chat = await client.call(client.client.session("s"))
            return (await client.call(chat.send("hello"))).text

        assert [bool(asyncio.run(ask())) for _ in range(2)] == [True, True]


async def test_a_cancelled_write_of_another_loop_has_ended_when_the_caller_is_told() -> None:
    thread, begun, ended = LoopThread(), threading.Event(), threading.Event()

    async def write() -> None:
        begun.set()
        await asyncio.sleep(0.01)
        ended.set()

    task = asyncio.create_task(thread.call(write()))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
    thread.close()


def test_a_blocking_call_in_its_own_loop_is_a_usage_error() -> None:
    with holdfast.blocking.open(":memory:") as client:

        async def nested() -> None:
            client.pending()

        with pytest.raises(UsageError, match="never end"):
            client.thread.run(nested())


def test_a_closed_client_says_so_and_closing_twice_is_a_no_op() -> None:
    client = holdfast.blocking.open(":memory:")
    client.close()
    client.close()

    with pytest.raises(StoppingError):
        client.session("s")


def test_a_store_that_cannot_be_opened_leaves_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()

    with pytest.raises(holdfast.HoldfastError):
        holdfast.blocking.open(tmp_path)

    assert threading.active_count() == before


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)", "raise ValueError"])
def test_the_end_of_the_program_closes_a_client(tmp_path: Path, end: str) -> None:
    path = tmp_path / "s.db"
    program = f"import holdfast.blocking\nclient = holdfast.blocking.open({str(path)!r})\n"
    program += f"print(client.session('s').send('hello').text)\n{end}"

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert run.stdout.startswith("You said")
    assert ("ValueError" in run.stderr) == ("ValueError" in end)
    assert "never awaited" not in run.stderr
    assert "Unclosed" not in run.stderr
    assert not (tmp_path / "s.db-owners").exists()
