"""Records in plain words, for people who read a log or look on while it is written."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import assert_never

from holdfast.core.limits.prices import Spent, spoken_usd
from holdfast.types.faults import FaultKind, Rung
from holdfast.types.messages import LargeText, Media, Part, Reasoning, Text, ToolCall, ToolOutcome, ToolResult
from holdfast.types.records import (
    Abandonment,
    AnswerLinked,
    AnyRecord,
    AttemptAbandoned,
    AttemptFailed,
    AttemptStarted,
    CancelRequested,
    ClientCompacted,
    ClientResumed,
    CompactionApplied,
    CompactionRequested,
    CompactionSettled,
    CompactionUndone,
    DamageSetAside,
    EffortChanged,
    GenerationStarted,
    InputAdmitted,
    LimitsLearned,
    MessagePinned,
    NoticePosted,
    Outcome,
    OutputClamped,
    OutputMasked,
    PartReplaced,
    PieceSummarised,
    ReasoningDropped,
    ReplyRecorded,
    ResultSubmitted,
    RungFinished,
    RungResult,
    RungStarted,
    SegmentSealed,
    SessionConfigured,
    SummaryRefused,
    ToolInterrupted,
    ToolSettled,
    ToolStarted,
    Trigger,
    TurnEnded,
    TurnStarted,
    WindowWarned,
)

FAULTS: Mapping[FaultKind, str] = MappingProxyType(
    {
        FaultKind.TOKEN_OVERFLOW: "the conversation exceeds the model's window",
        FaultKind.WIRE_OVERFLOW: "the request has more bytes than the provider takes",
        FaultKind.MEDIA_OVERFLOW: "the provider does not take an image",
        FaultKind.RATE_LIMIT: "the provider limits how often it is asked",
        FaultKind.QUOTA: "the provider's quota or credit is used up",
        FaultKind.OVERLOADED: "the provider is overloaded",
        FaultKind.TRANSIENT: "the provider could not be reached or failed",
        FaultKind.STREAM_STALL: "the provider went silent",
        FaultKind.AUTH: "the provider does not accept the key",
        FaultKind.MODEL_NOT_FOUND: "the provider does not know the model",
        FaultKind.BAD_REQUEST_REASONING: "the model does not take the reasoning setting",
        FaultKind.TOOL_PAIRING: "the provider refuses to read the conversation so far",
        FaultKind.CONTENT_POLICY: "the provider's content filter refused",
        FaultKind.EMPTY_RESPONSE: "the model answered nothing",
        FaultKind.BAD_REQUEST: "the provider refused the request",
    }
)
RUNGS: Mapping[Rung, str] = MappingProxyType(
    {
        Rung.BACKOFF: "waiting",
        Rung.RETRY: "trying again",
        Rung.FALLBACK_MODEL: "trying the next model",
        Rung.NEXT_SUMMARISER: "asking the next model for a summary",
        Rung.CLAMP_OUTPUT: "asking for a shorter answer",
        Rung.DROP_REASONING: "sending none of the model's earlier thinking back",
        Rung.CHANGE_EFFORT: "asking for another amount of thinking",
        Rung.MASK: "showing old tool output by a line each",
        Rung.SUMMARISE: "summarising what is old",
        Rung.SUMMARISE_LESS: "summarising what is old, with less of each message",
        Rung.SUMMARISE_PIECES: "summarising what is old, piece by piece",
        Rung.DIGEST: "making a digest of what is old",
        Rung.KEEP_NEWEST: "keeping only the newest message, and a digest of the rest",
        Rung.SHRINK_IMAGE: "showing the image that is too large smaller",
        Rung.REPLACE_LARGEST: "showing the largest part by a line that says what it was",
        Rung.SEND_ANYWAY: "sending it anyway: the estimate may be wrong",
        Rung.ROLL_OVER: "beginning a new generation with the newest message, and a digest of all before",
    }
)
OUTCOMES: Mapping[ToolOutcome, str] = MappingProxyType(
    {
        ToolOutcome.DONE: "done",
        ToolOutcome.FAILED: "failed",
        ToolOutcome.TIMED_OUT: "ran out of time",
        ToolOutcome.CANCELLED: "cancelled",
        ToolOutcome.UNKNOWN: "outcome unknown, and not repeated",
    }
)
_ABANDONMENTS: Mapping[Abandonment, str] = MappingProxyType(
    {
        Abandonment.INTERRUPTED: "the process stopped",
        Abandonment.CANCELLED: "it was cancelled",
        Abandonment.STORE_FULL: "the disk was full",
    }
)

TRIGGERS: Mapping[Trigger, str] = MappingProxyType(
    {
        Trigger.PERSON: "by a person",
        Trigger.AHEAD: "ahead of need",
        Trigger.DEBT: "to replace a digest",
    }
)
RESULTS: Mapping[RungResult, str] = MappingProxyType(
    {
        RungResult.CHANGED: "done",
        RungResult.UNCHANGED: "there was nothing to change",
        RungResult.INTERRUPTED: "interrupted half-way; nothing changed",
    }
)

# Of a part that stands for another one, as much as a line of a terminal has beside the rest.
_GLIMPSE_CHARS = 100


def climbing(record: RungStarted) -> str:
    """Say why something is being tried, and what."""
    waits = f" {record.seconds:.1f} s" if record.rung is Rung.BACKOFF else ""
    why = "a compaction was asked for" if record.kind is None else FAULTS[record.kind]
    return f"{why}; {RUNGS[record.rung]}{waits}"


def spoken(record: AnyRecord) -> str:
    """Say what a record says."""
    match record:
        case InputAdmitted(parts=parts):
            return f"you: {in_words(parts)}"
        case NoticePosted(sentence=sentence) | WindowWarned(sentence=sentence):
            return f"notice: {sentence}"
        case TurnStarted(turn=turn):
            return f"turn {turn} begins"
        case TurnEnded():
            return _ending(record)
        case AttemptStarted() | ReplyRecorded() | AttemptFailed() | AttemptAbandoned():
            return _attempt(record)
        case ToolStarted() | ToolInterrupted() | ToolSettled():
            return _tool(record)
        case RungStarted():
            return climbing(record)
        case RungFinished(rung=rung, result=result):
            return f"{RUNGS[rung]}: {RESULTS[result]}"
        case CompactionApplied() | GenerationStarted() | SummaryRefused() | PieceSummarised():
            return _compaction(record)
        case ReasoningDropped() | EffortChanged() | OutputClamped() | OutputMasked() | PartReplaced():
            return _change_of_view(record)
        case DamageSetAside(why=why, kept=kept):
            return f"what stood here is damaged: {why}" + (f" (its bytes are kept as {kept})" if kept else "")
        case SegmentSealed(first=first, last=last, size=size):
            return f"records {first} to {last} moved into the archive: {size:,} bytes"
        case _:
            return _wish(record)


def _wish(
    record: SessionConfigured
    | CancelRequested
    | CompactionRequested
    | CompactionUndone
    | CompactionSettled
    | MessagePinned
    | ResultSubmitted
    | LimitsLearned
    | AnswerLinked
    | ClientCompacted
    | ClientResumed,
) -> str:
    match record:
        case SessionConfigured(model=model, system=system, tools=tools):
            told = f"a system text of {len(system):,} characters" if system is not None else "no system text of its own"
            by_client = f", tools run by a client: {', '.join(one.name for one in tools)}" if tools else ""
            return f"settings: model {model or 'as the process is set up'}, {told}{by_client}"
        case CancelRequested(turn=turn):
            return f"asked to cancel turn {turn}"
        case CompactionRequested(trigger=trigger, focus=focus):
            return f"asked for a compaction ({TRIGGERS[trigger]})" + (f", keeping: {focus}" if focus else "")
        case CompactionUndone(undone=undone, restored=restored):
            then = f"as since message {restored.boundary}" if restored else "word for word"
            return f"what record {undone} made of the view was undone; the past is shown {then} again"
        case CompactionSettled(request=request, outcome=outcome, why=why):
            told = outcome.value.replace("_", " ")
            return f"the compaction asked for in record {request}: {told}" + (f" ({why})" if why else "")
        case MessagePinned(pinned=pinned, is_pinned=is_pinned):
            return f"message {pinned} is {'pinned' if is_pinned else 'no longer pinned'}"
        case ResultSubmitted(result=result):
            return f"a client reports the result of {result.call_id}: {in_words(result.parts)}"
        case LimitsLearned(issuer=issuer):
            return f"learned from calls what {issuer} accepts"
        case AnswerLinked(session=session, count=count):
            return f"an answer that its client may go on from: message {count} of {session}"
        case ClientCompacted():
            return "a client compacted its own history"
        case ClientResumed(wire_bytes=wire_bytes):
            return f"a client continued after its own compaction, with a request of {wire_bytes:,} bytes"
        case _:
            assert_never(record)


def _compaction(record: CompactionApplied | GenerationStarted | SummaryRefused | PieceSummarised) -> str:
    match record:
        case GenerationStarted(generation=generation, boundary=boundary, tokens_before=before, tokens_after=after):
            return (
                f"generation {generation} begins: of everything before, only message {boundary} and a digest are in "
                f"the view; {before:,} tokens became {after:,}"
            )
        case CompactionApplied(boundary=boundary, kind=kind, tokens_before=before, tokens_after=after):
            return (
                f"compaction: everything before message {boundary} is represented by a {kind.value}; "
                f"{before:,} tokens became {after:,}{_paid(record)}"
            )
        case SummaryRefused(model=model, why=why):
            riding = " behind the conversation" if record.is_riding else ""
            return f"the summary that {model} was asked for{riding} cannot be used: {why}"
        case PieceSummarised(until=until, model=model, is_merged=is_merged):
            wrote = "merged its" if is_merged else "wrote"
            riding = ", behind the conversation as it was last sent" if record.is_riding else ""
            return f"{model} {wrote} notes on everything up to record {until}{_for(record.cost_usd)}{riding}"
        case _:
            assert_never(record)


def _glimpse(text: str) -> str:
    """Return enough of a text to know it by, on one line."""
    whole = " ".join(text.split())
    return whole if len(whole) <= _GLIMPSE_CHARS else f"{whole[:_GLIMPSE_CHARS]}…"


def _change_of_view(record: ReasoningDropped | EffortChanged | OutputClamped | OutputMasked | PartReplaced) -> str:
    match record:
        case ReasoningDropped(before=seq):
            return f"the model's thinking before record {seq} is not sent back any more"
        case EffortChanged(effort=effort):
            return f"asking for {effort.value if effort else 'the usual amount of'} thinking from here on"
        case OutputClamped(output_tokens_max=most):
            return f"asking for an answer of at most {most:,} tokens"
        case OutputMasked(before=seq):
            return f"tool output before record {seq} is shown by a line each"
        case PartReplaced(seq=seq, shown=shown, why=why):
            return f"a part of record {seq} is shown as '{_glimpse(_part(shown))}': {why}"
        case _:
            assert_never(record)


def _attempt(record: AttemptStarted | ReplyRecorded | AttemptFailed | AttemptAbandoned) -> str:
    match record:
        case AttemptStarted(attempt=attempt, model=model, tokens_estimated=tokens):
            return f"attempt {attempt}: asking {model}, about {tokens:,} tokens"
        case ReplyRecorded(reply=reply):
            return f"answer: {in_words(reply.parts)}"
        case AttemptFailed(attempt=attempt, refusal=refusal, fault=fault):
            status = f" (status {refusal.status})" if refusal.status is not None else ""
            said = f': "{fault.said}"' if fault.said else ""
            return f"attempt {attempt} failed: {FAULTS[fault.kind]}{status}{said}"
        case AttemptAbandoned(attempt=attempt, reason=reason):
            return f"attempt {attempt} was given up: {_ABANDONMENTS[reason]}"
        case _:
            assert_never(record)


def _tool(record: ToolStarted | ToolInterrupted | ToolSettled) -> str:
    match record:
        case ToolStarted(name=name, call_id=call_id, reply=reply) if reply:
            return f"a client is to run tool {name} (intent of {call_id})"
        case ToolStarted(name=name, call_id=call_id):
            return f"tool {name} is about to run (intent of {call_id})"
        case ToolInterrupted(call_id=call_id):
            return f"the process stopped while {call_id} ran; it may be started again"
        case ToolSettled(result=result):
            return f"tool result, {OUTCOMES[result.outcome]} (receipt of {result.call_id}): {in_words(result.parts)}"
        case _:
            assert_never(record)


def _ending(record: TurnEnded) -> str:
    if record.outcome is Outcome.ANSWERED:
        return f"turn {record.turn} ends: answered{_for(record.cost_usd)}"
    return f"turn {record.turn} ends: {record.outcome.value} ({record.code}). {record.sentence}"


def _for(usd: float | None) -> str:
    return "" if usd is None else f", for {spoken_usd(usd)}"


def _paid(record: CompactionApplied) -> str:
    """Say both what a compaction cost and what it saves: fewer tokens need not be less money."""
    saves = (
        "" if record.saves_usd is None else f"; each further request costs about {spoken_usd(record.saves_usd)} less"
    )
    return "" if record.cost_usd is None else f", for {spoken_usd(record.cost_usd)}{saves}"


def spending(spent: Spent, on_notes: Spent) -> str:
    """Say what the calls of a session came to, and how much of it was for summaries."""
    money = spoken_usd(spent.known_usd)
    if spent.unpriced and spent.known_usd is not None:
        money += f" and {spent.unpriced:,} calls at an unknown price"
    of_it = f"; {on_notes.calls:,} of them for summaries, {spoken_usd(on_notes.known_usd)}" if on_notes.calls else ""
    read, wrote = spent.input_tokens, spent.output_tokens
    calls = "1 call" if spent.calls == 1 else f"{spent.calls:,} calls"
    return f"{calls}, {read:,} tokens read and {wrote:,} written, {money}{of_it}"


def in_words(parts: Iterable[Part]) -> str:
    """Return the parts of a message as text; what is not text is named."""
    return "\n".join(_part(part) for part in parts) or "(nothing)"


def _part(part: Part) -> str:
    match part:
        case Text(text=text):
            return text
        case LargeText(blob=blob, head=head, name=name):
            return f"{head}…\n[text {name or blob.sha256[:12]}, {blob.size_bytes:,} bytes in all]"
        case Media(blob=blob, media_type=media_type, name=name):
            return f"[{media_type} {name or blob.sha256[:12]}, {blob.size_bytes:,} bytes]"
        case ToolCall(name=name, arguments=arguments):
            return f"[calls {name} {arguments}]"
        case ToolResult(outcome=outcome, parts=inner):
            return f"[result, {OUTCOMES[outcome]}: {in_words(inner)}]"
        case Reasoning(text=text):
            return f"[thinks: {text or 'hidden'}]"
        case _:
            assert_never(part)
