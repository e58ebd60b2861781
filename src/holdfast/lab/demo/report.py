"""What a demo came to: counted from what its client sent and got, and from what the store holds, against each other.

Nothing here believes the gateway. A message counts as answered where the client has the answer, and as lost where the
store and the client do not agree on exactly one outcome of it.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

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

# --- Store contents ---


class StoreContents(NamedTuple):
    """What the store holds of the session, read from its files by nobody who wrote them."""

    records: list[Logged]
    quarantined: list[Quarantined]
    # The attachments that the messages name, by their SHA-256.
    attachments: dict[str, bytes]


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


# --- What shows, afterwards, that each disaster really happened and was survived: read from the log, not …


_KILLED = -9


class Evidence(msgspec.Struct, frozen=True):
    """A disaster and what shows that it happened and was survived; no evidence: nothing does."""

    name: str
    evidence: str


def disaster_evidence(observed: Observations, stored: StoreContents) -> tuple[Evidence, ...]:
    """Return what there is to show of every disaster."""
    return tuple(Evidence(name, look(observed, stored)) for name, look in DISASTERS.items())


def _all(stored: StoreContents, after: int = 0) -> Iterator[AnyRecord]:
    return (logged.record for logged in stored.records if logged.seq > after)


def _past_the_window(observed: Observations, stored: StoreContents) -> str:
    asked = [tokens_of_text(text_of(one.parts)) for one in _all(stored) if isinstance(one, InputAdmitted)]
    output = [tokens_of_text(text_of(one.reply.parts)) for one in _all(stored) if isinstance(one, ReplyRecorded)]
    applied = [one for one in _all(stored) if isinstance(one, CompactionApplied) and one.kind is SummaryKind.SUMMARY]
    tokens = sum(asked) + sum(output)
    if not applied or tokens <= observed.window_tokens:
        return ""
    return f"about {tokens:,} tokens were said through a window of {observed.window_tokens:,}"


def _summariser_refused(_: Observations, stored: StoreContents) -> str:
    refused = [one for one in _all(stored) if isinstance(one, SummaryRefused) and one.fault is not None]
    digests = [one for one in _all(stored) if isinstance(one, CompactionApplied) and one.kind is SummaryKind.DIGEST]
    if not refused or not digests:
        return ""
    before, after = digests[0].tokens_before, digests[0].tokens_after
    return f"{len(refused)} summaries were refused, a digest stood in: {before:,} tokens became {after:,}"


def _rate_limits(_: Observations, stored: StoreContents) -> str:
    faults = [one.fault for one in _all(stored) if isinstance(one, AttemptFailed)]
    waits = [fault.retry_after_seconds for fault in faults if fault.kind is FaultKind.RATE_LIMIT]
    waited = [one.seconds for one in _all(stored) if isinstance(one, RungStarted) and one.kind is FaultKind.RATE_LIMIT]
    asked = [seconds for seconds in waits if seconds is not None]
    if not asked or len(waited) < len(asked) or sum(waited) < sum(asked):
        return ""
    return f"429 came {len(asked)} times and asked for {sum(asked):g} s; {sum(waited):.1f} s were waited"


def _models_down(observed: Observations, stored: StoreContents) -> str:
    down = next((sent for sent in observed.sent if sent.expects_reason), None)
    if down is None or not down.reason:
        return ""
    models = {one.model for one in _all(stored) if isinstance(one, AttemptStarted) and one.turn == down.turn}
    codes = [one.code for one in _all(stored) if isinstance(one, TurnEnded) and one.turn == down.turn]
    later = any(sent.answer is not None for sent in observed.sent if sent.turn > down.turn)
    if len(models) < 2 or codes != [FaultKind.TRANSIENT.value] or not later:  # noqa: PLR2004 - both models
        return ""
    return f"{len(models)} models tried, the turn ended with the code {codes[0]}, the next message was answered"


def _large_image(_: Observations, stored: StoreContents) -> str:
    replaced = {one.seq: one for one in _all(stored) if isinstance(one, PartReplaced)}
    inputs = [logged for logged in stored.records if logged.seq in replaced]
    media = [part for one in inputs if isinstance(one.record, InputAdmitted) for part in one.record.parts]
    kept = [part.blob for part in media if isinstance(part, Media) and part.blob.sha256 in stored.attachments]
    if not kept:
        return ""
    shown = "smaller" if isinstance(replaced[inputs[0].seq].shown, Media) else "as a line that says what it was"
    return f"{kept[0].size_bytes:,} bytes were kept, and the model was shown it {shown}"


def _killed_in_compaction(observed: Observations, stored: StoreContents) -> str:
    for exit_code, last_seq in observed.killed:
        before = [logged.record for logged in stored.records if logged.seq <= last_seq]
        steps = [one for one in before if isinstance(one, RungStarted | RungFinished)]
        after = next((one for one in _all(stored, last_seq) if isinstance(one, RungFinished)), None)
        is_open = bool(steps) and isinstance(steps[-1], RungStarted) and steps[-1].rung in SUMMARIES
        is_closed = after is not None and after.result is RungResult.INTERRUPTED
        if exit_code == _KILLED and is_open and is_closed:
            return f"the log ended with a summary begun (record {last_seq}), which the next start closed as interrupted"
    return ""


def _restarted(observed: Observations, stored: StoreContents) -> str:
    if not observed.killed:
        return ""
    _, last_seq = observed.killed[0]
    waiting = [sent for sent in observed.sent if 0 < sent.turn <= last_seq and _ended_at(sent.turn, stored) > last_seq]
    settled = [one for one in _all(stored, last_seq) if isinstance(one, CompactionSettled)]
    is_applied = bool(settled) and settled[0].outcome is CompactionOutcome.APPLIED and settled[0].request <= last_seq
    if not is_applied or not waiting or not all(sent.answer is not None for sent in waiting):
        return ""
    return f"the compaction was made after all, and {len(waiting)} message that had been accepted was answered"


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
    return f"{len(race.outcomes)} gateways asked, {applied} compaction was made, both were told so"


def _flipped(observed: Observations, stored: StoreContents) -> str:
    flip = observed.flip
    if flip is None:
        return ""
    is_found = [one.seq for one in observed.found_after_flip] == [flip.seq]
    mark = next((logged.record for logged in stored.records if logged.seq == flip.seq), None)
    original = next((logged for logged in observed.watched if logged.seq == flip.seq), None)
    kept = [one.body for one in stored.quarantined if one.seq == flip.seq]
    if not is_found or not isinstance(mark, DamageSetAside) or original is None or len(kept) != 1:
        return ""
    if _bits_apart(kept[0], encode_record(original.record)) != 1:
        return ""
    return f"found by doctor in record {flip.seq} alone, and set aside with its bytes as {mark.kept}"


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
        "kill -9 in the middle of a compaction": _killed_in_compaction,
        "restart": _restarted,
        "two processes race for one compaction": _raced,
        "a flipped bit in the store": _flipped,
    }
)


class Figures(msgspec.Struct, frozen=True):
    """The figures at the end. Lists are of sentences, and empty where all is well."""

    sent: int
    answered: int
    # Ended without an answer and with a sentence that says why, as it must be while every model is down.
    told_why: int
    lost: int
    doubled: int
    records: int
    # Records that were told while they were written and are not in the store as they were told, or the other way round.
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
    """Count."""
    losses = [loss_of(sent, observed, stored) for sent in observed.sent]
    lost = [loss for loss in losses if loss]
    compactions = [logged.record for logged in stored.records if isinstance(logged.record, CompactionApplied)]
    figures = Figures(
        sent=len(observed.sent),
        answered=sum(sent.answer is not None for sent in observed.sent),
        told_why=sum(sent.answer is None and bool(sent.reason) for sent in observed.sent),
        lost=len(lost),
        doubled=_doubled(stored),
        records=len(stored.records),
        altered=len(_altered(observed, stored)),
        compactions=len(compactions),
        digests=sum(one.kind is SummaryKind.DIGEST for one in compactions),
        kills=len(observed.killed),
        facts_planted=len(observed.facts),
        facts_recalled=_present(observed.facts, observed.recalled),
        facts_found=_present(observed.facts, observed.searched),
        disasters=disaster_evidence(observed, stored),
        broken=(),
        seconds=round(seconds, 1),
    )
    return msgspec.structs.replace(figures, broken=(*lost, *_broken_promises(figures, observed)))


def loss_of(sent: Sent, observed: Observations, stored: StoreContents) -> str:
    """Return what became of a message that was lost, as a sentence; nothing where it was not."""
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
        return f"{name} is in the store, but not as it was sent"
    if sent.attached and sent.attached not in _whole_attachments(admitted, stored):
        return f"the attachment of {name} is not in the store byte for byte"
    outcomes = [
        logged.record.outcome
        for logged in stored.records
        if isinstance(logged.record, TurnEnded) and logged.record.turn == seq
    ]
    if len(outcomes) != 1:
        return f"{name} has {len(outcomes)} outcomes in the store instead of one"
    if seq != sent.turn:
        return f"{name} was accepted as turn {sent.turn} and is turn {seq} in the store"
    if sent.answer is None:
        return "" if sent.reason and outcomes[0] is Outcome.FAILED else f"{name} was never answered"
    if outcomes[0] is not Outcome.ANSWERED or not _is_answer(sent, observed, stored):
        return f"{name} was answered, and the store does not have that answer"
    return ""


def _whole_attachments(admitted: InputAdmitted, stored: StoreContents) -> set[str]:
    """Return the attachments of a message whose bytes are what their names say."""
    media = [part.blob.sha256 for part in admitted.parts if isinstance(part, Media)]
    contents = [stored.attachments.get(sha256, b"") for sha256 in media]
    return {hashlib.sha256(content).hexdigest() for content in contents}


def _is_answer(sent: Sent, observed: Observations, stored: StoreContents) -> bool:
    """Return whether the store has the answer that the client got; the one that was damaged on purpose counts as had.

    That one is looked at as a disaster: its bytes must be in quarantine.
    """
    answers = [
        logged.record.reply
        for logged in stored.records
        if isinstance(logged.record, ReplyRecorded) and logged.record.turn == sent.turn
    ]
    if answers:
        return text_of(answers[-1].parts) == sent.answer
    flipped = observed.flip.seq if observed.flip is not None else 0
    return any(
        logged.seq == flipped and isinstance(logged.record, ReplyRecorded) and logged.record.turn == sent.turn
        for logged in observed.watched
    )


def _doubled(stored: StoreContents) -> int:
    """Return how many messages stand in the log more often than once, or have more than one outcome."""
    named = Counter(logged.record.client_id for logged in stored.records if isinstance(logged.record, InputAdmitted))
    ended = Counter(logged.record.turn for logged in stored.records if isinstance(logged.record, TurnEnded))
    return sum(times - 1 for times in (*named.values(), *ended.values()))


def _altered(observed: Observations, stored: StoreContents) -> set[int]:
    """Return the records that are not in the store as they were told, apart from the one that was damaged."""
    watched = {logged.seq: logged for logged in observed.watched}
    in_store = {logged.seq: logged for logged in stored.records}
    flipped = {observed.flip.seq} if observed.flip is not None else set()
    return {seq for seq in watched.keys() | in_store.keys() if watched.get(seq) != in_store.get(seq)} - flipped


def _present(facts: dict[str, str], told: dict[str, str]) -> int:
    """Return of how many facts the exact value was told."""
    return sum(value in told.get(name, "") for name, value in facts.items())


def _broken_promises(figures: Figures, observed: Observations) -> Iterator[str]:
    """Yield a sentence for every other promise that did not hold."""
    ends = [sent for sent in observed.sent if bool(sent.answer is None) is not sent.expects_reason]
    if not observed.sent:
        yield "nothing was sent"
    for sent in ends:
        if sent.answer is None and sent.reason:
            yield f"message {sent.client_id} ended without an answer: {sent.reason}"
        elif sent.expects_reason:
            yield f"message {sent.client_id} was answered although every model was down"
    if figures.doubled:
        yield f"{figures.doubled} messages or outcomes stand in the store twice"
    if figures.altered or observed.out_of_order:
        yield (
            f"{figures.altered} records are not in the store as they were told, and {observed.out_of_order} were told "
            "twice or not in order"
        )
    for what, count in (("recalled", figures.facts_recalled), ("found by search", figures.facts_found)):
        if count != figures.facts_planted:
            yield f"{figures.facts_planted - count} of {figures.facts_planted} facts were not {what}"
    if observed.found_at_end is None or observed.found_at_end:
        told = "; ".join(one.what for one in observed.found_at_end or ()) or "it did not look"
        yield f"doctor does not call the store well: {told}"
    for disaster in figures.disasters:
        if not disaster.evidence:
            yield f"nothing shows that it came to this, and was survived: {disaster.name}"


def table(figures: Figures) -> list[tuple[str, str]]:
    """Return the figures as a person reads them."""
    return [
        ("messages sent", str(figures.sent)),
        ("answered", str(figures.answered)),
        ("ended with a reason, every model being down", str(figures.told_why)),
        ("lost", str(figures.lost)),
        ("doubled", str(figures.doubled)),
        ("compactions", f"{figures.compactions}, {figures.digests} of them without a model"),
        ("gateways killed with SIGKILL", str(figures.kills)),
        ("records in the store", f"{figures.records}, {figures.altered} of them not as they were told"),
        ("planted facts recalled by the model", f"{figures.facts_recalled} of {figures.facts_planted}"),
        ("planted facts found by search", f"{figures.facts_found} of {figures.facts_planted}"),
        ("seconds", f"{figures.seconds:g}"),
    ]
