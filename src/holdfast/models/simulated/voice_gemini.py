"""How Google says no: a number, a name and details, whatever went wrong."""

from holdfast.models import gemini
from holdfast.models.simulated.no import No, in_front
from holdfast.models.wire import WireNode, to_bytes

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
