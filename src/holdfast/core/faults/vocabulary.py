"""Vocabulary of error messages: providers' words for the window, media, reasoning, tools, and for complaints.

Each name is an alternation for use in a pattern. Texts are lower case, without quotes and URLs.
"""

from holdfast.core.faults.codes import ANYTHING, BROKEN, Rule, rule
from holdfast.types.faults import FaultKind as K
from holdfast.types.faults import Unit


def any_of(*phrases: str) -> str:
    """Return a pattern that matches any of the phrases."""
    return "(?:" + "|".join(phrases) + ")"


def near(*parts: str) -> str:
    """Return a pattern for parts in this order within one sentence."""
    return GAP.join(parts)


# Up to sixty characters of one sentence; a dot inside a path or a number does not end it.
GAP = r"(?:[^.]|\.(?! )){0,60}?"
# A number with a unit of bytes: "31.5MB".
SIZE = r"\d ?[kmg]i?b(?![a-z])"

# The context window in tokens.
WINDOW = any_of(
    r"context[ _-]?(?:length|window|size|limit)|window size",
    r"max(?:imum)? context|contextwindow|n_ctx|max_model_len|max_seq_len|max_total_tokens",
    # Only with a size; otherwise it is a variable name.
    r"(?<![a-z_])ctx(?=[ =:(]{1,2}(?:of |is |size )?\(?\d)",
    r"max(?:imum)? (?:model |prompt |input |sequence |total |allowed )+(?:length|tokens)",
    r"(?<!stop )sequence (?:length|len)(?![a-z])",
    r"session (?:max(?:imum)? )?(?:length|len)(?![a-z])|max_(?:input|prompt|sequence|model)_(?:length|len|tokens)",
    r"上下文",
)
# A single token is a key, a stop word or a parser's complaint; only the plural, or a count, has a length.
TOKENS = any_of(
    WINDOW,
    r"(?<![a-z])(?:input|prompt|total|completion|output)?_?tokens(?![a-z])",
    r"(?<![a-z])token[ _](?:count|length|limit|number|size|window|budget)",
)
TOO_LONG = any_of(
    r"too (?:long|large|big|many)",
    r"exceed\w*|surpass\w*|overflow|beyond|above|over the",
    r"(?:longer|larger|bigger|greater|more|shorter) than",
    r"out ?of ?range|outside (?:of )?(?:the |its )?(?:\w+ )?range|(?:not|doesnt|wont|cant|cannot) fit",
    r"must (?:be|have) (?:<=?|less|fewer|smaller|at most|no more)",
)

PER_TIME = any_of(
    r"per[ _-]?(?:minute|min(?![a-z])|second|sec(?![a-z])|hour)",
    r"perminute|persecond|/ ?min(?![a-z])",
    r"(?<![a-z])(?:[tr]p[mds]|qp[sm])(?![a-z])",
)

MEDIA = any_of(
    r"(?<![a-z_])(?:images?|pictures?|photos?|screenshots?|pdfs?|documents?|videos?|audios?|clips?|recordings?|media)(?![a-z])",
    r"(?<![a-z_])vision(?! api|[a-z])",
    r"(?<![a-z_])(?:multi-?modal|image_url|input_image|attachments?|base64|data-?uris?|mime)(?![a-z])",
    # Formats, but not a file extension.
    r"(?<![a-z_./])(?:gifs?|jpe?gs?|pngs?|webp|svgs?|heic|mp[34]|wav|flac|webm)(?![a-z])",
    r"number of pages|too many pages|(?<![a-z])page (?:count|size|limit)|(?<![a-z])pixels?(?![a-z])",
    # In the name of a setting.
    r"(?<![a-z])(?:max|num|n|too_many)_(?:[a-z]+_)?(?:images?|videos?|audios?)(?![a-z])",
    r"图片|图像|张图|视频|音频|(?<![a-z])prompt_?image",
)
FILE = r"(?:(?<![a-z])files?(?![a-z])|文件)"
MEDIA_COMPLAINT = any_of(
    r"exceed\w*|beyond|larger|smaller|longer|too (?:large|big|many|much|long|small|short)|password|protected|encrypted",
    r"max(?:imum)?(?![a-z])|at most|up to|limit|restrictions?|should be|must be|fewer|no more than|reduce",
    r"can only|only one|support\w* only|\d ?> ?\d|allowed\W{0,2}\d|(?<![a-z])(?:replace|resize|compress|re-?upload) ",
    r"dimensions?|resolution|pixels|media.type|formats?",
    r"(?:could|can|was) ?not|cannot|unable|fail\w*|does not|doesnt|(?:is|are) not|not (?:available|allowed|enabled)",
    r"unsupported|(?:not|only) support\w*|only (?:\w+ ){1,4}(?:supported|allowed|accepted)",
    r"no endpoints|unknown variant|disabled|rejected|requires? (?:a |an )?(?:\w+ )?model",
    r"invalid|corrupt\w*|illegal|broken|malformed|decod\w*|appears? to be|no pages|empty|truncated|timed? ?out",
    r"不支持|过大|过多|超过|最多|无效|失败",
)

THINKING = any_of(
    # Not in the name of a model or a vendor.
    r"(?<![-/\w])(?:redacted_)?thinking(?!-|\w*/)|(?<![-/\w])reasoning(?!-|\w*/)",
    r"thought[_ ]?signature|encrypted[_ ]content|(?<![a-z])effort(?![a-z])",
    r"reasoning_\w+|reasoningeffort|enable_thinking|thinking_\w+|budget_tokens",
    r"思考",
)
# Invalid reasoning in the history, rather than a reasoning parameter.
REPLAYED = any_of(
    r"signature|encrypted|redacted|decrypt|passed back|rs_",
    r"blocks?(?![a-z])|missing|without|required .{0,20}item|assistant",
)

TOOL_PARTS = any_of(
    r"tool_use|tool_result|tool_calls?(?!_parser)|tool_call_ids?|tooluse|toolresult",
    r"tool results?|tool calls?|tool messages?|tool responses?|tool outputs?|role:? ?tool|tool role",
    r"function[ _]?calls?(?![a-z])|function[ _]?responses?|function_call_output|call_id",
)
UNPAIRED = any_of(
    r"without|missing|not found|no tool|did not have|not contain|unanswered|unresolved|orphan\w*",
    r"must be (?:followed|preceded|a response|immediately|defined)|must define|must come",
    r"follow\w*|prece+d\w*|correspond\w*|match\w*|respon[ds]\w*|immediately|after role|for each",
    r"needs? (?:a |an |its )?(?:result|response|output|answer)|has no (?:result|response)|(?:be|not|never) answered",
    r"unknown (?:tool )?(?:call|id)",
    r"equal|same number|same turn|exceeds the number|duplicate|unique|unexpected|provided when",
)
ORDER = any_of(
    r"alternat(?:e|es|ing)(?![a-z])|(?:messages|turns|roles) in a row|consecutive (?:user|assistant|messages)",
    r"unexpected role|expected last role|last role|role\b[^.]{0,40}(?:must|should) (?:precede|follow|come)",
    r"first message must|last message (?:must|cannot|should)|the last turn|must be from the user",
    r"messages? order|prefill|incorrect role|角色信息",
    r"system (?:messages?|role|prompt) (?:must|should|can only|may only|has to) (?:be|come|appear)[^.]{0,20}"
    r"(?:first|beginning|start)(?![a-z])",
    r"(?:start|begin|end)s? with (?:a |an |the )?(?:user|assistant)",
    r"item with id\b[^.]{0,60}not found|previous.response|duplicate item",
    r"(?:rs|msg|fc|resp)_\w+\b[^.]{0,40}not found",
)

OUTPUT_CAP = any_of(
    r"max_?(?:new_?|completion_?|output_?)?tokens?(?:_to_sample)?(?![a-z_])|max_?outputtokens|num_predict",
    r"max (?:new|completion|output) tokens",
    r"(?:output|completion) (?:tokens|length)|maximum tokens you requested|max(?:imum)? output|max tokens must",
)
LISTS = r"(?<![a-z_])(?:messages|tools|texts|inputs?|contents|documents|functions|items|array|list|elements)(?![a-z])"
SCHEMA = r"(?:input_?schema|schema for|schema must|properties\b|function_declarations|json[ _]?schema|format\.schema)"
CHARACTERS = r"(?:characters|chars)(?![a-z])"
CARRIER = r"(?:entity|payload|body|request|upload|content|message|post|data)"

BUSY = any_of(
    r"overload|(?:high|heavy|peak) (?:demand|load|traffic|volume)|not ready|temporarily (?:unavailable|depleted|down)",
    r"(?:at|over|out of|insufficient|no|no available|exceeded?|limited) (?:\w+ )?capacity",
    r"capacity[^.]{0,20} (?:exceeded|constraints?|limit)",
    r"(?:server|service|system|engine|model|backend|worker|slot|node|gpu|instance)s? (?:is |are )?"
    r"(?:currently |too )?busy",
    r"(?:is|still|currently|being) (?:loading|loaded|warming|starting)|queue (?:is )?(?:full|exceeded)",
    r"scal(?:ing|ed) (?:up|from zero|to zero)|cold start|spinning up|starting up|maintenance",
    r"unable to (?:process|handle|serve) (?:your|the) request|preempted",
    r"no (?:available|healthy) (?:instance|worker|replica|server|gpu|backend)s?",
    r"(?:provider|backend|upstream) (?:is )?(?:currently |temporarily )unavailable",
    r"负载|访问量|繁忙|拥挤|过载|饱和|满载",
)


# --- Exclusions: money, rates, policies, names and keys, in sentences that also mention tokens, limits or context ---

EXCLUSIONS: tuple[Rule, ...] = (
    # "Resource exhausted: message larger than max" carries a rate limit's code.
    rule(
        K.WIRE_OVERFLOW,
        # A web server's limit mentions uploaded files only to exclude them.
        r"message (?:is |after decompression )?(?:larger than max|too (?:big|large))|maxpostsize|multi-?part request",
        unit=Unit.BYTES,
    ),
    # The rest of the sentence is a client's guess at the cause.
    rule(
        K.EMPTY_RESPONSE,
        r"(?:returned|received|got) an? (?:\w+ )?(?:response|completion|message|stream) "
        r"(?:with no|without(?: any)?) (?:choices|content|candidates|text|output)(?![a-z])"
        r"|(?:returned|sent) an empty (?:response|completion|message|stream)(?![a-z])",
        statuses=BROKEN,
    ),
    rule(K.RATE_LIMIT, PER_TIME, unless=r"per[ -]?(?:month|week)|usage (?:limit|quota)", unit=Unit.TOKENS),
    # One provider calls a rate limit a quota, and states the retry delay.
    rule(
        K.RATE_LIMIT,
        r"quota exceeded for (?:quota )?metric[^;]{0,200}retry in [\d.]{1,8}s(?![a-z])",
        unless=r"your current quota|per ?day",
        second=K.QUOTA,
        unit=Unit.COUNT,
    ),
    rule(
        K.QUOTA,
        any_of(
            r"insufficient[ _](?:balance|quota|credit|fund|account|tokens)|more credits|afford|pre-consumed",
            r"(?:not (?:have )?enough|(?:no|zero) (?:remaining|available|more)|required) (?:\w+ )?"
            r"(?:balance|credits?|funds|money|points|coins|kudos|compute units)(?![a-z])",
            r"trial\b[^.]{0,20}(?:ended|expired|over)|payment method|wallet",
            r"(?:balance|credits?|funds?)(?: is| are| has been| have been)? "
            r"(?:too low|exhausted|insufficient|not enough|depleted)",
            r"used up|allocation of|no (?:\w+ )?credits|out of (?:credits?|funds)|credits? (?:is|are) required",
            # Other resources that run out are the server's.
            r"(?<![a-z])(?:ran|runs?|running) out of "
            r"(?!(?:\w+ )?(?:memory|vram|context|space|room|disk|time|retries)(?![a-z]))",
            r"(?:add|buy|purchase) (?:more )?(?:credits|funds)|(?:free|paid|prepaid) credits",
            r"(?:usage|spend\w*|billing|budget|month(?:ly)?|week(?:ly)?|plan|subscription|free.tier|credits?|inference)"
            r"[\w -/]{0,20}(?:limits?|cap|quota|allowance)",
            r"(?:daily|monthly|weekly)[\w -]{0,20}(?:limits?|cap|quota|allowance)|per[ -](?:month|week)|/ ?month",
            near(
                r"(?:reached|exceeded|exhausted|used) (?:your|the|its|all)\b", r"(?:credits|allowance|quota(?! metric))"
            ),
            r"hit your (?:\w+ ){0,2}limit|service limits?(?![a-z])",
            r"not (?:on|in|included in|available (?:in|on)|part of) (?:your |the |this )?(?:\w+ )?plan(?![a-z])",
            r"quota (?:has been |is |was )?(?:exceeded|exhausted|reached|used|not enough|insufficient)",
            r"(?:exceeded|check) your (?:current |\w+ )?quota|regain access|limit exhausted|extra usage",
            r"payment required|overdue|arrears|recharge|top[- ]up|billing (?:details|cycle|period)|upgrade your plan",
            r"(?:the|your) free (?:tier|plan|trial)(?![a-z])|free tier\b[^.]{0,40}exhausted",
            r"(?:exceeded|over)\b[^.]{0,30}budget|budget (?:has been |was |is )?(?:exceeded|reached|exhausted)",
            r"max budget|not (?:been )?purchased|exhausted your|quota will reset",
            r"余额|欠费|额度|配额|充值|套餐|用量|使用上限|限额",
        ),
        unless=any_of(
            r"rate.?limit(?!s?_error)|e\.g\. check quota|(?:context|thinking|token)[ _]budget",
            # One request exceeds the plan's limit; a smaller one does not.
            r"(?:input|prompt) tokens?\W{0,3}\d[\d,]*\)? exceeds?",
        ),
        second=K.RATE_LIMIT,
        unit=Unit.TOKENS,
    ),
    rule(
        K.RATE_LIMIT,
        any_of(
            r"rate.?limit|throttl|slow down|please wait|request burst|(?:requests?|calls?) (?:limit|frequency)",
            r"error[ _]code\W{0,3}1015(?!\d)|(?:request|call) rate|resources? (?:has been |is |was )?exhausted",
            r"too (?:quickly|fast|frequent)|cool(?:ing|s)?[ _-]?down|frequency (?:is )?too",
            r"(?<![a-z])rate (?:has been |is |was )?exceeded|exceed\w* (?:the |your )?rate(?![a-z])",
            r"exceeded your (?:\w+ ){0,2}usage(?![a-z])",
            r"a lot of requests|too many messages (?:lately|recently|sent)|sent too many",
            r"too many (?:requests|concurrent|connections|attempts)|concurrenc\w+ limit",
            r"(?:concurrent|parallel|simultaneous) (?:requests|connections|calls|sessions|streams|generations)",
            r"请求[^图张]{0,6}(?:频繁|过多|过快)|频率|限流|速率|并发",
        ),
        unit=Unit.TOKENS,
    ),
    rule(K.OVERLOADED, BUSY, statuses=frozenset({429}), second=K.RATE_LIMIT),
    rule(
        K.RATE_LIMIT,
        ANYTHING,
        statuses=frozenset({429}),
        unless=any_of(near(WINDOW, TOO_LONG), near(TOO_LONG, WINDOW), r"prompt is too long", r"capacity"),
        unit=Unit.TOKENS,
    ),
    rule(K.QUOTA, ANYTHING, statuses=frozenset({402}), unit=Unit.TOKENS),
    rule(
        K.CONTENT_POLICY,
        any_of(
            r"content[ _](?:filter|policy|management|moderation|safety)|moderation|usage polic",
            r"safety (?:system|filter|settings|reasons|polic)|high risk|harmful",
            r"(?<!case[ -])sensitive(?!(?:_\w+)?: (?:false|none|null|0))",
            r"inappropriate|(?<![a-z])(?:unsafe|nsfw|toxic|jailbreak)(?![a-z])|prompt injection|copyright",
            r"guardrails?[ _](?:(?:was|were|has|have|checks?|polic\w+|rules?)[ _])?[\w ]{0,24}?"
            r"(?:intervened|triggered|tripped|blocked|failed|denied|violat\w*)",
            r"acceptable use|disallowed (?:content|words?|terms?|language|topics?)|prompt attack|profan\w+|hate speech",
            r"(?<![a-z])(?:pii|personal (?:data|information)) (?:was |were )?(?:detected|found)",
            r"self-harm|sexual|violence",
            r"model (?:has |was )?(?:refused|declined)(?![a-z])",
            r"(?<![a-z])flagged(?![a-z])|content (?:is )?not (?:permitted|allowed)\W*$",
            r"violat\w* (?:our|the|your|\w+) (?:terms|rules)|(?:output|response|input) filtered",
            near(
                r"(?:flagged|blocked|rejected|filtered|refused|violat\w*|prohibited)",
                r"(?:polic|safety|filter|risk|harm|content|guideline|guardrail)",
            ),
            r"(?:content|output|input|prompt|response)\b[^.]{0,60}(?:is|was|been) (?:blocked|flagged|filtered)",
            r"(?:prompt|blocked) (?:output|input|blocked)|recitation|risk detected",
            r"敏感|违规|安全审核|不合规|内容审核|不安全|风险",
        ),
        unless=r"connection|location|(?<![a-z])cors(?![a-z])",
    ),
    # Some gateways return a 400 if the model's server is down.
    rule(
        K.OVERLOADED,
        r"model (?:is )?(?:currently |temporarily )?unavailable"
        r"|(?<![a-z])degraded (?:function|model|deployment) (?:cannot|can not|is|was)(?![a-z])",
        statuses=frozenset({400, 404}),
        second=K.MODEL_NOT_FOUND,
    ),
    rule(
        K.MODEL_NOT_FOUND,
        any_of(
            r"models?(?![a-z])(?:[^.]|\.(?! )){0,80}?"
            + any_of(
                r"not found|does ?no?t ?exist|not exist|is unknown",
                r"(?:identifier|name|id) (?:is )?(?:invalid|not valid)",
                r"is ?(?:currently )?no?t (?:available|supported|recognized|a valid|served)|(?:is|gone|taken) offline",
                r"(?:is|was) retired|not (?:enabled|recogni[sz]ed|registered|running|deployed|hosted)",
                r"not (?:been )?loaded|not allowed for",
                r"been (?:deprecated|decommissioned|retired|removed|shut)|no longer|discontinued|end of (?:its )?life",
                r"fad(?:e|ed|ing) out|sunset",
            ),
            r"models?/\S{1,80} is not found|not a (?:valid|supported|known) model|no longer (?:serve|support|host)",
            r"(?:could ?not|cannot|unable to|failed to) (?:resolve|find|locate) (?:the )?model(?![a-z])",
            r"(?:unknown|no such|unrecognized|invalid|unsupported) model(?![a-z]| (?:output|input|context))",
            r"(?:supported|available|valid) (?:api )?models?(?: names?| ids?)? (?:are|is|include)(?![a-z])",
            r"not support(?:s|ed|ing)? (?:this |the |that )?model(?![a-z])",
            r"no (?:healthy |available )?(?:endpoints|providers|channels?|deployments?)\b[^.]{0,30}"
            r" for (?:model|group|the|this)|no endpoints? found for",
            r"model\b(?:[^.]|\.(?! )){0,80}? too (?:large|big) to be loaded",
            r"no models? loaded|unable to access model|deployment\b[^.]{0,60}(?:does not exist|not found)",
            r"模型.{0,20}(?:不存在|下线|未找到|不可用)|无可用渠道",
        ),
        unless=any_of(
            r"support (?:image|vision|tool|function)|(?:this|your|client) version",
            THINKING,
            WINDOW,
            MEDIA,
        ),
    ),
    rule(
        K.AUTH,
        any_of(
            r"(?:invalid|incorrect|missing|bad|no|expired|revoked|malformed|wrong|unauthori[sz]ed|not valid|without"
            r"|provide an?)[^.]{0,25}?"
            r"(?:api.?key|credentials?|authentication|authorization|access.key|bearer|secret|auth token|api token)",
            r"(?:api.?key|credentials?|access token|auth token|security token)[^.]{0,50}?"
            r"(?:invalid|incorrect|missing|expired|revoked|disabled|required|does not|not (?:valid|found|allowed))",
            r"(?:pass|provide|use|enter|supply) (?:a |your )?(?:valid )?api.?key|(?<![a-z])key is (?:not |in)valid",
            r"(?<![a-z])key (?:has been|is|was) (?:disabled|revoked|deleted|deactivated|expired)|re-?authenticat",
            r"error[ _]code\W{0,3}(?:100[6-9]|101[0-2]|1020)(?!\d)|browser signature",
            r"refresh[ _]token|(?:log|sign)(?:ing)?[ -]?in again|(?<![a-z])run /login",
            r"authorization header|(?<![a-z])jwt(?![a-z])|log(?:ged)?[ -]?in (?:is )?(?:required|first|to continue)",
            r"(?:must|need to|please) (?:be )?(?:log(?:ged)?|sign(?:ed)?)[ -]?in(?![a-z])|(?<![a-z])user not found",
            r"unauthori[sz]ed|unauthenticated|auth(?:enticat|ori[sz])\w+ (?:failed|required|error|fails)",
            r"accept(?:ed|ing)? (?:the |its |their )?(?:\w+ )?(?:terms|license|agreement|eula)",
            r"(?:terms|license) acceptance|(?:dont|do not|doesnt|does not) have (?:\w+ )?access",
            r"permission|(?<!_)forbidden|verify (?:this|your) (?:account|identity|organization)",
            r"access (?:is )?denied|(?:not|only) authorized|not been used in project|signature we calculated",
            r"(?:account|organization|project|user)\b[^.]{0,20}(?:deactivated|disabled|suspended|banned|restricted)",
            r"(?:country|region|location|territory)[^.]{0,30}(?:not supported|unsupported|not available)",
            r"无效的?(?:令牌|token|api|key)|令牌|鉴权|未授权|认证失败|身份验证|无权",
        ),
    ),
    rule(
        K.AUTH,
        r"(?:invalid|bad|missing|expired) token(?![a-z]|[ _]ids?)|token (?:has )?expired",
        statuses=frozenset({None, 400, 401, 403}),
    ),
    rule(K.AUTH, ANYTHING, statuses=frozenset({401})),
    rule(
        K.EMPTY_RESPONSE,
        any_of(
            r"empty response|response (?:was|is) empty",
            r"empty (?:completion|content|output|stream|reply|message|answer|candidates?)",
            r"^no (?:content|output|response)\W*$",
            r"(?:did ?no?t|does ?no?t) (?:return|produce|generate) any|(?:returned|produced|generated) nothing",
            r"fail\w* to (?:generate|produce|return) (?:any |an? )?(?:output|content|response|text|answer|reply)",
            r"(?:contain\w*|had|has) no (?:text|content|output)|no message in",
            r"(?:candidates|choices)\b[^.]{0,10} (?:is|are|was) empty",
            r"returned[ _](?:empty|(?:no|an empty) (?:\w+ )?(?:content|response|output|choices|candidates?|message))",
            r"(?:produced|generated) no (?:content|output|text|response)",
            r"no (?:content|choices|candidates|output|generations?|completion|text) "
            r"(?:or|in|were|was|found|returned|received|generated|produced)",
        ),
        # An empty response because of an overflow.
        unless=any_of(near(WINDOW, TOO_LONG), near(TOO_LONG, WINDOW)),
        statuses=BROKEN,
    ),
)
