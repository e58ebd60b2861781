"""Records of what was asked: the inbox of a session. Anyone may append these, at any time."""

from enum import StrEnum

from holdfast.types.limits import Learned
from holdfast.types.messages import BlobRef, LargeText, Media, Text, ToolResult, ToolSpec
from holdfast.types.records.base import Record
from holdfast.types.records.view import CompactionApplied, GenerationStarted


class SessionConfigured(Record, frozen=True):
    """The session was told which model to use and how to behave. None: as the process is set up."""

    model: str | None = None
    system: str | None = None
    # Tools that a client runs, wherever it is: its calls are told in the log, and it submits the results.
    tools: tuple[ToolSpec, ...] = ()


class InputAdmitted(Record, frozen=True):
    """Someone sent a message. It is on disk, so it will be answered."""

    parts: tuple[Text | LargeText | Media, ...]
    # What the sender calls this message; the same name sent twice is one message.
    client_id: str = ""
    # The number that the message had in the transcript it was imported from; the same for replies and results.
    origin: int | None = None
    # The whole of a text of which `parts` leave something out; no model is sent it by itself.
    originals: tuple[BlobRef, ...] = ()


class CancelRequested(Record, frozen=True):
    """Someone no longer wants an answer to the input with this seq."""

    turn: int


class Trigger(StrEnum):
    """Who wants a compaction."""

    PERSON = "person"
    # We do, before the window is full and while nobody waits.
    AHEAD = "ahead"
    # We do, to replace a digest by a summary now that a model is back.
    DEBT = "debt"


class CompactionRequested(Record, frozen=True):
    """Someone wants the view to become smaller. Requests that wait together are met together."""

    trigger: Trigger = Trigger.PERSON
    # What the summary should keep in particular, in the person's words.
    focus: str = ""
    # The last record that there was when this was asked for; 0: not known. A compaction that came behind it, and before
    # this record, is news to whoever asks, and is what they asked for.
    seen: int = 0


class MessagePinned(Record, frozen=True):
    """Someone wants the input with this seq to stay in the view, or no longer."""

    pinned: int
    is_pinned: bool = True


class ResultSubmitted(Record, frozen=True):
    """A client reports what came of a call that it was told to run. The first report of a call counts."""

    turn: int
    # The record of the reply that asked for the call: ids of calls are unique within one reply only.
    reply: int
    result: ToolResult


class LimitsLearned(Record, frozen=True):
    """Calls have taught something about a model. Kept in a log of its own, for all sessions."""

    issuer: str
    learned: Learned


class AnswerLinked(Record, frozen=True):
    """A provider gave this answer a name by which its client may go on. Kept in logs of their own, for all sessions."""

    # The name, and whose it is, as a digest.
    answer: str
    # The session that holds the conversation, its family, and how many of its messages lead up to and with the answer.
    session: str
    family: str
    count: int
    # Instructions that stood between the messages, as they were written; or the answer whose link has them.
    instructions: str = ""
    instructions_of: str = ""
    # False: the provider does not have all of it, so it cannot go on by itself.
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
    """Someone wants the view as it was before a compaction: what was in force then is in force again.

    Anyone may append this. Where another compaction has been applied meanwhile it changes nothing.
    """

    # The record of the compaction that is undone, and what was in force before it, with its record.
    undone: int
    restored: CompactionApplied | GenerationStarted | None = None
    restored_seq: int = 0
