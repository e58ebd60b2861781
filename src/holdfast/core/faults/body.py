"""What a failed call's body says once it is unwrapped: sentences, codes, numbers by name, and the status it claims.

Bodies come as JSON, JSON inside a string inside JSON, arrays, events of a stream, pages of HTML, and plain text with
a client library's prefix. All of them end up as one `Evidence`. Nothing here decides what kind a failure is, nothing
raises whatever the body is, and the work is bounded: what is cut off is never the beginning.
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

# A body is kept up to 16 KiB in the log; a caller may hand over more, and it is not worth more than that.
_BODY_CHARS_MAX = 20_000
# The sentences that decide stand at the beginning or, with a stack trace, at the end.
_TEXT_HEAD_CHARS, _TEXT_TAIL_CHARS = 4_000, 1_000
# The deepest real body has three strings with JSON in them (a gateway before a gateway), each some levels deep.
_SHELLS_MAX = 6
_DEPTH_MAX = 16
_NODES_MAX = 2_000
_EVENTS_MAX = 400
# A place that has as many blanks is a sentence.
_BLANKS_MIN = 3
# What is longer is prose that stands in the wrong field.
_CODE_CHARS_MAX = 200

_FAILURES = range(REFUSED_FROM, 600)

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

# Where a sentence for people stands, and where a code does. A value without a blank under a key of both is a code.
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
# Whatever stands before it, a key that ends like this holds a sentence ("detail_message", "err_msg") or a code.
_SENTENCE_ENDINGS, _CODE_ENDINGS = ("message", "msg", "detail", "details"), ("code",)
# Words under these keys take part in the decision though they are no sentences.
_HINT_KEYS = frozenset({"quotaid", "quotametric", "statustext"})
_STATUS_KEYS = frozenset({"code", "status", "statuscode", "httpstatus", "httpstatuscode", "httpcode", "errorcode"})
# Where a validator points at the part of the request that it refuses.
_PLACE_KEYS = frozenset({"param", "loc", "field", "path", "parameter", "property"})
# Validators repeat what was sent, and a reply carries what the model wrote: neither is the provider's word.
_ECHO_KEYS = frozenset({"input", "messages", "prompt", "request", "choices", "candidates", "ctx", "parameters", "url"})
# Where a model's words stand in a reply.
_MODELS_KEYS = frozenset({"content", "text", "response", "output", "outputtext", "thinking", "reasoning", "refusal"})
# What a gateway says in front of the sentence that matters.
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
_STATUS_SAID = Pattern(
    r"^\W*(?:(?:\w+ ){0,3}(?:error|status|http)(?: code)?\W{1,3})?([45]\d\d)\b(?!\s*tokens)", re.IGNORECASE
)
# In the middle of a sentence: "Received status code: 429", "request failed with 413 Payload Too Large".
_STATUS_TOLD = Pattern(
    r"\b(?:status(?:[ _]?code)?|http(?:/[\d.]+)?|(?:api )?error(?: code)?|failed with"
    r"|(?:got|returned|received)(?: an?)?)\W{1,3}([45]\d\d)\b"
    r"(?!\s*(?:tokens|items|records|results|bytes|characters|messages|images)|[.,]\d)",
    re.IGNORECASE,
)
# A status in front of a sentence or behind the name of an error, which would read like a number that was stated.
_STATUS_NUMBER = Pattern(r"(?:^|(?<=error )|(?<=http )|(?<=status )|(?<=code ))[45]\d\d(?=[ :]|$)")
# Thousands kept apart by a narrow or fixed blank, or by dots, as most of Europe does.
_FIXED_BLANK = Pattern("(?<=\\d)[\u00a0\u2009\u202f](?=\\d{3}(?!\\d))")
_DOTTED = Pattern(r"(?<![\d.])\d{1,3}(?:\.\d{3}){2,4}(?![\d.]*\d)|(?<![\d.])\d{1,3}\.\d{3}(?= ?tokens?(?![a-z]))")
# The same by a common blank, where it is said what is counted.
_BLANKED = Pattern(r"(?<![\d.,:/#-])(?<!\d )[1-9]\d{0,2}(?: \d{3}){1,3}(?= (?:tokens?|bytes|characters)(?![a-z]))")
# "max. 8192": the dot ends no sentence.
_SHORTENED = Pattern(r"(?<![a-z])(max|min|approx|incl)\. (?=\d)")
# "5000chars".
_UNIT_STUCK = Pattern(r"(?<=\d)(?=(?:chars?|characters|tokens?|bytes)(?![a-z]))")
# A number behind a letter of a script without blanks is a word of its own.
_STUCK = Pattern("(?<=[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af])(?=\\d)")
# A dict printed by Python, which is JSON but for its strings, its tuples and three words. A string without an end goes
# to the end of all, so that nothing is looked at twice.
_PRINTED = Pattern(r"'((?:[^'\\]|\\.)*+)'?|\"((?:[^\"\\]|\\.)*+)\"?|\b(?:None|True|False)\b|[()]", re.DOTALL)
_FAILURE_KEYS = frozenset({"error", "errors", "message", "detail", "msg"})
_PRINTED_WORDS = {"None": "null", "True": "true", "False": "false", "(": "[", ")": "]"}
_ESCAPED = Pattern(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
# The same where it was cut off.
_PRINTED_CODE = Pattern(r"['\"](?:code|type|error_type)['\"]\s*:\s*['\"]([\w.-]{3,60})['\"]")
# A code that stands where a sentence should: "no_kv_space", "CONTENT_LENGTH_EXCEEDS_THRESHOLD".
_NAME = Pattern(r"^[A-Za-z][A-Za-z0-9]*(?:[_.-][A-Za-z0-9]+)+$")
# The names of exceptions, and gRPC's "code = ResourceExhausted desc = ...".
_EXCEPTION = Pattern(r"\b([A-Za-z]\w{2,60}(?:Exception|Error))\b|\bcode = ([A-Z][A-Za-z]{3,30}) desc\b")


class Evidence(msgspec.Struct, frozen=True):
    """A failure's body, unwrapped. `text` is lower case without addresses and quotes: what the tables match on."""

    sentences: tuple[str, ...] = ()
    text: str = ""
    # Lower case, letters and digits only: "context_length_exceeded" and "ContextLengthExceeded" are the same code.
    codes: tuple[str, ...] = ()
    numbers: dict[str, int] = {}
    status: int | None = None
    is_page: bool = False
    # The body is a stream's events; `has_ended` tells whether it came to its proper end.
    is_stream: bool = False
    has_ended: bool = False
    # JSON documents as they came, for those who look for a reply in them.
    documents: tuple[Json, ...] = ()
    # The parts of the request that it points at, by their paths, lower case.
    places: str = ""

    @property
    def says_nothing(self) -> bool:
        """Whether there is no sentence in it that explains anything."""
        return all(_GENERIC.match(one) for one in self.sentences)

    @property
    def said(self) -> str:
        """The provider's own sentence, the innermost that says something."""
        return next((one for one in self.sentences if not _GENERIC.match(one)), " ".join(self.sentences[:1]))


def read(refusal: Refusal) -> Evidence:
    """Unwrap a refusal."""
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
    if not walk.found and not walk.codes and not is_stream:
        for sentence in walk.elsewhere:
            walk.sentence(sentence)
    if not walk.found and not walk.codes:
        # A client's own words only count where the provider said nothing.
        walk.text(refusal.cause[:_BODY_CHARS_MAX].strip())
    for name, value in refusal.headers.items():
        if name.lower() in {"x-amzn-errortype", "grpc-message", "x-ms-error-code"}:
            walk.code(value.split(":")[0])
    if walk.status is None:
        walk.status = _told_status(walk.found[0][1] if is_page and walk.found else body)
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
    """Reduce a text to what the tables match on. Blanks are single, quotes and addresses are gone."""
    if len(text) > _TEXT_HEAD_CHARS + _TEXT_TAIL_CHARS:
        text = text[:_TEXT_HEAD_CHARS] + " " + text[-_TEXT_TAIL_CHARS:]
    text = _URL.sub(" ", html.unescape(text)).lower()
    text = re.sub(r"[\"'`*\u2018\u2019\u201c\u201d]+", "", text.replace("\\n", " "))
    # One provider prints the status in front of its sentences.
    text = re.sub(r"<\d{3}>", " ", text)
    # A validator's own heading has the word "input" in it and says nothing about the input.
    text = text.replace("input validation error", "validation error")
    text = re.sub(r"\s+", " ", in_english(text)).strip()
    text = _SHORTENED.sub(r"\1 ", text if text.isascii() else _STUCK.sub(" ", text))
    text = _DOTTED.sub(lambda match: match[0].replace(".", ""), text)
    text = _UNIT_STUCK.sub(" ", _STATUS_NUMBER.sub("", text).strip())
    return _BLANKED.sub(lambda match: match[0].replace(" ", ""), text)


def _told_status(text: str) -> int | None:
    """Return the status that a sentence names, at its beginning or further on."""
    told = _STATUS_SAID.match(text) or _STATUS_TOLD.search(text[:_TEXT_HEAD_CHARS])
    return None if told is None else int(told[1])


def _effective_status(status: int | None, claimed: int | None) -> int | None:
    """A status of 200 only says that a stream began; then the body's own claim is the better one."""
    if status in {None, OK} and claimed is not None:
        return claimed
    return status


def decode(text: str) -> tuple[bool, Json]:
    """Decode JSON, telling whether it was any."""
    try:
        return True, msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return False, None


def _decode_printed(text: str) -> tuple[bool, Json]:
    """Decode a failure as Python prints a dict, telling whether it was one; of another it prints what was sent."""
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


def _is_report(value: Json) -> bool:
    """Whether what stands where a request's messages do are the server's own: they have no role."""
    return isinstance(value, list) and all(
        isinstance(one, dict) and "message" in one and "role" not in one for one in value
    )


class _Walk:
    """Collects what a body says while its layers are taken off."""

    def __init__(self) -> None:
        self.found: list[tuple[int, str]] = []
        self.hints: list[str] = []
        self.codes: list[str] = []
        self.numbers: dict[str, int] = {}
        self.status: int | None = None
        self.documents: list[Json] = []
        self.places: list[str] = []
        # Sentences under names that nobody foresaw: they count where there are no others.
        self.elsewhere: list[str] = []
        self.nodes = 0

    def sentences_in_order(self) -> Iterator[str]:
        """Innermost first: what stands in a string inside a body was said by the one who really refused."""
        seen = sorted(self.found, key=lambda one: -one[0])
        return iter(dict.fromkeys(sentence for _, sentence in seen))

    def sentence(self, text: str, shell: int = 0) -> None:
        """Keep a sentence."""
        text = re.sub(r"\s+", " ", _FIXED_BLANK.sub("", text)).strip()
        if text:
            self.found.append((shell, text))

    def code(self, text: str) -> None:
        """Keep a code."""
        if text and len(text) <= _CODE_CHARS_MAX:
            self.codes.append(plain(text))

    def text(self, text: str, shell: int = 0, *, is_prose: bool = True) -> None:
        """Read a string that is JSON, has JSON in it, or is a sentence; `shell` counts the strings around it."""
        start = text.find("{")
        if shell < _SHELLS_MAX and start >= 0:
            start = start - 1 if text[start - 1 : start] == "[" else start
            end = text.rfind("]" if text[start] == "[" else "}") + 1
            is_json, document = decode(text[start:])
            if not is_json:
                is_json, document = decode(text[start:end])
            is_printed = False
            if not is_json:
                is_printed, document = _decode_printed(text[start:end])
            if is_json or is_printed:
                self.documents.append(document)
                self.sentence(text[:start], shell)
                self.value(document, "", 0, shell + 1)
                self.exceptions(text[:start] + text[end:] if is_printed else "")
                return
            for code in (found[1] for found in _PRINTED_CODE.finditer(text)):
                self.code(code)
        if is_prose:
            if _NAME.match(text):
                self.code(text)
            self.exceptions(text)
            self.sentence(text, shell)

    def exceptions(self, text: str) -> None:
        """Keep the names of exceptions in a text as codes."""
        for code in (found[1] or found[2] for found in _EXCEPTION.finditer(text)):
            self.code(code)

    def value(self, value: Json, key: str, depth: int, shell: int) -> None:
        """Read one JSON value; `key` is the plain name under which it stands."""
        self.nodes += 1
        if self.nodes > _NODES_MAX or depth > _DEPTH_MAX:
            return
        if isinstance(value, dict):
            for name, inner in value.items():
                if plain(name) not in _ECHO_KEYS or (name == "messages" and _is_report(inner)):
                    self.value(inner, plain(name), depth + 1, shell)
        elif isinstance(value, list):
            for inner in value:
                self.value(inner, key, depth + 1, shell)
        elif isinstance(value, str):
            self.string(value.strip(), key, shell)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self.number(value, key)

    def string(self, value: str, key: str, shell: int) -> None:
        """Read one JSON string: a code, a sentence, or another layer."""
        if key in _HINT_KEYS:
            self.hints.append(value)
        elif key == "retrydelay":
            self.hints.append(f"retry after {value}")
        elif key in _PLACE_KEYS and value.lower() != "body":
            self.places.append(value[:_CODE_CHARS_MAX])
            if value.count(" ") >= _BLANKS_MIN:
                self.text(value, shell)
        # A client library prints its exception under "name", where a tool or a field has its own.
        is_code = key in _CODE_KEYS or key.endswith(_CODE_ENDINGS)
        is_code = is_code or (key == "name" and value.endswith(("Exception", "Error")))
        if is_code and " " not in value and value.isascii():
            self.code(value)
        elif key in _SENTENCE_KEYS or key.endswith(_SENTENCE_ENDINGS):
            self.text(value, shell)
        elif " " in value and key not in _MODELS_KEYS:
            self.elsewhere.append(value)
        if value.isdecimal():
            self.number(int(value[:18]), key)

    def number(self, value: float, key: str) -> None:
        """Keep a number by its name; the first that looks like an HTTP failure under a fitting name is the status."""
        number = int(value)
        self.numbers.setdefault(key, number)
        if key in _STATUS_KEYS and number in _FAILURES and self.status is None:
            self.status = number
