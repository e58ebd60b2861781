"""Search results as text for a model: each hit with its speaker, its time and its surroundings.

A short message is shown with the messages before and after it, which often hold the question that it answers. Of a long
one the matching part is shown, with the byte at which the recall tool reads on.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from holdfast.core.search.rank import RECALL, matching_part, one_line, said_text
from holdfast.types.messages import Part, Text
from holdfast.types.records import AnyRecord, InputAdmitted, Logged, ReplyRecorded

# Ten hits with neighbours of typical length are half a page of the recall tool.
MESSAGE_CHARS = 480
_NEIGHBOUR_CHARS = 200
# Records read on either side of a hit: between two messages a turn has its start, attempts and end.
RECORDS_AROUND = 6

_TITLE = f"Best matches first; {RECALL}(seq=n) reads all of [#n]."
# Room for the line that counts the matches left out.
_MORE_BYTES = 80


class Found(msgspec.Struct, frozen=True):
    """A hit: its record, the seq of its call (0 for a message), the snippet of the store, and the records around it."""

    seq: int
    call: int
    excerpt: str
    around: Sequence[Logged]


def passages_text(found: Sequence[Found], query: str, *, bytes_max: int, more: Sequence[str] = ()) -> str:
    """Return hits as text of at most `bytes_max` bytes, but at least one. Neighbours are left out before hits.

    Lines of `more` follow them: parts of long texts, which have an order of their own. They take at most half the room.
    """
    more = _fitting(more, bytes_max // 2)
    room = bytes_max - _size([_TITLE, *more]) - _MORE_BYTES
    lines: list[str] = []
    for hit in found:
        line = _line(hit, query)
        if lines and _size([line]) > room:
            break
        lines.append(line)
        room -= _size([line])
    shown = {hit.seq for hit in found}
    blocks = [_TITLE]
    for hit, line in zip(found, lines, strict=False):
        blocks.append(line)
        neighbours = _neighbours(hit, shown)
        size = _size(neighbours.values())
        if size <= room:
            blocks += neighbours.values()
            shown |= neighbours.keys()
            room -= size
    if len(lines) < len(found):
        blocks.append(f"({len(found) - len(lines)} more; use other words to see them)")
    return "\n".join([*blocks, *more])


def _fitting(lines: Sequence[str], bytes_max: int) -> list[str]:
    """Return the first lines that fit, but at least one if there is one."""
    fitting = list(lines)
    while len(fitting) > 1 and _size(fitting) > bytes_max:
        fitting.pop()
    return fitting


def _size(lines: Iterable[str]) -> int:
    return sum(len(line.encode("utf-8", "replace")) + 1 for line in lines)


def _line(hit: Found, query: str) -> str:
    # An appended message is read as the records of a turn, which share its seq.
    records = sorted((one for one in hit.around if one.seq == hit.seq), key=lambda one: not _speaker(one.record))
    logged = next(iter(records), None)
    time = _time(logged.at) if logged else ""
    speaker = _speaker(logged.record) if logged else ""
    if logged is None or hit.call or not speaker:
        return f"[#{hit.seq}] {'tool step' if hit.call else 'record'}{time}: {hit.excerpt}"
    parts = _parts(logged.record)
    text = said_text(parts)
    if len(text) <= MESSAGE_CHARS:
        return f"[#{hit.seq}] {speaker}{time}: {one_line(text, MESSAGE_CHARS)}"
    start, part = matching_part(text, query, MESSAGE_CHARS)
    return f"[#{hit.seq}] {speaker}{time}{_position(parts, text, start)}: {part}"


def _neighbours(hit: Found, shown: Collection[int]) -> dict[int, str]:
    """Return the messages directly before and after a short message by their seqs, unless they are shown anyway."""
    messages = {one.seq: one.record for one in hit.around if _plain(one.record)}
    if hit.seq not in messages or len(said_text(_parts(messages[hit.seq]))) > MESSAGE_CHARS:
        return {}
    order = list(messages)
    place = order.index(hit.seq)
    sides = (("before", order[:place][-1:]), ("after", order[place + 1 :][:1]))
    return {seq: _neighbour(side, seq, messages[seq]) for side, near in sides for seq in near if seq not in shown}


def _neighbour(side: str, seq: int, record: AnyRecord) -> str:
    return f"  {side} it, [#{seq}] {_speaker(record)}: {one_line(_plain(record), _NEIGHBOUR_CHARS)}"


def _time(at: float) -> str:
    # Records of some imports have no time.
    return datetime.fromtimestamp(at, tz=UTC).strftime(", %Y-%m-%d %H:%M UTC") if at > 0 else ""


def _speaker(record: AnyRecord) -> str:
    match record:
        case InputAdmitted():
            return "user"
        case ReplyRecorded():
            return "assistant"
        case _:
            return ""


def _parts(record: AnyRecord) -> Sequence[Part]:
    match record:
        case InputAdmitted(parts=parts):
            return parts
        case ReplyRecorded(reply=reply):
            return reply.parts
        case _:
            return ()


def _plain(record: AnyRecord) -> str:
    """Return the text of a message without reasoning and attachments."""
    return "\n".join(part.text for part in _parts(record) if isinstance(part, Text)).strip()


def _position(parts: Sequence[Part], text: str, start: int) -> str:
    """Return the byte of the record at which a part of its text begins, if the text before it is read as it is here."""
    if not isinstance(parts[0], Text) or start > len(parts[0].text):
        return ", in part"
    return f", from byte {len(text[:start].encode('utf-8', 'replace')):,}"
