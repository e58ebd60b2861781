"""Compacting and undoing from the command line, also while another process has the store open."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from holdfast import wiring
from holdfast.cli import command_line
from holdfast.core.limits.bounds import Bounds
from holdfast.runtime.sessions.view import Preview
from tests.cli.programs import holdfast
from tests.cli.test_commands import invoked
from tests.runtime.test_rollover import ONE_MORE, Narrow, pin_all_that_fits

KEY = "telegram:42"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with a session that has something to compact: more than a tenth of the simulated model's window."""
    path = tmp_path / "store.db"

    async def fill() -> None:
        async with wiring.open(path) as client:
            session = await client.session(KEY)
            for number in range(3):
                await session.send(f"message {number}: " + f"src/part{number}.py has a bug in line {number}. " * 700)
            await session.send("hello")

    asyncio.run(fill())
    return path


def test_a_preview_tells_what_would_be_done_and_does_nothing(store: Path) -> None:
    before = invoked("show", KEY, "--store", store)

    told = invoked("compact", KEY, "--preview", "--store", store)
    seen = msgspec.json.decode(invoked("compact", KEY, "--preview", "--json", "--store", store), type=Preview)

    assert f"leaves:    {seen.messages} messages of {seen.turns} turns, records 1 to {seen.last_seq}\n" in told
    assert f"tokens:    about {seen.tokens_before:,} now, {seen.tokens_after:,} then\n" in told
    assert "--- replaced by a digest, without a model\n<earlier-conversation>" in told
    assert "src/part0.py" in told
    assert invoked("show", KEY, "--store", store) == before


def test_a_compaction_does_what_the_preview_with_a_model_showed_and_undo_takes_it_back(store: Path) -> None:
    view = invoked("view", KEY, "--store", store)
    asked = ("compact", KEY, "--focus", "the bug in line 1", "--store", store)
    seen = msgspec.json.decode(invoked(*asked, "--preview", "--with-model", "--json"), type=Preview)
    assert seen.model == "sim"

    told = invoked(*asked)

    expected = f"are replaced by a summary by sim; {seen.tokens_before:,} tokens became {seen.tokens_after:,}\n"
    assert told == f"session {KEY!r}: the messages before message {seen.boundary} {expected}"
    assert invoked("compact", KEY, "--store", store) == (
        f"session {KEY!r}: there is nothing to compact: the newest messages stay as they are, and there are no others\n"
    )
    assert "There is nothing to compact." in invoked("compact", KEY, "--preview", "--store", store)
    undone = f"session {KEY!r}: undone; the model sees every message from the beginning again\n"
    assert invoked("undo", KEY, "--store", store) == undone
    assert _without_spent(invoked("view", KEY, "--store", store)) == _without_spent(view)
    assert invoked("undo", KEY, "--store", store) == f"session {KEY!r}: there is nothing to undo\n"


def _without_spent(view: str) -> list[str]:
    """What was paid stays paid."""
    return [line for line in view.splitlines() if not line.startswith("spent:")]


def test_a_compaction_as_json_has_its_outcome_and_its_record(store: Path) -> None:
    done = msgspec.json.decode(invoked("compact", KEY, "--json", "--store", store))

    assert (done["outcome"], done["applied"]["type"]) == ("applied", "CompactionApplied")
    again = msgspec.json.decode(invoked("compact", KEY, "--json", "--store", store))
    assert (again["outcome"], again["applied"]) == ("nothing_to_do", None)


async def test_both_work_on_a_store_that_another_process_serves(store: Path) -> None:
    async with wiring.open(store) as client:
        session = await client.session(KEY)

        compact_session = await asyncio.to_thread(holdfast, "compact", KEY, "--store", store)
        assert (compact_session.returncode, compact_session.stderr) == (0, b"")
        boundary = (await session.view()).boundary
        assert boundary > 1
        assert (await session.send("hello again")).text.startswith("You said")
        undone = await asyncio.to_thread(holdfast, "undo", KEY, "--store", store)

        assert (undone.returncode, undone.stderr) == (0, b"")
        assert (await session.view()).boundary == 0
        assert (await session.send("and now?")).text.startswith("You said")


def test_a_generation_is_told_by_view_and_show_and_undone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def fill() -> None:
        tuning = wiring.Tuning(bounds=Bounds(compacts_ahead=False))
        async with wiring.open(path, model=Narrow(), tuning=tuning) as client:
            session = await client.session(KEY)
            await pin_all_that_fits(session)
            await session.send(ONE_MORE)

    asyncio.run(fill())

    assert "generation: 2; `holdfast show` has the earlier ones\n" in invoked("view", KEY, "--store", path)
    shown = invoked("show", KEY, "--limit", "1000", "--store", path)
    assert "generation 2 starts: of all before, the view has only message" in shown
    assert "rule 0: never touch src/part0.py" in shown, "the old generation is there to be read"
    assert "sees every message from" in invoked("undo", KEY, "--store", path)
    assert "generation" not in invoked("view", KEY, "--store", path).splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["compact", "telegram:4"], "there is no session 'telegram:4'; did you mean 'telegram:42'?"),
        (["undo", "telegram:4"], "there is no session 'telegram:4'; did you mean 'telegram:42'?"),
        (["compact", KEY, "--with-model"], "--with-model needs --preview"),
    ],
)
def test_what_is_asked_wrongly_is_told_in_one_sentence(store: Path, arguments: list[str], sentence: str) -> None:
    ended = CliRunner().invoke(command_line, [*arguments, "--store", str(store)])

    assert ended.exit_code != 0
    assert sentence in f"{ended.output}{ended.exception}"


def test_a_message_is_left_out_and_taken_back(store: Path) -> None:
    left_out = f"session {KEY!r}: record 1 is left out of what the model sees; --undo takes that back\n"
    assert invoked("exclude", KEY, "1", "--store", store) == left_out
    assert "A message of" in invoked("view", KEY, "--store", store)
    assert "record 1 is left out: by request" in invoked("show", KEY, "--store", store)

    assert (
        invoked("exclude", KEY, "1", "--undo", "--store", store)
        == f"session {KEY!r}: record 1 is shown to the model again\n"
    )
    assert "is left out here" not in invoked("view", KEY, "--store", store)
