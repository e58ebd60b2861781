"""Request encoder of the Anthropic dialect, and removal of thinking from a client's request.

The key order is fixed and only settings follow `messages`, so a longer conversation shares its prefix with a shorter
one. Removing thinking leaves all other bytes unchanged.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import msgspec

from holdfast.core.limits.bounds import Bounds
from holdfast.core.text.media_type import PDF
from holdfast.models.anthropic.reasoning import BUDGET_TOKENS_MIN, THINKING_TYPES, thinking_block, thinking_settings
from holdfast.models.anthropic.request_decoder import MessagesBody, blocks_of, read_body, read_messages
from holdfast.models.wire import (
    EMPTY_MESSAGE,
    IMAGE_TYPES,
    UnchangedCallIds,
    UniqueCallIds,
    WireNode,
    base64_text,
    inline_text,
    locate,
    media_line,
    object_text,
    outcome_text,
    replaced,
    schema_text,
    to_bytes,
    without,
)
from holdfast.types.messages import (
    ContentPart,
    Media,
    Message,
    Part,
    Reasoning,
    Request,
    Role,
    ToolCall,
    ToolOutcome,
    ToolResult,
    ToolSpec,
)

# A context management edit that the API rejects when thinking is disabled.
_CLEARS_THINKING = b"clear_thinking"


class _Kind(msgspec.Struct):
    type: str = ""


_kind_decoder = msgspec.json.Decoder(_Kind)


def without_reasoning(element: bytes) -> bytes | None:
    """Return a message without its thinking blocks, otherwise byte for byte; None if nothing is left."""
    field = locate(element, "content")
    if field is None or not field.elements:
        return element
    blocks = [element[span.start : span.end] for span in field.elements]
    kept = [block for block in blocks if _kind_decoder.decode(block).type not in THINKING_TYPES]
    if len(kept) == len(blocks):
        return element
    return replaced(element, "content", kept) if kept else None


def continues_without_thinking(turns: Sequence[tuple[str, Sequence[str]]]) -> bool:
    """Return whether the request continues a tool loop whose calls came without thinking, or with another model's.

    The API rejects enabled thinking in such a request. `turns` has alternating roles, each with its block types.
    """
    if len(turns) < 2 or "tool_result" not in turns[-1][1]:  # noqa: PLR2004 - a pair
        return False
    return not turns[-2][1] or turns[-2][1][0] not in THINKING_TYPES


def settled(body: bytes, model: str = "") -> bytes:  # noqa: ARG001 - the same for all models
    """Adjust the thinking settings of a request whose messages or output limit were changed."""
    wire = read_body(body)
    if wire.thinking is None or wire.thinking.type != "enabled":
        return body
    continues_without = continues_without_thinking(_client_turns(wire))
    if not continues_without and wire.thinking.budget_tokens < wire.max_tokens:
        return body
    # Thinking counts as output: reserve half of it for the reply.
    budget = wire.max_tokens // 2
    if continues_without or budget < BUDGET_TOKENS_MIN:
        field = locate(body, "context_management")
        if field is not None and _CLEARS_THINKING in body[field.value.start : field.value.end]:
            body = without(body, "context_management")
        return _with_thinking(body, b'{"type":"disabled"}')
    return _with_thinking(body, msgspec.json.encode({"type": "enabled", "budget_tokens": budget}))


def _client_turns(wire: MessagesBody) -> list[tuple[str, list[str]]]:
    """Merge consecutive messages of one role, as the API does."""
    messages = [message for _, message in read_messages(wire) if message.role != "system"]
    return [
        (role, [block.type for message in turns for block in blocks_of(message.content)])
        for role, turns in groupby(messages, key=lambda message: message.role)
    ]


def _with_thinking(body: bytes, setting: bytes) -> bytes:
    field = locate(body, "thinking")
    assert field is not None, "read_body found it"
    return body[: field.value.start] + setting + body[field.value.end :]


# The API requires a number; this is the engine's default output reserve.
OUTPUT_TOKENS_DEFAULT = Bounds().output_tokens_reserved

_Block = dict[str, WireNode]


def encode_request(
    request: Request,
    model: str,
    blobs: Mapping[str, bytes],
    issuer: str,
    *,
    is_official: bool = True,
    wants_stream: bool = True,
) -> bytes:
    """Encode a request body.

    Lossy: consecutive messages of one role are merged, with tool results first; blank text and reasoning of another
    issuer or without a signature are dropped; a tool outcome becomes success or error; a conversation that does not
    start with a user message gets an empty one. Prompt caching, whose writes cost extra, is enabled only if more
    requests will follow and the endpoint is Anthropic's own (`is_official`): others reject unknown settings.
    """
    output_tokens_max = request.output_tokens_max or OUTPUT_TOKENS_DEFAULT
    turns = _starting_with_user(_turns(request.messages, UniqueCallIds(), blobs, issuer))
    body: dict[str, WireNode] = {"model": model}
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
    if request.system.strip():
        body["system"] = request.system
    body["messages"] = [{"role": role, "content": blocks} for role, blocks in turns]
    body["max_tokens"] = output_tokens_max
    body.update(_thinking(request, model, turns, output_tokens_max))
    body.update(_settings(request))
    if is_official and not request.is_last:
        body["cache_control"] = {"type": "ephemeral"}
    if wants_stream:
        body["stream"] = True
    return to_bytes(body | request.settings.extra)


# Kinds of tool choice of the API.
_CHOICES: Mapping[str, str] = {"auto": "auto", "none": "none", "required": "any"}


def _settings(request: Request) -> dict[str, WireNode]:
    """Return the settings of a request as fields; the dialect has no seed, no verbosity and one label."""
    settings, user = request.settings, request.settings.metadata.get("user_id")
    wire: dict[str, WireNode] = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "stop_sequences": settings.stop or None,
        "service_tier": settings.service_tier,
        "metadata": {"user_id": user} if user else None,
        "tool_choice": _tool_choice(request) if request.tools else None,
    }
    return {name: value for name, value in wire.items() if value is not None}


def _tool_choice(request: Request) -> WireNode:
    choice, parallel = request.settings.tool_choice, request.settings.parallel_tool_calls
    if choice is None and parallel is None:
        return None
    kind = _CHOICES.get(choice or "auto")
    wire: dict[str, WireNode] = {"type": kind} if kind else {"type": "tool", "name": choice}
    if parallel is not None and kind != "none":
        wire["disable_parallel_tool_use"] = not parallel
    return wire


def _thinking(
    request: Request, model: str, turns: list[tuple[str, list[_Block]]], output_tokens_max: int
) -> dict[str, WireNode]:
    types = [(role, [str(block["type"]) for block in blocks]) for role, blocks in turns]
    if request.effort is None or continues_without_thinking(types):
        return {}
    return thinking_settings(request.effort, model, output_tokens_max)


def encode_tool(spec: ToolSpec) -> bytes:
    """Encode a tool as an element of `tools`."""
    return to_bytes(_tool(spec))


def _tool(spec: ToolSpec) -> WireNode:
    schema = msgspec.Raw(schema_text(spec.parameters).encode())
    return {"name": spec.name, "description": spec.description, "input_schema": schema}


def encode_messages(messages: Sequence[Message], blobs: Mapping[str, bytes], issuer: str) -> list[bytes]:
    """Encode messages as elements of `messages`, with unchanged call ids."""
    turns = _turns(messages, UnchangedCallIds(), blobs, issuer)
    return [to_bytes({"role": role, "content": blocks}) for role, blocks in turns]


def _turns(
    messages: Iterable[Message], ids: UnchangedCallIds, blobs: Mapping[str, bytes], issuer: str
) -> list[tuple[str, list[_Block]]]:
    """Encode messages as non-empty turns with alternating roles."""
    turns: list[tuple[str, list[_Block]]] = []
    for message in messages:
        role = "assistant" if message.role is Role.ASSISTANT else "user"
        blocks = _blocks(message, ids, blobs, issuer)
        if not blocks and role == "assistant":
            continue
        if not blocks:
            blocks = [_text(EMPTY_MESSAGE)]
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
        else:
            turns.append((role, blocks))
    for _, blocks in turns:
        # Stable sort: the API requires tool results first.
        blocks.sort(key=lambda block: block["type"] != "tool_result")
    return turns


def _starting_with_user(turns: list[tuple[str, list[_Block]]]) -> list[tuple[str, list[_Block]]]:
    """Start the conversation with a user message, as the API requires."""
    if turns and turns[0][0] == "user":
        return turns
    return [("user", [_text(EMPTY_MESSAGE)]), *turns]


def _blocks(message: Message, ids: UnchangedCallIds, blobs: Mapping[str, bytes], issuer: str) -> list[_Block]:
    is_assistant = message.role is Role.ASSISTANT
    blocks: list[_Block] = []
    for part in message.parts:
        match part:
            case ToolCall() if is_assistant:
                arguments = msgspec.Raw(object_text(part.arguments).encode("utf-8", "replace"))
                call_id = ids.of_call(part.call_id)
                blocks.append({"type": "tool_use", "id": call_id, "name": part.name, "input": arguments})
            case Reasoning() if is_assistant:
                if part.opaque and part.issuer == issuer:
                    blocks.append(thinking_block(part))
            case ToolResult() if not is_assistant:
                blocks.append(_result(part, ids, blobs))
            case Media() if is_assistant:
                blocks.append(_text(media_line(part)))
            case _:
                blocks += _content([part], blobs)
    return blocks


def _result(result: ToolResult, ids: UnchangedCallIds, blobs: Mapping[str, bytes]) -> _Block:
    content = _content(result.parts, blobs) or [_text(outcome_text(result))]
    block: _Block = {"type": "tool_result", "tool_use_id": ids.of_result(result.call_id), "content": content}
    if result.outcome is not ToolOutcome.DONE:
        block["is_error"] = True
    return block


def _content(parts: Iterable[Part], blobs: Mapping[str, bytes]) -> list[_Block]:
    blocks: list[_Block] = []
    for part in parts:
        if isinstance(part, Media):
            blocks.append(_media(part, blobs))
        elif isinstance(part, ContentPart):
            text = inline_text(part, blobs)
            # The API rejects blank text.
            blocks += [_text(text)] if text.strip() else []
    return blocks


def _media(media: Media, blobs: Mapping[str, bytes]) -> _Block:
    encoded = base64_text(media, blobs) if media.media_type in IMAGE_TYPES | {PDF} else None
    if encoded is None:
        return _text(media_line(media))
    kind = "document" if media.media_type == PDF else "image"
    return {"type": kind, "source": {"type": "base64", "media_type": media.media_type, "data": encoded}}


def _text(text: str) -> _Block:
    return {"type": "text", "text": text}
