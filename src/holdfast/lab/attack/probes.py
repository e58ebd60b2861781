"""Probes of a gateway from outside: each sends hostile requests and returns what did not hold.

A probe counts its attempts. A finding is a sentence; no finding means that the gateway held.
"""

import asyncio
import gzip
import itertools
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from holdfast.gateway.api.routes import ROUTES
from holdfast.lab.attack.growth import growth
from holdfast.lab.attack.page import hostile_page
from holdfast.lab.attack.storage import clock_jumps, damaged_files, failing_disk
from holdfast.lab.attack.target import OPERATOR_KEY, Outcome, Target

_CHAT = "/v1/chat/completions"
_MODEL_PATHS = (_CHAT, "/v1/responses", "/v1/messages")
_BAD_REQUEST, _SERVER_ERROR = 400, 500
# Health checks while a large request is parsed: one of them must be answered in between.
_LOOKS = 5


ProbeFunction: TypeAlias = Callable[[Target], Awaitable[Outcome]]


@dataclass(frozen=True)
class Probe:
    """A probe by name. `needs_own`: it looks into the gateway's process, log or provider."""

    name: str
    about: str
    run: ProbeFunction
    needs_own: bool = False


# --- The protocol ---


def _request(head: str, body: bytes = b"", key: str = "") -> bytes:
    authorization = f"authorization: Bearer {key}\r\n" if key else ""
    return f"{head}\r\nhost: 127.0.0.1\r\n{authorization}\r\n".encode("latin-1") + body


_SMUGGLED = b"GET /api/smuggled HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


def _malformed(path: str) -> dict[str, bytes]:
    """Requests whose end two parsers could see at different places, or that no parser should accept."""
    post = f"POST {path} HTTP/1.1\r\ncontent-type: application/json"
    length = len(_SMUGGLED)
    return {
        "both lengths": _request(
            f"{post}\r\ncontent-length: 5\r\ntransfer-encoding: chunked", b"0\r\n\r\n" + _SMUGGLED
        ),
        "two lengths": _request(f"{post}\r\ncontent-length: 2\r\ncontent-length: {2 + length}", b"{}" + _SMUGGLED),
        "a list of lengths": _request(f"{post}\r\ncontent-length: 2, 3", b"{}" + _SMUGGLED),
        "a negative length": _request(f"{post}\r\ncontent-length: -1", b"{}" + _SMUGGLED),
        "a signed length": _request(f"{post}\r\ncontent-length: +2", b"{}" + _SMUGGLED),
        "a chunk size that is no number": _request(f"{post}\r\ntransfer-encoding: chunked", b"zz\r\n{}\r\n0\r\n\r\n"),
        "an endless chunk size": _request(f"{post}\r\ntransfer-encoding: chunked", b"f" * 40 + b"\r\n{}"),
        "an unknown coding": _request(f"{post}\r\ntransfer-encoding: xchunked", b"0\r\n\r\n" + _SMUGGLED),
        "a coding before chunked": _request(f"{post}\r\ntransfer-encoding: identity, chunked\r\n x: y", b"0\r\n\r\n"),
        "a folded header": _request(f"{post}\r\nx-folded: a\r\n b\r\ncontent-length: 2", b"{}"),
        "a space before the colon": _request(f"{post}\r\ncontent-length : {length}", _SMUGGLED),
        "a zero byte": _request(f"{post}\r\nx-zero: a\x00b\r\ncontent-length: 2", b"{}"),
        "no version": _request(f"POST {path}"),
        "a version of the future": _request(f"POST {path} HTTP/9.9\r\ncontent-length: 2", b"{}"),
        "noise": bytes(range(256)) * 8,
    }


async def smuggling(target: Target) -> Outcome:
    """Malformed and ambiguous requests: refused, and nothing behind them is taken for a request."""
    outcome = Outcome()
    sent = [
        (f"{path}, {name}", request)
        for path in ("/api/sessions/attack/messages", _CHAT)
        for name, request in _malformed(path).items()
    ]
    # At once: a connection that is kept open is read until a pause.
    received = await asyncio.gather(*(target.raw(request, seconds_max=4.0) for _, request in sent))
    for (name, _), response in zip(sent, received, strict=True):
        statuses = [int(line[9:12]) for line in response.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
        is_refused = all(_BAD_REQUEST <= status < _SERVER_ERROR for status in statuses)
        outcome.expect(is_refused and len(statuses) <= 1, f"{name}: answered with {statuses}")
    outcome.expect(await target.is_serving(), "the gateway no longer answers")
    return outcome


async def header_floods(target: Target) -> Outcome:
    """Headers without end, by number and by size: refused within the limit."""
    outcome = Outcome()
    floods = {
        "many": b"".join(b"x-%d: y\r\n" % number for number in range(20_000)),
        "one that is long": b"x-long: " + b"y" * 2**20 + b"\r\n",
        "a long path": b"",
    }
    for name, headers in floods.items():
        path = b"/" + b"a" * 2**20 if name == "a long path" else b"/healthz"
        received = await target.raw(b"GET " + path + b" HTTP/1.1\r\nhost: 127.0.0.1\r\n" + headers + b"\r\n")
        outcome.expect(not received.startswith(b"HTTP/1.1 200"), f"{name}: accepted")
    outcome.expect(await target.is_serving(), "the gateway no longer answers")
    return outcome


async def slow_clients(target: Target) -> Outcome:
    """Clients that send a byte and wait, a hundred at once: disconnected in time, and others are served meanwhile."""
    outcome = Outcome()
    authorized = f"POST {_CHAT} HTTP/1.1\r\ncontent-length: 1000"
    begun = (b"GET / HT", _request(authorized, b"{", target.key))
    waiting = [asyncio.ensure_future(target.raw(begun[number % 2], seconds_max=20.0)) for number in range(100)]
    try:
        for _ in range(_LOOKS):
            outcome.expect(await target.is_serving(), "another client was not served")
        _, pending = await asyncio.wait(waiting, timeout=15.0)
        outcome.expect(not pending, f"{len(pending)} slow clients were never disconnected")
    finally:
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)
    return outcome


async def slow_readers(target: Target) -> Outcome:
    """Event streams that nobody reads, while a long answer is written: it costs about what it costs without them."""
    outcome = Outcome()
    session, streams = "/api/sessions/watched", 200
    await target.ask("PUT", session, b"{}")
    long_answer = json.dumps({"text": "write 4,000 words", "mode": "wait"}).encode()
    await target.ask("POST", f"{session}/messages", long_answer)
    alone = await target.cost(target.ask("POST", f"{session}/messages", long_answer))
    head = f"GET {session}/events HTTP/1.1"
    watching = [asyncio.ensure_future(_unread(target, _request(head, key=target.key))) for _ in range(streams)]
    writers = await asyncio.gather(*watching)
    try:
        watched = await target.cost(target.ask("POST", f"{session}/messages", long_answer))
    finally:
        for writer in writers:
            writer.transport.abort()
    # Each stream takes the records, and a few joined deltas.
    outcome.expect(watched <= alone + 1.0, f"{watched:.2f} s with {streams} streams, {alone:.2f} s without")
    return outcome


async def _unread(target: Target, request: bytes) -> asyncio.StreamWriter:
    reader, writer = await asyncio.open_connection(*target.address, limit=1_024)
    writer.write(request)
    await reader.readuntil(b"event: watching")
    return writer


# --- Bodies ---


def _bodies() -> dict[str, bytes]:
    deep = b"[" * 100_000 + b"]" * 100_000
    return {
        "bytes that are no text": b'{"text": "\xff\xfe", "messages": "\xff"}',
        "deep nesting": deep,
        "a deep field": b'{"text": ' + deep + b"}",
        "a number without end": b'{"text": ' + b"9" * 100_000 + b"}",
        "a lone surrogate": b'{"text": "\\ud800", "model": "\\udfff"}',
        "keys that repeat": b'{"text": "a", "text": "b"}' + b" " * 1_000,
        "not a number": b'{"text": NaN, "seq": Infinity}',
        "nothing": b"",
        "zeros": b"\x00" * 1_000,
    }


async def hostile_bodies(target: Target) -> Outcome:
    """Bodies that are no JSON, or break parsers, on every address: never a 5xx or a lost connection."""
    outcome = Outcome()
    paths = {
        (route.method, f"/api{route.path}".replace("{key}", "attack").replace("{turn}", "1").replace("{seq}", "1"))
        for route in ROUTES
        if route.method in ("POST", "PUT")
    }
    requests = sorted(paths | {("POST", path) for path in _MODEL_PATHS})
    for method, path in requests:
        for name, body in _bodies().items():
            answer = await target.ask(method, path, body)
            # The provider answers what it is sent; the native API refuses by itself.
            is_held = 0 < answer.status < _SERVER_ERROR
            outcome.expect(is_held, f"{method} {path}, {name}: status {answer.status}")
    outcome.expect(await target.is_serving(), "the gateway no longer answers")
    return outcome


async def bombs(target: Target) -> Outcome:
    """Bodies that are small on the wire: others are served meanwhile, and memory stays bounded."""
    outcome = Outcome()
    tiny = b'{"role":"user","content":"a"},' * 1_900_000
    many = gzip.compress(b'{"model":"m","messages":[' + tiny.removesuffix(b",") + b"]}")
    zeros = gzip.compress(b'{"model":"' + b"a" * 2**28)
    before = target.resident_mb()
    for name, body in {"1,900,000 messages": many, "256 MiB of one letter": zeros}.items():
        headers = {"content-encoding": "gzip"}
        attack = asyncio.ensure_future(target.ask("POST", _CHAT, body, headers=headers))
        for _ in range(_LOOKS):
            outcome.expect(await target.is_serving(), f"{name}: another client was not served meanwhile")
        answer = await attack
        outcome.expect(0 < answer.status < _SERVER_ERROR, f"{name}: status {answer.status}")
    grown = target.resident_mb() - before
    # A body of 64 MiB in three forms; the allocator keeps some of it.
    outcome.expect(grown < 600, f"memory grew by {grown:.0f} MB")  # noqa: PLR2004 - see above
    return outcome


# --- Reach ---


async def other_tenants(target: Target) -> Outcome:
    """Every native address as another key: nothing of the first key's session is read or changed."""
    outcome = Outcome()
    secret = "the-secret-of-alice"
    await target.ask("POST", "/api/sessions/private/messages", json.dumps({"text": secret, "mode": "wait"}).encode())
    before = (await target.ask("GET", "/api/sessions/private/records")).body
    for route in ROUTES:
        if "{key}" not in route.path or route.path.endswith("/events"):
            continue
        path = f"/api{route.path}"
        for name, value in (("{key}", "private"), ("{turn}", "1"), ("{seq}", "1"), ("{sha256}", "0" * 64)):
            path = path.replace(name, value)
        answer = await target.ask(route.method, path, b"{}", key=target.other_key)
        outcome.expect(secret.encode() not in answer.body, f"{route.method} {path}: shows the other key's text")
    for path in ("/api/sessions", f"/api/search?query={secret}"):
        answer = await target.ask("GET", path, key=target.other_key)
        outcome.expect(b'"private"' not in answer.body, f"GET {path}: lists the other key's session")
    after = (await target.ask("GET", "/api/sessions/private/records")).body
    outcome.expect(before == after, "the other key changed the session")
    return outcome


_TRAVERSALS = (
    "/v1/../admin",
    "/v1/../../team-b/keys",
    "/v1/%2e%2e/admin",
    "/v1/%2E%2E%2Fadmin",
    "/v1/.%2e/admin",
    "/v1/..%2fadmin",
    "/v1/..;/admin",
    "/v1//../admin",
    "/v1/..\\admin",
    "/v1/%2e%2e%5cadmin",
    "/v1/chat/completions/../../../admin",
    "/v1/files%20HTTP/1.1",
    "/v1/models%0d%0ax-injected:%20yes",
    "/v1/models%3Fkey=1%23",
)
_ACCOUNT = (
    ("GET", "/v1/files"),
    ("DELETE", "/v1/files/x"),
    ("POST", "/v1/files"),
    ("GET", "/v1/batches"),
    ("POST", "/v1/batches"),
    ("GET", "/v1/responses/resp_of_another"),
    ("DELETE", "/v1/responses/resp_of_another"),
    ("GET", "/v1/responses/resp_of_another/input_items"),
    ("POST", "/v1/fine_tuning/jobs"),
    ("GET", "/v1/organization/users"),
    ("GET", "/v1/assistants"),
    ("GET", "/v1/messages/batches"),
    ("PUT", _CHAT),
    ("OPTIONS", "/v1/files"),
)


async def operator_account(target: Target) -> Outcome:
    """Paths of the provider's account, other paths of its host, and answers of others: not with the operator's key."""
    outcome = Outcome()
    provider = target.provider
    assert provider is not None
    before = len(provider.requests)
    for method, path in _ACCOUNT:
        answer = await target.ask(method, path, b"{}" if method in ("POST", "PUT") else b"")
        outcome.expect(_BAD_REQUEST <= answer.status < _SERVER_ERROR, f"{method} {path}: status {answer.status}")
    for path in _TRAVERSALS:
        received = await target.raw(_request(f"GET {path} HTTP/1.1\r\nconnection: close", key=target.key))
        outcome.expect(not received.startswith(b"HTTP/1.1 2"), f"GET {path}: {received[:40]!r}")
    for name in ("previous_response_id", "conversation"):
        body = json.dumps({"model": "m", "input": "go on", name: "resp_of_another"}).encode()
        answer = await target.ask("POST", "/v1/responses", body)
        outcome.expect(answer.status == 404, f"{name} of another: status {answer.status}")  # noqa: PLR2004 - a status
    leaked = provider.requests[before:]
    outcome.expect(not leaked, f"reached the provider with the operator's key: {leaked[:3]}")
    return outcome


async def other_origins(target: Target) -> Outcome:
    """A gateway without keys, and pages of other origins or hosts that only look local: refused."""
    outcome = Outcome()
    target = replace(target, url=target.open_url, key="")
    text = json.dumps({"text": "planted", "mode": "post"}).encode()
    answer = await target.ask("POST", "/api/sessions/ours/messages", text)
    outcome.expect(answer.status < _BAD_REQUEST, f"its own page is refused: {answer.status}")
    origins = ("http://127.0.0.1:1", "http://localhost:3000", "https://evil.example", "null", "http://[::1].evil.com")
    for path, body in (("/api/sessions/planted/messages", text), (_CHAT, b'{"model":"m","messages":[]}')):
        for origin in origins:
            answer = await target.ask("POST", path, body, headers={"origin": origin})
            outcome.expect(_BAD_REQUEST <= answer.status < _SERVER_ERROR, f"{path} from {origin}: {answer.status}")
        answer = await target.ask("POST", path, body, headers={"content-type": "text/plain"})
        outcome.expect(_BAD_REQUEST <= answer.status < _SERVER_ERROR, f"{path} as text/plain: {answer.status}")
        answer = await target.ask("POST", path, body, headers={"sec-fetch-site": "cross-site"})
        outcome.expect(_BAD_REQUEST <= answer.status < _SERVER_ERROR, f"{path} from another site: {answer.status}")
    for host in ("evil.example", "[::1].evil.com", "localhost:80@evil.com", "127.0.0.1.evil.com"):
        sent = f"GET /api/sessions HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode()
        received = await target.raw(sent)
        outcome.expect(not received.startswith(b"HTTP/1.1 2"), f"host {host}: {received[:40]!r}")
    return outcome


async def secrets_kept(target: Target) -> Outcome:
    """Keys are in no log, store, error, trace or export; the provider gets the operator's key and no other."""
    outcome = Outcome()
    assert target.folder is not None
    assert target.provider is not None
    sent = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).encode()
    answers = [await target.ask("POST", path, sent) for path in _MODEL_PATHS]
    answers += [await target.ask("GET", path) for path in ("/api/sessions/private/export", "/metrics", "/api/health")]
    shown = b"".join(answer.body + repr(answer.headers).encode() for answer in answers)
    files = {path: path.read_bytes() for path in target.folder.rglob("*") if path.is_file()}
    for name, key in (("operator's", OPERATOR_KEY), ("first", target.key), ("second", target.other_key)):
        outcome.expect(key.encode() not in shown, f"a response shows the {name} key")
        holding = [path.name for path, content in files.items() if key.encode() in content]
        outcome.expect(not holding, f"the {name} key is in {', '.join(holding)}")
    foreign = target.provider.keys - {OPERATOR_KEY, ""}
    outcome.expect(not foreign, "a gateway key was sent to the provider")
    outcome.expect(b"set-cookie" not in shown.lower(), "a cookie of the provider reached the client")
    return outcome


# --- Over time ---


def memory_over(turns: int, sessions: int) -> ProbeFunction:
    """Return the probe of memory over many turns and sessions."""

    async def memory(target: Target) -> Outcome:
        """Memory over many turns and sessions: caches fill up, and then it stays."""
        outcome = Outcome()
        sizes: list[float] = []
        quarter = max(turns // 4, 1)
        first = target.resident_mb()
        for number in range(turns):
            session = f"m{number % sessions}"
            body = json.dumps({"text": f"remember item {number} = {number * 7}", "mode": "wait"}).encode()
            answer = await target.ask("POST", f"/api/sessions/{session}/messages", body)
            outcome.expect(answer.status == 200, f"turn {number}: status {answer.status}")  # noqa: PLR2004 - a status
            if (number + 1) % quarter == 0:
                sizes.append(target.resident_mb())
        # The first half fills caches of sessions, models and pages; a leak goes on at the same rate.
        grown = [later - earlier for earlier, later in itertools.pairwise(sizes)]
        per_thousand = grown[-1] * 1_000 / quarter if grown else 0.0
        told = ", ".join(f"{size:.1f}" for size in sizes)
        outcome.measured = f"{told} MB after each quarter, {first:.1f} MB at first"
        outcome.expect(per_thousand < 5, f"{per_thousand:.1f} MB per 1,000 turns at the end ({told} MB)")  # noqa: PLR2004
        return outcome

    return memory


def probes(*, is_long: bool) -> Sequence[Probe]:
    """Return all probes, in the order in which they run."""
    turns, sessions, places = (20_000, 2_000, 8) if is_long else (400, 100, 1)
    return (
        Probe("smuggling", "malformed and ambiguous requests", smuggling),
        Probe("header floods", "headers and paths without end", header_floods),
        Probe("slow clients", "a byte, and then nothing", slow_clients, needs_own=True),
        Probe("slow readers", "200 event streams that nobody reads", slow_readers, needs_own=True),
        Probe("hostile bodies", "broken and deep JSON on every address", hostile_bodies),
        Probe("bombs", "small bodies that unpack to large ones", bombs, needs_own=True),
        Probe("growth", "eight times the work for every parser", growth, needs_own=True),
        Probe("other tenants", "every address with another key", other_tenants, needs_own=True),
        Probe("operator's account", "provider paths beyond model calls", operator_account, needs_own=True),
        Probe("other origins", "pages of other origins and false hosts", other_origins, needs_own=True),
        Probe("secrets", "keys in logs, stores, errors and exports", secrets_kept, needs_own=True),
        Probe("page", "hostile text, files and names in Chromium", hostile_page, needs_own=True),
        Probe("failing disk", "EIO and a read-only remount while it serves", failing_disk, needs_own=True),
        Probe("damaged files", "truncated WAL, flipped bits, overwritten pages", damaged_files(places), needs_own=True),
        Probe("clock jumps", "hours, days and years, in both directions", clock_jumps, needs_own=True),
        Probe("memory", f"{turns:,} turns in {sessions:,} sessions", memory_over(turns, sessions), needs_own=True),
    )
