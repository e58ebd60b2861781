"""What the errors of a PostgreSQL server mean to a caller, and what to do about each.

The codes are those of https://www.postgresql.org/docs/current/errcodes-appendix.html. No sentence quotes the address as
it was given: that may hold a password.
"""

import asyncpg

from holdfast.errors import (
    BadInputError,
    HoldfastError,
    StoreAccessError,
    StoreBusyError,
    StoreFullError,
    StoreIoError,
    StorePathError,
    StoreReadOnlyError,
    StoreUnreachableError,
)

# Everything that asyncpg raises when a server or the way to it fails. A timeout is an OSError. An internal error is
# what a new connection gets whose server goes down while it is made: "another operation is in progress".
Trouble = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)

# The server goes down or comes up: shutdown by an operator, after a crash, not ready yet, the database dropped under
# us.
_GOING_DOWN = frozenset({"57P01", "57P02", "57P03", "57P05"})
# The transaction was taken back and may simply be tried again: deadlock, serialisation failure.
_TRY_AGAIN = frozenset({"40P01", "40001"})
# `holdfast.write` says so of a batch that `holdfast.settle` has declared void.
VOID = "HF001"


def sqlstate(error: BaseException) -> str:
    """Return the server's code for an error; nothing where it is not the server's."""
    return (error.sqlstate or "") if isinstance(error, asyncpg.PostgresError) else ""


def is_lost(error: BaseException) -> bool:
    """Whether the connection is gone, so that nobody has said what came of the statement that was under way."""
    code = sqlstate(error)
    # 08: connection exceptions. asyncpg's own errors are about connections that are closed, in use, or out of step.
    is_ours = isinstance(error, asyncpg.InterfaceError | asyncpg.InternalClientError | OSError)
    return is_ours or code in _GOING_DOWN or code.startswith("08")


def may_be_tried_again(error: BaseException) -> bool:
    """Whether the server has taken everything back and asks for another try."""
    return sqlstate(error) in _TRY_AGAIN


def translated(shown: str, error: BaseException) -> HoldfastError:
    """Return what went wrong at an address, as an error of ours."""
    code = sqlstate(error)
    match code:
        case "28P01" | "28000":
            return StoreAccessError(
                f"{shown} does not let us in (wrong user or password); check the URL, PGPASSWORD or ~/.pgpass, "
                "and the server's pg_hba.conf"
            )
        case "42501":
            return StoreAccessError(
                f"{shown} does not allow what is needed ({error}); grant the user CREATE on the database, "
                "or all rights on the schema holdfast"
            )
        case "3D000":
            return StorePathError(f"there is no such database at {shown}; create it, as with `createdb`, and try again")
        case "53100":
            return StoreFullError(f"no space is left for {shown}; nothing was stored: free some and try again")
        case "25006":
            return StoreReadOnlyError(
                f"{shown} may only be read, as a standby server; nothing was stored: name the primary server"
            )
        case "53300":
            return StoreBusyError(
                f"{shown} has no connection left; nothing was stored: try again, or raise max_connections there"
            )
        case "53200" | "53000" | "53400":
            return StoreBusyError(f"{shown} is out of resources ({error}); nothing was stored: try again later")
        case "57014" | "55P03" | "40P01" | "40001":
            return StoreBusyError(
                f"{shown} was too busy to answer in time ({error}); nothing was stored: try again, and look in "
                "pg_stat_activity for what holds it up"
            )
        case "54000":
            return BadInputError(f"{shown} cannot take something so large ({error}); send it as an attachment")
        case _ if is_lost(error):
            return StoreUnreachableError(
                f"{shown} does not answer ({type(error).__name__}: {error}); nothing was stored: "
                "see that the server runs and can be reached, work goes on when it does"
            )
        case _:
            return StoreIoError(f"{shown} fails ({code or type(error).__name__}: {error}); look at the server's log")
