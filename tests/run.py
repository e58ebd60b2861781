"""Runs the tests with branch coverage and holds the two promises about it: `python -m tests.run -n 2 [pytest's own]`.

Nothing is left behind: coverage and compiled files, shared by the processes of the tests, are in a temporary folder. A
run of only some tests (paths, -k, -m) says nothing about coverage, so it is not measured then.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# The core is pure and decides: a branch of it that no test takes is a decision nobody checked.
CORE_PERCENT_MIN = 100
# The rest talks to the world; what is left out there are mostly the ways in which the world fails.
TOTAL_PERCENT_MIN = 90

# What makes pytest run less than everything.
_SELECTING = ("-k", "-m", "--lf", "--last-failed", "--deselect", "--ignore", "--collect-only", "--co")
_CLOSING = re.compile(r"\b\d+ (?:passed|failed|errors?|skipped)\b|\bno tests ran\b")


def is_selection(arguments: Sequence[str]) -> bool:
    """Return whether these arguments make pytest run only some tests."""
    return any(
        argument.startswith(_SELECTING) or (ROOT / argument.partition("::")[0]).exists()
        for argument in arguments
        # A number belongs to the option before it, as in "-n 2".
        if not argument.isdigit()
    )


def run_pytest(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """Run pytest, showing its output as it comes, and return its exit code and its closing line."""
    closing = ""
    command = [sys.executable, "-m", "pytest", *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, errors="replace"
    ) as pytest:
        assert pytest.stdout is not None
        for line in pytest.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            if _CLOSING.search(line):
                closing = line.strip()
    return pytest.returncode, closing


def shortfalls(environment: Mapping[str, str]) -> list[str]:
    """Print what is not covered and return a sentence per promise that does not hold."""
    core = _report(["--include=src/holdfast/core/*", f"--fail-under={CORE_PERCENT_MIN}"], environment)
    total = _report([f"--fail-under={TOTAL_PERCENT_MIN}"], environment)
    return [
        sentence
        for fell_short, sentence in (
            (core, f"src/holdfast/core must be covered to {CORE_PERCENT_MIN} %, branches included"),
            (total, f"the whole of src/holdfast must be covered to {TOTAL_PERCENT_MIN} %, branches included"),
        )
        if fell_short
    ]


def _report(options: Sequence[str], environment: Mapping[str, str]) -> bool:
    command = [sys.executable, "-m", "coverage", "report", "--precision=1", *options]
    # 2 is what coverage returns when it is below the least that was asked for; 1 is any other failure. Both fall short.
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode != 0


def main(arguments: Sequence[str]) -> int:
    """Run the tests and return 0 only if all passed and coverage is as promised."""
    with tempfile.TemporaryDirectory(prefix="holdfast-tests-") as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(Path(folder) / "compiled")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        if is_selection(arguments):
            return run_pytest(arguments, environment)[0]
        environment["COVERAGE_FILE"] = str(Path(folder) / "coverage")
        covered = ["--cov=holdfast", "--cov-branch", "--cov-report="]
        code, closing = run_pytest([*covered, *arguments], environment)
        missing = shortfalls(environment)
    for sentence in missing:
        sys.stdout.write(f"coverage: {sentence}\n")
    # Said again, so that it can be read without scrolling up.
    sys.stdout.write(f"{closing}\n")
    return code or (1 if missing else 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
