"""Words of error messages, grouped by meaning: the model votes over pairs of these, so that a reworded sentence counts.

One line is one concept and its stems. A stem of four letters and more is a prefix; a shorter one is a whole word.
Words joined by "_" stand in a row, the last one as a prefix. Two Chinese characters are a word.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache

from holdfast.core.text.patterns import Pattern

CONCEPTS = """
over exceed overflow too_long too_large too_big too_many longer larger bigger greater beyond surpass over_the
 over_limit above oversiz no_more outgrow overrun long_for large_for big_for not_fit reduce shorten truncat trim
 too_lengthy 超过 超出 超长 过长 过大 超限
limit limit max maximum cap ceiling bound upper range allowed at_most up_to less_than fewer_than 上限 最大 限制
 最多
least minimum min at_least below smaller_than greater_than_or too_small too_short not_less
token token
window context window ctx kv_cache num_ctx 上下 下文
prompt prompt input conversation history messages sequence transcript session_max 输入 对话
request request 请求
output max_tokens max_completion max_new max_output completion output generated generation num_predict
 maxoutputtokens maximum_tokens_you tokens_to_generate 输出
bytes byte bytes mb kb mib kib gb payload entity body content_length size upload megabyte kilobyte bodylimit
 data_too 字节 请求体 大小
chars character char chars string_length string_too maxlength 字符 字数
count items array list elements entries number_of count
media image video audio pdf photo picture base64 base media frame multimodal vision png jpeg webp gif mp3 wav
 attachment inlinedata clip thumbnail screenshot heic bmp tiff svg mp4 speech voice 图片 图像 视频 音频 张图
file file document page upload
unreadable decode corrupt unsupported format dimension pixel resolution mime width height unread encrypted
 download fetch 格式 像素
rate rate throttl rpm tpm qps rps concurren too_many_requests frequen slow_down burst request_limit simultaneous
 parallel cooldown throughput 频率 频繁 限流 并发 速率
minute minute second sec hour per_min per_sec tpm rpm tpd rpd 分钟 每分
day day daily month monthly week weekly 每日 每天
money credit balance billing payment pay quota plan subscription afford budget fund arrear overdue recharge
 purchase upgrade spend usage_limit extra_usage trial wallet prepaid cost invoice topup top_up kudos hit_your
 余额 欠费 额度 配额 充值 套餐 用量
again retry try_again later wait back_off shortly 稍后 重试
busy overload capacity busy unavailable demand traffic loading warm queue scaling saturat maintenance cold_start
 not_ready high_load no_workers under_load exhausted_capacity out_of_capacity no_healthy no_available degraded
 繁忙 拥挤 饱和 过载 负载 满载
broken internal timeout timed connection reset upstream gateway crash abort network socket dns tls ssl econn eof
 unreachable refused unexpected_error deadline hang proxy_error cuda memory oom fetch_failed service_down
 went_wrong exception traceback segfault panic unhandled handshake getaddrinfo enotfound broken_pipe 超时 内部
 网络
key api_key apikey credential authentic authoriz unauthor permission forbidden denied login log_in sign_in jwt
 bearer secret access oauth token_expired invalid_token expired suspended deactivat disabled banned restricted
 region country location verif entitle scope whitelist allowlist organization workspace account identity captcha
 sso user_not challenge 令牌 鉴权 认证 无权 授权 身份 权限 密钥
model model deployment endpoint engine 模型
gone not_found not_exist doesnt_exist no_such unknown deprecat decommission retired discontinued no_longer
 not_available not_supported unrecogni invalid_model unsupported_model sunset removed offline identifier_is
 model_name 存在 下线
path path route url resource page_not invalid_url method cannot_post cannot_get
thinking thinking reasoning effort signature encrypted thought budget_tokens redacted 思考 推理
tool tool_call tool_use tool_result toolu tool_id call_id function_call functioncall functionresponse tool
 function
paired not_paired no_matching has_no_result followed following without corresponding preceding previous match
 orphan alternat role roles consecutive order pair respond immediately unpaired dangling last_message
 first_message must_end must_start same_number ending_with single_turn 角色
policy content_filter policy safety moderat sensitive flagged violat harm blocked inappropriat prohibited
 guardrail filtered unsafe responsible risk jailbreak copyright recitation nsfw refused_to model_refused
 declined disallowed acceptable_use illegal sexual violence hate profan toxic pii abuse 敏感 违规 审核 风险
empty empty no_content no_output no_choices nothing no_response no_text no_candidate blank without_content
 no_message no_usable null_content
setting parameter argument field schema property keyword option param settings value type json validation valid
 invalid malformed extra unexpected unrecogni required missing must_be should_be expected parse syntax pydantic
 参数
stream stream ended premature idle incomplete disconnect closed no_data interrupted keepalive stalled cut chunk
 terminated hang_up no_first
"""

_WHOLE_CHARS_MAX = 3
_WORDS_MAX = 300
_CHINESE = "\u4e00-\u9fff"
_WORD = Pattern(rf"[a-z]+|[{_CHINESE}]+|\d[\d,._]*|[<>]=?")
_SENTENCE_END = Pattern("[.!?;] |[\u3002\uff1b]")
NUMBER = "#"


@cache
def _stems() -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return the concepts of each stem or row of words."""
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    for line in CONCEPTS.replace("\n ", " ").strip().splitlines():
        concept, *stems = line.split()
        for stem in stems:
            words = tuple(stem.split("_"))
            found[words] = (*found.get(words, ()), concept)
    return found


def sentences(text: str) -> Iterator[list[str]]:
    """Yield the words of each sentence of a normalised text; every number is one word."""
    left = _WORDS_MAX
    for sentence in _SENTENCE_END.split(text):
        words = list(_words(sentence))[:left]
        left -= len(words)
        if words:
            yield words


def _words(sentence: str) -> Iterator[str]:
    for match in _WORD.finditer(sentence):
        word = match[0]
        if word[0].isdigit():
            yield NUMBER
        elif word[0] < "\u4e00":
            yield word
        else:
            yield from (word[start : start + 2] for start in range(max(1, min(len(word), 60) - 1)))


def concepts(words: list[str]) -> set[str]:
    """Return the concepts of a sentence."""
    return {concept for row in _rows(words) for concept in _of(row)}


def _rows(words: list[str]) -> Iterable[tuple[str, ...]]:
    for length in (1, 2, 3):
        yield from zip(*(words[start:] for start in range(length)), strict=False)


def _of(row: tuple[str, ...]) -> Iterator[str]:
    stems, last = _stems(), row[-1]
    yield from stems.get(row, ())
    if len(row) > 1 and row[:1] not in _firsts():
        return
    for end in range(_WHOLE_CHARS_MAX + 1, min(len(last), 16)):
        yield from stems.get((*row[:-1], last[:end]), ())


@cache
def _firsts() -> frozenset[tuple[str, ...]]:
    return frozenset(row[:1] for row in _stems() if len(row) > 1)


def plain_words(text: str) -> Iterator[str]:
    """Yield the runs of letters of a path."""
    yield from re.findall("[a-z]+", text)
