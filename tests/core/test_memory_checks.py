"""Verdicts of tests, builds and linters, and errors that are still open."""

import pytest

from holdfast.core.compaction.digest import remember
from holdfast.core.compaction.memory import checks
from holdfast.core.compaction.memory.state import Doing
from holdfast.types.messages import ToolOutcome
from tests.core.passages import called, edited, ran, returned


@pytest.mark.parametrize(
    ("command", "output", "failed", "line"),
    [
        ("pytest -q", "..F\nFAILED tests/a.py::b\n1 failed, 2 passed in 0.1s", True, "1 failed, 2 passed in 0.1s"),
        ("cd x && uv run pytest 2>&1 | tail -5", "3 passed in 0.1s", False, "3 passed in 0.1s"),
        ("npm test", "Tests: 0 failed, 5 passed, 5 total", False, "Tests: 0 failed, 5 passed, 5 total"),
        ("npx vitest run", " Tests  2 failed | 5 passed", True, "Tests 2 failed | 5 passed"),
        ("go test ./...", "ok  \texample/a\t0.1s", False, "ok example/a 0.1s"),
        ("cargo clippy", "error[E0308]: mismatched types\n", True, "error[E0308]: mismatched types"),
        ("mvn -q verify", "[INFO] BUILD SUCCESS", False, "[INFO] BUILD SUCCESS"),
        ("make lint", "make: *** [Makefile:3: lint] Error 1", True, "make: *** [Makefile:3: lint] Error 1"),
        ("mypy src", "Success: no issues found in 3 source files", False, "Success: no issues found in 3 source files"),
        ("npx tsc --noEmit", "src/a.ts(3,5): error TS2322: Type", True, "src/a.ts(3,5): error TS2322: Type"),
        ("ruff check .", "All checks passed!", False, "All checks passed!"),
        ("./gradlew test", "exit code: 1", True, "exit code: 1"),
        ("./gradlew test", "Exit code 0\nOK", False, "OK"),
        ("pytest", "hello\nit exits", False, "it exits"),
        ("make build", "", False, ""),
    ],
)
def test_the_verdict_of_any_runner_is_read(command: str, output: str, *, failed: bool, line: str) -> None:
    (check,) = remember(ran(1, command, output)).checks.values()
    assert (check.failed, check.line, check.seq) == (failed, line, 2)


@pytest.mark.parametrize("command", ["git commit -m 'fix tests'", "ls tests", "cat lint.txt", "echo build", "cd tests"])
def test_a_command_that_names_tests_is_no_test_run(command: str) -> None:
    assert remember(ran(1, command, "1 failed")).checks == {}


@pytest.mark.parametrize(
    ("command", "output", "outcome", "line"),
    [
        (
            "python x.py",
            'Traceback (most recent call last):\n  File "x"\nValueError: no',
            ToolOutcome.DONE,
            "ValueError: no",
        ),
        ("python x.py", "Traceback (most recent call last):", ToolOutcome.DONE, "Traceback (most recent call last):"),
        ("foo", "bash: foo: command not found", ToolOutcome.DONE, "bash: foo: command not found"),
        ("./deploy", "Exit code 2\nit is closed", ToolOutcome.FAILED, "it is closed"),
        ("./deploy", "all is fine", ToolOutcome.DONE, None),
        ("./deploy", "x\n" * 9_000 + "fatal: no", ToolOutcome.DONE, "fatal: no"),
        ("cat log.txt", "Error: an old one", ToolOutcome.DONE, None),
        ("cat log.txt", "cat: log.txt: No such file or directory", ToolOutcome.FAILED, None),
        ("./deploy", "The user doesn't want to proceed", ToolOutcome.FAILED, None),
        ("# nothing", "", ToolOutcome.FAILED, ""),
    ],
)
def test_an_error_is_known_by_the_line_that_tells_it(
    command: str, output: str, outcome: ToolOutcome, line: str | None
) -> None:
    found = remember(ran(1, command, output, outcome)).errors
    assert [error.line for error in found.values()] == ([] if line is None else [line])


def test_an_error_is_settled_by_the_same_command_alone_or_in_a_chain() -> None:
    failed = ran(1, "make deploy", "error: no")
    assert remember([*failed, *ran(3, "make other", "fine")]).errors
    for command in ("make deploy", "cd x && make deploy 2>&1 | tail", "make all && make deploy"):
        memory = remember([*failed, *ran(3, command, "fine")])
        assert memory.errors == {}
        assert [event.text for event in memory.events if event.doing is Doing.SOLVED] == ["make deploy => error: no"]


def test_an_error_of_another_tool_is_settled_by_the_same_tool() -> None:
    failed = edited(1, "get_user", "Error: user not found", user_id="mia_3668")
    assert [error.line for error in remember(failed).errors.values()] == ["Error: user not found"]
    assert remember([*failed, *edited(3, "get_user", "{}", user_id="mia_3669")]).errors == {}
    assert remember([called(1, "get"), returned(2, "tool use was rejected", outcome=ToolOutcome.FAILED)]).errors == {}


def test_without_a_verdict_the_last_line_is_one() -> None:
    assert checks.verdict_line("one\ntwo", failed=False) == "two"


def test_an_empty_command_was_not_run() -> None:
    memory = remember([*ran(1, " ", "Error: nothing"), *ran(3, "\n", "1 failed")])
    assert (memory.events, memory.checks, memory.errors) == ([], {}, {})


def test_a_traceback_without_its_error_is_told_by_its_first_line() -> None:
    assert checks.error_line("Traceback (most recent call last):\n  File") == "Traceback (most recent call last):"


def test_a_commit_settles_errors_of_single_commands_but_no_failed_check() -> None:
    failed = [*ran(1, "node try.js", "Error: no module"), *ran(3, "pytest -q", "1 failed in 2s")]
    assert list(remember(failed).errors) == ["node try.js", "pytest -q"]
    assert list(remember([*failed, *ran(5, "git commit -am done", "ok")]).errors) == ["pytest -q"]


def test_a_stopped_command_has_no_verdict_and_noise_is_none() -> None:
    memory = remember([*ran(1, "npm test", "3 passed"), *ran(3, "npm test", "Command aborted")])
    assert [(check.seq, check.failed, check.line) for check in memory.checks.values()] == [(2, False, "3 passed")]
    built = "Debugger attached.\ncompiled all of it\nWaiting for the debugger to disconnect...\n"
    assert [check.line for check in remember(ran(1, "npm run build", built)).checks.values()] == ["compiled all of it"]


GO_FAILURE = (
    "=== RUN   TestA\n    a_test.go:132: Session B state: shown=false\n--- FAIL: TestA (0.25s)\n"
    "    a_test.go:181: \n        Error Trace:\t/r/a_test.go:181\nFAIL\nFAIL\texample.org/cli\t32.530s\nFAIL\n"
    "[test:integration] ERROR task failed\n"
)


def test_a_failed_test_is_told_by_its_name_and_its_package_not_by_a_log_line() -> None:
    memory = remember(ran(1, "go test ./...", GO_FAILURE))
    assert [error.line for error in memory.errors.values()] == ["--- FAIL: TestA (0.25s)"]
    assert [check.line for check in memory.checks.values()] == ["FAIL example.org/cli 32.530s"]


def test_a_compiler_error_is_told_before_the_total_of_its_package() -> None:
    output = "FAIL\texample.org/cli [build failed]\ncmd/a.go:45:20: undefined: wrap\n"
    memory = remember(ran(1, "go test ./...", output))
    assert [error.line for error in memory.errors.values()] == ["cmd/a.go:45:20: undefined: wrap"]


def test_a_bare_failure_is_better_than_none() -> None:
    assert checks.verdict_line("running\nFAIL\n", failed=True) == "FAIL"
