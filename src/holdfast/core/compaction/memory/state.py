"""The memory of a conversation: everything that a digest or a ledger is rendered from.

It is bounded and can be encoded, so that it can be stored and continued. `observe` updates it in place, because a copy
per message would make the work quadratic.
"""

from enum import StrEnum

import msgspec

from holdfast.core.compaction.facts import FactKind


class Said(msgspec.Struct, array_like=True):
    """A verbatim text and the record that contains it."""

    seq: int
    text: str


class Typed(msgspec.Struct, array_like=True):
    """A sentence that a person typed. `place` counts messages; `order` counts sentences of its message."""

    seq: int
    place: int
    order: int
    text: str
    # The beginning of a long text is what the person asks for; the rest counts less.
    is_deep: bool


class Agreement(msgspec.Struct, array_like=True):
    """A short answer of a person together with the question or proposal that it answers."""

    question_seq: int
    question: str
    answer_seq: int
    answer: str


class TaskStatus(StrEnum):
    """Status of a task in the agent's list."""

    OPEN = "open"
    ACTIVE = "in progress"
    DONE = "done"


class Task(msgspec.Struct, array_like=True):
    """One task of a list; `key` is its id or its text."""

    key: str
    text: str
    status: TaskStatus
    seq: int


class Check(msgspec.Struct, array_like=True):
    """The last verdict of a test, build or lint command."""

    seq: int
    command: str
    failed: bool
    line: str


class PendingCall(msgspec.Struct, array_like=True):
    """A call that has no result yet, reduced to what its result decides."""

    seq: int
    name: str
    command: str
    target: str
    # Paths that are changed if the call succeeds.
    changes: list[str]
    # The question to a person, if the call asks one.
    question: str


class Doing(StrEnum):
    """Kinds of lines of the story."""

    SAID = "assistant"
    RAN = "ran"
    CALLED = "called"
    CHANGED = "edit"
    SOLVED = "solved"


class Event(msgspec.Struct, array_like=True):
    """A line of the story: a sentence of the agent, a command, another call, a line of an edit, or a settled error."""

    seq: int
    place: int
    doing: Doing
    text: str
    # Worth by its form alone: decisions, findings, exact details.
    worth: float


class Tally(msgspec.Struct, array_like=True):
    """Uses of a fact. `last` and `last_agent` are places, `seqs` the newest records that contain it."""

    kind: FactKind
    # Uses in tool output, calls, edits, messages of the agent, messages of the user.
    uses: list[int]
    last: int
    last_agent: int
    seqs: list[int]


class Memory(msgspec.Struct):
    """Everything that is kept of a conversation, in bounded size."""

    first_seq: int = 0
    last_seq: int = 0
    # Messages observed; the place of a message is its number.
    messages: int = 0
    # Messages before the first one are not observed yet.
    is_part: bool = False
    has_calls: bool = False
    tools: dict[str, int] = {}
    # State.
    goal: Said | None = None
    plan: Said | None = None
    tasks: dict[str, list[Task]] = {}
    tasks_created: int = 0
    proposal: Said | None = None
    agreements: list[Agreement] = []
    rules: list[Said] = []
    changed: dict[str, int] = {}
    staged: list[str] = []
    commits: list[Said] = []
    checks: dict[str, Check] = {}
    errors: dict[str, Check] = {}
    last_words: Said | None = None
    pending: dict[str, PendingCall] = {}
    # Story.
    typed: list[Typed] = []
    events: list[Event] = []
    # Facts.
    facts: dict[str, Tally] = {}
    edited: dict[str, int] = {}
    # Values with the words that say what they are, and their record.
    values: dict[str, Said] = {}
    # The file that a record is about, for its names.
    sources: dict[int, str] = {}


def without_input(memory: Memory, seq: int) -> Memory:
    """Return a memory without the sentences of an input that the view still shows; the rest is shared."""
    return msgspec.structs.replace(
        memory,
        goal=None if memory.goal is not None and memory.goal.seq == seq else memory.goal,
        typed=[one for one in memory.typed if one.seq != seq],
        rules=[one for one in memory.rules if one.seq != seq],
    )
