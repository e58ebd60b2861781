"""Client compactions: recognise the call, and answer it without a model.

An agent whose compaction fails is stuck, because it repeats the failing request. If the provider does not answer such a
call, a digest of the history answers it, in the format that the agent asked for.
"""

import re
from collections.abc import Iterator, Sequence

from holdfast.core.compaction.digest import digest_text
from holdfast.core.compaction.facts import Passage
from holdfast.core.compaction.layers import LABELS
from holdfast.core.limits.sizing import tokens_of_text
from holdfast.core.proxy.client_profiles import COMPACTION_ORDER, EARLIER_SUMMARY, REMINDER
from holdfast.core.text.truncation import without_tags
from holdfast.types.messages import Message, Part, Reply, Request, Role, StopReason, Text, ToolResult, Usage, text_of

# Markers are at the start or end of a text; markers quoted in the middle are ignored.
_SEARCHED_CHARS = 8_000
_SERIALISED = re.compile(r"<conversation>(.*?)(?:</conversation>|\Z)", re.DOTALL)
# The summary of an earlier compaction. The agent has no other copy of it.
_PREVIOUS = re.compile(r"<previous-summary>(.*?)(?:</previous-summary>|\Z)", re.DOTALL)
_TAG = re.compile(r"<([a-z][a-z_-]{2,30})>")
# Tags that do not wrap the summary.
_OTHER_TAGS = frozenset(
    {"analysis", "conversation", "example", "examples", "scratchpad", "previous-summary", "template"}
)
# Formats that an order shows as examples.
_EXAMPLE = re.compile(r"<(examples?)>.*?</\1>", re.DOTALL)
_HEADING = re.compile(r"^#{1,4} [^\n]{2,80}$", re.MULTILINE)
_HEADINGS_MAX = 20
# Length of the answer: agents ask for a page or two, and it must leave room in the window.
_TOKENS_MAX = 3_000
# Speaker labels in a serialised conversation: "[User]: ", "[Tool result]: ", "# USER".
_SPEAKER = re.compile(
    r"^(?:\[|#{1,4} )(user|assistant|tool|system)\b[^\]\n]{0,40}(?:\]: ?|\n)", re.MULTILINE | re.IGNORECASE
)
_ROLES = {"assistant": Role.ASSISTANT, "tool": Role.TOOL}
# Prefix of a line of our answer: the speaker and the citation.
_CITATION = re.compile(rf"^(?:- )?(?:{LABELS}) \[#\d+\] ")
# Header line of a digest, and the lines of our answer.
_DIGEST_HEADER = re.compile(r"^[\d,]+ messages?, #\d+ to #\d+\.(?: Tools: .*)?$", re.MULTILINE)
_ANSWER_LINE = re.compile(rf"^(?:- )?(?:{LABELS}) \[#\d+\] .*$", re.MULTILINE)
# A line that only opens or closes a section.
_BRACKET = re.compile(r"^</?[a-z][a-z_-]{2,60}>$")
# Placeholder under all headings but the first.
_PLACEHOLDER = "(see the first section)"
# Size of the passages of a serialised conversation, so that each is ranked separately.
_PASSAGE_CHARS = 4_000


def is_compaction(request: Request) -> bool:
    """Return whether a request is an agent's own call for a summary of its history."""
    if _order_at(request.system[:_SEARCHED_CHARS]) is not None:
        return True
    newest = request.messages[-1] if request.messages else None
    return newest is not None and newest.role is Role.USER and _order_at(text_of(newest.parts)) is not None


def _order_at(text: str) -> int | None:
    """Return the offset of the order to summarise in a text; None if it has none."""
    if head := COMPACTION_ORDER.search(text[:_SEARCHED_CHARS]):
        return head.start()
    if len(text) <= _SEARCHED_CHARS:
        return None
    before = len(text) - _SEARCHED_CHARS
    tail = COMPACTION_ORDER.search(text[before:])
    return before + tail.start() if tail is not None else None


def answer_compaction(request: Request, model: str) -> Reply:
    """Return a summary made without a model, in the format that the agent asked for."""
    before, order = _split_order(request.messages[-1])
    history, earlier = _without_asides([*request.messages[:-1], *before])
    previous = [*earlier, *_PREVIOUS.findall(order)]
    carried = _condense("\n".join(previous)) if previous else ""
    summary = digest_text(_passages(history, order), tokens_max=_TOKENS_MAX - tokens_of_text(carried))
    body = without_tags("\n\n".join(part for part in (carried, summary) if part))
    text = _in_format(_format_spec(request.system, order), body)
    usage = Usage(0, tokens_of_text(text))
    return Reply((Text(text),), StopReason.END, usage, model)


def _format_spec(system: str, order: str) -> str:
    """Return the text that specifies the format of the summary."""
    if _order_at(system[:_SEARCHED_CHARS]) is None:
        # The usual system text of the agent, whose headings are not part of the format.
        return _PREVIOUS.sub("", _SERIALISED.sub("", order))
    # Without conversation tags, the whole message is the conversation.
    return f"{system}\n{_PREVIOUS.sub('', _SERIALISED.sub('', order))}" if _SERIALISED.search(order) else system


def _split_order(newest: Message) -> tuple[list[Message], str]:
    """Split the newest message into the person's text and the order; some agents put both into one message."""
    for place, part in enumerate(newest.parts):
        at = _order_at(part.text) if isinstance(part, Text) else None
        if at is not None and isinstance(part, Text):
            before = (*newest.parts[:place], Text(part.text[:at]))
            return [Message(Role.USER, before)], part.text[at:] + text_of(newest.parts[place + 1 :])
    # The order is in the system text; the last part belongs to it.
    before = newest.parts[:-1]
    return ([Message(Role.USER, before)] if before else []), text_of(newest.parts[-1:])


def _without_asides(messages: Sequence[Message]) -> tuple[list[Message], list[str]]:
    """Return a history without reminders and earlier summaries, and those summaries."""
    earlier: list[str] = []
    history: list[Message] = []
    for message in messages:
        parts: list[Part] = []
        for part in message.parts:
            if message.role is not Role.USER or not isinstance(part, Text):
                parts.append(part)
                continue
            text = REMINDER.sub("", part.text)
            if found := EARLIER_SUMMARY.search(text):
                earlier.append(found[found.lastgroup or 0])
                text = text[: found.start()] + text[found.end() :]
            elif _DIGEST_HEADER.search(text):
                # Our own answer to an earlier compaction, in an unknown frame.
                earlier.append("\n".join(_ANSWER_LINE.findall(text)))
                text = "\n".join(line for line in _ANSWER_LINE.sub("", text).splitlines() if not _is_frame(line))
            if text.strip():
                parts.append(Text(text))
        if parts:
            history.append(Message(message.role, tuple(parts)))
    return history, earlier


def _condense(previous: str) -> str:
    """Return an earlier summary, condensed if it exceeds half of the token limit."""
    lines = [line for line in previous.splitlines() if line.strip() and not _is_frame(line)]
    if tokens_of_text("\n".join(lines)) <= _TOKENS_MAX // 2:
        return "\n".join(lines)
    # Each line of a summary is a statement, so each is ranked separately.
    passages = [
        Passage(place, Message(Role.USER, (Text(_CITATION.sub("", line)),)))
        for place, line in enumerate(lines, start=1)
    ]
    return digest_text(passages, tokens_max=_TOKENS_MAX // 2)


def _is_frame(line: str) -> bool:
    """Return whether a line of an earlier summary is only structure: a heading, header, tag or placeholder."""
    return (
        bool(_HEADING.match(line) or _DIGEST_HEADER.match(line) or _BRACKET.match(line.strip())) or line == _PLACEHOLDER
    )


def _passages(history: list[Message], order: str) -> list[Passage]:
    """Return the passages to summarise: the history before the call, or the conversation serialised in the order."""
    serialised = _SERIALISED.search(order)
    if serialised is not None or not history:
        history = [*history, *_parse_conversation(serialised[1] if serialised is not None else order)]
    return [Passage(number, message) for number, message in enumerate(history, start=1)]


def _parse_conversation(text: str) -> Iterator[Message]:
    """Yield the messages of a serialised conversation, long ones in pieces."""
    turns = list(_SPEAKER.finditer(text))
    ends = [*(turn.start() for turn in turns[1:]), len(text)][: len(turns)]
    labelled = [
        (_ROLES.get(turn[1].lower(), Role.USER), text[turn.end() : end]) for turn, end in zip(turns, ends, strict=True)
    ]
    before = text[: turns[0].start()] if turns else text
    for role, content in [(Role.USER, before), *labelled]:
        for at in range(0, len(content.strip()), _PASSAGE_CHARS):
            piece = Text(content.strip()[at : at + _PASSAGE_CHARS])
            yield Message(role, (ToolResult("", (piece,)) if role is Role.TOOL else piece,))


def _in_format(request: str, body: str) -> str:
    """Put the summary into the sections, headings or tag of the requested format."""
    root, sections = _sections(request)
    if sections and "<summary>" not in request:
        filled = [f"<{tag}>\n{_PLACEHOLDER if place else body}\n</{tag}>" for place, tag in enumerate(sections)]
        return "\n".join([f"<{root}>", *filled, f"</{root}>"] if root else filled)
    headings = list(dict.fromkeys(_HEADING.findall(_EXAMPLE.sub("", request))))[:_HEADINGS_MAX]
    if headings:
        rest = [f"{heading}\n{_PLACEHOLDER}" for heading in headings[1:]]
        body = "\n\n".join([f"{headings[0]}\n{body}", *rest])
    tags = _tags(request)
    tag = "summary" if "<summary>" in request else tags[-1] if tags else ""
    return f"<{tag}>\n{body}\n</{tag}>" if tag else body


def _tags(request: str) -> list[str]:
    """Return the tags of a format that are opened and closed, in their order."""
    return [tag for tag in dict.fromkeys(_TAG.findall(request)) if tag not in _OTHER_TAGS and f"</{tag}>" in request]


def _sections(request: str) -> tuple[str, list[str]]:
    """Return the section tags of a format: the enclosing tag, if any, and the sections."""
    example = _EXAMPLE.search(request)
    shown = example[0] if example is not None else request
    tags = _tags(shown)
    if not tags:
        return "", []
    inside = shown.partition(f"<{tags[0]}>")[2].partition(f"</{tags[0]}>")[0]
    inner = [tag for tag in tags[1:] if f"</{tag}>" in inside]
    if inner:
        return tags[0], inner[:_HEADINGS_MAX]
    # Without an example, sibling tags may be the structure of the order itself.
    return "", tags[:_HEADINGS_MAX] if example is not None else []
