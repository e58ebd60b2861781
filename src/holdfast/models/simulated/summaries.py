"""How the simulated model summarises: exact facts first, then the beginnings of lines, within what was asked."""

import re
from collections.abc import Iterator, Sequence

from holdfast.core.messages import Request, Text, ToolResult, text_of
from holdfast.models.simulated.tokens import count_text, cut_to_tokens

# An order to summarise, not the mere mention of a summary: conversations that carry one must not set it off.
_ORDER = re.compile(
    r"\bsummari[sz]e\b|\byou are (?:an?|the) [^.\n]{0,60}\bsummari[sz]"
    r"|\b(?:write|give|make|produce|provide|create|return|compose)\b[^.\n]{0,60}\b(?:summary|notes)\b",
    re.IGNORECASE,
)
# Where an order may stand: a system text starts with it, a part of a message starts or ends with it.
_ORDER_CHARS = 1_200
_BOUND = re.compile(r"(\d[\d,]*)\s+(tokens|words)\b", re.IGNORECASE)
_FRAMED = re.compile(r"<(conversation|previous-summary)>\n(.*?)\n</\1>", re.DOTALL)
_LISTED = re.compile(r"<messages>\n(.*?)\n</messages>", re.DOTALL)
_REFERENCE = re.compile(r"<([a-z][a-z0-9_-]*)>.*?</\1>", re.DOTALL)
_FACT = re.compile(r"(?<![\w.-])([A-Za-z][\w.-]{0,63})\s*=\s*([^\n;,\"\[\]<>|]{1,200})")

# What a summary has where nothing was asked: about a page.
_TOKENS_DEFAULT = 800
# A summary keeps below its bound by this much, since the one who asked counts differently.
_SHARE = 0.8
_TOKENS_PER_WORD = 1.3
_LINE_CHARS = 160


def wants_summary(system: str, asked: Sequence[str]) -> bool:
    """Whether the system text or a part of what a person says now orders a summary."""
    ends = [end for part in asked for end in (part[:_ORDER_CHARS], part[-_ORDER_CHARS:])]
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
    return "\n".join(lines) if lines else cut_to_tokens("Summary: there is no room for more", max(room, 1))


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
                framed = [found[2] for found in _FRAMED.finditer(part.text)]
                yield "\n".join(framed) if framed else part.text
            elif isinstance(part, ToolResult):
                yield text_of(part.parts)
