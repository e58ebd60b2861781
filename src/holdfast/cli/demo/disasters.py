"""What shows, afterwards, that each disaster really happened and was survived: read from the log, not from the script.

A disaster that left no trace proves nothing, so the demo that could not bring it about has failed.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import msgspec

from holdfast.cli.demo.witness import Held, Witness
from holdfast.core.faults import FaultKind
from holdfast.core.ladder import SUMMARIES
from holdfast.core.messages import Media, text_of
from holdfast.core.records import (
    AnyRecord,
    AttemptFailed,
    AttemptStarted,
    CompactionApplied,
    CompactionOutcome,
    CompactionSettled,
    DamageSetAside,
    InputAdmitted,
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
from holdfast.core.sizing import tokens_of_text

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
