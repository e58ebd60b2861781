"""Settings of requests: merge the levels, validate them, and say which ones a dialect has.

A setting that a dialect lacks is reported to the user. A setting that a model refuses is a parameter like others: the
ladder leaves it out, and the claim is remembered.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec
from msgspec.structs import asdict

from holdfast.errors import BadInputError
from holdfast.types.settings import NO_SETTINGS, OutputSpec, Settings

# Encoded settings of one level: ten times what a request with every setting needs.
SETTINGS_BYTES_MAX = 16 * 2**10
# OpenAI accepts 4, Gemini 5, others more.
_STOPS_MAX = 16
_TEMPERATURE_MAX = 2.0

# Name on the wire of each setting, by dialect. Effort and the output limit are in every dialect.
WIRE_NAMES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "openai-chat": {
            "temperature": "temperature",
            "top_p": "top_p",
            "stop": "stop",
            "seed": "seed",
            "tool_choice": "tool_choice",
            "parallel_tool_calls": "parallel_tool_calls",
            "verbosity": "verbosity",
            "service_tier": "service_tier",
            "metadata": "metadata",
        },
        "openai-responses": {
            "temperature": "temperature",
            "top_p": "top_p",
            "tool_choice": "tool_choice",
            "parallel_tool_calls": "parallel_tool_calls",
            "verbosity": "verbosity",
            "service_tier": "service_tier",
            "metadata": "metadata",
        },
        "anthropic": {
            "temperature": "temperature",
            "top_p": "top_p",
            "stop": "stop_sequences",
            "tool_choice": "tool_choice",
            "parallel_tool_calls": "tool_choice",
            "service_tier": "service_tier",
            "metadata": "metadata",
        },
        "gemini": {
            "temperature": "temperature",
            "top_p": "topP",
            "stop": "stopSequences",
            "seed": "seed",
            "tool_choice": "toolConfig",
        },
    }
)
_EVERYWHERE = frozenset({"output_tokens_max", "effort", "extra"})
# The only label that Anthropic's API takes.
_USER_ID = "user_id"
# The field with a requested output, by dialect. Anthropic's API gets a tool instead, which all its models accept.
OUTPUT_FIELDS: Mapping[str, str] = MappingProxyType(
    {"openai-chat": "response_format", "openai-responses": "format", "gemini": "responseJsonSchema"}
)

# Fields of requests that the engine writes itself.
_OWN_FIELDS = frozenset(
    {"model", "messages", "input", "contents", "system", "instructions", "systemInstruction", "tools", "stream"}
    | {"generationConfig", "max_tokens", "max_completion_tokens", "max_output_tokens", "response_format"}
    | {"previous_response_id", "store"}
)


def merged(*levels: Settings | None) -> Settings:
    """Return the settings of several levels, from the most general to the most specific. Mappings are joined."""
    fields: dict[str, object] = {}
    for level in levels:
        for name, value in _set_fields(level or NO_SETTINGS):
            before = fields.get(name)
            fields[name] = {**before, **value} if isinstance(before, dict) and isinstance(value, dict) else value
    return Settings(**fields)  # type: ignore[arg-type]  # the fields of a Settings, under their names


def _set_fields(settings: Settings) -> Iterable[tuple[str, object]]:
    return ((name, value) for name, value in asdict(settings).items() if value is not None and value not in ((), {}))


def checked_settings(settings: Settings) -> Settings:
    """Return valid settings in their stored form. Raises `BadInputError`."""
    try:
        encoded = msgspec.json.encode(settings)
        read = msgspec.json.decode(encoded, type=Settings)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise BadInputError(f"settings: {error}; see holdfast.Settings for the type of each") from error
    if len(encoded) > SETTINGS_BYTES_MAX:
        raise BadInputError(f"the settings have {len(encoded):,} bytes, the maximum is {SETTINGS_BYTES_MAX:,}")
    # JSON has no NaN and no infinity: they would be stored as no setting.
    lost = [name for name, _ in _set_fields(settings) if getattr(read, name) is None]
    for problem in (*(f"{name} is not a number" for name in lost), *_problems(read)):
        raise BadInputError(f"settings: {problem}")
    return read


def _problems(settings: Settings) -> Iterable[str]:
    temperature, top_p = settings.temperature, settings.top_p
    if temperature is not None and not 0 <= temperature <= _TEMPERATURE_MAX:
        yield f"temperature is {temperature:g}; give a number from 0 to {_TEMPERATURE_MAX:g}"
    if top_p is not None and not 0 < top_p <= 1:
        yield f"top_p is {top_p:g}; give a number above 0 and up to 1"
    if len(settings.stop) > _STOPS_MAX or not all(settings.stop):
        yield f"stop has {len(settings.stop)} texts; give at most {_STOPS_MAX}, none of them empty"
    if settings.output_tokens_max is not None and settings.output_tokens_max < 1:
        yield f"output_tokens_max is {settings.output_tokens_max}; give a positive number"
    if owned := sorted(_OWN_FIELDS & settings.extra.keys()):
        yield f"extra has {owned[0]!r}, which Holdfast writes itself; leave it out"


def unsupported(dialect: str, settings: Settings) -> tuple[str, ...]:
    """Return the settings that a dialect cannot express, by name; none for an unknown dialect."""
    if (wire := WIRE_NAMES.get(dialect)) is None:
        return ()
    missing = [name for name, _ in _set_fields(settings) if name not in wire and name not in _EVERYWHERE]
    if dialect == "anthropic" and settings.metadata.keys() - {_USER_ID}:
        missing.append(f"metadata other than {_USER_ID}")
    return tuple(missing)


def unsupported_notice(model: str, names: Iterable[str]) -> str:
    """Return a sentence about settings that are not sent."""
    named = ", ".join(names)
    return f"Not sent, because the API of {model} has no such setting: {named}."


def wire_settings(dialect: str, settings: Settings, output: OutputSpec | None = None) -> frozenset[str]:
    """Return the names on the wire of the settings of a request, which it can do without."""
    wire = WIRE_NAMES.get(dialect, {})
    named = {wire[name] for name, _ in _set_fields(settings) if name in wire}
    asked = {OUTPUT_FIELDS[dialect]} if output is not None and dialect in OUTPUT_FIELDS else set()
    return frozenset(named | asked | settings.extra.keys())


def for_summaries(settings: Settings) -> Settings:
    """Return the settings that also apply to summary requests: the provider's own, none that shape an answer."""
    return Settings(service_tier=settings.service_tier, metadata=settings.metadata, extra=settings.extra)
