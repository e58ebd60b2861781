"""Watch a session over HTTP and reconnect without missing a record. Needs `holdfast serve` in another terminal.

It uses only the standard library; HOLDFAST_URL names another gateway. It prints:

    1 InputAdmitted
    2 TurnStarted
    (connection lost; reconnecting after record 2)
    3 AttemptStarted
    4 ReplyRecorded
    5 TurnEnded
"""

import json
import os
import urllib.request
from collections.abc import Iterator

URL = os.environ.get("HOLDFAST_URL", "http://127.0.0.1:8712") + "/api/sessions/watched"


def send(text: str) -> None:
    """Post a message without waiting for its answer."""
    body = json.dumps({"text": text, "mode": "post", "client_id": "example-1"}).encode()
    request = urllib.request.Request(  # noqa: S310 - our own gateway
        f"{URL}/messages", body, {"content-type": "application/json"}
    )
    urllib.request.urlopen(request).close()  # noqa: S310 - our own gateway


def records(cursor: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield each record with the cursor after it, from a cursor on; without one, from the beginning."""
    address = f"{URL}/events?after=0" if not cursor else f"{URL}/events?cursor={cursor}"
    with urllib.request.urlopen(address) as stream:  # noqa: S310 - our own gateway
        event = position = ""
        for line in stream:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "event":
                event = value
            elif name == "id":
                position = value
            elif name == "data" and event == "record":
                yield position, json.loads(value)


def main() -> None:
    """Watch until the turn has ended, with one interruption."""
    send("hello")
    cursor = ""
    for lost_at in (2, None):
        for position, logged in records(cursor):
            cursor = position
            record = logged["record"]
            assert isinstance(record, dict)
            print(logged["seq"], record["type"])
            if logged["seq"] == lost_at:
                print(f"(connection lost; reconnecting after record {lost_at})")
                break
            if record["type"] == "TurnEnded":
                return


main()
