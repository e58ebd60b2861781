"""Messages to the service manager: systemd waits for READY=1 before it starts what depends on the gateway."""

import os
import socket
from contextlib import suppress

_VARIABLE = "NOTIFY_SOCKET"


def notify(message: str) -> None:
    """Send a message to the service manager, if there is one."""
    address = os.environ.get(_VARIABLE, "")
    if not address:
        return
    # An abstract socket begins with a null byte, which systemd writes as "@".
    place = f"\0{address[1:]}" if address.startswith("@") else address
    # A manager that is gone is no reason to stop serving.
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.sendto(message.encode(), place)
