"""`holdfast rename`, `tag`, `fork`, `branches`, `delete`, `memory`, `version`, and filtered lists; errors as JSON."""

import io
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from holdfast.cli.chat.turn_printer import PlainOutput, TurnPrinter
from holdfast.ports import TextDelta
from holdfast.types.records import Logged, NoticePosted
from tests.cli import programs


class Ran(NamedTuple):
    """The end of a program: its exit code and what it printed."""

    code: int
    out: str
    err: str


def holdfast(*arguments: str | Path) -> Ran:
    ended = programs.holdfast(*arguments)
    return Ran(ended.returncode, ended.stdout.decode(), ended.stderr.decode())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "s.db"
    assert holdfast("chat", "--store", path, "-s", "a", "remember harbour = Kiel").code == 0
    assert holdfast("chat", "--store", path, "-s", "b", "hello").code == 0
    return path


def test_sessions_are_labelled_listed_forked_renamed_and_deleted(store: Path) -> None:
    def keys(*options: str) -> list[str]:
        lines = holdfast("sessions", "--store", store, "--json", *options).out.splitlines()
        return [msgspec.json.decode(line)["key"] for line in lines]

    assert keys("--recent") == ["b", "a"]
    assert holdfast("tag", "--store", store, "a", "x", "y").out == "session 'a': remember harbour = Kiel #x #y\n"
    assert holdfast("tag", "--store", store, "a", "x", "--remove").out == "session 'a': remember harbour = Kiel #y\n"
    assert holdfast("rename", "--store", store, "b", "My title").out == "session 'b': My title\n"
    assert (keys("--tag", "y"), keys("--match", "TITLE"), keys("--recent", "-n", "1")) == (["a"], ["b"], ["b"])
    assert (keys("--state", "idle"), keys("--state", "working")) == (["a", "b"], [])
    assert "My title" in holdfast("sessions", "--store", store).out
    assert holdfast("fork", "--store", store, "a", "copy", "--at", "5").out == "session 'copy' has 5 records of 'a'\n"
    assert holdfast("rename", "--store", store, "copy", "--key", "other").code == 0
    assert keys() == ["a", "b", "other"]
    refused = holdfast("delete", "--store", store, "other")
    assert (refused.code, keys()) == (2, ["a", "b", "other"])
    deleted = holdfast("delete", "--store", store, "other", "--yes", "--json")
    assert msgspec.json.decode(deleted.out)["session"] == "other"
    assert keys() == ["a", "b"]


def test_notes_of_a_memory_are_added_found_and_removed(store: Path) -> None:
    note = msgspec.json.decode(holdfast("memory", "--store", store, "u", "--add", "Likes tea.", "--json").out)

    assert "Likes tea." in holdfast("memory", "--store", store, "u", "tea").out
    assert "Likes cake." in holdfast("memory", "--store", store, "u", "--edit", note["id"], "Likes cake.").out
    assert holdfast("memory", "--store", store, "u", "--remove", note["id"]).out == "The memory 'u' has no notes.\n"
    assert holdfast("memory", "--store", store, "u", "a", "--add", "b").code == 2


def test_branches_are_listed(store: Path) -> None:
    listed = holdfast("branches", "--store", store, "a").out

    assert "*  5     remember harbour = Kiel" in listed
    assert holdfast("branches", "--store", store, "a", "--switch", "3").code == 2


def test_a_failed_turn_is_an_object_with_the_error(store: Path) -> None:
    failed = holdfast("chat", "--store", store, "-s", "f", "hi", "--faults", "401*9", "--json")

    error = msgspec.json.decode(failed.out)["error"]
    assert (error["code"], error["session"], error["turn"], error["exit_code"]) == ("auth", "f", 1, failed.code)
    assert error["message"]
    unknown = holdfast("show", "--store", store, "nothing", "--json")
    assert msgspec.json.decode(unknown.out)["error"]["code"] == "usage"


def test_a_folder_is_no_store_and_the_sentence_says_so() -> None:
    refused = holdfast("chat", "--store", "/", "hi")

    assert (refused.code, refused.err) == (
        2,
        "holdfast: / is a folder; name a file for the store, such as /holdfast.db\n",
    )


def test_help_and_version_have_short_and_long_forms() -> None:
    assert holdfast("-h").out == holdfast("--help").out
    assert holdfast("tag", "-h").out.startswith("Usage: holdfast tag")
    assert holdfast("version").out == "holdfast " + holdfast("--version").out.rpartition(" ")[2]


def test_a_recalled_record_ends_with_a_newline(store: Path) -> None:
    assert holdfast("recall", "--store", store, "a", "1").out == "remember harbour = Kiel\n"


def test_models_are_listed_by_name_and_not_by_pattern(tmp_path: Path) -> None:
    listed = [msgspec.json.decode(line) for line in holdfast("models", "--json").out.splitlines()]

    assert not any(set("*?()[]|\\") & set(one["model"]) for one in listed)
    assert next(one for one in listed if one["model"] == "openai:gpt-5")["is_prefix"]
    assert tmp_path.exists()


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_note_waits_for_the_end_of_a_streaming_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Terminal()
    printer = TurnPrinter(PlainOutput(screen, screen))

    printer.print_event(TextDelta("The har"))
    printer.print_event(Logged(3, 0.0, NoticePosted(1, "code", "a notice")))
    printer.print_event(TextDelta("bour is"))
    printer.print_event(TextDelta(" deep."))

    assert screen.getvalue() == "The harbour\na notice\nis deep."
