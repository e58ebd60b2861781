"""Usage of the three budgets by one request: tokens, bytes and media."""

import msgspec


class Budgets(msgspec.Struct, frozen=True, omit_defaults=True):
    """Estimated use and limit of tokens, request bytes and media. None: unknown."""

    tokens: int
    tokens_max: int | None = None
    wire_bytes: int | None = None
    wire_bytes_max: int | None = None
    media: int | None = None
    media_max: int | None = None
