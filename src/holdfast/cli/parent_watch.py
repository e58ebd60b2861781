"""Run a command that dies with its parent process: `python -m holdfast.cli.parent_watch serve`.

Standard input is a pipe that the parent holds open. The kernel closes it when the parent ends, for whatever reason,
which wakes a thread that blocks in a read.
"""

import os
import signal
import sys
import threading

from holdfast.cli import main


def die_with_parent(pipe: int) -> None:
    """Kill this process when the other end of the pipe closes."""
    while os.read(pipe, 1):
        pass
    # No cleanup is needed: the next start recovers.
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=die_with_parent, args=(sys.stdin.fileno(),), name="parent-watch", daemon=True).start()
    main()
