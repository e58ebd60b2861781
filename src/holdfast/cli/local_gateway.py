"""The gateway of one `holdfast run`: a child process on a free port, restarted at the same address when it dies.

It has a process group of its own, so that Ctrl-C at the terminal reaches only the agent, and it dies with this process:
see `holdfast.cli.parent_watch`. A gateway that already runs is joined instead.
"""

import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.errors import OperatorError

# A start takes a second, and took twelve on a busy machine.
_START_SECONDS_MAX = 60.0
# Running turns get five seconds to end.
_STOP_SECONDS_MAX = 10.0
_JOIN_SECONDS_MAX = 1.0
# A gateway that dies more often than this within a minute has a reason that a restart does not cure.
RESTARTS_MAX = 5
_RESTARTS_SECONDS = 60.0


def free_port() -> int:
    """Return an unused local port. The kernel assigns ports at random, so another process hardly takes it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def is_open_gateway(url: str) -> bool:
    """Return whether a Holdfast gateway without keys answers at this address."""
    try:
        with urllib.request.urlopen(f"{url}/api/sessions?limit=1", timeout=_JOIN_SECONDS_MAX) as answer:  # noqa: S310 - http
            return answer.status == 200 and b'"sessions"' in answer.read(100_000)  # noqa: PLR2004 - HTTP's own number
    except (urllib.error.URLError, OSError, ValueError):
        return False


class LocalGateway:
    """A gateway process. `arguments` follow `serve`; `log` gets its output."""

    def __init__(self, arguments: Sequence[str], log: Path, environ: Mapping[str, str]) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.restarts = 0
        self._arguments, self._log, self._environ = arguments, log, environ
        self._stdin, self._write_end = os.pipe()
        self._starts: list[float] = []
        self._is_stopping = threading.Event()
        self._program = self._start()
        self._watch = threading.Thread(target=self._restart_while_needed, name="gateway watch", daemon=True)
        self._watch.start()

    @property
    def pid(self) -> int:
        """Process id of the gateway that runs now."""
        return self._program.pid

    def stop(self) -> None:
        """Stop it, and wait for its end."""
        self._is_stopping.set()
        self._program.terminate()
        try:
            self._program.wait(_STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._program.kill()
            self._program.wait()
        self._watch.join()
        os.close(self._stdin)
        os.close(self._write_end)

    def _start(self) -> subprocess.Popen[bytes]:
        self._starts.append(time.monotonic())
        with self._log.open("ab") as log:
            # The address is the first line that it prints, and the last that is read: the rest would fill the pipe.
            program = subprocess.Popen(  # noqa: S603 - our own program
                [
                    sys.executable,
                    "-m",
                    "holdfast.cli.parent_watch",
                    "serve",
                    "--port",
                    str(self.port),
                    *self._arguments,
                ],
                stdin=self._stdin,
                stdout=log,
                stderr=log,
                env=dict(self._environ),
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_SECONDS_MAX
        while not is_open_gateway(self.url):
            if program.poll() is not None or time.monotonic() > deadline:
                program.kill()
                program.wait()
                raise OperatorError(f"the gateway did not start: {self._last_line()}")
            self._is_stopping.wait(0.05)
        return program

    def _last_line(self) -> str:
        lines = self._log.read_text("utf-8", errors="replace").splitlines()
        return lines[-1] if lines else "it printed nothing"

    def _restart_while_needed(self) -> None:
        while True:
            self._program.wait()
            if self._is_stopping.is_set() or self._dies_too_often():
                return
            try:
                self._program = self._start()
            except OperatorError:
                return
            self.restarts += 1
            if self._is_stopping.is_set():
                self._program.kill()

    def _dies_too_often(self) -> bool:
        since = time.monotonic() - _RESTARTS_SECONDS
        return sum(start > since for start in self._starts) > RESTARTS_MAX
