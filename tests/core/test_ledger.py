"""Exact facts survive a compaction: which, in what order, and within what size."""

import sys
from collections.abc import Callable
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.compaction.digest import represent
from holdfast.core.compaction.facts import FactKind, Passage
from holdfast.core.compaction.ledger import Entry, Ledger, lines_in, make_ledger
from holdfast.core.compaction.quotes import one_line
from holdfast.core.limits.sizing import tokens_of_text
from holdfast.core.text.truncation import frame
from holdfast.types.messages import BlobRef, LargeText, Media, Message, Reasoning, Role, ToolCall, ToolOutcome
from tests.core.passages import answered, called, conversations, returned, said, verbatim


def kept(passages: list[Passage], kind: FactKind, tokens_max: int = 2_000) -> list[tuple[str, int]]:
    return [
        (entry.text, entry.seq) for entry in make_ledger(passages, tokens_max=tokens_max).entries if entry.kind is kind
    ]


def test_a_session_leaves_its_facts_in_order() -> None:
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

    ledger = make_ledger(passages, tokens_max=1_000)

    assert ledger.render() == (
        "user [#3] Please make the server listen on port 8080, see https://example.org/spec and HOLD-12.\n"
        "decided [#6] I will use the flag instead of the constant, because it is shorter.\n"
        "ran [#9] go test ./src\n"
        "error [#10] FAIL: TestStart\n"
        "edited: [#7] /srv/shop/src/main.go\n"
        "names: [#7] portFlag startServer"
    )


def test_what_a_quote_shows_is_not_listed_again() -> None:
    assert make_ledger([said(1, "rename isReady to hasStarted in src/main.go")], tokens_max=500) == Ledger(
        (Entry(FactKind.INSTRUCTION, "rename isReady to hasStarted in src/main.go", 1),)
    )


def test_nothing_gives_an_empty_ledger() -> None:
    assert make_ledger([], tokens_max=500) == Ledger()
    assert Ledger().render() == ""


@pytest.mark.parametrize("tokens_max", [-1, 0, 1, 5])
def test_where_there_is_no_room_there_is_no_ledger(tokens_max: int) -> None:
    assert make_ledger([said(1, "fix src/main.go " * 50)], tokens_max=tokens_max) == Ledger()


# --- what survives where not everything fits ---------------------------------------------------------------------


def survivors(passages: list[Passage], tokens_max: int) -> set[str]:
    return {entry.text for entry in make_ledger(passages, tokens_max=tokens_max).entries}


def listing(seq: int, prefix: str) -> Passage:
    return returned(seq, " ".join(f"{prefix}Thing{number}" for number in range(200)))


def test_what_the_agent_used_outlives_what_a_tool_printed() -> None:
    passages = [called(1, "grep", pattern="wantedName"), listing(2, "some"), listing(3, "other")]
    assert "wantedName" in survivors(passages, 60)


def test_what_the_user_said_outlives_what_a_tool_printed() -> None:
    # Said within a text that is far too long to be quoted whole.
    passages = [said(1, "word " * 200 + "wantedName" + " word" * 200), listing(2, "some"), listing(3, "other")]
    assert "wantedName" in survivors(passages, 60)


def test_of_two_alike_the_newer_survives() -> None:
    old, new = listing(1, "old"), listing(90, "new")
    passages = [old, *(answered(seq, "hm") for seq in range(2, 90)), new]
    kinds = {name[:3] for name in survivors(passages, 200)}
    assert kinds == {"new"}


def test_an_edited_file_outlives_one_that_was_read() -> None:
    passages = [called(1, "write", path="src/edited.go"), called(2, "read", path="src/browse.go"), listing(3, "x")]
    assert "src/edited.go" in survivors(passages, 20)
    assert "src/browse.go" not in survivors(passages, 20)


def test_a_list_of_things_to_do_is_no_edit() -> None:
    assert kept([called(1, "TodoWrite", content="src/main.go")], FactKind.EDITED) == []


def test_as_many_facts_are_kept_as_fit() -> None:
    passages = [
        listing(seq, prefix) for seq, prefix in enumerate(("a", "someWhatLonger", "muchMuchLongerThanThat", "b"))
    ]
    assert 1_400 <= tokens_of_text(make_ledger(passages, tokens_max=1_500).render()) <= 1_500


# --- paths -------------------------------------------------------------------------------------------------------


def test_a_path_stands_once_in_its_longest_form_with_its_folder() -> None:
    passages = [
        said(1, "<note>main.go</note>"),
        called(2, "read", path="/srv/shop/src/main.go"),
        called(3, "write", path="src/main.go"),
        called(4, "list", path="/srv/shop/src"),
    ]
    ledger = make_ledger(passages, tokens_max=500)
    # Written to under a shorter name, cited where the whole one stands.
    assert ledger == Ledger((Entry(FactKind.EDITED, "/srv/shop/src/main.go", 2),))


# --- quotes ------------------------------------------------------------------------------------------------------


def test_the_first_and_the_newest_instruction_come_before_the_rest() -> None:
    passages = [said(seq, f"Instruction number {seq} asks for something else again.") for seq in range(40)]
    seqs = [seq for _, seq in kept(passages, FactKind.INSTRUCTION, tokens_max=500)]
    assert seqs[0] == 0
    assert seqs[1:] == list(range(40 - len(seqs) + 1, 40))


def test_the_same_instruction_is_quoted_once() -> None:
    passages = [said(1, "go on"), said(2, "go on"), said(3, " ")]
    assert kept(passages, FactKind.INSTRUCTION) == [("go on", 1)]


@pytest.mark.parametrize("text", ["<reminder>\nbe brief\n</reminder>", "[Request interrupted]"])
def test_what_a_program_wrote_in_the_users_name_is_no_instruction(text: str) -> None:
    assert kept([said(1, text)], FactKind.INSTRUCTION) == []


def test_a_long_instruction_keeps_its_beginning_and_its_end() -> None:
    (text, _), *_ = kept([said(1, "Begin here. " + "more of it " * 200 + "And stop there.")], FactKind.INSTRUCTION)
    assert text.startswith("Begin here. more of it")
    assert " … " in text
    assert text.endswith("And stop there.")
    assert len(text) <= 483


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "First this. We decided to keep the old parser for now. Then that.",
            ["We decided to keep the old parser for now."],
        ),
        ("One.\nThe root cause is a missing lock in v1.2 of it", ["The root cause is a missing lock in v1.2 of it"]),
        ("The issue is:", []),
        ("Nothing of the kind.", []),
    ],
)
def test_a_decision_is_quoted_as_its_sentence(text: str, sentences: list[str]) -> None:
    assert [text for text, _ in kept([answered(1, text)], FactKind.DECISION)] == sentences


@pytest.mark.parametrize(
    ("name", "outcome", "output", "errors"),
    [
        ("bash", ToolOutcome.DONE, "all good", []),
        ("bash", ToolOutcome.DONE, "line one\nError: no such file\nmore", ["Error: no such file"]),
        ("bash", ToolOutcome.DONE, "x\n" * 9_000 + "2 tests failed", ["2 tests failed"]),
        ("bash", ToolOutcome.TIMED_OUT, "still running", ["still running"]),
    ],
)
def test_what_a_command_reports_as_failed_is_an_error(
    name: str, outcome: ToolOutcome, output: str, errors: list[str]
) -> None:
    passages = [called(1, name, command="make"), returned(2, output, outcome=outcome)]
    assert [text for text, _ in kept(passages, FactKind.ERROR)] == errors


def test_a_file_that_speaks_of_errors_reports_none() -> None:
    assert kept([called(1, "read", path="a.py"), returned(2, "raise ValueError # Error")], FactKind.ERROR) == []


def test_an_empty_command_was_not_run() -> None:
    assert kept([called(1, "bash", command=" "), called(2, "bash", command=["ls"])], FactKind.COMMAND) == []


# --- anything else -----------------------------------------------------------------------------------------------


def test_arguments_that_are_no_json_are_read_as_text() -> None:
    broken = Passage(1, Message(Role.ASSISTANT, (ToolCall("1", "read", '{"path": "src/main.go'),)))
    assert kept([broken], FactKind.PATH) == [("src/main.go", 1)]


def test_arguments_nested_too_deeply_are_read_as_text() -> None:
    deep = Passage(1, Message(Role.ASSISTANT, (ToolCall("1", "read", "[" * 5_000 + '"src/main.go"' + "]" * 5_000),)))
    assert kept([deep], FactKind.PATH) == [("src/main.go", 1)]


def test_arguments_that_are_no_object_are_read_too() -> None:
    bare = Passage(1, Message(Role.ASSISTANT, (ToolCall("1", "read", '"src/main.go"'),)))
    assert kept([bare], FactKind.PATH) == [("src/main.go", 1)]


def test_thinking_and_media_leave_no_facts() -> None:
    parts = (Reasoning("maybe src/main.go"), Media(BlobRef("a" * 64, 9), "image/png"))
    assert make_ledger([Passage(1, Message(Role.ASSISTANT, parts))], tokens_max=500) == Ledger()


def test_text_in_a_blob_is_known_by_its_beginning() -> None:
    large = LargeText(BlobRef("a" * 64, 10**6), "see src/main.go")
    assert kept([Passage(1, Message(Role.TOOL, (large,)))], FactKind.PATH) == [("src/main.go", 1)]


def test_of_a_dump_the_beginning_and_the_end_are_read() -> None:
    dump = "firstName " + "middle " * 30_000 + "inTheMiddle " + "middle " * 30_000 + "lastName"
    assert survivors([returned(1, dump)], 500) == {"firstName", "lastName"}


def test_of_an_endless_session_the_beginning_and_the_newest_are_read() -> None:
    filler = "x " * 60_000
    passages = [returned(seq, f"name_{seq} {filler}") for seq in range(80)]
    assert survivors(passages, 2_000) == {f"name_{seq}" for seq in (*range(9), *range(18, 80))}


def test_a_text_on_one_line_has_no_breaks_and_keeps_its_length() -> None:
    assert one_line("a\n b\t c", 10) == "a b c"
    assert one_line("a " * 100_000 + "end", 20) == "a a a a a a a a … a end"


@given(conversations(), st.integers(-1, 3_000))
def test_a_ledger_never_exceeds_its_tokens(passages: list[Passage], tokens_max: int) -> None:
    """FM-020: what stands for the past has a hard cap."""
    assert tokens_of_text(make_ledger(passages, tokens_max=tokens_max).render()) <= max(tokens_max, 0)


@given(conversations())
def test_every_word_stands_in_the_record_it_cites(passages: list[Passage]) -> None:
    """FM-071, FM-072: nothing is invented, nothing is rephrased."""
    originals = {passage.seq: verbatim(passage) for passage in passages}
    quoted = (FactKind.INSTRUCTION, FactKind.DECISION, FactKind.COMMAND, FactKind.ERROR)
    for entry in make_ledger(passages, tokens_max=2_000).entries:
        if entry.kind not in quoted:
            assert entry.text in originals[entry.seq]


@given(conversations())
def test_instructions_cite_what_the_user_said(passages: list[Passage]) -> None:
    """FM-071: a user's statement resolves to a real user message."""
    roles = {passage.seq: passage.message.role for passage in passages}
    cited = [
        entry.seq for entry in make_ledger(passages, tokens_max=2_000).entries if entry.kind is FactKind.INSTRUCTION
    ]
    assert all(roles[seq] is Role.USER for seq in cited)


def test_what_a_person_asked_to_be_remembered_outlives_what_was_said_since() -> None:
    chatter = [said(seq, f"Please look at page {seq} of the log, it has {seq * 37} lines.") for seq in range(3, 60)]
    passages = [
        said(1, "Let us plan the voyage."),
        said(2, "remember harbour = Kiel"),
        *chatter,
    ]

    ledger = make_ledger(passages, tokens_max=400)

    assert any("harbour = Kiel" in entry.text and entry.seq == 2 for entry in ledger.entries)


def test_the_lines_of_a_ledger_are_found_again_in_what_stands_for_the_past() -> None:
    told = said(24, "Please never touch /etc/harbour.conf again. It is [#1] not ours.")
    ledger = make_ledger([told], tokens_max=400)
    framed = frame("A label.", "Notes that\npaths: none\nuser asked", ledger.render())

    assert ledger.render()
    assert lines_in(framed) == tuple(ledger.render().split("\n"))
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


def test_of_more_facts_than_can_be_ranked_the_agents_and_the_newest_are_kept() -> None:
    older = "".join(f"oldOf{at} " for at in range(9_000))
    newer = "".join(f"newOf{at} " for at in range(9_000))
    passages = [answered(1, "firstOfAll is mine"), returned(2, older), returned(3, newer)]
    names = {text for text, _ in kept(passages, FactKind.NAME, 400_000)}
    assert len(names) == 2**14
    assert {"firstOfAll", *newer.split()} <= names
    # Of those alike it is not left to chance which stay.
    assert names - {"firstOfAll", *newer.split()} == set(sorted(older.split())[-(2**14 - 9_001) :])


def test_a_sign_of_a_decision_alone_decides_nothing() -> None:
    assert kept([answered(1, "It will rain here for a while, and it will stop again.")], FactKind.DECISION) == []
