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
    StorePathError,
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

# What click calls a number that is none; the longer first.
_PLAINER = (
    ("a valid integer range", "a whole number"),
    ("a valid integer", "a whole number"),
    ("a valid float range", "a number"),
    ("a valid float", "a number"),
)

# The first class that fits counts.
_CODES: tuple[tuple[type[HoldfastError], int], ...] = (
    (UsageError, USAGE),
    (RetryLaterError, TRY_LATER),
    (ConflictError, TRY_LATER),
    # Whoever typed the path can type another.
    (StorePathError, USAGE),
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
    except click.exceptions.NoArgsIsHelpError as error:
        # A name alone is a question: the answer is the help, and nothing around it.
        click.echo(error.format_message(), err=True)
        return USAGE
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "holdfast"
        return _told(f"{_in_plain_words(error.format_message())} See `{where} --help`.", USAGE)
    except click.ClickException as error:
        # A file that click could not open for us, and the demo's programs.
        return _told(error.format_message(), IO_ERROR)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read us has gone. What is still buffered would fail again when Python flushes it at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN
    except OSError as error:
        place = f": {error.filename}; see that it is there and that you may use it" if error.filename else ""
        return _told(f"{error.strerror or error}{place}", IO_ERROR)
    # A command that was ended by click itself, as --help is, hands back its code.
    return returned if isinstance(returned, int) else 0


def _in_plain_words(sentence: str) -> str:
    """Return what click says about arguments as a sentence that a person would say."""
    for theirs, ours in _PLAINER:
        sentence = sentence.replace(theirs, ours)
    return sentence if sentence.endswith((".", "?")) else f"{sentence}."


def _told(sentence: str, code: int) -> int:
    click.echo(f"holdfast: {sentence}", err=True)
    return code
