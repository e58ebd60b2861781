"""Generated conversations, and the recall of the search in them."""

from collections.abc import Callable

import pytest

from holdfast.core.search.tokenizer import words
from holdfast.lab.benches.generated.conversations import Conversation, Question, answers_found, long_turns, short_turns
from holdfast.lab.benches.generated.messenger import group_chat
from holdfast.lab.benches.recall import (
    CHAT_5_FLOOR,
    CHAT_10_FLOOR,
    ESSAYS_10_FLOOR,
    RecallReport,
    ShapeRecall,
    measure_shape,
)
from holdfast.rescue.neutral import NeutralRole
from holdfast.types.messages import text_of

KEPT = ShapeRecall(1, 1.0, 1.0)


def sizes(conversation: Conversation, role: NeutralRole) -> list[int]:
    return [len(text_of(message.parts).split()) for message in conversation.messages if message.role is role]


@pytest.mark.parametrize("shape", [short_turns, group_chat, long_turns])
def test_a_seed_gives_the_same_conversation_and_another_seed_another(shape: Callable[[int], Conversation]) -> None:
    assert shape(3) == shape(3)
    assert shape(3) != shape(4)


@pytest.mark.parametrize("seed", [0, 100])
def test_chats_have_short_turns_and_essays_have_long_answers(seed: int) -> None:
    talk, requests = short_turns(seed), long_turns(seed)

    assert max(sizes(talk, NeutralRole.USER)) < 60
    assert max(sizes(requests, NeutralRole.USER)) < 80
    assert sum(sizes(requests, NeutralRole.ASSISTANT)) > 200 * len(sizes(requests, NeutralRole.ASSISTANT))
    assert len(talk.questions) > 30
    assert len(requests.questions) > 150


@pytest.mark.parametrize("shape", [short_turns, group_chat, long_turns])
def test_questions_differ_from_their_answers_in_most_words(shape: Callable[[int], Conversation]) -> None:
    conversation = shape(5)
    shares = [
        len(set(words(question.text)) & set(words(text_of(conversation.messages[question.answers[0]].parts))))
        / len(set(words(question.text)))
        for question in conversation.questions
    ]

    assert 0.2 < sum(shares) / len(shares) < 0.6
    assert min(shares) <= 0.25


def test_recall_is_the_share_of_the_answers() -> None:
    assert answers_found([4, None, 9], Question("who?", (9, 12))) == 0.5


def test_searches_find_what_was_said_in_chats_and_beside_essays() -> None:
    talks = measure_shape(short_turns(seed) for seed in range(200, 206))
    requests = measure_shape([long_turns(200)])

    assert talks.questions > 200
    assert talks.recall_5 >= CHAT_5_FLOOR
    assert talks.recall_10 >= CHAT_10_FLOOR
    assert requests.recall_10 >= ESSAYS_10_FLOOR


@pytest.mark.parametrize(
    "broken", ["path_recall_5", "other_agent_recall_5", "hit_5", "hit_10", "short_turns", "group_chats", "long_turns"]
)
def test_every_shape_has_a_promise(broken: str) -> None:
    kept = {
        "path_recall_5": 1.0,
        "other_agent_recall_5": 1.0,
        "hit_5": 1.0,
        "hit_10": 1.0,
        "short_turns": KEPT,
        "group_chats": KEPT,
        "long_turns": KEPT,
    }
    low = ShapeRecall(1, 0.1, 0.1) if isinstance(kept[broken], ShapeRecall) else 0.1
    reports = [
        RecallReport(paths=1, path_end_recall_5=0, file_name_recall_5=0, other_agent_paths=1, questions=1, **shares)  # type: ignore[arg-type]  # of two types
        for shares in (kept, kept | {broken: low})
    ]

    assert [report.is_kept for report in reports] == [True, False]
