"""What a demo came to: counted from what its client sent and got, and from what the store holds, against each other.

Nothing here believes the gateway. A message counts as answered where the client has the answer, and as lost where the
store and the client do not agree on exactly one outcome of it.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator

import msgspec

from holdfast.cli.demo.caller import Sent
from holdfast.cli.demo.disasters import Shown, shown_disasters
from holdfast.cli.demo.witness import Held, Witness
from holdfast.core.messages import Media, text_of
from holdfast.core.records import CompactionApplied, InputAdmitted, Outcome, ReplyRecorded, SummaryKind, TurnEnded


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
