"""One record of every type with every field set, and one with nothing set but the required fields."""

from holdfast.types.accounts import OwnRequest, Saved, UsageRow, UsageTotals
from holdfast.types.faults import Confidence, Fault, FaultKind, Phase, Refusal, Rung, Unit
from holdfast.types.limits import Budgets, Calibration, Claim, Evidence, Learned, Observation, Support
from holdfast.types.messages import (
    Effort,
    LargeText,
    Media,
    Payload,
    Reasoning,
    Reply,
    Role,
    StopReason,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
    ToolSpec,
    Usage,
)
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
    CompactionOutcome,
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
    SummaryKind,
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
from holdfast.types.settings import OutputSpec, Settings
from tests.golden.blobs import NOTES_REF, PICTURE_REF

# Every kind of text that JSON may spell in more than one way.
_WORDS = 'Depth "20 m" \\ tab\there\nÄnderung 深さ 🚢 </b> \u2028 \x7f \x00'

_TOTALS = UsageTotals(5, 1, 4, 1_200, 340, 800, 0.25, 2, Saved(3, 1, -1_200, 340, -8, -0.25, 0.125))
_OWN = OwnRequest(2_400, 900, 800, 0.0125, is_refused=True, is_added=True)
_USAGE = Usage(1_200, 340, 800, 90, 256)
_TEXT = Text(_WORDS)
_LARGE = LargeText(NOTES_REF, "Sounding 01", "soundings.txt")
_MEDIA = Media(PICTURE_REF, "image/png", "chart.png", 2, 1)
_CALL = ToolCall("call-1", "sound", '{"at": "harbour"}')
_REASONING = Reasoning("First the depth.", "anthropic:https://api.example/v1:deep", "c2lnbmF0dXJl")
_RESULT = ToolResult("call-1", (_TEXT, _LARGE, _MEDIA), ToolOutcome.TIMED_OUT, (NOTES_REF, PICTURE_REF))
_REPLY = Reply((_REASONING, _TEXT, _CALL), StopReason.TOOL_CALLS, _USAGE, "test:deep")
_BUDGETS = Budgets(1_500, 8_192, 64_000, 1_048_576, 2, 20)
_REFUSAL = Refusal(
    "openai-chat",
    Phase.STREAM,
    429,
    {"retry-after": "7", "x-request-id": "r-1"},
    '{"error":{"message":"slow down"}}',
    "connection reset",
    PICTURE_REF.sha256,
)
_FAULT = Fault(
    FaultKind.RATE_LIMIT,
    Confidence.LIKELY,
    FaultKind.QUOTA,
    8_192,
    9_000,
    Unit.TOKENS,
    7.5,
    "slow down",
    1_024,
    PICTURE_REF.sha256,
    "max_tokens",
)
_LEARNED = Learned(
    8_192,
    1_048_576,
    20,
    500_000,
    2_000,
    4_096,
    reports_all_read=False,
    counts_output=True,
    accepted_tokens=7_000,
    accepted_wire_bytes=90_000,
    calibration=Calibration(1.25, 12.5, 0.0625, 9, 1, (0.5, 1.5, 2.5, 3.5, 4.5)),
    claims=(
        Claim(
            "window_tokens",
            8_192,
            Evidence.STATED,
            1_800_000_000.0,
            1_800_000_100.0,
            2,
            1,
            3,
            (Support("telegram:42", 17),),
            "at most 8192 tokens",
        ),
    ),
    observations=(Observation(Evidence.OBSERVED, 8_000, 600, Support("telegram:42", 15)),),
)
_COMPACTION = CompactionApplied(
    4, 9, _WORDS, 7_000, 900, SummaryKind.SUMMARY, "test:deep", 11, 3, cost_usd=0.0125, saves_usd=0.002, unread=5
)
_GENERATION = GenerationStarted(
    4,
    9,
    "A digest.",
    7_000,
    900,
    SummaryKind.SUMMARY,
    "test:deep",
    11,
    3,
    cost_usd=0.0125,
    saves_usd=0.002,
    unread=5,
    generation=5,
    left=3,
    pins_left=(1, 4),
)

_SETTINGS = Settings(
    temperature=0.5,
    top_p=0.9,
    stop=("END",),
    seed=7,
    output_tokens_max=1_000,
    tool_choice="required",
    parallel_tool_calls=False,
    effort="low",
    verbosity="high",
    service_tier="flex",
    metadata={"team": "north"},
    extra={"top_k": 4, "nested": {"a": [1, None, True]}},
)

# Inbox.
_ASKED: tuple[AnyRecord, ...] = (
    SessionConfigured(
        "test:deep",
        "Be brief.",
        (ToolSpec("sound", "Sound the depth.", '{"type":"object"}'),),
        _SETTINGS,
        ("sound", "steer"),
        "pilot",
        is_return=True,
    ),
    InputAdmitted((_TEXT, _LARGE, _MEDIA), "message-1", 12, (NOTES_REF,), _SETTINGS, OutputSpec("place", "{}")),
    CancelRequested(4),
    CompactionRequested(Trigger.DEBT, "the depths", 17),
    MessagePinned(4, is_pinned=False),
    MessageExcluded(5, 1, is_excluded=False, turn=4, why="content_policy"),
    ResultSubmitted(4, 6, _RESULT),
    ApprovalAnswered(4, 9, is_approved=False, note="Not today."),
    LimitsLearned("openai-chat:https://api.example/v1:deep", _LEARNED),
    AnswerLinked(
        "0a" * 16, "dropin:a-1~2", "dropin:a-1", 4, '{"role":"developer","content":"x"}', "0b" * 16, is_held=False
    ),
    ClientCompacted(),
    ClientResumed("0a0b" * 8, 20_480),
    UsageRecorded("deep", _TOTALS),
    UsageTotalled(12, (UsageRow("2026-11-18", "deep", _TOTALS), UsageRow("2026-10", "quick", _TOTALS))),
    CompactionUndone(9, _COMPACTION, 7),
    CompactionUndone(9, _GENERATION, 7),
)
# Work.
_DONE: tuple[AnyRecord, ...] = (
    TurnStarted(4),
    AttemptStarted(4, 2, "test:deep", 1_500, 2_048, _BUDGETS, 1_400),
    ReplyRecorded(
        4,
        2,
        _REPLY,
        13,
        0.00625,
        tokens_suspected=900,
        own_calls=("call-1",),
        said_before="I look.",
        own_request=_OWN,
    ),
    AttemptFailed(4, 2, _REFUSAL, _FAULT, _USAGE, 0.00125, is_relayed=True),
    AttemptAbandoned(4, 2, Abandonment.STORE_FULL),
    ToolStarted(4, "call-1", "sound", is_idempotent=True, reply=6),
    ToolInterrupted(4, "call-1"),
    ToolSettled(4, _RESULT, 14, (_WORDS, "[the next line occurs 40 times in a row]")),
    TurnEnded(4, Outcome.FAILED, "rate_limit", "Wait a minute, then send it again.", 0.0075),
)
# Views.
_CHANGED: tuple[AnyRecord, ...] = (
    PieceSummarised(
        4,
        9,
        "Notes.",
        "test:deep",
        _USAGE,
        3,
        "the depths",
        is_merged=True,
        cost_usd=0.001,
        offset=800,
        since_offset=70,
        level=2,
        is_riding=True,
    ),
    RungStarted(4, Rung.BACKOFF, FaultKind.OVERLOADED, 4.5),
    SummaryRefused(4, "test:deep", "it was empty", _FAULT, _USAGE, cost_usd=0.001, is_over_budget=True, is_riding=True),
    _COMPACTION,
    _GENERATION,
    ReasoningDropped(4, 9),
    EffortChanged(4, Effort.LOW),
    ParameterDropped(4, "max_tokens", "not supported with this model"),
    OutputClamped(4, 1_024),
    OutputMasked(4, 9, 2.25),
    OutputRefused(4, "Not a place."),
    ApprovalRequested(4, "call-1", "sound", '{"place": 1}'),
    PartReplaced(4, 1, 2, _TEXT, "media_overflow"),
    PartReplaced(4, 1, 2, _MEDIA, "media_overflow"),
    RungFinished(4, Rung.DIGEST, RungResult.UNCHANGED),
    CompactionSettled(5, CompactionOutcome.DEFERRED, "a message came first"),
)
# Told.
_TOLD: tuple[AnyRecord, ...] = (
    DamageSetAside("its checksum does not match", "quarantine:1", 17, is_owed=True),
    WindowWarned(4, 85, "The window is 86 % full."),
    NoticePosted(4, "masked", "Old output is shown by a line."),
    SegmentSealed(1, 900, "ab/000000000001-000000000900-cd", "cd" * 32, 4_096),
)
# Appended.
_PAYLOAD = Payload("openai-agents", "{}", b"\xff", NOTES_REF)
_APPENDED: tuple[AnyRecord, ...] = (
    MessageAppended(
        Role.ASSISTANT,
        (_TEXT, _LARGE, _MEDIA, ToolCall("call-1", "sound", "{}"), _RESULT, Reasoning("So.", "i", "o")),
        4,
        "message-2",
        _PAYLOAD,
    ),
    PayloadStored(_PAYLOAD, "message-3"),
    MessagesRetracted(4, 1, _COMPACTION, 9, 2, (1,), is_branch=True, inputs=(3,)),
    MessagesRetracted(4, 1, _GENERATION, 9, 2, (1,), is_branch=True, inputs=(3,)),
    BranchSwitched(12, 4, _COMPACTION, 9, 2, (1,), is_branch=True, inputs=(3,)),
    BranchSwitched(12, 4, _GENERATION, 9, 2, (1,), is_branch=True, inputs=(3,)),
    SessionLabelled("Harbour watch", ("harbour", "night"), {"owner": "Änne"}),
    SessionLinked(4, "call-1", "telegram:42>survey:4:call-1", "survey"),
)
FULL = (*_ASKED, *_DONE, *_CHANGED, *_TOLD, *_APPENDED)

_PLAIN_RESULT = ToolResult("c", ())
MINIMAL: tuple[AnyRecord, ...] = (
    SessionConfigured(),
    InputAdmitted(()),
    InputAdmitted((Text(""), LargeText(NOTES_REF, ""), Media(PICTURE_REF, "image/png"))),
    CancelRequested(1),
    CompactionRequested(),
    MessagePinned(1),
    MessageExcluded(1),
    ResultSubmitted(1, 2, _PLAIN_RESULT),
    ApprovalAnswered(1, 2, is_approved=True),
    LimitsLearned("i", Learned()),
    AnswerLinked("a", "s", "f", 1),
    ClientCompacted(),
    ClientResumed("", 0),
    UsageRecorded("", UsageTotals()),
    UsageRecorded("", UsageTotals(saved=Saved(1))),
    UsageTotalled(0, ()),
    CompactionUndone(2),
    TurnStarted(1),
    AttemptStarted(1, 1, "m"),
    AttemptStarted(1, 1, "m", budgets=Budgets(1)),
    ReplyRecorded(1, 1, Reply((), StopReason.END, None, "m")),
    ReplyRecorded(1, 1, Reply((Reasoning(""),), StopReason.END, Usage(), "m")),
    ReplyRecorded(1, 1, Reply((), StopReason.END, None, "m"), own_request=OwnRequest()),
    AttemptFailed(1, 1, Refusal("d", Phase.CONNECT), Fault(FaultKind.AUTH, Confidence.GUESS)),
    AttemptAbandoned(1, 1, Abandonment.INTERRUPTED),
    ToolStarted(1, "c", "t"),
    ToolInterrupted(1, "c"),
    ToolSettled(1, _PLAIN_RESULT),
    TurnEnded(1, Outcome.ANSWERED),
    PieceSummarised(1, 2, "n", "m"),
    RungStarted(0, Rung.MASK, None),
    SummaryRefused(1, "m", "w"),
    CompactionApplied(1, 1, "s", 2, 1),
    GenerationStarted(1, 1, "s", 2, 1),
    ReasoningDropped(1, 1),
    EffortChanged(1, None),
    ParameterDropped(1, "p"),
    OutputClamped(1, 1),
    OutputMasked(1, 1),
    OutputRefused(1, ""),
    ApprovalRequested(1, "c", "t", ""),
    PartReplaced(1, 1, 0, Text(""), "w"),
    RungFinished(0, Rung.MASK, RungResult.CHANGED),
    CompactionSettled(1, CompactionOutcome.APPLIED),
    DamageSetAside("w"),
    WindowWarned(1, 70, "s"),
    NoticePosted(1, "c", "s"),
    SegmentSealed(1, 1, "n", "s", 1),
    MessageAppended(Role.USER, ()),
    MessageAppended(Role.USER, (), payload=Payload("t")),
    PayloadStored(Payload("t")),
    MessagesRetracted(0),
    BranchSwitched(1),
    SessionLabelled(),
    SessionLinked(1, "c", "s", "t"),
)
