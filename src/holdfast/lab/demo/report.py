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
from holdfast.lab.demo.client import Sent, Witness
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


class Held(NamedTuple):
    """What the store holds of the session, read from its files by nobody who wrote them."""

    records: list[Logged]
    quarantined: list[Quarantined]
    # The attachments that the messages name, by their SHA-256.
    attachments: dict[str, bytes]


async def read_store(path: Path, key: str) -> Held:
    """Read a session from the files of a store, without writing to them."""
    view, archive = SqliteView(path), open_archive(None, path)
    store: Store = view if archive is None else ArchivedStore(view, archive)
    try:
        if await store.info(key) is None:
            return Held([], [], {})
        records = await store.read(key)
        blobs = FolderBlobs(beside(path, "-blobs"))
        inputs = [logged.record for logged in records if isinstance(logged.record, InputAdmitted)]
        media = [part for one in inputs for part in one.parts if isinstance(part, Media)]
        attachments = {part.blob.sha256: await blobs.get(part.blob) for part in media}
        return Held(records, await store.quarantine(key), attachments)
    finally:
        await store.close()


# --- What shows, afterwards, that each disaster really happened and was survived: read from the log, not …


_KILLED = -9


class Shown(msgspec.Struct, frozen=True):
    """A disaster and what shows that it happened and was survived; no evidence: nothing does."""

    name: str
    evidence: str


def shown_disasters(witness: Witness, held: Held) -> tuple[Shown, ...]:
    """Return what there is to show of every disaster."""
    return tuple(Shown(name, look(witness, held)) for name, look in DISASTERS.items())


def _all(held: Held, after: int = 0) -> Iterator[AnyRecord]:
    return (logged.record for logged in held.records if logged.seq > after)


def _past_the_window(witness: Witness, held: Held) -> str:
    asked = [tokens_of_text(text_of(one.parts)) for one in _all(held) if isinstance(one, InputAdmitted)]
    said = [tokens_of_text(text_of(one.reply.parts)) for one in _all(held) if isinstance(one, ReplyRecorded)]
    applied = [one for one in _all(held) if isinstance(one, CompactionApplied) and one.kind is SummaryKind.SUMMARY]
    tokens = sum(asked) + sum(said)
    if not applied or tokens <= witness.window_tokens:
        return ""
    return f"about {tokens:,} tokens were said through a window of {witness.window_tokens:,}"


def _summariser_refused(_: Witness, held: Held) -> str:
    refused = [one for one in _all(held) if isinstance(one, SummaryRefused) and one.fault is not None]
    digests = [one for one in _all(held) if isinstance(one, CompactionApplied) and one.kind is SummaryKind.DIGEST]
    if not refused or not digests:
        return ""
    before, after = digests[0].tokens_before, digests[0].tokens_after
    return f"{len(refused)} summaries were refused, a digest stood in: {before:,} tokens became {after:,}"


def _rate_limits(_: Witness, held: Held) -> str:
    faults = [one.fault for one in _all(held) if isinstance(one, AttemptFailed)]
    waits = [fault.retry_after_seconds for fault in faults if fault.kind is FaultKind.RATE_LIMIT]
    waited = [one.seconds for one in _all(held) if isinstance(one, RungStarted) and one.kind is FaultKind.RATE_LIMIT]
    asked = [seconds for seconds in waits if seconds is not None]
    if not asked or len(waited) < len(asked) or sum(waited) < sum(asked):
        return ""
    return f"429 came {len(asked)} times and asked for {sum(asked):g} s; {sum(waited):.1f} s were waited"


def _models_down(witness: Witness, held: Held) -> str:
    down = next((sent for sent in witness.sent if sent.expects_reason), None)
    if down is None or not down.reason:
        return ""
    models = {one.model for one in _all(held) if isinstance(one, AttemptStarted) and one.turn == down.turn}
    codes = [one.code for one in _all(held) if isinstance(one, TurnEnded) and one.turn == down.turn]
    later = any(sent.answer is not None for sent in witness.sent if sent.turn > down.turn)
    if len(models) < 2 or codes != [FaultKind.TRANSIENT.value] or not later:  # noqa: PLR2004 - both models
        return ""
    return f"{len(models)} models tried, the turn ended with the code {codes[0]}, the next message was answered"


def _large_image(_: Witness, held: Held) -> str:
    replaced = {one.seq: one for one in _all(held) if isinstance(one, PartReplaced)}
    inputs = [logged for logged in held.records if logged.seq in replaced]
    media = [part for one in inputs if isinstance(one.record, InputAdmitted) for part in one.record.parts]
    kept = [part.blob for part in media if isinstance(part, Media) and part.blob.sha256 in held.attachments]
    if not kept:
        return ""
    shown = "smaller" if isinstance(replaced[inputs[0].seq].shown, Media) else "as a line that says what it was"
    return f"{kept[0].size_bytes:,} bytes were kept, and the model was shown it {shown}"


def _killed_in_compaction(witness: Witness, held: Held) -> str:
    for exit_code, last_seq in witness.killed:
        before = [logged.record for logged in held.records if logged.seq <= last_seq]
        steps = [one for one in before if isinstance(one, RungStarted | RungFinished)]
        after = next((one for one in _all(held, last_seq) if isinstance(one, RungFinished)), None)
        is_open = bool(steps) and isinstance(steps[-1], RungStarted) and steps[-1].rung in SUMMARIES
        is_closed = after is not None and after.result is RungResult.INTERRUPTED
        if exit_code == _KILLED and is_open and is_closed:
            return f"the log ended with a summary begun (record {last_seq}), which the next start closed as interrupted"
    return ""


def _restarted(witness: Witness, held: Held) -> str:
    if not witness.killed:
        return ""
    _, last_seq = witness.killed[0]
    waiting = [sent for sent in witness.sent if 0 < sent.turn <= last_seq and _ended_at(sent.turn, held) > last_seq]
    settled = [one for one in _all(held, last_seq) if isinstance(one, CompactionSettled)]
    is_applied = bool(settled) and settled[0].outcome is CompactionOutcome.APPLIED and settled[0].request <= last_seq
    if not is_applied or not waiting or not all(sent.answer is not None for sent in waiting):
        return ""
    return f"the compaction was made after all, and {len(waiting)} message that had been accepted was answered"


def _ended_at(turn: int, held: Held) -> int:
    return next((one.seq for one in held.records if isinstance(one.record, TurnEnded) and one.record.turn == turn), 0)


def _raced(witness: Witness, held: Held) -> str:
    race = witness.race
    if race is None:
        return ""
    within = [logged.record for logged in held.records if race.after < logged.seq <= race.until]
    applied = sum(isinstance(one, CompactionApplied) for one in within)
    settled = [one.outcome for one in within if isinstance(one, CompactionSettled)]
    if applied != 1 or settled != list(race.outcomes) or set(settled) != {CompactionOutcome.APPLIED}:
        return ""
    return f"{len(race.outcomes)} gateways asked, {applied} compaction was made, both were told so"


def _flipped(witness: Witness, held: Held) -> str:
    flip = witness.flip
    if flip is None:
        return ""
    is_found = [one.seq for one in witness.found_after_flip] == [flip.seq]
    mark = next((logged.record for logged in held.records if logged.seq == flip.seq), None)
    original = next((logged for logged in witness.watched if logged.seq == flip.seq), None)
    kept = [one.body for one in held.quarantined if one.seq == flip.seq]
    if not is_found or not isinstance(mark, DamageSetAside) or original is None or len(kept) != 1:
        return ""
    if _bits_apart(kept[0], encode_record(original.record)) != 1:
        return ""
    return f"found by doctor in record {flip.seq} alone, and set aside with its bytes as {mark.kept}"


def _bits_apart(one: bytes, other: bytes) -> int:
    if len(one) != len(other):
        return max(len(one), len(other)) * 8
    return sum((a ^ b).bit_count() for a, b in zip(one, other, strict=True))


DISASTERS: Mapping[str, Callable[[Witness, Held], str]] = MappingProxyType(
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
    disasters: tuple[Shown, ...]
    broken: tuple[str, ...]
    seconds: float


def reckon(witness: Witness, held: Held, seconds: float) -> Figures:
    """Count."""
    fates = [fate_of(sent, witness, held) for sent in witness.sent]
    lost = [fate for fate in fates if fate]
    compactions = [logged.record for logged in held.records if isinstance(logged.record, CompactionApplied)]
    figures = Figures(
        sent=len(witness.sent),
        answered=sum(sent.answer is not None for sent in witness.sent),
        told_why=sum(sent.answer is None and bool(sent.reason) for sent in witness.sent),
        lost=len(lost),
        doubled=_doubled(held),
        records=len(held.records),
        altered=len(_altered(witness, held)),
        compactions=len(compactions),
        digests=sum(one.kind is SummaryKind.DIGEST for one in compactions),
        kills=len(witness.killed),
        facts_planted=len(witness.facts),
        facts_recalled=_present(witness.facts, witness.recalled),
        facts_found=_present(witness.facts, witness.searched),
        disasters=shown_disasters(witness, held),
        broken=(),
        seconds=round(seconds, 1),
    )
    return msgspec.structs.replace(figures, broken=(*lost, *_broken(figures, witness)))


def fate_of(sent: Sent, witness: Witness, held: Held) -> str:
    """Return what became of a message that was lost, as a sentence; nothing where it was not."""
    name = f"message {sent.client_id}"
    found = [
        (logged.seq, logged.record)
        for logged in held.records
        if isinstance(logged.record, InputAdmitted) and logged.record.client_id == sent.client_id
    ]
    if not found:
        return f"{name} is not in the store"
    seq, admitted = found[0]
    if text_of(admitted.parts) != sent.text:
        return f"{name} is in the store, but not as it was sent"
    if sent.attached and sent.attached not in _whole_attachments(admitted, held):
        return f"the attachment of {name} is not in the store byte for byte"
    outcomes = [
        logged.record.outcome
        for logged in held.records
        if isinstance(logged.record, TurnEnded) and logged.record.turn == seq
    ]
    if len(outcomes) != 1:
        return f"{name} has {len(outcomes)} outcomes in the store instead of one"
    if seq != sent.turn:
        return f"{name} was accepted as turn {sent.turn} and is turn {seq} in the store"
    if sent.answer is None:
        return "" if sent.reason and outcomes[0] is Outcome.FAILED else f"{name} was never answered"
    if outcomes[0] is not Outcome.ANSWERED or not _is_answer(sent, witness, held):
        return f"{name} was answered, and the store does not have that answer"
    return ""


def _whole_attachments(admitted: InputAdmitted, held: Held) -> set[str]:
    """Return the attachments of a message whose bytes are what their names say."""
    media = [part.blob.sha256 for part in admitted.parts if isinstance(part, Media)]
    contents = [held.attachments.get(sha256, b"") for sha256 in media]
    return {hashlib.sha256(content).hexdigest() for content in contents}


def _is_answer(sent: Sent, witness: Witness, held: Held) -> bool:
    """Return whether the store has the answer that the client got; the one that was damaged on purpose counts as had.

    That one is looked at as a disaster: its bytes must be in quarantine.
    """
    answers = [
        logged.record.reply
        for logged in held.records
        if isinstance(logged.record, ReplyRecorded) and logged.record.turn == sent.turn
    ]
    if answers:
        return text_of(answers[-1].parts) == sent.answer
    flipped = witness.flip.seq if witness.flip is not None else 0
    return any(
        logged.seq == flipped and isinstance(logged.record, ReplyRecorded) and logged.record.turn == sent.turn
        for logged in witness.watched
    )


def _doubled(held: Held) -> int:
    """Return how many messages stand in the log more often than once, or have more than one outcome."""
    named = Counter(logged.record.client_id for logged in held.records if isinstance(logged.record, InputAdmitted))
    ended = Counter(logged.record.turn for logged in held.records if isinstance(logged.record, TurnEnded))
    return sum(times - 1 for times in (*named.values(), *ended.values()))


def _altered(witness: Witness, held: Held) -> set[int]:
    """Return the records that are not in the store as they were told, apart from the one that was damaged."""
    watched = {logged.seq: logged for logged in witness.watched}
    stored = {logged.seq: logged for logged in held.records}
    flipped = {witness.flip.seq} if witness.flip is not None else set()
    return {seq for seq in watched.keys() | stored.keys() if watched.get(seq) != stored.get(seq)} - flipped


def _present(facts: dict[str, str], told: dict[str, str]) -> int:
    """Return of how many facts the exact value was told."""
    return sum(value in told.get(name, "") for name, value in facts.items())


def _broken(figures: Figures, witness: Witness) -> Iterator[str]:
    """Yield a sentence for every other promise that did not hold."""
    ends = [sent for sent in witness.sent if bool(sent.answer is None) is not sent.expects_reason]
    if not witness.sent:
        yield "nothing was sent"
    for sent in ends:
        if sent.answer is None and sent.reason:
            yield f"message {sent.client_id} ended without an answer: {sent.reason}"
        elif sent.expects_reason:
            yield f"message {sent.client_id} was answered although every model was down"
    if figures.doubled:
        yield f"{figures.doubled} messages or outcomes stand in the store twice"
    if figures.altered or witness.misplaced:
        yield (
            f"{figures.altered} records are not in the store as they were told, and {witness.misplaced} were told "
            "twice or not in order"
        )
    for what, count in (("recalled", figures.facts_recalled), ("found by search", figures.facts_found)):
        if count != figures.facts_planted:
            yield f"{figures.facts_planted - count} of {figures.facts_planted} facts were not {what}"
    if witness.found_at_end is None or witness.found_at_end:
        told = "; ".join(one.what for one in witness.found_at_end or ()) or "it did not look"
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
