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


class Custom(msgspec.Struct):
    """Which free-form tool a call asks for."""

    name: str
    input: str = ""


class Call(msgspec.Struct):
    """A call that an assistant made."""

    id: str = ""
    function: Function | None = None
    custom: Custom | None = None


class ChatMessage(msgspec.Struct):
    """One message, whatever its role. "function" and `function_call` are the older form of calls."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Piece] | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str = ""
    name: str = ""
    refusal: str | None = None
    function_call: Function | None = None
    # Two names for the same thing, neither of them OpenAI's own.
    reasoning_content: str | None = None
    reasoning: str | None = None


class ToolFunction(msgspec.Struct):
    """What the model is told about a function."""

    name: str
    description: str | None = None
    parameters: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def schema(self) -> str:
        """Return the schema as JSON text."""
        written = bytes(self.parameters).decode()
        return ANY_OBJECT if written == "null" else written


class ChatTool(msgspec.Struct):
    """A tool that is offered; free-form ones have no function."""

    function: ToolFunction | None = None


class StreamOptions(msgspec.Struct):
    """What a stream should tell besides the answer."""

    include_usage: bool | None = None


class ChatBody(msgspec.Struct):
    """The body of a request."""

    model: str
    messages: list[msgspec.Raw]
    tools: list[ChatTool] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    reasoning_effort: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None


_messages = msgspec.json.Decoder(ChatMessage)
_bodies = msgspec.json.Decoder(ChatBody)


def read_body(body: bytes) -> ChatBody:
    """Read the body of a request, or raise `MalformedRequestError`."""
    try:
        return _bodies.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedRequestError(f"the body is not a chat completion request: {error}") from error


def read_messages(body: ChatBody) -> list[tuple[bytes, ChatMessage]]:
    """Return the messages, each as it was written and as it was read."""
    read: list[tuple[bytes, ChatMessage]] = []
    for at, wire in enumerate(body.messages):
        try:
            read.append((bytes(wire), _messages.decode(wire)))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise MalformedRequestError(f"messages[{at}] cannot be read: {error}") from error
    return read
