"""Meaning of error codes and HTTP statuses."""

from collections.abc import Iterable

from holdfast.core.text.patterns import Pattern
from holdfast.types.faults import FaultKind as K

# --- Codes and statuses ---

_Row = tuple[Pattern, K]


def _row(kind: K, *codes: str) -> _Row:
    return Pattern("|".join(codes)), kind


# Codes with the same meaning for all providers.
SPECIFIC: tuple[_Row, ...] = (
    _row(K.QUOTA, "(?:daily|weekly|monthly)(?:token|request|usage|spend|message)*s?(?:limit|quota|cap)"),
    _row(
        K.TOKEN_OVERFLOW,
        "contextlength|contextwindow|contextsize|contextlimit|outofcontext|contextoverflow|contexttoo|maxcontext",
        "prompttoolong|^toomanytokens$|maxprompttokens|tokens?limit(?:exceeded|reached)|^1261$",
    ),
    _row(K.WIRE_OVERFLOW, "payloadtoolarge|bodytoolarge|entitytoolarge|arrayabovemax|characterstoo(?:long|many)"),
    _row(
        K.MEDIA_OVERFLOW,
        "^invalid(?:image|file|video|audio|base64)|(?:bad|corrupt(?:ed)?|encrypted|broken)(?:image|pdf|video|audio|document)",
        "(?:image|video|audio|file)(?:parse|format|url|too|size|content|download|notfound|decode)",
        "(?:image|video|audio|pdf|document)(?:unsupported|unreadable|invalid|corrupt|source|missing|limit|count|type|dimension"
        "|resolution|load|fetch|encrypted|protected)",
        "multimodal|unsupportedimage|unsupportedmedia",
    ),
    _row(K.BAD_REQUEST_REASONING, "encryptedcontent|thoughtsignature"),
    _row(
        K.CONTENT_POLICY,
        "contentfilter|contentpolicy|policyviolation|contentviolation|contentblocked|sensitive|moderation|datainspectionfailed",
        "responsibleai|cyberpolicy|safety|prohibitedcontent|blocklist|recitation|riskdetect|unsafe",
    ),
    _row(K.RATE_LIMIT, "^throttl"),
    _row(
        K.QUOTA,
        "insufficient(?:user)?(?:quota|balance|credit|fund)|exceededcurrentquota|quotaexhausted|^quotaexceeded$",
        "servicequotaexceeded|usagelimit|spendlimit|creditlimit|outofcredit|setlimitexceeded|freetieronly",
        "billing|budgetexceeded|overdue|arrear|paymentrequired|accountsuspended|^1113$|^1311$",
    ),
    _row(
        K.OVERLOADED,
        "overloaded|modelnotready|modelloading|nocapacity|enginebusy|serverbusy|queueexceeded|kvspace|^1305$",
    ),
    _row(
        K.MODEL_NOT_FOUND,
        "modelnot(?:found|supported|available|exist|allowed|enabled)|model(?:decommissioned|deprecated)|invalidmodel|modeloffline",
        "deploymentnotfound|invalidendpoint|^1211$",
    ),
    _row(K.TOOL_PAIRING, "previousresponsenotfound"),
)

# Codes that gateways also use as wrapping: they count only if no sentence is more specific.
GENERAL: tuple[_Row, ...] = (
    # Too large for the server or for the model: the sentence shows which.
    _row(K.WIRE_OVERFLOW, "requesttoolarge"),
    _row(
        K.RATE_LIMIT,
        "ratelimit|toomanyrequests|throttl|resourceexhausted|requestlimit|concurren|burst|qps|^1302$",
    ),
    _row(K.OVERLOADED, "unavailable|capacity|busy|notready"),
    _row(K.QUOTA, "quota|allocation|balance|credit"),
    # Without a sentence that names the limit.
    _row(K.RATE_LIMIT, "limit(?:exceeded|reached)$"),
    _row(
        K.AUTH,
        "authentic|unauthori|forbidden|permission|accessdenied|apikey|unrecognizedclient|invalidtoken|expiredtoken",
        "signaturedoesnotmatch|invalidkey|accountdeactivated|noauth|autherror|authfail|refreshtoken|verificationrequired",
    ),
    _row(K.MODEL_NOT_FOUND, "notfound"),
    _row(K.EMPTY_RESPONSE, "nocontent|nooutput|empty(?:response|output|content|completion|stream)"),
    _row(
        K.TRANSIENT,
        "servererror|internal|^apierror$|timeout|deadline|connectionerror|modelerror|modelstreamerror|upstreamerror",
        "badgateway",
    ),
)

# Codes of rejected requests. Providers use them for overflow as well, so they only show that a call without a status
# did not fail in transit.
REFUSALS: tuple[_Row, ...] = (
    _row(K.BAD_REQUEST, "invalidrequest|invalidargument|badrequest|invalidparam|unknownparameter|validation"),
)

# Codes whose meaning depends on the provider.
OF_PROVIDER: dict[tuple[str, str], K] = {
    # DashScope throttles with the code that OpenAI uses for an unpaid bill.
    ("dashscope", "insufficientquota"): K.RATE_LIMIT,
}
# Providers that reject a prompt above the window with an empty 400 or 413.
SILENT_ON_OVERFLOW = frozenset({"cerebras", "mistral"})

# Starts of the HTTP status classes. 200 only shows that a response began.
OK, REFUSED_FROM, BROKEN_FROM = 200, 400, 500

BY_STATUS: dict[int, K] = {
    400: K.BAD_REQUEST,
    401: K.AUTH,
    402: K.QUOTA,
    403: K.AUTH,
    404: K.MODEL_NOT_FOUND,
    407: K.AUTH,
    408: K.TRANSIENT,
    409: K.TRANSIENT,
    410: K.MODEL_NOT_FOUND,
    413: K.WIRE_OVERFLOW,
    414: K.WIRE_OVERFLOW,
    415: K.MEDIA_OVERFLOW,
    # A historical form of 429.
    420: K.RATE_LIMIT,
    # A dependency of the server failed, not the request.
    424: K.TRANSIENT,
    425: K.TRANSIENT,
    429: K.RATE_LIMIT,
    451: K.CONTENT_POLICY,
    499: K.TRANSIENT,
    503: K.OVERLOADED,
    529: K.OVERLOADED,
}


def kind_of(codes: Iterable[str], rows: tuple[_Row, ...]) -> K | None:
    """Return the kind of the first row that matches any code, in the order of the table."""
    found = tuple(codes)
    return next((kind for pattern, kind in rows if any(pattern.search(code) for code in found)), None)
