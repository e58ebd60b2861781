"""Replies of the simulated model: a pure function of the request.

Commands in the newest user message: "remember NAME = VALUE", "what is NAME?", "call TOOL {json}" (several make parallel
calls, "then call" starts the next round), "write N words", "think" and "think quietly". Anything else is echoed. Text
inside tags is reference: its facts are visible, its commands are ignored. A name that is asked for and not visible is
looked up once with the tool `recall`, if the model is offered it and told that something is no longer shown.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence

import msgspec

from holdfast.models.fake.outputs import write_output
from holdfast.models.fake.tokens import count_text, truncate_to_tokens
from holdfast.models.openai_chat.request_encoder import ATTACHED_ABOVE
from holdfast.models.output_tool import OUTPUT_TOOL
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

# --- Summaries: exact facts first, then line beginnings, within the requested length ---

# An instruction to summarise; the mere mention of a summary must not match.
_INSTRUCTION = re.compile(
    r"\bsummari[sz]e\b|\byou are (?:an?|the) [^.\n]{0,60}\bsummari[sz]"
    r"|\b(?:write|give|make|produce|provide|create|return|compose)\b[^.\n]{0,60}\b(?:summary|notes)\b",
    re.IGNORECASE,
)
# The instruction is at the start of a system text, or at the start or end of a message part.
_INSTRUCTION_CHARS = 1_200
_BOUND = re.compile(r"(?<![\d,])(\d[\d,]*+)\s+(tokens|words)\b", re.IGNORECASE)
_FRAMED_NOTES = re.compile(r"<(conversation|previous-summary)>\n(.*?)\n</\1>", re.DOTALL)
_LISTED = re.compile(r"<messages>\n(.*?)\n</messages>", re.DOTALL)
_REFERENCE = re.compile(r"<([a-z][a-z0-9_-]*)>.*?</\1>", re.DOTALL)
_FACT = re.compile(r"(?<![\w.-])([A-Za-z][\w.-]{0,63})\s*=\s*([^\n;,\"\[\]<>|]{1,200})")

# Default length of a summary: about a page.
_TOKENS_DEFAULT = 800
# Share of the requested length to use, because the client counts tokens differently.
_SHARE = 0.8
_TOKENS_PER_WORD = 1.3
_LINE_CHARS = 160


def wants_summary(system: str, prompts: Sequence[str]) -> bool:
    """Return whether the system text or a part of the newest user message asks for a summary."""
    ends = [end for part in prompts for end in (part[:_INSTRUCTION_CHARS], part[-_INSTRUCTION_CHARS:])]
    return any(_INSTRUCTION.search(text) for text in (system[:_INSTRUCTION_CHARS], *ends))


def summarise(request: Request, ask: str) -> str:
    """Summarise everything in the request."""
    room = int(_tokens_requested(request, ask) * _SHARE)
    lines: list[str] = []
    used = 0
    for line in _lines(request):
        cost = count_text(line) + 1
        if used + cost > room:
            break
        lines.append(line)
        used += cost
    return "\n".join(lines) if lines else truncate_to_tokens("Summary: there is no room for more", max(room, 1))


def _tokens_requested(request: Request, ask: str) -> int:
    bounds = [request.output_tokens_max] if request.output_tokens_max is not None else []
    for text in (request.system[:_INSTRUCTION_CHARS], ask[:_INSTRUCTION_CHARS], ask[-_INSTRUCTION_CHARS:]):
        for number, unit in _BOUND.findall(text):
            count = int(number.replace(",", ""))
            bounds.append(count if unit.lower() == "tokens" else int(count * _TOKENS_PER_WORD))
    return min(bounds, default=_TOKENS_DEFAULT)


def _lines(request: Request) -> Iterator[str]:
    """Yield the lines of a summary, facts first: truncation drops the least valuable lines."""
    source = "\n".join(_source(request))
    facts = {name: value.partition(". ")[0].strip(" \t.!?\"'`*)") for name, value in _FACT.findall(source)}
    yield "## Facts"
    yield from (f"- {name} = {value}" for name, value in facts.items())
    yield "## What was said"
    seen: set[str] = set()
    for raw in source.splitlines():
        line = " ".join(raw.split())[:_LINE_CHARS]
        if line and line not in seen and not _INSTRUCTION.search(line):
            seen.add(line)
            yield f"- {line}"


def _source(request: Request) -> Iterator[str]:
    # A request that appends the instruction to the conversation lists the messages to summarise. It excludes tagged
    # reference text, the instruction included.
    is_listed = bool(request.messages) and bool(_LISTED.search(text_of(request.messages[-1].parts)))
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, Text):
                yield _untagged(part.text) if is_listed else _framed(part.text)
            elif isinstance(part, ToolResult):
                yield text_of(part.parts)


def _untagged(text: str) -> str:
    return "" if _LISTED.search(text) else _REFERENCE.sub("", text)


def _framed(text: str) -> str:
    """Return the tagged conversation of a text, without the instruction around it; all of it if nothing is tagged."""
    framed = [found[2] for found in _FRAMED_NOTES.finditer(text)]
    return "\n".join(framed) if framed else text


# --- Commands ---


# A value ends at a line end, separator, quote or bracket.
_VALUE = r"([^\n;,\"\[\]<>|]+)"
_REMEMBER = re.compile(r"\bremember\s+([A-Za-z][\w.-]*)\s*=\s*" + _VALUE, re.IGNORECASE)
_QUESTION = re.compile(r"\bwhat\s+is\s+([A-Za-z][\w.-]*)\s*\?", re.IGNORECASE)
_WRITE = re.compile(r"\bwrite\s+([\d,]+)\s+words\b", re.IGNORECASE)
_THINK = re.compile(r"\bthink(\s+quietly)?\b", re.IGNORECASE)
_FRAMED = re.compile(r"<([a-z][a-z0-9_-]*)>.*?</\1>", re.DOTALL)
_CALL = re.compile(r"\b(then\s+)?call\s+([A-Za-z_][\w.-]*)[ \t]*", re.IGNORECASE)

# More than any model writes; the output limit truncates far earlier.
_WORDS_MAX = 1_000_000
_SENTENCE = "the ship keeps its course while the wind turns and the crew reads every line of the old log aloud"
# Quoted characters of a message or result, so that replies do not grow with the request.
_QUOTED_CHARS = 60
_RESULT_CHARS = 400

_RECALL = "recall"

_json = json.JSONDecoder()


class Thought(msgspec.Struct, frozen=True):
    """Reasoning before a reply; quiet reasoning is redacted."""

    text: str
    is_quiet: bool


class Draft(msgspec.Struct, frozen=True):
    """A reply before truncation, signing and token counting."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    thought: Thought | None = None


class _Prompt(msgspec.Struct, frozen=True):
    """The end of the conversation: newest user text, newest tool results and rounds of calls since."""

    # Newest user text, joined and by part.
    ask: str
    parts: tuple[str, ...]
    results: tuple[ToolResult, ...]
    rounds: int


def compose(request: Request) -> Draft:
    """Return the reply to a request."""
    prompt = _prompt(request.messages)
    if wants_summary(request.system, prompt.parts):
        return Draft(summarise(request, prompt.ask))
    thought = _thought(request, prompt)
    rounds = list(_rounds_of_calls(prompt.ask, request))
    if prompt.rounds < len(rounds):
        return Draft("", _tool_calls(rounds[prompt.rounds], request), thought)
    if prompt.rounds == len(rounds) and (lookups := list(_lookups(request, prompt.ask))):
        return Draft("", _tool_calls(lookups, request), thought)
    if (written := _output(request)) is not None:
        return (
            Draft(written[1], thought=thought)
            if not written[0]
            else Draft("", _tool_calls([written], request), thought)
        )
    sentences = [_quote_result(result, request.messages) for result in prompt.results]
    if not prompt.results or prompt.rounds > len(rounds):
        sentences = list(_sentences(request, prompt.ask))
    return Draft(" ".join(sentences), thought=thought)


def _output(request: Request) -> tuple[str, str] | None:
    """Return the requested output as JSON, and the tool to call with it; None if none is requested."""
    tool = next((one for one in request.tools if one.name.startswith(OUTPUT_TOOL)), None)
    schema = request.output.schema if request.output is not None else tool.parameters if tool is not None else ""
    if not schema:
        return None
    name = "" if request.output is not None or tool is None else tool.name
    return name, write_output(schema, lambda field: _value_of(field, request))


def asks_for_summary(request: Request) -> bool:
    """Return whether a request asks for a summary."""
    return wants_summary(request.system, _prompt(request.messages).parts)


def _prompt(messages: Sequence[Message]) -> _Prompt:
    """Find the newest user messages and the rounds of calls after them."""
    exchange = _last_exchange(messages)
    users = [message for message in exchange if _is_user(message)]
    asks = [_FRAMED.sub("", text_of(message.parts)) for message in reversed(users)]
    parts = [_FRAMED.sub("", part.text) for message in users for part in message.parts if isinstance(part, Text)]
    return _Prompt("\n".join(asks), tuple(parts), _newest_results(exchange), sum(map(_has_calls, exchange)))


def _last_exchange(messages: Sequence[Message]) -> list[Message]:
    """Return the newest user messages and everything after them, newest first."""
    exchange: list[Message] = []
    has_user = False
    for message in reversed(messages):
        if message.role is Role.ASSISTANT and has_user:
            break
        has_user = has_user or _is_user(message)
        exchange.append(message)
    return exchange


def _newest_results(exchange: Sequence[Message]) -> tuple[ToolResult, ...]:
    results: tuple[ToolResult, ...] = ()
    for message in exchange:
        if _is_user(message) or _has_calls(message):
            break
        if message.role is Role.TOOL:
            results = tuple(part for part in message.parts if isinstance(part, ToolResult))
    return results


def _has_calls(message: Message) -> bool:
    return message.role is Role.ASSISTANT and any(isinstance(part, ToolCall) for part in message.parts)


def _is_user(message: Message) -> bool:
    return message.role is Role.USER and not _is_attachment(message)


def _is_attachment(message: Message) -> bool:
    """Return whether a user message only has attachments of tool results."""
    first = message.parts[0] if message.parts else None
    return isinstance(first, Text) and first.text == ATTACHED_ABOVE


def _thought(request: Request, prompt: _Prompt) -> Thought | None:
    requested = _THINK.search(prompt.ask)
    if requested is None and request.effort in (None, Effort.NONE):
        return None
    words = len(prompt.ask.split())
    text = f"The newest message has {words} words and the conversation {len(request.messages)} messages."
    return Thought(text, is_quiet=requested is not None and requested[1] is not None)


# --- Tools ---


def _rounds_of_calls(ask: str, request: Request) -> Iterator[list[tuple[str, str]]]:
    """Yield the requested calls by round; unknown tools are skipped."""
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


def _lookups(request: Request, ask: str) -> Iterator[tuple[str, str]]:
    """Yield a search for every name that is asked for and not visible."""
    texts = (text for message in request.messages for text in _texts(message.parts))
    if all(tool.name != _RECALL for tool in request.tools) or not any(f"{_RECALL}(" in text for text in texts):
        return
    for found in _QUESTION.finditer(ask):
        if _value_of(found[1], request) is None:
            yield _RECALL, json.dumps({"query": found[1]})


def _arguments(ask: str, start: int) -> str:
    """Return the JSON at `start` byte for byte; broken JSON too, since real models write it."""
    if not ask.startswith("{", start):
        return "{}"
    try:
        _, end = _json.raw_decode(ask, start)
    except json.JSONDecodeError:
        return ask[start:].partition("\n")[0]
    return ask[start:end]


def _tool_calls(calls: Sequence[tuple[str, str]], request: Request) -> tuple[ToolCall, ...]:
    """Give calls ids that are unique across conversations."""
    fingerprint = hashlib.sha256(msgspec.json.encode(request.messages)).hexdigest()[:16]
    return tuple(ToolCall(f"call_{fingerprint}_{at}", name, text) for at, (name, text) in enumerate(calls))


def _quote_result(result: ToolResult, messages: Sequence[Message]) -> str:
    calls = (part for message in messages for part in message.parts if isinstance(part, ToolCall))
    name = next((call.name for call in calls if call.call_id == result.call_id), "unknown")
    text = text_of(result.parts)[:_RESULT_CHARS]
    verb = "returned" if result.outcome is ToolOutcome.DONE else "failed and said"
    media = "".join(f" [{part.media_type}]" for part in result.parts if isinstance(part, Media))
    return f"The tool {name} {verb}: {text}{media}"


# --- Text ---


def _sentences(request: Request, ask: str) -> Iterator[str]:
    is_command = False
    for found in _REMEMBER.finditer(ask):
        is_command = True
        yield f"I will remember that {found[1]} = {_tidy(found[2])}."
    for found in _QUESTION.finditer(ask):
        is_command = True
        seen = _value_of(found[1], request)
        yield f"{found[1]} = {seen}." if seen is not None else f"I do not see {found[1]} in what I was given."
    for found in _WRITE.finditer(ask):
        is_command = True
        yield _words(int(found[1].replace(",", "")))
    if not is_command:
        yield _echo(request, ask)


def _value_of(name: str, request: Request) -> str | None:
    """Find the newest value of a name in the request, including summaries and tool output."""
    pattern = re.compile(rf"(?<![\w.-]){re.escape(name)}\s*=\s*{_VALUE}", re.IGNORECASE)
    texts = [text for message in request.messages for text in _texts(message.parts)]
    for text in reversed([request.system, *texts]):
        found = pattern.findall(text)
        if found:
            return _tidy(found[-1])
    return None


def _texts(parts: Sequence[Part]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Text):
            yield part.text
        elif isinstance(part, ToolResult):
            yield text_of(part.parts)


def _tidy(value: str) -> str:
    """Strip the rest of the sentence, and punctuation around a value."""
    return value.partition(". ")[0].strip(" \t.!?\"'`*)")


def _words(count: int) -> str:
    count = min(count, _WORDS_MAX)
    words = _SENTENCE.split()
    repeats = -(-count // len(words))
    return " ".join((words * repeats)[:count])


def _echo(request: Request, ask: str) -> str:
    text = " ".join(ask.split())
    quote = text if len(text) <= _QUOTED_CHARS else text[:_QUOTED_CHARS].rstrip() + "…"
    users = [message for message in request.messages if _is_user(message)]
    media = [part for part in (users[-1].parts if users else ()) if isinstance(part, Media)]
    seen = "".join(
        f" I see an attachment: {part.media_type}, {part.width_pixels}x{part.height_pixels} pixels, "
        f"{part.blob.size_bytes:,} bytes."
        for part in media
    )
    return f'You said: "{quote}".{seen} This is message {len(users)} from you that I see.'
