"""Files that were changed and not committed, by editing tools, patches and shell commands."""

import re
from collections.abc import Mapping

from holdfast.core.compaction.memory.quotes import one_line
from holdfast.core.compaction.memory.shell import Parsed
from holdfast.core.compaction.memory.state import Memory, Said

_EDITS = re.compile(r"edit|write|patch|replace|create|insert|append|update|rename|delete|diff", re.IGNORECASE)
# Tools that keep lists, and those that only look.
_NO_EDITS = re.compile(r"todo|task|plan|memory|issue|comment|read|view|list|search|grep|glob|find|fetch", re.IGNORECASE)
_PATH_KEY = re.compile(r"(?:path|file|filename|file_?name|uri|target)s?$", re.IGNORECASE)
_LOOKS = frozenset({"view", "read", "undo_edit", "list", "search"})
_PATH_CHARS_MAX = 300
_PATCHED = re.compile(
    r"^(?:\*\*\* (?:Update|Add|Delete) File: |\*\*\* Move to: |\+\+\+ (?:b/)?)(\S[^\n\t]*)", re.MULTILINE
)
# A file's name above a block of the form that text-only agents use for edits.
_BLOCK = re.compile(
    r"^[`*# \t]*+([\w./@+-]+\.\w{1,8})[`*:]*+\s*\n(?:(?:`{3,}|<\w+>)[^\n]*\n)?<{5,9} ?SEARCH", re.MULTILINE
)
_REDIRECT = re.compile(r"(?<![<>&\d])>>?\s*([\w./~@+${}-]+)")
_IN_PLACE = re.compile(r"(?:sed|perl|gsed)\b.*?\s-\w*i\w*\b")
_PATHLIKE = re.compile(r"[./~]*+[\w@+-][\w./~@+-]*+(?<!~)")
_SCRATCH = ("/dev/", "/tmp/", "/var/tmp/", "$")  # noqa: S108 - recognised, not used
_MESSAGE = re.compile(r"(?<![\w-])(?:-\w*m|--message)[ =]?(\"(?:[^\"\\]|\\.)*\"|'[^']*'|\S+)", re.DOTALL)
_COMMITS = re.compile(r"(?:git\b.*?\bcommit|hg commit|svn (?:commit|ci)|jj (?:commit|new))\b")
_COMMITTED_LINE = re.compile(r"^Commit ([0-9a-f]{7,40}) ", re.MULTILINE)
# Everything is staged.
_ALL = "*"
CHANGED_MAX, _COMMITS_MAX, _STAGED_MAX = 200, 12, 200


def is_edit(name: str, arguments: Mapping[str, object]) -> bool:
    """Return whether a call changes files."""
    return _EDITS.search(name) is not None and not _NO_EDITS.search(name) and arguments.get("command") not in _LOOKS


def paths_in(arguments: Mapping[str, object]) -> list[str]:
    """Return the paths in a call's arguments: values of path keys, and files of patches."""
    found: dict[str, None] = {}
    waiting: list[object] = [dict(arguments)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            for key, inner in value.items():
                if isinstance(inner, str):
                    found.update(dict.fromkeys(_paths_of(str(key), inner)))
                else:
                    waiting.append(inner)
        elif isinstance(value, list):
            waiting += value[:32]
    return list(found)


def _paths_of(key: str, text: str) -> list[str]:
    if len(text) > _PATH_CHARS_MAX or "\n" in text:
        return patched(text) if "*** " in text or "+++ " in text else []
    return [text.strip()] if _PATH_KEY.search(key) and text.strip() else []


def patched(text: str) -> list[str]:
    """Return the files that a patch changes."""
    return [path.strip() for path in _PATCHED.findall(text) if path.strip() != "/dev/null"]


def blocks_of(text: str) -> list[str]:
    """Return the files of search-and-replace blocks in a message."""
    return _BLOCK.findall(text) if "<<<<< SEARCH" in text or "<<<<<SEARCH" in text else []


def changed_by(parsed: Parsed) -> list[str]:
    """Return the files that a shell command writes."""
    found: list[str] = [path for body in parsed.bodies for path in patched(body)]
    for segment in parsed.segments:
        if ">" in segment:
            found += _REDIRECT.findall(re.sub(r"'[^']*'|\"[^\"]*\"", " ", segment))
        found += _written(segment, segment.split())
    return [path for path in found if not path.startswith(_SCRATCH) and "." in path]


def _written(segment: str, words: list[str]) -> list[str]:
    """Return the files that one command writes by its name."""
    if words[0] == "tee":
        return [word for word in words[1:] if not word.startswith("-")]
    last = words[-1].strip("'\"")
    if _IN_PLACE.match(segment):
        # A script in quotes is not a path.
        return [last] if _PATHLIKE.fullmatch(last) else []
    moves = words[:2] == ["git", "mv"] or (words[0] in ("mv", "cp") and len(words) > 2)  # noqa: PLR2004 - two paths
    return [last] if moves else []


def add_changes(memory: Memory, seq: int, paths: list[str]) -> None:
    """Keep changed files, the newest last."""
    for path in paths:
        memory.changed.pop(path, None)
        memory.changed[path] = seq
    while len(memory.changed) > CHANGED_MAX:
        del memory.changed[next(iter(memory.changed))]


def observe_versions(memory: Memory, seq: int, parsed: Parsed) -> None:
    """Update changed files by the version-control commands of a chain that succeeded."""
    folder = ""
    for segment in parsed.segments:
        words = segment.split()
        if words[0] in ("cd", "pushd") and len(words) > 1:
            folder = words[1].strip("'\"")
        if _is_elsewhere(memory, folder):
            continue
        if _COMMITS.match(segment):
            _observe_commit(memory, seq, segment, parsed)
        elif words[0] == "git":
            _observe_git(memory, words[1:])


def _observe_git(memory: Memory, words: list[str]) -> None:
    """Update changed and staged files by a command of git that is no commit."""
    command = words[0] if words else ""
    if command == "add":
        memory.staged += [_ALL if word in ("-A", "--all", "-u", ".", "*") else word for word in words[1:]]
        del memory.staged[:-_STAGED_MAX]
    elif command in ("checkout", "restore"):
        _revert(memory, [word for word in words[1:] if not word.startswith("-")], is_whole="." in words)
    elif words[:2] in (["reset", "--hard"], ["stash"], ["stash", "push"], ["stash", "-u"]):
        memory.changed.clear()


def _is_elsewhere(memory: Memory, folder: str) -> bool:
    """Return whether a command runs in a scratch folder that has none of the changed files."""
    return folder.startswith(_SCRATCH) and not any(path.startswith(folder) for path in memory.changed)


def observe_tool_text(memory: Memory, seq: int, text: str) -> None:
    """Update changed files by an agent's own report of a commit."""
    found = _COMMITTED_LINE.search(text) if "Commit " in text else None
    if found is not None:
        memory.changed.clear()
        memory.commits.append(Said(seq, one_line(text[found.start() :].partition("\n")[0], 120)))
        del memory.commits[:-_COMMITS_MAX]


def _observe_commit(memory: Memory, seq: int, segment: str, parsed: Parsed) -> None:
    text = _commit_message(segment, parsed)
    if text or "--amend" not in segment:
        # An amended commit keeps its message.
        memory.commits.append(Said(seq, one_line(text, 120)))
        del memory.commits[:-_COMMITS_MAX]
    _settle_errors(memory)
    staged = [path for path in memory.staged if path != _ALL]
    is_all = not staged or _ALL in memory.staged or re.search(r"\s(?:-\w*a\w*|--all)\b", segment.partition("-m")[0])
    if is_all:
        memory.changed.clear()
    else:
        _revert(memory, staged, is_whole=False)
    memory.staged.clear()


def _commit_message(segment: str, parsed: Parsed) -> str:
    """Return the message of a commit, from its option or from a here-document."""
    message = _MESSAGE.search(segment)
    text = message[1].strip("\"'") if message else ""
    if "$(" not in text and text:
        return text
    return next((body for body in parsed.bodies if body.strip()), text).strip().partition("\n")[0]


def _settle_errors(memory: Memory) -> None:
    """Drop errors of single commands when the work is committed; a failed check stays until it passes."""
    memory.errors = {name: error for name, error in memory.errors.items() if name in memory.checks}


def _revert(memory: Memory, paths: list[str], *, is_whole: bool) -> None:
    if is_whole:
        memory.changed.clear()
        return
    named = [path.strip("'\"").removeprefix("./").rstrip("/") for path in paths]
    for changed in list(memory.changed):
        if any(_is_same(changed, path) for path in named):
            del memory.changed[changed]


def _is_same(changed: str, named: str) -> bool:
    """Return whether a command that names a path or a folder means this file."""
    return changed == named or changed.endswith(f"/{named}") or f"/{named}/" in f"/{changed}"
