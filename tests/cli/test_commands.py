"""The commands as such: help, exit codes, and what the small ones print."""

import asyncio
import io
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner

from holdfast import wiring
from holdfast.cli import BENCHES, COMMANDS, command_line
from holdfast.cli.exit_codes import exit_code, run
from holdfast.cli.output import align_columns, dim_text, sanitize, shorten
from holdfast.errors import (
    ConflictError,
    HoldfastError,
    MissingKeyError,
    OperatorError,
    QueueFullError,
    StoreFullError,
    StorePathError,
    TurnFailedError,
    UsageError,
)
from holdfast.ports import SessionInfo
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.record_text import FAULTS, OUTCOMES, RUNGS, describe_record
from holdfast.testing.builders import a_reply, a_tool_call
from holdfast.types.faults import Confidence, Fault, FaultKind, Phase, Refusal, Rung
from holdfast.types.messages import BlobRef, LargeText, Media, Reasoning, Text, ToolCall, ToolOutcome, ToolResult
from holdfast.types.records import (
    Abandonment,
    AnyRecord,
    AttemptAbandoned,
    AttemptFailed,
    AttemptStarted,
    CancelRequested,
    CompactionApplied,
    CompactionRequested,
    CompactionUndone,
    GenerationStarted,
    InputAdmitted,
    Logged,
    NoticePosted,
    Outcome,
    OutputClamped,
    PieceSummarised,
    RungFinished,
    RungResult,
    RungStarted,
    SegmentSealed,
    SessionConfigured,
    ToolInterrupted,
    ToolSettled,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from tests.cli.programs import PROGRAM, environment, holdfast

# What takes long to import and no one needs for a list of commands.
HEAVY = {"aiohttp", "apsw", "asyncio", "msgspec", "rich", "uvicorn"}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with two sessions: one answered, one with a call of a tool."""
    path = tmp_path / "store.db"

    def look_up(name: str) -> str:
        """Look something up."""
        return f"{name} = 17-B"

    async def fill() -> None:
        async with wiring.open(path, tools=[look_up]) as client:
            await (await client.session("telegram:42")).send("hello\nthere")
            await (await client.session("signal:7", system="Be brief.")).send('call look_up {"name": "berth"}')

    asyncio.run(fill())
    return path


def invoked(*arguments: str | Path) -> str:
    """Return what a command prints."""
    ended = CliRunner().invoke(command_line, [str(argument) for argument in arguments])
    assert ended.exit_code == 0, ended.output
    return ended.output


# --- the program -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [[name] for name in COMMANDS] + [["bench", name] for name in BENCHES])
def test_every_command_has_help(command: list[str]) -> None:
    shown = invoked(*command, "--help")

    assert shown.startswith(f"Usage: holdfast {' '.join(command)} [OPTIONS]")
    assert len(shown.splitlines()) > 5


def test_the_list_of_commands_is_in_the_order_a_newcomer_needs() -> None:
    listed = invoked("--help").partition("Commands:\n")[2].partition("\n\n")[0].splitlines()

    assert [line.split()[0] for line in listed] == list(COMMANDS)


def test_help_imports_nothing_heavy() -> None:
    look = "import sys; from holdfast.cli.exit_codes import run; from holdfast.cli import command_line\n"
    look += "run(command_line, ['--help']); print(*sys.modules, file=sys.stderr)"

    ended = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)

    assert HEAVY & set(ended.stderr.split()) == set()


def test_the_program_tells_its_version() -> None:
    assert holdfast("--version").stdout.decode() == f"holdfast, version {version('holdfast')}\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["chatt"], "unknown command 'chatt'; did you mean 'chat'? See `holdfast --help`."),
        (["bench", "stor"], "unknown command 'stor'; did you mean 'store'? See `holdfast bench --help`."),
        (["xyzzy"], f"unknown command 'xyzzy'; commands: {', '.join(COMMANDS)}. See `holdfast --help`."),
    ],
)
def test_an_unknown_command_names_the_nearest(arguments: list[str], sentence: str) -> None:
    ended = holdfast(*arguments)

    assert (ended.returncode, ended.stdout, ended.stderr.decode()) == (2, b"", f"holdfast: {sentence}\n")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), 2),
        (MissingKeyError("x"), 2),
        (QueueFullError("s", 1_000), 75),
        (ConflictError("x"), 75),
        (OperatorError("x"), 74),
        (StoreFullError("x"), 74),
        (StorePathError("x"), 2),
        (TurnFailedError("s", 1, "auth", "The key is wrong."), 69),
        (HoldfastError("x"), 70),
    ],
)
def test_every_error_has_its_exit_code_and_one_sentence(
    error: HoldfastError, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    def failing() -> None:
        raise error

    assert exit_code(error) == run(failing, []) == code
    assert capsys.readouterr() == ("", f"holdfast: {error}\n")


@pytest.mark.parametrize(
    ("end", "code", "told"),
    [
        (KeyboardInterrupt(), 130, "\n"),
        (click.Abort(), 130, ""),
        (click.FileError("/x", "it is locked"), 74, "holdfast: Could not open file '/x': it is locked\n"),
        (
            PermissionError(13, "Permission denied", "/x"),
            74,
            "holdfast: Permission denied: /x; check that it exists and that you have access\n",
        ),
        (OSError(28, "No space left on device"), 74, "holdfast: No space left on device\n"),
        (SystemExit(1), None, ""),
    ],
)
def test_other_ends_are_told_as_briefly(
    end: BaseException, code: int | None, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    def failing() -> None:
        raise end

    if code is None:
        with pytest.raises(SystemExit):
            run(failing, [])
    else:
        assert run(failing, []) == code
    assert capsys.readouterr() == ("", told)


# --- sessions, show, view, cancel --------------------------------------------------------------------------------


def test_sessions_lists_every_conversation(store: Path) -> None:
    lines = invoked("sessions", "--store", store).splitlines()

    assert [line.split()[:3] for line in lines] == [
        ["session", "records", "unanswered"],
        ["signal:7", "10", "-"],
        ["telegram:42", "5", "-"],
    ]


def test_sessions_as_json_are_one_object_per_line(store: Path) -> None:
    lines = invoked("sessions", "--store", store, "--json").splitlines()

    found = [msgspec.json.decode(line, type=SessionInfo) for line in lines]
    assert [(session.key, session.owed) for session in found] == [("signal:7", 0), ("telegram:42", 0)]


def test_an_empty_store_says_so(tmp_path: Path) -> None:
    async def make() -> None:
        async with wiring.open(tmp_path / "empty.db"):
            pass

    asyncio.run(make())
    assert invoked("sessions", "--store", tmp_path / "empty.db").startswith("The store is empty")


def test_show_prints_records_with_their_numbers_and_indents_long_ones(store: Path) -> None:
    lines = invoked("show", "telegram:42", "--store", store).splitlines()

    assert lines.pop().startswith("(spent so far: 1 call, ")
    assert [line.split("  ")[-1].strip() for line in lines] == [
        "you: hello",
        "there",
        "turn 1 starts",
        lines[3].split("  ")[-1],
        'answer: You said: "hello there". This is message 1 from you that I see.',
        "turn 1 ends: answered",
    ]
    assert lines[3].strip().startswith("3  ")
    assert "attempt 1: asking sim, about" in lines[3]


def test_show_without_a_start_shows_the_newest_and_says_what_is_left_out(store: Path) -> None:
    newest = invoked("show", "telegram:42", "--store", store, "--limit", "2").splitlines()
    oldest = invoked("show", "telegram:42", "--store", store, "--limit", "2", "--after", "1").splitlines()

    assert newest[0] == "(3 earlier records: --after 0)"
    assert newest.pop() == oldest.pop(), "what was spent is that of the whole session"
    assert [line.split()[0] for line in newest[1:]] == ["4", "5"]
    assert [line.split()[0] for line in oldest[:-1]] == ["2", "3"]
    assert oldest[-1] == "(2 later records: --after 3)"


def test_show_as_json_is_the_log_itself(store: Path) -> None:
    lines = invoked("show", "signal:7", "--store", store, "--json").splitlines()

    async def read(client: Client) -> list[Logged]:
        return await (await client.session("signal:7")).history()

    assert [msgspec.json.decode(line, type=Logged) for line in lines] == asyncio.run(_in_store(store, read))


async def _in_store(store: Path, look: Callable[[Client], object]) -> object:
    async with wiring.open(store, tuning=wiring.Tuning(adopts=False)) as client:
        answer = look(client)
        return await answer if asyncio.iscoroutine(answer) else answer


def test_view_tells_what_the_model_sees_and_what_it_comes_to(store: Path) -> None:
    shown = invoked("view", "signal:7", "--store", store)

    head, *messages = shown.split("\n--- ")
    told = [line.split()[0] for line in head.splitlines()]
    assert told == ["messages:", "tokens:", "request:", "verbatim:", "spent:"]
    assert "of 128,000 (0%)" in head
    assert [message.splitlines()[0] for message in messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert messages[0] == "system\nBe brief.\n"


def test_view_as_json_has_the_sizes(store: Path) -> None:
    seen = msgspec.json.decode(invoked("view", "signal:7", "--store", store, "--json"))

    assert seen["window_tokens"] == 128_000
    assert [message["role"] for message in seen["messages"]] == ["user", "assistant", "tool", "assistant"]


def test_cancel_asks_in_the_log_and_whoever_comes_next_obeys(store: Path) -> None:
    """The turn is left by a process that ended, so nobody works on it when it is cancelled."""

    async def leave(client: Client) -> None:
        await client._engine.store.admit("telegram:42", InputAdmitted((Text("never mind"),)))

    asyncio.run(_in_store(store, leave))

    assert invoked("cancel", "telegram:42", "--store", store) == (
        "cancelled turn 6 of session 'telegram:42'; completed tool calls are not undone\n"
    )
    assert holdfast("chat", "--session", "telegram:42", "--store", store, "go on").returncode == 0
    assert "turn 6 ends: cancelled" in invoked("show", "telegram:42", "--store", store)
    assert invoked("cancel", "telegram:42", "--store", store) == "session 'telegram:42' has no open turn\n"


def test_cancel_without_a_turn_also_cancels_a_compaction(store: Path) -> None:
    async def leave(client: Client) -> None:
        await client._engine.store.admit("telegram:42", CompactionRequested())

    asyncio.run(_in_store(store, leave))

    assert invoked("cancel", "telegram:42", "--store", store) == "cancelled compaction 6 of session 'telegram:42'\n"
    assert holdfast("chat", "--session", "telegram:42", "--store", store, "go on").returncode == 0
    (settled,) = [
        line for line in invoked("show", "telegram:42", "--store", store, "--json").splitlines() if "Settled" in line
    ]
    assert '"cancelled"' in settled


def test_the_log_goes_nowhere_unless_it_is_asked_for(store: Path) -> None:
    wrong = holdfast("sessions", "--store", store, settings={"HOLDFAST_LOG": "loud"})

    assert (wrong.returncode, b"use debug, info" in wrong.stderr) == (2, True)
    assert holdfast("sessions", "--store", store, settings={"HOLDFAST_LOG": "debug"}).returncode == 0


# --- text and output ---------------------------------------------------------------------------------------------


def test_every_kind_of_fault_rung_and_outcome_has_words() -> None:
    assert set(FAULTS) == set(FaultKind)
    assert set(RUNGS) == set(Rung)
    assert set(OUTCOMES) == set(ToolOutcome)


BLOB = BlobRef("ab" * 32, 48_213)
REFUSED = AttemptFailed(
    1,
    2,
    Refusal("openai-chat", Phase.RESPONSE, status=529),
    Fault(FaultKind.OVERLOADED, Confidence.CERTAIN, said="Overloaded"),
)
SPOKEN: list[tuple[AnyRecord, str]] = [
    (SessionConfigured("sim", "Be brief."), "settings: model sim, a system text of 9 characters"),
    (InputAdmitted((Text("a"), Media(BLOB, "image/png", "b.png"))), "you: a\n[image/png b.png, 48,213 bytes]"),
    (InputAdmitted((LargeText(BLOB, "It began"),)), "you: It began…\n[text abababababab, 48,213 bytes in all]"),
    (CancelRequested(3), "cancel of turn 3 requested"),
    (TurnStarted(3), "turn 3 starts"),
    (AttemptStarted(1, 2, "sim", 1_234), "attempt 2: asking sim, about 1,234 tokens"),
    (a_reply("", a_tool_call("pay", '{"to": "Ada"}')), 'answer: [calls pay {"to": "Ada"}]'),
    (REFUSED, 'attempt 2 failed: the provider is overloaded (status 529): "Overloaded"'),
    (AttemptAbandoned(1, 2, Abandonment.INTERRUPTED), "attempt 2 was abandoned: the process stopped"),
    (AttemptAbandoned(1, 2, Abandonment.CANCELLED), "attempt 2 was abandoned: it was cancelled"),
    (AttemptAbandoned(1, 2, Abandonment.STORE_FULL), "attempt 2 was abandoned: the disk was full"),
    (ToolStarted(1, "c1", "pay"), "tool pay is about to run (intent of c1)"),
    (ToolInterrupted(1, "c1"), "the process stopped while c1 ran; it may run again"),
    (ToolSettled(1, ToolResult("c1", (Text("paid"),))), "tool result, done (receipt of c1): paid"),
    (RungStarted(1, Rung.BACKOFF, FaultKind.OVERLOADED, 4.2), "the provider is overloaded; waiting 4.2 s"),
    (OutputClamped(1, 2_048), "the answer is limited to 2,048 tokens"),
    (RungFinished(1, Rung.DIGEST, RungResult.CHANGED), "building a digest of old messages: done"),
    (
        CompactionApplied(1, 12, "…", 5_000, 2_000),
        "compaction: a digest replaces everything before message 12; 5,000 tokens became 2,000",
    ),
    (
        GenerationStarted(9, 9, "…", 500, 20, generation=3, left=2),
        "generation 3 starts: of all before, the view has only message 9 and a digest; 500 tokens became 20",
    ),
    (
        CompactionUndone(7, CompactionApplied(1, 12, "…", 5_000, 2_000), 5),
        "the compaction in record 7 was undone; the view starts at message 12 again",
    ),
    (CompactionUndone(7), "the compaction in record 7 was undone; the view starts at the beginning again"),
    (PieceSummarised(0, 9, "…", "m"), "m summarised everything up to record 9"),
    (PieceSummarised(0, 9, "…", "m", is_merged=True), "m merged its summaries of everything up to record 9"),
    (NoticePosted(1, "compacted", "Something was cut."), "notice: Something was cut."),
    (SegmentSealed(1, 900, "x/1-900", "ab", 48_213), "records 1 to 900 moved into the archive: 48,213 bytes"),
    (TurnEnded(3, Outcome.ANSWERED), "turn 3 ends: answered"),
    (TurnEnded(3, Outcome.FAILED, "auth", "Check the key."), "turn 3 ends: failed (auth). Check the key."),
]


@pytest.mark.parametrize(("record", "words"), SPOKEN)
def test_a_record_is_told_in_plain_words(record: AnyRecord, words: str) -> None:
    assert describe_record(record) == words


def test_parts_that_are_not_text_are_named() -> None:
    parts = (Reasoning("hm"), Reasoning("", "x", "sealed"), ToolCall("c", "pay", "{}"))

    assert describe_record(
        msgspec.structs.replace(a_reply(), reply=msgspec.structs.replace(a_reply().reply, parts=parts))
    ) == ("answer: [thinks: hm]\n[thinks: hidden]\n[calls pay {}]")


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "settings", "shown"),
    [
        (Screen(), {"TERM": "xterm"}, "\x1b[2mhm\x1b[0m"),
        (Screen(), {"TERM": "xterm", "NO_COLOR": "1"}, "hm"),
        (Screen(), {"TERM": "dumb"}, "hm"),
        (io.StringIO(), {"TERM": "xterm"}, "hm"),
    ],
)
def test_colours_are_for_terminals_that_want_them(
    stream: io.StringIO, settings: dict[str, str], shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)

    assert dim_text("hm", stream) == shown


def test_foreign_text_is_shown_and_not_obeyed() -> None:
    assert sanitize("a\r\nb\tc\x1b[2J\x07\x7f\x85ü") == "a\nb\tc␛[2J␇␡\ufffdü"


def test_texts_are_shortened_to_one_line() -> None:
    assert shorten("one\n two", 20) == "one two"
    assert shorten("one two three", 9) == "one two…"


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert align_columns([("a", "bb", "c"), ("aaa", "b", "cc")]) == ["a    bb  c", "aaa  b   cc"]


def test_a_terminal_that_cannot_show_a_character_does_not_stop_the_work(tmp_path: Path) -> None:
    ended = subprocess.run(
        [*PROGRAM, "chat", "--store", tmp_path / "a.db", "grüß dich"],
        capture_output=True,
        env=environment(PYTHONIOENCODING="ascii"),
        check=True,
    )
    assert ended.stdout.startswith(b'You said: "gr\\xfc\\xdf dich".')
