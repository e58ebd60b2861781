"""Parse the body of an error response into `Evidence`: sentences, codes, named numbers and the stated status.

Bodies are JSON, JSON in a string in JSON, arrays, stream events, HTML pages, and plain text with a client library's
prefix. This module does not classify, never raises, and bounds its work; truncation keeps the beginning.
"""

import html
import re
from itertools import islice
from typing import TypeAlias

import msgspec

from holdfast.core.faults.codes import OK, REFUSED_FROM
from holdfast.core.faults.words import in_english
from holdfast.core.text.patterns import Pattern
from holdfast.types.faults import Refusal

# The log stores bodies up to 16 KiB; callers may pass more, and the rest is ignored.
_BODY_CHARS_MAX = 20_000
# The decisive sentences are at the beginning or, with a stack trace, at the end.
_TEXT_HEAD_CHARS, _TEXT_TAIL_CHARS = 4_000, 1_000
# The deepest real body nests three JSON strings (a gateway before a gateway), each some levels deep.
_SHELLS_MAX, _DEPTH_MAX, _NODES_MAX, _EVENTS_MAX = 6, 16, 2_000, 400
# Longer values are prose in the wrong field.
_CODE_CHARS_MAX = 200

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

# Keys of sentences for people, and keys of codes. A value without a space under a key of both is a code.
_SENTENCE_KEY = Pattern(
    "(?:message|msg|details?)$|^(?:description|raw|errors?|fault|faultstring|failurereason|responsetext|reason|status"
    "|statustext|title|exception|warnings?)$"
)
_CODE_KEY = Pattern(
    "code$|^(?:error|grpc)?(?:type|status|reason)$|^(?:error|statustext|title|exception|quotaid|quotametric)$"
    "|^(?:block|finish)reason$"
)
# Values of these keys are matched although they are not sentences.
_HINT_KEYS = frozenset({"quotaid", "quotametric", "statustext", "retrydelay"})
_STATUS_KEY = Pattern("(?:code|status)$")
# Keys where a validator names the rejected part of the request.
_PLACE_KEYS = frozenset({"param", "loc", "field", "path", "parameter", "property"})
# Keys that echo the request or hold the model's output: neither is the provider's message.
_ECHO_KEYS = frozenset({"input", "prompt", "request", "choices", "candidates", "ctx", "parameters", "url"})
# Keys of a model's output in a reply.
_MODELS_KEYS = frozenset({"content", "text", "response", "output", "outputtext", "thinking", "reasoning", "refusal"})
# Generic messages of gateways that wrap the specific one.
_GENERIC = Pattern(
    r"(?i)^(?:(?:bad|invalid|upstream) ?request(?: failed)?|(?:provider returned |unknown |internal(?:server)? ?)?error"
    r"|failed|client specified an invalid argument)\W*$"
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
# Client libraries print the status before the body, "Error code: 400 - {...}", or in the middle of a sentence:
# "Received status code: 429", "request failed with 413 Payload Too Large".
_STATUS = Pattern(
    r"(?:^\W*|\b(?:status(?:[ _]?code)?|http(?:/[\d.]+)?|error(?: code)?|failed with|(?:got|received|returned)(?: a)?)"
    r"\W{1,3})([45]\d\d)\b(?!\s*(?:tokens|items|records|results|bytes|characters|messages|images)|[.,]\d)",
    re.IGNORECASE,
)
# A status before a sentence or after the name of an error, which would be read as a stated number.
_STATUS_NUMBER = Pattern(r"(?:^|(?<=error )|(?<=http )|(?<=status )|(?<=code ))[45]\d\d(?=[ :]|$)|<\d{3}>")
# Thousands separated by fixed spaces or dots, and by one dot or plain spaces if a unit follows.
_GROUPED = Pattern(
    r"(?<![\d.,:/#-])(?<!\d )[1-9]\d{0,2}(?:(?:[\u00a0\u2009\u202f]\d{3}){1,4}|(?:\.\d{3}){2,4}"
    r"|(?:[. ]\d{3}){1,3}(?= (?:tokens?|bytes|characters)(?![a-z])))(?![\d.]*\d)",
    re.IGNORECASE,
)
# "max. 8192": the dot does not end a sentence.
_SHORTENED = Pattern(r"(?<![a-z])(max|min|approx|incl)\. (?=\d)")
# "5000chars", and a number after a letter of a script without spaces.
_STUCK = Pattern(
    "(?<=\\d)(?=(?:chars?|characters|tokens?|bytes)(?![a-z]))|(?<=[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af])(?=\\d)"
)
# The message in a dict that a client library prints.
_PRINTED = Pattern(r"'(?:message|detail|msg)': (?:'([^']{3,500})'|\"([^\"]{3,500})\")")
# Its codes, names of exceptions, gRPC's "code = … desc = …", and a code in the place of a sentence: "no_kv_space".
_CODE_INSIDE = Pattern(
    r"\b([A-Za-z]\w{2,60}(?:Exception|Error))\b|\bcode = ([A-Z][A-Za-z]{3,30}) desc\b|'(?:code|type)': '([\w.-]{3,60})'"
    r"|^([A-Za-z][A-Za-z0-9]*(?:[_.-][A-Za-z0-9]+)+)$"
)


class Evidence(msgspec.Struct):
    """A parsed error body; `read` collects it while it decodes the layers. A shell is a string around a document."""

    # The innermost first: it is from the server that rejected the request.
    sentences: list[str] = []
    # Normalised for the tables: lower case, without URLs and quotes.
    text: str = ""
    # Lower case, letters and digits only: "context_length_exceeded" and "ContextLengthExceeded" are the same code.
    codes: list[str] = []
    numbers: dict[str, int] = {}
    status: int | None = None
    is_page: bool = False
    # The body is an event stream; `has_ended`: it has its final event.
    is_stream: bool = False
    has_ended: bool = False
    # Decoded JSON documents, to look for a reply in them.
    documents: list[Json] = []
    # Paths of the request parts that the error names.
    places: list[str] = []
    hints: list[str] = []
    # Sentences with their shells, and those under unknown keys: used only if there are no others.
    found: list[tuple[int, str]] = []
    others: list[str] = []
    nodes: int = 0

    @property
    def says_nothing(self) -> bool:
        """Return whether no sentence gives a specific reason."""
        return all(_GENERIC.match(one) for one in self.sentences)

    @property
    def said(self) -> str:
        """The provider's message: the innermost sentence that is not generic."""
        return next((one for one in self.sentences if not _GENERIC.match(one)), " ".join(self.sentences[:1]))

    def sentence(self, text: str, shell: int = 0) -> None:
        """Add a sentence."""
        text = re.sub(r"\s+", " ", _GROUPED.sub(lambda match: re.sub(r"\D", "", match[0]), text)).strip()
        if text:
            self.found.append((shell, text))

    def code(self, text: str) -> None:
        """Add a code."""
        if text and len(text) <= _CODE_CHARS_MAX:
            self.codes.append(plain(text))

    def read_text(self, text: str, shell: int = 0, *, is_prose: bool = True) -> None:
        """Read a string that is JSON, contains JSON, or is a sentence."""
        embedded = _embedded_json(text) if shell < _SHELLS_MAX and "{" in text else None
        if embedded is not None:
            document, before, after = embedded
            self.documents.append(document)
            self.sentence(before, shell)
            self.value(document, "", 0, shell + 1)
            text = f"{before} {after}"
        if embedded is not None or is_prose:
            for found in _CODE_INSIDE.finditer(text):
                self.code(found[found.lastindex or 0])
        if embedded is None and is_prose:
            for printed in islice(_PRINTED.finditer(text), 1):
                self.sentence(printed[1] or printed[2], shell + 1)
            self.sentence(text, shell)

    def value(self, value: Json, key: str, depth: int, shell: int) -> None:
        """Read one JSON value; `key` is its normalised key."""
        self.nodes += 1
        if self.nodes > _NODES_MAX or depth > _DEPTH_MAX:
            return
        if isinstance(value, dict):
            for name, inner in value.items():
                if plain(name) not in _ECHO_KEYS:
                    self.value(inner, plain(name), depth + 1, shell)
        elif isinstance(value, list):
            for inner in value:
                self.value(inner, key, depth + 1, shell)
        elif isinstance(value, str):
            self.string(value.strip(), key, shell)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self.number(int(value), key)

    def string(self, value: str, key: str, shell: int) -> None:
        """Read one JSON string: a code, a sentence, another layer, a hint, or a path in the request."""
        # A client library prints its exception under "name", which elsewhere is the name of a tool or a field.
        is_code_key = _CODE_KEY.search(key) or (key == "name" and value.endswith(("Exception", "Error")))
        if key in _HINT_KEYS:
            self.hints.append(f"retry after {value}" if key == "retrydelay" else value)
        if key in _PLACE_KEYS and value.lower() != "body":
            self.places.append(value[:_CODE_CHARS_MAX])
        if is_code_key and " " not in value and value.isascii():
            self.code(value)
        elif _SENTENCE_KEY.search(key):
            self.read_text(value, shell)
        elif " " in value and key not in _MODELS_KEYS:
            self.others.append(value)
        if value.isdecimal():
            self.number(int(value[:18]), key)

    def number(self, value: int, key: str) -> None:
        """Add a number by its key; the first HTTP error status under a status key is the status."""
        self.numbers.setdefault(key, value)
        if value in range(REFUSED_FROM, 600) and self.status is None and _STATUS_KEY.search(key):
            self.status = value


def read(refusal: Refusal) -> Evidence:
    """Parse an error response."""
    body = refusal.body[:_BODY_CHARS_MAX].strip()
    is_page = _PAGE.search(body[:2_000]) is not None
    is_stream = not is_page and body.startswith(("data:", "event:", "id:", "retry:", ":"))
    found = Evidence(is_page=is_page, is_stream=is_stream, has_ended=is_stream and _STREAM_END.search(body) is not None)
    if is_page:
        body = _TAG.sub(" ", _PAGE_HIDDEN.sub(" ", body))
        found.sentence(body)
    elif is_stream:
        for event in islice(_EVENT_LINE.finditer(body), _EVENTS_MAX):
            found.read_text(event[1], is_prose=False)
    else:
        found.read_text(body)
    if not found.found and not found.codes:
        for sentence in found.others:
            found.sentence(sentence)
        # The HTTP library's own error only counts if the provider sent no message.
        found.read_text("" if found.found else refusal.cause[:_BODY_CHARS_MAX].strip())
    for name, value in refusal.headers.items():
        if name.lower() in {"x-amzn-errortype", "grpc-message", "x-ms-error-code"}:
            found.code(value.split(":")[0])
    found.sentences = list(dict.fromkeys(one for _, one in sorted(found.found, key=lambda one: -one[0])))
    found.text = normalise(" . ".join([*found.sentences, *found.hints]))
    status = _STATUS.search(body[:_TEXT_HEAD_CHARS].strip())
    stated = found.status or (None if status is None else int(status[1]))
    # The stated status counts where the response has none, or a 200 that only began a stream.
    found.status = stated if refusal.status in {None, OK} and stated is not None else refusal.status
    return found


def normalise(text: str) -> str:
    """Normalise a text for the tables: English, lower case, single spaces, no quotes and URLs."""
    if len(text) > _TEXT_HEAD_CHARS + _TEXT_TAIL_CHARS:
        text = text[:_TEXT_HEAD_CHARS] + " " + text[-_TEXT_TAIL_CHARS:]
    text = _URL.sub(" ", html.unescape(text)).lower()
    text = re.sub(r"[\"'`*\u2018\u2019\u201c\u201d]+", "", text.replace("\\n", " "))
    # This heading of a validator has the word "input" and does not concern the input.
    text = in_english(text.replace("input validation error", "validation error"))
    text = _SHORTENED.sub(r"\1 ", re.sub(r"\s+", " ", text).strip())
    return re.sub(" +", " ", _STUCK.sub(" ", _STATUS_NUMBER.sub("", text))).strip()


def plain(name: str) -> str:
    """Reduce a key or a code to its letters and digits, lower case."""
    return re.sub(r"[^a-z0-9]+", "", name.lower())


def _embedded_json(text: str) -> tuple[Json, str, str] | None:
    """Decode the first JSON document in a text with a "{"; return it and the text around it."""
    start = text.index("{")
    start = start - 1 if text[start - 1 : start] == "[" else start
    end = text.rfind("]" if text[start] == "[" else "}") + 1
    for candidate in (text[start:], text[start:end]):
        if (document := _json(candidate)) is not None:
            return document, text[:start], text[end:]
    return None


def _json(text: str) -> Json:
    """Decode JSON; None if it is not valid."""
    try:
        document: Json = msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
    return document
