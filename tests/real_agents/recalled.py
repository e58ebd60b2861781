"""Real agents after a rescue: the gateway's own tool `recall` in the requests that reach the provider.

`python -m tests.real_agents.recalled [claude codex] [--show]`. The agent learns 630 facts, in more text than its window
holds, and is asked for one that no summary has. The provider's requests are recorded: whether they offer `recall`,
whether they carry the fact, and which keys pay for them, summaries included. The agent's own session file must have no
call of it. `--show` prints the end of the last request.
"""

import hashlib
import http.server
import json
import shutil
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.real_agents.breakage import session_of
from tests.real_agents.desk import Desk, gateway, provider, version

_FACTS_PER_PAGE, _PAGES, _ASKED = 90, 7, 133
_PROSE = "The tide table lists high and low water for every day of the year, and the harbour master signs it. " * 5


def fact(number: int) -> tuple[str, str]:
    """Return the name and the value of a fact, neither of which resembles another."""
    digest = hashlib.sha256(str(number).encode()).hexdigest()
    return digest[:10].translate(str.maketrans("0123456789", "ghijklmnop")), digest[10:16]


class Call(NamedTuple):
    """A request and its answer."""

    path: str
    key: str
    body: bytes
    answer: bytes


@contextmanager
def recorded(upstream: str) -> Iterator[tuple[str, list[Call]]]:
    """Serve an address in front of a provider or a gateway, and yield it with all calls so far."""
    calls: list[Call] = []

    class Forward(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            key = self.headers["x-api-key"] or self.headers["authorization"].removeprefix("Bearer ")
            kept = {name: value for name, value in self.headers.items() if name.lower() not in {"host", "connection"}}
            try:
                answer = urllib.request.urlopen(urllib.request.Request(upstream + self.path, body, kept))
            except urllib.error.HTTPError as error:
                answer = error
            with answer:
                told = answer.read()
            calls.append(Call(self.path, key, body, told))
            self.send_response(answer.status)
            self.send_header("content-type", answer.headers["content-type"])
            self.send_header("content-length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, *_arguments: object) -> None:
            """Print nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Forward)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", calls
    finally:
        server.shutdown()
        server.server_close()


def has_recall(body: bytes) -> bool:
    """Return whether a request offers the tool."""
    tools = json.loads(body).get("tools") or []
    return any((tool.get("function") or tool).get("name") == "recall" for tool in tools)


def asked(name: str) -> str:
    """Grow a session of an agent, ask for a fact that left the view, and return a row of the table."""
    name_asked, value = fact(_ASKED)
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-agents-") as folder,
        provider() as base,
        recorded(base) as (address, calls),
    ):
        desk = Desk(name, Path(folder) / "home", base)
        desk.home.mkdir()
        with gateway(address, desk.home / "store.db") as proxy:
            desk.prepare(proxy)
            for page in range(_PAGES):
                numbers = range(page * _FACTS_PER_PAGE, (page + 1) * _FACTS_PER_PAGE)
                learned = "\n\n".join(f"remember {' = '.join(fact(one))}. {_PROSE}" for one in numbers)
                desk.say(learned, is_first=page == 0)
            before = len(calls)
            told = desk.say(f"what is {name_asked}?")
        bodies, keys = [one.body for one in calls], {one.key for one in calls}
        if "--show" in sys.argv:
            said = json.loads(bodies[-1])
            sys.stdout.write(json.dumps((said.get("input") or said.get("messages"))[-3:])[-4_000:] + "\n")
        is_known = f"{name_asked} = {value}" in told
        new = bodies[before:]
        offered = sum(map(has_recall, new))
        answered = sum(value.encode() in body for body in new)
        file = session_of(name, desk.home, str(desk.work)).path.read_bytes()
        hidden = b'"name":"recall"' not in file
        facts = f"{'known' if is_known else 'unknown'} | {len(new)} | {offered} | {answered}"
        paid = f"{len(bodies)} with {', '.join(sorted(keys))}"
        return f"| {name} {version(name)} | {facts} | {'no call of it' if hidden else 'a call of it'} | {paid} |"


def main(names: list[str]) -> int:
    """Print the table."""
    head = (
        "| agent | the fact is | requests | that offer `recall` | with the fact | the agent's file has | all requests |"
    )
    sys.stdout.write(f"{head}\n|---|---|---|---|---|---|---|\n")
    for name in [name for name in names if name != "--show"] or ["claude", "codex"]:
        if shutil.which(name):
            sys.stdout.write(asked(name) + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
