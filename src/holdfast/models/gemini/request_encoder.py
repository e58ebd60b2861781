"""Request encoder of the Gemini dialect, with its effort settings and thought signatures.

The key order is fixed and only settings follow `contents`, so a longer conversation shares its prefix with a shorter
one.

A signature is attached to the call or text after the thinking and must be sent back on that part. It is represented as
a `Reasoning` without text before that part; a `Reasoning` with text is a visible thought with its own signature.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from holdfast.core.text.media_type import PDF
from holdfast.models.openai_chat.request_encoder import ATTACHED_ABOVE, ATTACHED_BELOW
from holdfast.models.wire import (
    EMPTY_MESSAGE,
    IMAGE_TYPES,
    UnchangedCallIds,
    UniqueCallIds,
    WireNode,
    base64_text,
    inline_text,
    media_line,
    object_text,
    outcome_text,
    schema_text,
    to_bytes,
)
from holdfast.types.messages import (
    ContentPart,
    Effort,
    LargeText,
    Media,
    Message,
    Reasoning,
    Request,
    Role,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
    ToolSpec,
)

# Accepted by the API instead of a signature, for calls by another model or with a lost signature.
# https://ai.google.dev/gemini-api/docs/thought-signatures
NO_SIGNATURE = "skip_thought_signature_validator"

# The name of a result whose call is not known where it is encoded.
UNKNOWN_NAME = "unknown"

# Each level is four times the one before, within the range of all 2.5 models.
_BUDGETS: Mapping[Effort, int] = {Effort.LOW: 1_024, Effort.MEDIUM: 4_096, Effort.HIGH: 16_384}
# Minimum of 2.5 Pro, which cannot disable thinking.
_PRO_BUDGET_MIN = 128

_VERSION = re.compile(r"gemini-(\d+)")
# Models since this series accept a level instead of a budget, and require signatures on calls.
_LEVELS_SINCE_SERIES = 3


def thinking_config(effort: Effort, model: str) -> WireNode:
    """Return the thinking settings for an effort."""
    if series(model) >= _LEVELS_SINCE_SERIES:
        # "low" is the lowest level of all models in the series; none can disable thinking.
        levels = {Effort.NONE: "low", Effort.MEDIUM: "high" if "pro" in model else "medium"}
        return {"thinkingLevel": levels.get(effort, str(effort)), "includeThoughts": effort is not Effort.NONE}
    if effort is Effort.NONE:
        return {"thinkingBudget": _PRO_BUDGET_MIN if "pro" in model else 0}
    return {"thinkingBudget": _BUDGETS[effort], "includeThoughts": True}


def series(model: str) -> int:
    """Return the series number of a model name, or 0."""
    found = _VERSION.search(model)
    return int(found[1]) if found else 0


def requires_signatures(model: str) -> bool:
    """Return whether a model rejects calls without a signature."""
    return series(model) >= _LEVELS_SINCE_SERIES


def effort_of(level: str | None, budget: int | None) -> Effort | None:
    """Return the effort of a level or budget."""
    if level:
        return {"minimal": Effort.LOW, "low": Effort.LOW, "medium": Effort.MEDIUM}.get(level.lower(), Effort.HIGH)
    if budget is None or budget < 0:
        return None
    if budget <= _PRO_BUDGET_MIN:
        return Effort.NONE
    if budget < _BUDGETS[Effort.MEDIUM]:
        return Effort.LOW
    return Effort.MEDIUM if budget < _BUDGETS[Effort.HIGH] else Effort.HIGH


def is_signature(part: Reasoning) -> bool:
    """Return whether a part is only the signature of the next part."""
    return bool(part.opaque) and not part.text


_Node = dict[str, WireNode]


def encode_request(
    request: Request,
    model: str,
    blobs: Mapping[str, bytes],
    issuer: str,
    *,
    is_official: bool = True,  # noqa: ARG001 - same for compatible servers
    wants_stream: bool = True,  # noqa: ARG001 - set in the URL, not in the body
) -> bytes:
    """Encode a request body.

    Lossy: consecutive messages of one role are merged; reasoning of another issuer or without a signature and empty
    text are dropped; media of tool results move after the results; a tool outcome becomes success or error; a
    conversation that does not start with a user message gets an empty one.
    """
    body: _Node = {}
    if request.system:
        body["systemInstruction"] = {"parts": [{"text": request.system}]}
    if request.tools:
        body["tools"] = [{"functionDeclarations": [_declaration(spec) for spec in request.tools]}]
    body["contents"] = _contents(request.messages, model, blobs, issuer)
    settings: _Node = {}
    if request.output_tokens_max is not None:
        settings["maxOutputTokens"] = request.output_tokens_max
    if request.effort is not None:
        settings["thinkingConfig"] = thinking_config(request.effort, model)
    settings.update(_generation(request))
    if settings:
        body["generationConfig"] = settings
    choice = request.settings.tool_choice
    if choice is not None and request.tools:
        body["toolConfig"] = {"functionCallingConfig": _calling(choice)}
    return to_bytes(body | request.settings.extra)


def _generation(request: Request) -> _Node:
    """Return the settings of a request; the dialect has no verbosity, metadata, service tier or parallel calls."""
    settings = request.settings
    wire: _Node = {
        "temperature": settings.temperature,
        "topP": settings.top_p,
        "stopSequences": settings.stop or None,
        "seed": settings.seed,
    }
    if request.output is not None:
        wire["responseMimeType"] = "application/json"
        wire["responseJsonSchema"] = msgspec.Raw(request.output.schema.encode())
    return {name: value for name, value in wire.items() if value is not None}


def _calling(choice: str) -> WireNode:
    modes = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
    if choice in modes:
        return {"mode": modes[choice]}
    return {"mode": "ANY", "allowedFunctionNames": [choice]}


def encode_tool(spec: ToolSpec) -> bytes:
    """Encode a tool as an element of `tools`, which may have several groups of functions."""
    return to_bytes({"functionDeclarations": [_declaration(spec)]})


def _declaration(spec: ToolSpec) -> WireNode:
    # `parameters` supports only a subset of JSON Schema; this field supports all of it.
    schema = msgspec.Raw(schema_text(spec.parameters).encode())
    return {"name": spec.name, "description": spec.description, "parametersJsonSchema": schema}


def _contents(messages: Iterable[Message], model: str, blobs: Mapping[str, bytes], issuer: str) -> list[WireNode]:
    """Encode messages as non-empty contents with alternating roles, starting with the user."""
    turns = _turns(messages, UniqueCallIds(), blobs, issuer)
    if not turns or turns[0][0] == "model":
        turns.insert(0, ("user", [{"text": EMPTY_MESSAGE}]))
    for role, parts in turns:
        if role == "model" and requires_signatures(model):
            _sign(parts)
    return [{"role": role, "parts": parts} for role, parts in turns]


def encode_messages(messages: Sequence[Message], blobs: Mapping[str, bytes], issuer: str) -> list[bytes]:
    """Encode messages as elements of `contents`, with unchanged call ids.

    A result whose call is not among them gets the name `UNKNOWN_NAME`; `settled` replaces it.
    """
    turns = _turns(messages, UnchangedCallIds(), blobs, issuer)
    return [to_bytes({"role": role, "parts": parts}) for role, parts in turns]


def _turns(
    messages: Iterable[Message], ids: UnchangedCallIds, blobs: Mapping[str, bytes], issuer: str
) -> list[tuple[str, list[_Node]]]:
    """Encode messages as non-empty turns with alternating roles."""
    names: dict[str, str] = {}
    turns: list[tuple[str, list[_Node]]] = []
    for message in messages:
        if message.role is Role.ASSISTANT:
            role, parts = "model", _model_parts(message, ids, blobs, issuer)
            names |= {part.call_id: part.name for part in message.parts if isinstance(part, ToolCall)}
        else:
            role, parts = "user", _user_parts(message, ids, names, blobs)
        if not parts:
            continue
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(parts)
        else:
            turns.append((role, parts))
    for role, parts in turns:
        if role == "user":
            # Stable sort: all results of one reply must be adjacent.
            parts.sort(key=lambda part: "functionResponse" not in part)
    return turns


def _sign(parts: list[_Node]) -> None:
    """Mark the first call as unsigned if it has no signature; only the first call of a reply needs one."""
    first = next((part for part in parts if "functionCall" in part), None)
    if first is not None and "thoughtSignature" not in first:
        first["thoughtSignature"] = NO_SIGNATURE


def _model_parts(message: Message, ids: UnchangedCallIds, blobs: Mapping[str, bytes], issuer: str) -> list[_Node]:
    nodes: list[_Node] = []
    signature = ""
    node: _Node | None
    for part in message.parts:
        if isinstance(part, Reasoning):
            if not part.opaque or part.issuer != issuer:
                continue
            # Two signatures in a row: the first belongs to a part without text.
            nodes += _unattached(signature)
            signature = part.opaque
            node = None if is_signature(part) else {"text": part.text, "thought": True}
        else:
            node = _model_node(part, ids, blobs)
        if node is not None:
            nodes += _signed(node, signature)
            signature = ""
    return nodes + _unattached(signature)


def _model_node(
    part: Text | LargeText | Media | ToolCall | ToolResult, ids: UnchangedCallIds, blobs: Mapping[str, bytes]
) -> _Node | None:
    match part:
        case Text() | LargeText() | Media():
            text = media_line(part) if isinstance(part, Media) else inline_text(part, blobs)
            return {"text": text} if text else None
        case ToolCall():
            arguments = msgspec.Raw(object_text(part.arguments).encode("utf-8", "replace"))
            return {"functionCall": {"id": ids.of_call(part.call_id), "name": part.name, "args": arguments}}
        case ToolResult():
            return None  # Tool results belong to user turns.


def _unattached(signature: str) -> list[_Node]:
    return _signed({"text": ""}, signature) if signature else []


def _signed(node: _Node, signature: str) -> list[_Node]:
    return [{**node, "thoughtSignature": signature}] if signature else [node]


def _user_parts(
    message: Message, ids: UnchangedCallIds, names: Mapping[str, str], blobs: Mapping[str, bytes]
) -> list[_Node]:
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    nodes: list[_Node] = [_result(result, ids, names, blobs) for result in results]
    attached = [part for result in results for part in result.parts if isinstance(part, Media)]
    if attached:
        nodes += _content([Text(ATTACHED_ABOVE), *attached], blobs)
    content = [part for part in message.parts if isinstance(part, Text | LargeText | Media)]
    nodes += _content(content, blobs)
    return nodes or [{"text": EMPTY_MESSAGE}]


def _result(result: ToolResult, ids: UnchangedCallIds, names: Mapping[str, str], blobs: Mapping[str, bytes]) -> _Node:
    texts = [ATTACHED_BELOW if isinstance(part, Media) else inline_text(part, blobs) for part in result.parts]
    content: list[WireNode] = [text for text in texts if text] or [outcome_text(result)]
    key = "output" if result.outcome is ToolOutcome.DONE else "error"
    response: _Node = {key: content[0] if len(content) == 1 else content}
    call_id = ids.of_result(result.call_id)
    return {"functionResponse": {"id": call_id, "name": names.get(result.call_id, UNKNOWN_NAME), "response": response}}


def _content(parts: Iterable[ContentPart], blobs: Mapping[str, bytes]) -> list[_Node]:
    nodes: list[_Node] = []
    for part in parts:
        if isinstance(part, Media):
            nodes.append(_media(part, blobs))
        elif text := inline_text(part, blobs):
            nodes.append({"text": text})
    return nodes


def _media(media: Media, blobs: Mapping[str, bytes]) -> _Node:
    encoded = base64_text(media, blobs) if media.media_type in IMAGE_TYPES | {PDF} else None
    if encoded is None:
        return {"text": media_line(media)}
    return {"inlineData": {"mimeType": media.media_type, "data": encoded}}
