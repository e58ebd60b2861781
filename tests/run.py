"""Run the tests and check the two coverage limits: `python -m tests.run -n 2 [options of pytest]`.

Coverage and compiled files are in a temporary folder that all processes of the tests share. A run of some tests only
(paths, -k, -m) measures no coverage.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# The core is pure and decides: a branch that no test takes is an unchecked decision.
CORE_PERCENT_MIN = 100
# The rest does I/O; its uncovered lines are mostly errors of the environment.
TOTAL_PERCENT_MIN = 90

# Options that make pytest run a part of the tests.
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
    """Print the uncovered lines and return a sentence per limit that is not reached."""
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
    # Coverage returns 2 below the limit and 1 for any other failure. Both fall short.
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode != 0


def main(arguments: Sequence[str]) -> int:
    """Run the tests and return 0 only if all passed and both coverage limits are reached."""
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
    # Repeated below the coverage report.
    sys.stdout.write(f"{closing}\n")
    return code or (1 if missing else 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
