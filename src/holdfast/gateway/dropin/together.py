"""What a client says in one go is one message: questions, files and remarks that follow each other without an answer.

Clients of OpenAI chat may send several in a row where the other dialects have one with several parts. Each alone would
be a turn of its own, and the question could leave the view while the remark behind it is being answered.
"""

import msgspec

from holdfast.core.messages import Message, Role
from holdfast.models.wire import DecodedRequest, Original


def together(decoded: DecodedRequest) -> DecodedRequest:
    """Return a request whose messages of a person in a row are one; every original names what it became part of."""
    messages: list[Message] = []
    # For each of the messages before, and for the end behind them, its place among those after.
    places: list[int] = []
    for message in decoded.request.messages:
        if messages and message.role is Role.USER and messages[-1].role is Role.USER:
            messages[-1] = Message(Role.USER, (*messages[-1].parts, *message.parts))
        else:
            messages.append(message)
        places.append(len(messages) - 1)
    if len(messages) == len(places):
        return decoded
    return msgspec.structs.replace(
        decoded,
        request=msgspec.structs.replace(decoded.request, messages=tuple(messages)),
        originals=tuple(_moved(original, [*places, len(messages)]) for original in decoded.originals),
    )


def _moved(original: Original, places: list[int]) -> Original:
    first = places[original.first]
    last = places[original.last - 1] + 1 if original.last > original.first else first
    return msgspec.structs.replace(original, first=first, last=last)
