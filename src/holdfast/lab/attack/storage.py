"""Probes of the store and the clock: failing disks, truncated and damaged files, clock jumps.

Each starts gateways of its own. The count is from outside: a message that was acknowledged is in the log exactly once.
"""

import asyncio
import json
import os
import random
import shutil
import struct
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import apsw
import click

from holdfast.lab.attack.faulty import DISK_FAULTS, FAULTS_FILE, Faults, write_faults
from holdfast.lab.attack.target import Outcome, Target
from holdfast.lab.crashlab.flips import flip
from holdfast.lab.demo.context import ProcessGroup, Server

_FAULTY = "holdfast.lab.attack.faulty"
_OK = 200
# Exit codes of `doctor`: healthy, findings that are left, the file cannot be read.
_HEALTHY, _TOLD = 0, (3, 74)
_MESSAGES, _SESSIONS = 4, 3
# Codes that say nothing: an error of ours, or none at all.
_UNTOLD = "no code"
_STORE, _BACKUP = "attacked.db", "backup.db"
# A store that was closed after an error is opened again within a second or two.
_RECOVERY_TRIES, _RECOVERY_SECONDS = 40, 0.25
_DAY = 86_400.0
# NTP sets a clock that was wrong at the start; a laptop wakes up; the battery of a clock is empty.
_JUMPS = {"an hour ahead": 3_600.0, "a day back": -_DAY, "ten years ahead": 3_650 * _DAY, "to 1970": -56 * 365 * _DAY}


@dataclass
class StoreGateway:
    """A gateway on a store of its own, and the messages that it has acknowledged."""

    folder: Path
    http: aiohttp.ClientSession
    group: ProcessGroup
    server: Server | None = None
    acknowledged: list[str] = field(default_factory=list)
    # Those in the backup.
    acknowledged_before: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = self.folder / _STORE

    @property
    def target(self) -> Target:
        """The gateway, for requests."""
        assert self.server is not None
        return Target(self.server.url, self.http, server=self.server, folder=self.folder)

    async def start(self) -> bool:
        """Start it, and return whether it serves."""
        try:
            self.server = await self.group.serve("serve", "--port", "0", "--store", str(self.store))
        except click.ClickException:
            return False
        return True

    def set_faults(self, faults: Faults) -> None:
        """Let the disk and the clock fail from now on."""
        write_faults(self.folder / "faults.json", faults)

    async def send(self, name: str) -> str:
        """Send a message under a client id. Return "" if it is answered, else the code of the error."""
        body = json.dumps({"text": f"remember {name} = {name}", "client_id": name, "mode": "wait"}).encode()
        answer = await self.target.ask("POST", f"/api/sessions/{session_of(name)}/messages", body)
        if answer.status == _OK:
            self.acknowledged.append(name)
            return ""
        try:
            return str(json.loads(answer.body)["code"])
        except (ValueError, TypeError, KeyError):
            return f"{_UNTOLD} (status {answer.status})"

    async def counted(self) -> Counter[str]:
        """Return how often each message is in the logs."""
        found: Counter[str] = Counter()
        for number in range(_SESSIONS):
            answer = await self.target.ask("GET", f"/api/sessions/s{number}/records?limit=1000")
            records = json.loads(answer.body).get("records", []) if answer.status == _OK else []
            found.update(one["record"]["client_id"] for one in records if one["record"].get("client_id"))
        return found


def session_of(name: str) -> str:
    """Return the session of a message."""
    return f"s{sum(name.encode()) % _SESSIONS}"


@asynccontextmanager
async def store_gateway(folder: Path) -> AsyncGenerator[StoreGateway, None]:
    """Yield a gateway that is not started yet, on a disk and a clock without faults."""
    write_faults(folder / "faults.json", Faults())
    async with AsyncExitStack() as stack:
        settings = {FAULTS_FILE: str(folder / "faults.json")}
        group = await stack.enter_async_context(ProcessGroup(folder, settings, program=_FAULTY))
        http = await stack.enter_async_context(aiohttp.ClientSession())
        yield StoreGateway(folder, http, group)


async def failing_disk(_target: Target) -> Outcome:
    """A disk that fails while the gateway serves: nothing is acknowledged that is lost, and it continues after it."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="holdfast-attack-") as folder:
        async with store_gateway(Path(folder)) as gateway:
            outcome.expect(await gateway.start(), "the gateway did not start")
            for name, failing in DISK_FAULTS.items():
                await gateway.send(f"{name}-before")
                gateway.set_faults(Faults(failing))
                for number in range(_MESSAGES):
                    code = await gateway.send(f"{name}-{number}")
                    outcome.expect(_is_told(code), f"{name}: a message got {code}, which says nothing")
                gateway.set_faults(Faults())
                await _expect_recovered(outcome, gateway, name)
            await expect_kept(outcome, gateway)
            outcome.expect("Traceback" not in gateway.group.log, "a traceback is in the log")
    return outcome


async def clock_jumps(_target: Target) -> Outcome:
    """A wall clock that jumps while the gateway serves: every message is answered, once."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="holdfast-attack-") as folder:
        async with store_gateway(Path(folder)) as gateway:
            outcome.expect(await gateway.start(), "the gateway did not start")
            for name, seconds in _JUMPS.items():
                await gateway.send(f"{name}-before")
                # In the middle of turns, too.
                sending = [asyncio.ensure_future(gateway.send(f"{name}-{number}")) for number in range(_MESSAGES)]
                await asyncio.sleep(0)
                gateway.set_faults(Faults(clock=seconds))
                for code in await asyncio.gather(*sending):
                    outcome.expect(not code, f"{name}: a message got {code}")
                await _expect_recovered(outcome, gateway, name)
            await expect_kept(outcome, gateway)
            # A restart at a time before that of the newest records.
            assert gateway.server is not None
            await gateway.server.kill()
            outcome.expect(await gateway.start(), "with a clock in the past the gateway did not start")
            await _expect_recovered(outcome, gateway, "restarted in the past")
            await expect_kept(outcome, gateway)
            outcome.expect("Traceback" not in gateway.group.log, "a traceback is in the log")
    return outcome


def damaged_files(places: int) -> Callable[[Target], Awaitable[Outcome]]:
    """Return the probe of damaged files, with so many places of each kind of damage."""

    async def damaged(_target: Target) -> Outcome:
        """A truncated WAL, flipped bits and overwritten pages: told, repaired, and the next message is answered."""
        outcome = Outcome()
        with tempfile.TemporaryDirectory(prefix="holdfast-attack-") as folder:
            whole = Path(folder) / "whole"
            whole.mkdir()
            async with store_gateway(whole) as gateway:
                kept = await fill(outcome, gateway)
            at_once = asyncio.Semaphore(os.cpu_count() or 1)

            async def damage_copy(name: str, damage: _Damage) -> None:
                copy = Path(folder) / name.replace(" ", "-")
                async with at_once:
                    shutil.copytree(whole, copy, ignore=shutil.ignore_patterns("programs.log", "*-owners"))
                    damage(copy / _STORE)
                    async with store_gateway(copy) as damaged:
                        # A damage costs what it hits; all is counted where there is none.
                        damaged.acknowledged = [*gateway.acknowledged] if type(damage) is _Damage else []
                        damaged.acknowledged_before = [*kept]
                        await _expect_repaired(outcome, damaged, name, damage)

            await asyncio.gather(*(damage_copy(name, damage) for name, damage in _damages(places).items()))
        return outcome

    return damaged


async def fill(outcome: Outcome, gateway: StoreGateway) -> list[str]:
    """Fill a store, back it up, and kill its gateway. Return the messages that the backup has."""
    outcome.expect(await gateway.start(), "the gateway did not start")
    for number in range(_MESSAGES * _SESSIONS):
        await gateway.send(f"before-{number}")
    backup = await gateway.group.run("backup", str(gateway.folder / _BACKUP), "--store", str(gateway.store))
    outcome.expect(backup.exit_code == 0, f"backup ended with {backup.exit_code}")
    kept = [*gateway.acknowledged]
    await gateway.send("after the backup")
    assert gateway.server is not None
    # Killed, so that the WAL has what was acknowledged last.
    await gateway.server.kill()
    return kept


def _damages(places: int) -> dict[str, "_Damage"]:
    cuts = {f"a WAL cut at {number} of {places}": _CutWal((number + 0.5) / places) for number in range(places)}
    bits = {f"flipped bit {seed}": _FlipBit(seed) for seed in range(places)}
    pages = {f"overwritten page {seed}": _OverwritePage(seed) for seed in range(places)}
    return {"nothing": _Damage(), **cuts, **bits, **pages}


class _Damage:
    """A damage to a closed store; none by itself."""

    # Not for pages of the file: those take a backup.
    is_repaired = True

    def __call__(self, store: Path) -> None:
        """Damage the store."""


@dataclass(frozen=True)
class _CutWal(_Damage):
    share: float

    def __call__(self, store: Path) -> None:
        wal = store.with_name(f"{store.name}-wal")
        # Not at the border of a frame.
        with wal.open("r+b") as opened:
            opened.truncate(max(int(wal.stat().st_size * self.share) - 7, 0))


@dataclass(frozen=True)
class _FlipBit(_Damage):
    seed: int

    def __call__(self, store: Path) -> None:
        flip(store, self.seed, ("body", "crc32", "snapshot"))


@dataclass(frozen=True)
class _OverwritePage(_Damage):
    seed: int
    is_repaired = False

    def __call__(self, store: Path) -> None:
        with closing(apsw.Connection(str(store))) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        content = bytearray(store.read_bytes())
        (size,) = struct.unpack(">H", content[16:18])
        chance = random.Random(self.seed)  # noqa: S311 - repeatable by its seed
        start = chance.randrange(1, len(content) // size) * size
        content[start : start + size] = chance.randbytes(size)
        store.write_bytes(content)


def _is_told(code: str) -> bool:
    """Return whether a message was answered, or refused with a reason."""
    return code != "internal" and not code.startswith(_UNTOLD)


async def _expect_repaired(outcome: Outcome, gateway: StoreGateway, name: str, damage: _Damage) -> None:
    """Expect that a damaged store is served or refused in words, and works after a repair or from a backup."""
    if await gateway.start():
        for number in range(_SESSIONS):
            code = await gateway.send(f"damaged-{number}")
            outcome.expect(_is_told(code), f"{name}: a message got {code}")
        assert gateway.server is not None
        await gateway.server.kill()
    done = await gateway.group.run("doctor", "--store", str(gateway.store), "--fix", "--json")
    codes = (_HEALTHY,) if damage.is_repaired else (_HEALTHY, *_TOLD)
    outcome.expect(done.exit_code in codes, f"{name}: doctor ended with {done.exit_code}")
    if done.exit_code != _HEALTHY:
        gateway.acknowledged = gateway.acknowledged_before
        gateway.store = gateway.folder / "restored.db"
        restored = await gateway.group.run("restore", str(gateway.folder / _BACKUP), "--store", str(gateway.store))
        outcome.expect(restored.exit_code == 0, f"{name}: the backup was not restored: {restored.exit_code}")
    outcome.expect("Traceback" not in gateway.group.log, f"{name}: a traceback is in the log")
    if not await gateway.start():
        outcome.expect(False, f"{name}: not served after the repair")  # noqa: FBT003 - a failed expectation
        return
    await _expect_recovered(outcome, gateway, name)
    await expect_kept(outcome, gateway)
    assert gateway.server is not None
    await gateway.server.kill()


async def _expect_recovered(outcome: Outcome, gateway: StoreGateway, name: str) -> None:
    """Expect that each session takes a message again, within some seconds."""
    for number in range(_SESSIONS):
        code, tries = _UNTOLD, 0
        while code and tries < _RECOVERY_TRIES:
            code, tries = await gateway.send(f"{name}-after-{number}"), tries + 1
            if code:
                await asyncio.sleep(_RECOVERY_SECONDS)
        outcome.expect(not code, f"{name}: afterwards a message got {code}")


async def expect_kept(outcome: Outcome, gateway: StoreGateway) -> None:
    """Expect that every acknowledged message is in the logs once."""
    found = await gateway.counted()
    lost = [name for name in gateway.acknowledged if not found[name]]
    doubled = [name for name, count in found.items() if count > 1]
    outcome.expect(not lost, f"acknowledged and lost: {', '.join(lost)}")
    outcome.expect(not doubled, f"recorded twice: {', '.join(doubled)}")
