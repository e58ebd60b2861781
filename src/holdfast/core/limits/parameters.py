"""Parameters of requests that models refuse: read the name from an error response, and decide what is sent instead.

Only parameters are read that a request can do without, so that its meaning stays: no tools, no format of the answer.
Names are those of the wire. The reasoning settings of all dialects count as one parameter.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from holdfast.types.faults import Fault, FaultKind, Phase, Refusal

# The reasoning setting, by its name in the most common dialect.
EFFORT = "reasoning_effort"
_EFFORT_NAMES = ("reasoning_effort", "reasoning", "thinking", "output_config", "thinkingConfig", "enable_thinking")

_SAMPLING = frozenset({"temperature", "top_p", "top_k"})
_ACCOUNT = frozenset({"metadata", "service_tier"})
_OPENAI = _SAMPLING | _ACCOUNT | {"parallel_tool_calls", "verbosity", "store", "user", "stream_options"}
_OPENAI |= {"safety_identifier", "prompt_cache_key", "prompt_cache_retention"}
# Parameters that a request can do without, by dialect. Anthropic requires the output limit.
DROPPABLE: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "openai-chat": _OPENAI
        | {"max_tokens", "max_completion_tokens", "stop", "seed", "min_p", "logit_bias", "prediction"}
        | {"frequency_penalty", "presence_penalty", "repetition_penalty"},
        "openai-responses": _OPENAI | {"max_output_tokens", "include", "truncation"},
        "anthropic": _SAMPLING | _ACCOUNT | {"stop_sequences", "cache_control"},
        "gemini": frozenset({"temperature", "topP", "topK", "seed", "stopSequences", "maxOutputTokens"})
        | {"presencePenalty", "frequencyPenalty"},
    }
)
# Parameters that native requests have beside the reasoning setting. A test compares them with the encoders.
NATIVE: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "openai-chat": frozenset({"max_tokens", "max_completion_tokens", "stream_options"}),
        "openai-responses": frozenset({"max_output_tokens", "include", "store"}),
        "anthropic": frozenset({"cache_control"}),
        "gemini": frozenset({"maxOutputTokens"}),
    }
)
# Another name of the same parameter, which is tried before the parameter is left out.
OTHER_NAMES: Mapping[str, str] = MappingProxyType(
    {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
)
_OUTPUT = frozenset({"max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens"})

_Json: TypeAlias = "dict[str, _Json] | list[_Json] | str | int | float | bool | None"

# Statuses of a request that is wrong in itself; some gateways report it as their own error.
_STATUSES = frozenset({400, 404, 405, 406, 409, 415, 422, 500, 501, 502})
# Causes that have nothing to do with a parameter, also if a sentence names one.
_OTHER_CAUSES = frozenset({FaultKind.RATE_LIMIT, FaultKind.QUOTA, FaultKind.AUTH, FaultKind.EMPTY_RESPONSE})
# Codes and validator types that say that a parameter is refused whatever its value, or for any value but the default.
_CODES = frozenset(
    {"unsupportedparameter", "unsupportedvalue", "unknownparameter", "unrecognizedparameter", "unsupportedparamserror"}
    | {"extraforbidden"}
)
_NAME_KEYS = ("param", "parameter", "field", "loc", "path")
_CODE_KEYS = ("code", "type")
_SENTENCE_KEYS = frozenset({"message", "msg", "detail", "error", "errors", "description", "raw", "error_message"})
# Fields that hold parameters, before the name of one.
_CONTAINERS = frozenset({"body", "request", "generationconfig", "generatecontentrequest", "text", "config"})
_PHRASES = (
    *("not supported", "unsupported", "does not support", "doesn't support", "no longer supported", "deprecated"),
    *("extra inputs are not permitted", "extra fields not permitted", "unrecognized", "not recognized"),
    *("unknown parameter", "unknown name", "unknown field", "unknown argument", "unexpected keyword argument"),
    *("was unexpected", "not enabled", "must be unset", "or unset", "may only be set to", "only the default"),
    "type is unavailable",
)
_EXCLUSIVE = ("cannot both be", "can't both be", "only one of", "mutually exclusive")
# Words of everyday language count only as names, in quotes or before a colon.
_EVERYDAY = frozenset(
    {
        "stop",
        "user",
        "store",
        "seed",
        "include",
        "metadata",
        "prediction",
        "truncation",
        "thinking",
        "reasoning",
        "format",
    }
)
# Bodies nest a few levels, and a gateway may put a body into a string of its own.
_DEPTH_MAX, _NODES_MAX, _TEXT_CHARS_MAX = 6, 200, 2_000
_WORD = re.compile(r"[A-Za-z_][\w.]*+")
_QUOTES = frozenset("'\"`[(:,*")
_LARGE_NUMBER = re.compile(r"\d[\d,]{2}")


def with_parameter(fault: Fault, refusal: Refusal, also: Collection[str] = ()) -> Fault:
    """Return a fault with the parameter that the error response refuses, if it names one.

    `also` are parameters of this request that it can do without, beside those of its dialect.
    """
    if fault.kind in _OTHER_CAUSES or refusal.phase not in (Phase.RESPONSE, Phase.STREAM):
        return fault
    if refusal.status is not None and refusal.status not in _STATUSES:
        return fault
    name = refused_parameter(refusal.dialect, refusal.body, also)
    if name == EFFORT and fault.kind is FaultKind.BAD_REQUEST_REASONING:
        # Reasoning has rungs of its own, which also look at the reasoning that is sent back.
        return fault
    return replace(fault, parameter=name) if name else fault


def refused_parameter(dialect: str, body: str, also: Collection[str] = ()) -> str:
    """Return the wire name of the parameter that an error body refuses; "" if it names none that may be left out."""
    names = {_plain(name): name for name in also} | _names(dialect)
    nodes = list(_nodes(body))
    for node in nodes:
        exact = _by_field(node, names) if isinstance(node, dict) else None
        if exact is not None:
            return exact
    texts = [node for node in nodes if isinstance(node, str)]
    return next((found for text in texts if (found := _by_sentence(text, names))), "")


def _names(dialect: str) -> dict[str, str]:
    """Return the wire names of a dialect's parameters by their letters and digits."""
    known = DROPPABLE.get(dialect, frozenset())
    return {_plain(name): name for name in known} | {_plain(name): EFFORT for name in _EFFORT_NAMES}


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _nodes(body: str) -> Iterator[dict[str, _Json] | str]:
    """Yield the objects of an error body from outside to inside, and its sentences; the whole text if it is no JSON."""
    pending: list[tuple[_Json, int]] = [(body[: 8 * _TEXT_CHARS_MAX], 0)]
    # The list grows while it is read.
    for node, depth in islice(pending, _NODES_MAX):
        parsed = _parsed(node) if isinstance(node, str) else node
        if isinstance(node, str) and parsed is None:
            yield node[:_TEXT_CHARS_MAX]
        if isinstance(parsed, dict):
            yield parsed
        if depth < _DEPTH_MAX:
            pending += [(inner, depth + 1) for inner in _inside(parsed)]


def _inside(node: _Json) -> list[_Json]:
    """Return the parts of a node that may name a parameter."""
    if isinstance(node, dict):
        return [value for key, value in node.items() if key in _SENTENCE_KEYS or isinstance(value, dict | list)]
    return node if isinstance(node, list) else []


def _parsed(text: str) -> _Json:
    """Return a JSON object or list in a string, also as the event of a stream; None if it is a sentence."""
    bare = text.strip().removeprefix("data:").lstrip()
    if bare[:1] not in ("{", "["):
        return None
    try:
        parsed: _Json = msgspec.json.decode(bare)
    except (msgspec.DecodeError, RecursionError):
        return None
    return parsed


def _by_field(node: Mapping[str, _Json], names: Mapping[str, str]) -> str | None:
    """Return the parameter that the fields of an error name; "" if it is none of ours, None if they name none."""
    codes = {_plain(code) for key in _CODE_KEYS if isinstance(code := node.get(key), str)}
    if not codes & _CODES:
        return None
    path = next((value for key in _NAME_KEYS if (value := node.get(key))), None)
    if isinstance(path, str):
        return _by_path(path.split("."), names)
    if isinstance(path, list):
        return _by_path([str(step) for step in path], names)
    return None


def _by_path(steps: Sequence[str], names: Mapping[str, str]) -> str:
    """Return the parameter at a path of the request; a part of a message is none."""
    plain = [_plain(step) for step in steps]
    while len(plain) > 1 and plain[0] in _CONTAINERS:
        plain = plain[1:]
    return names.get(plain[0], "") if plain and "[" not in steps[0] else ""


def _by_sentence(text: str, names: Mapping[str, str]) -> str:
    for sentence in re.split(r"(?<=[a-z'\"`)\d])[.;]\s|\n", text):
        lowered = sentence.lower()
        is_exclusive = any(phrase in lowered for phrase in _EXCLUSIVE)
        if not is_exclusive and not any(phrase in lowered for phrase in _PHRASES):
            continue
        named = [name for name in _named(sentence, names) if not _is_about_size(name, sentence)]
        if named:
            # Of two that exclude each other, the second: the first is the one that people set.
            return named[-1] if is_exclusive else named[0]
    return ""


def _named(sentence: str, names: Mapping[str, str]) -> Iterator[str]:
    for word in _WORD.finditer(sentence):
        found = _by_path(word[0].strip(".").split("."), names)
        before, after = sentence[: word.start()].rstrip()[-1:], sentence[word.end() : word.end() + 1]
        is_name = before in _QUOTES or after in _QUOTES
        if found and (is_name or _plain(word[0]) not in _EVERYDAY):
            yield found


def _is_about_size(name: str, sentence: str) -> bool:
    """Return whether a sentence is about the size of the output limit, not about its name."""
    return name in _OUTPUT and _LARGE_NUMBER.search(sentence) is not None


# --- The request ---


def wire_name(name: str, present: Collection[str], omitted: Collection[str]) -> str:
    """Return the name under which a parameter of a request is sent; "" if it is left out."""
    if name not in omitted:
        return name
    other = OTHER_NAMES.get(name, "")
    return "" if other in omitted or other in present else other


def sent_names(present: Collection[str], omitted: Collection[str]) -> frozenset[str]:
    """Return the names of the parameters that a request is sent with."""
    return frozenset(sent for name in present if (sent := wire_name(name, present, omitted)))


def native_names(
    dialect: str, *, has_effort: bool, has_output_limit: bool, settings: Collection[str] = ()
) -> frozenset[str]:
    """Return the parameters of a native request that may be left out, with its `settings` by their wire names."""
    names = NATIVE.get(dialect, frozenset())
    if not has_output_limit:
        names -= _OUTPUT
    return names.union(settings, {EFFORT} if has_effort else ())


def sentence_of(name: str, present: Collection[str], omitted: Iterable[str]) -> str:
    """Return a sentence about a parameter that is no longer sent."""
    other = wire_name(name, present, [*omitted, name])
    done = f"it is sent as {other}" if other else "it is left out"
    return f"The model refuses the parameter {name}, so {done}, from now on in all sessions."
