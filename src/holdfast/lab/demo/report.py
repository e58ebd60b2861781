"""Figures of the demo, computed from the client's observations and the store's contents.

The gateway's own claims do not count. A message is answered if the client has the answer, and lost if the store and the
client do not agree on exactly one outcome.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import msgspec

from holdfast.core.limits.sizing import tokens_of_text
from holdfast.core.turn.ladder import SUMMARIES
from holdfast.lab.demo.client import Observations, Sent
from holdfast.ports import Quarantined, Store
from holdfast.stores.archived import ArchivedStore
from holdfast.stores.blobs import FolderBlobs
from holdfast.stores.sqlite.copy import beside
from holdfast.stores.sqlite.read_only import SqliteView
from holdfast.types.faults import FaultKind
from holdfast.types.messages import Media, text_of
from holdfast.types.records import (
    AnyRecord,
    AttemptFailed,
    AttemptStarted,
    CompactionApplied,
    CompactionOutcome,
    CompactionSettled,
    DamageSetAside,
    InputAdmitted,
    Logged,
    MessageExcluded,
    Outcome,
    PartReplaced,
    ReplyRecorded,
    RungFinished,
    RungResult,
    RungStarted,
    SummaryKind,
    SummaryRefused,
    TurnEnded,
    encode_record,
)
from holdfast.wiring import open_archive

_RecordT = TypeVar("_RecordT", bound=AnyRecord)

# --- Store contents ---


class StoreContents(NamedTuple):
    """Contents of the session, read from the files of the store after all processes ended."""

    records: list[Logged]
    quarantined: list[Quarantined]
    # Attachments of the messages, by SHA-256.
    attachments: dict[str, bytes]

    def of_type(self, kind: type[_RecordT], *, after: int = 0) -> list[_RecordT]:
        """Return the records of one type, after a number."""
        return [one.record for one in self.records if one.seq > after and isinstance(one.record, kind)]


async def read_store(path: Path, key: str) -> StoreContents:
    """Read a session from the files of a store, without writing to them."""
    view, archive = SqliteView(path), open_archive(None, path)
    store: Store = view if archive is None else ArchivedStore(view, archive)
    try:
        if await store.info(key) is None:
            return StoreContents([], [], {})
        records = await store.read(key)
        blobs = FolderBlobs(beside(path, "-blobs"))
        inputs = [logged.record for logged in records if isinstance(logged.record, InputAdmitted)]
        media = [part for one in inputs for part in one.parts if isinstance(part, Media)]
        attachments = {part.blob.sha256: await blobs.get(part.blob) for part in media}
        return StoreContents(records, await store.quarantine(key), attachments)
    finally:
        await store.close()


# --- Evidence that each disaster happened and was survived ---

_KILLED = -9


class Evidence(msgspec.Struct, frozen=True):
    """A disaster and the evidence that it happened and was survived; empty if there is none."""

    name: str
    evidence: str


def disaster_evidence(observed: Observations, stored: StoreContents) -> tuple[Evidence, ...]:
    """Return the evidence for every disaster."""
    return tuple(Evidence(name, find(observed, stored)) for name, find in DISASTERS.items())


def _past_the_window(observed: Observations, stored: StoreContents) -> str:
    messages = [one.parts for one in stored.of_type(InputAdmitted)]
    replies = [one.reply.parts for one in stored.of_type(ReplyRecorded)]
    tokens = sum(tokens_of_text(text_of(parts)) for parts in (*messages, *replies))
    if not _compactions(stored, SummaryKind.SUMMARY) or tokens <= observed.window_tokens:
        return ""
    return f"a conversation of about {tokens:,} tokens in a window of {observed.window_tokens:,}"


def _compactions(stored: StoreContents, kind: SummaryKind) -> list[CompactionApplied]:
    return [one for one in stored.of_type(CompactionApplied) if one.kind is kind]


def _summariser_refused(_: Observations, stored: StoreContents) -> str:
    refused = [one for one in stored.of_type(SummaryRefused) if one.fault is not None]
    digests = _compactions(stored, SummaryKind.DIGEST)
    if not refused or not digests:
        return ""
    before, after = digests[0].tokens_before, digests[0].tokens_after
    return f"{len(refused)} summary calls failed, a digest replaced them: {before:,} tokens became {after:,}"


def _rate_limits(_: Observations, stored: StoreContents) -> str:
    faults = [one.fault for one in stored.of_type(AttemptFailed) if one.fault.kind is FaultKind.RATE_LIMIT]
    required = [fault.retry_after_seconds for fault in faults if fault.retry_after_seconds is not None]
    waited = [one.seconds for one in stored.of_type(RungStarted) if one.kind is FaultKind.RATE_LIMIT]
    if not required or len(waited) < len(required) or sum(waited) < sum(required):
        return ""
    return (
        f"{len(required)} responses 429 with Retry-After of {sum(required):g} s; the engine waited {sum(waited):.1f} s"
    )


def _models_down(observed: Observations, stored: StoreContents) -> str:
    down = next((sent for sent in observed.sent if sent.expected_code == FaultKind.TRANSIENT.value), None)
    if down is None or not _ended_as_expected(down, stored) or not _is_next_answered(down, observed):
        return ""
    models = {one.model for one in stored.of_type(AttemptStarted) if one.turn == down.turn}
    if len(models) < 2:  # noqa: PLR2004 - the second one is the fallback
        return ""
    return (
        f"{len(models)} models tried, the turn ended with the code {down.expected_code}, the next message was answered"
    )


def _ended_as_expected(sent: Sent, stored: StoreContents) -> bool:
    return bool(sent.reason) and [one.code for one in stored.of_type(TurnEnded) if one.turn == sent.turn] == [
        sent.expected_code
    ]


def _is_next_answered(sent: Sent, observed: Observations) -> bool:
    following = [one for one in observed.sent if one.turn > sent.turn]
    return bool(following) and following[0].answer is not None


# Codes of turns whose text the provider refuses.
_REFUSED_CODES = frozenset({FaultKind.CONTENT_POLICY.value, FaultKind.BAD_REQUEST.value})


def _refused_texts(observed: Observations, stored: StoreContents) -> str:
    refused = [sent for sent in observed.sent if sent.expected_code in _REFUSED_CODES]
    if {sent.expected_code for sent in refused} != _REFUSED_CODES:
        return ""
    if not all(_is_left_out(sent, stored) and _is_next_answered(sent, observed) for sent in refused):
        return ""
    after = [sent for sent in observed.sent if sent.turn > refused[0].turn and sent.answer is not None]
    return f"{len(refused)} messages ended with a reason and were left out; {len(after)} later ones were answered"


def _is_left_out(sent: Sent, stored: StoreContents) -> bool:
    excluded = {one.excluded: one.is_excluded for one in stored.of_type(MessageExcluded)}
    return _ended_as_expected(sent, stored) and excluded.get(sent.turn, False)


def _large_image(_: Observations, stored: StoreContents) -> str:
    replaced = {one.seq: one for one in stored.of_type(PartReplaced)}
    for logged in stored.records:
        if logged.seq in replaced and (size := _stored_image_bytes(logged.record, stored)):
            shown = "smaller" if isinstance(replaced[logged.seq].shown, Media) else "as a line of text"
            return f"{size:,} bytes were stored, and the model saw the image {shown}"
    return ""


def _stored_image_bytes(record: AnyRecord, stored: StoreContents) -> int:
    parts = record.parts if isinstance(record, InputAdmitted) else ()
    blobs = [part.blob for part in parts if isinstance(part, Media)]
    return next((blob.size_bytes for blob in blobs if blob.sha256 in stored.attachments), 0)


def _killed_in_compaction(observed: Observations, stored: StoreContents) -> str:
    for exit_code, last_seq in observed.killed:
        if exit_code == _KILLED and _is_summary_open(stored, last_seq) and _is_closed_after(stored, last_seq):
            return f"the log ended within a summary (record {last_seq}), which the next start closed as interrupted"
    return ""


def _is_summary_open(stored: StoreContents, last_seq: int) -> bool:
    records = [one.record for one in stored.records if one.seq <= last_seq]
    last = next((one for one in reversed(records) if isinstance(one, RungStarted | RungFinished)), None)
    return isinstance(last, RungStarted) and last.rung in SUMMARIES


def _is_closed_after(stored: StoreContents, last_seq: int) -> bool:
    finished = stored.of_type(RungFinished, after=last_seq)
    return bool(finished) and finished[0].result is RungResult.INTERRUPTED


def _restarted(observed: Observations, stored: StoreContents) -> str:
    if not observed.killed:
        return ""
    _, last_seq = observed.killed[0]
    waiting = [sent for sent in observed.sent if 0 < sent.turn <= last_seq and _ended_at(sent.turn, stored) > last_seq]
    settled = stored.of_type(CompactionSettled, after=last_seq)[:1]
    is_applied = [one.outcome for one in settled if one.request <= last_seq] == [CompactionOutcome.APPLIED]
    if not is_applied or not waiting or any(sent.answer is None for sent in waiting):
        return ""
    return f"the compaction was completed, and {len(waiting)} accepted message was answered"


def _ended_at(turn: int, stored: StoreContents) -> int:
    return next((one.seq for one in stored.records if isinstance(one.record, TurnEnded) and one.record.turn == turn), 0)


def _raced(observed: Observations, stored: StoreContents) -> str:
    race = observed.race
    if race is None:
        return ""
    within = [logged.record for logged in stored.records if race.after < logged.seq <= race.until]
    applied = sum(isinstance(one, CompactionApplied) for one in within)
    settled = [one.outcome for one in within if isinstance(one, CompactionSettled)]
    if applied != 1 or settled != list(race.outcomes) or set(settled) != {CompactionOutcome.APPLIED}:
        return ""
    return f"{len(race.outcomes)} gateways requested it, {applied} compaction was applied, both report it"


def _flipped(observed: Observations, stored: StoreContents) -> str:
    flip = observed.flip
    if flip is None or [one.seq for one in observed.found_after_flip] != [flip.seq]:
        return ""
    mark, original = _record_at(flip.seq, stored.records), _record_at(flip.seq, observed.watched)
    quarantined = [one.body for one in stored.quarantined if one.seq == flip.seq]
    if not isinstance(mark, DamageSetAside) or original is None or len(quarantined) != 1:
        return ""
    if _bits_apart(quarantined[0], encode_record(original)) != 1:
        return ""
    return f"doctor found only record {flip.seq}; its bytes are in quarantine as {mark.kept}"


def _record_at(seq: int, records: list[Logged]) -> AnyRecord | None:
    return next((logged.record for logged in records if logged.seq == seq), None)


def _bits_apart(one: bytes, other: bytes) -> int:
    if len(one) != len(other):
        return max(len(one), len(other)) * 8
    return sum((a ^ b).bit_count() for a, b in zip(one, other, strict=True))


DISASTERS: Mapping[str, Callable[[Observations, StoreContents], str]] = MappingProxyType(
    {
        "the conversation outgrows the window": _past_the_window,
        "the summariser is refused": _summariser_refused,
        "rate limits": _rate_limits,
        "every model is down": _models_down,
        "an image of 30 MB": _large_image,
        "refusals and usage that mislead": lambda seen, stored: seen.misled(stored.of_type(AttemptFailed)),
        "a text that the provider refuses": _refused_texts,
        "kill -9 in the middle of a compaction": _killed_in_compaction,
        "restart": _restarted,
        "two processes race for one compaction": _raced,
        "a flipped bit in the store": _flipped,
    }
)

# --- Figures ---


class Figures(msgspec.Struct, frozen=True):
    """JSON output of the demo. `broken` has a sentence for each broken promise."""

    sent: int
    answered: int
    # Ended with an error message instead of an answer, as expected.
    told_why: int
    lost: int
    doubled: int
    records: int
    # Records that differ between the event stream and the store.
    altered: int
    compactions: int
    digests: int
    kills: int
    facts_planted: int
    facts_recalled: int
    facts_found: int
    disasters: tuple[Evidence, ...]
    broken: tuple[str, ...]
    seconds: float


def count_figures(observed: Observations, stored: StoreContents, seconds: float) -> Figures:
    """Compute the figures."""
    losses = [loss for loss in (loss_of(sent, observed, stored) for sent in observed.sent) if loss]
    figures = Figures(
        sent=len(observed.sent),
        answered=sum(sent.answer is not None for sent in observed.sent),
        told_why=sum(sent.answer is None and bool(sent.reason) for sent in observed.sent),
        lost=len(losses),
        doubled=_doubled(stored),
        records=len(stored.records),
        altered=len(_altered(observed, stored)),
        compactions=len(stored.of_type(CompactionApplied)),
        digests=len(_compactions(stored, SummaryKind.DIGEST)),
        kills=len(observed.killed),
        facts_planted=len(observed.facts),
        facts_recalled=_present(observed.facts, observed.recalled),
        facts_found=_present(observed.facts, observed.searched),
        disasters=disaster_evidence(observed, stored),
        broken=(),
        seconds=round(seconds, 1),
    )
    return msgspec.structs.replace(figures, broken=(*losses, *_broken_promises(figures, observed)))


def loss_of(sent: Sent, observed: Observations, stored: StoreContents) -> str:
    """Return a sentence if the message was lost or changed, else an empty string."""
    name = f"message {sent.client_id}"
    found = [
        (logged.seq, logged.record)
        for logged in stored.records
        if isinstance(logged.record, InputAdmitted) and logged.record.client_id == sent.client_id
    ]
    if not found:
        return f"{name} is not in the store"
    seq, admitted = found[0]
    if text_of(admitted.parts) != sent.text:
        return f"{name} is in the store with another text"
    if sent.attached and sent.attached not in _intact_attachments(admitted, stored):
        return f"the attachment of {name} is not in the store byte for byte"
    return _loss_of_outcome(sent, seq, observed, stored)


def _loss_of_outcome(sent: Sent, seq: int, observed: Observations, stored: StoreContents) -> str:
    name = f"message {sent.client_id}"
    outcomes = [one.outcome for one in stored.of_type(TurnEnded) if one.turn == seq]
    if len(outcomes) != 1:
        return f"{name} has {len(outcomes)} outcomes in the store instead of one"
    if seq != sent.turn:
        return f"{name} was accepted as turn {sent.turn} and is turn {seq} in the store"
    if sent.answer is None:
        return "" if sent.reason and outcomes[0] is Outcome.FAILED else f"{name} was never answered"
    if outcomes[0] is not Outcome.ANSWERED or not _is_answer(sent, observed, stored):
        return f"{name} was answered, but the store does not have that answer"
    return ""


def _intact_attachments(admitted: InputAdmitted, stored: StoreContents) -> set[str]:
    """Return the hashes of the stored bytes of a message's attachments."""
    media = [part.blob.sha256 for part in admitted.parts if isinstance(part, Media)]
    contents = [stored.attachments.get(sha256, b"") for sha256 in media]
    return {hashlib.sha256(content).hexdigest() for content in contents}


def _is_answer(sent: Sent, observed: Observations, stored: StoreContents) -> bool:
    """Return whether the store has the answer that the client received.

    The answer that was damaged on purpose counts as present: `_flipped` checks that its bytes are in quarantine.
    """
    answers = [one.reply for one in stored.of_type(ReplyRecorded) if one.turn == sent.turn]
    if answers:
        return text_of(answers[-1].parts) == sent.answer
    flipped = observed.flip.seq if observed.flip is not None else 0
    return any(
        logged.seq == flipped and isinstance(logged.record, ReplyRecorded) and logged.record.turn == sent.turn
        for logged in observed.watched
    )


def _doubled(stored: StoreContents) -> int:
    """Return the number of surplus copies of messages and outcomes."""
    messages = Counter(one.client_id for one in stored.of_type(InputAdmitted))
    outcomes = Counter(one.turn for one in stored.of_type(TurnEnded))
    return sum(times - 1 for times in (*messages.values(), *outcomes.values()))


def _altered(observed: Observations, stored: StoreContents) -> set[int]:
    """Return the records that differ between the event stream and the store, except the damaged one."""
    watched = {logged.seq: logged for logged in observed.watched}
    in_store = {logged.seq: logged for logged in stored.records}
    flipped = {observed.flip.seq} if observed.flip is not None else set()
    return {seq for seq in watched.keys() | in_store.keys() if watched.get(seq) != in_store.get(seq)} - flipped


def _present(facts: dict[str, str], answers: dict[str, str]) -> int:
    """Return the number of facts whose exact value is in the answer."""
    return sum(value in answers.get(name, "") for name, value in facts.items())


def _broken_promises(figures: Figures, observed: Observations) -> Iterator[str]:
    """Yield a sentence for every broken promise except lost messages."""
    if not observed.sent:
        yield "nothing was sent"
    yield from (sentence for sent in observed.sent if (sentence := _wrong_outcome(sent)))
    if figures.doubled:
        yield f"{figures.doubled} messages or outcomes are in the store twice"
    if figures.altered or observed.out_of_order:
        yield (
            f"{figures.altered} records differ between the event stream and the store, and {observed.out_of_order} "
            "arrived twice or out of order"
        )
    for how, count in (("recalled", figures.facts_recalled), ("found by search", figures.facts_found)):
        if count != figures.facts_planted:
            yield f"{figures.facts_planted - count} of {figures.facts_planted} facts were not {how}"
    yield from _final_findings(observed)
    yield from (f"there is no evidence for: {one.name}" for one in figures.disasters if not one.evidence)


def _final_findings(observed: Observations) -> Iterator[str]:
    if observed.found_at_end is None:
        yield "doctor did not check the store"
    elif observed.found_at_end:
        yield f"doctor found: {'; '.join(one.what for one in observed.found_at_end)}"


def _wrong_outcome(sent: Sent) -> str:
    if sent.expected_code:
        expected = f"although its outcome should be the code {sent.expected_code}"
        return "" if sent.answer is None else f"message {sent.client_id} was answered, {expected}"
    if sent.answer is None and sent.reason:
        return f"message {sent.client_id} ended without an answer: {sent.reason}"
    return ""


def table(figures: Figures) -> list[tuple[str, str]]:
    """Return the figures as rows of text."""
    return [
        ("messages sent", str(figures.sent)),
        ("answered", str(figures.answered)),
        ("failed with a reason: no model, refused text", str(figures.told_why)),
        ("lost", str(figures.lost)),
        ("duplicated", str(figures.doubled)),
        ("compactions", f"{figures.compactions}, {figures.digests} of them without a model"),
        ("gateways killed with SIGKILL", str(figures.kills)),
        ("records in the store", f"{figures.records}, {figures.altered} of them unlike the event stream"),
        ("planted facts recalled by the model", f"{figures.facts_recalled} of {figures.facts_planted}"),
        ("planted facts found by search", f"{figures.facts_found} of {figures.facts_planted}"),
        ("seconds", f"{figures.seconds:g}"),
    ]
