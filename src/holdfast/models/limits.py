"""Declared limits of models, as their providers publish them, each with its source."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from holdfast.types.limits import Limits

_MIB = 2**20

# OpenAI's models are reachable in two dialects, under two prefixes.
_SAME_MODELS = {"responses": "openai"}


def _openai(window: int, output: int) -> Limits:
    # Per request: 500 images, 50 MB in all. https://platform.openai.com/docs/guides/images-vision
    return Limits(window, output, 50 * _MIB, media_count_max=500)


def _anthropic(window: int, output: int) -> Limits:
    # Per request: 32 MB and 100 images; per image: 5 MB and 8,000 pixels a side.
    # https://platform.claude.com/docs/en/api/overview and .../build-with-claude/vision
    return Limits(window, output, 32 * _MIB, 100, 5 * _MIB, 8_000)


def _gemini(window: int, output: int) -> Limits:
    # The API limits input and output separately; the input limit is reached first. Per request: 3,600 images. The
    # payload limit is taken from the error: "Request payload size exceeds the limit: 20971520 bytes".
    # https://ai.google.dev/gemini-api/docs/models and .../image-understanding
    return Limits(window, output, 20 * _MIB, media_count_max=3_600)


# Keyed by name prefix; the longest matching prefix wins.
DECLARED: Mapping[str, Limits] = MappingProxyType(
    {
        "openai:gpt-3.5-turbo": _openai(16_385, 4_096),
        "openai:gpt-4": _openai(8_192, 8_192),
        "openai:gpt-4-turbo": _openai(128_000, 4_096),
        "openai:gpt-4o": _openai(128_000, 16_384),
        "openai:chatgpt-4o": _openai(128_000, 16_384),
        "openai:gpt-4.1": _openai(1_047_576, 32_768),
        "openai:gpt-4.5": _openai(128_000, 16_384),
        # Input is limited to 272,000 of the 400,000 tokens; that limit is reached first.
        "openai:gpt-5": _openai(272_000, 128_000),
        "openai:gpt-5-chat": _openai(128_000, 16_384),
        "openai:gpt-5.1-chat": _openai(128_000, 16_384),
        "openai:gpt-5.2-chat": _openai(128_000, 16_384),
        "openai:gpt-5.3-chat": _openai(128_000, 16_384),
        "openai:gpt-5.3-codex-spark": _openai(128_000, 32_000),
        "openai:gpt-5.4": _openai(1_050_000, 128_000),
        "openai:gpt-5.4-mini": _openai(272_000, 128_000),
        "openai:gpt-5.4-nano": _openai(272_000, 128_000),
        "openai:gpt-5.5": _openai(1_050_000, 128_000),
        "openai:gpt-5.6": _openai(1_050_000, 128_000),
        "openai:codex-mini": _openai(200_000, 100_000),
        "openai:o1": _openai(200_000, 100_000),
        "openai:o1-mini": _openai(128_000, 65_536),
        "openai:o1-preview": _openai(128_000, 32_768),
        "openai:o3": _openai(200_000, 100_000),
        "openai:o4-mini": _openai(200_000, 100_000),
        "anthropic:claude-3": _anthropic(200_000, 4_096),
        "anthropic:claude-3-5": _anthropic(200_000, 8_192),
        "anthropic:claude-3-7": _anthropic(200_000, 64_000),
        "anthropic:claude-opus-4": _anthropic(200_000, 32_000),
        "anthropic:claude-opus-4-5": _anthropic(200_000, 64_000),
        "anthropic:claude-opus-4-6": _anthropic(1_000_000, 128_000),
        "anthropic:claude-opus-4-7": _anthropic(1_000_000, 128_000),
        "anthropic:claude-opus-4-8": _anthropic(1_000_000, 128_000),
        "anthropic:claude-opus-5": _anthropic(1_000_000, 128_000),
        "anthropic:claude-sonnet-4": _anthropic(200_000, 64_000),
        "anthropic:claude-sonnet-4-6": _anthropic(1_000_000, 128_000),
        "anthropic:claude-sonnet-5": _anthropic(1_000_000, 128_000),
        "anthropic:claude-haiku-4-5": _anthropic(200_000, 64_000),
        "anthropic:claude-fable-5": _anthropic(1_000_000, 128_000),
        "gemini:gemini-1.5-pro": _gemini(2_097_152, 8_192),
        "gemini:gemini-1.5-flash": _gemini(1_048_576, 8_192),
        "gemini:gemini-2.0-flash": _gemini(1_048_576, 8_192),
        "gemini:gemini-2.5": _gemini(1_048_576, 65_536),
        "gemini:gemini-2.5-flash-image": _gemini(65_536, 32_768),
        "gemini:gemini-3": _gemini(1_048_576, 65_536),
        "gemini:gemini-3-pro-image": _gemini(65_536, 32_768),
        "gemini:gemini-3.1-flash-image": _gemini(65_536, 32_768),
        "gemini:gemma-3": _gemini(131_072, 8_192),
    }
)

# Open-weight models, by a pattern in the names that servers use ("llama3.1:8b", "meta-llama/Llama-3.1-8B-Instruct").
# Windows are from the published model configurations. A server may allow less; its first overflow error teaches that.
# The first matching pattern wins.
OPEN_MODELS: tuple[tuple[str, int], ...] = (
    (r"gpt-oss", 131_072),
    (r"llama-?4-?scout", 10_485_760),
    (r"llama-?4", 1_048_576),
    (r"llama-?3[.-][123]", 131_072),
    (r"llama-?3", 8_192),
    (r"qwen-?3-?(?:coder|next|max)|qwen-?3.*-2507", 262_144),
    (r"qwen-?3", 40_960),
    (r"qwen-?2[.-]5", 32_768),
    (r"deepseek-?(?:v3|r1)(?!.*distill)", 163_840),
    (r"kimi-?k2.*(?:0905|thinking)", 262_144),
    (r"kimi-?k2", 131_072),
    (r"glm-?4\.6", 202_752),
    (r"glm-?4\.5", 131_072),
    (r"minimax-?m2", 196_608),
    (r"mixtral-?8x22b", 65_536),
    (r"mixtral|mistral-?7b", 32_768),
    (r"mistral-small-?3\.[12]|devstral", 131_072),
    (r"gemma-?3(?!.*(?:270m|[^0-9]1b))", 131_072),
    (r"gemma-?[23]", 8_192),
    (r"phi-?4(?!-mini)", 16_384),
)
_OPEN = tuple((re.compile(pattern), Limits(window)) for pattern, window in OPEN_MODELS)

# First word of a model name -> its provider, for suggestions when the prefix is missing.
FAMILIES: Mapping[str, str] = MappingProxyType(
    {name.partition(":")[2].partition("-")[0]: name.partition(":")[0] for name in DECLARED}
)


def declared_limits(reference: str) -> Limits:
    """Return the declared limits of a provider's model; empty limits for an unknown one."""
    prefix, _, name = reference.partition(":")
    full = f"{_SAME_MODELS.get(prefix, prefix)}:{name}"
    known = [declared for declared in DECLARED if full.startswith(declared)]
    return DECLARED[max(known, key=len)] if known else Limits()


def open_limits(name: str) -> Limits:
    """Return the limits of an open-weight model by its name on any server; empty limits for an unknown one."""
    return next((limits for pattern, limits in _OPEN if pattern.search(name.lower())), Limits())
