"""Rewrite a request whose view has changed: keep unchanged messages byte for byte, and encode the others."""

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from holdfast.core.view import PLAIN, conversation, lens_of, messages_in_view
from holdfast.gateway.proxy.request import EFFORT_FIELDS, OUTPUT_FIELDS, ProxyRequest, with_fields
from holdfast.models.body_rewrite import Kept, own_elements, rewrite
from holdfast.models.dialects import SERVED
from holdfast.models.json_spans import replaced, without
from holdfast.models.message_merge import merge_user_elements
from holdfast.models.wire import DecodedRequest, Original
from holdfast.runtime.engine.log import Log
from holdfast.types.messages import Effort, Message, Part, Reasoning, Role, Text, ToolResult
from holdfast.types.records import Logged, ToolSettled, origin_of

# Providers accept instructions between messages only after a user message, so instructions of summarised turns are
# repeated as text. Some agents send one of several thousand characters, and short ones occasionally.
_REMINDED = "The application gave these instructions earlier in this conversation; they are still in force."
_REMINDED_CHARS_MAX = 20_000

# References to our `recall` tool, which the client's model does not have.
_RECALL = re.compile(
    r"(?:[:;,]\s)?recall\((?:seq=(?:\d+|n)|blob='[^']*'|query=\.\.\.)\) "
    r"(?:reads (?:it|them|all of it)|finds what is not mentioned here)"
)


# Reasoning settings that a body without one gets, by dialect.
_EFFORT_SETTINGS = {"openai-chat": b'"reasoning_effort":"%b"', "openai-responses": b'"reasoning":{"effort":"%b"}'}


class _Group(msgspec.Struct):
    """Elements on the wire and messages of ours that belong together and cannot be split further."""

    wires: list[int]
    ours: range


def rewritten(request: ProxyRequest, log: Log, blobs: Mapping[str, bytes], issuer: str) -> bytes:
    """Return the client's body with the conversation, output limit and effort of the session's view."""
    body = rewrite(request.dialect, request.body, outgoing(request, log, issuer), blobs, issuer)
    # Roles alternate: some providers reject two user messages in a row.
    elements = merge_user_elements(request.dialect, own_elements(request.dialect, body))
    body = replaced(body, SERVED[request.dialect].MESSAGES_FIELD, elements)
    if log.turn.output_clamp is not None:
        body = with_fields(body, dict.fromkeys(OUTPUT_FIELDS, log.turn.output_clamp))
    if log.turn.is_effort_changed:
        body = _with_effort(request.dialect, body, log.turn.effort)
    return SERVED[request.dialect].settled(body)


def _with_effort(dialect: str, body: bytes, effort: Effort | None) -> bytes:
    """Return a body with another reasoning setting; None leaves it to the provider."""
    for name in EFFORT_FIELDS:
        body = without(body, name)
    setting = _EFFORT_SETTINGS.get(dialect)
    if effort is None or setting is None:
        return body
    return b"{" + setting % effort.value.encode() + b"," + body.lstrip()[1:]


def outgoing(request: ProxyRequest, log: Log, issuer: str) -> list[Kept | Message]:
    """Return the conversation to send: instructions, the text that replaces the past, and the rest.

    Reasoning that the view does not have, or that another issuer signed, is left out.
    """
    assert request.decoded is not None, "an unparsed request is not rewritten"
    rewriting = _Rewriting(request, request.decoded, log, issuer)
    groups = rewriting.groups
    instructions = [Kept(wire) for group in groups if not group.ours for wire in group.wires]
    # Pins and the summary: everything in the view before the first message of the conversation.
    view = messages_in_view(log.tail, log.turn, pinned=log.pinned)
    past = view[: len(view) - len(rewriting.entries)]
    rest = rewriting.rest()
    begun = [group for group in groups if group.ours and group.ours.start >= len(request.messages)]
    prefill = [Kept(wire) for group in begun for wire in group.wires]
    reminders = _reminder(rewriting.lost_instructions())
    return [*instructions, *(_without_recall(one) for one in past), *reminders, *rest, *prefill]


class _Entry(msgspec.Struct, frozen=True):
    """A message of the view, with its number in the client's request; None: the client did not send it."""

    number: int | None
    message: Message
    is_changed: bool


class _Rewriting:
    """One request beside the view that replaces its conversation."""

    def __init__(self, request: ProxyRequest, decoded: DecodedRequest, log: Log, issuer: str) -> None:
        self._messages = request.messages
        self._originals = decoded.originals
        self._issuer = issuer
        self._repairs_pairs = log.turn.has_repaired_pairs
        self.groups = _groups(decoded.originals)
        self.entries = _entries(log, request.messages)
        # The last entry of a number counts: a result may come in several records.
        self._shown = {entry.number: entry for entry in self.entries if entry.number is not None}

    def rest(self) -> list[Kept | Message]:
        """Return the messages of the view, as the client wrote them if they are unchanged."""
        by_number = {number: group for group in self.groups for number in group.ours}
        sent: set[int] = set()
        messages: list[Kept | Message] = []
        for entry in self.entries:
            if entry.number is None:
                # A result for an orphaned call, or a call for an orphaned result.
                if self._repairs_pairs:
                    messages.append(_without_recall(entry.message))
                continue
            group = by_number[entry.number]
            if group.ours.start not in sent:
                sent.add(group.ours.start)
                messages += self._group(group)
        return messages

    def _group(self, group: _Group) -> list[Kept | Message]:
        here = [self._shown[number] for number in group.ours if number in self._shown]
        if len(here) == len(group.ours) and not any(entry.is_changed for entry in here):
            with_reasoning = all(self._keeps_reasoning(entry) for entry in here)
            return [Kept(wire, with_reasoning) for wire in group.wires]
        return [*(_without_recall(entry.message) for entry in here), *map(Kept, self._instructions(group))]

    def _keeps_reasoning(self, entry: _Entry) -> bool:
        assert entry.number is not None
        return not _has_signed(self._messages[entry.number]) or _is_signed_by(entry.message, self._issuer)

    def _instructions(self, group: _Group) -> list[int]:
        """Return the elements of a group that are instructions between messages."""
        return [wire for wire in group.wires if self._originals[wire].instruction and group.ours]

    def lost_instructions(self) -> list[str]:
        """Return instructions between messages that are no longer shown."""
        lost = [group for group in self.groups if not any(number in self._shown for number in group.ours)]
        return [self._originals[wire].instruction for group in lost for wire in self._instructions(group)]


def _reminder(instructions: Sequence[str]) -> Iterator[Message]:
    """Yield a message that repeats the newest instructions that a summary replaced."""
    kept: list[str] = []
    for text in reversed(list(dict.fromkeys(instructions))):
        if sum(map(len, kept)) + len(text) > _REMINDED_CHARS_MAX:
            break
        kept.append(text)
    if kept:
        told = "\n\n".join(reversed(kept))
        yield Message(Role.USER, (Text(f"{_REMINDED}\n<instructions>\n{told}\n</instructions>"),))


def _without_recall(message: Message) -> Message:
    """Return a message without references to the `recall` tool."""
    return Message(message.role, tuple(_part_without_recall(part) for part in message.parts))


def _part_without_recall(part: Part) -> Part:
    match part:
        case Text(text=text):
            return Text(_RECALL.sub("", text))
        case ToolResult(parts=inner):
            plain = tuple(Text(_RECALL.sub("", one.text)) if isinstance(one, Text) else one for one in inner)
            return msgspec.structs.replace(part, parts=plain)
        case _:
            return part


def _entries(log: Log, messages: Sequence[Message]) -> list[_Entry]:
    """Return the conversation of the view, each message with the client's number of it."""
    turn = log.turn
    records = {logged.seq: logged for logged in log.tail}
    shown = conversation(log.tail, first_turn=turn.boundary, first_step=turn.first_step, lens=lens_of(turn))
    plain = conversation(log.tail, first_turn=turn.boundary, first_step=turn.first_step, lens=PLAIN)
    originals = {one.place: one.message for one in plain}
    entries: list[_Entry] = []
    for one in shown:
        number = _number(records.get(one.seq), one.message.role)
        if number is not None and (number >= len(messages) or messages[number].role is not one.message.role):
            number = None
        # A result that the log keeps truncated is sent so; the original is in a blob.
        is_same = _without_reasoning(one.message) == _without_reasoning(originals[one.place])
        is_whole = number is None or not turn.has_repaired_pairs or _calls(one.message) == _calls(messages[number])
        entries.append(_Entry(number, one.message, not (is_same and is_whole) or _is_truncated(one.message)))
    return entries


def _calls(message: Message) -> set[str]:
    """Return the ids of the calls whose results a message has."""
    return {part.call_id for part in message.parts if isinstance(part, ToolResult)}


def _number(logged: Logged | None, role: Role) -> int | None:
    if logged is None or (role is Role.TOOL) != isinstance(logged.record, ToolSettled):
        return None
    return origin_of(logged.record)


def _has_signed(message: Message) -> bool:
    return any(isinstance(part, Reasoning) and part.opaque for part in message.parts)


def _is_signed_by(shown: Message, issuer: str) -> bool:
    """Return whether a message shows reasoning, all of it signed by the issuer."""
    issuers = {part.issuer for part in shown.parts if isinstance(part, Reasoning) and part.opaque}
    return issuers == {issuer}


def _without_reasoning(message: Message) -> Message:
    return Message(message.role, tuple(part for part in message.parts if not isinstance(part, Reasoning)))


def _is_truncated(message: Message) -> bool:
    return any(isinstance(part, ToolResult) and part.originals for part in message.parts)


def _groups(originals: Sequence[Original]) -> list[_Group]:
    groups: list[_Group] = []
    for wire, original in enumerate(originals):
        ours = range(original.first, original.last)
        last = groups[-1] if groups else None
        if last is not None and last.ours and ours and ours.start < last.ours.stop:
            last.wires.append(wire)
            last.ours = range(last.ours.start, max(last.ours.stop, ours.stop))
        else:
            groups.append(_Group([wire], ours))
    return groups
