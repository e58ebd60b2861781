"""Usage of the three budgets by one request: tokens, bytes and media."""

import msgspec


class Budgets(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens, bytes of the request and media: what is used, by estimate, and what there is. None: not known."""

    tokens: int
    tokens_max: int | None = None
    wire_bytes: int | None = None
    wire_bytes_max: int | None = None
    media: int | None = None
    media_max: int | None = None
