"""Inbox records: requests to a session. Anyone may append these, at any time."""

from collections.abc import Mapping
from enum import StrEnum

from holdfast.types.limits import Learned
from holdfast.types.messages import BlobRef, LargeText, Media, Part, Payload, Role, Text, ToolResult, ToolSpec
from holdfast.types.records.base import Record
from holdfast.types.records.view import CompactionApplied, GenerationStarted
from holdfast.types.settings import OutputSpec, Settings


class SessionConfigured(Record, frozen=True):
    """Model, system text and tools of the session. None: the default of the process."""

    model: str | None = None
    system: str | None = None
    # Tools that a client runs: it reads their calls from the log and submits the results.
    tools: tuple[ToolSpec, ...] = ()
    # Settings of its requests; None: those of the process.
    settings: Settings | None = None
    # The tools of the process that it may use, by name; None: all.
    tool_names: tuple[str, ...] | None = None
    # The agent that the session was handed to; "": its first one. True: it was handed back.
    agent: str = ""
    is_return: bool = False


class SessionLabelled(Record, frozen=True):
    """Title, tags and metadata of the session, all of them as they are from here on.

    They are for people and programs that list sessions; no model is shown them. Without a title, one is made from the
    first message.
    """

    title: str = ""
    # Sorted, without repetitions.
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = {}


class InputAdmitted(Record, frozen=True):
    """A message was accepted. It is durable, so its turn will end with an outcome."""

    parts: tuple[Text | LargeText | Media, ...]
    # The sender's idempotency key: the same id sent twice is one message.
    client_id: str = ""
    # Position in the transcript that the message was imported from; likewise for replies and results.
    origin: int | None = None
    # The full texts that `parts` truncate; they are not sent to a model.
    originals: tuple[BlobRef, ...] = ()
    # Settings of this message alone, and the type of its answer.
    settings: Settings | None = None
    output: OutputSpec | None = None
    # A heartbeat: its turn is answered, but no summary, digest or memory reads it.
    is_heartbeat: bool = False


class MessageAppended(Record, frozen=True):
    """A message was added to the conversation without running a turn. Needs no answer.

    A message of the user begins a turn; a reply and a tool result belong to the turn before them. A tool result has a
    record of its own, so that a record and an index name a part.
    """

    role: Role
    parts: tuple[Part, ...]
    # The record with which its turn begins; 0: this one.
    turn: int = 0
    # The sender's idempotency key, by which the record is found again.
    client_id: str = ""
    payload: Payload | None = None
    # Of a message of the user, as in `InputAdmitted`.
    is_heartbeat: bool = False


class PayloadStored(Record, frozen=True):
    """A caller's payload without a message. It is not in the view."""

    payload: Payload
    client_id: str = ""


class MessagesRetracted(Record, frozen=True):
    """Messages after a record were taken back: they leave the view, and the log keeps them.

    A compaction that represents one of them is replaced by the newest one before it that does not, or by none.
    """

    after: int
    # The newest turn that stays; 0: none.
    last_turn: int = 0
    # The compaction in force from here on, and its seq, if the one before represents a retracted message.
    restored: CompactionApplied | GenerationStarted | None = None
    restored_seq: int = 0
    # The generation that this returns to, with its pins; 0: the same.
    generation: int = 0
    pins: tuple[int, ...] = ()
    # The retracted messages are a branch: they can be shown again in place of those that follow.
    is_branch: bool = False
    # Retracted inputs from before `after`: they were admitted there, and their turns started later.
    inputs: tuple[int, ...] = ()


class BranchSwitched(MessagesRetracted, frozen=True):
    """The conversation continues from the last record of a branch, `after`, with the view as it was there.

    The messages since then are a branch of their own. Without effect if that branch is not known.
    """


class SessionLinked(Record, frozen=True):
    """A tool call runs another session: this one waits for the answer there. Written before the other is used."""

    turn: int
    call_id: str
    # The key of the other session, and the name of the tool.
    session: str
    tool: str


class CancelRequested(Record, frozen=True):
    """Cancel the turn of the input with this seq."""

    turn: int


class Trigger(StrEnum):
    """The trigger of a compaction."""

    PERSON = "person"
    # Proactive: before the window is full, while the session is idle.
    AHEAD = "ahead"
    # Replace a digest by a summary, now that a model is available again.
    DEBT = "debt"


class CompactionRequested(Record, frozen=True):
    """Request to compact the view. Pending requests are served together."""

    trigger: Trigger = Trigger.PERSON
    # Topics for the summary to preserve, in the user's words.
    focus: str = ""
    # The last record that the requester had read; 0: unknown. A compaction applied between that record and this one
    # already serves the request.
    seen: int = 0


class MessagePinned(Record, frozen=True):
    """Pin the input with this seq to the view, or unpin it."""

    pinned: int
    is_pinned: bool = True


class ResultSubmitted(Record, frozen=True):
    """A client submits the result of a tool call that it runs. The first result of a call counts."""

    turn: int
    # The record of the reply with the call: call ids are unique within one reply only.
    reply: int
    result: ToolResult


class ApprovalAnswered(Record, frozen=True):
    """The answer to an approval request. The first one counts."""

    turn: int
    # The seq of the request.
    request: int
    is_approved: bool
    # For the model, if the call is denied.
    note: str = ""


class LimitsLearned(Record, frozen=True):
    """New learned limits of a model. Stored in a log of its own, shared by all sessions."""

    issuer: str
    learned: Learned


class AnswerLinked(Record, frozen=True):
    """Link from a provider's response id to the conversation it ends. Stored in logs shared by all sessions."""

    # Hash of the response id and its owner.
    answer: str
    # The session with the conversation, its family, and the number of its messages up to and including the answer.
    # Empty and 0: the log only says whose the id is.
    session: str
    family: str
    count: int
    # Instructions between the messages, verbatim; or the response id whose link has them.
    instructions: str = ""
    instructions_of: str = ""
    # False: the provider lacks a part of the conversation, so the id alone cannot resume it.
    is_held: bool = True


class ClientCompacted(Record, frozen=True):
    """A client of the proxy called a model to compact its own history. Kept in a log per client."""


class ClientResumed(Record, frozen=True):
    """A client of the proxy continued after its own compaction. Kept in the same log.

    Compactions that do not make the next request for the same message smaller are a loop.
    """

    # The digest of the newest message of a person, and the size of the request.
    newest: str
    wire_bytes: int


class CompactionUndone(Record, frozen=True):
    """Undo a compaction: restore the previous one, or none.

    Anyone may append this. It has no effect if another compaction was applied in the meantime.
    """

    # Seq of the undone compaction; the compaction in force before it, and its seq.
    undone: int
    restored: CompactionApplied | GenerationStarted | None = None
    restored_seq: int = 0
