"""Translate error messages in other languages to the English words of the tables.

Word stems are replaced, not sentences: the tables look for a subject near a complaint, with any grammar between them.
The tables have Chinese words of their own; only traditional characters are mapped here.
"""

import re
from itertools import islice

from holdfast.core.text.patterns import Pattern

# One line is an English word with its stems in Russian, Japanese and Korean, in this order. Longer stems precede their
# shorter prefixes.
_WORDS = r"""
timeout; тайм-?аут\w*|врем\w+ ожидания; タイムアウト; 시간 ?초과
invalid api key; (?:неверн|недействительн|просроченн|невалидн)\w* (?:\w+ )?(?:токен|ключ)\w*
invalid api key; (?:токен|ключ)\w* (?:\w+ )?(?:недействител|ист[её]к|просроч|неверн)\w*
rate limit; ; レート制限|回数制限
usage limit; ; 利用上限|使用量
api key; ; (?:api|認証)キー
too many requests; слишком част\w*
too many; слишком (?:много|больш\w+|велик\w*); 多すぎ; 너무 ?많
too long; слишком (?:длинн|дол[гж])\w*; 長すぎ; 너무 ?(?:깁|길|긴)
too large; ; 大きすぎ; 너무 ?(?:큽|크|큰)
at most; не (?:более|больше|должн\w+ превышать)
exceeds; превы[шс]\w+; 超え|超過; 초과|넘었
exhausted; исчерпан\w*|закончил\w+
limit; лимит\w*|ограничени\w+|предел\w*; 上限|制限; 한도|제한|상한
quota; квот\w+; ; 할당량
per minute; в минуту|за минуту|минутн\w+; 1分あたり|毎分; 분당
per second; в секунду
daily; в (?:день|сутки)|суточн\w+|дневн\w+
monthly; в месяц|месячн\w+
tokens; токен\w*; トークン数?; 토큰
request; запрос\w*; リクエスト|要求; 요청
context window; контекстн\w+ окн\w+|окн\w+ контекст\w*|контекст\w*
context length; ; コンテキスト(?:長|ウィンドウ|サイズ)?; (?:컨텍스트|콘텍스트|문맥)(?: ?(?:길이|윈도우|창))?
length; длин[аыуе]\w*; ; 길이
maximum; максим\w+; 最大; 최대
characters; символ\w*; 文字数?; 글자|문자
got; (?:передан|получен|отправлен|указан)\w*
model; модел[ьияе]\w*; モデル; 모델
not found; не найден\w*|не существует; 見つかりません|存在しません; 찾을 수 없|존재하지 않
overloaded; перегруж\w+; 混雑|過負荷; 과부하|혼잡
is busy; занят\w*
server; сервер\w*
try again later; (?:повторите|попробуйте)(?: \w+)? поз(?:же|днее)
try again later; ; しばらく(?:し|待|経)|後でもう一度|時間をおいて; 잠시 ?후|나중에 다시
insufficient balance; недостаточно средств|нет средств|баланс\w*
balance; ; 残高|クレジット; 잔액|크레딧
not enough; ; 不足; 부족
access denied; доступ (?:запрещ|закрыт)\w*|нет доступа
unauthorized; не ?авторизован\w*|авторизаци\w+
authentication; ; 認証; 인증
failed; ; 失敗; 실패
invalid; ; 無効; 유효하지 않|잘못된
internal error; внутренн\w+ ошибк\w+; 内部(?:サーバー?)?エラー; 내부 ?(?:서버 ?)?오류
image; изображени\w+|картин\w+; 画像; 이미지
file; файл\w*; ファイル; 파일
size; ; サイズ; 크기
input; ; 入力; 입력
prompt; ; プロンプト; 프롬프트
content policy; ; 不適切|ポリシー
"""
_TRADITIONAL = {
    "超過": "超过", "超長": "超长", "過長": "过长", "過大": "过大", "長度": "长度", "請求": "请求", "輸入": "输入",
    "餘額": "余额", "額度": "额度", "頻繁": "频繁", "過於": "过于", "繁忙": "繁忙", "圖片": "图片", "無效": "无效",
    "認證失敗": "认证失败", "逾時": "超时", "網路": "网络", "稍後": "稍后",
}  # fmt: skip
# Only stems without an English homograph: every text is searched, because an umlaut may be written as two letters.
_EUROPEAN = {
    r"(?:(?:ü|ue)berschr|(?:ü|ue)bersteig|dépass|exced|supera)\w*": "exceeds",
    r"(?:zu|trop|demasiado|muito) (?:lang|long|larg|longo|groß|gross|grand|grande|volumineu|extens)\w*": "too long",
    r"zu viele|trop de|demasiad[oa]s|muit[oa]s": "too many",
    r"límite|limite|grenze": "limit",
    r"máxim[oa]s?|maxim[ao]s?|maximal\w*|h(?:ö|oe)chst\w*": "maximum",
    r"erlaubt|zul(?:ä|ae)ssig\w*|permitid[oa]s?|autorisés?": "allowed",
    r"eingabe|saisie|entrada": "input",
    r"umfasst": "holds",
    r"jetons": "tokens",
    r"kontextl(?:ä|ae)nge|kontextfenster|longueur (?:du|de) contexte|contexto|contexte": "context length",
    r"(?:pro|par|por) minut[eo]": "per minute",
    r"anfragen?|requêtes?|solicitud(?:es)?|requisiç(?:ão|ões)": "request",
    r"modell|modèle|modelo": "model",
    r"nicht gefunden|introuvable|nexiste pas|no (?:se )?(?:encontr|existe)\w*|não (?:encontrad|existe)\w*": "not found",
    r"(?:api[- ]?)?schl(?:ü|ue)ssel|clé(?: dapi)?|clave(?: de api)?|chave(?: de api)?": "api key",
    r"ung(?:ü|ue)ltig\w*|invalide|inválid[oa]|non valide": "invalid",
    r"guthaben|solde|saldo": "balance",
    r"insuffisant|insuficiente|nicht ausreichend|reicht nicht": "not enough",
    r"(?:ü|ue)berlastet|surchargé|sobrecargado": "overloaded",
    r"sp(?:ä|ae)ter erneut|réessaye[zr]|inténtalo|tente novamente": "try again",
}


def _column(number: int) -> dict[str, str]:
    """Return the stems of one language with their English words."""
    rows = [line.split("; ") for line in _WORDS.strip().splitlines()]
    return {row[number]: row[0] for row in rows if number < len(row) and row[number]}


_STEMS = {
    **{rf"(?<!\w)(?:{stem})(?!\w)": english for stem, english in (_EUROPEAN | _column(1)).items()},
    # These are written without spaces, or with suffixes attached.
    **{f"(?:{stem})[がはをのにも]?": f" {english} " for stem, english in _column(2).items()},
    **{f"(?:{stem})[이가은는을를의]?": f" {english} " for stem, english in _column(3).items()},
    **_TRADITIONAL,
}
_ENGLISH = tuple(_STEMS.values())
_FOREIGN = Pattern("|".join(f"({stem})" for stem in _STEMS))
# The first of them, in the same order: the stems that may be pure ASCII.
_LATIN = Pattern("|".join(f"({stem})" for stem in islice(_STEMS, len(_EUROPEAN))))


def in_english(text: str) -> str:
    """Replace foreign stems by English ones. `text` is lower case; English text is unchanged."""
    return (_LATIN if text.isascii() else _FOREIGN).sub(_word, text)


def _word(match: re.Match[str]) -> str:
    # Stems have no capturing groups of their own, so the index of the group is that of the stem.
    return _ENGLISH[(match.lastindex or 1) - 1]
