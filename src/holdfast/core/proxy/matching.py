"""Message digests that match a client's request to its session.

A client sends its whole history in every request. Digests exclude everything that clients change between requests:
reasoning, cache markers, text encoding, and asides beside the conversation.
"""

import hashlib
from collections.abc import Sequence

from holdfast.core.proxy.client_profiles import ASIDE
from holdfast.types.messages import ContentPart, LargeText, Media, Message, Role, Text, ToolCall, ToolResult

_DIGEST_BYTES = 16


def digest_of(message: Message) -> bytes:
    """Return the digest of a message."""
    digest = hashlib.blake2b(message.role.value.encode(), digest_size=_DIGEST_BYTES)
    texts: list[str] = []
    calls: list[str] = []
    for part in message.parts:
        match part:
            case ToolCall():
                calls.append(f"{part.call_id}\0{part.name}")
            case ToolResult():
                calls.append(part.call_id)
                texts += [_content(piece) for piece in part.parts]
            case Text(text=text) if ASIDE.match(text):
                continue
            case Text() | LargeText() | Media():
                texts.append(_content(part))
            case _:
                pass
    # The call ids identify a reply with tool calls; clients often trim its text.
    if message.role is not Role.ASSISTANT or not calls:
        digest.update("".join(texts).strip().encode("utf-8", "replace"))
    for call in calls:
        digest.update(b"\0" + call.encode("utf-8", "replace"))
    return digest.digest()


def _content(part: ContentPart) -> str:
    return part.text if isinstance(part, Text) else part.blob.sha256


def common_messages(known: Sequence[bytes | None], digests: Sequence[bytes]) -> int:
    """Return the length of the common prefix of two histories. None, an unreadable message, matches any digest."""
    common = 0
    for ours, theirs in zip(known, digests, strict=False):
        if ours is not None and ours != theirs:
            break
        common += 1
    return common
