"""Translation of PostgreSQL errors into errors of ours, with the action to take.

The codes are from https://www.postgresql.org/docs/current/errcodes-appendix.html. No message quotes the address as
given, because it may hold a password.
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

# All exceptions of asyncpg for a failing server or connection. A timeout is an OSError. A connection whose server goes
# down while it connects raises an internal error: "another operation is in progress".
SERVER_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)

# The server shuts down or starts: admin shutdown, crash shutdown, cannot connect now, idle session or dropped database.
_GOING_DOWN = frozenset({"57P01", "57P02", "57P03", "57P05"})
# Rolled back and retryable: deadlock, serialization failure.
_RETRYABLE = frozenset({"40P01", "40001"})
# Raised by `holdfast.write` for a batch that `holdfast.settle` has declared void.
VOID = "HF001"


def sqlstate(error: BaseException) -> str:
    """Return the SQLSTATE of an error; "" if it is not from the server."""
    return (error.sqlstate or "") if isinstance(error, asyncpg.PostgresError) else ""


def is_connection_lost(error: BaseException) -> bool:
    """Return whether the connection was lost, so that the result of the running statement is unknown."""
    code = sqlstate(error)
    # 08: connection exceptions. Errors of asyncpg itself concern closed, busy or unsynchronised connections.
    is_ours = isinstance(error, asyncpg.InterfaceError | asyncpg.InternalClientError | OSError)
    return is_ours or code in _GOING_DOWN or code.startswith("08")


def is_retryable(error: BaseException) -> bool:
    """Return whether the server rolled back and a retry may succeed."""
    return sqlstate(error) in _RETRYABLE


def translate_error(shown: str, error: BaseException) -> HoldfastError:
    """Return the error of ours for an error of the server."""
    code = sqlstate(error)
    match code:
        case "28P01" | "28000":
            return StoreAccessError(
                f"{shown} denies access (wrong user or password); check the URL, PGPASSWORD or ~/.pgpass, "
                "and the server's pg_hba.conf"
            )
        case "42501":
            return StoreAccessError(
                f"{shown} denies permission ({error}); grant the user CREATE on the database, "
                "or all rights on the schema holdfast"
            )
        case "3D000":
            return StorePathError(f"the database {shown} does not exist; create it, as with `createdb`, and retry")
        case "53100":
            return StoreFullError(f"no space is left for {shown}; nothing was stored: free some space and retry")
        case "25006":
            return StoreReadOnlyError(
                f"{shown} is read-only, as a standby server; nothing was stored: use the primary server"
            )
        case "53300":
            return StoreBusyError(
                f"{shown} has no connection left; nothing was stored: retry, or raise max_connections there"
            )
        case "53200" | "53000" | "53400":
            return StoreBusyError(f"{shown} is out of resources ({error}); nothing was stored: retry later")
        case "57014" | "55P03" | "40P01" | "40001":
            return StoreBusyError(
                f"{shown} was too busy to answer in time ({error}); nothing was stored: retry, and look in "
                "pg_stat_activity for blocking queries"
            )
        case "54000":
            return BadInputError(f"{shown} rejects a value of this size ({error}); send it as an attachment")
        case _ if is_connection_lost(error):
            return StoreUnreachableError(
                f"{shown} does not answer ({type(error).__name__}: {error}); nothing was stored: "
                "check that the server runs and is reachable; work resumes when it does"
            )
        case _:
            return StoreIoError(f"{shown} fails ({code or type(error).__name__}: {error}); look at the server's log")
