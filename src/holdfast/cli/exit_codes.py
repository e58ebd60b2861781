"""Exit codes, and the one-line error message on standard error.

Codes follow sysexits.h where it has a matching one. An unexpected exception still prints its traceback.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import click

from holdfast.errors import (
    ConflictError,
    HoldfastError,
    OperatorError,
    RetryLaterError,
    StorePathError,
    TurnFailedError,
    UsageError,
)

# The usage error of click and of shells.
USAGE = 2
UNAVAILABLE = 69
SOFTWARE = 70
IO_ERROR = 74
TRY_LATER = 75
# 128 plus the signal number, as shells report it.
INTERRUPTED = 130
TERMINATED = 143
# A failed check; also a broken pipe, which click reports with the same code.
BROKEN = 1
# doctor has findings that are not repaired. 0 means a healthy store; any other code means that the check did not run.
FOUND = 3

# Meaning of each exit code; docs/commands.md is generated from it. A code never changes its meaning.
EXITS: Mapping[int, str] = MappingProxyType(
    {
        0: "done",
        BROKEN: "a promise was broken (demo, crashlab), a figure is below its floor (bench), or the output pipe closed",
        USAGE: "wrong usage or bad input; nothing was changed",
        FOUND: "doctor has findings, or could not repair all of them with --fix",
        UNAVAILABLE: "the message was accepted but its turn failed; the session stays usable",
        SOFTWARE: "a bug in Holdfast",
        IO_ERROR: "error of the disk, the store, its server or another file; needs an operator",
        TRY_LATER: "busy, full or unreachable; retry later",
        INTERRUPTED: "Ctrl-C",
        TERMINATED: "SIGTERM",
    }
)

# Plain words for click's number types; the longer pattern first.
_REPLACEMENTS = (
    ("a valid integer range", "a whole number"),
    ("a valid integer", "a whole number"),
    ("a valid float range", "a number"),
    ("a valid float", "a number"),
)

# The first matching class wins.
_CODES: tuple[tuple[type[HoldfastError], int], ...] = (
    (UsageError, USAGE),
    (RetryLaterError, TRY_LATER),
    (ConflictError, TRY_LATER),
    # The caller chose the path.
    (StorePathError, USAGE),
    (OperatorError, IO_ERROR),
    (TurnFailedError, UNAVAILABLE),
)


def exit_code(error: HoldfastError) -> int:
    """Return the exit code of an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), SOFTWARE)


def run(command: click.Command, arguments: Sequence[str]) -> int:
    """Run a command, print an error message on standard error if it fails, and return the exit code."""
    try:
        returned = command.main(list(arguments), prog_name="holdfast", standalone_mode=False)
        sys.stdout.flush()
    except HoldfastError as error:
        _print_as_json(error, arguments)
        return _report(str(error), exit_code(error))
    except click.exceptions.NoArgsIsHelpError as error:
        # A group without a command prints its help.
        click.echo(error.format_message(), err=True)
        return USAGE
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "holdfast"
        return _report(f"{_plain_message(error.format_message())} See `{where} --help`.", USAGE)
    except click.ClickException as error:
        # A file that click could not open, or a process of the demo that did not start.
        return _report(error.format_message(), IO_ERROR)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe. Redirect the rest, or Python's flush at exit would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN
    except OSError as error:
        place = f": {error.filename}; check that it exists and that you have access" if error.filename else ""
        return _report(f"{error.strerror or error}{place}", IO_ERROR)
    # click returns the exit code of commands that it ends itself, such as --help.
    return returned if isinstance(returned, int) else 0


def _described(error: HoldfastError) -> dict[str, str | int]:
    """Return an error for programs. `code` is stable: that of the outcome of a failed turn, else of the error."""
    if isinstance(error, TurnFailedError):
        failed: dict[str, str | int] = {"code": error.reason, "message": error.sentence, "exit_code": exit_code(error)}
        return {**failed, "session": error.session, "turn": error.turn}
    return {"code": error.code, "message": str(error), "exit_code": exit_code(error), "session": "", "turn": 0}


def _print_as_json(error: HoldfastError, arguments: Sequence[str]) -> None:
    """Print an error as an object if JSON was asked for; behind `--` are words of a message."""
    own = list(arguments)
    if "--json" in (own[: own.index("--")] if "--" in own else own):
        click.echo(json.dumps({"error": _described(error)}, ensure_ascii=False, separators=(",", ":")))


def _plain_message(sentence: str) -> str:
    """Return click's message in plainer words, as a sentence."""
    for technical, plain in _REPLACEMENTS:
        sentence = sentence.replace(technical, plain)
    return sentence if sentence.endswith((".", "?")) else f"{sentence}."


def _report(sentence: str, code: int) -> int:
    click.echo(f"holdfast: {sentence}", err=True)
    return code
