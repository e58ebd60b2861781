"""Whether a store is what it must be, given what was acknowledged: nothing lost, nothing twice, no third state.

Judged from outside: the records as they are read, rows and segments as they lie, the fold made anew from the first
record, and the lines that tools left in the world. What the processes believed that wrote them does not count.
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
from holdfast.lab.crashlab.workload import BOUNDS, EFFECTS, SESSIONS, STORE, Script
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

# All live rows of a store of the laboratory, and more.
_ROWS_MAX = 1_000_000


class Checkpoint(msgspec.Struct, frozen=True):
    """The records of a session that were seen before: how many, and their fingerprint. They may never change."""

    records: int = 0
    sha256: str = ""


class Expected(msgspec.Struct, frozen=True):
    """What the oracle knows: by session, the turn of every acknowledged message by its number, and the past."""

    script: Script
    accepted: Mapping[str, Mapping[int, int]]
    checkpoints: Mapping[str, Checkpoint] = {}
    # Work has come to rest: every message has its outcome now.
    is_idle: bool = False


class Verdict(msgspec.Struct):
    """What was found; every list is of sentences, and empty where all is well."""

    lost: list[str] = []
    duplicated: list[str] = []
    third_states: list[str] = []
    checkpoints: dict[str, Checkpoint] = {}
    # How many records of each kind there are, to tell what the kills had a chance to hit.
    kinds: dict[str, int] = {}

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return not (self.lost or self.duplicated or self.third_states)


async def check_store(folder: Path, expected: Expected) -> Verdict:
    """Judge the store in a folder, which no other process has open."""
    verdict = Verdict()
    archive = FolderArchive(folder / f"{STORE}-archive")
    store, blobs = open_store(folder / STORE, BOUNDS, archive)
    effects = folder / EFFECTS
    ran = Counter(effects.read_text("utf-8").splitlines() if effects.exists() else ())
    try:
        for session in SESSIONS:
            bench = _SessionCheck(session, expected, verdict)
            try:
                records = await store.read(session)
                await bench.look(records, store, archive, ran)
                await bench.check_inputs(records, blobs)
            except HoldfastError as error:
                verdict.third_states.append(f"{session}: it cannot be read: {error}")
    finally:
        await store.close()
    return verdict


class _SessionCheck:
    """Judges one session."""

    def __init__(self, session: str, expected: Expected, verdict: Verdict) -> None:
        self._session, self._expected, self._verdict = session, expected, verdict

    async def look(self, records: Sequence[Logged], store: Store, archive: Archive, ran: Mapping[str, int]) -> None:
        """Look at everything but the messages themselves."""
        self._check_past(records)
        kinds = Counter(_kind(logged.record) for logged in records)
        self._verdict.kinds = dict(Counter(self._verdict.kinds) + kinds)
        self._check_outcomes(records)
        self._check_effects(records, ran)
        await self._check_rows(len(records), store, archive)
        await self._check_fold(records, store)

    def _third(self, why: str) -> None:
        self._verdict.third_states.append(f"{self._session}: {why}")

    def _check_past(self, records: Sequence[Logged]) -> None:
        """Records are numbered without a gap, and those that were seen before are as they were."""
        if [logged.seq for logged in records] != list(range(1, len(records) + 1)):
            self._third("records are not numbered from 1 without a gap")
        before = self._expected.checkpoints.get(self._session, Checkpoint())
        if len(records) < before.records:
            self._verdict.lost.append(f"{self._session}: {before.records} records were seen, {len(records)} are left")
        digest = hashlib.sha256()
        for count, logged in enumerate(records, start=1):
            digest.update(f"{logged.seq} {logged.at!r} ".encode() + encode_record(logged.record) + b"\n")
            if count == before.records and digest.hexdigest() != before.sha256:
                self._third(f"the first {count} records are not what they were")
        self._verdict.checkpoints[self._session] = Checkpoint(len(records), digest.hexdigest())

    async def check_inputs(self, records: Sequence[Logged], blobs: Blobs) -> None:
        """Every acknowledged message is where it was said to be, byte for byte, and nowhere else."""
        by_seq = {logged.seq: logged.record for logged in records}
        copies = Counter(one.record.client_id for one in records if isinstance(one.record, InputAdmitted))
        for number, turn in self._expected.accepted.get(self._session, {}).items():
            step = self._expected.script.step(self._session, number)
            found = by_seq.get(turn)
            if not isinstance(found, InputAdmitted) or found.client_id != step.client_id:
                self._verdict.lost.append(f"{self._session}: message {number}, accepted as turn {turn}")
                continue
            texts = [part.text for part in found.parts if isinstance(part, Text)]
            images = [await blobs.get(part.blob) for part in found.parts if isinstance(part, Media)]
            if texts != [step.text] or images != ([step.image] if step.image else []):
                self._verdict.lost.append(f"{self._session}: message {number} is not what was sent")
            if copies[step.client_id] > 1:
                self._verdict.duplicated.append(f"{self._session}: message {number} stands there twice")

    def _check_outcomes(self, records: Sequence[Logged]) -> None:
        inputs = {logged.seq for logged in records if isinstance(logged.record, InputAdmitted)}
        ended = Counter(logged.record.turn for logged in records if isinstance(logged.record, TurnEnded))
        for turn, times in ended.items():
            if times > 1:
                self._verdict.duplicated.append(f"{self._session}: turn {turn} has {times} outcomes")
        if self._expected.is_idle:
            for turn in sorted(inputs - set(ended)):
                self._verdict.lost.append(f"{self._session}: turn {turn} has no outcome")

    def _check_effects(self, records: Sequence[Logged], ran: Mapping[str, int]) -> None:
        """No recorded call ran twice, nothing ran that was not recorded, and a receipt means that it ran."""
        orders: dict[str, str] = {}
        asked: dict[str, str] = {}
        receipts: set[str] = set()
        for logged in records:
            match logged.record:
                case ReplyRecorded(reply=reply):
                    calls = [part for part in reply.parts if isinstance(part, ToolCall) and part.name == "pay"]
                    orders |= {f"{logged.seq} {call.call_id}": _order(call) for call in calls}
                    asked = {call.call_id: f"{logged.seq} {call.call_id}" for call in calls}
                case ToolSettled(result=result) if result.outcome is ToolOutcome.DONE and result.call_id in asked:
                    receipts.add(orders[asked[result.call_id]])
                case _:
                    pass
        allowed = Counter(orders.values())
        for order, times in ran.items():
            if order.startswith(f"{self._session}/") and times > allowed[order]:
                sentence = f"{order} was paid for {times} times in {allowed[order]} recorded calls"
                self._verdict.duplicated.append(sentence)
        self._verdict.lost += [
            f"{order} has a receipt and was never paid for" for order in receipts if not ran.get(order)
        ]

    async def _check_rows(self, count: int, store: Store, archive: Archive) -> None:
        """Segments and live rows follow each other: no record is in both, none in neither."""
        seqs: list[int] = []
        for segment in await store.segments(self._session):
            _, rows = unpack_segment(await archive.get(segment.name))
            seqs += [row.seq for row in rows]
        seqs += [row.seq for row in await store.kept(self._session, limit=_ROWS_MAX)]
        if seqs != list(range(1, count + 1)):
            self._third("segments and live rows overlap or leave a gap")

    async def _check_fold(self, records: Sequence[Logged], store: Store) -> None:
        """Where the session stands is what its records fold to, and so is what the model sees."""
        turn = Turn()
        try:
            for logged in records:
                turn = evolve(turn, logged)
        except IllegalStepError as error:
            self._third(str(error))
            return
        log = await open_log(store, self._session)
        if log.turn != turn or log.wounds or log.against_snapshot:
            self._third(f"it opens as something else than its records fold to {log.wounds} {log.against_snapshot}")
        counted = await store.info(self._session)
        if counted is not None and counted.owed != turn.owed:
            self._third(f"the store counts {counted.owed} outcomes owed, the records {turn.owed}")
        asked = [wanted.seq for wanted in turn.wanted if wanted.trigger is Trigger.PERSON]
        if self._expected.is_idle and (turn.waiting or turn.number or asked):
            # What the engine wants of its own accord may wait for the next idle moment.
            self._verdict.lost.append(f"{self._session}: outcomes are still owed at rest: {turn.waiting} {asked}")
        in_force = records[turn.compaction_seq - 1].record if turn.compaction_seq else None
        if in_force != turn.compaction or not isinstance(in_force, CompactionApplied | None):
            self._third(f"record {turn.compaction_seq} is not the compaction in force")
        pinned = [one for one in records if one.seq in turn.pins and one.seq < turn.boundary]
        if messages_in_view(log.tail, log.turn, pinned=log.pinned) != messages_in_view(records, turn, pinned=pinned):
            self._third("what the model sees is not what the records say")
        self._check_coverage(records, turn)

    def _check_coverage(self, records: Sequence[Logged], turn: Turn) -> None:
        """Every turn that began is represented by the compaction in force or is in the view, once."""
        begun = [one.turn for one in conversation(records) if one.seq == one.turn]
        shown = [one.turn for one in conversation(records, first_turn=turn.boundary) if one.seq == one.turn]
        if [number for number in begun if number >= turn.boundary] != shown:
            self._third(f"turns from {turn.boundary} on are not in the view as they began")
        if begun and begun[0] < turn.boundary and not (turn.compaction and turn.compaction.summary):
            self._third(f"nothing stands for the turns before {turn.boundary}")


def _kind(record: AnyRecord) -> str:
    """Return what a record counts as: the name of its kind, but for what a kill has cut off."""
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
