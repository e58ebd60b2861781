"""Models that refuse every request with some content, and answer all others."""

from collections.abc import Callable

import msgspec

from holdfast.testing.engines import FunctionModel, says
from holdfast.types.faults import Phase, Refusal
from holdfast.types.messages import Reply, Request, Role, Text, ToolCall, ToolResult

FILTERED = Refusal(
    "openai-chat",
    Phase.RESPONSE,
    status=400,
    body='{"error":{"message":"The response was filtered due to the prompt triggering the content management policy.",'
    '"type":null,"param":"prompt","code":"content_filter","status":400}}',
)
INVALID_PROMPT = Refusal(
    "openai-chat",
    Phase.RESPONSE,
    status=400,
    body='{"error":{"message":"Invalid prompt: your prompt was flagged as potentially violating our usage policy.",'
    '"type":"invalid_request_error","param":null,"code":"invalid_prompt"}}',
)
OPAQUE = Refusal("openai-chat", Phase.RESPONSE, status=400, body="")
BAD_REQUEST = Refusal(
    "openai-chat",
    Phase.RESPONSE,
    status=400,
    body='{"error":{"message":"Invalid value.","type":"invalid_request_error","param":null,"code":null}}',
)
# The chat template of a local server fails on the text of a message.
TEMPLATE = Refusal(
    "openai-chat",
    Phase.RESPONSE,
    status=500,
    body='{"error":{"code":500,"message":"Failed to parse input at pos 41: <|channel|>","type":"server_error"}}',
)
REFUSALS = {
    "content filter": FILTERED,
    "invalid prompt": INVALID_PROMPT,
    "opaque": OPAQUE,
    "bad request": BAD_REQUEST,
    "template": TEMPLATE,
}


def content_of(request: Request) -> str:
    """Return everything that a request carries beside system text and tools, as one text."""
    return msgspec.json.encode(request.messages).decode()


def refuser(refusal: Refusal, is_refused: Callable[[str], bool], *, name: str = "test:model") -> FunctionModel:
    """Return a model that refuses requests by their content.

    It calls the tool that the newest message asks for ("call NAME"), and else answers "done: " and its first words.
    """

    def respond(request: Request) -> Reply | Refusal:
        if is_refused(content_of(request)):
            return refusal
        newest = request.messages[-1]
        if newest.role is Role.TOOL:
            calls = [part.call_id for part in newest.parts if isinstance(part, ToolResult)]
            return says(f"done: {len(calls)} results")
        asked = "".join(part.text for part in newest.parts if isinstance(part, Text))
        if asked.startswith("call "):
            names = asked.removeprefix("call ").split()
            return says("", *(ToolCall(f"c{place}", name, "{}") for place, name in enumerate(names)))
        return says(f"done: {asked[:20]}")

    return FunctionModel(respond, name=name)
