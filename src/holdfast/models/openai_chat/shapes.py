"""The shape of a request in the OpenAI chat dialect, as a server reads it. Fields that nobody here uses are dropped."""

from typing import Literal

import msgspec

from holdfast.models.wire import ANY_OBJECT, MalformedRequestError


class ImageUrl(msgspec.Struct):
    """Where an image is: for us, inside the address itself."""

    url: str


class File(msgspec.Struct):
    """A document, inside an address."""

    file_data: str = ""
    filename: str = ""


class Piece(msgspec.Struct):
    """One part of a message."""

    type: str
    text: str = ""
    refusal: str = ""
    image_url: ImageUrl | str | None = None
    file: File | None = None


class Function(msgspec.Struct):
    """Which function a call asks for."""

    name: str
    arguments: str = ""


class Call(msgspec.Struct):
    """A call that an assistant made."""

    id: str
    function: Function


class ChatMessage(msgspec.Struct):
    """One message, whatever its role."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Piece] | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str = ""
    reasoning_content: str | None = None


class ToolFunction(msgspec.Struct):
    """What the model is told about a function."""

    name: str
    description: str = ""
    parameters: msgspec.Raw = msgspec.Raw(ANY_OBJECT.encode())


class ChatTool(msgspec.Struct):
    """A tool that is offered."""

    function: ToolFunction


class StreamOptions(msgspec.Struct):
    """What a stream should tell besides the answer."""

    include_usage: bool = False


class ChatBody(msgspec.Struct):
    """The body of a request."""

    model: str
    messages: list[ChatMessage]
    tools: list[ChatTool] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    reasoning_effort: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None


_bodies = msgspec.json.Decoder(ChatBody)


def read_body(body: bytes) -> ChatBody:
    """Read the body of a request, or raise `MalformedRequestError`."""
    try:
        return _bodies.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedRequestError(f"the body is not a chat completion request: {error}") from error
