"""What the simulated model answers: a pure function of the request, with a few words that it understands.

In the newest message of a person: "remember NAME = VALUE", "what is NAME?", "call TOOL {json}" (several make parallel
calls, "then call" makes a later one), "write N words", "think" and "think quietly". Anything else is reflected. Text
in a frame of tags is reference: facts in it are seen, and what it says is not done again.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence

import msgspec

from holdfast.models.fake.tokens import count_text, truncate_to_tokens
from holdfast.models.openai_chat.request_encoder import ATTACHED_ABOVE
from holdfast.types.messages import (
    Effort,
    Media,
    Message,
    Part,
    Request,
    Role,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
    text_of,
)

# --- How the simulated model summarises: exact facts first, then the beginnings of lines, within what was asked.


# An order to summarise, not the mere mention of a summary: conversations that carry one must not set it off.
_ORDER = re.compile(
    r"\bsummari[sz]e\b|\byou are (?:an?|the) [^.\n]{0,60}\bsummari[sz]"
    r"|\b(?:write|give|make|produce|provide|create|return|compose)\b[^.\n]{0,60}\b(?:summary|notes)\b",
    re.IGNORECASE,
)
# Where an order may stand: a system text starts with it, a part of a message starts or ends with it.
_ORDER_CHARS = 1_200
_BOUND = re.compile(r"(\d[\d,]*)\s+(tokens|words)\b", re.IGNORECASE)
_FRAMED_NOTES = re.compile(r"<(conversation|previous-summary)>\n(.*?)\n</\1>", re.DOTALL)
_LISTED = re.compile(r"<messages>\n(.*?)\n</messages>", re.DOTALL)
_REFERENCE = re.compile(r"<([a-z][a-z0-9_-]*)>.*?</\1>", re.DOTALL)
_FACT = re.compile(r"(?<![\w.-])([A-Za-z][\w.-]{0,63})\s*=\s*([^\n;,\"\[\]<>|]{1,200})")

# What a summary has where nothing was asked: about a page.
_TOKENS_DEFAULT = 800
# A summary keeps below its bound by this much, since the one who asked counts differently.
_SHARE = 0.8
_TOKENS_PER_WORD = 1.3
_LINE_CHARS = 160


def wants_summary(system: str, requested: Sequence[str]) -> bool:
    """Whether the system text or a part of what a person says now orders a summary."""
    ends = [end for part in requested for end in (part[:_ORDER_CHARS], part[-_ORDER_CHARS:])]
    return any(_ORDER.search(text) for text in (system[:_ORDER_CHARS], *ends))


def summarise(request: Request, ask: str) -> str:
    """Return a summary of everything that the request shows."""
    room = int(_tokens_asked(request, ask) * _SHARE)
    lines: list[str] = []
    used = 0
    for line in _lines(request):
        cost = count_text(line) + 1
        if used + cost > room:
            break
        lines.append(line)
        used += cost
    return "\n".join(lines) if lines else truncate_to_tokens("Summary: there is no room for more", max(room, 1))


def _tokens_asked(request: Request, ask: str) -> int:
    bounds = [request.output_tokens_max] if request.output_tokens_max is not None else []
    for text in (request.system[:_ORDER_CHARS], ask[:_ORDER_CHARS], ask[-_ORDER_CHARS:]):
        for number, unit in _BOUND.findall(text):
            count = int(number.replace(",", ""))
            bounds.append(count if unit.lower() == "tokens" else int(count * _TOKENS_PER_WORD))
    return min(bounds, default=_TOKENS_DEFAULT)


def _lines(request: Request) -> Iterator[str]:
    """Yield a summary's lines, the most valuable first: whoever has no room for all keeps the facts."""
    source = "\n".join(_source(request))
    facts = {name: value.partition(". ")[0].strip(" \t.!?\"'`*)") for name, value in _FACT.findall(source)}
    yield "## Facts"
    yield from (f"- {name} = {value}" for name, value in facts.items())
    yield "## What was said"
    seen: set[str] = set()
    for raw in source.splitlines():
        line = " ".join(raw.split())[:_LINE_CHARS]
        if line and line not in seen and not _ORDER.search(line):
            seen.add(line)
            yield f"- {line}"


def _source(request: Request) -> Iterator[str]:
    # Where the conversation is summarised that it stands in, the order says so by a list of its messages, and wants
    # nothing of what is marked as reference, itself included.
    is_listed = bool(request.messages) and bool(_LISTED.search(text_of(request.messages[-1].parts)))
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, Text) and is_listed:
                yield "" if _LISTED.search(part.text) else _REFERENCE.sub("", part.text)
            elif isinstance(part, Text):
                # Where the conversation is handed over in a frame, what stands around it is the order.
                framed = [found[2] for found in _FRAMED_NOTES.finditer(part.text)]
                yield "\n".join(framed) if framed else part.text
            elif isinstance(part, ToolResult):
                yield text_of(part.parts)


# A value ends with its line, or where a list, a quotation or a bracket goes on.
_VALUE = r"([^\n;,\"\[\]<>|]+)"
_REMEMBER = re.compile(r"\bremember\s+([A-Za-z][\w.-]*)\s*=\s*" + _VALUE, re.IGNORECASE)
_QUESTION = re.compile(r"\bwhat\s+is\s+([A-Za-z][\w.-]*)\s*\?", re.IGNORECASE)
_WRITE = re.compile(r"\bwrite\s+([\d,]+)\s+words\b", re.IGNORECASE)
_THINK = re.compile(r"\bthink(\s+quietly)?\b", re.IGNORECASE)
_FRAMED = re.compile(r"<([a-z][a-z0-9_-]*)>.*?</\1>", re.DOTALL)
_CALL = re.compile(r"\b(then\s+)?call\s+([A-Za-z_][\w.-]*)[ \t]*", re.IGNORECASE)

# A million words are more than any model writes; the output limit cuts far earlier.
_WORDS_MAX = 1_000_000
_SENTENCE = "the ship keeps its course while the wind turns and the crew reads every line of the old log aloud"
# How much of a message or result an answer quotes, so that answers do not grow with what they answer.
_QUOTED_CHARS = 60
_RESULT_CHARS = 400

_json = json.JSONDecoder()


class Thought(msgspec.Struct, frozen=True):
    """What the model thinks before it answers; a quiet thought is kept hidden."""

    text: str
    is_quiet: bool


class Draft(msgspec.Struct, frozen=True):
    """An answer before it is cut to length, signed and counted."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    thought: Thought | None = None


class _Prompt(msgspec.Struct, frozen=True):
    """The end of the conversation: what a person asks, what tools returned, and how many rounds of calls there were."""

    # All that a person says now, and the texts that it came in.
    ask: str
    parts: tuple[str, ...]
    results: tuple[ToolResult, ...]
    rounds: int


def compose(request: Request) -> Draft:
    """Return the answer to a request."""
    prompt = _prompt(request.messages)
    if wants_summary(request.system, prompt.parts):
        return Draft(summarise(request, prompt.ask))
    thought = _thought(request, prompt)
    rounds = list(_rounds_of_calls(prompt.ask, request))
    if prompt.rounds < len(rounds):
        return Draft("", _named(rounds[prompt.rounds], request), thought)
    sentences = [_quoted(result, request.messages) for result in prompt.results]
    if not prompt.results:
        sentences = list(_sentences(request, prompt.ask))
    return Draft(" ".join(sentences), thought=thought)


def asks_for_summary(request: Request) -> bool:
    """Return whether a request is for a summary of what it shows."""
    return wants_summary(request.system, _prompt(request.messages).parts)


def _prompt(messages: Sequence[Message]) -> _Prompt:
    """Look back from the end to the newest words of a person, over the rounds of calls since."""
    results: tuple[ToolResult, ...] = ()
    asks: list[str] = []
    parts: list[str] = []
    rounds = 0
    for message in reversed(messages):
        if message.role is Role.ASSISTANT:
            if asks:
                break
            rounds += any(isinstance(part, ToolCall) for part in message.parts)
        elif message.role is Role.TOOL and not rounds and not asks:
            results = tuple(part for part in message.parts if isinstance(part, ToolResult))
        elif message.role is Role.USER and not _is_attachment(message):
            asks.append(_FRAMED.sub("", text_of(message.parts)))
            parts += [_FRAMED.sub("", part.text) for part in message.parts if isinstance(part, Text)]
    return _Prompt("\n".join(reversed(asks)), tuple(parts), results, rounds)


def _is_attachment(message: Message) -> bool:
    """Whether a message only brings what a tool attached, which this dialect puts into a person's mouth."""
    first = message.parts[0] if message.parts else None
    return isinstance(first, Text) and first.text == ATTACHED_ABOVE


def _thought(request: Request, prompt: _Prompt) -> Thought | None:
    requested = _THINK.search(prompt.ask)
    if requested is None and request.effort in (None, Effort.NONE):
        return None
    words = len(prompt.ask.split())
    text = f"The newest message has {words} words and the conversation {len(request.messages)} messages."
    return Thought(text, is_quiet=requested is not None and requested[1] is not None)


# --- tools -------------------------------------------------------------------------------------------------------


def _rounds_of_calls(ask: str, request: Request) -> Iterator[list[tuple[str, str]]]:
    """Yield the calls that a message asks for, round by round; tools that are not offered are left out."""
    offered = {tool.name for tool in request.tools}
    current: list[tuple[str, str]] = []
    for found in _CALL.finditer(ask):
        if found[2] not in offered:
            continue
        if found[1] and current:
            yield current
            current = []
        current.append((found[2], _arguments(ask, found.end())))
    if current:
        yield current


def _arguments(ask: str, start: int) -> str:
    """Return the JSON that stands here to the byte; broken JSON too, since real models write it."""
    if not ask.startswith("{", start):
        return "{}"
    try:
        _, end = _json.raw_decode(ask, start)
    except json.JSONDecodeError:
        return ask[start:].partition("\n")[0]
    return ask[start:end]


def _named(calls: Sequence[tuple[str, str]], request: Request) -> tuple[ToolCall, ...]:
    """Give calls ids that no other place of any conversation gives."""
    fingerprint = hashlib.sha256(msgspec.json.encode(request.messages)).hexdigest()[:16]
    return tuple(ToolCall(f"call_{fingerprint}_{at}", name, text) for at, (name, text) in enumerate(calls))


def _quoted(result: ToolResult, messages: Sequence[Message]) -> str:
    calls = (part for message in messages for part in message.parts if isinstance(part, ToolCall))
    name = next((call.name for call in calls if call.call_id == result.call_id), "unknown")
    text = text_of(result.parts)[:_RESULT_CHARS]
    verb = "returned" if result.outcome is ToolOutcome.DONE else "failed and said"
    media = "".join(f" [{part.media_type}]" for part in result.parts if isinstance(part, Media))
    return f"The tool {name} {verb}: {text}{media}"


# --- words -------------------------------------------------------------------------------------------------------


def _sentences(request: Request, ask: str) -> Iterator[str]:
    understood = False
    for found in _REMEMBER.finditer(ask):
        understood = True
        yield f"I will remember that {found[1]} = {_tidied(found[2])}."
    for found in _QUESTION.finditer(ask):
        understood = True
        seen = _value_of(found[1], request)
        yield f"{found[1]} = {seen}." if seen is not None else f"I do not see {found[1]} in what I was given."
    for found in _WRITE.finditer(ask):
        understood = True
        yield _written(int(found[1].replace(",", "")))
    if not understood:
        yield _reflection(request, ask)


def _value_of(name: str, request: Request) -> str | None:
    """Find the newest value of a name in everything that is visible, a summary or a tool's output included."""
    pattern = re.compile(rf"(?<![\w.-]){re.escape(name)}\s*=\s*{_VALUE}", re.IGNORECASE)
    texts = [text for message in request.messages for text in _texts(message.parts)]
    for text in reversed([request.system, *texts]):
        found = pattern.findall(text)
        if found:
            return _tidied(found[-1])
    return None


def _texts(parts: Sequence[Part]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Text):
            yield part.text
        elif isinstance(part, ToolResult):
            yield text_of(part.parts)


def _tidied(value: str) -> str:
    """Cut a value at the end of its sentence and take off what surrounds it."""
    return value.partition(". ")[0].strip(" \t.!?\"'`*)")


def _written(count: int) -> str:
    count = min(count, _WORDS_MAX)
    words = _SENTENCE.split()
    repeats = -(-count // len(words))
    return " ".join((words * repeats)[:count])


def _reflection(request: Request, ask: str) -> str:
    said = " ".join(ask.split())
    quote = said if len(said) <= _QUOTED_CHARS else said[:_QUOTED_CHARS].rstrip() + "…"
    people = [message for message in request.messages if message.role is Role.USER and not _is_attachment(message)]
    media = [part for part in (people[-1].parts if people else ()) if isinstance(part, Media)]
    seen = "".join(
        f" I see an attachment: {part.media_type}, {part.width_pixels}x{part.height_pixels} pixels, "
        f"{part.blob.size_bytes:,} bytes."
        for part in media
    )
    return f'You said: "{quote}".{seen} This is message {len(people)} from you that I see.'
