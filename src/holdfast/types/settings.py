"""Settings of a model's requests, and the type of a requested output. Both are on disk."""

from typing import Any, Literal

import msgspec


class Settings(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the requests to a model: of a client, of a session, or of one message.

    None, and an empty value, leave the setting of the level above: the session's, the model's own, the client's, then
    the provider's default.
    """

    # Sampling.
    temperature: float | None = None
    top_p: float | None = None
    # Texts that end the answer.
    stop: tuple[str, ...] = ()
    # For repeatable answers, where the provider supports it.
    seed: int | None = None
    # Upper bound of the answer in tokens. The engine may ask for less, never for more.
    output_tokens_max: int | None = None
    # "auto", "none", "required", or the name of the tool that the model must call.
    tool_choice: str | None = None
    # False: one tool call per reply.
    parallel_tool_calls: bool | None = None
    # Reasoning effort.
    effort: Literal["none", "low", "medium", "high"] | None = None
    # Length of the answer.
    verbosity: Literal["low", "medium", "high"] | None = None
    # Price and speed class, by the provider's own name.
    service_tier: str | None = None
    # Labels for the provider's own reports.
    metadata: dict[str, str] = {}
    # Further fields of the request body, as the provider names them.
    extra: dict[str, Any] = {}


NO_SETTINGS = Settings()


class OutputSpec(msgspec.Struct, frozen=True):
    """The type of a requested output: a name, and its JSON Schema as JSON text. The schema is of type object."""

    name: str
    schema: str
