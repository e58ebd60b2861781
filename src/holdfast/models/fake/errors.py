"""How each provider says no: the status, headers and body of a refusal, with the facts that the real ones carry."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from holdfast.models import anthropic, gemini, openai_chat, openai_responses
from holdfast.models.fake.faults import No, in_front
from holdfast.models.wire import WireNode, to_bytes

# --- How Google says no: a number, a name and details, whatever went wrong.


_RPC = "type.googleapis.com/google.rpc."
_TROUBLE = "Please retry or report in https://developers.generativeai.google/guide/troubleshooting"
_QUOTA = "You exceeded your current quota, please check your plan and billing details."


class GeminiVoice:
    """As Google says it."""

    def malformed(self, why: str) -> No:
        """Refuse a body that does not follow the dialect, or a rule of it."""
        return self._invalid(why)

    def overflow(self, prompt: int, output: int | None, window: int) -> No:
        """Refuse too many tokens, with numbers."""
        counted = prompt if prompt > window else prompt + (output or 0)
        return self._invalid(
            f"The input token count ({counted}) exceeds the maximum number of tokens allowed ({window})."
        )

    def overflow_untold(self) -> No:
        """Refuse too many tokens, without numbers."""
        return self._invalid("The input token count exceeds the maximum number of tokens allowed.")

    def output_too_large(self, asked: int, most: int, model: str) -> No:  # noqa: ARG002 - others name the model
        """Refuse a limit of the output that is above the model's own."""
        return self._invalid(
            f"Unable to submit request because it has a maxOutputTokens value of {asked} but the supported range is "
            f"from 1 (inclusive) to {most + 1} (exclusive). Update the value and try again."
        )

    def wire_overflow(self, most: int | None) -> No:
        """Refuse too many bytes."""
        # The real limit, where the simulation has none of its own.
        return self._invalid(f"Request payload size exceeds the limit: {most or 20_971_520} bytes.")

    def too_many_media(self, count: int, most: int) -> No:  # noqa: ARG002 - the count is not told
        """Refuse too many images."""
        return self._invalid(f"Please use fewer than {most + 1} images in your request.")

    def media_too_heavy(self, path: str, size_bytes: int, most: int) -> No:  # noqa: ARG002 - nothing is told
        """Refuse an image of too many bytes."""
        return self._invalid(f"Unable to process input image. {_TROUBLE}")

    def media_too_wide(self, path: str, longest: int, most: int) -> No:  # noqa: ARG002 - nothing is told
        """Refuse an image with too many pixels on a side."""
        return self._invalid(f"Unable to process input image. {_TROUBLE}")

    def scripted(self, word: str, setting: float | None, model: str) -> No | None:
        """Return the refusal that a word of the fault script stands for, or None where it stands for none."""
        match word:
            case "401":
                # Google takes a wrong key for a wrong argument.
                reason: WireNode = {
                    "@type": f"{_RPC}ErrorInfo",
                    "reason": "API_KEY_INVALID",
                    "domain": "googleapis.com",
                }
                return self._no(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", [reason])
            case "403":
                return self._no(403, "PERMISSION_DENIED", f"Permission denied on resource models/{model}.")
            case "404":
                told = f"models/{model} is not found for API version v1beta, or is not supported for generateContent."
                return self._no(404, "NOT_FOUND", told)
            case "429":
                return self._exhausted("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", setting)
            case "quota":
                return self._exhausted("GenerateRequestsPerDayPerProjectPerModel-FreeTier", None)
            case "500":
                return self._no(500, "INTERNAL", f"An internal error has occurred. {_TROUBLE}")
            case "503" | "529":
                return self._no(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")
            case "reasoning-400":
                return self._invalid("Corrupted thought signature.")
            case "content-filter":
                # A prompt that is blocked is answered, by nothing.
                return No(200, to_bytes({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}))
            case "bad-request":
                return self._invalid('Invalid JSON payload received. Unknown name "colour": Cannot find field.')
            case _:
                return in_front(word)

    def _exhausted(self, quota: str, seconds: float | None) -> No:
        again = "" if seconds is None else f"\nPlease retry in {seconds:g}s."
        violation: WireNode = {
            "quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests",
            "quotaId": quota,
            "quotaValue": "10",
        }
        details: list[WireNode] = [{"@type": f"{_RPC}QuotaFailure", "violations": [violation]}]
        if seconds is not None:
            details.append({"@type": f"{_RPC}RetryInfo", "retryDelay": f"{seconds:g}s"})
        return self._no(429, "RESOURCE_EXHAUSTED", _QUOTA + again, details)

    def _invalid(self, told: str) -> No:
        return self._no(400, "INVALID_ARGUMENT", told)

    def _no(self, status: int, name: str, told: str, details: list[WireNode] | None = None) -> No:
        return No(status, gemini.encode_error(status, name, told, details))


class Voice(Protocol):
    """One provider's refusals."""

    def malformed(self, why: str) -> No:
        """Refuse a body that does not follow the dialect, or a rule of it."""
        ...

    def overflow(self, prompt: int, output: int | None, window: int) -> No:
        """Refuse too many tokens, with numbers."""
        ...

    def overflow_untold(self) -> No:
        """Refuse too many tokens, without numbers."""
        ...

    def output_too_large(self, asked: int, most: int, model: str) -> No:
        """Refuse a limit of the output that is above the model's own."""
        ...

    def wire_overflow(self, most: int | None) -> No:
        """Refuse too many bytes."""
        ...

    def too_many_media(self, count: int, most: int) -> No:
        """Refuse too many images."""
        ...

    def media_too_heavy(self, path: str, size_bytes: int, most: int) -> No:
        """Refuse an image of too many bytes."""
        ...

    def media_too_wide(self, path: str, longest: int, most: int) -> No:
        """Refuse an image with too many pixels on a side."""
        ...

    def scripted(self, word: str, setting: float | None, model: str) -> No | None:
        """Return the refusal that a word of the fault script stands for, or None where it stands for none."""
        ...


def _seconds(setting: float | None) -> dict[str, str]:
    return {} if setting is None else {"retry-after": f"{setting:g}"}


class OpenAIVoice:
    """As OpenAI says it; where OpenAI has no words of its own, as the servers that speak its dialect do."""

    def malformed(self, why: str) -> No:
        """Refuse a body that does not follow the dialect, or a rule of it."""
        return self._invalid(why)

    def overflow(self, prompt: int, output: int | None, window: int) -> No:
        """Refuse too many tokens, with numbers."""
        head = f"This model's maximum context length is {window} tokens. However, "
        if output is None or prompt > window:
            told = f"your messages resulted in {prompt} tokens. Please reduce the length of the messages."
        else:
            told = (
                f"you requested {prompt + output} tokens ({prompt} in the messages, {output} in the completion). "
                "Please reduce the length of the messages or completion."
            )
        return self._invalid(head + told, "context_length_exceeded", "messages")

    def overflow_untold(self) -> No:
        """Refuse too many tokens, without numbers."""
        told = "Please reduce the length of the messages or completion."
        return self._invalid(told, "context_length_exceeded", "messages")

    def output_too_large(self, asked: int, most: int, model: str) -> No:  # noqa: ARG002 - others name the model
        """Refuse a limit of the output that is above the model's own."""
        told = f"This model supports at most {most} completion tokens, whereas you provided {asked}."
        return self._invalid(f"max_tokens is too large: {asked}. {told}", "invalid_value", "max_tokens")

    def wire_overflow(self, most: int | None) -> No:  # noqa: ARG002 - others tell the most
        """Refuse too many bytes."""
        return No(
            413, openai_chat.encode_error("invalid_request_error", "Request Entity Too Large", code="request_too_large")
        )

    def too_many_media(self, count: int, most: int) -> No:  # noqa: ARG002 - OpenAI does not tell the count
        """Refuse too many images."""
        return self._invalid(f"Too many images provided. This model supports up to {most} images")

    def media_too_heavy(self, path: str, size_bytes: int, most: int) -> No:
        """Refuse an image of too many bytes."""
        told = f"Invalid image at {path}: the image has {size_bytes} bytes, which exceeds the maximum of {most} bytes."
        return self._invalid(told, "image_too_large", path)

    def media_too_wide(self, path: str, longest: int, most: int) -> No:
        """Refuse an image with too many pixels on a side."""
        told = f"Invalid image at {path}: its longest side has {longest} pixels, the maximum is {most} pixels."
        return self._invalid(told, "image_too_large", path)

    def scripted(self, word: str, setting: float | None, model: str) -> No | None:
        """Return the refusal that a word of the fault script stands for, or None where it stands for none."""
        error = openai_chat.encode_error
        match word:
            case "401":
                told = "Incorrect API key provided. Check the key in the settings of your account."
                return No(401, error("invalid_request_error", told, code="invalid_api_key"))
            case "403":
                told = f"Project does not have access to model `{model}`"
                return No(403, error("invalid_request_error", told, code="model_not_found"))
            case "404":
                told = f"The model `{model}` does not exist or you do not have access to it."
                return No(404, error("invalid_request_error", told, code="model_not_found"))
            case "429":
                again = "" if setting is None else f" Please try again in {setting:g}s."
                told = f"Rate limit reached for {model} on requests per min (RPM): Limit 3, Used 3, Requested 1.{again}"
                return No(429, error("requests", told, code="rate_limit_exceeded"), _seconds(setting))
            case "quota":
                told = "You exceeded your current quota, please check your plan and billing details."
                return No(429, error("insufficient_quota", told, code="insufficient_quota"))
            case "500":
                return No(500, error("server_error", "The server had an error while processing your request."))
            case "503" | "529":
                told = "The engine is currently overloaded, please try again later"
                return No(int(word), error("server_error", told, code="engine_overloaded"), _seconds(setting))
            case "reasoning-400":
                told = "Unsupported value: 'reasoning_effort' is not supported with this model."
                return self._invalid(told, "unsupported_value", "reasoning_effort")
            case "content-filter":
                told = "Invalid prompt: your prompt was flagged as potentially violating our usage policy."
                return self._invalid(told, "invalid_prompt")
            case "bad-request":
                return self._invalid("Unknown parameter: 'colour'.", "unknown_parameter", "colour")
            case _:
                return in_front(word)

    def _invalid(self, told: str, code: str | None = None, param: str | None = None) -> No:
        return No(400, openai_chat.encode_error("invalid_request_error", told, code=code, param=param))


class AnthropicVoice:
    """As Anthropic says it."""

    def malformed(self, why: str) -> No:
        """Refuse a body that does not follow the dialect, or a rule of it."""
        return self._invalid(why)

    def overflow(self, prompt: int, output: int | None, window: int) -> No:
        """Refuse too many tokens, with numbers."""
        if output is None or prompt > window:
            return self._invalid(f"prompt is too long: {prompt} tokens > {window} maximum")
        told = f"input length and `max_tokens` exceed context limit: {prompt} + {output} > {window}"
        return self._invalid(f"{told}, decrease input length or `max_tokens` and try again")

    def overflow_untold(self) -> No:
        """Refuse too many tokens, without numbers."""
        return self._invalid("Request size exceeds model context window")

    def output_too_large(self, asked: int, most: int, model: str) -> No:
        """Refuse a limit of the output that is above the model's own."""
        told = f"max_tokens: {asked} > {most}, which is the maximum allowed number of output tokens for {model}"
        return self._invalid(told)

    def wire_overflow(self, most: int | None) -> No:  # noqa: ARG002 - others tell the most
        """Refuse too many bytes."""
        return self._no(413, "request_too_large", "Request exceeds the maximum allowed number of bytes.")

    def too_many_media(self, count: int, most: int) -> No:
        """Refuse too many images."""
        return self._invalid(f"Too much media: 0 document pages + {count} images > {most}")

    def media_too_heavy(self, path: str, size_bytes: int, most: int) -> No:
        """Refuse an image of too many bytes."""
        megabytes = f"{most / 2**20:.3g}"
        told = f"image exceeds {megabytes} MB maximum: {size_bytes} bytes > {most} bytes"
        return self._invalid(f"{path}.source.base64: {told}")

    def media_too_wide(self, path: str, longest: int, most: int) -> No:  # noqa: ARG002 - the real one tells only the most
        """Refuse an image with too many pixels on a side."""
        told = f"At least one of the image dimensions exceed max allowed size: {most} pixels"
        return self._invalid(f"{path}.source.base64.data: {told}")

    def scripted(self, word: str, setting: float | None, model: str) -> No | None:
        """Return the refusal that a word of the fault script stands for, or None where it stands for none."""
        match word:
            case "401":
                return self._no(401, "authentication_error", "invalid x-api-key")
            case "403":
                return self._no(403, "permission_error", f"Your API key may not use the model {model}.")
            case "404":
                return self._no(404, "not_found_error", f"model: {model}")
            case "429":
                told = "This request would exceed the rate limit for your organization of 3 requests per minute."
                return self._no(429, "rate_limit_error", told, _seconds(setting))
            case "quota":
                return self._invalid("Your credit balance is too low to access the API. Please go to Plans & Billing.")
            case "500":
                return self._no(500, "api_error", "Internal server error")
            case "503":
                return self._no(503, "api_error", "Service unavailable", _seconds(setting))
            case "529":
                return self._no(529, "overloaded_error", "Overloaded")
            case "reasoning-400":
                return self._invalid("messages.1.content.0: Invalid `signature` in `thinking` block")
            case "content-filter":
                return self._invalid("Output blocked by content filtering policy")
            case "bad-request":
                return self._invalid("colour: Extra inputs are not permitted")
            case _:
                return in_front(word)

    def _invalid(self, told: str) -> No:
        return self._no(400, "invalid_request_error", told)

    def _no(self, status: int, kind: str, told: str, headers: dict[str, str] | None = None) -> No:
        return No(status, anthropic.encode_error(kind, told), headers or {})


class ResponsesVoice(OpenAIVoice):
    """As OpenAI says it of a response: too many tokens without their number, and fields by their names here."""

    def overflow(self, prompt: int, output: int | None, window: int) -> No:  # noqa: ARG002 - no numbers are told
        """Refuse too many tokens."""
        return self.overflow_untold()

    def overflow_untold(self) -> No:
        """Refuse too many tokens, without numbers."""
        told = "Your input exceeds the context window of this model. Please adjust your input and try again."
        return self._invalid(told, "context_length_exceeded", "input")

    def output_too_large(self, asked: int, most: int, model: str) -> No:  # noqa: ARG002 - as above
        """Refuse a limit of the output that is above the model's own."""
        told = f"This model supports at most {most} completion tokens, whereas you provided {asked}."
        return self._invalid(f"max_output_tokens is too large: {asked}. {told}", "invalid_value", "max_output_tokens")

    def scripted(self, word: str, setting: float | None, model: str) -> No | None:
        """Return the refusal that a word of the fault script stands for, or None where it stands for none."""
        if word == "reasoning-400":
            told = "The encrypted content gAAA...AAA= could not be verified."
            return self._invalid(told, "invalid_encrypted_content")
        return super().scripted(word, setting, model)


VOICES: Mapping[str, Voice] = MappingProxyType(
    {
        openai_chat.NAME: OpenAIVoice(),
        anthropic.NAME: AnthropicVoice(),
        openai_responses.NAME: ResponsesVoice(),
        gemini.NAME: GeminiVoice(),
    }
)
