"""The vocabulary of refusals: how providers name the window, media, thinking, tools, and how they complain.

Each name is an alternation to be put into a pattern. Texts are lower case, without quotes and addresses.
"""


def any_of(*phrases: str) -> str:
    """Return a pattern that fits where one of the phrases does."""
    return "(?:" + "|".join(phrases) + ")"


def near(*parts: str) -> str:
    """Return a pattern for parts that stand in this order within one sentence."""
    return GAP.join(parts)


# Up to sixty characters of one sentence; a dot inside a path or a number does not end it.
GAP = r"(?:[^.]|\.(?! )){0,60}?"
# A number with a size in bytes behind it: "31.5MB".
SIZE = r"\d ?[kmg]i?b(?![a-z])"

# The window itself, in the words of those who count it in tokens.
WINDOW = any_of(
    r"context[ _-]?(?:length|window|size|limit)|window size",
    r"max(?:imum)? context|contextwindow|n_ctx|max_model_len|max_seq_len|max_total_tokens",
    # Beside its size; elsewhere it is a programmer's.
    r"(?<![a-z_])ctx(?=[ =:(]{1,2}(?:of |is |size )?\(?\d)",
    r"max(?:imum)? (?:model |prompt |input |sequence |total |allowed )+(?:length|tokens)",
    r"(?<!stop )sequence (?:length|len)(?![a-z])",
    r"session (?:max(?:imum)? )?(?:length|len)(?![a-z])|max_(?:input|prompt|sequence|model)_(?:length|len|tokens)",
    r"上下文",
)
# One token is a key, a word of a stop list or a parser's complaint; only many of them, or their number, have a length.
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
    # Formats, but not the ending of a file's name.
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
    # Not in the name of a model or of its maker.
    r"(?<![-/\w])(?:redacted_)?thinking(?!-|\w*/)|(?<![-/\w])reasoning(?!-|\w*/)",
    r"thought[_ ]?signature|encrypted[_ ]content|(?<![a-z])effort(?![a-z])",
    r"reasoning_\w+|reasoningeffort|enable_thinking|thinking_\w+|budget_tokens",
    r"思考",
)
# Thinking that the history carries wrongly, rather than a parameter that asks for it.
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
