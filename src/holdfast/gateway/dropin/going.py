"""Where a request goes on that names what came before in place of sending it."""

import msgspec

# What a provider says that has forgotten an answer, or was never to keep it.
_FORGOTTEN = "previous_response_not_found"


class _Named(msgspec.Struct):
    id: str = ""


class Going(msgspec.Struct, frozen=True):
    """What of a request says where it goes on, and whether its answer may be gone on from."""

    previous_response_id: str | None = None
    conversation: str | _Named | None = None
    store: bool | None = None

    @property
    def name(self) -> str:
        """What it goes on from; "" where it begins."""
        return self.previous_response_id or self.conversation_id

    @property
    def conversation_id(self) -> str:
        """The provider's own conversation that it belongs to; "" where it belongs to none."""
        return self.conversation.id if isinstance(self.conversation, _Named) else self.conversation or ""

    @property
    def is_linked(self) -> bool:
        """Whether a later request may go on from its answer."""
        return self.store is not False or bool(self.conversation_id)


_goings = msgspec.json.Decoder(Going)
NOT_GOING_ON = Going(store=False)


def going_on(dialect: str, body: bytes) -> Going:
    """Return what a request says about where it goes on; only the responses dialect can say such a thing."""
    if dialect != "openai-responses":
        return NOT_GOING_ON
    try:
        return _goings.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return NOT_GOING_ON


def is_forgotten(body: str) -> bool:
    """Return whether a provider says that it does not have what a request goes on from."""
    return _FORGOTTEN in body
