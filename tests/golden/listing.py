"""Everything that a store gives back, as plain data."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.ports import Store
from holdfast.runtime.sessions.delete import learn_blobs
from holdfast.types.records import InputAdmitted, Logged
from tests.golden.script import APPENDED_SESSION, CLIENT_SESSION, LINKS_SESSION, SESSION
from tests.golden.shapes import expanded

KEYS = (SESSION, CLIENT_SESSION, LINKS_SESSION)
# A word of a message, of a document's name, of a tool's output, of a call; and one that nobody said.
QUERIES = ("harbour", "fathoms of water", "mole", "reef", "zeppelin")


def line_of(logged: Logged) -> str:
    """Return a record in its place as one line."""
    return msgspec.json.encode(logged).decode()


async def listing(store: Store, logs: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return what a store holds. Of each log, only the lines that differ from those in `logs`, by their numbers."""
    keys = [*KEYS, APPENDED_SESSION] if await store.info(APPENDED_SESSION) else KEYS
    found = {key: [line_of(logged) for logged in await store.read(key)] for key in keys}
    unknown = await store.unscanned_sessions()
    await learn_blobs(store)
    return {
        "sessions": [expanded(known) for known in await store.sessions()],
        "owing": await store.pending(),
        "differing": {key: _differing(found[key], logs.get(key, ())) for key in keys},
        "client_ids": {key: await _client_ids(store, key) for key in keys},
        "hits": {f"{key}: {query}": await _hits(store, key, query) for key in keys for query in QUERIES},
        "segments": {key: expanded(await store.segments(key)) for key in keys},
        "quarantine": {
            key: [
                [one.name, one.seq, one.why, one.set_aside_at, one.body.decode()] for one in await store.quarantine(key)
            ]
            for key in keys
        },
        "bad_rows": {key: expanded((await store.check_rows(key)).bad) for key in keys},
        "blobs_unknown": unknown,
        "blobs": {key: [[ref.sha256, ref.size_bytes] for ref in await store.blob_refs(key)] for key in keys},
    }


def _differing(found: Sequence[str], expected: Sequence[str]) -> dict[str, str | None]:
    count = max(len(found), len(expected))
    pairs = zip(_padded(found, count), _padded(expected, count), strict=True)
    return {str(number): line for number, (line, other) in enumerate(pairs, start=1) if line != other}


def _padded(lines: Sequence[str], count: int) -> list[str | None]:
    return [*lines, *[None] * (count - len(lines))]


async def _client_ids(store: Store, key: str) -> dict[str, list[int | bool]]:
    """Send every message with a client id again; return the number that it has, and whether it was new."""
    inputs = [one.record for one in await store.read(key) if isinstance(one.record, InputAdmitted)]
    sent = {record.client_id: await store.admit(key, record) for record in inputs if record.client_id}
    return {client_id: [admission.seq, admission.is_new] for client_id, admission in sent.items()}


async def _hits(store: Store, key: str, query: str) -> list[list[Any]]:
    # Scores are sums of logarithms: the last digits belong to the machine.
    return [[hit.seq, hit.call, round(hit.score, 6), hit.excerpt] for hit in await store.search(key, query)]
