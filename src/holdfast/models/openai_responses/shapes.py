"""The shape of a request in the responses dialect, as a server reads it. Fields that nobody here uses are dropped."""

import msgspec

from holdfast.models.wire import ANY_OBJECT, MalformedRequestError


class Content(msgspec.Struct):
    """One part of a message or of a tool's output."""

    type: str = "input_text"
    text: str = ""
    refusal: str = ""
    image_url: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None


class Element(msgspec.Struct):
    """One element of `input`, whatever its type; a message may come without one."""

    type: str = "message"
    role: str = ""
    content: str | list[Content] | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    output: str | list[Content] | None = None
    encrypted_content: str | None = None
    # What free-form tools take in place of arguments.
    input: str = ""


class Reasoning(msgspec.Struct):
    """How much to think."""

    effort: str | None = None


class OfferedTool(msgspec.Struct):
    """A tool that is offered; those that run at the provider have a type of their own and may have no name."""

    type: str = "function"
    name: str = ""
    description: str | None = None
    parameters: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def schema(self) -> str:
        """Return the schema as JSON text."""
        written = bytes(self.parameters).decode()
        return ANY_OBJECT if written == "null" else written


class ResponsesBody(msgspec.Struct):
    """The body of a request."""

    model: str
    input: str | list[msgspec.Raw] = ""
    instructions: str | None = None
    tools: list[OfferedTool] | None = None
    max_output_tokens: int | None = None
    reasoning: Reasoning | None = None
    stream: bool | None = None
    previous_response_id: str | None = None


_bodies = msgspec.json.Decoder(ResponsesBody)
_elements = msgspec.json.Decoder(Element)


def read_body(body: bytes) -> ResponsesBody:
    """Read the body of a request, or raise `MalformedRequestError`."""
    try:
        return _bodies.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedRequestError(f"the body is not a responses request: {error}") from error


def read_elements(body: ResponsesBody) -> list[tuple[bytes, Element]]:
    """Return what stands in `input`, each as it was written and as it was read."""
    if isinstance(body.input, str):
        wire = msgspec.json.encode({"role": "user", "content": body.input})
        return [(wire, Element(role="user", content=body.input))]
    elements: list[tuple[bytes, Element]] = []
    for at, wire in enumerate(body.input):
        try:
            elements.append((bytes(wire), _elements.decode(wire)))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise MalformedRequestError(f"input[{at}] cannot be read: {error}") from error
    return elements


def contents_of(content: str | list[Content] | None) -> list[Content]:
    """Return content as parts: a plain string is one part of text."""
    if isinstance(content, str):
        return [Content(text=content)]
    return content or []
