"""What Google refuses in a request, however small: wrong pairs, altered signatures, empty messages, bad images."""

from collections.abc import Iterator

from holdfast.models.gemini.shapes import Content, GenerateBody
from holdfast.models.gemini.thinking import NO_SIGNATURE
from holdfast.models.simulated.rules import PlacedImage
from holdfast.models.simulated.signing import is_sealed
from holdfast.models.wire import IMAGE_TYPES


def gemini_objection(body: GenerateBody, model: str) -> str | None:
    """Return what Google would say about a request, or None where it would take it."""
    if not body.contents:
        return "* GenerateContentRequest.contents: contents is not specified"
    for at, content in enumerate(body.contents):
        if not content.parts:
            return f"* GenerateContentRequest.contents[{at}].parts: contents.parts must not be empty."
    return _pairs(body.contents) or _signatures(body.contents, model) or _images(body)


def _pairs(contents: list[Content]) -> str | None:
    owed = 0
    for content in contents:
        answered = sum(part.function_response is not None for part in content.parts)
        if answered != owed:
            return (
                "Please ensure that the number of function response parts is equal to the number of function call "
                "parts of the function call turn."
            )
        owed = sum(part.function_call is not None for part in content.parts)
    return None if not owed else "Please ensure that function call turn comes immediately after a user turn."


def _signatures(contents: list[Content], model: str) -> str | None:
    signatures = (part.thought_signature for content in contents for part in content.parts if part.thought_signature)
    for signature in signatures:
        if signature != NO_SIGNATURE and not is_sealed(model, signature):
            return "Corrupted thought signature."
    return None


def _images(body: GenerateBody) -> str | None:
    for image in gemini_images(body):
        if image.media_type not in IMAGE_TYPES:
            return f"Unsupported MIME type: {image.media_type}"
    return None


def gemini_images(body: GenerateBody) -> Iterator[PlacedImage]:
    """Yield the images that a request carries inline."""
    for at, content in enumerate(body.contents):
        for number, part in enumerate(content.parts):
            inline = part.inline_data
            if inline is not None and inline.mime_type.startswith("image/"):
                yield PlacedImage(f"contents[{at}].parts[{number}].inline_data", inline.mime_type, inline.data)
