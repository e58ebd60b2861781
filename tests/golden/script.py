"""Two scripted logs: a long session that meets almost everything, and a client's conversation that passed through."""

import json
from collections.abc import Sequence

from holdfast.types.faults import Confidence, Fault, FaultKind, Phase, Refusal, Rung, Unit
from holdfast.types.limits import Budgets, Learned
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
    AttemptAbandoned,
    AttemptFailed,
    AttemptStarted,
    CancelRequested,
    CompactionApplied,
    CompactionOutcome,
    CompactionRequested,
    CompactionSettled,
    CompactionUndone,
    DamageSetAside,
    EffortChanged,
    GenerationStarted,
    InboxRecord,
    InputAdmitted,
    LimitsLearned,
    Logged,
    MessageAppended,
    MessagePinned,
    NoticePosted,
    Outcome,
    OutputClamped,
    OutputMasked,
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
    SummaryKind,
    SummaryRefused,
    ToolInterrupted,
    ToolSettled,
    ToolStarted,
    Trigger,
    TurnEnded,
    TurnStarted,
    WindowWarned,
)
from tests.golden.blobs import NOTES_REF, PICTURE_REF

MODEL = "test:deep"
START = 1_800_000_000.0
# Records lie so far apart that a log reaches into the next day.
APART_SECONDS = 1_000.5
SESSION, CLIENT_SESSION, LINKS_SESSION = "telegram:42", "dropin:a-1", "holdfast:answers:0a"
APPENDED_SESSION = "frame:7"

K = FaultKind
_CHANGED = RungResult.CHANGED


def _reply(text: str, *calls: ToolCall, thought: str = "", usage: Usage | None = None) -> Reply:
    thinking = (Reasoning(thought, f"issuer of {MODEL}", "c2ln"),) if thought else ()
    stop = StopReason.TOOL_CALLS if calls else StopReason.END
    return Reply((*thinking, Text(text), *calls), stop, usage or Usage(1_000, 50, 600, 10), MODEL)


def _failed(
    turn: int, attempt: int, fault: Fault, *, status: int = 400, usage: Usage | None = None
) -> tuple[AnyRecord, AnyRecord]:
    budgets = Budgets(1_600 + attempt, 4_096, 50_000, 1_000_000, 2, 20)
    return (
        AttemptStarted(turn, attempt, MODEL, 1_600 + attempt, 2_048, budgets, 1_500),
        AttemptFailed(turn, attempt, Refusal("openai-chat", Phase.RESPONSE, status, body="{}"), fault, usage),
    )


def _climb(turn: int, rung: Rung, kind: FaultKind | None, *done: AnyRecord) -> tuple[AnyRecord, ...]:
    return RungStarted(turn, rung, kind), *done, RungFinished(turn, rung, _CHANGED)


_FIRST_TURN: tuple[AnyRecord, ...] = (
    SessionConfigured(MODEL, "Be brief.", (ToolSpec("ask_crew", "Ask the crew.", '{"type":"object"}'),)),
    InputAdmitted(
        (
            Text("How deep is the harbour?"),
            LargeText(NOTES_REF, "Sounding 01: 4 fathoms, sand.", "soundings.txt"),
            Media(PICTURE_REF, "image/png", "chart.png", 2, 1),
        ),
        "m-1",
    ),
    TurnStarted(2),
    AttemptStarted(2, 1, MODEL, 1_500, 2_048, Budgets(1_500, 4_096, 40_000, 1_000_000, 1, 20), 1_400),
    ReplyRecorded(
        2,
        1,
        _reply(
            "I look.",
            ToolCall("c-1", "sound", '{"at":"pier"}'),
            ToolCall("c-2", "sound", '{"at":"mole"}'),
            thought="Two places.",
        ),
        cost_usd=0.002,
    ),
    ToolStarted(2, "c-1", "sound"),
    ToolStarted(2, "c-2", "sound", is_idempotent=True),
    InputAdmitted((Text("And the tide?"), Media(PICTURE_REF, "image/png", "tide.png", 2, 1)), "m-2"),
    ToolSettled(2, ToolResult("c-1", (Text("four fathoms of water; " * 40),), originals=(NOTES_REF,))),
    ToolInterrupted(2, "c-2"),
    ToolStarted(2, "c-2", "sound", is_idempotent=True),
    ToolSettled(2, ToolResult("c-2", (Text("the lead is lost"),), ToolOutcome.FAILED)),
    *_failed(2, 2, Fault(K.RATE_LIMIT, Confidence.CERTAIN, retry_after_seconds=7.5, said="slow down"), status=429),
    RungStarted(2, Rung.BACKOFF, K.RATE_LIMIT, 7.5),
    RungFinished(2, Rung.BACKOFF, _CHANGED),
    AttemptStarted(2, 3, MODEL),
    AttemptAbandoned(2, 3, Abandonment.INTERRUPTED),
    AttemptStarted(2, 4, MODEL, 1_700, 2_048, Budgets(1_700, 4_096), 1_650),
    ReplyRecorded(2, 4, _reply("Four fathoms at the pier.", thought="One is known."), cost_usd=0.0015),
    TurnEnded(2, Outcome.ANSWERED, cost_usd=0.0035),
    WindowWarned(2, 70, "The window is 72 % full."),
)
_OVERFLOW = Fault(K.TOKEN_OVERFLOW, Confidence.CERTAIN, None, 4_096, 5_000, Unit.TOKENS, output_requested=1_024)
_SUMMARY = CompactionApplied(8, 8, "Depth: four fathoms.", 1_603, 400, SummaryKind.SUMMARY, MODEL, cost_usd=0.001)
# Numbers 23 to 62.
_SECOND_TURN: tuple[AnyRecord, ...] = (
    CompactionRequested(Trigger.PERSON, "the depths", 22),
    TurnStarted(8),
    *_failed(8, 1, _OVERFLOW),
    *_climb(8, Rung.CLAMP_OUTPUT, K.TOKEN_OVERFLOW, OutputClamped(8, 1_024)),
    *_failed(8, 2, Fault(K.TOKEN_OVERFLOW, Confidence.GUESS)),
    *_climb(8, Rung.MASK, K.TOKEN_OVERFLOW, OutputMasked(8, 13)),
    *_failed(8, 3, Fault(K.TOKEN_OVERFLOW, Confidence.GUESS, limit=900), status=200, usage=Usage(900, 5)),
    RungStarted(8, Rung.SUMMARISE, K.TOKEN_OVERFLOW),
    SummaryRefused(8, MODEL, "it was empty", usage=Usage(700, 1), cost_usd=0.0004),
    RungFinished(8, Rung.SUMMARISE, RungResult.UNCHANGED),
    *_climb(
        8,
        Rung.SUMMARISE_PIECES,
        K.TOKEN_OVERFLOW,
        PieceSummarised(8, 21, "Depth: four fathoms.", MODEL, Usage(800, 60, 100), cost_usd=0.001),
        _SUMMARY,
    ),
    CompactionSettled(23, CompactionOutcome.APPLIED),
    *_failed(8, 4, Fault(K.MEDIA_OVERFLOW, Confidence.LIKELY, unit=Unit.PIXELS, blamed=PICTURE_REF.sha256)),
    *_climb(
        8,
        Rung.REPLACE_LARGEST,
        K.MEDIA_OVERFLOW,
        PartReplaced(8, 8, 1, Text("[tide.png is not shown]"), "media_overflow"),
    ),
    *_failed(8, 5, Fault(K.BAD_REQUEST_REASONING, Confidence.CERTAIN)),
    *_climb(8, Rung.DROP_REASONING, K.BAD_REQUEST_REASONING, ReasoningDropped(8, 50)),
    *_climb(8, Rung.CHANGE_EFFORT, K.BAD_REQUEST_REASONING, EffortChanged(8, Effort.LOW)),
    *_climb(8, Rung.FALLBACK_MODEL, K.BAD_REQUEST_REASONING),
    AttemptStarted(8, 6, MODEL),
    ReplyRecorded(8, 6, _reply("It ebbs.")),
    TurnEnded(8, Outcome.ANSWERED, cost_usd=0.0014),
)
_AT_REST = CompactionApplied(0, 8, "Depth and tide.", 900, 300, before=0, saves_usd=0.0002)
# Numbers 63 to 83.
_GENERATIONS: tuple[AnyRecord, ...] = (
    CompactionUndone(42),
    MessagePinned(2),
    CompactionRequested(Trigger.AHEAD),
    RungStarted(0, Rung.SUMMARISE, None),
    PieceSummarised(0, 21, "All so far.", MODEL, Usage(500, 40), is_merged=True, focus="all", is_riding=True),
    _AT_REST,
    RungFinished(0, Rung.SUMMARISE, _CHANGED),
    CompactionSettled(65, CompactionOutcome.APPLIED),
    InputAdmitted((Text("Which course?"),), "m-3", originals=(NOTES_REF,)),
    TurnStarted(71),
    *_failed(71, 1, _OVERFLOW),
    *_climb(
        71,
        Rung.ROLL_OVER,
        K.TOKEN_OVERFLOW,
        GenerationStarted(71, 71, "Digest.", 1_601, 90, step=75, before=68, generation=2, left=1, pins_left=(2,)),
    ),
    NoticePosted(71, "generation", "Generation 2 begins here."),
    AttemptStarted(71, 2, MODEL),
    ReplyRecorded(71, 2, Reply((Text("North."),), StopReason.END, None, MODEL)),
    TurnEnded(71, Outcome.ANSWERED),
    CompactionUndone(76, _AT_REST, 68),
    MessagePinned(2, is_pinned=False),
)
# Numbers 84 to 107.
_DAMAGE_AND_CLIENT_TOOLS: tuple[AnyRecord, ...] = (
    DamageSetAside("its checksum does not match", "quarantine:1", 90, is_owed=True),
    TurnEnded(84, Outcome.FAILED, "unreadable", "The message is damaged."),
    InputAdmitted((Text("Still there?"),), "m-4"),
    DamageSetAside("its checksum does not match", "quarantine:2", 90),
    AttemptStarted(86, 1, MODEL),
    ReplyRecorded(86, 1, _reply("Yes.")),
    TurnEnded(86, Outcome.ANSWERED),
    InputAdmitted((Text("Never mind."),), "m-5"),
    CancelRequested(91),
    TurnEnded(91, Outcome.CANCELLED, "cancelled", "As you asked."),
    SegmentSealed(1, 21, "ab/000000000001-000000000021-cd", "cd" * 32, 4_096),
    InputAdmitted((Text("Ask the crew."),), "m-6"),
    TurnStarted(95),
    AttemptStarted(95, 1, MODEL),
    ReplyRecorded(95, 1, _reply("", ToolCall("c-1", "ask_crew", "{}"))),
    ToolStarted(95, "c-1", "ask_crew", reply=98),
    ResultSubmitted(95, 98, ToolResult("c-1", (Text("All well."),))),
    ToolSettled(95, ToolResult("c-1", (Text("All well."),))),
    AttemptStarted(95, 2, MODEL),
    ReplyRecorded(95, 2, _reply("All is well.")),
    TurnEnded(95, Outcome.ANSWERED),
    CompactionRequested(Trigger.DEBT),
    CompactionSettled(105, CompactionOutcome.NOTHING_TO_DO, "nothing to redo"),
    LimitsLearned("issuer", Learned(window_tokens=4_096)),
)
_CLIENT: tuple[AnyRecord, ...] = (
    InputAdmitted((Text("What lies ahead?"),), origin=0),
    TurnStarted(1),
    AttemptStarted(1, 1, "gpt-deep", 40),
    ReplyRecorded(1, 1, _reply("", ToolCall("call_1", "look", "{}")), origin=1),
    ToolStarted(1, "call_1", "look", reply=4),
    ToolSettled(1, ToolResult("call_1", (Text("A reef."),)), origin=2),
    AttemptStarted(1, 2, "gpt-deep", 60),
    ReplyRecorded(1, 2, _reply("A reef lies ahead."), origin=3),
    TurnEnded(1, Outcome.ANSWERED),
    InputAdmitted((Text("How far?"),), "resp-2", 4),
    TurnStarted(10),
    AttemptStarted(10, 1, "gpt-deep", 80),
)
_LINKS: tuple[AnyRecord, ...] = (
    AnswerLinked("0a" * 16, CLIENT_SESSION, CLIENT_SESSION, 4, '{"role":"developer","content":"Be brief."}'),
    AnswerLinked("0a0b" * 8, f"{CLIENT_SESSION}~2", CLIENT_SESSION, 6, instructions_of="0a" * 16, is_held=False),
)


def _logged(records: Sequence[AnyRecord]) -> tuple[Logged, ...]:
    return tuple(Logged(seq, START + APART_SECONDS * seq, record) for seq, record in enumerate(records, start=1))


LOG = _logged((*_FIRST_TURN, *_SECOND_TURN, *_GENERATIONS, *_DAMAGE_AND_CLIENT_TOOLS))
CLIENT_LOG = _logged((*_CLIENT, *_LINKS))
# The content of the golden stores: the first turn, and a message that still waits.
SHORT_LOG = LOG[: len(_FIRST_TURN)]
SHORT_CLIENT_LOG, LINKS_LOG = _logged(_CLIENT), _logged(_LINKS)
# What a caller appends, with its own bytes: text of the message, text in another spelling, and bytes that are no text.
_APPENDED_TEXT = "The harbour master says: »twelve fathoms at low water«, and the lead came up clean. "
APPENDED: tuple[InboxRecord, ...] = (
    MessageAppended(
        Role.USER,
        (Text(_APPENDED_TEXT * 2),),
        client_id="entry-1",
        payload=Payload("frame", text=json.dumps({"role": "user", "content": _APPENDED_TEXT * 2})),
    ),
    MessageAppended(
        Role.ASSISTANT, (ToolCall("call_1", "look", '{"where": "ahead"}'),), 1, payload=Payload("frame", text="{}")
    ),
    PayloadStored(Payload("frame", content=bytes(range(256)) + _APPENDED_TEXT.encode()), "entry-2"),
)
