"""Sessions of other agents on this machine: find, read, repair in place.

A repair is the smallest edit that makes a session resumable: a copy beside the original, one atomic replacement or one
transaction, and nothing at all for a session without trouble, so that a second repair changes nothing.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import apsw
import msgspec

from holdfast.errors import BadInputError, UsageError
from holdfast.rescue.diagnosis import Diagnosis, Trouble, diagnose, summary_of
from holdfast.rescue.files import backup_path, check_unused, replace_file
from holdfast.rescue.formats import (
    aider,
    claude_code,
    cline,
    codex,
    copilot,
    crush,
    docker_agent,
    gemini,
    goose,
    hermes,
    openclaw,
    opencode,
    pi,
    qwen_code,
)
from holdfast.rescue.formats.base import Compaction, ForeignSession, Line, SessionRef, read_lines
from holdfast.rescue.formats.libraries import langgraph, openai_agents, openviking
from holdfast.rescue.leaving import ProxiedState

_HEAD_BYTES = 4 * 2**20
_SQLITE_HEAD = b"SQLite format 3\0"


class Format(msgspec.Struct, frozen=True):
    """A format: its agents' names and programs, its functions, and the command that resumes a session."""

    agents: tuple[str, ...]
    commands: tuple[str, ...]
    find: Callable[[Path, Mapping[str, str], str], list[SessionRef]]
    read: Callable[[SessionRef], ForeignSession]
    # Recognises a file; None for databases.
    is_one: Callable[[list[Line]], bool] | None = None
    # A repaired file, or a repair of rows. None of both: sessions are only imported.
    repair: Callable[[ForeignSession, Compaction | None], bytes] | None = None
    repair_rows: Callable[[ForeignSession, Compaction | None], None] | None = None
    resume: str = ""
    # Troubles that the agent itself cures when it loads a session.
    cured: tuple[Trouble, ...] = ()
    # A compaction that never finished is removed, and the conversation before it is whole again.
    drops_failed_compactions: bool = False


def _nowhere(home: Path, environ: Mapping[str, str], cwd: str) -> list[SessionRef]:
    """Return no session: the program that uses a library chooses the place of the file."""
    del home, environ, cwd
    return []


FORMATS: tuple[Format, ...] = (
    Format(
        ("claude_code",),
        ("claude",),
        claude_code.find,
        claude_code.read,
        claude_code.is_one,
        claude_code.repair,
        resume="claude --resume {id}",
    ),
    Format(
        ("codex",),
        ("codex",),
        codex.find,
        codex.read,
        codex.is_one,
        codex.repair,
        resume="codex resume {id}",
        cured=(Trouble.ORPHANED_CALL, Trouble.ORPHANED_RESULT),
    ),
    Format(
        ("opencode",),
        ("opencode",),
        opencode.find,
        opencode.read,
        repair_rows=opencode.repair_rows,
        resume="opencode -s {id}",
        drops_failed_compactions=True,
    ),
    Format(
        ("pi", "openclaw"),
        ("pi", "openclaw"),
        pi.find,
        pi.read,
        pi.is_one,
        pi.repair,
        resume="pi --session {id}",
        cured=(Trouble.ORPHANED_CALL, Trouble.ORPHANED_RESULT),
    ),
    Format(
        ("qwen_code",),
        ("qwen",),
        qwen_code.find,
        qwen_code.read,
        qwen_code.is_one,
        qwen_code.repair,
        resume="qwen --resume {id}",
        cured=(Trouble.ORPHANED_CALL, Trouble.ORPHANED_RESULT),
    ),
    Format(
        ("gemini",),
        ("gemini",),
        gemini.find,
        gemini.read,
        gemini.is_one,
        gemini.repair,
        resume="gemini --resume latest",
        cured=(Trouble.ORPHANED_CALL, Trouble.ORPHANED_RESULT),
    ),
    Format(
        ("copilot",),
        ("copilot",),
        copilot.find,
        copilot.read,
        copilot.is_one,
        copilot.repair,
        resume="copilot --resume {id}",
    ),
    Format(("openclaw_rows",), ("openclaw",), openclaw.find, openclaw.read),
    Format(("hermes",), ("hermes",), hermes.find, hermes.read),
    Format(("goose",), ("goose",), goose.find, goose.read),
    Format(("docker_agent",), ("docker-agent", "cagent"), docker_agent.find, docker_agent.read),
    Format(("aider",), ("aider",), aider.find, aider.read),
    Format(("crush",), ("crush",), crush.find, crush.read),
    Format(("cline", "roo"), (), cline.find, cline.read),
    Format(("openai_agents",), (), _nowhere, openai_agents.read),
    Format(("langgraph",), (), _nowhere, langgraph.read),
    # Last: its lines have the least of a form of their own.
    Format(("openviking",), (), _nowhere, openviking.read, openviking.is_one),
)


class Listed(msgspec.Struct, frozen=True):
    """A session in a list. `fault` says why it could not be read at all."""

    ref: SessionRef
    messages: int = 0
    diagnosis: Diagnosis | None = None
    fault: str = ""


class Repaired(msgspec.Struct, frozen=True):
    """Result of a repair: the copy beside the original (None: nothing was changed), troubles before and after."""

    ref: SessionRef
    backup: Path | None
    before: Diagnosis
    after: Diagnosis
    resume: str


def format_of(agent: str) -> Format:
    """Return the format of an agent."""
    return next(one for one in FORMATS if agent in one.agents)


def is_repairable(ref: SessionRef) -> bool:
    """Return whether sessions of this agent are repaired in place."""
    found = format_of(ref.agent)
    return found.repair is not None or found.repair_rows is not None


def list_sessions(home: Path, environ: Mapping[str, str], cwd: str) -> list[Listed]:
    """Return the sessions of all agents for a folder, newest first, each with its diagnosis."""
    refs: list[SessionRef] = []
    for one in FORMATS:
        with contextlib.suppress(OSError, apsw.Error):
            refs += one.find(home, environ, cwd)
    return [_listed(ref) for ref in sorted(refs, key=lambda ref: -ref.updated_at)]


def _listed(ref: SessionRef) -> Listed:
    try:
        session = read_session(ref)
    except (BadInputError, OSError) as error:
        return Listed(ref, fault=str(error))
    return Listed(session.ref, len(session.messages), diagnose(session))


def read_session(ref: SessionRef) -> ForeignSession:
    """Read a session. Raises `BadInputError` for a file that is none of its format."""
    try:
        return format_of(ref.agent).read(ref)
    except (apsw.Error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInputError(f"{ref.path}: not readable as a session of {ref.agent} ({error})") from error


def find_session(name: str, home: Path, environ: Mapping[str, str], cwd: str) -> SessionRef:
    """Return the session with a path, an id or the beginning of one. Raises `UsageError` without a single match."""
    if (named := _named_file(name)) is not None:
        return named
    refs = [ref for one in FORMATS for ref in one.find(home, environ, cwd)]
    found = [ref for ref in refs if ref.id == name] or [ref for ref in refs if ref.id.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{len(found)} sessions begin with {name!r}; give the whole id")
    raise UsageError(f"there is no file or session {name!r} for {cwd}; `holdfast rescue` lists the sessions here")


def _named_file(name: str) -> SessionRef | None:
    """Return the session of a path, or of `FILE#ID` in a database; None if it is neither."""
    file, _, wanted = name.rpartition("#")
    if Path(name).expanduser().is_file():
        return _ref_of_file(Path(name).expanduser())
    if file and Path(file).expanduser().is_file():
        return _ref_in_database(Path(file).expanduser().resolve(), wanted)
    return None


def _ref_of_file(path: Path) -> SessionRef:
    path = path.resolve()
    known = path.stat()
    if path.name == aider.NAME:
        return aider.find(path.parent, {}, str(path.parent))[0]
    if path.name == cline.NAME:
        return cline.ref_of_file(path)
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if head.startswith(_SQLITE_HEAD):
        return _ref_in_database(path)
    lines = read_lines(head).lines
    for one in FORMATS:
        if one.is_one is not None and one.is_one(lines):
            name = path.name.removesuffix(".jsonl")
            return SessionRef(one.agents[0], name, path, "", known.st_mtime, known.st_size)
    raise UsageError(f"{path} is not a session of a known agent; `holdfast import` reads the neutral format")


def _ref_in_database(path: Path, wanted: str = "") -> SessionRef:
    found = [*openai_agents.sessions_in(path), *langgraph.sessions_in(path)]
    chosen = [ref for ref in found if ref.id == wanted] if wanted else found
    if len(chosen) == 1:
        return chosen[0]
    # Agents have their databases at a place of their own; there the id is enough.
    example = f", as in FILE#{found[0].id}" if found else ""
    raise UsageError(
        f"{path} is a database with {len(found)} sessions of a known form; name a session by its id{example}"
    )


def rescue_in_place(ref: SessionRef, window_tokens: int | None = None, proxied: ProxiedState | None = None) -> Repaired:
    """Repair a session for its own agent, and write the state that a gateway has of it.

    Raises `RetryLaterError` while the agent runs.
    """
    found = format_of(ref.agent)
    session = read_session(ref)
    before = diagnose(session, window_tokens)
    if proxied is not None:
        before = before.followed_by(proxied.symptom)
    resume = found.resume.format(id=session.ref.id)
    if not is_repairable(ref):
        raise UsageError(f"sessions of {ref.agent} are not repaired in place; import it: `holdfast rescue {ref.id}`")
    if not _needed(before, found.cured):
        return Repaired(session.ref, None, before, before, resume)
    files = [ref.path, ref.path.with_name(ref.path.name + "-wal")]
    check_unused(files, found.commands, session.ref.cwd)
    compaction = proxied.compaction if proxied is not None else _own_compaction(session, before, found)
    if found.repair is not None:
        backup = replace_file(ref.path, found.repair(session, compaction), keeps_backup=True)
    else:
        assert found.repair_rows is not None, "checked above"
        backup = backup_path(ref.path)
        opencode.backup_rows(ref.path, backup)
        found.repair_rows(session, compaction)
    again = read_session(session.ref)
    return Repaired(again.ref, backup, before, diagnose(again, window_tokens), resume)


def _own_compaction(session: ForeignSession, diagnosis: Diagnosis, found: Format) -> Compaction | None:
    """Return a compaction made from the file alone, if it needs one."""
    is_needed = diagnosis.is_too_long if found.drops_failed_compactions else diagnosis.needs_summary
    return Compaction(summary_of(session, diagnosis.window_tokens)) if is_needed else None


def _needed(diagnosis: Diagnosis, cured: Sequence[Trouble]) -> bool:
    return any(one.trouble not in {*cured, Trouble.EMPTY} for one in diagnosis.symptoms)
