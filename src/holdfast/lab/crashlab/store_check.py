"""Check a store against what was acknowledged: nothing lost, nothing duplicated, no invalid state.

The check uses only outside evidence: records, rows and segments as read, the state folded from the first record on,
and the lines that tools wrote to a file. It trusts nothing that the killed processes reported about themselves.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from holdfast.core.fold.session_state import IllegalStepError, Turn
from holdfast.core.integrity.segments import unpack_segment
from holdfast.core.turn.transitions import evolve
from holdfast.core.view import conversation, messages_in_view
from holdfast.errors import HoldfastError
from holdfast.lab.crashlab.workload import BOUNDS, EFFECTS, SESSIONS, STORE, Script, Step
from holdfast.ports import Archive, Blobs, Store
from holdfast.runtime.engine.log import open_log
from holdfast.stores.archives import FolderArchive
from holdfast.types.messages import Media, Text, ToolCall, ToolOutcome, ToolResult
from holdfast.types.records import (
    AnyRecord,
    CompactionApplied,
    InputAdmitted,
    Logged,
    ReplyRecorded,
    RungFinished,
    RungResult,
    ToolSettled,
    Trigger,
    TurnEnded,
    encode_record,
)
from holdfast.wiring import open_store

# More than any store of the laboratory has.
_ROWS_MAX = 1_000_000


class Checkpoint(msgspec.Struct, frozen=True):
    """Count and hash of the records seen by an earlier check. They must never change."""

    records: int = 0
    sha256: str = ""


class Expected(msgspec.Struct, frozen=True):
    """Knowledge of the oracle, by session: the turn of each acknowledged message, and the last checkpoint."""

    script: Script
    accepted: Mapping[str, Mapping[int, int]]
    checkpoints: Mapping[str, Checkpoint] = {}
    # All work has finished: every message must have an outcome.
    is_idle: bool = False


class Verdict(msgspec.Struct):
    """Findings as sentences; empty lists if the store is correct."""

    lost: list[str] = []
    duplicated: list[str] = []
    third_states: list[str] = []
    checkpoints: dict[str, Checkpoint] = {}
    # Records of each kind, as a measure of what the kills could hit.
    kinds: dict[str, int] = {}

    @property
    def is_clean(self) -> bool:
        """Return whether there are no findings."""
        return not (self.lost or self.duplicated or self.third_states)


async def check_store(folder: Path, expected: Expected) -> Verdict:
    """Check the store in a folder. No other process may have it open."""
    verdict = Verdict()
    archive = FolderArchive(folder / f"{STORE}-archive")
    store, blobs = open_store(folder / STORE, BOUNDS, archive)
    effects_file = folder / EFFECTS
    effects = Counter(effects_file.read_text("utf-8").splitlines() if effects_file.exists() else ())
    try:
        for session in SESSIONS:
            check = _SessionCheck(session, expected, verdict)
            try:
                records = await store.read(session)
                await check.check_records(records, store, archive, effects)
                await check.check_inputs(records, blobs)
            except HoldfastError as error:
                verdict.third_states.append(f"{session}: cannot be read: {error}")
    finally:
        await store.close()
    return verdict


class _SessionCheck:
    """Checks one session."""

    def __init__(self, session: str, expected: Expected, verdict: Verdict) -> None:
        self._session, self._expected, self._verdict = session, expected, verdict

    async def check_records(
        self, records: Sequence[Logged], store: Store, archive: Archive, effects: Mapping[str, int]
    ) -> None:
        """Check everything except the messages themselves."""
        self._check_numbers(records)
        self._check_checkpoint(records)
        kinds = Counter(_kind(logged.record) for logged in records)
        self._verdict.kinds = dict(Counter(self._verdict.kinds) + kinds)
        self._check_outcomes(records)
        self._check_effects(records, effects)
        await self._check_rows(len(records), store, archive)
        await self._check_state(records, store)

    def _lost(self, why: str) -> None:
        self._verdict.lost.append(f"{self._session}: {why}")

    def _duplicated(self, why: str) -> None:
        self._verdict.duplicated.append(f"{self._session}: {why}")

    def _invalid(self, why: str) -> None:
        self._verdict.third_states.append(f"{self._session}: {why}")

    def _check_numbers(self, records: Sequence[Logged]) -> None:
        if [logged.seq for logged in records] != list(range(1, len(records) + 1)):
            self._invalid("records are not numbered from 1 without a gap")

    def _check_checkpoint(self, records: Sequence[Logged]) -> None:
        """Records seen by an earlier check are unchanged."""
        before = self._expected.checkpoints.get(self._session, Checkpoint())
        if len(records) < before.records:
            self._lost(f"{before.records} records were seen, {len(records)} are left")
        digest = hashlib.sha256()
        for count, logged in enumerate(records, start=1):
            digest.update(f"{logged.seq} {logged.at!r} ".encode() + encode_record(logged.record) + b"\n")
            if count == before.records and digest.hexdigest() != before.sha256:
                self._invalid(f"the first {count} records have changed")
        self._verdict.checkpoints[self._session] = Checkpoint(len(records), digest.hexdigest())

    async def check_inputs(self, records: Sequence[Logged], blobs: Blobs) -> None:
        """Every acknowledged message is stored once, under its turn, byte for byte."""
        by_seq = {logged.seq: logged.record for logged in records}
        copies = Counter(one.record.client_id for one in records if isinstance(one.record, InputAdmitted))
        for number, turn in self._expected.accepted.get(self._session, {}).items():
            step = self._expected.script.step(self._session, number)
            found = by_seq.get(turn)
            if not isinstance(found, InputAdmitted) or found.client_id != step.client_id:
                self._lost(f"message {number}, accepted as turn {turn}")
                continue
            if not await _is_message_of(step, found, blobs):
                self._lost(f"message {number} differs from the one that was sent")
            if copies[step.client_id] > 1:
                self._duplicated(f"message {number} is stored {copies[step.client_id]} times")

    def _check_outcomes(self, records: Sequence[Logged]) -> None:
        inputs = {logged.seq for logged in records if isinstance(logged.record, InputAdmitted)}
        ended = Counter(logged.record.turn for logged in records if isinstance(logged.record, TurnEnded))
        for turn, times in ended.items():
            if times > 1:
                self._duplicated(f"turn {turn} has {times} outcomes")
        if self._expected.is_idle:
            for turn in sorted(inputs - set(ended)):
                self._lost(f"turn {turn} has no outcome")

    def _check_effects(self, records: Sequence[Logged], effects: Mapping[str, int]) -> None:
        """No recorded call ran twice, no unrecorded call ran, and every recorded result means that the tool ran."""
        called, receipts = _payments(records)
        for order, times in effects.items():
            if order.startswith(f"{self._session}/") and times > called[order]:
                self._verdict.duplicated.append(f"{order} was paid {times} times in {called[order]} recorded calls")
        for order in receipts:
            if not effects.get(order):
                self._verdict.lost.append(f"{order} has a receipt but was never paid")

    async def _check_rows(self, count: int, store: Store, archive: Archive) -> None:
        """Every record is either in one segment or in a live row."""
        seqs: list[int] = []
        for segment in await store.segments(self._session):
            _, rows = unpack_segment(await archive.get(segment.name))
            seqs += [row.seq for row in rows]
        seqs += [row.seq for row in await store.live_rows(self._session, limit=_ROWS_MAX)]
        if seqs != list(range(1, count + 1)):
            self._invalid("segments and live rows overlap or leave a gap")

    async def _check_state(self, records: Sequence[Logged], store: Store) -> None:
        """The state and the view of the opened session equal those folded from the first record on."""
        try:
            turn = _fold(records)
        except IllegalStepError as error:
            self._invalid(str(error))
            return
        log = await open_log(store, self._session)
        if log.turn != turn or log.wounds or log.against_snapshot:
            self._invalid(f"its state differs from the fold of its records {log.wounds} {log.against_snapshot}")
        counted = await store.info(self._session)
        if counted is not None and counted.owed != turn.owed:
            self._invalid(f"the store counts {counted.owed} pending outcomes, the records {turn.owed}")
        pinned = [one for one in records if one.seq in turn.pins and one.seq < turn.boundary]
        if messages_in_view(log.tail, log.turn, pinned=log.pinned) != messages_in_view(records, turn, pinned=pinned):
            self._invalid("the view differs from the one built from all records")
        self._check_pending(turn)
        self._check_compaction(records, turn)
        self._check_coverage(records, turn)

    def _check_pending(self, turn: Turn) -> None:
        """An idle session has no open turn and no compaction that a user requested.

        Compactions that the engine plans itself may wait for the next idle moment.
        """
        requested = [wanted.seq for wanted in turn.wanted if wanted.trigger is Trigger.PERSON]
        if self._expected.is_idle and (turn.waiting or turn.number or requested):
            self._lost(f"outcomes are pending although the session is idle: {turn.waiting} {requested}")

    def _check_compaction(self, records: Sequence[Logged], turn: Turn) -> None:
        in_force = records[turn.compaction_seq - 1].record if turn.compaction_seq else None
        if in_force != turn.compaction or not isinstance(in_force, CompactionApplied | None):
            self._invalid(f"record {turn.compaction_seq} is not the compaction in force")

    def _check_coverage(self, records: Sequence[Logged], turn: Turn) -> None:
        """Every started turn is either in the view or covered by the compaction in force."""
        started = _turns(records)
        if [number for number in started if number >= turn.boundary] != _turns(records, first_turn=turn.boundary):
            self._invalid(f"turns from {turn.boundary} on are not in the view as they started")
        has_summary = turn.compaction is not None and bool(turn.compaction.summary)
        if started and started[0] < turn.boundary and not has_summary:
            self._invalid(f"no summary covers the turns before {turn.boundary}")


async def _is_message_of(step: Step, found: InputAdmitted, blobs: Blobs) -> bool:
    texts = [part.text for part in found.parts if isinstance(part, Text)]
    images = [await blobs.get(part.blob) for part in found.parts if isinstance(part, Media)]
    return texts == [step.text] and images == ([step.image] if step.image else [])


def _payments(records: Sequence[Logged]) -> tuple[Counter[str], set[str]]:
    """Return how often each order was paid by a recorded call, and the orders whose call has a result."""
    called: Counter[str] = Counter()
    receipts: set[str] = set()
    # Orders by call id, of the newest reply: ids may repeat in later ones.
    open_orders: dict[str, str] = {}
    for logged in records:
        match logged.record:
            case ReplyRecorded(reply=reply):
                calls = [part for part in reply.parts if isinstance(part, ToolCall) and part.name == "pay"]
                open_orders = {call.call_id: _order(call) for call in calls}
                called.update(open_orders.values())
            case ToolSettled(result=result) if result.outcome is ToolOutcome.DONE and result.call_id in open_orders:
                receipts.add(open_orders[result.call_id])
            case _:
                pass
    return called, receipts


def _fold(records: Sequence[Logged]) -> Turn:
    turn = Turn()
    for logged in records:
        turn = evolve(turn, logged)
    return turn


def _turns(records: Sequence[Logged], first_turn: int = 0) -> list[int]:
    """Return the turns whose message is in the conversation, from one on."""
    return [one.turn for one in conversation(records, first_turn=first_turn) if one.seq == one.turn]


def _kind(record: AnyRecord) -> str:
    """Return the record type for counting, with separate names for work that a kill interrupted."""
    match record:
        case RungFinished(result=RungResult.INTERRUPTED):
            return "rung cut off"
        case ToolSettled(result=ToolResult(outcome=ToolOutcome.UNKNOWN)):
            return "tool cut off"
        case _:
            return type(record).__name__


def _order(call: ToolCall) -> str:
    arguments: dict[str, str] = msgspec.json.decode(call.arguments, type=dict[str, str])
    return arguments["order"]
