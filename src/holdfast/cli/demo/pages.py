"""The gateway's page while a demo runs: opened in a browser where there is one, and kept until somebody has seen it."""

import asyncio
import os
import sys
import webbrowser
from contextlib import suppress

# Without one of these, Python's module would open a browser of text in this very terminal.
_DESKTOP_VARIABLES = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
_DESKTOP_PLATFORMS = ("darwin", "win32")


async def open_page(url: str) -> bool:
    """Open an address in a browser, and return whether there was one."""
    if sys.platform not in _DESKTOP_PLATFORMS and not any(os.environ.get(name) for name in _DESKTOP_VARIABLES):
        return False
    with suppress(webbrowser.Error):
        return await asyncio.to_thread(webbrowser.open, url)
    return False


async def until_enter() -> None:
    """Wait for Enter or Ctrl-C. Where there is no keyboard nobody is waited for."""
    pressed = asyncio.Event()
    loop = asyncio.get_running_loop()
    try:
        loop.add_reader(sys.stdin, pressed.set)
    except (OSError, ValueError):
        # What cannot be waited for: a file, or nothing at all.
        return
    try:
        await pressed.wait()
    except asyncio.CancelledError:
        # Ctrl-C is an answer here, not an accident.
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
    finally:
        loop.remove_reader(sys.stdin)
