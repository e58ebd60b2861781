"""Parse the body of an error response into `Evidence`: sentences, codes, named numbers and the stated status.

Bodies are JSON, JSON in a string in JSON, arrays, stream events, HTML pages, and plain text with a client library's
prefix. This module does not classify, never raises, and bounds its work; truncation keeps the beginning.
"""

import html
import re
from collections.abc import Iterator
from itertools import islice
from typing import TypeAlias

import msgspec

from holdfast.core.faults.codes import OK, REFUSED_FROM
from holdfast.core.faults.translations import in_english
from holdfast.core.text.patterns import Pattern
from holdfast.types.faults import Refusal

# The log stores bodies up to 16 KiB; callers may pass more, and the rest is ignored.
_BODY_CHARS_MAX = 20_000
# The decisive sentences are at the beginning or, with a stack trace, at the end.
_TEXT_HEAD_CHARS, _TEXT_TAIL_CHARS = 4_000, 1_000
# The deepest real body nests three JSON strings (a gateway before a gateway), each some levels deep.
_SHELLS_MAX = 6
_DEPTH_MAX = 16
_NODES_MAX = 2_000
_EVENTS_MAX = 400
# A path with this many spaces is a sentence.
_BLANKS_MIN = 3
# Longer values are prose in the wrong field.
_CODE_CHARS_MAX = 200

_FAILURES = range(REFUSED_FROM, 600)

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

# Keys of sentences for people, and keys of codes. A value without a space under a key of both is a code.
_SENTENCE_KEYS = frozenset(
    {"message", "msg", "detail", "details", "description", "raw", "errors", "fault", "faultstring", "failurereason"}
    | {"errormessage", "errormsg", "responsetext", "statusmessage", "statusmsg"}
    | {"error", "reason", "status", "statustext", "title", "exception", "warning", "warnings"}
)
_CODE_KEYS = frozenset(
    {"code", "type", "error", "status", "statustext", "reason", "title", "exception", "blockreason", "finishreason"}
    | {"errortype", "errorcode", "errorreason", "errorstatus", "innererrorcode", "providererrorcode", "grpcstatus"}
    | {"quotaid", "quotametric"}
)
# Suffixes of keys that hold a sentence ("detail_message", "err_msg") or a code.
_SENTENCE_ENDINGS, _CODE_ENDINGS = ("message", "msg", "detail", "details"), ("code",)
# Values of these keys are matched although they are not sentences.
_HINT_KEYS = frozenset({"quotaid", "quotametric", "statustext"})
_STATUS_KEYS = frozenset({"code", "status", "statuscode", "httpstatus", "httpstatuscode", "httpcode", "errorcode"})
# Keys where a validator names the rejected part of the request.
_PLACE_KEYS = frozenset({"param", "loc", "field", "path", "parameter", "property"})
# Keys that echo the request or hold the model's output: neither is the provider's message.
_ECHO_KEYS = frozenset({"input", "messages", "prompt", "request", "choices", "candidates", "ctx", "parameters", "url"})
# Keys of a model's output in a reply.
_MODELS_KEYS = frozenset({"content", "text", "response", "output", "outputtext", "thinking", "reasoning", "refusal"})
# Generic messages of gateways that wrap the specific one.
_GENERIC = Pattern(
    r"^(provider returned error|upstream request failed|bad ?request|invalid ?request|error|unknown error"
    r"|internal(server)? ?error|failed|client specified an invalid argument)\W*$",
    re.IGNORECASE,
)

_PAGE = Pattern(r"<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_PAGE_HIDDEN = Pattern(r"<(script|style)\b.*?(?:</\1>|$)", re.IGNORECASE | re.DOTALL)
_TAG = Pattern(r"<[a-z!/][^<>]{0,300}>", re.IGNORECASE)
_URL = Pattern(r"\b(?:https?|wss?)://[^\s\"'<>)\]]+", re.IGNORECASE)
_EVENT_LINE = Pattern(r"^(?:data|event):\s?(.*)$", re.MULTILINE)
_STREAM_END = Pattern(
    r"\[DONE\]|message_stop|message-end|response\.(?:completed|incomplete)|\"done\"\s*:\s*true"
    r"|\"(?:finish_reason|finishReason|stop_reason)\"\s*:\s*\"",
)
# Client libraries print the status before the body: "Error code: 400 - {...}", "413 status code (no body)".
_STATUS_PREFIX = Pattern(
    r"^\W*(?:(?:\w+ ){0,3}(?:error|status|http)(?: code)?\W{1,3})?([45]\d\d)\b(?!\s*tokens)", re.IGNORECASE
)
# In the middle of a sentence: "Received status code: 429", "request failed with 413 Payload Too Large".
_STATUS_INSIDE = Pattern(
    r"\b(?:status(?:[ _]?code)?|http(?:/[\d.]+)?|(?:api )?error(?: code)?|failed with"
    r"|(?:got|returned|received)(?: an?)?)\W{1,3}([45]\d\d)\b"
    r"(?!\s*(?:tokens|items|records|results|bytes|characters|messages|images)|[.,]\d)",
    re.IGNORECASE,
)
# A status before a sentence or after the name of an error, which would be read as a stated number.
_STATUS_NUMBER = Pattern(r"(?:^|(?<=error )|(?<=http )|(?<=status )|(?<=code ))[45]\d\d(?=[ :]|$)")
# Thousands separated by a narrow or non-breaking space, or by dots, as in most of Europe.
_FIXED_BLANK = Pattern("(?<=\\d)[\u00a0\u2009\u202f](?=\\d{3}(?!\\d))")
_DOTTED = Pattern(r"(?<![\d.])\d{1,3}(?:\.\d{3}){2,4}(?![\d.]*\d)|(?<![\d.])\d{1,3}\.\d{3}(?= ?tokens?(?![a-z]))")
# The same with a plain space, if a unit follows.
_BLANKED = Pattern(r"(?<![\d.,:/#-])(?<!\d )[1-9]\d{0,2}(?: \d{3}){1,3}(?= (?:tokens?|bytes|characters)(?![a-z]))")
# "max. 8192": the dot does not end a sentence.
_SHORTENED = Pattern(r"(?<![a-z])(max|min|approx|incl)\. (?=\d)")
# "5000chars".
_UNIT_STUCK = Pattern(r"(?<=\d)(?=(?:chars?|characters|tokens?|bytes)(?![a-z]))")
# A number after a letter of a script without spaces is a separate word.
_STUCK = Pattern("(?<=[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af])(?=\\d)")
# A Python dict repr: JSON except for its strings, tuples and three constants. An unterminated string extends to the end
# of the text, so that matching stays linear.
_PRINTED = Pattern(r"'((?:[^'\\]|\\.)*+)'?|\"((?:[^\"\\]|\\.)*+)\"?|\b(?:None|True|False)\b|[()]", re.DOTALL)
_FAILURE_KEYS = frozenset({"error", "errors", "message", "detail", "msg"})
_PRINTED_WORDS = {"None": "null", "True": "true", "False": "false", "(": "[", ")": "]"}
_ESCAPED = Pattern(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
# Codes in a truncated dict repr.
_PRINTED_CODE = Pattern(r"['\"](?:code|type|error_type)['\"]\s*:\s*['\"]([\w.-]{3,60})['\"]")
# A code in the field of a sentence: "no_kv_space", "CONTENT_LENGTH_EXCEEDS_THRESHOLD".
_NAME = Pattern(r"^[A-Za-z][A-Za-z0-9]*(?:[_.-][A-Za-z0-9]+)+$")
# The names of exceptions, and gRPC's "code = ResourceExhausted desc = ...".
_EXCEPTION = Pattern(r"\b([A-Za-z]\w{2,60}(?:Exception|Error))\b|\bcode = ([A-Z][A-Za-z]{3,30}) desc\b")


class Evidence(msgspec.Struct, frozen=True):
    """A parsed error body. `text` is normalised for the tables: lower case, without URLs and quotes."""

    sentences: tuple[str, ...] = ()
    text: str = ""
    # Lower case, letters and digits only: "context_length_exceeded" and "ContextLengthExceeded" are the same code.
    codes: tuple[str, ...] = ()
    numbers: dict[str, int] = {}
    status: int | None = None
    is_page: bool = False
    # The body is an event stream; `has_ended`: it has its final event.
    is_stream: bool = False
    has_ended: bool = False
    # Decoded JSON documents, to look for a reply in them.
    documents: tuple[Json, ...] = ()
    # Paths of the request parts that the error names, lower case.
    places: str = ""

    @property
    def says_nothing(self) -> bool:
        """Return whether no sentence gives a specific reason."""
        return all(_GENERIC.match(one) for one in self.sentences)

    @property
    def said(self) -> str:
        """The provider's message: the innermost sentence that is not generic."""
        return next((one for one in self.sentences if not _GENERIC.match(one)), " ".join(self.sentences[:1]))


def read(refusal: Refusal) -> Evidence:
    """Parse an error response."""
    walk = _Walk()
    body = refusal.body[:_BODY_CHARS_MAX].strip()
    is_page = _PAGE.search(body[:2_000]) is not None
    is_stream = not is_page and body.startswith(("data:", "event:", "id:", "retry:", ":"))
    if is_page:
        walk.sentence(_TAG.sub(" ", _PAGE_HIDDEN.sub(" ", body)))
    elif is_stream:
        for event in islice(_EVENT_LINE.finditer(body), _EVENTS_MAX):
            walk.text(event[1], is_prose=False)
    else:
        walk.text(body)
        walk.use_other_sentences()
    if walk.is_empty:
        # The HTTP library's own error only counts if the provider sent no message.
        walk.text(refusal.cause[:_BODY_CHARS_MAX].strip())
    for name, value in refusal.headers.items():
        if name.lower() in {"x-amzn-errortype", "grpc-message", "x-ms-error-code"}:
            walk.code(value.split(":")[0])
    if walk.status is None:
        walk.status = _stated_status(walk.found[0][1] if is_page and walk.found else body)
    return Evidence(
        sentences=tuple(walk.sentences_in_order()),
        text=normalise(" . ".join([*walk.sentences_in_order(), *walk.hints])),
        codes=tuple(dict.fromkeys(walk.codes)),
        numbers=walk.numbers,
        status=_effective_status(refusal.status, walk.status),
        is_page=is_page,
        is_stream=is_stream,
        has_ended=is_stream and _STREAM_END.search(body) is not None,
        documents=tuple(walk.documents),
        places=" ".join(walk.places).lower(),
    )


def normalise(text: str) -> str:
    """Normalise a text for the tables: lower case, single spaces, no quotes and URLs."""
    if len(text) > _TEXT_HEAD_CHARS + _TEXT_TAIL_CHARS:
        text = text[:_TEXT_HEAD_CHARS] + " " + text[-_TEXT_TAIL_CHARS:]
    text = _URL.sub(" ", html.unescape(text)).lower()
    text = re.sub(r"[\"'`*\u2018\u2019\u201c\u201d]+", "", text.replace("\\n", " "))
    # One provider prints the status before its sentences.
    text = re.sub(r"<\d{3}>", " ", text)
    # This heading of a validator has the word "input" and does not concern the input.
    text = text.replace("input validation error", "validation error")
    text = re.sub(r"\s+", " ", in_english(text)).strip()
    text = _SHORTENED.sub(r"\1 ", text if text.isascii() else _STUCK.sub(" ", text))
    text = _DOTTED.sub(lambda match: match[0].replace(".", ""), text)
    text = _UNIT_STUCK.sub(" ", _STATUS_NUMBER.sub("", text).strip())
    return _BLANKED.sub(lambda match: match[0].replace(" ", ""), text)


def _stated_status(text: str) -> int | None:
    """Return the HTTP status that a text states, at its beginning or further on."""
    found = _STATUS_PREFIX.match(text) or _STATUS_INSIDE.search(text[:_TEXT_HEAD_CHARS])
    return None if found is None else int(found[1])


def _effective_status(status: int | None, stated: int | None) -> int | None:
    """Return the body's stated status where the response has none, or a 200 that only began a stream."""
    if status in {None, OK} and stated is not None:
        return stated
    return status


def decode(text: str) -> tuple[bool, Json]:
    """Decode JSON; the first value is whether it was valid."""
    try:
        return True, msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return False, None


def _decode_printed(text: str) -> tuple[bool, Json]:
    """Decode an error printed as a Python dict; False for other dicts, which echo the request."""
    is_json, document = decode(_PRINTED.sub(_as_json, text)) if text.startswith(("{'", "[{'")) else (False, None)
    first = document[0] if isinstance(document, list) and document else document
    is_failure = isinstance(first, dict) and any(plain(key) in _FAILURE_KEYS for key in first)
    return is_json and is_failure, document


def _as_json(match: re.Match[str]) -> str:
    if match[0] in _PRINTED_WORDS:
        return _PRINTED_WORDS[match[0]]
    inner = _ESCAPED.sub(lambda escaped: _ESCAPES.get(escaped[1], escaped[1]), match[1] or match[2] or "")
    return msgspec.json.encode(inner).decode()


def plain(name: str) -> str:
    """Reduce a key or a code to its letters and digits, lower case."""
    return re.sub(r"[^a-z0-9]+", "", name.lower())


def _is_code(key: str, value: str) -> bool:
    """Return whether a string is an error code, by its key and its form."""
    # A client library prints its exception under "name", which elsewhere is the name of a tool or a field.
    is_code_key = (
        key in _CODE_KEYS or key.endswith(_CODE_ENDINGS) or (key == "name" and value.endswith(("Exception", "Error")))
    )
    return is_code_key and " " not in value and value.isascii()


def _is_report(value: Json) -> bool:
    """Return whether a `messages` list holds the server's own messages: they have no role."""
    return isinstance(value, list) and all(
        isinstance(one, dict) and "message" in one and "role" not in one for one in value
    )


class _Embedded(msgspec.Struct, frozen=True):
    """A JSON document in a text, or a Python dict repr, with the text around it."""

    document: Json
    prefix: str
    suffix: str
    is_printed: bool = False


def _embedded_json(text: str) -> _Embedded | None:
    """Decode the first JSON document in a text with a "{"; None if it is not one."""
    start = text.index("{")
    start = start - 1 if text[start - 1 : start] == "[" else start
    end = text.rfind("]" if text[start] == "[" else "}") + 1
    prefix, suffix = text[:start], text[end:]
    for candidate in (text[start:], text[start:end]):
        is_json, document = decode(candidate)
        if is_json:
            return _Embedded(document, prefix, suffix)
    is_printed, document = _decode_printed(text[start:end])
    return _Embedded(document, prefix, suffix, is_printed=True) if is_printed else None


class _Walk:
    """Collects evidence while a body's layers are decoded."""

    def __init__(self) -> None:
        self.found: list[tuple[int, str]] = []
        self.hints: list[str] = []
        self.codes: list[str] = []
        self.numbers: dict[str, int] = {}
        self.status: int | None = None
        self.documents: list[Json] = []
        self.places: list[str] = []
        # Sentences under unknown keys: used only if there are no others.
        self.other_sentences: list[str] = []
        self.nodes = 0

    @property
    def is_empty(self) -> bool:
        """Return whether neither a sentence nor a code was found."""
        return not self.found and not self.codes

    def use_other_sentences(self) -> None:
        """Use the sentences under unknown keys if nothing else was found."""
        if self.is_empty:
            for sentence in self.other_sentences:
                self.sentence(sentence)

    def sentences_in_order(self) -> Iterator[str]:
        """Return the sentences, innermost first: the innermost string is from the server that rejected the request."""
        seen = sorted(self.found, key=lambda one: -one[0])
        return iter(dict.fromkeys(sentence for _, sentence in seen))

    def sentence(self, text: str, shell: int = 0) -> None:
        """Add a sentence."""
        text = re.sub(r"\s+", " ", _FIXED_BLANK.sub("", text)).strip()
        if text:
            self.found.append((shell, text))

    def code(self, text: str) -> None:
        """Add a code."""
        if text and len(text) <= _CODE_CHARS_MAX:
            self.codes.append(plain(text))

    def text(self, text: str, shell: int = 0, *, is_prose: bool = True) -> None:
        """Read a string that is JSON, contains JSON, or is a sentence; `shell` counts the strings around it."""
        if shell < _SHELLS_MAX and "{" in text:
            embedded = _embedded_json(text)
            if embedded is not None:
                self.documents.append(embedded.document)
                self.sentence(embedded.prefix, shell)
                self.value(embedded.document, "", 0, shell + 1)
                self.exceptions(embedded.prefix + embedded.suffix if embedded.is_printed else "")
                return
            for code in (found[1] for found in _PRINTED_CODE.finditer(text)):
                self.code(code)
        if is_prose:
            if _NAME.match(text):
                self.code(text)
            self.exceptions(text)
            self.sentence(text, shell)

    def exceptions(self, text: str) -> None:
        """Add the names of exceptions in a text as codes."""
        for code in (found[1] or found[2] for found in _EXCEPTION.finditer(text)):
            self.code(code)

    def value(self, value: Json, key: str, depth: int, shell: int) -> None:
        """Read one JSON value; `key` is its normalised key."""
        self.nodes += 1
        if self.nodes > _NODES_MAX or depth > _DEPTH_MAX:
            return
        if isinstance(value, dict):
            self.fields(value, depth, shell)
        elif isinstance(value, list):
            for inner in value:
                self.value(inner, key, depth + 1, shell)
        elif isinstance(value, str):
            self.string(value.strip(), key, shell)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self.number(value, key)

    def fields(self, value: dict[str, Json], depth: int, shell: int) -> None:
        """Read the fields of a JSON object, except echoes of the request."""
        for name, inner in value.items():
            if plain(name) not in _ECHO_KEYS or (name == "messages" and _is_report(inner)):
                self.value(inner, plain(name), depth + 1, shell)

    def string(self, value: str, key: str, shell: int) -> None:
        """Read one JSON string: a code, a sentence, or another layer."""
        self.hint_or_place(value, key, shell)
        if _is_code(key, value):
            self.code(value)
        elif key in _SENTENCE_KEYS or key.endswith(_SENTENCE_ENDINGS):
            self.text(value, shell)
        elif " " in value and key not in _MODELS_KEYS:
            self.other_sentences.append(value)
        if value.isdecimal():
            self.number(int(value[:18]), key)

    def hint_or_place(self, value: str, key: str, shell: int) -> None:
        """Add a string under a key of hints, or of paths in the request."""
        if key in _HINT_KEYS:
            self.hints.append(value)
        elif key == "retrydelay":
            self.hints.append(f"retry after {value}")
        elif key in _PLACE_KEYS and value.lower() != "body":
            self.places.append(value[:_CODE_CHARS_MAX])
            if value.count(" ") >= _BLANKS_MIN:
                self.text(value, shell)

    def number(self, value: float, key: str) -> None:
        """Add a number by its key; the first HTTP error status under a status key is the status."""
        number = int(value)
        self.numbers.setdefault(key, number)
        if key in _STATUS_KEYS and number in _FAILURES and self.status is None:
            self.status = number
