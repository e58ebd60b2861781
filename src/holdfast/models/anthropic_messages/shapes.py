"""The shape of a request in the Anthropic dialect, as a server reads it. Fields that nobody here uses are dropped."""

from typing import Literal

import msgspec

from holdfast.models.wire import ANY_OBJECT, MalformedRequestError


class Source(msgspec.Struct):
    """Where an image or document is."""

    type: str
    media_type: str = ""
    data: str = ""
    url: str = ""


class Block(msgspec.Struct):
    """One block of a message, whatever its type. Blocks of tools that run at the provider have shapes of their own."""

    type: str
    text: str = ""
    # An address or a list, in blocks that are not read here.
    source: Source | str | None = None
    id: str = ""
    name: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")
    tool_use_id: str = ""
    content: "str | list[Block] | dict[str, msgspec.Raw] | None" = None
    is_error: bool | None = None
    thinking: str = ""
    signature: str = ""
    data: str = ""
    title: str | None = None


class Turn(msgspec.Struct):
    """One message."""

    # A system message may stand behind a person's turn, and holds from there on.
    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


class OfferedTool(msgspec.Struct):
    """A tool that is offered."""

    name: str
    description: str | None = None
    input_schema: msgspec.Raw = msgspec.Raw(ANY_OBJECT.encode())


class Thinking(msgspec.Struct):
    """Whether and how much to think."""

    type: str
    budget_tokens: int = 0


class OutputConfig(msgspec.Struct):
    """How much effort to take."""

    effort: str | None = None


class MessagesBody(msgspec.Struct):
    """The body of a request."""

    model: str
    max_tokens: int
    messages: list[msgspec.Raw]
    system: str | list[Block] | None = None
    tools: list[OfferedTool] | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    stream: bool | None = None


_turns = msgspec.json.Decoder(Turn)
_bodies = msgspec.json.Decoder(MessagesBody)


def read_body(body: bytes) -> MessagesBody:
    """Read the body of a request, or raise `MalformedRequestError`."""
    try:
        return _bodies.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedRequestError(f"the body is not a messages request: {error}") from error


def read_turns(body: MessagesBody) -> list[tuple[bytes, Turn]]:
    """Return the messages, each as it was written and as it was read."""
    read: list[tuple[bytes, Turn]] = []
    for at, wire in enumerate(body.messages):
        try:
            read.append((bytes(wire), _turns.decode(wire)))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise MalformedRequestError(f"messages.{at} cannot be read: {error}") from error
    return read


def blocks_of(content: str | list[Block] | None) -> list[Block]:
    """Return content as blocks: a plain string is one block of text."""
    if isinstance(content, str):
        return [Block("text", text=content)]
    return content or []
