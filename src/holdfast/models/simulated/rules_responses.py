"""What OpenAI refuses in a request for a response, however small: wrong pairs, thinking without an end, bad images."""

from collections.abc import Iterator

from holdfast.models.openai_responses.shapes import Content, Element, ResponsesBody, contents_of, read_elements
from holdfast.models.simulated.rules import PlacedImage
from holdfast.models.simulated.signing import is_sealed
from holdfast.models.wire import IMAGE_TYPES

# OpenAI's own bound.
_ID_CHARS_MAX = 64


def responses_objection(body: ResponsesBody) -> str | None:
    """Return what OpenAI would say about a request, or None where it would take it."""
    elements = [element for _, element in read_elements(body)]
    if not elements:
        return "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation_id' must be provided."
    return _pairs(elements) or _thinking(elements, body.model) or _images(body)


def _pairs(elements: list[Element]) -> str | None:
    owed: dict[str, None] = {}
    for at, element in enumerate(elements):
        if element.type == "function_call":
            if len(element.call_id) > _ID_CHARS_MAX:
                return (
                    f"Invalid 'input[{at}].call_id': string too long. Expected a string with maximum length "
                    f"{_ID_CHARS_MAX}, but got a string with length {len(element.call_id)} instead."
                )
            owed[element.call_id] = None
        elif element.type == "function_call_output":
            if element.call_id not in owed:
                return f"No tool call found for function call output with call_id {element.call_id}."
            del owed[element.call_id]
    return f"No tool output found for function call {next(iter(owed))}." if owed else None


def _thinking(elements: list[Element], model: str) -> str | None:
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


def _images(body: ResponsesBody) -> str | None:
    for image in responses_images(body):
        if image.media_type not in IMAGE_TYPES:
            return "The image data you provided does not represent a valid image. Please check your input."
    return None


def responses_images(body: ResponsesBody) -> Iterator[PlacedImage]:
    """Yield the images that a request carries inline, those inside of tool outputs too."""
    for at, (_, element) in enumerate(read_elements(body)):
        field = "output" if element.type == "function_call_output" else "content"
        content: list[Content] = contents_of(element.output if field == "output" else element.content)
        for number, piece in enumerate(content):
            head, comma, encoded = (piece.image_url or "").partition(",")
            if piece.type == "input_image" and comma and head.startswith("data:"):
                media_type = head.removeprefix("data:").removesuffix(";base64")
                yield PlacedImage(f"input[{at}].{field}[{number}].image_url", media_type, encoded)
