"""Error responses of the simulated provider: status, headers and body as each real API sends them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from holdfast.models import anthropic, gemini, openai_chat, openai_responses
from holdfast.models.fake.faults import ErrorResponse, proxy_error
from holdfast.models.wire import WireNode, to_bytes

# --- Google: one error shape with code, name and details ---

_RPC = "type.googleapis.com/google.rpc."
_TROUBLESHOOTING = "Please retry or report in https://developers.generativeai.google/guide/troubleshooting"
_QUOTA = "You exceeded your current quota, please check your plan and billing details."


class GeminiErrors:
    """Errors of the Gemini API."""

    def malformed(self, reason: str) -> ErrorResponse:
        """Error for an invalid request."""
        return self._invalid(reason)

    def unsupported(self, parameter: str) -> ErrorResponse:
        """Error for a parameter that the model does not support."""
        message = f"Unknown name \"{parameter}\" at 'generation_config': Cannot find field."
        return self._invalid(f"Invalid JSON payload received. {message}")

    def overflow(self, prompt: int, output: int | None, window: int) -> ErrorResponse:
        """Error for too many tokens, with numbers."""
        counted = prompt if prompt > window else prompt + (output or 0)
        return self._invalid(
            f"The input token count ({counted}) exceeds the maximum number of tokens allowed ({window})."
        )

    def overflow_without_numbers(self) -> ErrorResponse:
        """Error for too many tokens, without numbers."""
        return self._invalid("The input token count exceeds the maximum number of tokens allowed.")

    def output_too_large(self, requested: int, limit: int, model: str) -> ErrorResponse:  # noqa: ARG002 - part of the interface
        """Error for an output limit above the model's own."""
        return self._invalid(
            f"Unable to submit request because it has a maxOutputTokens value of {requested} but the supported range "
            f"is from 1 (inclusive) to {limit + 1} (exclusive). Update the value and try again."
        )

    def wire_overflow(self, limit: int | None) -> ErrorResponse:
        """Error for too many bytes."""
        # Default to the real limit.
        return self._invalid(f"Request payload size exceeds the limit: {limit or 20_971_520} bytes.")

    def too_many_images(self, count: int, limit: int) -> ErrorResponse:  # noqa: ARG002 - part of the interface
        """Error for too many images."""
        return self._invalid(f"Please use fewer than {limit + 1} images in your request.")

    def image_too_large(self, path: str, size_bytes: int, limit: int) -> ErrorResponse:  # noqa: ARG002 - part of the interface
        """Error for an image with too many bytes."""
        return self._invalid(f"Unable to process input image. {_TROUBLESHOOTING}")

    def image_too_wide(self, path: str, longest: int, limit: int) -> ErrorResponse:  # noqa: ARG002 - part of the interface
        """Error for an image with too many pixels per side."""
        return self._invalid(f"Unable to process input image. {_TROUBLESHOOTING}")

    def scripted_error(self, word: str, setting: float | None, model: str) -> ErrorResponse | None:
        """Error response of a fault word, or None if the word is not an error response."""
        match word:
            case "401":
                # Google reports an invalid key as an invalid argument.
                reason: WireNode = {
                    "@type": f"{_RPC}ErrorInfo",
                    "reason": "API_KEY_INVALID",
                    "domain": "googleapis.com",
                }
                return self._error(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", [reason])
            case "403":
                return self._error(403, "PERMISSION_DENIED", f"Permission denied on resource models/{model}.")
            case "404":
                message = (
                    f"models/{model} is not found for API version v1beta, or is not supported for generateContent."
                )
                return self._error(404, "NOT_FOUND", message)
            case "429":
                return self._exhausted("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", setting)
            case "quota":
                return self._exhausted("GenerateRequestsPerDayPerProjectPerModel-FreeTier", None)
            case "500":
                return self._error(500, "INTERNAL", f"An internal error has occurred. {_TROUBLESHOOTING}")
            case "503" | "529":
                return self._error(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")
            case "reasoning-400":
                return self._invalid("Corrupted thought signature.")
            case "content-filter":
                # A blocked prompt gets an empty response with status 200.
                return ErrorResponse(200, to_bytes({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}))
            case "bad-request":
                return self._invalid('Invalid JSON payload received. Unknown name "colour": Cannot find field.')
            case _:
                return proxy_error(word)

    def _exhausted(self, quota: str, seconds: float | None) -> ErrorResponse:
        again = "" if seconds is None else f"\nPlease retry in {seconds:g}s."
        violation: WireNode = {
            "quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests",
            "quotaId": quota,
            "quotaValue": "10",
        }
        details: list[WireNode] = [{"@type": f"{_RPC}QuotaFailure", "violations": [violation]}]
        if seconds is not None:
            details.append({"@type": f"{_RPC}RetryInfo", "retryDelay": f"{seconds:g}s"})
        return self._error(429, "RESOURCE_EXHAUSTED", _QUOTA + again, details)

    def _invalid(self, message: str) -> ErrorResponse:
        return self._error(400, "INVALID_ARGUMENT", message)

    def _error(self, status: int, name: str, message: str, details: list[WireNode] | None = None) -> ErrorResponse:
        return ErrorResponse(status, gemini.encode_error(status, name, message, details))


class ProviderErrors(Protocol):
    """Error responses of one provider."""

    def malformed(self, reason: str) -> ErrorResponse:
        """Error for an invalid request."""
        ...

    def unsupported(self, parameter: str) -> ErrorResponse:
        """Error for a parameter that the model does not support."""
        ...

    def overflow(self, prompt: int, output: int | None, window: int) -> ErrorResponse:
        """Error for too many tokens, with numbers."""
        ...

    def overflow_without_numbers(self) -> ErrorResponse:
        """Error for too many tokens, without numbers."""
        ...

    def output_too_large(self, requested: int, limit: int, model: str) -> ErrorResponse:
        """Error for an output limit above the model's own."""
        ...

    def wire_overflow(self, limit: int | None) -> ErrorResponse:
        """Error for too many bytes."""
        ...

    def too_many_images(self, count: int, limit: int) -> ErrorResponse:
        """Error for too many images."""
        ...

    def image_too_large(self, path: str, size_bytes: int, limit: int) -> ErrorResponse:
        """Error for an image with too many bytes."""
        ...

    def image_too_wide(self, path: str, longest: int, limit: int) -> ErrorResponse:
        """Error for an image with too many pixels per side."""
        ...

    def scripted_error(self, word: str, setting: float | None, model: str) -> ErrorResponse | None:
        """Error response of a fault word, or None if the word is not an error response."""
        ...


def _seconds(setting: float | None) -> dict[str, str]:
    return {} if setting is None else {"retry-after": f"{setting:g}"}


class OpenAIErrors:
    """Errors of the chat completions API; for errors that OpenAI lacks, those of compatible servers."""

    def malformed(self, reason: str) -> ErrorResponse:
        """Error for an invalid request."""
        return self._invalid(reason)

    def unsupported(self, parameter: str) -> ErrorResponse:
        """Error for a parameter that the model does not support."""
        message = f"Unsupported parameter: '{parameter}' is not supported with this model."
        return self._invalid(message, "unsupported_parameter", parameter)

    def overflow(self, prompt: int, output: int | None, window: int) -> ErrorResponse:
        """Error for too many tokens, with numbers."""
        head = f"This model's maximum context length is {window} tokens. However, "
        if output is None or prompt > window:
            message = f"your messages resulted in {prompt} tokens. Please reduce the length of the messages."
        else:
            message = (
                f"you requested {prompt + output} tokens ({prompt} in the messages, {output} in the completion). "
                "Please reduce the length of the messages or completion."
            )
        return self._invalid(head + message, "context_length_exceeded", "messages")

    def overflow_without_numbers(self) -> ErrorResponse:
        """Error for too many tokens, without numbers."""
        message = "Please reduce the length of the messages or completion."
        return self._invalid(message, "context_length_exceeded", "messages")

    def output_too_large(self, requested: int, limit: int, model: str) -> ErrorResponse:  # noqa: ARG002 - part of the interface
        """Error for an output limit above the model's own."""
        message = f"This model supports at most {limit} completion tokens, whereas you provided {requested}."
        return self._invalid(f"max_tokens is too large: {requested}. {message}", "invalid_value", "max_tokens")

    def wire_overflow(self, limit: int | None) -> ErrorResponse:  # noqa: ARG002 - part of the interface
        """Error for too many bytes."""
        return ErrorResponse(
            413, openai_chat.encode_error("invalid_request_error", "Request Entity Too Large", code="request_too_large")
        )

    def too_many_images(self, count: int, limit: int) -> ErrorResponse:  # noqa: ARG002 - part of the interface
        """Error for too many images."""
        return self._invalid(f"Too many images provided. This model supports up to {limit} images")

    def image_too_large(self, path: str, size_bytes: int, limit: int) -> ErrorResponse:
        """Error for an image with too many bytes."""
        message = (
            f"Invalid image at {path}: the image has {size_bytes} bytes, which exceeds the maximum of {limit} bytes."
        )
        return self._invalid(message, "image_too_large", path)

    def image_too_wide(self, path: str, longest: int, limit: int) -> ErrorResponse:
        """Error for an image with too many pixels per side."""
        message = f"Invalid image at {path}: its longest side has {longest} pixels, the maximum is {limit} pixels."
        return self._invalid(message, "image_too_large", path)

    def scripted_error(self, word: str, setting: float | None, model: str) -> ErrorResponse | None:
        """Error response of a fault word, or None if the word is not an error response."""
        error = openai_chat.encode_error
        match word:
            case "401":
                message = "Incorrect API key provided. Check the key in the settings of your account."
                return ErrorResponse(401, error("invalid_request_error", message, code="invalid_api_key"))
            case "403":
                message = f"Project does not have access to model `{model}`"
                return ErrorResponse(403, error("invalid_request_error", message, code="model_not_found"))
            case "404":
                message = f"The model `{model}` does not exist or you do not have access to it."
                return ErrorResponse(404, error("invalid_request_error", message, code="model_not_found"))
            case "429":
                again = "" if setting is None else f" Please try again in {setting:g}s."
                message = (
                    f"Rate limit reached for {model} on requests per min (RPM): Limit 3, Used 3, Requested 1.{again}"
                )
                return ErrorResponse(429, error("requests", message, code="rate_limit_exceeded"), _seconds(setting))
            case "quota":
                message = "You exceeded your current quota, please check your plan and billing details."
                return ErrorResponse(429, error("insufficient_quota", message, code="insufficient_quota"))
            case "500":
                return ErrorResponse(
                    500, error("server_error", "The server had an error while processing your request.")
                )
            case "503" | "529":
                message = "The engine is currently overloaded, please try again later"
                return ErrorResponse(
                    int(word), error("server_error", message, code="engine_overloaded"), _seconds(setting)
                )
            case "reasoning-400":
                message = "Unsupported value: 'reasoning_effort' is not supported with this model."
                return self._invalid(message, "unsupported_value", "reasoning_effort")
            case "content-filter":
                message = "Invalid prompt: your prompt was flagged as potentially violating our usage policy."
                return self._invalid(message, "invalid_prompt")
            case "bad-request":
                return self._invalid("Unknown parameter: 'colour'.", "unknown_parameter", "colour")
            case _:
                return proxy_error(word)

    def _invalid(self, message: str, code: str | None = None, param: str | None = None) -> ErrorResponse:
        return ErrorResponse(400, openai_chat.encode_error("invalid_request_error", message, code=code, param=param))


class AnthropicErrors:
    """Errors of the Anthropic API."""

    def malformed(self, reason: str) -> ErrorResponse:
        """Error for an invalid request."""
        return self._invalid(reason)

    def unsupported(self, parameter: str) -> ErrorResponse:
        """Error for a parameter that the model does not support."""
        return self._invalid(f"`{parameter}` is deprecated for this model.")

    def overflow(self, prompt: int, output: int | None, window: int) -> ErrorResponse:
        """Error for too many tokens, with numbers."""
        if output is None or prompt > window:
            return self._invalid(f"prompt is too long: {prompt} tokens > {window} maximum")
        message = f"input length and `max_tokens` exceed context limit: {prompt} + {output} > {window}"
        return self._invalid(f"{message}, decrease input length or `max_tokens` and try again")

    def overflow_without_numbers(self) -> ErrorResponse:
        """Error for too many tokens, without numbers."""
        return self._invalid("Request size exceeds model context window")

    def output_too_large(self, requested: int, limit: int, model: str) -> ErrorResponse:
        """Error for an output limit above the model's own."""
        message = f"max_tokens: {requested} > {limit}, which is the maximum allowed number of output tokens for {model}"
        return self._invalid(message)

    def wire_overflow(self, limit: int | None) -> ErrorResponse:  # noqa: ARG002 - part of the interface
        """Error for too many bytes."""
        return self._error(413, "request_too_large", "Request exceeds the maximum allowed number of bytes.")

    def too_many_images(self, count: int, limit: int) -> ErrorResponse:
        """Error for too many images."""
        return self._invalid(f"Too much media: 0 document pages + {count} images > {limit}")

    def image_too_large(self, path: str, size_bytes: int, limit: int) -> ErrorResponse:
        """Error for an image with too many bytes."""
        megabytes = f"{limit / 2**20:.3g}"
        message = f"image exceeds {megabytes} MB maximum: {size_bytes} bytes > {limit} bytes"
        return self._invalid(f"{path}.source.base64: {message}")

    def image_too_wide(self, path: str, longest: int, limit: int) -> ErrorResponse:  # noqa: ARG002 - part of the interface
        """Error for an image with too many pixels per side."""
        message = f"At least one of the image dimensions exceed max allowed size: {limit} pixels"
        return self._invalid(f"{path}.source.base64.data: {message}")

    def scripted_error(self, word: str, setting: float | None, model: str) -> ErrorResponse | None:
        """Error response of a fault word, or None if the word is not an error response."""
        match word:
            case "401":
                return self._error(401, "authentication_error", "invalid x-api-key")
            case "403":
                return self._error(403, "permission_error", f"Your API key may not use the model {model}.")
            case "404":
                return self._error(404, "not_found_error", f"model: {model}")
            case "429":
                message = "This request would exceed the rate limit for your organization of 3 requests per minute."
                return self._error(429, "rate_limit_error", message, _seconds(setting))
            case "quota":
                return self._invalid("Your credit balance is too low to access the API. Please go to Plans & Billing.")
            case "500":
                return self._error(500, "api_error", "Internal server error")
            case "503":
                return self._error(503, "api_error", "Service unavailable", _seconds(setting))
            case "529":
                return self._error(529, "overloaded_error", "Overloaded")
            case "reasoning-400":
                return self._invalid("messages.1.content.0: Invalid `signature` in `thinking` block")
            case "content-filter":
                return self._invalid("Output blocked by content filtering policy")
            case "bad-request":
                return self._invalid("colour: Extra inputs are not permitted")
            case _:
                return proxy_error(word)

    def _invalid(self, message: str) -> ErrorResponse:
        return self._error(400, "invalid_request_error", message)

    def _error(self, status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> ErrorResponse:
        return ErrorResponse(status, anthropic.encode_error(kind, message), headers or {})


class ResponsesErrors(OpenAIErrors):
    """Errors of the responses API: overflow without numbers, and its own field names."""

    def overflow(self, prompt: int, output: int | None, window: int) -> ErrorResponse:  # noqa: ARG002 - part of the interface
        """Error for too many tokens; this API gives no numbers."""
        return self.overflow_without_numbers()

    def overflow_without_numbers(self) -> ErrorResponse:
        """Error for too many tokens, without numbers."""
        message = "Your input exceeds the context window of this model. Please adjust your input and try again."
        return self._invalid(message, "context_length_exceeded", "input")

    def output_too_large(self, requested: int, limit: int, model: str) -> ErrorResponse:  # noqa: ARG002 - part of the interface
        """Error for an output limit above the model's own."""
        message = f"This model supports at most {limit} completion tokens, whereas you provided {requested}."
        return self._invalid(
            f"max_output_tokens is too large: {requested}. {message}", "invalid_value", "max_output_tokens"
        )

    def scripted_error(self, word: str, setting: float | None, model: str) -> ErrorResponse | None:
        """Error response of a fault word, or None if the word is not an error response."""
        if word == "reasoning-400":
            message = "The encrypted content gAAA...AAA= could not be verified."
            return self._invalid(message, "invalid_encrypted_content")
        return super().scripted_error(word, setting, model)


PROVIDER_ERRORS: Mapping[str, ProviderErrors] = MappingProxyType(
    {
        openai_chat.NAME: OpenAIErrors(),
        anthropic.NAME: AnthropicErrors(),
        openai_responses.NAME: ResponsesErrors(),
        gemini.NAME: GeminiErrors(),
    }
)
