"""Rewrite a request whose view has changed: keep unchanged messages byte for byte, and encode the others."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from holdfast.core.proxy.recall import RecallOffer, without_advice, without_calls, without_citations
from holdfast.core.view import PLAIN, conversation, lens_of, messages_in_view
from holdfast.gateway.proxy.request import ProxyRequest
from holdfast.models.body_rewrite import Kept, merge_user_elements, own_elements, rewrite, with_tools
from holdfast.models.dialects import SERVED
from holdfast.models.parameters import with_output_limit, without_effort, without_parameters
from holdfast.models.wire import Original, replaced
from holdfast.runtime.engine.log import Log
from holdfast.types.messages import Effort, Message, Reasoning, Role, Text, ToolCall, ToolResult
from holdfast.types.records import AnyRecord, Logged, ReplyRecorded, ToolSettled, origin_of

# Providers accept instructions between messages only after a user message, so instructions of summarised turns are
# repeated as text. Some agents send one of several thousand characters, and short ones occasionally.
_REMINDED = "The application gave these instructions earlier in this conversation; they are still in force."
_REMINDED_CHARS_MAX = 20_000

# Reasoning settings that a body without one gets, by dialect.
_EFFORT_SETTINGS = {"openai-chat": b'"reasoning_effort":"%b"', "openai-responses": b'"reasoning":{"effort":"%b"}'}


class _Group(msgspec.Struct):
    """Elements on the wire and messages of ours that belong together and cannot be split further."""

    wires: list[int]
    ours: range


def rewritten(
    request: ProxyRequest,
    log: Log,
    blobs: Mapping[str, bytes],
    issuer: str,
    head: Sequence[Message],
    offer: RecallOffer,
) -> bytes:
    """Return the client's body with the conversation, output limit and effort of the session's view.

    `issuer` is that of the model it is sent to. `head` has the client's instructions from a first message that is not
    in the view.
    """
    model = next((name for one, name in zip(request.models, request.names, strict=True) if one.issuer == issuer), "")
    body = rewrite(request.dialect, request.body, outgoing(request, log, issuer, head, offer), blobs, issuer)
    body = with_tools(request.dialect, body, offer.tools(log.turn))
    # Roles alternate: some providers reject two user messages in a row.
    elements = merge_user_elements(request.dialect, own_elements(request.dialect, body))
    body = replaced(body, SERVED[request.dialect].MESSAGES_FIELD, elements)
    if log.turn.output_clamp is not None:
        body = with_output_limit(request.dialect, body, log.turn.output_clamp)
    if log.turn.is_effort_changed:
        body = with_effort(request.dialect, body, log.turn.effort)
    return SERVED[request.dialect].settled(body, model)


def with_effort(dialect: str, body: bytes, effort: Effort | None) -> bytes:
    """Return a body with another reasoning setting; None leaves it to the provider."""
    body = without_effort(dialect, body)
    setting = _EFFORT_SETTINGS.get(dialect)
    if effort is None or setting is None:
        return body
    return b"{" + setting % effort.value.encode() + b"," + body.lstrip()[1:]


def without_refused(dialect: str, body: bytes, refused: Collection[str]) -> bytes:
    """Return a body without the parameters that the model refuses, or with their other names."""
    lacking = without_parameters(dialect, body, refused)
    return body if lacking is body else SERVED[dialect].settled(lacking)


def outgoing(
    request: ProxyRequest, log: Log, issuer: str, head: Sequence[Message], offer: RecallOffer
) -> list[Kept | Message]:
    """Return the conversation to send: instructions, the text that replaces the past, and the rest.

    Reasoning that the view does not have, or that another issuer signed, is left out. So are citations and our own tool
    calls, if the model has no tool to read the records with.
    """
    assert request.decoded is not None, "an unparsed request is not rewritten"
    shows_own = offer.is_shown(log.turn)
    rewriting = _Rewriting(request, log, issuer, shows_own=shows_own)
    groups = rewriting.groups
    instructions = [Kept(wire) for group in groups if not group.ours for wire in group.wires]
    # Pins and the summary: everything in the view before the first message of the conversation.
    view = messages_in_view(log.tail, log.turn, pinned=log.pinned)
    past = view[: len(view) - len(rewriting.entries)]
    if not shows_own:
        has_summary = log.turn.compaction is not None and bool(log.turn.compaction.summary)
        pins, summary = past[: len(past) - has_summary], past[len(past) - has_summary :]
        past = (*map(without_advice, pins), *map(without_citations, summary))
    rest = rewriting.rest()
    begun = [group for group in groups if group.ours and group.ours.start >= len(request.messages)]
    prefill = [Kept(wire) for group in begun for wire in group.wires]
    reminders = _reminder(rewriting.lost_instructions())
    return [*instructions, *head, *past, *reminders, *rest, *prefill]


class _Entry(msgspec.Struct, frozen=True):
    """A message of the view, with its number in the client's request; None: the client did not send it."""

    number: int | None
    message: Message
    is_changed: bool
    # Calls that the gateway ran, by id: the message has them or their results.
    own: tuple[str, ...] = ()

    @property
    def is_paired(self) -> bool:
        """True if it has a tool call or a result."""
        return any(isinstance(part, ToolCall | ToolResult) for part in self.message.parts)


class _Rewriting:
    """One request beside the view that replaces its conversation."""

    def __init__(self, request: ProxyRequest, log: Log, issuer: str, *, shows_own: bool) -> None:
        assert request.decoded is not None, "an unparsed request is not rewritten"
        self._messages = request.messages
        self._originals = request.decoded.originals
        self._shows_own = shows_own
        self._issuer = issuer
        self._repairs_pairs = log.turn.has_repaired_pairs
        self.groups = _groups(self._originals)
        self.entries = _entries(log, request.messages, shows_own=shows_own)
        # The last entry of a number counts: a result may come in several records.
        self._shown = {entry.number: entry for entry in self.entries if entry.number is not None}

    def rest(self) -> list[Kept | Message]:
        """Return the messages of the view, as the client wrote them if they are unchanged."""
        by_number = {number: group for group in self.groups for number in group.ours}
        sent: set[int] = set()
        messages: list[Kept | Message] = []
        for entry in self.entries:
            if entry.number is None:
                # A step of ours; or a result for an orphaned call, or a call for an orphaned result.
                if (self._shows_own and entry.own) or (self._repairs_pairs and entry.is_paired):
                    messages += self._written(entry)
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
            return [*self._own_results(here), *(Kept(wire, with_reasoning) for wire in group.wires)]
        return [*(one for entry in here for one in self._written(entry)), *map(Kept, self._instructions(group))]

    def _own_results(self, here: Sequence[_Entry]) -> list[Message]:
        """Return the results of our calls beside results of the client, which stay as it wrote them."""
        if not self._shows_own:
            return []
        results = tuple(
            part
            for entry in here
            for part in entry.message.parts
            if isinstance(part, ToolResult) and part.call_id in entry.own
        )
        return [Message(Role.TOOL, results)] if results else []

    def _written(self, entry: _Entry) -> list[Message]:
        """Return the message of an entry; without everything about our tool if the model does not have it."""
        if self._shows_own:
            return [entry.message]
        plain = without_advice(without_calls(entry.message, entry.own))
        return [plain] if plain.parts else []

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


def _entries(log: Log, messages: Sequence[Message], *, shows_own: bool) -> list[_Entry]:
    """Return the conversation of the view, each message with the client's number of it."""
    turn = log.turn
    records = {logged.seq: logged.record for logged in log.tail}
    steps = _steps(log.tail)
    shown = conversation(log.tail, first_turn=turn.boundary, first_step=turn.first_step, lens=lens_of(turn))
    plain = conversation(log.tail, first_turn=turn.boundary, first_step=turn.first_step, lens=PLAIN)
    originals = {one.place: one.message for one in plain}
    entries: list[_Entry] = []
    for one in shown:
        role, record = one.message.role, records.get(one.seq)
        step, own = steps.get(one.seq, (None, ()))
        number = _number(step if role is Role.TOOL or record is None else origin_of(record), role, messages)
        theirs = without_calls(one.message, own)
        changes = [
            not _is_unchanged(one.message, originals.get(one.place)),
            # A session without a hidden part has no tool to read the rest with.
            _is_truncated(theirs) and (turn.hides_parts or not turn.has_folded),
            turn.has_repaired_pairs and number is not None and _calls(theirs) != _calls(messages[number]),
            shows_own and role is Role.ASSISTANT and _is_joined(record),
        ]
        entries.append(_Entry(number, one.message, any(changes), own))
    return entries


def _number(number: int | None, role: Role, messages: Sequence[Message]) -> int | None:
    """Return a number that the client has for a message of this role; None if it is another message."""
    is_theirs = number is not None and number < len(messages) and messages[number].role is role
    return number if is_theirs else None


def _is_unchanged(shown: Message, original: Message | None) -> bool:
    """Return whether the view shows a message as it was; the line after an unanswered turn never was."""
    return original is not None and _without_reasoning(shown) == _without_reasoning(original)


def _steps(tail: Sequence[Logged]) -> dict[int, tuple[int | None, tuple[str, ...]]]:
    """Return, for each reply and each result, the client's number of the results and the calls that were ours."""
    steps: dict[int, tuple[int | None, tuple[str, ...]]] = {}
    own: tuple[str, ...] = ()
    seqs: list[int] = []
    for logged in tail:
        match logged.record:
            case ReplyRecorded(own_calls=own_calls):
                own, seqs = own_calls, [logged.seq]
                steps[logged.seq] = (None, own)
            case ToolSettled(origin=origin):
                seqs.append(logged.seq)
                # Results of one step are one message, whichever of them came last.
                number = origin if origin is not None else steps.get(seqs[0], (None, ()))[0]
                steps |= dict.fromkeys(seqs, (number, own))
            case _:
                pass
    return steps


def _is_joined(record: AnyRecord | None) -> bool:
    """Return whether the client has a reply in another form: without a call of ours, or behind an earlier text."""
    return isinstance(record, ReplyRecorded) and bool(record.own_calls or record.said_before)


def _calls(message: Message) -> set[str]:
    """Return the ids of the calls whose results a message has."""
    return {part.call_id for part in message.parts if isinstance(part, ToolResult)}


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
