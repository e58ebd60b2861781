"""The shape of a request in the Gemini dialect, as a server reads it. Fields that nobody here uses are dropped."""

import msgspec

from holdfast.models.wire import ANY_OBJECT, MalformedRequestError


class Inline(msgspec.Struct, rename="camel"):
    """Bytes inside the request."""

    mime_type: str = ""
    data: str = ""


class FileAt(msgspec.Struct, rename="camel"):
    """Bytes elsewhere."""

    file_uri: str = ""


class Call(msgspec.Struct):
    """A call that a model made."""

    name: str = ""
    args: msgspec.Raw = msgspec.Raw(b"{}")
    id: str | None = None


class Answered(msgspec.Struct):
    """What a tool returned."""

    name: str = ""
    response: dict[str, msgspec.Raw] = {}
    id: str | None = None


class Part(msgspec.Struct, rename="camel"):
    """One part of a message, whatever its kind."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    inline_data: Inline | None = None
    file_data: FileAt | None = None
    function_call: Call | None = None
    function_response: Answered | None = None


class Content(msgspec.Struct):
    """One message."""

    role: str = "user"
    parts: list[Part] = []


class Declaration(msgspec.Struct, rename="camel"):
    """A function that is offered."""

    name: str
    description: str = ""
    parameters: msgspec.Raw = msgspec.Raw(ANY_OBJECT.encode())
    parameters_json_schema: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def schema(self) -> str:
        """Return the schema as JSON text."""
        written = bytes(self.parameters_json_schema)
        return (bytes(self.parameters) if written == b"null" else written).decode()


class Tool(msgspec.Struct, rename="camel"):
    """Functions that are offered together."""

    function_declarations: list[Declaration] | None = None


class ThinkingConfig(msgspec.Struct, rename="camel"):
    """How much to think."""

    thinking_budget: int | None = None
    thinking_level: str | None = None


class GenerationConfig(msgspec.Struct, rename="camel"):
    """How to answer."""

    max_output_tokens: int | None = None
    thinking_config: ThinkingConfig | None = None


class GenerateBody(msgspec.Struct, rename="camel"):
    """The body of a request."""

    contents: list[Content]
    system_instruction: Content | None = None
    tools: list[Tool] | None = None
    generation_config: GenerationConfig | None = None


_bodies = msgspec.json.Decoder(GenerateBody)


def read_body(body: bytes) -> GenerateBody:
    """Read the body of a request, or raise `MalformedRequestError`."""
    try:
        return _bodies.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedRequestError(f"Invalid JSON payload received. {error}") from error
