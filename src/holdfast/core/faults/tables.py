"""Rule tables of the classifier: patterns of messages for each kind of fault.

The order matters: the first matching rule counts, so exclusions (a quota, a rate, a setting) precede the kinds that
they exclude. A pattern is a subject and a complaint within one sentence rather than a whole sentence, because providers
reword. Every gap is bounded, so that matching stays fast on any input.
"""

from holdfast.core.faults import vocabulary as w
from holdfast.core.faults.codes import BROKEN, NO_RESPONSE, REFUSED, Rule, rule
from holdfast.core.faults.vocabulary import EXCLUSIONS, any_of, near
from holdfast.types.faults import FaultKind as K
from holdfast.types.faults import Unit

MEDIA: tuple[Rule, ...] = (
    rule(
        K.MEDIA_OVERFLOW,
        any_of(
            near(w.MEDIA, w.MEDIA_COMPLAINT),
            near(w.MEDIA_COMPLAINT, w.MEDIA),
            w.FILE
            + r"[^.]{0,40}(?:exceed\w*|(?:larger|bigger) than|too (?:large|big|many|long)|(?:size|page) (?:limit|error)"
            + r"|unsupported|pars\w+|过大|超过)",
            near(w.FILE, r"(?:only|at most|up to) \d+ " + w.FILE),
            w.FILE + r" (?:type|format|extension)s?\b[^.]{0,40}(?:not (?:supported|allowed|valid)|invalid)",
            r"(?:too many|unsupported|invalid|corrupt\w*|maximum) (?:uploaded )?" + w.FILE,
            r"(?:fetch|download|load|retrieve|access)\w* (?:the )?(?:\w+ ){0,2}(?:from|at) (?:\w+ ){0,2}url(?![a-z])",
            # The number of pages in one sentence and their limit in the next.
            r"\d pages?\b.{0,60}(?:max\w*|limit|at most|up to)",
            r"(?:max\w*|limit|at most|up to)\b.{0,30}\d (?:\w+ )?pages",
        ),
        unless=any_of(
            w.SCHEMA,
            w.WINDOW,
            w.THINKING,
            r"tokens? of (?:image|video|audio)|\d tokens|(?:max|input|prompt|total|message) tokens",
            r"documents? (?:must|should) be at most|number of documents|response.?mime|response_format",
        ),
        statuses=REFUSED,
        has_numbers=True,
    ),
)

_ABOUT_THE_WINDOW = any_of(
    near(w.WINDOW, any_of(w.TOO_LONG, r"is \d")),
    near(w.TOO_LONG, w.WINDOW),
    # An "InternalError.Algo.InvalidParameter" concerns the parameter.
    r"timed? ?out|internal(?!\w*\.\w+\.invalid)",
)

PARAMETERS: tuple[Rule, ...] = (
    # Reasoning that cannot be replayed: repairing the history is the second recovery.
    rule(
        K.BAD_REQUEST_REASONING,
        any_of(
            w.THINKING + r".{0,160}" + w.REPLAYED,
            w.REPLAYED + r".{0,160}" + w.THINKING,
            r"(?<![a-z])rs_\w+.{0,60}not found",
        ),
        unless=_ABOUT_THE_WINDOW,
        statuses=REFUSED,
        second=K.TOOL_PAIRING,
    ),
    rule(K.BAD_REQUEST_REASONING, w.THINKING, unless=_ABOUT_THE_WINDOW, statuses=REFUSED),
)

PAIRING: tuple[Rule, ...] = (
    rule(
        K.TOOL_PAIRING,
        any_of(near(w.TOOL_PARTS, w.UNPAIRED), near(w.UNPAIRED, w.TOOL_PARTS)),
        unless=any_of(w.SCHEMA, w.WINDOW, r"too long|pattern|regular expression|tool_?choice|tool choice|must be a-z"),
        statuses=REFUSED,
    ),
    rule(K.TOOL_PAIRING, w.ORDER, statuses=REFUSED),
)

# Invalid settings of a request: a smaller conversation would be rejected as well.
SETTINGS: tuple[Rule, ...] = (
    rule(K.BAD_REQUEST, r"cache_control|cachepoint", unit=Unit.COUNT, statuses=REFUSED),
    # The request body as a whole rather than a setting in it.
    rule(
        K.WIRE_OVERFLOW,
        r"at body failed to satisfy constraint:? member must have length less",
        unit=Unit.BYTES,
        statuses=REFUSED,
    ),
    rule(
        K.BAD_REQUEST,
        r"failed to satisfy constraint",
        unless=r"at (?:messages|tools|system)(?: |\[)",
        has_numbers=True,
        statuses=REFUSED,
    ),
    rule(
        K.BAD_REQUEST,
        r"out of (?:\w+ )?range [\[(]",
        unless=r"input|prompt|context",
        has_numbers=True,
        statuses=REFUSED,
    ),
    rule(K.BAD_REQUEST, w.SCHEMA, unless=w.WINDOW, statuses=REFUSED),
    # Something other than the model does not exist.
    rule(
        K.BAD_REQUEST,
        r"(?<![a-z])(?:file|vector store|upload|thread|assistant|conversation|batch|item|session)(?![a-z])"
        r"[^.]{0,60}(?:not found|not exist)",
        unless=r"model|deployment",
        statuses=frozenset({400, 404}),
    ),
    rule(
        K.BAD_REQUEST,
        r"too many (?:stop|choices|logit|metadata|labels|entries|keys|(?:\w+ )?fields)",
        has_numbers=True,
        statuses=REFUSED,
    ),
    rule(
        K.BAD_REQUEST,
        any_of(
            r"(?:unsupported|unknown|unrecognized|unexpected|invalid|extra)(?: request)? "
            r"(?:parameter|argument|field|property|keyword|option|inputs are)",
            r"in context=|not permitted|too many states|streaming is (?:required|strongly)",
        ),
        unless=any_of(rf"{w.TOO_LONG}(?<!too many)", r"range of"),
        statuses=REFUSED,
    ),
    # Counts of the server that contradict each other.
    rule(
        K.BAD_REQUEST,
        r"cached?[_ ](?:prompt[_ ]|input[_ ])?tokens\b[^.\d]{0,30}(?:exceed|greater|larger|more than)",
        statuses=REFUSED,
    ),
    # Parameters by name.
    rule(
        K.BAD_REQUEST,
        r"(?<![a-z_])(?:logit_bias|stop_(?:sequences|token_ids)|metadata(?! ?:)|safety_identifier|prompt_cache_key)"
        r"(?![a-z])",
        unless=w.WINDOW,
        has_numbers=True,
        statuses=frozenset({400, 422}),
    ),
    # The requested embedding dimension.
    rule(
        K.BAD_REQUEST,
        near(r"(?<![a-z_])dimensions?(?![a-z])", r"(?:exceed\w*|greater|larger|must|should|max\w*|between)"),
        has_numbers=True,
        statuses=REFUSED,
    ),
    # A sentence that begins with an output limit concerns that limit, with any comparison.
    rule(
        K.BAD_REQUEST,
        r"(?:^|\. )(?:invalid )?max_(?:completion_|output_|new_)?tokens\b[^.]{0,20}(?:must|should|cannot)\b[^.]{0,10}"
        r"(?:<|less|at most|between|exceed|no more|within)[^.]{0,30}\d",
        unless=r"prompt|inputs?(?![a-z])|messages",
        unit=Unit.TOKENS,
        statuses=REFUSED,
    ),
    # An output limit. If the sentence also mentions the prompt or the window, it concerns their sum.
    rule(
        K.BAD_REQUEST,
        w.OUTPUT_CAP,
        unless=any_of(
            w.WINDOW,
            r"prompt|inputs? (?:tokens?|length|of \d|and (?!try)|plus|\+)|messages|total|got -\d|along with|combined",
        ),
        unit=Unit.TOKENS,
        statuses=REFUSED,
    ),
)

OVERFLOW: tuple[Rule, ...] = (
    rule(
        K.TRANSIENT,
        any_of(
            r"(?:system|gpu|cuda|video|available|out of|host)\W{1,2}memory|memory (?:error|required)|显存|内存",
            r"(?:failed|unable|error) (?:to load|loading) (?:the |a )?model",
        ),
        statuses=BROKEN,
    ),
    rule(
        K.TOKEN_OVERFLOW,
        r"truncat\w+ (?:the )?(?:input|prompt)",
        second=K.EMPTY_RESPONSE,
        unit=Unit.TOKENS,
        statuses=NO_RESPONSE,
    ),
    # Lengths in characters: of a text, the request's size; of a name or an id, an invalid setting.
    rule(
        K.WIRE_OVERFLOW,
        any_of(
            r"(?:string|input|text|prompt|content|message|body|query)[^.]{0,60}(?:too long|exceed\w*|at most|max\w*)"
            r"[^.]{0,60}" + w.CHARACTERS,
            r"string (?:is )?too long|string (?:value )?length[^.]{0,30}exceed\w*|maxlength|max length: |个?字符",
            w.CHARACTERS + r"[^.]{0,40}(?:exceed\w*|limit|max\w*|too)",
            r"max\w* (?:\w+ ){0,3}" + w.CHARACTERS + r"(?: is| of|:)? ?\d",
            r"(?:exceed\w*|limit|max\w*|at most|longer than)[^.]{0,40}\d[ \w]{0,4}" + w.CHARACTERS,
            r"\d " + w.CHARACTERS + r" (?:at most|or (?:less|fewer)|allowed)",
            r"(?:under|below|within|to) \d[\d,]* " + w.CHARACTERS,
        ),
        unless=r"token|context",
        unit=Unit.CHARS,
    ),
    # Lengths of lists.
    rule(
        K.WIRE_OVERFLOW,
        any_of(
            near(
                w.LISTS,
                any_of(
                    r"array too long|maximum number of|too many items",
                    r"at most \d+ ?(?:items|elements|entries|messages|tools)?(?! ?tokens)",
                ),
            ),
            r"(?:too many|number of|max(?:imum)?(?: of)? \d+|(?:at most|more than) \d+) "
            r"(?:messages|tools|texts|functions|items|elements|documents|inputs)(?![a-z])",
            r"\d[ -](?:message|tool|item|turn)s? (?:limit|max\w*|cap)(?![a-z])",
            w.LISTS + r".{0,40}\d (?:items|elements|entries)\b.{0,30}(?:max\w*|limit|at most)",
            r"\d (?:messages|tools|texts|functions|documents|inputs)\b[^.]{0,30}(?:limit|max\w*|at most)\b[^.]{0,12}\d",
            w.LISTS + r".{0,30}(?:too long|exceed\w*|max\w*|at most).{0,60}\d (?:items|elements|entries)(?![a-z])",
            r"too_long|array (?:is )?too long|constraint: member must have length less than or equal",
            near(r"batch[ -]size(?! of)", any_of(w.TOO_LONG, r"max\w*|limit|[<>]")),
            near(any_of(w.TOO_LONG, r"max\w*|limit"), r"batch[ -]size"),
        ),
        unless=any_of(w.TOKENS, r"bytes", w.SIZE),
        unit=Unit.COUNT,
        statuses=REFUSED,
    ),
    # Explicit tokens.
    rule(
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
            r"(?:\d ?>=? ?|(?:over|past|above) (?:the |your |its |models? )*)" + w.WINDOW,
            near(w.WINDOW, r"(?:not (?:enough|sufficient)|insufficient|too (?:small|short) for)(?![a-z])"),
            r"(?:hit|reach\w*|past) (?:the |your |its )?(?:\d[\d,]*k?[ -])?(?:tokens? )?"
            r"(?:context|token) (?:limit|window|length)",
            r"(?:not enough|insufficient) context(?= ?[:;,(]| (?:length|window|size|space|left|remain|tokens))",
            r"input\b[^.]{0,40}\d[^.]{0,20}max_length|(?:cannot|unable to|failed to) truncate",
            r"range of input length|reduce your prompt|too many tokens|max_tokens must be at least 1, got -",
            r"max\w*(?: (?:of|size|length|is))*:? \d[\d,.]*k? tokens",
            r"max\w* (?:\w+ ){0,3}tokens\b[^.]{0,40} (?:is|are|of) \d",
            r"(?:at most|up to|no more than|<=?|≤) ?\d[\d,.]*k? (?:\w+ )?tokens|out of context|context budget",
            r"context (?:\w+ ){0,2}(?:exceeded|overflow)|: token limit\W*$",
            near(r"out of (?:room|space)(?![a-z])", w.WINDOW),
            r"context (?:is )?too (?:big|long|large)|context[a-z ]{0,20} full(?![a-z])",
            r"tokens?.{0,12}(?:超|上限|限制)|(?:超过|超出|超).{0,16}(?:token|长度|上下文)",
            r"(?:上下文|输入|长度|prompt).{0,12}(?:超|过长|太长)|超长|(?:请求|消息|内容|对话|文本)(?:过长|太长)",
        ),
        unless=any_of(
            r"context (?:deadline|cancel)|bytes (?:>|exceed)|positive|be at least \d+ tokens? long",
            r"stop (?:tokens|sequences?|list|words|strings)|generate (?:more than|up to|at most) \d",
            # A length of time.
            r"(?:length|duration)\b[^.]{0,40}\d ?(?:ms|seconds?|minutes?|hours?)(?![a-z])",
        ),
        unit=Unit.TOKENS,
    ),
    # Limits of a model rather than of a server are in tokens, under any name.
    rule(
        K.TOKEN_OVERFLOW,
        any_of(
            near(r"(?:exceed\w*|too (?:large|big|long) for|beyond)", r"limits?\b", r"(?<![a-z])model(?![a-z])"),
            r"exceed\w* (?:the |this |your )?models? (?:\w+ ){0,2}(?:limits?|length|capacity|context(?![a-z]))",
            r"(?:prompt|input|request|conversation|content) (?:is )?too (?:large|big|long) for (?:the|this|your) model",
        ),
        unless=any_of(r"bytes|rate|output|completion", w.SIZE),
        unit=Unit.TOKENS,
        statuses=REFUSED,
    ),
    # Bytes on the wire.
    rule(
        K.WIRE_OVERFLOW,
        any_of(
            w.CARRIER + r"[ -](?:size |length |content |data |is )*(?:is )?(?:too (?:large|big)|exceed\w*|larger than)",
            near(
                r"(?:entity|payload|request|body|upload|message|post)\b",
                r"(?:exceed\w*|larger|smaller|limit|max\w*|over)",
                any_of(r"size|bytes|length|limit", w.SIZE),
            ),
            near(r"(?:entity|payload|request|body|upload)\b", w.SIZE, r"(?:max|limit|exceed|allow)"),
            near(r"(?:entity|payload|request|body|upload)\b", r"\d bytes", r"(?:at most|max|limit|exceed|allow)"),
            r"(?:content|body|payload)[ -](?:size|length) (?:of )?\(?\d[\d,]*\)? (?:bytes )?"
            r"(?:exceed\w*|is (?:too|larger|greater)|>)",
            r"(?:max(?:imum)?|exceed\w*) (?:allowed |the )?(?:request|body|payload|upload|message|content)"
            r"(?: body| content)?[ _](?:size|length)",
            r"exceed\w*[^.]{0,30}(?:limit|max)[^.]{0,20}bytes",
            r"length limit exceeded|request too (?:large|big)|max(?:imum)? size is|too_large|content-length",
            r"too large (?:request |message )?(?:body|request|payload|entity)(?![a-z])",
            r"too many (?:\w+ ){0,3}bytes|(?:payload|body|upload|entity) (?:of |is )?\(?\d[\d,]*\)? (?:bytes )?> ?\d",
            r"(?<![a-z])(?:part|form|frame|chunk)\b[^.]{0,20}(?:exceed\w*|larger than) (?:the )?max\w* (?:size|length)",
            r"请求体|请求.{0,6}过大",
        ),
        unless=r"memory|header|deadline|tim(?:e|ed)[ -]?(?:out|limit)",
        unit=Unit.BYTES,
    ),
    # A length without a unit. Models count tokens; a server that rejects with 413 counts bytes.
    rule(
        K.TOKEN_OVERFLOW,
        any_of(
            near(
                r"(?<![a-z])(?:prompt|inputs?|request|messages?|conversation|history|query|text|length"
                r"|sequence(?! number| id))(?![a-z])",
                any_of(
                    w.TOO_LONG, r"<=|≤|\d ?>=? ?\d|reach\w* (?:the |its |your )?(?:\w+ ){0,2}(?:max\w*|limit|ceiling)"
                ),
            ),
            near(r"(?:exceed\w*|longer than|over)", r"(?:max(?:imum)? length|dimension size)"),
            r"length of (?:all |the )?messages",
            r"(?:shorten|trim|condense) (?:your |the )?(?:prompt|input|messages?|conversation|history)(?![a-z])",
        ),
        unless=any_of(
            r"bytes|header|tim(?:e|ed)[ -]?out|number of|output length|penalty|temperature|top_[pk]|nesting",
            r"stop sequence",
            r"(?<![a-z])(?:ids?|name|description|title|key|label) (?:is |was )?(?:too long|exceeds?)",
            w.SIZE,
        ),
        statuses=frozenset({None, 200, 400, 404, 422, 424, 429, 500, 502, 503}),
        unit=Unit.TOKENS,
    ),
)

_VALIDATORS_WORDS = any_of(
    r"must (?:be|have|not|match|contain|start|end)|should (?:be|match|have)|expected|positive|integer|between",
    r"(?:is|are|field) required|missing|invalid (?:value|type|json)|could not parse|cannot be|failed to parse",
    r"unsupported|not (?:supported|allowed|permitted|recognized)|too (?:small|short|low)|at least",
)
# A validator's message that does not concern the size. It keeps a large request from being taken for an overflow.
VALIDATION: tuple[Rule, ...] = (rule(K.BAD_REQUEST, _VALIDATORS_WORDS, statuses=frozenset({400, 404, 406, 409, 422})),)

# The call failed in transit, or returned no output.
BREAKS: tuple[Rule, ...] = (
    rule(
        K.EMPTY_RESPONSE,
        r"finish_?reason\W{0,3}(?:length|max_tokens)",
        second=K.TOKEN_OVERFLOW,
        statuses=NO_RESPONSE,
    ),
    rule(
        K.STREAM_STALL,
        any_of(
            r"idle time-?out|inactivity|stall|awaiting headers",
            r"(?:sse|stream\w*|chunks?|read|first (?:token|byte|chunk)|headers?|body|events?|data)\b"
            r"[^.]{0,40}tim(?:ed|e)[ -]?out",
            r"tim(?:ed|e)[ -]?out\b[^.]{0,40}(?:sse|stream|chunk|token|byte|header|event|data|body)",
            r"no (?:first )?(?:tokens?|bytes?|data|chunks?|events?|content|output|response)\b"
            r"[^.]{0,30}(?:within|for|in|after) \d",
            r"stream (?:was |is )?(?:closed|aborted|interrupted)(?: (?:by|unexpected)|\W*$)",
            r"(?:stream|response|connection|socket)\b[^.]{0,20}"
            r"(?:closed|ended|disconnected|terminated|finished) (?:before|without|prematurely)",
            r"before (?:response\.completed|message_stop|completion)|stream ended with (?:an? )?(?:invalid|incomplete)",
            r"(?:without|no) (?:a |any )?(?:finish|terminal|final|completion|message_stop|\[done\])"
            r"(?= ?$| (?:event|chunk|message|marker|reason|signal|state)|[^a-z ])",
        ),
        unless=r"complete message body|reset|internal_error|decoding|network|transport|error (?:sending|occurred)",
        statuses=NO_RESPONSE | {408},
        second=K.TRANSIENT,
    ),
    rule(K.OVERLOADED, w.BUSY, unless=r"no healthy upstream", statuses=BROKEN, second=K.TRANSIENT),
    rule(
        K.TRANSIENT,
        any_of(
            r"connection|econn|etimedout|epipe|enotfound|eai_again|socket|fetch failed|network|broken pipe",
            r"peer closed|(?<![a-z])(?:eof|tls|ssl)(?![a-z])|dns|getaddrinfo|resolution|certificate|handshake|goaway",
            r"internal (?:server )?error|internal_error|bad gateway|gateway time-?out|upstream|unexpected error",
            r"an error occurred|timed? ?-?out|deadline|temporar\w+|incomplete|premature|reset|terminated",
            r"unexpectedly|unexpected end|line \d+,? column \d+",
            r"(?:finish|stop)[ _]?reason\W{0,3}(?:error|network|abort|unknown|malformed)|decompress\w*",
            r"stream error|malformed (?:http|response)|unreach(?:able)?(?![a-z])|misbehaving|wsa(?:send|recv)|hostdown",
            r"unexpected token|valid json|protocol error|disconnect\w*|cancel+ed|abort\w*",
            r"超时|网络|内部错误|服务器错误|稍后",
        ),
        statuses=BROKEN,
    ),
)

# Without a status the call more likely failed in transit: "unexpected end" contains a validator's word.
UNSTATED: tuple[Rule, ...] = (rule(K.BAD_REQUEST, _VALIDATORS_WORDS, statuses=NO_RESPONSE),)

RULES: tuple[Rule, ...] = (
    *EXCLUSIONS,
    *MEDIA,
    *PARAMETERS,
    *PAIRING,
    *SETTINGS,
    *OVERFLOW,
    *VALIDATION,
    *BREAKS,
    *UNSTATED,
)

# Unspecific statuses.
VAGUE: frozenset[int | None] = frozenset({None, 200, 400, 403, 404, 409, 422})
# Single words, for sentences that no other rule matches. The result is a guess.
HUNCHES: tuple[Rule, ...] = (
    rule(
        K.QUOTA,
        r"(?<![a-z])(?:credits?|balance|billing|payments?|paid|subscri\w+|quota|upgrade|purchase|top[ -]?up)(?![a-z])"
        r"|(?:your|current|free|pro|paid) plan(?![a-z])|allowance",
        statuses=VAGUE,
        second=K.AUTH,
    ),
    rule(
        K.TRANSIENT,
        r"fetch failed|econn(?:reset|refused|aborted)|socket hang up",
        statuses=VAGUE,
        second=K.BAD_REQUEST,
    ),
    rule(
        K.AUTH,
        r"credential|api.?key|(?<![a-z])(?:permissions?|denied|forbidden|login|oauth|whitelist\w*|allowlist\w*|banned"
        r"|access token|scopes?|region|country)(?![a-z])|authori[sz]|authenticat",
        statuses=VAGUE,
        second=K.BAD_REQUEST,
    ),
)
