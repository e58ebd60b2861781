"""Request validation of the real APIs: call pairing, empty text, altered reasoning, unsupported images.

Each rule returns the provider's error message, or None. Rules read the wire types, because messages name paths in them.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import groupby

import msgspec

from holdfast.models.anthropic.reasoning import BUDGET_TOKENS_MIN
from holdfast.models.anthropic.request_decoder import Block, InputMessage, MessagesBody, Source, blocks_of
from holdfast.models.anthropic.request_decoder import read_messages as read_anthropic_messages
from holdfast.models.fake.tokens import is_sealed, is_signed
from holdfast.models.gemini.request_decoder import Content as GeminiContent
from holdfast.models.gemini.request_decoder import GenerateBody, read_contents
from holdfast.models.gemini.request_encoder import NO_SIGNATURE
from holdfast.models.openai_chat.request_decoder import ChatBody, ChatMessage, ImageUrl, read_messages
from holdfast.models.openai_responses.request_decoder import Content, Element, ResponsesBody, contents_of, read_elements
from holdfast.models.wire import IMAGE_TYPES

# Limit of the chat completions API.
_OPENAI_ID_CHARS_MAX = 40
_ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]+")
_THINKING = ("thinking", "redacted_thinking")


class PlacedImage(msgspec.Struct, frozen=True):
    """An inline image of a request, with its path for error messages."""

    path: str
    media_type: str
    encoded: str


# --- OpenAI chat ---


def openai_error(body: ChatBody) -> str | None:
    """Return OpenAI's error message for an invalid request, or None."""
    if not body.messages:
        return "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array."
    messages = [message for _, message in read_messages(body)]
    return _openai_ids(messages) or _openai_pairs(messages) or _openai_images(body)


def _openai_ids(messages: list[ChatMessage]) -> str | None:
    for at, message in enumerate(messages):
        for number, call in enumerate(message.tool_calls or ()):
            if len(call.id) > _OPENAI_ID_CHARS_MAX:
                return (
                    f"Invalid 'messages[{at}].tool_calls[{number}].id': string too long. Expected a string with "
                    f"maximum length {_OPENAI_ID_CHARS_MAX}, but got a string with length {len(call.id)} instead."
                )
    return None


def _openai_pairs(messages: list[ChatMessage]) -> str | None:
    pending: dict[str, None] = {}
    for message in messages:
        if message.role == "tool":
            if message.tool_call_id not in pending:
                return (
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                    "'tool_calls'."
                )
            del pending[message.tool_call_id]
            continue
        if pending:
            break
        pending = {call.id: None for call in message.tool_calls or ()}
    if not pending:
        return None
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(pending)}"
    )


def _openai_images(body: ChatBody) -> str | None:
    for image in openai_images(body):
        if image.media_type not in IMAGE_TYPES:
            return (
                "You uploaded an unsupported image. Please make sure your image has of one the following formats: "
                "['png', 'jpeg', 'gif', 'webp']."
            )
    return None


def openai_images(body: ChatBody) -> Iterator[PlacedImage]:
    """Yield the inline images of a request."""
    for at, (_, message) in enumerate(read_messages(body)):
        for number, piece in enumerate(message.content if isinstance(message.content, list) else ()):
            url = piece.image_url.url if isinstance(piece.image_url, ImageUrl) else piece.image_url or ""
            head, comma, encoded = url.partition(",")
            if piece.type == "image_url" and comma and head.startswith("data:"):
                media_type = head.removeprefix("data:").removesuffix(";base64")
                yield PlacedImage(f"messages[{at}].content[{number}].image_url", media_type, encoded)


# --- Anthropic ---


def anthropic_error(body: MessagesBody) -> str | None:
    """Return Anthropic's error message for an invalid request, or None."""
    if not body.messages:
        return "messages: at least one message is required"
    if body.max_tokens < 1:
        return "max_tokens: must be greater than or equal to 1"
    messages = [message for _, message in read_anthropic_messages(body)]
    turns = _combined([message for message in messages if message.role != "system"])
    return (
        _anthropic_ends(messages)
        or _anthropic_systems(messages)
        or _anthropic_empties(messages)
        or _anthropic_ids(messages)
        or _anthropic_pairs(turns)
        or _anthropic_thinking(body, turns)
        or _anthropic_images(body)
    )


def _anthropic_ends(messages: list[InputMessage]) -> str | None:
    if messages[0].role == "assistant":
        return 'messages: first message must use the "user" role'
    if messages[-1].role == "assistant":
        return "This model does not support assistant message prefill. The conversation must end with a user message."
    return None


def _combined(messages: list[InputMessage]) -> list[tuple[str, list[Block]]]:
    """Merge consecutive messages of one role, as the API does."""
    turns: list[tuple[str, list[Block]]] = []
    for message in messages:
        blocks = blocks_of(message.content)
        if turns and turns[-1][0] == message.role:
            turns[-1][1].extend(blocks)
        else:
            turns.append((message.role, list(blocks)))
    return turns


def _anthropic_systems(messages: list[InputMessage]) -> str | None:
    """Check that system messages follow a user message and are last or precede an assistant message."""
    roles = [message.role for message in messages]
    for at, role in enumerate(roles):
        if role != "system":
            continue
        if at == 0:
            return "messages.0: use the top-level 'system' parameter for the initial system prompt"
        if roles[at - 1] != "user" or roles[at + 1 : at + 2] not in ([], ["assistant"]):
            return f"messages.{at}: role 'system' must follow a user turn and be last or precede an assistant turn"
    return None


def _anthropic_empties(messages: list[InputMessage]) -> str | None:
    for at, message in enumerate(messages):
        if not message.content and message.role != "system":
            rule = "all messages must have non-empty content except for the optional final assistant message"
            return f"messages.{at}: {rule}"
        for block in blocks_of(message.content):
            inner = blocks_of(block.content) if isinstance(block.content, list) else []
            for text in (piece.text for piece in (block, *inner) if piece.type == "text"):
                if not text:
                    return "messages: text content blocks must be non-empty"
                if not text.strip():
                    return "messages: text content blocks must contain non-whitespace text"
    return None


def _anthropic_ids(messages: list[InputMessage]) -> str | None:
    used: set[str] = set()
    for at, message in enumerate(messages):
        for number, block in enumerate(blocks_of(message.content)):
            if block.type != "tool_use":
                continue
            if not _ANTHROPIC_ID.fullmatch(block.id):
                return f"messages.{at}.content.{number}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
            if block.id in used:
                return f"messages.{at}.content.{number}: `tool_use` ids must be unique"
            used.add(block.id)
    return None


def _anthropic_pairs(turns: list[tuple[str, list[Block]]]) -> str | None:
    pending: list[str] = []
    for at, (role, blocks) in enumerate(turns):
        results = [block.tool_use_id for block in blocks if block.type == "tool_result"]
        for number, name in enumerate(results):
            if name not in pending:
                return (
                    f"messages.{at}.content.{number}: unexpected `tool_use_id` found in `tool_result` blocks: {name}. "
                    "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
                )
        missing = [name for name in pending if name not in results]
        if missing:
            return _missing_results(at - 1, missing)
        pending = [block.id for block in blocks if block.type == "tool_use"] if role == "assistant" else []
    return None


def _missing_results(at: int, missing: list[str]) -> str:
    return (
        f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(missing)}. "
        "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def _anthropic_thinking(body: MessagesBody, turns: list[tuple[str, list[Block]]]) -> str | None:
    for at, (_, message) in enumerate(read_anthropic_messages(body)):
        for number, block in enumerate(blocks_of(message.content)):
            if block.type == "thinking" and not is_signed(body.model, block.thinking, block.signature):
                return f"messages.{at}.content.{number}: Invalid `signature` in `thinking` block"
            if block.type == "redacted_thinking" and not is_sealed(body.model, block.data):
                return f"messages.{at}.content.{number}: Invalid `data` in `redacted_thinking` block"
    if body.thinking is None or body.thinking.type != "enabled":
        return None
    if body.thinking.budget_tokens < BUDGET_TOKENS_MIN:
        return f"thinking.enabled.budget_tokens: Input should be greater than or equal to {BUDGET_TOKENS_MIN}"
    if body.thinking.budget_tokens >= body.max_tokens:
        return "`max_tokens` must be greater than `thinking.budget_tokens`."
    return _missing_thinking(turns)


def _missing_thinking(turns: list[tuple[str, list[Block]]]) -> str | None:
    continues = any(block.type == "tool_result" for block in turns[-1][1])
    if not continues or turns[-2][1][0].type in _THINKING:
        return None
    return (
        f"messages.{len(turns) - 2}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
        f"`{turns[-2][1][0].type}`. When `thinking` is enabled, a final `assistant` message must start with a thinking "
        "block."
    )


def _anthropic_images(body: MessagesBody) -> str | None:
    for image in anthropic_images(body):
        if image.media_type not in IMAGE_TYPES:
            rule = "Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"
            return f"{image.path}.source.base64.media_type: {rule}"
    return None


def anthropic_images(body: MessagesBody) -> Iterator[PlacedImage]:
    """Yield the inline images of a request, including those in tool results."""
    for at, (_, message) in enumerate(read_anthropic_messages(body)):
        for number, block in enumerate(blocks_of(message.content)):
            places: Mapping[str, Block] = {f"messages.{at}.content.{number}": block}
            if block.type == "tool_result" and isinstance(block.content, list):
                head = f"messages.{at}.content.{number}.tool_result.content"
                places = {f"{head}.{inner}": piece for inner, piece in enumerate(block.content)}
            for place, piece in places.items():
                if piece.type == "image" and isinstance(piece.source, Source) and piece.source.type == "base64":
                    yield PlacedImage(f"{place}.image", piece.source.media_type, piece.source.data)


# --- Gemini ---


def gemini_error(body: GenerateBody, model: str) -> str | None:
    """Return Google's error message for an invalid request, or None."""
    contents = read_contents(body)
    if not contents:
        return "* GenerateContentRequest.contents: contents is not specified"
    for at, content in enumerate(contents):
        if not content.parts:
            return f"* GenerateContentRequest.contents[{at}].parts: contents.parts must not be empty."
    return _gemini_pairs(contents) or _gemini_signatures(contents, model) or _gemini_images(body)


def _gemini_pairs(contents: list[GeminiContent]) -> str | None:
    pending = 0
    for _, run in groupby(contents, key=lambda content: content.role == "model"):
        parts = [part for content in run for part in content.parts]
        answered = sum(part.function_response is not None for part in parts)
        if answered != pending:
            return (
                "Please ensure that the number of function response parts is equal to the number of function call "
                "parts of the function call turn."
            )
        pending = sum(part.function_call is not None for part in parts)
    return None if not pending else "Please ensure that function call turn comes immediately after a user turn."


def _gemini_signatures(contents: list[GeminiContent], model: str) -> str | None:
    signatures = (part.thought_signature for content in contents for part in content.parts if part.thought_signature)
    for signature in signatures:
        if signature != NO_SIGNATURE and not is_sealed(model, signature):
            return "Corrupted thought signature."
    return None


def _gemini_images(body: GenerateBody) -> str | None:
    for image in gemini_images(body):
        if image.media_type not in IMAGE_TYPES:
            return f"Unsupported MIME type: {image.media_type}"
    return None


def gemini_images(body: GenerateBody) -> Iterator[PlacedImage]:
    """Yield the inline images of a request."""
    for at, content in enumerate(read_contents(body)):
        for number, part in enumerate(content.parts):
            inline = part.inline_data
            if inline is not None and inline.mime_type.startswith("image/"):
                yield PlacedImage(f"contents[{at}].parts[{number}].inline_data", inline.mime_type, inline.data)


# --- OpenAI responses ---

# Limit of the responses API.
_ID_CHARS_MAX = 64


def responses_error(body: ResponsesBody) -> str | None:
    """Return OpenAI's error message for an invalid request, or None."""
    elements = [element for _, element in read_elements(body)]
    if not elements:
        return "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation_id' must be provided."
    return _response_pairs(elements) or _response_reasoning(elements, body.model) or _response_images(body)


def _response_pairs(elements: list[Element]) -> str | None:
    pending: dict[str, None] = {}
    for at, element in enumerate(elements):
        if element.type == "function_call":
            if len(element.call_id) > _ID_CHARS_MAX:
                return (
                    f"Invalid 'input[{at}].call_id': string too long. Expected a string with maximum length "
                    f"{_ID_CHARS_MAX}, but got a string with length {len(element.call_id)} instead."
                )
            pending[element.call_id] = None
        elif element.type == "function_call_output":
            if element.call_id not in pending:
                return f"No tool call found for function call output with call_id {element.call_id}."
            del pending[element.call_id]
    return f"No tool output found for function call {next(iter(pending))}." if pending else None


def _response_reasoning(elements: list[Element], model: str) -> str | None:
    for at, element in enumerate(elements):
        if element.type != "reasoning":
            continue
        if element.encrypted_content and not is_sealed(model, element.encrypted_content):
            return f"The encrypted content {element.encrypted_content[:4]}... could not be verified."
        following = elements[at + 1] if at + 1 < len(elements) else None
        if following is None or (
            following.role != "assistant" and following.type not in ("function_call", "reasoning")
        ):
            return "Item of type 'reasoning' was provided without its required following item."
    return None


def _response_images(body: ResponsesBody) -> str | None:
    for image in responses_images(body):
        if image.media_type not in IMAGE_TYPES:
            return "The image data you provided does not represent a valid image. Please check your input."
    return None


def responses_images(body: ResponsesBody) -> Iterator[PlacedImage]:
    """Yield the inline images of a request, including those in tool outputs."""
    for at, (_, element) in enumerate(read_elements(body)):
        field = "output" if element.type == "function_call_output" else "content"
        content: list[Content] = contents_of(element.output if field == "output" else element.content)
        for number, piece in enumerate(content):
            head, comma, encoded = (piece.image_url or "").partition(",")
            if piece.type == "input_image" and comma and head.startswith("data:"):
                media_type = head.removeprefix("data:").removesuffix(";base64")
                yield PlacedImage(f"input[{at}].{field}[{number}].image_url", media_type, encoded)
