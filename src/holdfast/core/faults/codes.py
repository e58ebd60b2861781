"""Meaning of error codes and HTTP statuses."""

from collections.abc import Iterable

from holdfast.core.text.patterns import Pattern
from holdfast.types.faults import FaultKind as K

_Rows = tuple[tuple[Pattern, K], ...]


def _rows(table: str) -> _Rows:
    """Return the rows of a table: a kind and patterns of its codes on each line. The first row that matches counts."""
    lines = (line.split() for line in table.replace("\n ", " ").strip().splitlines())
    return tuple((Pattern("|".join(patterns)), K(kind)) for kind, *patterns in lines)


# Codes with the same meaning for all providers. Codes are lower case, letters and digits only.
SPECIFIC = _rows("""
quota (daily|weekly|monthly)(token|request|usage|spend|message)*s?(limit|quota|cap)
token_overflow context(length|window|size|limit|overflow|too) outofcontext maxcontext prompttoolong ^toomanytokens$
 maxprompttokens tokens?limit(exceeded|reached) ^1261$
wire_overflow (payload|body|entity)toolarge arrayabovemax characterstoo(long|many)
media_overflow ^invalid(image|file|video|audio|base64) (bad|corrupt(ed)?|broken)(image|pdf|video|audio|document)
 (image|video|audio|file)(parse|format|url|too|size|content|download|notfound|decode)
 (image|video|audio|pdf|document)(unsupported|unreadable|invalid|corrupt|source|missing|limit|count|type|dimension)
 (image|pdf)(resolution|load|fetch|encrypted|protected) multimodal unsupported(image|media)
bad_request_reasoning encryptedcontent thoughtsignature
content_policy content(filter|policy|violation|blocked) policyviolation sensitive moderation datainspectionfailed
 responsibleai cyberpolicy safety prohibitedcontent blocklist recitation riskdetect unsafe
rate_limit ^throttl
quota insufficient(user)?(quota|balance|credit|fund) exceededcurrentquota quotaexhausted ^quotaexceeded$
 servicequotaexceeded (usage|spend|credit)limit outofcredit setlimitexceeded freetieronly billing budgetexceeded
 overdue arrear paymentrequired accountsuspended ^1113$ ^1311$
overloaded overloaded model(notready|loading) nocapacity (engine|server)busy queueexceeded kvspace ^1305$
model_not_found modelnot(found|supported|available|exist|allowed|enabled) model(decommissioned|deprecated|offline)
 invalid(model|endpoint) deploymentnotfound ^1211$
tool_pairing previousresponsenotfound
""")

# Codes that gateways also use as wrapping: they vote, and decide if there is no sentence.
GENERAL = _rows("""
wire_overflow requesttoolarge
rate_limit ratelimit toomanyrequests throttl resourceexhausted requestlimit concurren burst qps ^1302$
overloaded unavailable capacity busy notready
quota quota allocation balance credit
rate_limit limit(exceeded|reached)$
auth authentic unauthori forbidden permission accessdenied apikey unrecognizedclient (invalid|expired|refresh)token
 signaturedoesnotmatch invalidkey accountdeactivated noauth auth(error|fail) verificationrequired
model_not_found notfound
empty_response nocontent nooutput empty(response|output|content|completion|stream)
transient servererror internal ^apierror$ timeout deadline connectionerror model(stream)?error upstreamerror badgateway
""")

# Codes whose meaning depends on the provider: DashScope throttles with the code that OpenAI uses for an unpaid bill.
OF_PROVIDER: dict[tuple[str, str], K] = {("dashscope", "insufficientquota"): K.RATE_LIMIT}
# Providers that reject a prompt above the window with an empty 400 or 413.
SILENT_ON_OVERFLOW = frozenset({"cerebras", "mistral"})

# Starts of the HTTP status classes. 200 only shows that a response began.
OK, REFUSED_FROM, BROKEN_FROM = 200, 400, 500

# 420 is a historical form of 429; with 424 a dependency of the server failed, not the request.
BY_STATUS: dict[int, K] = {
    **dict.fromkeys((401, 403, 407), K.AUTH),
    **dict.fromkeys((404, 410), K.MODEL_NOT_FOUND),
    **dict.fromkeys((413, 414), K.WIRE_OVERFLOW),
    **dict.fromkeys((420, 429), K.RATE_LIMIT),
    **dict.fromkeys((408, 409, 424, 425, 499), K.TRANSIENT),
    **dict.fromkeys((503, 529), K.OVERLOADED),
} | {400: K.BAD_REQUEST, 402: K.QUOTA, 415: K.MEDIA_OVERFLOW, 451: K.CONTENT_POLICY}


def kind_of(codes: Iterable[str], rows: _Rows) -> K | None:
    """Return the kind of the first row that matches any code, in the order of the table."""
    found = tuple(codes)
    return next((kind for pattern, kind in rows if any(pattern.search(code) for code in found)), None)
