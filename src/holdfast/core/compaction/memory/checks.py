"""Verdicts of tests, builds and linters, and errors of commands that have not succeeded since.

A result is read by its exit status, its counts and the words that all runners share, not by one vendor's lines.
"""

import re

from holdfast.core.compaction.memory.quotes import one_line
from holdfast.core.compaction.memory.shell import Parsed
from holdfast.core.compaction.memory.state import Check, Doing, Event, Memory

_RUNNERS = (
    r"pytest|py\.test|unittest|nose2?|tox|nox|jest|vitest|mocha|ava|karma|cypress|playwright|rspec|phpunit|ctest|gotestsum|"
    r"ruff|mypy|pyright|pylint|flake8|black|isort|tsc|tsgo|eslint|biome|oxlint|prettier|stylelint|shellcheck|rubocop|"
    r"golangci-lint|staticcheck|clippy|checkstyle|ktlint|swiftlint|hadolint|yamllint|markdownlint|mvnw?|gradlew?|gradle|"
    r"bazel|ninja|cmake|meson|msbuild|xcodebuild|sbt|rake|mix|tap|bats|deno|pre-commit|runtests?|reproduce"
)
_GOALS = r"tests?|lint\w*|checks?|build|vet|verify|type-?check\w*|compile|ci|format\w*|fmt|e2e|spec"
_CHECK = re.compile(
    rf"(?:\S*/)?(?:(?:uv|poetry|pipenv|hatch|rye|pdm|mise|bundle|npx|bunx|pnpx|yarn|pnpm|npm|bun|python\d?(?:\.\d+)?|go|php|"
    rf"cargo|make|just|task|docker|dotnet|swift|zig|stack|cabal|lerna|nx|turbo)\s+(?:\S+\s+){{0,4}}?)?"
    rf"(?:(?:\S*/)?(?:{_RUNNERS})\b|\S*(?:[:./_-]|\b)(?:{_GOALS})(?:[:._-]\S*)?(?=\s|$))",
    re.IGNORECASE,
)
# A goal counts only behind a tool that runs goals; "git commit -m 'fix tests'" runs none.
_RUNS_GOALS = re.compile(
    rf"(?:\S*/)?(?:uv|poetry|pipenv|hatch|mise|bundle|npx|bunx|yarn|pnpm|npm|bun|python\d?(?:\.\d+)?|go|cargo|make|gmake|just|"
    rf"task|dotnet|swift|zig|stack|cabal|lerna|nx|turbo|mix|deno|rake|bazel|docker|php|\./\S+|{_RUNNERS})\b",
    re.IGNORECASE,
)
# Commands that only show something: an error in their output is text of a file.
_SHOWS = re.compile(
    r"(?:cat|bat|grep|rg|ag|sed|awk|head|tail|less|more|ls|find|fd|echo|printf|wc|jq|tree|diff|nl|open|goto|scroll\w*|"
    r"search\w*|git\s+(?:-\S+\s+)*(?:diff|show|log|blame|status|grep|ls-files)|gh|man|which|type|curl|wget)\b"
)
# The person or the client refused or stopped the call: it has no verdict.
_REFUSED = re.compile(
    r"doesn't want to|\[Request interrupted|tool use was rejected|permission to use|has been denied|requires approval|"
    r"was blocked|has not been read yet|user (?:rejected|declined|cancelled)|"
    r"\A\s*command (?:was )?aborted|InputValidationError|sibling tool call",
    re.IGNORECASE,
)
_REFUSED_CHARS = 200
_EXIT = re.compile(
    r"(?:exit(?:ed)?(?: with)?[ _]?(?:code|status)?|return ?code)[\"']?\s*(?:of|was|[:=])?\s*(\d{1,3})\b", re.IGNORECASE
)
_EXIT_CHARS = 200
# Runners report at the beginning and at the end of their output.
_READ_CHARS = 8 * 2**10

_BAD = re.compile(
    r"^[ \t]*(?:--- FAIL|FAIL\b|FAILED\b|FAILURES?!|panic:|fatal:|E {3}|\w*Error:|error(?:\[\w+\])?:|npm ERR!|"
    r"BUILD FAILURE|✗|✖)|\b[1-9]\d* (?:\w+ )?(?:failed|failures?|failing|errors?|problems?|issues?)\b|"
    r"error TS\d|\*\*\* \[|(?:failures|failed|errors)[:=] ?[1-9]|would reformat|: command not found",
    re.MULTILINE | re.IGNORECASE,
)
_VERDICT = re.compile(
    r"^ok\s|\bpass(?:ed|ing|es)?\b|\bfail(?:ed|ing|ures?|s)?\b|"
    r"\b\d+ (?:tests?|issues?|errors?|problems?|warnings?|examples?|specs?|files?)\b|"
    r"\bno (?:issues|errors|problems)|\bsuccess\w*|\bBUILD\b|\bDONE\b|\bfinished\b|\bOK\b|✓|✔|✗|✖",
    re.IGNORECASE,
)
_STRONG = re.compile(
    r"^[ \t]*(?:Traceback \(most|--- FAIL|FAIL\b|FAILED\b|panic:|fatal:|[\w.]*(?:Error|Exception)\b:|"
    r"error(?:\[\w+\])?:|ERROR\b)|: command not found$|: No such file or directory$",
    re.MULTILINE,
)
# The line that says what went wrong, by its beginning, by a word in it, and by its end.
_ERROR_START = re.compile(
    r"[ \t]*(?:--- FAIL:|FAIL[ \t]+\S|FAILED[ \t]|panic:|fatal:|[\w.]{0,80}[Ee]rror\b[\[:( ]|ERROR\b|E[ ]{2,}\S|✗|✖|"
    r"[\w./-]{1,200}\.\w{1,5}(?::\d+(?::\d+)?:[ \t]|\(\d+,\d+\):)|[\w.]{1,80}(?:Error|Exception)\b)"
)
_PLACE = re.compile(r"[ \t]*(?:[\w./-]{1,200}\.\w{1,5}:\d+(?::\d+)?:|[Ee]rror Trace:|ERROR\b)")
_TOTAL = re.compile(r"[ \t]*(?:FAIL(?:ED)?[ \t]+\S+[ \t]+(?:[\d.]+m?s|\(cached\)|\[)|\[[\w:.-]+\] ERROR)")
_ERROR_WORDS = ("AssertionError", "Exception", "error TS")
_ERROR_ENDS = (": command not found", ": No such file or directory")
_TRACEBACK = re.compile(r"^Traceback \(most recent call last\):\n(?:[ \t][^\n]*\n)+(\S[^\n]*)", re.MULTILINE)
_REPORTS = re.compile(r"\s*(?:<\w*error\w*>|error\b|failed\b|could not\b|cannot\b|invalid\b|no such\b)", re.IGNORECASE)
_ECHO = re.compile(
    r"\s*(?:$|Exit code \d|\[[\w:.-]+\] (?:\$|Finished)|\$ |[+>] |Finished in|={3,}|-{3,}|"
    r"Waiting for the debugger|Debugger (?:attached|listening)|npm (?:notice|warn)\b|\(no output\)$)"
)
_LINE_CHARS, _COMMAND_CHARS = 200, 60
# An error and its end are worth more than most sentences of the agent.
_SOLVED_WORTH = 1.0
CHECKS_MAX, ERRORS_MAX = 40, 24
# Signs of a strong error; a search for them first takes a tenth of the time.
_SIGNS = ("rror", "ERROR", "FAIL", "panic:", "fatal:", "Traceback", "Exception", "not found", "No such file")


def observe_result(memory: Memory, seq: int, parsed: Parsed, output: str, *, has_failed: bool) -> bool:
    """Update verdicts and open errors by the result of a command; return whether it succeeded."""
    if _REFUSED.search(output, 0, _REFUSED_CHARS):
        return False
    output = _clipped(output)
    checks = any(is_check(segment) for segment in parsed.segments)
    has_exited = has_failed or _exit_failed(output)
    shows = not checks and all(_SHOWS.match(segment) for segment in parsed.segments)
    failed = has_exited or (not shows and _says_failed(output, checks=checks))
    if checks:
        line = verdict_line(output, failed=failed)
        _put(memory.checks, parsed.name, Check(seq, parsed.name, failed, line), CHECKS_MAX)
    if not failed:
        for name in dict.fromkeys((parsed.name, *parsed.segments)):
            _solve(memory, name)
    elif not shows:
        _put(memory.errors, parsed.name, Check(seq, parsed.name, failed, error_line(output)), ERRORS_MAX)
    return not has_exited


def _says_failed(output: str, *, checks: bool) -> bool:
    if checks:
        return _BAD.search(output) is not None
    return any(sign in output for sign in _SIGNS) and _STRONG.search(output) is not None


def observe_tool_error(memory: Memory, seq: int, name: str, output: str, *, has_failed: bool) -> None:
    """Update open errors by the result of a tool that runs no command: the same tool settles it."""
    if has_failed:
        if not _REFUSED.search(output, 0, _REFUSED_CHARS):
            _put(memory.errors, name, Check(seq, name, failed=True, line=error_line(_clipped(output))), ERRORS_MAX)
    elif memory.errors:
        _solve(memory, name)


def _solve(memory: Memory, name: str) -> None:
    """Move an error from the open ones to the story."""
    error = memory.errors.pop(name, None)
    if error is not None and error.line:
        text = f"{one_line(error.command, _COMMAND_CHARS)} => {error.line}"
        memory.events.append(Event(error.seq, memory.messages, Doing.SOLVED, text, _SOLVED_WORTH))


def is_check(segment: str) -> bool:
    """Return whether a command is a test, build or lint run."""
    segment = segment[:200]
    return _RUNS_GOALS.match(segment) is not None and _CHECK.match(segment) is not None


def reports_failure(text: str) -> bool:
    """Return whether the output of a tool that sets no status says that it failed."""
    return _REPORTS.match(text, 0, 80) is not None


def verdict_line(output: str, *, failed: bool) -> str:
    """Return the line of an output that sums it up: the last one with a verdict, of a failure the last bad one.

    A line that is only the word, as "FAIL", says less than one with a name or a number.
    """
    lines = [line for line in output.split("\n") if not _ECHO.match(line)]
    last = _last_bad(lines) if failed else ""
    last = last or next((line for line in reversed(lines) if _VERDICT.search(line)), "")
    return one_line(last or (lines or [""])[-1], _LINE_CHARS)


def _last_bad(lines: list[str]) -> str:
    bad = [line for line in reversed(lines) if _BAD.search(line)]
    return next((line for line in bad if len(line.split()) > 1), bad[0] if bad else "")


def error_line(output: str) -> str:
    """Return the line of an output that says what went wrong: the first one that looks like an error, or the first.

    The name of a failed test and the message of an exception come before lines that only begin with a place in a file,
    which tests and hooks also log, and those before the totals of a package.
    """
    lines = output.split("\n")
    errors = [line for line in lines if _is_error(line)]
    found = min(errors, key=_vagueness, default="")
    if found.startswith("Traceback "):
        trace = _TRACEBACK.search(output)
        found = trace[1] if trace is not None else found
    return one_line(found or next((line for line in lines if not _ECHO.match(line)), ""), _LINE_CHARS)


def _vagueness(line: str) -> int:
    if _TOTAL.match(line):
        return 2
    return 1 if _PLACE.match(line) else 0


def _is_error(line: str) -> bool:
    return (
        _ERROR_START.match(line) is not None
        or line.startswith("Traceback ")
        or any(word in line for word in _ERROR_WORDS)
        or line.rstrip().endswith(_ERROR_ENDS)
    )


def _exit_failed(output: str) -> bool:
    for start, end in ((0, _EXIT_CHARS), (max(0, len(output) - _EXIT_CHARS), len(output))):
        near = output[start:end]
        status = _EXIT.search(near) if "xit" in near or "eturn" in near else None
        if status is not None:
            return int(status[1]) != 0
    return False


def _clipped(output: str) -> str:
    if len(output) <= _READ_CHARS:
        return output
    return f"{output[: _READ_CHARS // 2]}\n{output[-_READ_CHARS // 2 :]}"


def _put(checks: dict[str, Check], name: str, check: Check, most: int) -> None:
    checks.pop(name, None)
    checks[name] = check
    while len(checks) > most:
        del checks[next(iter(checks))]
