"""Refusals in other languages, read with the same tables as English ones."""

import pytest

from holdfast.core.faults.classifier import classify
from holdfast.core.faults.translations import in_english
from holdfast.types.faults import FaultKind, Phase, Refusal

K = FaultKind


@pytest.mark.parametrize(
    ("message", "status", "kind", "limit", "requested"),
    [
        ("Слишком много токенов: 33000 при лимите 32768", 400, K.TOKEN_OVERFLOW, 32768, 33000),
        ("Превышена максимальная длина контекста", 400, K.TOKEN_OVERFLOW, None, None),
        ("Лимит запросов в минуту исчерпан", 429, K.RATE_LIMIT, None, None),
        ("Недостаточно средств на счёте", 403, K.QUOTA, None, None),
        ("Неверный токен доступа", 400, K.AUTH, None, None),
        ("Модель не найдена", 404, K.MODEL_NOT_FOUND, None, None),
        ("Сервер перегружен, попробуйте позже", 503, K.OVERLOADED, None, None),
        ("入力トークン数が上限 8192 を超えています", 400, K.TOKEN_OVERFLOW, 8192, None),
        ("リクエストが多すぎます。レート制限に達しました", 429, K.RATE_LIMIT, None, None),
        ("指定されたモデルが見つかりません", 404, K.MODEL_NOT_FOUND, None, None),
        ("現在混雑しています。しばらくしてから再度お試しください", 503, K.OVERLOADED, None, None),
        ("残高が不足しています", 403, K.QUOTA, None, None),
        ("토큰 수가 최대 8192개를 초과했습니다", 400, K.TOKEN_OVERFLOW, 8192, None),
        ("분당 요청 한도를 초과했습니다", 400, K.RATE_LIMIT, None, None),
        ("잔액이 부족합니다", 403, K.QUOTA, None, None),
        ("輸入長度超過模型上下文", 400, K.TOKEN_OVERFLOW, None, None),
        ("Se ha superado el límite de tokens: máximo 8192", 400, K.TOKEN_OVERFLOW, 8192, None),
        ("La requête dépasse la limite de 8192 jetons", 400, K.TOKEN_OVERFLOW, 8192, None),
        ("Die Anfrage überschreitet die maximale Kontextlänge von 8.192 Tokens", 400, K.TOKEN_OVERFLOW, 8192, None),
        ("Ungültiger API-Schlüssel", 400, K.AUTH, None, None),
    ],
)
def test_a_refusal_in_another_language_is_read_like_one_in_english(
    message: str, status: int, kind: FaultKind, limit: int | None, requested: int | None
) -> None:
    fault = classify(Refusal("other", Phase.RESPONSE, status, body=message))

    assert (fault.kind, fault.limit, fault.requested) == (kind, limit, requested)


def test_english_passes_as_it_is() -> None:
    assert in_english("the limit of tokens: modeled, maximise") == "the limit of tokens: modeled, maximise"


def test_umlauts_written_as_two_letters_are_read_as_well() -> None:
    assert in_english("anfrage ueberschreitet die kontextlaenge") == "request exceeds die context length"
