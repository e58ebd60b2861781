"""The ledger beside a summary: state and exact facts, their order and size, with work that grows linearly."""

import re
import sys
from collections.abc import Callable
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.compaction.digest import remember, represent
from holdfast.core.compaction.facts import Passage
from holdfast.core.compaction.ledger import Ledger, ledger_of, lines_in, make_ledger
from holdfast.core.limits.sizing import tokens_of_text
from holdfast.core.text.truncation import frame
from holdfast.types.messages import BlobRef, LargeText, Media, Message, Reasoning, Role, ToolCall, ToolOutcome
from tests.core.passages import answered, called, conversations, returned, said, verbatim


def listing(seq: int, prefix: str) -> Passage:
    return returned(seq, " ".join(f"{prefix}Thing{number}" for number in range(200)))


def shown(passages: list[Passage], tokens_max: int = 500) -> str:
    return make_ledger(passages, tokens_max=tokens_max).render()


def names(passages: list[Passage], tokens_max: int = 500) -> set[str]:
    lines = [line for line in shown(passages, tokens_max).split("\n") if line.startswith("names ")]
    return {name for line in lines for name in re.split(r"[,;] |: | ", line)}


def test_a_ledger_has_state_and_names_without_the_story() -> None:
    passages = [
        said(3, "Please make the server listen on port 8080, see https://example.org/spec and HOLD-12."),
        called(4, "read", path="/srv/shop/src/main.go"),
        returned(5, "func startServer() {}"),
        answered(6, "I will use the flag instead of the constant, because it is shorter."),
        called(7, "edit_file", path="/srv/shop/src/main.go", text="func startServer(portFlag int) {}"),
        returned(8, "ok"),
        called(9, "bash", command="go test ./src"),
        returned(10, "FAIL: TestStart\nexit 1"),
    ]
    assert shown(passages, 1_000) == (
        "goal [#3] Please make the server listen on port 8080, see https://example.org/spec and HOLD-12.\n"
        "changed, not committed [#7] /srv/shop/src/main.go\n"
        "check [#10] failed: go test ./src => FAIL: TestStart\n"
        "last words [#6] I will use the flag instead of the constant, because it is shorter.\n"
        "names [#7] portFlag, startServer"
    )


def test_names_take_at_most_a_quarter_of_the_notes_and_the_ledger_together() -> None:
    memory = remember([said(1, "Look through all of it."), *(listing(seq, f"part{seq}") for seq in range(2, 12))])
    short, long = "The crew looked around. " * 80, "The crew looked around. " * 400

    def named(notes: str) -> int:
        lines = ledger_of(memory, tokens_max=2_000, notes=notes).lines
        return sum(len(line) for line in lines if line.startswith("names "))

    whole = len(short) + len(ledger_of(memory, tokens_max=2_000, notes=short).render())
    assert 0.15 * whole <= named(short) <= 0.25 * whole
    assert named(long) > 2 * named(short)


def test_nothing_gives_an_empty_ledger() -> None:
    assert make_ledger([], tokens_max=500) == Ledger()
    assert Ledger().render() == ""


@pytest.mark.parametrize("tokens_max", [-1, 0, 1, 5])
def test_where_there_is_no_room_there_is_no_ledger(tokens_max: int) -> None:
    assert make_ledger([said(1, "fix src/main.go " * 50)], tokens_max=tokens_max) == Ledger()


# --- what survives where not everything fits ---------------------------------------------------------------------


def test_what_the_agent_used_outlives_what_a_tool_printed() -> None:
    passages = [called(1, "grep", pattern="wantedName"), listing(2, "some"), listing(3, "other")]
    assert "wantedName" in names(passages, 200)


def test_what_the_user_said_outlives_what_a_tool_printed() -> None:
    # Said within a text that is far too long to be quoted whole.
    passages = [said(1, "word " * 200 + "wantedName" + " word" * 200), listing(2, "some"), listing(3, "other")]
    assert "wantedName" in names(passages, 300)


def test_of_two_alike_the_newer_survives() -> None:
    old, new = listing(1, "old"), listing(90, "new")
    passages = [old, *(answered(seq, "hm") for seq in range(2, 90)), new]
    kinds = {name[:3] for name in names(passages, 300) if "Thing" in name}
    assert kinds == {"new"}


def test_a_changed_file_outlives_one_that_was_read() -> None:
    passages = [
        called(1, "write", path="src/edited.go"),
        returned(2, "ok"),
        called(3, "read", "2", path="src/browse.go"),
        listing(4, "x"),
    ]
    assert "src/edited.go" in shown(passages, 16)
    assert "src/browse.go" not in shown(passages, 16)


def test_a_path_stands_once_in_its_longest_form_with_its_folder() -> None:
    passages = [
        said(1, "<note>main.go</note>"),
        called(2, "read", path="/srv/shop/src/main.go"),
        called(3, "read", path="src/main.go"),
        called(4, "list", path="/srv/shop/src"),
    ]
    assert shown(passages) == "names [#2] /srv/shop/src/main.go"


def test_of_more_facts_than_can_be_ranked_the_agents_and_the_newest_are_kept() -> None:
    older = "".join(f"oldOf{at} " for at in range(9_000))
    newer = "".join(f"newOf{at} " for at in range(3_000))
    passages = [answered(1, "firstOfAll is mine"), returned(2, older), returned(3, newer)]
    kept = names(passages, 400_000)
    assert "firstOfAll" in shown(passages, 400_000)
    assert set(newer.split()) <= kept
    # Of those alike it is not left to chance which stay.
    assert {name for name in kept if name.startswith("old")} == set(sorted(older.split())[-71:])


def test_a_value_stands_with_the_words_that_say_what_it_is() -> None:
    passages = [said(1, "Go."), called(40, "pay", amount="4711.50"), said(41, "word " * 400 + "berth code is QX-7731")]
    text = shown(passages, 700)
    assert "value [#40] amount = 4711.50" in text
    assert "berth code is QX-7731" in text


def test_values_that_do_not_fit_are_left_out() -> None:
    crowd = [called(seq, "pay", **{f"amount_of_the_{seq}_th_payment": f"4711.{seq}"}) for seq in range(1, 90)]
    lines = [line for line in shown(crowd, 300).split("\n") if line.startswith("value ")]
    assert 0 < len(lines) < 20


# --- anything else -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    ['{"path": "src/main.go', "[" * 5_000 + '"src/main.go"' + "]" * 5_000, '"src/main.go"', '["src/main.go", 3]'],
)
def test_arguments_of_any_form_are_read(arguments: str) -> None:
    assert "src/main.go" in shown([Passage(1, Message(Role.ASSISTANT, (ToolCall("1", "read", arguments),)))])


def test_thinking_and_media_leave_no_facts() -> None:
    parts = (Reasoning("maybe src/main.go"), Media(BlobRef("a" * 64, 9), "image/png"))
    assert make_ledger([Passage(1, Message(Role.ASSISTANT, parts))], tokens_max=500) == Ledger()


def test_text_in_a_blob_is_known_by_its_beginning() -> None:
    large = LargeText(BlobRef("a" * 64, 10**6), "see src/main.go")
    assert shown([Passage(1, Message(Role.TOOL, (large,)))]) == "names [#1] src/main.go"


def test_of_a_dump_the_beginning_and_the_end_are_read() -> None:
    dump = "firstName " + "middle " * 30_000 + "inTheMiddle " + "middle " * 30_000 + "lastName"
    assert shown([returned(1, dump)]) == "names [#1] firstName, lastName"
    written = Passage(1, Message(Role.ASSISTANT, (ToolCall("1", "note", f'{{"text": "{dump}"}}'),)))
    assert "firstName" in shown([written])


@given(conversations(), st.integers(-1, 3_000))
def test_a_ledger_never_exceeds_its_tokens(passages: list[Passage], tokens_max: int) -> None:
    """FM-020: what stands for the past has a hard cap."""
    assert tokens_of_text(make_ledger(passages, tokens_max=tokens_max).render()) <= max(tokens_max, 0)


@given(conversations())
def test_every_name_stands_in_the_record_it_cites(passages: list[Passage]) -> None:
    """FM-071, FM-072: nothing is invented, nothing is rephrased."""
    originals = {passage.seq: verbatim(passage) for passage in passages}
    for line in make_ledger(passages, tokens_max=2_000).lines:
        if line.startswith("names "):
            for seq, listed in re.findall(r"\[#(\d+)\] (?:in [^:]*: )?([^;]+)", line):
                assert all(name in originals[int(seq)] for name in listed.split(", "))


def test_what_a_person_asked_to_be_remembered_outlives_what_was_said_since() -> None:
    chatter = [said(seq, f"Please look at page {seq} of the log, it has {seq * 37} lines.") for seq in range(3, 60)]
    passages = [said(1, "Let us plan the voyage."), said(2, "remember harbour = Kiel"), *chatter]
    assert "rule [#2] remember harbour = Kiel" in shown(passages, 400)


def test_the_lines_of_a_ledger_are_found_again_in_what_stands_for_the_past() -> None:
    ledger = make_ledger([said(24, "Please never touch /etc/harbour.conf again. It is [#1] not ours.")], tokens_max=400)
    framed = frame("A label.", "Notes that\npaths: none\nuser asked", ledger.render())
    assert ledger.lines
    assert lines_in(framed) == ledger.lines
    assert lines_in(frame("A label.", "Notes.")) == lines_in("") == ()


# --- work --------------------------------------------------------------------------------------------------------


def calls_made_by(work: Callable[[], object]) -> int:
    """Count the calls of functions, built-in ones too: unlike time, they are the same on every machine."""
    calls = 0

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize(
    "word",
    [
        "a/b{}/c.py ",
        "/a",
        "(",
        "(\n",
        "\n",
        "a",
        "nameOf{} ",
        "{:08x}-aa ",
        "chose ",
        " will ",
        "func ",
        "{}00,",
        "a=",
        ".",
        "\\n",
        "→",
        "aB",
        "x{}.",
        "`",
        "We will use thing{} because it failed. ",
        "漢字。",
    ],
)
def test_twice_the_text_takes_about_twice_the_work(word: str) -> None:
    def passages(count: int) -> list[Passage]:
        text = "".join(word.format(at) for at in range(count))
        return [
            said(1, "Begin."),
            said(2, text),
            answered(3, text),
            called(4, "edit", command=text),
            returned(5, text, outcome=ToolOutcome.FAILED),
            said(6, "End."),
        ]

    once, twice = passages(400), passages(800)
    work_once = calls_made_by(lambda: represent(once, tokens_max=1_000))
    work_twice = calls_made_by(lambda: represent(twice, tokens_max=1_000))
    assert work_twice <= 2.5 * work_once
