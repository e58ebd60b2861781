"""Edits of a client's request in the Gemini dialect: contents without signatures, merged, and with results in place.

Parts that need no change keep their bytes.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec

from holdfast.models.gemini.request_decoder import FunctionCall, FunctionResponse
from holdfast.models.gemini.request_encoder import NO_SIGNATURE, UNKNOWN_NAME, requires_signatures
from holdfast.models.wire import locate, replaced, to_bytes, without

MESSAGES_FIELD = "contents"
# Both spellings of a field are valid.
_SIGNATURES = ("thoughtSignature", "thought_signature")
_RESPONSES = ("functionResponse", "function_response")
_CALLS = ("functionCall", "function_call")
# An id that the decoder made for a call without one, with the number of the call in its reply.
_MADE_ID = re.compile(r"call_\d+_(\d+)")
_TO_SETTLE = re.compile(rb'"name":"' + UNKNOWN_NAME.encode() + rb'"|"id":"call_\d+_\d+"')


class _Role(msgspec.Struct):
    role: str = "user"


_roles = msgspec.json.Decoder(_Role)
_calls = msgspec.json.Decoder(FunctionCall)
_responses = msgspec.json.Decoder(FunctionResponse)


def without_reasoning(element: bytes) -> bytes | None:
    """Remove thoughts and signatures from a content; None if nothing is left."""
    parts = _parts(element)
    kept = [one for part in parts if (one := _without_signature(part)) is not None]
    if kept == parts:
        return element
    return replaced(element, "parts", kept) if kept else None


def _without_signature(part: bytes) -> bytes | None:
    """Return a part without its signature; None for a thought, and for a text that only carries a signature."""
    thought = locate(part, "thought")
    if thought is not None and part[thought.value.start : thought.value.end] == b"true":
        return None
    if not any(locate(part, name) for name in _SIGNATURES):
        return part
    for name in _SIGNATURES:
        part = without(part, name)
    text = locate(part, "text")
    return None if text is not None and part[text.value.start : text.value.end] == b'""' else part


def merge_user_contents(elements: Sequence[bytes]) -> list[bytes]:
    """Return contents with consecutive ones of the user merged: all results of one reply must be in one of them."""
    merged: list[bytes] = []
    for is_model, group in groupby(elements, key=_is_model):
        run = list(group)
        if is_model or len(run) == 1:
            merged += run
            continue
        parts = [part for element in run for part in _parts(element)]
        # Stable sort: results come first.
        parts.sort(key=lambda part: _field(part, _RESPONSES) is None)
        merged.append(replaced(run[0], "parts", parts) if locate(run[0], "parts") is not None else run[0])
    return merged


def settled(body: bytes, model: str = "") -> bytes:
    """Adjust a request whose contents were changed: names and ids of results, and calls that need a signature."""
    needs_signatures = requires_signatures(model)
    field = locate(body, MESSAGES_FIELD)
    if field is None or not (needs_signatures or _TO_SETTLE.search(body)):
        return body
    elements = [body[span.start : span.end] for span in field.elements]
    changed = list(_settled(elements, needs_signatures=needs_signatures))
    return body if changed == elements else replaced(body, MESSAGES_FIELD, changed)


def _settled(elements: Sequence[bytes], *, needs_signatures: bool) -> Iterator[bytes]:
    calls: list[FunctionCall] = []
    for is_model, group in groupby(elements, key=_is_model):
        run = list(group)
        if is_model:
            calls = [call for element in run for call in _calls_in(element)]
            yield from map(_signed, run) if needs_signatures else run
        else:
            yield from (_with_results(element, calls) for element in run)


def _signed(element: bytes) -> bytes:
    """Return a content of the model with a placeholder at its first call, if none of its calls has a signature."""
    parts = _parts(element)
    called = [place for place, part in enumerate(parts) if _field(part, _CALLS) is not None]
    if not called or any(locate(parts[place], name) for place in called for name in _SIGNATURES):
        return element
    first = parts[called[0]]
    parts[called[0]] = first[:-1] + b',"thoughtSignature":' + to_bytes(NO_SIGNATURE) + b"}"
    return replaced(element, "parts", parts)


def _with_results(element: bytes, calls: Sequence[FunctionCall]) -> bytes:
    """Return a content with results under the names and ids that their calls have on the wire."""
    parts = [_with_result(part, calls) for part in _parts(element)]
    return element if parts == _parts(element) else replaced(element, "parts", parts)


def _with_result(part: bytes, calls: Sequence[FunctionCall]) -> bytes:
    response = _field(part, _RESPONSES)
    if response is None or not _TO_SETTLE.search(response):
        return part
    result = _responses.decode(response)
    call = next((one for one in calls if one.id and one.id == result.id), None)
    made = _MADE_ID.fullmatch(result.id or "")
    if call is None and made is not None and int(made[1]) < len(calls):
        call = calls[int(made[1])]
    if call is None:
        return part
    fields = {"id": call.id} if call.id else {}
    answered = msgspec.json.decode(response, type=dict[str, msgspec.Raw])["response"]
    return to_bytes({"functionResponse": {**fields, "name": call.name, "response": answered}})


def _calls_in(element: bytes) -> Iterator[FunctionCall]:
    for part in _parts(element):
        if (call := _field(part, _CALLS)) is not None:
            yield _calls.decode(call)


def _is_model(element: bytes) -> bool:
    return _roles.decode(element).role == "model"


def _parts(element: bytes) -> list[bytes]:
    field = locate(element, "parts")
    return [element[span.start : span.end] for span in field.elements] if field is not None else []


def _field(part: bytes, names: Sequence[str]) -> bytes | None:
    found = next((field for name in names if (field := locate(part, name)) is not None), None)
    return part[found.value.start : found.value.end] if found is not None else None
