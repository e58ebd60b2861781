"""Shell commands of agents: their text in a call, their parts, and the name by which a repetition is recognised."""

import re
from collections.abc import Mapping

from holdfast.core.compaction.memory.quotes import one_line

_COMMAND_KEYS = ("command", "cmd", "script", "commandline", "command_line")
_SHELLS = frozenset({"bash", "sh", "zsh", "fish", "pwsh", "powershell", "cmd"})
# Characters of a command that are parsed; more is an inline file.
_PARSED_CHARS = 16 * 2**10
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1([^\n]*)\n(.*?)(?:\n[ \t]*\2[ \t]*(?=\n|$)|\Z)", re.DOTALL)
# One command of a chain. Quotes hide separators; a single quote mark without its partner is a character.
_SEGMENT = re.compile(r"(?:'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.|[^'\"\\;&|\n]|['\"\\])+", re.DOTALL)
_MERGED_STREAMS = re.compile(r"\d?>&\d|&>>?")
# Words before a command that change where and how long it runs, not what it does.
_PREFIX = re.compile(
    r"(?:(?:sudo|time|command|exec|env|nice|nohup)\s+|\w+=(?:'[^']*'|\"[^\"]*\"|\S*)\s+|timeout\s+\S+\s+)+"
)
_MOVES = re.compile(r"(?:cd|pushd|popd|export|source|set|echo|true|\.)(?:\s|$)")
_NAME_CHARS_MAX = 100


def command_of(name: str, arguments: Mapping[str, object], raw: object) -> str:
    """Return the shell command of a call, "" if it has none. `raw` is the argument where it is no object."""
    if isinstance(raw, str) and re.search(r"bash|shell|exec|terminal|cmd", name, re.IGNORECASE):
        return raw
    for key in _COMMAND_KEYS:
        value = arguments.get(key)
        if isinstance(value, str):
            # Editors name their operation in `command`; a path beside it tells them from a shell.
            return "" if re.search(r"edit", name, re.IGNORECASE) else value
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            return value[-1] if value[0].rpartition("/")[2] in _SHELLS else " ".join(value)
    return ""


class Parsed:
    """A command split at its separators, with the bodies of its here-documents apart."""

    __slots__ = ("bodies", "name", "segments")

    def __init__(self, command: str) -> None:
        command = command[:_PARSED_CHARS]
        self.bodies: list[str] = []
        if "<<" in command:
            self.bodies = [found[4] for found in _HEREDOC.finditer(command)]
            command = _HEREDOC.sub(r"\3", command)
        plain = _MERGED_STREAMS.sub(" ", command)
        self.segments = [bare for piece in _SEGMENT.findall(plain) if (bare := _bare(piece))]
        self.name = _name(plain, self.segments)


def _bare(segment: str) -> str:
    segment = segment.strip().strip("()").strip()
    prefix = _PREFIX.match(segment)
    return segment[prefix.end() :] if prefix else segment


def _name(command: str, segments: list[str]) -> str:
    """Return the chain without moves before it and filters behind it; on one line."""
    # A pipe only filters what the command prints.
    told = [segment for segment in segments if not _MOVES.match(segment)]
    if not told:
        return one_line(command, _NAME_CHARS_MAX)
    start = command.find(told[0])
    rest = command[max(start, 0) :]
    pipe = re.search(r"(?<!\|)\|(?!\|)", _hidden(rest))
    return one_line(rest[: pipe.start()] if pipe else rest, _NAME_CHARS_MAX)


def _hidden(text: str) -> str:
    """Return a text of the same length with quoted parts blanked."""
    return re.sub(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"", lambda quoted: "x" * len(quoted[0]), text, flags=re.DOTALL)
