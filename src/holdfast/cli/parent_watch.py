"""Run a command that ends when its parent process ends: `python -m holdfast.cli.parent_watch serve`.

Its standard input is a pipe that nobody writes to. The system closes the other end when its holder is gone, however
that came about; a thread that sleeps in a read is woken by it.
"""

import os
import signal
import sys
import threading

from holdfast.cli import main


def end_with_holder(tie: int) -> None:
    """Kill this process as soon as the other end of a pipe is closed."""
    while os.read(tie, 1):
        pass
    # Nobody is left to be told anything, and the next start recovers.
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=end_with_holder, args=(sys.stdin.fileno(),), name="tie", daemon=True).start()
    main()
