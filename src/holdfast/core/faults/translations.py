"""Translate error messages in other languages to the English words of the tables.

Word stems are replaced, not sentences: the tables look for a subject near a complaint, with any grammar between them.
The tables have Chinese words of their own; only traditional characters are mapped here.
"""

import re
from itertools import islice

from holdfast.core.text.patterns import Pattern

# Longer stems precede their shorter prefixes.
_RUSSIAN = {
    r"(?:неверн|недействительн|просроченн|невалидн)\w* (?:\w+ )?(?:токен|ключ)\w*": "invalid api key",
    r"(?:токен|ключ)\w* (?:\w+ )?(?:недействител|ист[её]к|просроч|неверн)\w*": "invalid api key",
    r"слишком (?:много|больш\w+|велик\w*)": "too many",
    r"слишком (?:длинн|дол[гж])\w*": "too long",
    r"слишком част\w*": "too many requests",
    r"не (?:более|больше|должн\w+ превышать)": "at most",
    r"превы[шс]\w+": "exceeds",
    r"исчерпан\w*|закончил\w+": "exhausted",
    r"лимит\w*|ограничени\w+|предел\w*": "limit",
    r"квот\w+": "quota",
    r"в минуту|за минуту|минутн\w+": "per minute",
    r"в секунду": "per second",
    r"в (?:день|сутки)|суточн\w+|дневн\w+": "daily",
    r"в месяц|месячн\w+": "monthly",
    r"токен\w*": "tokens",
    r"запрос\w*": "request",
    r"контекстн\w+ окн\w+|окн\w+ контекст\w*|контекст\w*": "context window",
    r"длин[аыуе]\w*": "length",
    r"максим\w+": "maximum",
    r"символ\w*": "characters",
    r"(?:передан|получен|отправлен|указан)\w*": "got",
    r"модел[ьияе]\w*": "model",
    r"не найден\w*|не существует": "not found",
    r"перегруж\w+": "overloaded",
    r"занят\w*": "is busy",
    r"сервер\w*": "server",
    r"(?:повторите|попробуйте)(?: \w+)? поз(?:же|днее)": "try again later",
    r"недостаточно средств|нет средств|баланс\w*": "insufficient balance",
    r"доступ (?:запрещ|закрыт)\w*|нет доступа": "access denied",
    r"не ?авторизован\w*|авторизаци\w+": "unauthorized",
    r"внутренн\w+ ошибк\w+": "internal error",
    r"тайм-?аут\w*|врем\w+ ожидания": "timeout",
    r"изображени\w+|картин\w+": "image",
    r"файл\w*": "file",
}
_JAPANESE = {
    r"レート制限|回数制限": " rate limit ",
    r"利用上限|使用量": " usage limit ",
    r"残高|クレジット": " balance ",
    r"不足": " not enough ",
    r"トークン数?": " tokens ",
    r"コンテキスト(?:長|ウィンドウ|サイズ)?": " context length ",
    r"最大": " maximum ",
    r"上限|制限": " limit ",
    r"超え|超過": " exceeds ",
    r"長すぎ": " too long ",
    r"大きすぎ": " too large ",
    r"多すぎ": " too many ",
    r"リクエスト|要求": " request ",
    r"入力": " input ",
    r"プロンプト": " prompt ",
    r"文字数?": " characters ",
    r"モデル": " model ",
    r"見つかりません|存在しません": " not found ",
    r"1分あたり|毎分": " per minute ",
    r"しばらく(?:し|待|経)|後でもう一度|時間をおいて": " try again later ",
    r"混雑|過負荷": " overloaded ",
    r"(?:api|認証)キー": " api key ",
    r"認証": " authentication ",
    r"失敗": " failed ",
    r"無効": " invalid ",
    r"画像": " image ",
    r"ファイル": " file ",
    r"サイズ": " size ",
    r"内部(?:サーバー?)?エラー": " internal error ",
    r"タイムアウト": " timeout ",
    r"不適切|ポリシー": " content policy ",
}
_KOREAN = {
    r"시간 ?초과": " timeout ",
    r"토큰": " tokens ",
    r"(?:컨텍스트|콘텍스트|문맥)(?: ?(?:길이|윈도우|창))?": " context length ",
    r"길이": " length ",
    r"최대": " maximum ",
    r"한도|제한|상한": " limit ",
    r"초과|넘었": " exceeds ",
    r"너무 ?(?:깁|길|긴)": " too long ",
    r"너무 ?(?:큽|크|큰)": " too large ",
    r"너무 ?많": " too many ",
    r"요청": " request ",
    r"입력": " input ",
    r"프롬프트": " prompt ",
    r"글자|문자": " characters ",
    r"모델": " model ",
    r"찾을 수 없|존재하지 않": " not found ",
    r"분당": " per minute ",
    r"잠시 ?후|나중에 다시": " try again later ",
    r"과부하|혼잡": " overloaded ",
    r"인증": " authentication ",
    r"실패": " failed ",
    r"유효하지 않|잘못된": " invalid ",
    r"잔액|크레딧": " balance ",
    r"부족": " not enough ",
    r"할당량": " quota ",
    r"이미지": " image ",
    r"파일": " file ",
    r"크기": " size ",
    r"내부 ?(?:서버 ?)?오류": " internal error ",
}
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

_STEMS = {
    **{rf"(?<!\w)(?:{stem})(?!\w)": english for stem, english in (_EUROPEAN | _RUSSIAN).items()},
    # These are written without spaces, or with suffixes attached.
    **{f"(?:{stem})[がはをのにも]?": english for stem, english in _JAPANESE.items()},
    **{f"(?:{stem})[이가은는을를의]?": english for stem, english in _KOREAN.items()},
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
