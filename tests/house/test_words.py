"""Names say something, in the words of the glossary; nothing is swallowed and nothing is left for later."""

import pytest

from tests.house.checks import check_handlers, check_marks, check_words, read_sources, words_of
from tests.house.places import PACKAGE, ROOT

SOURCES = read_sources(PACKAGE)


def test_names_say_something_in_the_words_of_the_glossary() -> None:
    assert check_words(SOURCES) == []


def test_everything_is_caught_only_where_a_reason_is_given() -> None:
    assert check_handlers(SOURCES) == []


def test_nothing_is_left_for_later() -> None:
    assert check_marks({**SOURCES, **read_sources(ROOT / "tests")}) == []


def test_names_are_taken_apart_at_capitals_and_underscores() -> None:
    assert [words_of(name) for name in ("ToolResult", "_tool_result", "SSEReader", "v2", "HTTP", "__all__")] == [
        ["tool", "result"],
        ["tool", "result"],
        ["sse", "reader"],
        ["v2"],
        ["http"],
        ["all"],
    ]


@pytest.mark.parametrize(
    ("module", "text", "names"),
    [
        ("core.x", "def f(data): ...", ["data"]),
        ("core.x", "session_info = 1", ["session_info"]),
        ("core.x", "class SessionManager: ...", ["SessionManager"]),
        ("core.x", "def process(): ...", ["process"]),
        ("core.x", "def handle_error(): ...", ["handle_error"]),
        ("core.x", "def do_it(): ...", ["do_it"]),
        ("core.x", "def _run_impl(): ...", ["_run_impl"]),
        ("core.x", "def _run_inner(): ...", ["_run_inner"]),
        ("core.x", "class A:\n    def f(self):\n        self.obj = 1", ["obj"]),
        ("core.x", "for item in (): ...", ["item"]),
        ("core.x", "class LogEntry: ...", ["LogEntry"]),
        ("core.x", "class ChatThread: ...", ["ChatThread"]),
        ("core.x", "def fallback(): ...", ["fallback"]),
        ("core.x", "class Attachment:\n    data: bytes", ["data"]),
        # And what is right.
        ("ports", "class Attachment:\n    data: bytes", []),
        ("models.wire", "class Block:\n    data: str", []),
        ("core.x", "def dropped(): ...\nis_new = True\nmetadata = 1\nfor key, value in {}.items(): ...", []),
        ("core.x", "def in_thread(): ...\nprocess_id = 1\nlock = 1\n__all__ = []\n_ = 1", []),
    ],
)
def test_the_check_of_words_tells_right_from_wrong(module: str, text: str, names: list[str]) -> None:
    found = [breach.split()[1].rstrip(":") for breach in check_words({f"holdfast.{module}": text})]
    assert found == names


def test_a_module_named_after_nothing_is_told() -> None:
    assert check_words({"holdfast.core.text_utils": ""}) == [
        "holdfast.core.text_utils is named after nothing: 'text_utils' says not what it is for"
    ]


CATCHES = "try:\n    pass\nexcept {}:\n    {}"


@pytest.mark.parametrize(
    ("caught", "body", "is_breach"),
    [
        ("Exception", "pass", True),
        ("Exception as error", "raise ValueError from error", True),
        ("BaseException", "pass", True),
        ("(OSError, Exception)", "pass", True),
        ("", "pass", True),
        ("BaseException", "raise", False),
        ("OSError", "pass", False),
        ("(OSError, ValueError)", "pass", False),
    ],
)
def test_the_check_of_handlers_tells_right_from_wrong(caught: str, body: str, *, is_breach: bool) -> None:
    breaches = check_handlers({"holdfast.core.x": CATCHES.format(caught, body)})
    told = ["holdfast.core.x:3 the module catches everything: catch the narrowest class"]
    assert breaches == (told if is_breach else [])


def test_a_broad_handler_is_allowed_by_the_name_of_its_function_only() -> None:
    text = (
        "class Toolbox:\n    def {}(self):\n        try:\n            pass\n        except Exception:\n            pass"
    )
    assert check_handlers({"holdfast.runtime.tools.toolbox": text.format("_run_once")}) == []
    assert check_handlers({"holdfast.runtime.tools.toolbox": text.format("walk")}) == [
        "holdfast.runtime.tools.toolbox:5 Toolbox.walk catches everything: catch the narrowest class"
    ]


def test_suppressing_everything_is_catching_everything() -> None:
    text = "with contextlib.suppress(Exception):\n    pass\nwith contextlib.suppress(OSError):\n    pass"
    assert check_handlers({"holdfast.core.x": text}) == [
        "holdfast.core.x:1 the module catches everything: catch the narrowest class"
    ]


def test_a_mark_for_later_is_told_where_it_stands() -> None:
    mark = "TO" + "DO"
    assert check_marks({"holdfast.core.x": f"x = 1\n# {mark}: more\n{mark}S = 1"}) == [
        f"holdfast.core.x:2 says {mark}: do it, or open an issue"
    ]
