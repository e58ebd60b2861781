"""The demo: its figures can be wrong and then say so, and whatever happens to it, it leaves nothing behind."""

import contextlib
import io
import os
import re
import select
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import apsw
import msgspec
import pytest
from msgspec.structs import replace

from holdfast.lab.demo.client import Flip, Inputs, Observations, Sent
from holdfast.lab.demo.context import FAST, KEY, STORE
from holdfast.lab.demo.display import LineDisplay
from holdfast.lab.demo.report import DISASTERS, StoreContents, count_figures, disaster_evidence, read_store
from holdfast.lab.demo.run import DemoOutput, DemoResult, Plan, print_result, run_demo
from holdfast.runtime.maintenance.doctor import Finding
from holdfast.stores.sqlite.copy import copy_store
from holdfast.testing.builders import a_reply, a_turn_ended, an_input
from holdfast.types.messages import BlobRef, Media, Text
from holdfast.types.records import (
    AnyRecord,
    AttemptFailed,
    CompactionApplied,
    DamageSetAside,
    InputAdmitted,
    Logged,
    MessageExcluded,
    Outcome,
    PartReplaced,
    RungFinished,
    SummaryRefused,
    TurnEnded,
)
from tests.cli.programs import PROGRAM, bounded, environment, terminal

# A whole demo takes a quarter of a minute, and was seen to take a minute and a half on a machine with nine others.
WHOLE_SECONDS = 400.0


# --- a whole demo, and what becomes of its figures where something is missing ----------------------------------------


async def test_a_demo_survives_everything_and_its_figures_fail_with_every_piece_of_evidence(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    folder.mkdir()
    out = io.StringIO()
    result = await run_demo(Plan(folder, 7, FAST), LineDisplay(out))
    stored = await read_store(folder / STORE, KEY)
    observed = result.observed

    figures = result.figures
    assert figures.broken == (), out.getvalue()
    assert (figures.lost, figures.doubled, figures.altered, figures.kills) == (0, 0, 0, 1)
    assert (figures.answered, figures.told_why) == (figures.sent - 3, 3)
    assert figures.compactions > figures.digests > 0
    assert figures.facts_recalled == figures.facts_found == figures.facts_planted == len(Inputs(7).facts)
    assert [one.name for one in figures.disasters] == list(DISASTERS)
    assert print_result(result, folder / STORE, io.StringIO(), as_json=False) == 0

    await sabotaged_copies_are_found(result, folder / STORE, tmp_path)
    for name, spoil in SPOILERS.items():
        spoilt = dict(shown(observed, spoil(observed, stored)))
        assert spoilt[name] == "", f"{name} is still shown by {spoilt[name]!r}"


async def sabotaged_copies_are_found(result: DemoResult, store: Path, tmp_path: Path) -> None:
    """Take one record out of a copy of the store, and count again."""
    answered = next(sent for sent in result.observed.sent if sent.answer is not None)
    for number, (kind, seq) in enumerate([("TurnEnded", 0), ("InputAdmitted", answered.turn)]):
        copy = tmp_path / f"copy-{number}.db"
        copy_store(store, copy)
        removed = remove_record(copy, kind, seq)
        stored = await read_store(copy, KEY)
        figures = count_figures(result.observed, stored, seconds=1.0)
        out = io.StringIO()
        exit_code = print_result(replace(result, figures=figures), copy, out, as_json=False)

        assert (exit_code, figures.lost, figures.altered) == (1, 1, 1), f"record {removed}"
        assert re.search(r"^  lost +1$", out.getvalue(), re.MULTILINE), out.getvalue()
        assert f"The store is kept: {copy}" in out.getvalue()


def remove_record(path: Path, kind: str, seq: int) -> int:
    """Remove one record of a kind: the first, or the one with this number. Return its number."""
    with apsw.Connection(str(path)) as db:
        for table in ("records", "recent"):
            select = f"SELECT seq FROM {table} WHERE instr(body, ?) AND (seq = ? OR ? = 0) ORDER BY seq LIMIT 1"
            found = db.execute(select, (f'"{kind}"', seq, seq)).get
            if found is not None:
                db.execute(f"DELETE FROM {table} WHERE seq = ? AND instr(body, ?)", (found, f'"{kind}"'))
                assert isinstance(found, int)
                return found
    raise AssertionError(f"there is no {kind}")


def shown(observed: Observations, stored: StoreContents) -> list[tuple[str, str]]:
    return [(one.name, one.evidence) for one in disaster_evidence(observed, stored)]


def without(*kinds: type[AnyRecord]) -> Callable[[Observations, StoreContents], StoreContents]:
    """Return what spoils the evidence by leaving out records of these kinds."""

    def spoil(_: Observations, stored: StoreContents) -> StoreContents:
        return stored._replace(records=[one for one in stored.records if not isinstance(one.record, kinds)])

    return spoil


def with_a_second_compaction(observed: Observations, stored: StoreContents) -> StoreContents:
    """Return a store in which both of those who raced made a compaction."""
    assert observed.race is not None
    applied = next(
        one for one in stored.records if isinstance(one.record, CompactionApplied) and one.seq > observed.race.after
    )
    return stored._replace(records=sorted([*stored.records, applied], key=lambda one: one.seq))


def with_other_bytes_in_quarantine(_: Observations, stored: StoreContents) -> StoreContents:
    return stored._replace(quarantined=[replace(one, body=b"?" * len(one.body)) for one in stored.quarantined])


SPOILERS: dict[str, Callable[[Observations, StoreContents], StoreContents]] = {
    "the conversation outgrows the window": without(CompactionApplied),
    "the summariser is refused": without(SummaryRefused),
    "rate limits": without(AttemptFailed),
    "every model is down": without(TurnEnded),
    "an image of 30 MB": without(PartReplaced),
    "refusals and usage that mislead": without(AttemptFailed),
    "a text that the provider refuses": without(MessageExcluded),
    "kill -9 in the middle of a compaction": without(RungFinished),
    "restart": without(TurnEnded),
    "two processes race for one compaction": with_a_second_compaction,
    "a flipped bit in the store": with_other_bytes_in_quarantine,
}


def test_the_program_exits_with_0_prints_one_document_and_leaves_nothing_behind(tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/opened\n')
    browser.chmod(0o700)
    folder = tmp_path / "temporary"
    folder.mkdir()
    settings = environment(TMPDIR=str(folder), BROWSER=str(browser))
    ended = subprocess.run(
        [*PROGRAM, "demo", "--fast", "--json", "--page", "--seed", "3"],
        input=b"\n",
        capture_output=True,
        env=settings,
        timeout=WHOLE_SECONDS,
        check=False,
    )

    told = msgspec.json.decode(ended.stdout, type=DemoOutput)
    assert (ended.returncode, told.figures.broken, told.store, told.seed) == (0, (), "", 3)
    (address,) = (tmp_path / "opened").read_text().splitlines()
    assert ended.stderr.decode() == f"The page stays at {address} until Enter or Ctrl-C.\n"
    assert list(folder.iterdir()) == []


# --- figures ---------------------------------------------------------------------------------------------------------


def a_held(*records: AnyRecord) -> StoreContents:
    return StoreContents([Logged(seq, float(seq), record) for seq, record in enumerate(records, start=1)], [], {})


def an_exchange(**told: object) -> tuple[Observations, StoreContents]:
    """Return one message that was answered, on both sides."""
    stored = a_held(an_input("hello", client_id="m"), a_reply("hi"), a_turn_ended())
    sent = replace(Sent("m", "hello", turn=1, answer="hi"), **told)
    return Observations(window_tokens=100, sent=[sent], watched=list(stored.records), found_at_end=()), stored


def sentences(observed: Observations, stored: StoreContents) -> list[str]:
    """Return what is broken, but for the disasters that did not happen here."""
    return [one for one in count_figures(observed, stored, 1.0).broken if not one.startswith("there is no evidence")]


def test_a_message_that_both_sides_agree_on_is_not_lost() -> None:
    observed, stored = an_exchange()
    assert (sentences(observed, stored), count_figures(observed, stored, 1.0).lost) == ([], 0)


@pytest.mark.parametrize(
    ("told", "records", "sentence"),
    [
        ({"answer": None}, None, "message m was never answered"),
        ({"answer": "ho"}, None, "message m was answered, but the store does not have that answer"),
        ({"text": "hallo"}, None, "message m is in the store with another text"),
        ({"turn": 5}, None, "message m was accepted as turn 5 and is turn 1 in the store"),
        ({"attached": "00"}, None, "the attachment of message m is not in the store byte for byte"),
        ({}, (an_input("hello"), a_reply("hi"), a_turn_ended()), "message m is not in the store"),
        ({}, (an_input("hello", client_id="m"), a_reply("hi")), "message m has 0 outcomes in the store instead of one"),
        (
            {},
            (an_input("hello", client_id="m"), a_reply("hi"), a_turn_ended(outcome=Outcome.FAILED)),
            "message m was answered, but the store does not have that answer",
        ),
    ],
)
def test_a_message_that_the_two_sides_do_not_agree_on_is_lost(
    told: dict[str, object], records: tuple[AnyRecord, ...] | None, sentence: str
) -> None:
    observed, stored = an_exchange(**told)
    if records is not None:
        stored = a_held(*records)
        observed.watched = list(stored.records)
    figures = count_figures(observed, stored, 1.0)
    assert (sentences(observed, stored), figures.lost) == ([sentence], 1)


def test_an_attachment_counts_only_with_the_bytes_that_its_name_stands_for() -> None:
    observed, stored = an_exchange(attached="00")
    media = Media(BlobRef("00", 3), "image/png")
    admitted = InputAdmitted((Text("hello"), media), "m")
    stored = a_held(admitted, a_reply("hi"), a_turn_ended())._replace(attachments={"00": b"abc"})
    observed.watched = list(stored.records)
    assert sentences(observed, stored) == ["the attachment of message m is not in the store byte for byte"]


def test_an_answer_that_was_damaged_on_purpose_is_not_lost_and_any_other_is() -> None:
    observed, stored = an_exchange()
    records = [*stored.records]
    records[1] = Logged(2, 2.0, DamageSetAside("its bytes do not match their checksum", "quarantine:1", until=2))
    damaged = stored._replace(records=records)
    lost = count_figures(observed, damaged, 1.0).lost
    observed.flip = Flip(seq=2, at=99, bit=1)
    assert (lost, count_figures(observed, damaged, 1.0).lost) == (1, 0)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"out_of_order": 2},
            "0 records differ between the event stream and the store, and 2 arrived twice or out of order",
        ),
        (
            {"watched": []},
            "3 records differ between the event stream and the store, and 0 arrived twice or out of order",
        ),
        ({"facts": {"a": "b"}, "searched": {"a": "b"}}, "1 of 1 facts were not recalled"),
        ({"facts": {"a": "b"}, "recalled": {"a": "b"}}, "1 of 1 facts were not found by search"),
        ({"found_at_end": None}, "doctor did not check the store"),
        ({"found_at_end": (Finding("x", "a page is torn"),)}, "doctor found: a page is torn"),
    ],
)
def test_a_broken_promise_is_told(change: dict[str, object], sentence: str) -> None:
    observed, stored = an_exchange()
    assert sentences(replace(observed, **change), stored) == [sentence]


def test_a_message_that_ends_otherwise_than_it_must_is_told() -> None:
    failed = a_held(an_input("hello", client_id="m"), a_turn_ended(outcome=Outcome.FAILED))
    observed, stored = an_exchange(expected_code="transient")
    unexpected, _ = an_exchange(answer=None, reason="no model")
    unexpected.watched = list(failed.records)
    assert sentences(observed, stored) == ["message m was answered, although its outcome should be the code transient"]
    assert sentences(unexpected, failed) == ["message m ended without an answer: no model"]


def test_a_message_that_stands_twice_is_told_and_so_is_nothing_at_all() -> None:
    observed, stored = an_exchange()
    twice = a_held(*(one.record for one in stored.records), an_input("hello", client_id="m"), a_turn_ended())
    observed.watched = list(twice.records)
    figures = count_figures(observed, twice, 1.0)
    assert (figures.doubled, figures.lost) == (2, 1)
    assert "nothing was sent" in count_figures(Observations(window_tokens=1), a_held(), 1.0).broken


def test_two_seeds_plant_different_facts_and_one_seed_the_same() -> None:
    assert Inputs(1).facts == Inputs(1).facts != Inputs(2).facts
    assert Inputs(1).page(3, 5) == Inputs(1).page(3, 5) != Inputs(1).page(4, 5)


# --- whatever happens to it ------------------------------------------------------------------------------------------


def a_demo(folder: Path, *more: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [*PROGRAM, "demo", "--fast", *more],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(TMPDIR=str(folder)),
        start_new_session=True,
    )


def is_anybody_left(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGINT, 130)])
def test_a_demo_that_is_ended_takes_its_processes_and_its_files_with_it(
    tmp_path: Path, number: signal.Signals, exit_code: int
) -> None:
    with bounded(a_demo(tmp_path)) as program:
        assert program.stdout is not None
        assert any(line.startswith(b"2. ") for line in program.stdout)
        program.send_signal(number)
        _, told = program.communicate(timeout=WHOLE_SECONDS)
    assert (program.returncode, told.strip(), is_anybody_left(program.pid)) == (exit_code, b"", False)
    assert list(tmp_path.iterdir()) == []


def test_a_demo_that_is_killed_takes_its_processes_with_it(tmp_path: Path) -> None:
    with bounded(a_demo(tmp_path)) as program:
        assert program.stdout is not None
        assert any(line.startswith(b"1. ") for line in program.stdout)
        children = [*children_of(program.pid, b"serve"), *children_of(program.pid, b"sim")]
        ends = [os.pidfd_open(child) for child in children]
        program.kill()
        # The end of a process can be waited for by whoever is not its parent.
        ended = [select.select([end], [], [], WHOLE_SECONDS)[0] == [end] for end in ends]
        for end in ends:
            os.close(end)
    assert (len(children), ended) == (2, [True, True])


def test_a_demo_whose_gateway_dies_says_so_and_keeps_the_store(tmp_path: Path) -> None:
    with bounded(a_demo(tmp_path)) as program:
        assert program.stdout is not None
        assert any(line.startswith(b"1. ") for line in program.stdout)
        (gateway,) = children_of(program.pid, b"serve")
        os.kill(gateway, signal.SIGKILL)
        said, _ = program.communicate(timeout=WHOLE_SECONDS)
    kept = re.search(r"^The store is kept: (.*)$", said.decode(), re.MULTILINE)
    assert (program.returncode, is_anybody_left(program.pid)) == (1, False)
    assert kept is not None
    assert Path(kept[1]).is_file()
    assert re.search(r"^BROKEN: scenario \d+ \(.*\) could not continue: ", said.decode(), re.MULTILINE), said.decode()


def children_of(parent: int, argument: bytes) -> list[int]:
    """Return the processes that a process has started with an argument."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            is_child = int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == parent
            if is_child and argument in (folder / "cmdline").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def test_on_a_terminal_there_is_a_picture_and_ctrl_c_gives_the_terminal_back(tmp_path: Path) -> None:
    settings = {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40", "TMPDIR": str(tmp_path)}
    with terminal("demo", "--fast", settings=settings) as screen:
        screen.until("what the model sees")
        screen.until("budgets of the next request")
        screen.until("tokens")
        screen.interrupt()
        # The cursor is shown again.
        screen.until("\x1b[?25h")
        assert screen.end() == 130
    assert list(tmp_path.iterdir()) == []


def test_where_a_picture_is_not_wanted_there_are_lines(tmp_path: Path) -> None:
    with terminal("demo", "--fast", settings={"TERM": "dumb", "TMPDIR": str(tmp_path)}) as screen:
        assert "\x1b" not in screen.until("1. Facts are planted")
        screen.interrupt()
        assert screen.end() == 130
    assert list(tmp_path.iterdir()) == []


def test_without_colours_there_is_still_a_picture(tmp_path: Path) -> None:
    settings = {"TERM": "xterm-256color", "NO_COLOR": "1", "TMPDIR": str(tmp_path)}
    with terminal("demo", "--fast", settings=settings) as screen:
        shown = screen.until("Facts are planted")
        screen.interrupt()
        screen.until("\x1b[?25h")
        assert screen.end() == 130
    assert "\x1b[?25l" in shown, "a live display hides the cursor"
    assert re.search(r"\x1b\[[0-9;]*3[0-7][0-9;]*m", shown) is None, "and has no colours"
