"""Words of error messages: other languages in English, and the concepts that the model votes over.

Both tables have an entry for each meaning: its name and its words up to a semicolon; "_" is a space. Everything behind
these tables reads English only, and a reworded sentence counts by its concepts.
"""

import re
from collections.abc import Iterator

from holdfast.core.text.patterns import Pattern

# Words count anywhere in a text that is not ASCII, as stems. An entry precedes those whose words are a part of it.
_FOREIGN = """
timeout タイムアウト 시간_초과 시간초과 超时 逾時; memory 显存 内存; invalid_api_key 无效的令牌; api_key schlüssel;
 too_many_requests слишком_част 请求过于频繁; at_most не_более не_больше 最多 不能超过 不得超过 不超过; too_many
 слишком_много zu_viele trop_de 多すぎ 너무_많; too_long слишком_длинн zu_lang trop_long demasiado_larg 長すぎ 너무_깁
 过长; too_large слишком_больш zu_groß trop_grand 大きすぎ 过大; exceeds превыш überschr dépass exced supera 超え 초과
 超过 超過 超出 超长; exhausted исчерпан 用完; not_enough недостаточно insuffisant insuficiente 不足 부족; per_minute
 в_минуту pro_minute par_minute por_minuto 毎分 분당 每分钟; rate_limit レート制限 频率 频繁 限流 速率; limit лимит
 límite limite grenze 上限 制限 한도 제한 限制; maximum максим máxim maximal höchst 最大 최대; quota квот 额度 配额
 用量; tokens токен jetons トークン 토큰; request запрос anfrage requête solicitud リクエスト 요청 请求; context_window
 контекст kontextlänge kontextfenster contexto contexte コンテキスト 컨텍스트 上下文; length длин 길이 长度 長度; input
 eingabe entrada 入力 입력 输入 輸入; output 输出; characters символ 文字数 글자 字符 字数; got передан получен 实际
 当前; not_found не_найден nicht_gefunden introuvable 見つかりません 찾을_수_없 不存在; model модел modell modèle
 modelo モデル 모델 模型; overloaded перегруж überlastet surchargé 混雑 과부하 负载 满载 饱和 繁忙; try_again_later
 попробуйте_позже повторите_позже しばらく 稍后 重试; balance средств guthaben solde saldo 残高 잔액 余额 欠费 充值;
 access_denied доступ_запрещ 无权; authentication 認証 인증 认证 令牌; invalid неверн ungültig inválid 無効 无效;
 internal_error внутренн_ошибк 内部; network 网络; image изображени 画像 이미지 图片 图像 张图; size サイズ 크기 大小;
 content_policy 敏感 违规; parameter 参数
"""

# A stem of four letters and more is a prefix; a shorter one is a whole word. A stem may have several concepts.
_CONCEPTS = """
over exceed overflow too_long too_large too_big too_many longer larger greater beyond over_the above no_more overrun
 long_for large_for not_fit reduce shorten truncat trim; limit limit max maximum cap ceiling bound upper range allowed
 at_most up_to less_than; least minimum min at_least below smaller_than greater_than_or too_small too_short not_less;
 token token; window context window ctx kv_cache num_ctx; prompt prompt input conversation history messages sequence
 transcript session_max; request request; output max_tokens max_completion max_new max_output completion output
 generated generation maxoutputtokens maximum_tokens_you tokens_to_generate; bytes byte bytes mb kb mib payload entity
 body content_length size upload; chars character char chars string_length string_too maxlength; count items array
 list elements entries number_of count; media image video audio pdf photo picture base media multimodal vision png
 jpeg webp gif wav attachment inlinedata clip heic bmp tiff svg; file file document page upload; unreadable decode
 corrupt unsupported format dimension pixel resolution mime width height unread encrypted download fetch; rate rate
 throttl rpm tpm qps concurren too_many_requests frequen slow_down burst request_limit simultaneous parallel cooldown
 throughput; minute minute second sec hour per_min tpm rpm tpd; day day daily month monthly week
 weekly; money credit balance billing payment pay quota plan subscription afford budget arrear overdue recharge
 purchase upgrade spend usage_limit extra_usage trial wallet prepaid cost invoice top_up kudos hit_your; again retry
 try_again later wait back_off shortly; busy overload capacity busy unavailable demand traffic loading warm queue
 scaling maintenance cold_start not_ready high_load no_workers out_of_capacity no_healthy no_available degraded;
 broken internal timeout timed connection reset upstream gateway crash abort network socket tls ssl econn eof
 unreachable refused unexpected_error deadline hang cuda memory fetch_failed service_down went_wrong exception
 unhandled handshake getaddrinfo enotfound; key api_key apikey credential authentic authoriz unauthor
 permission forbidden denied login log_in sign_in jwt bearer secret access oauth invalid_token expired suspended
 deactivat disabled banned restricted region country location verif scope whitelist organization workspace account
 identity captcha user_not; model model deployment endpoint engine; gone not_found not_exist no_such unknown deprecat
 retired no_longer not_available not_supported unrecogni invalid_model unsupported_model removed offline identifier_is
 model_name; path path route url resource page_not method; thinking thinking reasoning effort signature encrypted
 thought budget_tokens redacted; tool tool_call tool_use tool_result toolu tool_id call_id function_call functioncall
 tool function; paired no_matching followed following without corresponding preceding previous match orphan alternat
 role roles consecutive order respond immediately last_message first_message must_end must_start same_number
 ending_with single_turn; policy content_filter policy safety moderat sensitive flagged violat harm blocked
 inappropriat prohibited guardrail filtered unsafe responsible risk jailbreak copyright nsfw model_refused declined
 disallowed illegal violence toxic pii abuse; empty empty no_content no_output no_choices nothing no_response no_text
 no_candidate blank no_message no_usable; setting parameter argument field schema property keyword option param
 settings value type json validation valid invalid malformed extra unexpected unrecogni required missing must_be
 should_be expected parse syntax; stream stream ended premature idle incomplete disconnect closed no_data interrupted
 stalled chunk terminated hang_up no_first
"""

_WORDS_MAX = 300
_WORD = Pattern(r"[a-z]+|\d[\d,._]*|[<>]=?")
# The last two are the Chinese full stop and semicolon.
SENTENCE_END = Pattern("[.!?] |[;\u3002\uff1b]")
NUMBER = "#"


def _entries(table: str) -> Iterator[tuple[str, list[str]]]:
    for entry in table.split(";"):
        meaning, *words = (word.replace("_", " ") for word in entry.split())
        yield meaning, words


_ENGLISH = tuple(f" {meaning} " for meaning, _ in _entries(_FOREIGN))
_ANY_FOREIGN = Pattern("|".join(f"({'|'.join(words)})" for _, words in _entries(_FOREIGN)))
# A stem whose last word is short.
_SHORT = re.compile(r"\b[a-z]{1,3}$")
_STEMS: dict[str, list[str]] = {}
for _concept, _words in _entries(_CONCEPTS):
    for _word in _words:
        _STEMS.setdefault(_word, []).append(_concept)
# The longest stem at the beginning of each word.
_LONGEST_FIRST = (_SHORT.sub(r"\g<0>(?![a-z])", stem) for stem in sorted(_STEMS, key=len, reverse=True))
_ANY_STEM = Pattern(rf"(?<![a-z])(?=({'|'.join(_LONGEST_FIRST)}))")


def in_english(text: str) -> str:
    """Replace the known words of other languages by English ones. `text` is lower case; ASCII is taken for English."""
    return text if text.isascii() else _ANY_FOREIGN.sub(lambda match: _ENGLISH[(match.lastindex or 1) - 1], text)


def sentences(text: str) -> Iterator[list[str]]:
    """Yield the words of each sentence of a normalised text; every number is one word."""
    left = _WORDS_MAX
    for sentence in SENTENCE_END.split(text):
        words = [NUMBER if match[0][0].isdigit() else match[0] for match in _WORD.finditer(sentence)][:left]
        left -= len(words)
        if words:
            yield words


def concepts(words: list[str]) -> set[str]:
    """Return the concepts of a sentence."""
    return {concept for match in _ANY_STEM.finditer(" ".join(words)) for concept in _STEMS[match[1]]}
