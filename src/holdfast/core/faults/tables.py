"""The tables of the classifier: which words mean which kind of fault.

Order is meaning. A row is tried only if no row before it fitted, so what a sentence is *not* about (a quota, a rate, a
setting) stands before what it might be about. A pattern is a subject and a complaint within one sentence rather than
a whole sentence, because providers reword. Every gap is bounded, so no input makes matching slow.
"""

import msgspec

from holdfast.core.faults import words as w
from holdfast.core.faults.kinds import FaultKind as K
from holdfast.core.faults.kinds import Unit
from holdfast.core.faults.words import any_of, near
from holdfast.core.patterns import Pattern

_Statuses = frozenset[int | None]


class Rule(msgspec.Struct, frozen=True):
    """One row: the kind, where `pattern` is found and `unless` is not. `statuses` None: any status."""

    kind: K
    pattern: Pattern
    unless: Pattern | None = None
    statuses: _Statuses | None = None
    second: K | None = None
    # What the numbers count. None: the sentence has no numbers worth reading, or says itself what they count.
    unit: Unit | None = None
    has_numbers: bool = False


def _rule(  # noqa: PLR0913 - a row of a table, its columns given by name
    kind: K,
    pattern: str,
    *,
    unless: str | None = None,
    statuses: _Statuses | None = None,
    second: K | None = None,
    unit: Unit | None = None,
    has_numbers: bool = False,
) -> Rule:
    return Rule(
        kind=kind,
        pattern=Pattern(pattern),
        unless=None if unless is None else Pattern(unless),
        statuses=statuses,
        second=second,
        unit=unit,
        has_numbers=has_numbers or unit is not None,
    )


_ANYTHING = ""
_NO_RESPONSE: _Statuses = frozenset({None, 200})
# Statuses under which a call may have broken rather than been refused.
_BROKEN: _Statuses = frozenset({None, 200, 408, 409, 424, 425, 499, *range(500, 600)})
# Statuses under which a request was refused for what it is; some servers say so with a 5xx.
_REFUSED: _Statuses = frozenset({None, 200, 400, 403, 404, 406, 409, 413, 415, 422, 500, 501, 502})

# What a sentence is about though it also speaks of tokens, limits or context.
EXCLUSIONS: tuple[Rule, ...] = (
    # "Resource exhausted: message larger than max" carries a rate limit's code.
    _rule(K.WIRE_OVERFLOW, r"message (?:is )?(?:larger than max|too (?:big|large))", unit=Unit.BYTES),
    _rule(K.RATE_LIMIT, w.PER_TIME, unless=r"per[ -]?(?:month|week)|usage (?:limit|quota)", unit=Unit.TOKENS),
    _rule(
        K.QUOTA,
        any_of(
            r"insufficient[ _](?:balance|quota|credit|fund|account)|more credits|afford|pre-consumed",
            r"(?:balance|credits?|funds?)(?: is| are| has been| have been)? "
            r"(?:too low|exhausted|insufficient|not enough|depleted)",
            r"used up|allocation of|no (?:\w+ )?credits|out of (?:credits?|funds)|add (?:more )?(?:credits|funds)",
            r"(?:usage|spend\w*|billing|budget|month(?:ly)?|week(?:ly)?|plan|subscription|free.tier|credits?|inference)"
            r"[\w -/]{0,20}(?:limits?|cap|quota|allowance)",
            r"(?:daily|monthly|weekly)[\w -]{0,20}(?:limits?|cap|quota|allowance)|per[ -](?:month|week)|/ ?month",
            near(
                r"(?:reached|exceeded|exhausted|used) (?:your|the|its|all)\b", r"(?:credits|allowance|quota(?! metric))"
            ),
            r"quota (?:has been |is |was )?(?:exceeded|exhausted|reached|used|not enough|insufficient)",
            r"(?:exceeded|check) your (?:current |\w+ )?quota|regain access|limit exhausted|extra usage",
            r"payment required|overdue|arrears|recharge|top[- ]up|billing details|upgrade your plan",
            r"(?:the|your) free (?:tier|plan|trial)(?![a-z])|free tier\b[^.]{0,40}exhausted",
            r"(?:exceeded|over)\b[^.]{0,30}budget|budget (?:has been |was |is )?(?:exceeded|reached|exhausted)",
            r"max budget|not (?:been )?purchased|exhausted your|quota will reset",
            r"余额|欠费|额度|配额|充值|套餐|用量|使用上限|限额",
        ),
        unless=r"rate.?limit(?!s?_error)|e\.g\. check quota",
        second=K.RATE_LIMIT,
        unit=Unit.TOKENS,
    ),
    _rule(
        K.RATE_LIMIT,
        any_of(
            r"rate.?limit|throttl|slow down|please wait|request burst|requests? (?:limit|frequency)",
            r"too many (?:requests|concurrent|connections)|concurrenc\w+ limit|concurrent (?:requests|connections)",
            r"请求.{0,6}(?:频繁|过多|过快)|频率|限流|速率|并发",
        ),
        unit=Unit.TOKENS,
    ),
    _rule(K.OVERLOADED, w.BUSY, statuses=frozenset({429}), second=K.RATE_LIMIT),
    _rule(
        K.RATE_LIMIT,
        _ANYTHING,
        statuses=frozenset({429}),
        unless=any_of(near(w.WINDOW, w.TOO_LONG), r"prompt is too long", r"capacity"),
        unit=Unit.TOKENS,
    ),
    _rule(K.QUOTA, _ANYTHING, statuses=frozenset({402}), unit=Unit.TOKENS),
    _rule(
        K.CONTENT_POLICY,
        any_of(
            r"content[ _](?:filter|policy|management|moderation|safety)|moderation|usage polic",
            r"safety (?:system|filter|settings|reasons|polic)|(?<!case[ -])sensitive|high risk|harmful|inappropriate",
            near(
                r"(?:flagged|blocked|rejected|filtered|refused|violat\w*|prohibited)",
                r"(?:polic|safety|filter|risk|harm|content|guideline|guardrail)",
            ),
            r"(?:content|output|input|prompt|response)\b[^.]{0,60}(?:is|was|been) (?:blocked|flagged|filtered)",
            r"(?:prompt|blocked) (?:output|input|blocked)|recitation|risk detected",
            r"敏感|违规|安全审核|不合规|内容审核|不安全|风险",
        ),
        unless=r"connection|location",
    ),
    _rule(
        K.MODEL_NOT_FOUND,
        any_of(
            r"models?(?![a-z])(?:[^.]|\.(?! )){0,80}?"
            + any_of(
                r"not found|does ?no?t exist|not exist|is unknown|(?:identifier|name|id) (?:is )?(?:invalid|not valid)",
                r"is ?no?t (?:available|supported|recognized|a valid|served)",
                r"been (?:deprecated|decommissioned|retired|removed|shut)|no longer|discontinued|end of (?:its )?life",
            ),
            r"models?/\S{1,80} is not found|not a valid model",
            r"(?:unknown|no such|unrecognized|invalid|unsupported) model(?![a-z]| (?:output|input|context))",
            r"no (?:endpoints|providers|channels?|available channels?)\b[^.]{0,30} for (?:model|group|the)",
            r"no models? loaded|unable to access model|deployment\b[^.]{0,60}(?:does not exist|not found)",
            r"模型.{0,20}(?:不存在|下线|未找到|不可用)|无可用渠道",
        ),
        unless=any_of(r"support (?:image|vision|tool|function)", r"thinking|reasoning", w.WINDOW, w.MEDIA),
    ),
    _rule(
        K.AUTH,
        any_of(
            r"(?:invalid|incorrect|missing|bad|no|expired|revoked|malformed|wrong|unauthori[sz]ed|not valid|without"
            r"|provide an?)[^.]{0,25}?"
            r"(?:api.?key|credentials?|authentication|authorization|access.key|bearer|secret|auth token|api token)",
            r"(?:api.?key|credentials?|access token|auth token|security token)[^.]{0,50}?"
            r"(?:invalid|incorrect|missing|expired|revoked|disabled|required|does not|not (?:valid|found|allowed))",
            r"unauthori[sz]ed|unauthenticated|authenticat\w+ (?:failed|required|error|fails)|permission|forbidden",
            r"access (?:is )?denied|(?:not|only) authorized|not been used in project|signature we calculated",
            r"(?:account|organization|project|user)\b[^.]{0,20}(?:deactivated|disabled|suspended|banned|restricted)",
            r"(?:country|region|location|territory)[^.]{0,30}(?:not supported|unsupported|not available)",
            r"无效的?(?:令牌|token|api|key)|令牌|鉴权|未授权|认证失败|身份验证|无权",
        ),
    ),
    _rule(
        K.AUTH,
        r"(?:invalid|bad|missing|expired) token|token (?:has )?expired",
        statuses=frozenset({None, 400, 401, 403}),
    ),
    _rule(K.AUTH, _ANYTHING, statuses=frozenset({401})),
    _rule(
        K.EMPTY_RESPONSE,
        any_of(
            r"empty response|response (?:was|is) empty|empty (?:completion|content|output)",
            r"returned (?:no|an empty) (?:content|response|output|choices|message)",
            r"(?:produced|generated) no (?:content|output|text|response)",
            r"no (?:content|choices|candidates|output) (?:or|in|were|was|returned|received|generated)",
        ),
        statuses=_BROKEN,
    ),
)

MEDIA: tuple[Rule, ...] = (
    _rule(
        K.MEDIA_OVERFLOW,
        any_of(
            near(w.MEDIA, w.MEDIA_COMPLAINT),
            near(w.MEDIA_COMPLAINT, w.MEDIA),
            w.FILE
            + r"[^.]{0,40}(?:exceed\w*|too (?:large|big|many|long)|(?:size|page) limit|unsupported|pars\w+|过大|超过)",
            r"(?:too many|unsupported|invalid|corrupt\w*|maximum) (?:uploaded )?" + w.FILE,
        ),
        unless=any_of(
            w.SCHEMA,
            w.WINDOW,
            w.THINKING,
            r"tokens? of (?:image|video|audio)|\d tokens|(?:max|input|prompt|total|message) tokens",
            r"documents? (?:must|should) be at most|number of documents|response.?mime|response_format",
        ),
        statuses=_REFUSED,
        has_numbers=True,
    ),
)

_ABOUT_THE_WINDOW = any_of(
    near(w.WINDOW, any_of(w.TOO_LONG, r"is \d")),
    near(w.TOO_LONG, w.WINDOW),
    # An "InternalError.Algo.InvalidParameter" is about the parameter.
    r"timed? ?out|internal(?!\w*\.\w+\.invalid)",
)

PARAMETERS: tuple[Rule, ...] = (
    # Thinking that cannot be replayed: repairing the history is the second cure.
    _rule(
        K.BAD_REQUEST_REASONING,
        any_of(
            w.THINKING + r".{0,160}" + w.REPLAYED,
            w.REPLAYED + r".{0,160}" + w.THINKING,
            r"(?<![a-z])rs_\w+.{0,60}not found",
        ),
        unless=_ABOUT_THE_WINDOW,
        statuses=_REFUSED,
        second=K.TOOL_PAIRING,
    ),
    _rule(K.BAD_REQUEST_REASONING, w.THINKING, unless=_ABOUT_THE_WINDOW, statuses=_REFUSED),
)

PAIRING: tuple[Rule, ...] = (
    _rule(
        K.TOOL_PAIRING,
        any_of(near(w.TOOL_PARTS, w.UNPAIRED), near(w.UNPAIRED, w.TOOL_PARTS)),
        unless=any_of(w.SCHEMA, w.WINDOW, r"too long|pattern|regular expression|tool_?choice|tool choice|must be a-z"),
        statuses=_REFUSED,
    ),
    _rule(K.TOOL_PAIRING, w.ORDER, statuses=_REFUSED),
)

# Settings of a request that are wrong by themselves: a smaller conversation would be refused as well.
SETTINGS: tuple[Rule, ...] = (
    _rule(K.BAD_REQUEST, r"cache_control|cachepoint", unit=Unit.COUNT, statuses=_REFUSED),
    # The whole body of the request rather than a setting in it.
    _rule(
        K.WIRE_OVERFLOW,
        r"at body failed to satisfy constraint:? member must have length less",
        unit=Unit.BYTES,
        statuses=_REFUSED,
    ),
    _rule(
        K.BAD_REQUEST,
        r"failed to satisfy constraint",
        unless=r"at (?:messages|tools|system)(?: |\[)",
        has_numbers=True,
        statuses=_REFUSED,
    ),
    _rule(
        K.BAD_REQUEST,
        r"out of (?:\w+ )?range [\[(]",
        unless=r"input|prompt|context",
        has_numbers=True,
        statuses=_REFUSED,
    ),
    _rule(K.BAD_REQUEST, w.SCHEMA, unless=w.WINDOW, statuses=_REFUSED),
    _rule(
        K.BAD_REQUEST,
        any_of(
            r"(?:unsupported|unknown|unrecognized|unexpected|invalid|extra)(?: request)? "
            r"(?:parameter|argument|field|property|keyword|option|inputs are)",
            r"in context=|not permitted|too many states|streaming is (?:required|strongly)",
        ),
        unless=any_of(rf"{w.TOO_LONG}(?<!too many)", r"range of"),
        statuses=_REFUSED,
    ),
    # An output cap. Where the sentence also speaks of the prompt or the window it is about both together.
    _rule(
        K.BAD_REQUEST,
        w.OUTPUT_CAP,
        unless=any_of(w.WINDOW, r"prompt|inputs? (?:tokens?|length|and (?!try)|plus|\+)|messages|total|got -\d"),
        unit=Unit.TOKENS,
        statuses=_REFUSED,
    ),
)

OVERFLOW: tuple[Rule, ...] = (
    _rule(
        K.TRANSIENT,
        r"(?:system|gpu|cuda|video|available|out of|host)\W{1,2}memory|memory (?:error|required)|显存|内存",
        statuses=_BROKEN,
    ),
    _rule(
        K.TOKEN_OVERFLOW,
        r"truncat\w+ (?:the )?(?:input|prompt)",
        second=K.EMPTY_RESPONSE,
        unit=Unit.TOKENS,
        statuses=_NO_RESPONSE,
    ),
    # Lengths in characters: of a text they are the request's size, of a name or an id they are a wrong setting.
    _rule(
        K.WIRE_OVERFLOW,
        any_of(
            r"(?:string|input|text|prompt|content|message|body|query)[^.]{0,60}(?:too long|exceed\w*|at most|max\w*)"
            r"[^.]{0,60}" + w.CHARACTERS,
            r"string (?:is )?too long|string (?:value )?length[^.]{0,30}exceed\w*|maxlength|max length: |个?字符",
            w.CHARACTERS + r"[^.]{0,40}(?:exceed\w*|limit|max\w*|too)",
            r"(?:exceed\w*|limit|max\w*|at most|longer than)[^.]{0,40}\d[ \w]{0,4}" + w.CHARACTERS,
        ),
        unless=r"token|context",
        unit=Unit.CHARS,
    ),
    # Lengths of lists.
    _rule(
        K.WIRE_OVERFLOW,
        any_of(
            near(
                w.LISTS,
                any_of(
                    r"array too long|maximum number of|too many items",
                    r"at most \d+ ?(?:items|elements|entries|messages|tools)?(?! ?tokens)",
                ),
            ),
            r"(?:too many|number of|maximum of \d+|at most \d+) "
            r"(?:messages|tools|texts|functions|items|elements|documents|inputs)(?![a-z])",
            r"too_long|array (?:is )?too long|constraint: member must have length less than or equal",
        ),
        unless=any_of(w.TOKENS, r"bytes", w.SIZE),
        unit=Unit.COUNT,
        statuses=_REFUSED,
    ),
    # Tokens, said outright.
    _rule(
        K.TOKEN_OVERFLOW,
        any_of(
            near(
                w.TOKENS,
                any_of(w.TOO_LONG, r"limit|reduce|must be|should be|at most|leaves|resulted|contains|supports|>"),
            ),
            near(w.TOO_LONG, w.TOKENS),
            w.TOKENS + r".{0,60}?(?:limit|max\w*)\W{0,3}\d",
            r"(?:input|prompt|context|total|max\w*) tokens? limit (?:is|of)? ?\d",
            near(r"reduce", any_of(w.TOKENS, r"length of")),
            w.WINDOW + r" (?:is|of|\()",
            r"range of input length|reduce your prompt|too many tokens|max_tokens must be at least 1, got -",
            r"max\w*(?: (?:of|size|length|is))*:? \d[\d,.]*k? tokens",
            r"context (?:is )?too (?:big|long|large)|context[a-z ]{0,20} full(?![a-z])",
            r"tokens?.{0,12}(?:超|上限|限制)|(?:超过|超出|超).{0,16}(?:token|长度|上下文)",
            r"(?:上下文|输入|长度|prompt).{0,12}(?:超|过长|太长)|超长",
        ),
        unless=r"context (?:deadline|cancel)|bytes (?:>|exceed)|positive integer|be at least \d+ tokens? long",
        unit=Unit.TOKENS,
    ),
    # Bytes on the wire.
    _rule(
        K.WIRE_OVERFLOW,
        any_of(
            w.CARRIER + r"[ -](?:size |length |content |data |is )*(?:is )?(?:too (?:large|big)|exceed\w*|larger than)",
            near(
                r"(?:entity|payload|request|body|upload|message|post)\b",
                r"(?:exceed\w*|larger|smaller|limit|max\w*|over)",
                any_of(r"size|bytes|length|limit", w.SIZE),
            ),
            near(r"(?:entity|payload|request|body|upload)\b", w.SIZE, r"(?:max|limit|exceed|allow)"),
            r"(?:max(?:imum)?|exceed\w*) (?:allowed |the )?(?:request|body|payload|upload|message)"
            r"(?: body| content)?[ _](?:size|length)",
            r"exceed\w*[^.]{0,30}(?:limit|max)[^.]{0,20}bytes",
            r"length limit exceeded|request too (?:large|big)|max(?:imum)? size is|too_large|content-length",
            r"请求体|请求.{0,6}过大",
        ),
        unless=r"memory|header",
        unit=Unit.BYTES,
    ),
    # A length without a unit. Models count tokens; a server that refuses with 413 counts bytes.
    _rule(
        K.TOKEN_OVERFLOW,
        any_of(
            near(
                r"(?<![a-z])(?:prompt|inputs?|request|messages?|conversation|sequence|history|query|text|length)(?![a-z])",
                any_of(w.TOO_LONG, r"<=|≤"),
            ),
            near(r"(?:exceed\w*|longer than|over)", r"(?:max(?:imum)? length|dimension size)"),
            r"length of (?:all |the )?messages",
        ),
        unless=any_of(r"bytes|header|tim(?:e|ed)[ -]?out|number of|penalty|temperature|top_[pk]|nesting", w.SIZE),
        statuses=frozenset({None, 200, 400, 404, 422, 429, 500, 502, 503}),
        unit=Unit.TOKENS,
    ),
)

# A validator's sentence about something else than size. It keeps a large request from being suspected for its size.
VALIDATION: tuple[Rule, ...] = (
    _rule(
        K.BAD_REQUEST,
        any_of(
            r"must (?:be|have|not|match|contain|start|end)|should be|expected|positive|integer|between",
            r"(?:is|are|field) required|missing|invalid (?:value|type|json)|could not parse|cannot be|failed to parse",
            r"unsupported|not (?:supported|allowed|permitted|recognized)",
        ),
        statuses=frozenset({400, 406, 409, 422}),
    ),
)

# The call broke, or brought nothing.
BREAKS: tuple[Rule, ...] = (
    _rule(
        K.EMPTY_RESPONSE,
        r"finish_?reason\W{0,3}(?:length|max_tokens)",
        second=K.TOKEN_OVERFLOW,
        statuses=_NO_RESPONSE,
    ),
    _rule(
        K.STREAM_STALL,
        any_of(
            r"idle time-?out|inactivity|stall|awaiting headers",
            r"(?:sse|stream\w*|chunks?|read|first (?:token|byte|chunk)|headers?|body|events?|data)\b"
            r"[^.]{0,40}tim(?:ed|e)[ -]?out",
            r"tim(?:ed|e)[ -]?out\b[^.]{0,40}(?:sse|stream|chunk|token|byte|header|event|data|body)",
            r"no (?:first )?(?:tokens?|bytes?|data|chunks?|events?|content|output|response)\b"
            r"[^.]{0,30}(?:within|for|in|after) \d",
            r"(?:stream|response|connection|socket)\b[^.]{0,20}"
            r"(?:closed|ended|disconnected|terminated|finished) (?:before|without|prematurely)",
            r"before (?:response\.completed|message_stop|completion)",
            r"without (?:a |any )?(?:finish|terminal|completion|message_stop|\[done\])",
        ),
        unless=r"complete message body|reset|internal_error|decoding|network|transport|error (?:sending|occurred)",
        statuses=_NO_RESPONSE,
        second=K.TRANSIENT,
    ),
    _rule(K.OVERLOADED, w.BUSY, unless=r"no healthy upstream", statuses=_BROKEN, second=K.TRANSIENT),
    _rule(
        K.TRANSIENT,
        any_of(
            r"connection|econn|etimedout|epipe|enotfound|eai_again|socket|fetch failed|network|broken pipe",
            r"peer closed|(?<![a-z])(?:eof|tls|ssl)(?![a-z])|dns|getaddrinfo|resolution|certificate|handshake|goaway",
            r"internal (?:server )?error|internal_error|bad gateway|gateway time-?out|upstream|unexpected error",
            r"an error occurred|timed? ?-?out|deadline|temporar\w+|incomplete|premature|reset|terminated",
            r"unexpected token|valid json|protocol error|disconnect\w*|cancel+ed|abort\w*",
            r"超时|网络|内部错误|服务器错误|稍后",
        ),
        statuses=_BROKEN,
    ),
)

RULES: tuple[Rule, ...] = (*EXCLUSIONS, *MEDIA, *PARAMETERS, *PAIRING, *SETTINGS, *OVERFLOW, *VALIDATION, *BREAKS)
