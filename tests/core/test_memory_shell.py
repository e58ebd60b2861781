"""Shell commands of agents: their parts and their names."""

import pytest

from holdfast.core.compaction.memory.shell import Parsed, command_of


@pytest.mark.parametrize(
    ("command", "name", "segments"),
    [
        (
            "cd x && FOO=1 timeout 5 make test 2>&1 | tail -3",
            "make test",
            ["cd x", "make test", "tail -3"],
        ),
        ("cd /x", "cd /x", ["cd /x"]),
        ("echo 'a && b; c' \"d | e\"; ls", "ls", ["echo 'a && b; c' \"d | e\"", "ls"]),
        ("it's", "it's", ["it's"]),
    ],
)
def test_a_chain_is_split_at_its_separators(command: str, name: str, segments: list[str]) -> None:
    parsed = Parsed(command)
    assert (parsed.name, parsed.segments) == (name, segments)


def test_a_command_is_found_in_any_form_of_call() -> None:
    assert command_of("shell", {}, "ls -l") == "ls -l"
    assert command_of("exec", {"cmd": ["bash", "-lc", "ls"]}, None) == "ls"
    assert command_of("exec", {"command": ["ls", "-l"]}, None) == "ls -l"
    assert command_of("str_replace_editor", {"command": "view"}, None) == ""
    assert command_of("exec", {"command": [], "script": 3}, None) == ""
    assert command_of("read", {}, "ls -l") == ""
