"""The program itself, as a process of its own: in a pipe, or on a terminal."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

# Longer than anything here takes on a busy machine; whoever waits so long has found a bug.
DEADLINE_SECONDS = 60.0
# The size of a terminal, as most people have it or larger.
ROWS, COLUMNS = 30, 100
PROGRAM = (sys.executable, "-m", "holdfast")
# What a developer's own shell may have set and a test must not depend on.
_SETTINGS = ("HOLDFAST_", "OPENAI_", "ANTHROPIC_", "NO_COLOR", "XDG_DATA_HOME")


def environment(**settings: str) -> dict[str, str]:
    """Return the environment of a machine on which nothing is set but this."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)}
    return {**inherited, "TERM": "dumb", **settings}


def holdfast(
    *arguments: str | bytes | Path, stdin: bytes = b"", settings: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run the program to its end."""
    return subprocess.run(
        [*PROGRAM, *arguments],
        input=stdin,
        capture_output=True,
        env=environment(**(settings or {})),
        timeout=DEADLINE_SECONDS,
        check=False,
    )


class Terminal:
    """The program on a terminal of its own."""

    def __init__(self, program: subprocess.Popen[bytes], screen: int) -> None:
        self.program = program
        self._screen = screen
        self.shown = ""
        self._told = 0

    def until(self, text: str) -> str:
        """Return what was shown since the last wait, as soon as this text is part of it."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while text not in self.shown[self._told :]:
            if not self._read(deadline):
                raise AssertionError(f"{text!r} never came; shown was: {self.shown!r}")
        found = self.shown[self._told :]
        self._told = self.shown.index(text, self._told) + len(text)
        return found

    def end(self) -> int:
        """Return the exit code when the program has ended."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while self._read(deadline):
            pass
        return self.program.wait(DEADLINE_SECONDS)

    def write(self, text: str) -> None:
        """Press keys."""
        os.write(self._screen, text.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.program.send_signal(signal.SIGINT)

    def leave(self) -> int:
        """Press Ctrl-C as a person does who wants to leave: again, if nothing happens. Return the exit code.

        Between showing its prompt and waiting for keys, Python's line editor does not notice a signal.
        """
        for _ in range(int(DEADLINE_SECONDS)):
            self.interrupt()
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self.program.wait(1)
        raise AssertionError(f"it did not end; shown was: {self.shown!r}")

    def _read(self, deadline: float) -> bool:
        """Read a piece of what is shown; False at the end of the program, or of our patience."""
        ready, _, _ = select.select([self._screen], [], [], max(deadline - time.monotonic(), 0))
        if not ready:
            return False
        try:
            piece = os.read(self._screen, 65_536)
        except OSError:
            # Linux says so when the last program on a terminal has gone.
            return False
        self.shown += piece.decode(errors="replace").replace("\r\n", "\n")
        return bool(piece)


@contextmanager
def bounded(program: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Let a program run for as long as anyone has patience; at the end it is gone, whatever happened."""
    patience = threading.Timer(DEADLINE_SECONDS, program.kill)
    patience.start()
    with program:
        try:
            yield program
        finally:
            patience.cancel()
            program.kill()


@contextmanager
def terminal(*arguments: str | Path, settings: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    """Run the program on a terminal; at the end it is gone, whatever happened."""
    screen, keyboard = pty.openpty()
    fcntl.ioctl(keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    program = subprocess.Popen(
        [*PROGRAM, *arguments],
        stdin=keyboard,
        stdout=keyboard,
        stderr=keyboard,
        env=environment(**(settings or {})),
        start_new_session=True,
        # Its controlling terminal, so that Ctrl-C is a signal wherever the program does not read it as a key.
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - it takes no lock
    )
    os.close(keyboard)
    try:
        yield Terminal(program, screen)
    finally:
        with contextlib.suppress(ProcessLookupError):
            program.kill()
        program.wait()
        os.close(screen)
