"""Recall behind the gateway: when a client's model gets the tool `recall`, and the parts of its replies that stay here.

The gateway runs the calls itself. A client sees neither them nor their results; the log has both, and they are put back
into every later request, so that the model finds its own words and the prompt cache its prefix.
"""

import re
from collections.abc import Collection, Sequence

import msgspec

from holdfast.core.fold.session_state import Turn
from holdfast.core.search.rank import RECALL
from holdfast.types.messages import Message, Part, Reply, Role, Text, ToolCall, ToolResult, ToolSpec
from holdfast.types.records import ReplyRecorded

# A result stays in the view: a page of the tool with its head, or ten excerpts.
RESULT_BYTES_MAX = 12 * 1_024
_OWN_NAME = re.compile(rb'"name"\s*:\s*"' + RECALL.encode() + rb'"')
# Texts of ours that name records or the tool.
_EXPLAINED = re.compile(r" \[#n\] is the record in which it stands, word for word: recall\([^.\n]*\.\.\.\)[^.\n]*\.")
_ADVICE = re.compile(
    r"(?:[:;,]\s)?recall\((?:seq=(?:\d+|n)(?:, offset=n)?|blob='[^']*'|query=\.\.\.)\) "
    r"(?:reads (?:it|them|all of it|on from byte n)|finds (?:what is not mentioned here|what is in them|the rest))"
)
_CITATION = re.compile(r"[ \t]?\[#\d{1,12}\]")


_ABSENT = msgspec.Raw(b"null")


class _Choice(msgspec.Struct):
    type: str = ""


class _Calling(msgspec.Struct, frozen=True):
    mode: str = "AUTO"


class _ToolConfig(msgspec.Struct, rename="camel"):
    function_calling_config: _Calling = _Calling()


class _Generation(msgspec.Struct, rename="camel"):
    candidate_count: int | None = None


class _Settings(msgspec.Struct):
    """Fields of a client's request, in whichever dialect."""

    tools: msgspec.Raw = _ABSENT
    tool_choice: str | _Choice | None = None
    # Several answers, an answer that is fetched later, and a conversation to which the provider adds every call.
    n: int | None = None
    background: bool | None = None
    conversation: msgspec.Raw = _ABSENT
    # Gemini has them in objects.
    tool_config: _ToolConfig | None = msgspec.field(name="toolConfig", default=None)
    generation: _Generation | None = msgspec.field(name="generationConfig", default=None)

    @property
    def is_single(self) -> bool:
        """True if one answer is asked for, and at once."""
        count = self.generation.candidate_count if self.generation is not None else self.n
        return count in (None, 1) and not self.background and bytes(self.conversation) == b"null"

    @property
    def is_free(self) -> bool:
        """True if the model chooses whether to call a tool, and which."""
        if self.tool_config is not None:
            return self.tool_config.function_calling_config.mode == "AUTO"
        choice = self.tool_choice
        return choice is None or (choice.type if isinstance(choice, _Choice) else choice) == "auto"


_settings = msgspec.json.Decoder(_Settings)


def allows_recall(body: bytes) -> bool:
    """Return whether a request with function tools leaves room for one of ours."""
    try:
        settings = _settings.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        # A choice in a form of its own, such as a list.
        return False
    # A tool of the client with our name, of whatever type, keeps it.
    return settings.is_free and settings.is_single and _OWN_NAME.search(settings.tools) is None


class RecallOffer(msgspec.Struct, frozen=True):
    """The tool `recall` for the requests of one client; without a `spec` there is none."""

    spec: ToolSpec | None = None
    # Replies in a row that the gateway continues for one request of the client.
    rounds_max: int = 0

    def is_shown(self, turn: Turn) -> bool:
        """Return whether citations, earlier calls and their results are shown: something has left the view."""
        return self.spec is not None and turn.hides_parts

    def tools(self, turn: Turn) -> tuple[ToolSpec, ...]:
        """Return the tool if the model may call it now. After the last round the model must do without it."""
        is_callable = self.is_shown(turn) and turn.own_rounds < self.rounds_max
        return (self.spec,) if self.spec is not None and is_callable else ()

    def own_calls(self, turn: Turn, reply: Reply) -> tuple[str, ...]:
        """Return the ids of the calls in a reply that the gateway runs."""
        names = {spec.name for spec in self.tools(turn)}
        return tuple(part.call_id for part in reply.parts if isinstance(part, ToolCall) and part.name in names)


NO_RECALL = RecallOffer()


def is_continued(parts: Sequence[Part], own_calls: Collection[str]) -> bool:
    """Return whether a reply calls only our tool: it is continued here. In a mixed one, the client's turn comes first.

    The calls of a mixed reply are one decision of the model, often with signed reasoning. To answer only ours and ask
    again would discard the others.
    """
    calls = {part.call_id for part in parts if isinstance(part, ToolCall)}
    return bool(own_calls) and calls <= set(own_calls)


def client_message(record: ReplyRecorded) -> Message:
    """Return a recorded reply as the client has it: behind the text of continued replies, and without our calls."""
    before = (Text(record.said_before),) if record.said_before else ()
    return without_calls(Message(Role.ASSISTANT, (*before, *record.reply.parts)), record.own_calls)


def without_calls(message: Message, own_calls: Collection[str]) -> Message:
    """Return a message without some calls and their results."""
    if not own_calls:
        return message
    kept = (
        part for part in message.parts if not (isinstance(part, ToolCall | ToolResult) and part.call_id in own_calls)
    )
    return Message(message.role, tuple(kept))


# --- Texts for a model without the tool ---


def without_advice(message: Message) -> Message:
    """Return a message without references to the tool."""
    return Message(message.role, tuple(_part_without_advice(part) for part in message.parts))


def _part_without_advice(part: Part) -> Part:
    match part:
        case Text(text=text):
            return Text(_ADVICE.sub("", text))
        case ToolResult(parts=inner):
            plain = tuple(Text(_ADVICE.sub("", one.text)) if isinstance(one, Text) else one for one in inner)
            return msgspec.structs.replace(part, parts=plain)
        case _:
            return part


def without_citations(message: Message) -> Message:
    """Return a text of ours about the past without references to records and to the tool."""
    plain = (
        Text(_CITATION.sub("", _EXPLAINED.sub("", part.text))) if isinstance(part, Text) else part
        for part in message.parts
    )
    return without_advice(Message(message.role, tuple(plain)))
