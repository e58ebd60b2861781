"""How a command ends: one sentence on standard error, and an exit code that a script can rely on.

The codes are those of sysexits.h where it has a fitting one. A bug of ours still shows its traceback: it is the
one case in which nobody could say what to do.
"""

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
    TurnFailedError,
    UsageError,
)

# As click has it, and as shells do, for what was typed wrongly.
USAGE = 2
UNAVAILABLE = 69
SOFTWARE = 70
IO_ERROR = 74
TRY_LATER = 75
# 128 and the number of the signal, as shells report SIGINT.
INTERRUPTED = 130
TERMINATED = 143
# As click ends, quietly, where a pipe breaks while something is printed; and where a check failed.
BROKEN = 1
# Something was found and is still there. 0 says that all is well; other codes, that nobody could look.
FOUND = 3

# What each exit code means; docs/commands.md is made from it. A code never changes its meaning.
EXITS: Mapping[int, str] = MappingProxyType(
    {
        0: "done",
        BROKEN: "a promise did not hold (demo, crashlab), a figure is below its floor (bench), or a pipe broke",
        USAGE: "what was typed cannot be done as it was typed; nothing was changed",
        FOUND: "doctor found something, and with --fix could not repair all of it",
        UNAVAILABLE: "a message was accepted and its turn ended without an answer; the session goes on",
        SOFTWARE: "a bug of ours",
        IO_ERROR: "the disk, the store or its server, or another file; somebody has to look",
        TRY_LATER: "busy, full or out of reach: the same may work later",
        INTERRUPTED: "Ctrl-C",
        TERMINATED: "ended by SIGTERM",
    }
)

# The first class that fits counts.
_CODES: tuple[tuple[type[HoldfastError], int], ...] = (
    (UsageError, USAGE),
    (RetryLaterError, TRY_LATER),
    (ConflictError, TRY_LATER),
    (OperatorError, IO_ERROR),
    (TurnFailedError, UNAVAILABLE),
)


def exit_code(error: HoldfastError) -> int:
    """Return the exit code that an error stands for."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), SOFTWARE)


def run(command: click.Command, arguments: Sequence[str]) -> int:
    """Run a command and return its exit code, having told on standard error what went wrong, if anything did."""
    try:
        returned = command.main(list(arguments), prog_name="holdfast", standalone_mode=False)
        sys.stdout.flush()
    except HoldfastError as error:
        return _told(str(error), exit_code(error))
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "holdfast"
        return _told(f"{error.format_message()} See `{where} --help`.", error.exit_code)
    except click.ClickException as error:
        return _told(error.format_message(), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read us has gone. What is still buffered would fail again when Python flushes it at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        return _told(f"{error.strerror or error}{place}", IO_ERROR)
    # A command that was ended by click itself, as --help is, hands back its code.
    return returned if isinstance(returned, int) else 0


def _told(sentence: str, code: int) -> int:
    click.echo(f"holdfast: {sentence}", err=True)
    return code
