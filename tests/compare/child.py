"""One measurement of one store in a process of its own: `python -m tests.compare.child STEP PEER FOLDER RECORDS`.

Prints one JSON object. `write` fills a store and measures appends and turns at that length; `load` opens the same files
in a fresh process and reads what the next turn needs; `count` counts its messages; `import` loads the framework; `live`
appends until it is killed.
"""

import asyncio
import json
import resource
import sys
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.compare.peers import PEERS, Holdfast, PeerStore

APPENDS, TURNS = 60, 10
_BATCH = 500


async def _fill(store: PeerStore, records: int) -> None:
    for start in range(0, records, _BATCH):
        await store.append(range(start, min(start + _BATCH, records)))


async def _write(store: PeerStore, folder: Path, records: int) -> Mapping[str, float]:
    await _fill(store, records)
    start = time.perf_counter()
    for number in range(APPENDS):
        await store.append([records + number])
    appended = time.perf_counter()
    for number in range(TURNS):
        await store.turn(records + number)
    turned = time.perf_counter()
    if isinstance(store, Holdfast):
        await store.prepare()
    await store.close()
    disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {
        "append_ms": 1_000 * (appended - start) / APPENDS,
        "turn_ms": 1_000 * (turned - appended) / TURNS,
        "disk_mib": disk / 2**20,
    }


async def _load(store: PeerStore, peer: str) -> Mapping[str, float]:
    # The first use of a library loads modules: another store takes that.
    with TemporaryDirectory() as other:
        first = PEERS[peer][2](Path(other))
        await first.append([0])
        await first.load()
        await first.close()
    start = time.perf_counter()
    await store.load()
    taken = time.perf_counter() - start
    await store.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    return {"load_ms": 1_000 * taken, "memory_mib": peak}


async def _count(store: PeerStore) -> Mapping[str, float]:
    found = await store.count()
    await store.close()
    return {"messages": found}


async def _live(store: PeerStore) -> Mapping[str, float]:
    """Append for ever, and report each message once it is acknowledged."""
    number = 0
    while True:
        await store.append([number])
        number += 1
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


async def measure(step: str, peer: str, folder: Path, records: int) -> Mapping[str, float]:
    """Run one step over one store."""
    start = time.process_time()
    store = PEERS[peer][2](folder)
    imported = 1_000 * (time.process_time() - start)
    match step:
        case "write":
            return await _write(store, folder, records)
        case "load":
            return await _load(store, peer)
        case "count":
            return await _count(store)
        case "live":
            return await _live(store)
    await store.close()
    return {"import_ms": imported}


def main() -> None:
    step, peer, folder, records = sys.argv[1:]
    found = asyncio.run(measure(step, peer, Path(folder), int(records)))
    distribution = PEERS[peer][0]
    named = {"version": version(distribution)} if distribution else {}
    sys.stdout.write(json.dumps({**found, **named}) + "\n")


if __name__ == "__main__":
    main()
