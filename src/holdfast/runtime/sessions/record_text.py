"""Descriptions of records for people who read or watch a log."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import assert_never

import msgspec

from holdfast.core.limits.prices import Spent, spoken_usd
from holdfast.types.faults import FaultKind, Rung
from holdfast.types.limits import NOTHING_LEARNED
from holdfast.types.messages import LargeText, Media, Part, Reasoning, Text, ToolCall, ToolOutcome, ToolResult
from holdfast.types.records import (
    Abandonment,
    AnswerLinked,
    AnyRecord,
    ApprovalAnswered,
    ApprovalRequested,
    AttemptAbandoned,
    AttemptFailed,
    AttemptStarted,
    BranchSwitched,
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
    MessageAppended,
    MessageExcluded,
    MessagePinned,
    MessagesRetracted,
    NoticePosted,
    Outcome,
    OutputClamped,
    OutputMasked,
    OutputRefused,
    ParameterDropped,
    PartReplaced,
    PayloadStored,
    PieceSummarised,
    ReasoningDropped,
    ReplyRecorded,
    ResultSubmitted,
    RungFinished,
    RungResult,
    RungStarted,
    SegmentSealed,
    SessionConfigured,
    SessionLabelled,
    SessionLinked,
    SummaryRefused,
    ToolInterrupted,
    ToolSettled,
    ToolStarted,
    Trigger,
    TurnEnded,
    TurnStarted,
    UsageRecorded,
    UsageTotalled,
    WindowWarned,
)

FAULTS: Mapping[FaultKind, str] = MappingProxyType(
    {
        FaultKind.TOKEN_OVERFLOW: "the conversation exceeds the model's window",
        FaultKind.WIRE_OVERFLOW: "the request has more bytes than the provider accepts",
        FaultKind.MEDIA_OVERFLOW: "the provider does not accept an image",
        FaultKind.RATE_LIMIT: "the provider limits the request rate",
        FaultKind.QUOTA: "the provider's quota or credit is used up",
        FaultKind.OVERLOADED: "the provider is overloaded",
        FaultKind.TRANSIENT: "the provider could not be reached or failed",
        FaultKind.STREAM_STALL: "the provider went silent",
        FaultKind.AUTH: "the provider does not accept the key",
        FaultKind.MODEL_NOT_FOUND: "the provider does not know the model",
        FaultKind.BAD_REQUEST_REASONING: "the model does not accept the reasoning setting",
        FaultKind.TOOL_PAIRING: "the provider rejects the conversation so far",
        FaultKind.CONTENT_POLICY: "the provider's content filter rejected the request",
        FaultKind.EMPTY_RESPONSE: "the model's answer was empty",
        FaultKind.BAD_REQUEST: "the provider rejected the request",
    }
)
RUNGS: Mapping[Rung, str] = MappingProxyType(
    {
        Rung.BACKOFF: "waiting",
        Rung.RETRY: "retrying",
        Rung.FALLBACK_MODEL: "trying the next model",
        Rung.NEXT_SUMMARISER: "asking the next model for a summary",
        Rung.CLAMP_OUTPUT: "asking for a shorter answer",
        Rung.REPAIR_PAIRS: "pairing tool calls with their results",
        Rung.DROP_REASONING: "leaving out the model's earlier reasoning",
        Rung.CHANGE_EFFORT: "changing the reasoning effort",
        Rung.DROP_PARAMETER: "leaving out a refused parameter",
        Rung.MASK: "masking old tool output, one line each",
        Rung.SUMMARISE: "summarising old messages",
        Rung.SUMMARISE_LESS: "summarising old messages, each truncated",
        Rung.SUMMARISE_PIECES: "summarising old messages, piece by piece",
        Rung.DIGEST: "building a digest of old messages",
        Rung.KEEP_NEWEST: "keeping only the newest message, and a digest of the rest",
        Rung.SHRINK_IMAGE: "shrinking the image that is too large",
        Rung.REPLACE_LARGEST: "replacing the largest part by a placeholder",
        Rung.LEAVE_OUT_UNANSWERED: "leaving out messages that were not answered",
        Rung.LEAVE_OUT_NEW: "leaving out what the model has not read yet",
        Rung.TAKE_BACK: "taking back what was left out in vain",
        Rung.SEND_ANYWAY: "sending it anyway: the estimate may be wrong",
        Rung.ROLL_OVER: "starting a new generation with the newest message, and a digest of all before",
    }
)
OUTCOMES: Mapping[ToolOutcome, str] = MappingProxyType(
    {
        ToolOutcome.DONE: "done",
        ToolOutcome.FAILED: "failed",
        ToolOutcome.TIMED_OUT: "timed out",
        ToolOutcome.CANCELLED: "cancelled",
        ToolOutcome.UNKNOWN: "outcome unknown, and not repeated",
        ToolOutcome.DENIED: "denied by a person, and not run",
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
        RungResult.UNCHANGED: "nothing to change",
        RungResult.INTERRUPTED: "interrupted; nothing changed",
    }
)

# Characters of a placeholder in a description, which fits it into one line of a terminal.
_EXCERPT_CHARS = 100


def describe_rung(record: RungStarted) -> str:
    """Return the fault and the recovery step that starts because of it."""
    waits = f" {record.seconds:.1f} s" if record.rung is Rung.BACKOFF else ""
    why = "a compaction was requested" if record.kind is None else FAULTS[record.kind]
    return f"{why}; {RUNGS[record.rung]}{waits}"


def describe_record(record: AnyRecord) -> str:
    """Return a record as a sentence."""
    match record:
        case InputAdmitted(parts=parts, is_heartbeat=is_heartbeat):
            return f"{'heartbeat' if is_heartbeat else 'you'}: {describe_parts(parts)}"
        case MessageAppended() | PayloadStored() | MessagesRetracted() | BranchSwitched():
            return _appended(record)
        case NoticePosted(sentence=sentence) | WindowWarned(sentence=sentence):
            return f"notice: {sentence}"
        case TurnStarted(turn=turn):
            return f"turn {turn} starts"
        case TurnEnded():
            return _ending(record)
        case AttemptStarted() | ReplyRecorded() | AttemptFailed() | AttemptAbandoned():
            return _attempt(record)
        case ToolStarted() | ToolInterrupted() | ToolSettled():
            return _tool(record)
        case OutputRefused() | ApprovalRequested() | ApprovalAnswered():
            return _question(record)
        case SessionLabelled() | SessionLinked():
            return _labels(record)
        case RungStarted():
            return describe_rung(record)
        case RungFinished(rung=rung, result=result):
            return f"{RUNGS[rung]}: {RESULTS[result]}"
        case CompactionApplied() | GenerationStarted() | SummaryRefused() | PieceSummarised():
            return _compaction(record)
        case ReasoningDropped() | EffortChanged() | OutputClamped() | OutputMasked() | PartReplaced():
            return _view_change(record)
        case ParameterDropped(parameter=parameter):
            return f"the parameter {parameter} is left out or renamed: the model refuses it"
        case DamageSetAside(why=why, kept=kept):
            return f"this record is damaged: {why}" + (f" (its bytes are kept as {kept})" if kept else "")
        case SegmentSealed(first=first, last=last, size=size):
            return f"records {first} to {last} moved into the archive: {size:,} bytes"
        case CompactionRequested() | CompactionUndone() | CompactionSettled():
            return _compaction_request(record)
        case UsageRecorded() | UsageTotalled():
            return _usage(record)
        case _:
            return _request(record)


def _question(record: OutputRefused | ApprovalRequested | ApprovalAnswered) -> str:
    match record:
        case OutputRefused():
            return "the answer is not of the requested type; the model is shown why"
        case ApprovalRequested(name=name, arguments=arguments):
            return f"tool {name} waits for an approval: {_excerpt(arguments)}"
        case ApprovalAnswered(request=request, is_approved=is_approved, note=note):
            said = f": {_excerpt(note)}" if note else ""
            return f"the call of request {request} is {'approved' if is_approved else 'denied'}{said}"
        case _:
            assert_never(record)


def _appended(record: MessageAppended | PayloadStored | MessagesRetracted) -> str:
    match record:
        case MessageAppended(role=role, parts=parts, is_heartbeat=is_heartbeat):
            return f"appended, {'heartbeat' if is_heartbeat else role.value}: {describe_parts(parts)}"
        case PayloadStored(payload=payload):
            size = payload.blob.size_bytes if payload.blob else len(payload.content or payload.text.encode())
            return f"payload {payload.tag} stored: {size:,} bytes"
        case BranchSwitched(after=after):
            return f"the conversation continues from record {after}, the end of another branch"
        case MessagesRetracted(after=after, is_branch=True):
            return f"messages after record {after} are edited or answered again: they become a branch of their own"
        case MessagesRetracted(after=after):
            return f"messages after record {after} are retracted: they leave the view, and the log keeps them"
        case _:
            assert_never(record)


def _learned(record: LimitsLearned) -> str:
    verb = "forgotten" if record.learned == NOTHING_LEARNED else "learned from calls"
    return f"limits of {record.issuer} {verb}"


def _request(
    record: SessionConfigured
    | CancelRequested
    | MessagePinned
    | MessageExcluded
    | ResultSubmitted
    | LimitsLearned
    | AnswerLinked
    | ClientCompacted
    | ClientResumed,
) -> str:
    match record:
        case SessionConfigured():
            return _settings(record)
        case CancelRequested(turn=turn):
            return f"cancel of turn {turn} requested"
        case MessagePinned(pinned=pinned, is_pinned=is_pinned):
            return f"message {pinned} is {'pinned' if is_pinned else 'no longer pinned'}"
        case MessageExcluded():
            return _exclusion(record)
        case ResultSubmitted(result=result):
            return f"a client submits the result of {result.call_id}: {describe_parts(result.parts)}"
        case LimitsLearned():
            return _learned(record)
        case AnswerLinked(session=""):
            return "owner of a provider's id recorded"
        case AnswerLinked(session=session, count=count):
            return f"link to an answer that its client can continue from: message {count} of {session}"
        case ClientCompacted():
            return "a client compacted its own history"
        case ClientResumed(wire_bytes=wire_bytes):
            return f"a client continued after its own compaction, with a request of {wire_bytes:,} bytes"
        case _:
            assert_never(record)


def _usage(record: UsageRecorded | UsageTotalled) -> str:
    if isinstance(record, UsageTotalled):
        return f"usage up to record {record.until:,} totalled"
    model, totals = record.model, record.totals
    tokens = totals.input_tokens + totals.output_tokens
    limited = f", {totals.limited:,} rejected by a limit" if totals.limited else ""
    return (
        f"usage of {model or 'no model'}: {totals.requests:,} requests{limited}, {tokens:,} tokens, ${totals.usd:.4f}"
    )


def _labels(record: SessionLabelled | SessionLinked) -> str:
    if isinstance(record, SessionLinked):
        return f"the tool {record.tool} runs the session {record.session}"
    title = f'title "{record.title}"' if record.title else "no title of its own"
    tags = f", tags {', '.join(record.tags)}" if record.tags else ""
    metadata = "".join(f", {name}={value}" for name, value in record.metadata.items())
    return f"labels: {title}{tags}{metadata}"


def _settings(record: SessionConfigured) -> str:
    system, tools = record.system, record.tools
    text = f"a system text of {len(system):,} characters" if system is not None else "no system text of its own"
    by_client = f", tools run by a client: {', '.join(one.name for one in tools)}" if tools else ""
    own = "" if record.settings is None else f", {msgspec.json.encode(record.settings).decode()}"
    only = "" if record.tool_names is None else f", tools of the process: {', '.join(record.tool_names) or 'none'}"
    return f"settings: model {record.model or 'of the process'}, {text}{by_client}{only}{own}"


def _compaction_request(record: CompactionRequested | CompactionUndone | CompactionSettled) -> str:
    match record:
        case CompactionRequested(trigger=trigger, focus=focus):
            return f"compaction requested ({TRIGGERS[trigger]})" + (f", keeping: {focus}" if focus else "")
        case CompactionUndone(undone=undone, restored=restored):
            start = f"message {restored.boundary}" if restored else "the beginning"
            return f"the compaction in record {undone} was undone; the view starts at {start} again"
        case CompactionSettled(request=request, outcome=outcome, why=why):
            result = outcome.value.replace("_", " ")
            return f"compaction requested in record {request}: {result}" + (f" ({why})" if why else "")
        case _:
            assert_never(record)


def _compaction(record: CompactionApplied | GenerationStarted | SummaryRefused | PieceSummarised) -> str:
    match record:
        case GenerationStarted(generation=generation, boundary=boundary, tokens_before=before, tokens_after=after):
            return (
                f"generation {generation} starts: of all before, the view has only message {boundary} and a digest; "
                f"{before:,} tokens became {after:,}"
            )
        case CompactionApplied(boundary=boundary, kind=kind, tokens_before=before, tokens_after=after):
            return (
                f"compaction: a {kind.value} replaces everything before message {boundary}; "
                f"{before:,} tokens became {after:,}{_cost_and_saving(record)}"
            )
        case SummaryRefused(model=model, why=why):
            cached = ", requested with the cached conversation," if record.is_riding else ""
            return f"the summary by {model}{cached} is rejected: {why}"
        case PieceSummarised(until=until, model=model):
            action = "merged its summaries of" if record.is_merged or record.level else "summarised"
            cached = ", with the cached conversation" if record.is_riding else ""
            return f"{model} {action} everything up to record {until}{_cost(record.cost_usd)}{cached}"
        case _:
            assert_never(record)


def _exclusion(record: MessageExcluded) -> str:
    seq, place = record.excluded, record.place
    what = f"record {seq}" if place is None else f"part {place + 1} of record {seq}"
    return f"{what} is left out: {record.why or 'by request'}" if record.is_excluded else f"{what} is shown again"


def _excerpt(text: str) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= _EXCERPT_CHARS else f"{line[:_EXCERPT_CHARS]}…"


def _view_change(record: ReasoningDropped | EffortChanged | OutputClamped | OutputMasked | PartReplaced) -> str:
    match record:
        case ReasoningDropped(before=seq):
            return f"the model's reasoning before record {seq} is no longer sent"
        case EffortChanged(effort=effort):
            return f"reasoning effort is {effort.value if effort else 'the default'} from here on"
        case OutputClamped(output_tokens_max=most):
            return f"the answer is limited to {most:,} tokens"
        case OutputMasked(before=seq):
            return f"tool output before record {seq} is masked, one line each"
        case PartReplaced(seq=seq, shown=shown, why=why):
            return f"a part of record {seq} is replaced by '{_excerpt(_part(shown))}': {why}"
        case _:
            assert_never(record)


def _attempt(record: AttemptStarted | ReplyRecorded | AttemptFailed | AttemptAbandoned) -> str:
    match record:
        case AttemptStarted(attempt=attempt, model=model, tokens_estimated=tokens):
            return f"attempt {attempt}: asking {model}, about {tokens:,} tokens"
        case ReplyRecorded(reply=reply):
            return f"answer: {describe_parts(reply.parts)}"
        case AttemptFailed(attempt=attempt, refusal=refusal, fault=fault):
            status = f" (status {refusal.status})" if refusal.status is not None else ""
            said = f': "{fault.said}"' if fault.said else ""
            return f"attempt {attempt} failed: {FAULTS[fault.kind]}{status}{said}"
        case AttemptAbandoned(attempt=attempt, reason=reason):
            return f"attempt {attempt} was abandoned: {_ABANDONMENTS[reason]}"
        case _:
            assert_never(record)


def _tool(record: ToolStarted | ToolInterrupted | ToolSettled) -> str:
    match record:
        case ToolStarted(name=name, call_id=call_id, reply=reply) if reply:
            return f"a client is to run tool {name} (intent of {call_id})"
        case ToolStarted(name=name, call_id=call_id):
            return f"tool {name} is about to run (intent of {call_id})"
        case ToolInterrupted(call_id=call_id):
            return f"the process stopped while {call_id} ran; it may run again"
        case ToolSettled(result=result):
            output = describe_parts(result.parts)
            return f"tool result, {OUTCOMES[result.outcome]} (receipt of {result.call_id}): {output}"
        case _:
            assert_never(record)


def _ending(record: TurnEnded) -> str:
    if record.outcome is Outcome.ANSWERED:
        return f"turn {record.turn} ends: answered{_cost(record.cost_usd)}"
    return f"turn {record.turn} ends: {record.outcome.value} ({record.code}). {record.sentence}"


def _cost(usd: float | None) -> str:
    return "" if usd is None else f", for {spoken_usd(usd)}"


def _cost_and_saving(record: CompactionApplied) -> str:
    """Return the cost of a compaction and its saving per request: fewer tokens need not cost less."""
    saves = (
        "" if record.saves_usd is None else f"; each further request costs about {spoken_usd(record.saves_usd)} less"
    )
    return "" if record.cost_usd is None else f", for {spoken_usd(record.cost_usd)}{saves}"


def describe_spend(spent: Spent, on_summaries: Spent) -> str:
    """Return the usage and cost of a session's calls, and the share of its summaries."""
    money = spoken_usd(spent.known_usd)
    if spent.unpriced and spent.known_usd is not None:
        money += f" and {spent.unpriced:,} calls at an unknown price"
    share = f"; {on_summaries.calls:,} of them for summaries, {spoken_usd(on_summaries.known_usd)}"
    read, wrote = spent.input_tokens, spent.output_tokens
    calls = "1 call" if spent.calls == 1 else f"{spent.calls:,} calls"
    return f"{calls}, {read:,} tokens read and {wrote:,} written, {money}{share if on_summaries.calls else ''}"


def describe_parts(parts: Iterable[Part]) -> str:
    """Return the parts of a message as text, with a placeholder for each other type."""
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
            return f"[result, {OUTCOMES[outcome]}: {describe_parts(inner)}]"
        case Reasoning(text=text):
            return f"[thinks: {text or 'hidden'}]"
        case _:
            assert_never(part)
