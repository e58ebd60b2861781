"""Compactions by clients: recognise the call, and answer it without a model.

An agent whose compaction fails is stuck: the same request fails again and again. If the provider does not answer such a
call, a digest of the history answers it, in the form that the agent asked for.
"""

import re
from collections.abc import Iterator, Sequence

from holdfast.core.compaction.digest import make_digest
from holdfast.core.compaction.facts import Passage
from holdfast.core.compaction.ledger import make_ledger
from holdfast.core.limits.sizing import tokens_of_text
from holdfast.core.proxy.client_profiles import COMPACTION_ORDER, EARLIER_SUMMARY, REMINDER
from holdfast.core.text.truncation import without_tags
from holdfast.types.messages import Message, Part, Reply, Request, Role, StopReason, Text, ToolResult, Usage, text_of

# Markers stand at an end of a text; one that somebody quotes in the middle of megabytes is not looked for.
_LOOKED_AT_CHARS = 8_000
_SERIALISED = re.compile(r"<conversation>(.*?)(?:</conversation>|\Z)", re.DOTALL)
# What an earlier compaction left, to be carried on: whatever it does not carry over is gone from the agent for good.
_PREVIOUS = re.compile(r"<previous-summary>(.*?)(?:</previous-summary>|\Z)", re.DOTALL)
_TAG = re.compile(r"<([a-z][a-z_-]{2,30})>")
# Tags that wrap something else than the summary itself.
_OTHER_TAGS = frozenset(
    {"analysis", "conversation", "example", "examples", "scratchpad", "previous-summary", "template"}
)
# Forms that an order shows but does not ask for.
_EXAMPLE = re.compile(r"<(examples?)>.*?</\1>", re.DOTALL)
_HEADING = re.compile(r"^#{1,4} [^\n]{2,80}$", re.MULTILINE)
_HEADINGS_MAX = 20
# What such an answer may come to: agents ask for a page or two, and it must not fill the window that it is to empty.
_TOKENS_MAX = 3_000
_LEDGER_SHARE = 0.7
# How those who speak are named in a conversation that was written down: "[User]: ", "[Tool result]: ", "# USER".
_SPEAKER = re.compile(
    r"^(?:\[|#{1,4} )(user|assistant|tool|system)\b[^\]\n]{0,40}(?:\]: ?|\n)", re.MULTILINE | re.IGNORECASE
)
_ROLES = {"assistant": Role.ASSISTANT, "tool": Role.TOOL}
# How a line of such an answer begins: who said it, and where.
_CITED = re.compile(r"^(?:- )?(?:user|assistant|decided|ran|error) \[#\d+\] ")
# How a digest says what it is of, and all lines of such an answer.
_COUNTED = re.compile(r"^[\d,]+ messages?, #\d+ to #\d+\.$", re.MULTILINE)
_OURS = re.compile(r"^(?:- )?(?:(?:user|assistant|decided|ran|error)|[a-z ]{3,20}:) \[#\d+\] .*$", re.MULTILINE)
# A line that only opens or closes a section.
_BRACKET = re.compile(r"^</?[a-z][a-z_-]{2,60}>$")
# What stands under headings that have nothing of their own.
_SEE = "(see the first section)"
# Serialised conversations are cut into passages of this size, so that the telling ones can be told from the others.
_PASSAGE_CHARS = 4_000


def is_compaction(request: Request) -> bool:
    """Return whether a request is an agent's own call for a summary of its history."""
    if _order_at(request.system[:_LOOKED_AT_CHARS]) is not None:
        return True
    newest = request.messages[-1] if request.messages else None
    return newest is not None and newest.role is Role.USER and _order_at(text_of(newest.parts)) is not None


def _order_at(text: str) -> int | None:
    """Return where in a text the order to summarise begins; None: it has none."""
    if head := COMPACTION_ORDER.search(text[:_LOOKED_AT_CHARS]):
        return head.start()
    before = max(len(text) - _LOOKED_AT_CHARS, 0)
    tail = COMPACTION_ORDER.search(text[before:])
    return before + tail.start() if tail is not None else None


def answer_compaction(request: Request, model: str) -> Reply:
    """Return the summary that an agent asked for, made without a model, in the form that it asked for."""
    said, order = _parted(request.messages[-1])
    history, earlier = _without_asides([*request.messages[:-1], *said])
    previous = [*earlier, *_PREVIOUS.findall(order)]
    carried = _carried("\n".join(previous)) if previous else ""
    told = _told(_passages(history, order), _TOKENS_MAX - tokens_of_text(carried))
    text = _formed(_form(request.system, order), without_tags("\n\n".join(part for part in (carried, told) if part)))
    usage = Usage(0, tokens_of_text(text))
    return Reply((Text(text),), StopReason.END, usage, model)


def _form(system: str, order: str) -> str:
    """Return what says in which form a summary is wanted."""
    if _order_at(system[:_LOOKED_AT_CHARS]) is None:
        # The system text of an agent at work, with headings of its own.
        return _PREVIOUS.sub("", _SERIALISED.sub("", order))
    # What is not marked as the conversation is all conversation.
    return f"{system}\n{_PREVIOUS.sub('', _SERIALISED.sub('', order))}" if _SERIALISED.search(order) else system


def _parted(newest: Message) -> tuple[list[Message], str]:
    """Return what a person said in the message that brings the order, and the order: some agents put them into one."""
    for place, part in enumerate(newest.parts):
        at = _order_at(part.text) if isinstance(part, Text) else None
        if at is not None and isinstance(part, Text):
            before = (*newest.parts[:place], Text(part.text[:at]))
            return [Message(Role.USER, before)], part.text[at:] + text_of(newest.parts[place + 1 :])
    # Then the order is the system text, and what goes with it comes last.
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
            elif _COUNTED.search(text):
                # An answer of ours, in words around it that we do not know.
                earlier.append("\n".join(_OURS.findall(text)))
                text = "\n".join(line for line in _OURS.sub("", text).splitlines() if not _is_frame(line))
            if text.strip():
                parts.append(Text(text))
        if parts:
            history.append(Message(message.role, tuple(parts)))
    return history, earlier


def _told(passages: Sequence[Passage], tokens_max: int) -> str:
    """Return the exact facts and the telling sentences of a conversation."""
    ledger = make_ledger(passages, tokens_max=int(tokens_max * _LEDGER_SHARE))
    facts = ledger.render()
    already = [one.text for one in ledger.entries]
    digest = make_digest(passages, tokens_max=tokens_max - tokens_of_text(facts), already=already)
    return "\n\n".join(part for part in (facts, digest.render()) if part)


def _carried(previous: str) -> str:
    """Return what an earlier summary said: as it stands in half of the room, else what matters of it."""
    lines = [line for line in previous.splitlines() if line.strip() and not _is_frame(line)]
    if tokens_of_text("\n".join(lines)) <= _TOKENS_MAX // 2:
        return "\n".join(lines)
    # Each line was worth keeping once, so each is weighed by itself.
    passages = [
        Passage(place, Message(Role.USER, (Text(_CITED.sub("", line)),))) for place, line in enumerate(lines, start=1)
    ]
    return _told(passages, _TOKENS_MAX // 2)


def _is_frame(line: str) -> bool:
    """Return whether a line of an earlier summary says nothing by itself."""
    return bool(_HEADING.match(line) or _COUNTED.match(line) or _BRACKET.match(line.strip())) or line == _SEE


def _passages(history: list[Message], order: str) -> list[Passage]:
    """Return what is to be represented: the history before the call, or the text in which it was sent along."""
    serialised = _SERIALISED.search(order)
    if serialised is not None or not history:
        history = [*history, *_spoken(serialised[1] if serialised is not None else order)]
    return [Passage(number, message) for number, message in enumerate(history, start=1)]


def _spoken(text: str) -> Iterator[Message]:
    """Yield the messages that were written down in one text, long ones in pieces."""
    turns = list(_SPEAKER.finditer(text))
    ends = [*(turn.start() for turn in turns[1:]), len(text)][: len(turns)]
    spoken = [
        (_ROLES.get(turn[1].lower(), Role.USER), text[turn.end() : end]) for turn, end in zip(turns, ends, strict=True)
    ]
    before = text[: turns[0].start()] if turns else text
    for role, said in [(Role.USER, before), *spoken]:
        for at in range(0, len(said.strip()), _PASSAGE_CHARS):
            piece = Text(said.strip()[at : at + _PASSAGE_CHARS])
            yield Message(role, (ToolResult("", (piece,)) if role is Role.TOOL else piece,))


def _formed(request: str, body: str) -> str:
    root, sections = _sections(request)
    if sections and "<summary>" not in request:
        filled = [f"<{tag}>\n{_SEE if place else body}\n</{tag}>" for place, tag in enumerate(sections)]
        return "\n".join([f"<{root}>", *filled, f"</{root}>"] if root else filled)
    headings = list(dict.fromkeys(_HEADING.findall(_EXAMPLE.sub("", request))))[:_HEADINGS_MAX]
    if headings:
        rest = [f"{heading}\n{_SEE}" for heading in headings[1:]]
        body = "\n\n".join([f"{headings[0]}\n{body}", *rest])
    tags = _tags(request)
    tag = "summary" if "<summary>" in request else tags[-1] if tags else ""
    return f"<{tag}>\n{body}\n</{tag}>" if tag else body


def _tags(request: str) -> list[str]:
    """Return the tags that a form has, opened and closed, in their order."""
    return [tag for tag in dict.fromkeys(_TAG.findall(request)) if tag not in _OTHER_TAGS and f"</{tag}>" in request]


def _sections(request: str) -> tuple[str, list[str]]:
    """Return the tags of a form that has several: the one around them, if there is one, and they."""
    example = _EXAMPLE.search(request)
    shown = example[0] if example is not None else request
    tags = _tags(shown)
    if not tags:
        return "", []
    inside = shown.partition(f"<{tags[0]}>")[2].partition(f"</{tags[0]}>")[0]
    inner = [tag for tag in tags[1:] if f"</{tag}>" in inside]
    if inner:
        return tags[0], inner[:_HEADINGS_MAX]
    # Side by side they may as well be what the order itself is divided into.
    return "", tags[:_HEADINGS_MAX] if example is not None else []
