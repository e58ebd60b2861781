"""What goes upstream of a conversation that was made smaller.

The client's own messages where they are shown as they are, ours where something stands for them, and everything else as
the client wrote it.
"""

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from holdfast.core.view import PLAIN, ViewMessage, conversation, lens_of, messages_in_view
from holdfast.gateway.http.asgi import Scope, header
from holdfast.gateway.proxy.request import OUTPUT_FIELDS, Asked, with_fields
from holdfast.models.body_rewrite import Kept, rewrite
from holdfast.models.dialects import SERVED
from holdfast.models.wire import DecodedRequest, Original
from holdfast.runtime.engine.log import Log
from holdfast.types.messages import Message, Part, Reasoning, Role, Text, ToolResult
from holdfast.types.records import Logged, ToolSettled, origin_of

# Instructions in the middle of a conversation may stand only behind a person's turn, so those whose turn is summarised
# are told in words. Some agents send one of several thousand characters, and a short one now and then.
_REMINDED = "The application gave these instructions earlier in this conversation; they are still in force."
_REMINDED_CHARS_MAX = 20_000

# The client's model has no such tool; what the words name is kept here, and its owner reads it.
_RECALL = re.compile(
    r"(?:[:;,]\s)?recall\((?:seq=(?:\d+|n)|blob='[^']*'|query=\.\.\.)\) "
    r"(?:reads (?:it|them|all of it)|finds what is not mentioned here)"
)


class _Group(msgspec.Struct):
    """Messages on the wire that are the same as some of ours, taken together: neither side can be split further."""

    wires: list[int]
    ours: range


def rewritten(asked: Asked, log: Log, blobs: Mapping[str, bytes], issuer: str) -> bytes:
    """Return the client's body with the conversation as the session's view has it."""
    body = rewrite(asked.dialect, asked.body, outgoing(asked, log, issuer), blobs, issuer)
    if log.turn.output_clamp is not None:
        body = with_fields(body, dict.fromkeys(OUTPUT_FIELDS, log.turn.output_clamp))
    return SERVED[asked.dialect].settled(body)


def outgoing(asked: Asked, log: Log, issuer: str) -> list[Kept | Message]:
    """Return the conversation to send: instructions, what stands for the past, and the rest.

    Thinking that the view does not have, or that another than `issuer` signed, is left out.
    """
    assert asked.decoded is not None, "only what was read is rewritten"
    shown, changed = _shown(log, asked.messages)
    thinking = {number: one for number, one in shown.items() if _thinks(asked.messages[number])}
    thoughtless = {number for number, one in thinking.items() if not _may_think(one, issuer)}
    groups = _groups(asked.decoded.originals)
    instructions = [Kept(wire) for group in groups if not group.ours for wire in group.wires]
    # Pins, and the summary: whatever the view has before its first message of the conversation.
    view = messages_in_view(log.tail, log.turn, pinned=log.pinned)
    past = view[: len(view) - len(_conversation(log))]
    rest: list[Kept | Message] = []
    left: list[str] = []
    begun: list[Kept | Message] = []
    for group in groups:
        if group.ours and group.ours.start >= len(asked.messages):
            # The beginning of the answer stays where it is: last.
            begun += [Kept(wire) for wire in group.wires]
            continue
        here = [number for number in group.ours if number in shown]
        between = [wire for wire in group.wires if asked.decoded.originals[wire].instruction and group.ours]
        if len(here) == len(group.ours) and not any(number in changed for number in here):
            with_reasoning = not any(number in thoughtless for number in here)
            rest += [Kept(wire, with_reasoning) for wire in group.wires if group.ours]
        elif here:
            rest += [*(_without_recall(shown[number]) for number in here), *map(Kept, between)]
        else:
            left += [asked.decoded.originals[wire].instruction for wire in between]
    return [*instructions, *(_without_recall(one) for one in past), *_reminder(left), *rest, *begun]


def _reminder(instructions: Sequence[str]) -> Iterator[Message]:
    """Yield what says again which instructions stood where now a summary stands, the newest of them."""
    kept: list[str] = []
    for text in reversed(list(dict.fromkeys(instructions))):
        if sum(map(len, kept)) + len(text) > _REMINDED_CHARS_MAX:
            break
        kept.append(text)
    if kept:
        told = "\n\n".join(reversed(kept))
        yield Message(Role.USER, (Text(f"{_REMINDED}\n<instructions>\n{told}\n</instructions>"),))


def _without_recall(message: Message) -> Message:
    """Return a message of ours that names no tool of ours."""
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


def _conversation(log: Log) -> list[ViewMessage]:
    turn = log.turn
    return conversation(log.tail, first_turn=turn.boundary, first_step=turn.first_step, lens=lens_of(turn))


def _shown(log: Log, messages: Sequence[Message]) -> tuple[dict[int, Message], set[int]]:
    """Return what is shown of a client's messages, by their numbers, and which of them not as they were sent."""
    turn = log.turn
    records = {logged.seq: logged for logged in log.tail}
    plain = {
        said.place: said.message
        for said in conversation(log.tail, first_turn=turn.boundary, first_step=turn.first_step, lens=PLAIN)
    }
    shown: dict[int, Message] = {}
    changed: set[int] = set()
    for said in _conversation(log):
        number = _number(records.get(said.seq), said.message.role)
        if number is None or number >= len(messages) or messages[number].role is not said.message.role:
            continue
        shown[number] = said.message
        # A result that the log keeps shortened is sent so; its whole is in a blob.
        if _without_thinking(said.message) != _without_thinking(plain[said.place]) or _is_shortened(said.message):
            changed.add(number)
        else:
            changed.discard(number)
    return shown, changed


def _number(logged: Logged | None, role: Role) -> int | None:
    if logged is None or (role is Role.TOOL) != isinstance(logged.record, ToolSettled):
        return None
    return origin_of(logged.record)


def _thinks(message: Message) -> bool:
    return any(isinstance(part, Reasoning) and part.opaque for part in message.parts)


def _may_think(shown: Message, issuer: str) -> bool:
    """Tell whether thinking is shown of a message, all of it signed by who is asked."""
    issuers = {part.issuer for part in shown.parts if isinstance(part, Reasoning) and part.opaque}
    return issuers == {issuer}


def _without_thinking(message: Message) -> Message:
    return Message(message.role, tuple(part for part in message.parts if not isinstance(part, Reasoning)))


def _is_shortened(message: Message) -> bool:
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


# --- What a client says in one go is one message: questions, files and remarks that follow each other …


def together(decoded: DecodedRequest) -> DecodedRequest:
    """Return a request whose messages of a person in a row are one; every original names what it became part of."""
    messages: list[Message] = []
    # For each of the messages before, and for the end behind them, its place among those after.
    places: list[int] = []
    for message in decoded.request.messages:
        if messages and message.role is Role.USER and messages[-1].role is Role.USER:
            messages[-1] = Message(Role.USER, (*messages[-1].parts, *message.parts))
        else:
            messages.append(message)
        places.append(len(messages) - 1)
    if len(messages) == len(places):
        return decoded
    return msgspec.structs.replace(
        decoded,
        request=msgspec.structs.replace(decoded.request, messages=tuple(messages)),
        originals=tuple(_moved(original, [*places, len(messages)]) for original in decoded.originals),
    )


def _moved(original: Original, places: list[int]) -> Original:
    first = places[original.first]
    last = places[original.last - 1] + 1 if original.last > original.first else first
    return msgspec.structs.replace(original, first=first, last=last)


# --- A body that a client has compressed: read as what it says, and passed on so.


# zlib's own number for "gzip, by its header".
_GZIP_WBITS = 16 + zlib.MAX_WBITS
_PACKED = {"gzip": _GZIP_WBITS, "x-gzip": _GZIP_WBITS, "deflate": zlib.MAX_WBITS}


def unpacked(scope: Scope, body: bytes, bytes_max: int) -> bytes:
    """Return a body as it was before it was compressed, and take the header away that says so.

    As it came where it is not packed, not in a way that is read here, or becomes more than `bytes_max`.
    """
    wbits = _PACKED.get(header(scope, b"content-encoding").strip().lower())
    if wbits is None:
        return body
    packed = zlib.decompressobj(wbits)
    try:
        # One byte more than may be: so it is seen that there is more.
        plain = packed.decompress(body, bytes_max + 1)
    except zlib.error:
        return body
    if len(plain) > bytes_max or not packed.eof or packed.unused_data:
        return body
    scope["headers"] = [(name, text) for name, text in scope["headers"] if name != b"content-encoding"]
    return plain
