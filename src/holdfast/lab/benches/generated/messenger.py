"""Generated group chats with questions, for `holdfast bench recall`: a second shape of chats with short turns.

Four or five people arrange errands and projects in terse lower-case messages without speakers' names in most chats.
Threads interleave, plans are changed later, and questions are requests ("remind me ...") in other words than the
messages. The vocabulary and the forms are not those of `conversations`. A seed gives the same chats everywhere.
"""

import random

from holdfast.lab.benches.generated.conversations import Conversation, Question
from holdfast.rescue.neutral import NeutralMessage, NeutralRole
from holdfast.types.messages import Text

# A thread: the word in the chat, words for it in questions, and words that come with it.
_THREADS = tuple(
    (said, tuple(asked.split(",")), tuple(related.split()))
    for said, asked, related in (
        line.split("|")
        for line in (
            "dentist|dentist,tooth appointment|filling insurance waiting room xray crown",
            "boiler|boiler,heating repair|plumber radiator pressure valve basement meter",
            "bus tickets|bus tickets,coach trip|seats luggage departure stop driver return",
            "school play|school play,kids' performance|costume lines rehearsal hall teacher programme",
            "tax return|tax return,paperwork for the tax office|receipts form accountant refund stamp folder",
            "sofa|sofa,couch|delivery fabric legs stairs cushions lift",
            "allotment|allotment,vegetable patch|slugs watering can potatoes shed hose nettles",
            "quiz night|quiz night,pub quiz|team points round answers buzzer prize",
            "broken laptop|broken laptop,computer|screen charger backup warranty keyboard repair",
            "birthday cake|birthday cake,cake|candles icing sponge layers box chocolate",
            "passport|passport,travel document|photo embassy fee signature courier queue",
            "canoe|canoe,boat rental|paddle vests river deposit dock shuttle",
            "wifi|wifi,internet line|router technician cable password outage contract",
            "hamster|hamster,small pet|wheel cage bedding vet seeds tunnel",
            "library fines|library fines,overdue books|desk renewal card shelf notice counter",
            "bike lock|bike lock,padlock|key combination rack spare chain shop",
            "choir|choir,singing group|alto score concert pianist chairs warm-up",
            "parking permit|parking permit,permit for the car|zone council sticker street plate form",
        )
    )
)
_NAMES = ("tilda", "omar", "wen", "katya", "joss", "priya", "emil", "noor", "fabio", "ulla")
_CHANGES = (
    "{v} for the {s} then",
    "ok so {s}: {v}",
    "just heard back about the {s}, it's {v} now. bring the {a}",
    "moved the {s} thing, {v}, sorry!! the {a} was the problem",
    "{v} 👍 and don't forget the {a}",
)
_KINDS = {
    "time": (
        ("thu 14:30", "sat morning", "the 22nd at noon", "monday after work", "tomorrow 9ish", "fri 18:15"),
        ("remind me when the {q} is", "what time did we settle on for the {q}", "which day was the {q} with the {a}"),
    ),
    "cost": (
        ("45 quid", "about 120 euros", "nothing, it's free", "8.50 each", "two hundred all in", "60 plus tip"),
        ("how much was the {q} going to be", "what does the {q} cost us", "price of the {q} and the {a}?"),
    ),
    "person": (
        ("my brother does it", "ulla's neighbour", "the tall guy from work", "aunt bea", "mr okafor", "coach lind"),
        (
            "who was going to help with the {q}",
            "name of the person for the {q}",
            "who takes care of the {q} and the {a}",
        ),
    ),
    "place": (
        ("round the corner at no 9", "upstairs hall", "by the west gate", "at ours", "station exit b", "old mill lane"),
        ("where do we meet for the {q}", "location of the {q} again?", "where was the {q} with the {a} supposed to be"),
    ),
}
_TALK = (
    "any update on the {s}?",
    "ugh the {a} again",
    "lol same",
    "can someone check the {a} and the {b}",
    "i'm out till late, will read later",
    "did anybody call about the {s}",
    "the {b} is fine, it's the {a} that worries me",
    "👍",
    "haha no way",
    "ok noted",
    "need more time for the {s} tbh",
    "who has the {b}?",
)
# Arrangements of a chat, share of changed ones, share of questions in the chat's own word, and of messages with a name.
_ARRANGEMENTS, _CHANGED_SHARE, _OWN_WORD_SHARE, _NAMED_SHARE = 40, 0.3, 0.6, 0.4


def group_chat(seed: int) -> Conversation:
    """Return a group chat in which threads interleave."""
    chance = random.Random(f"messenger {seed}")  # noqa: S311 - the same chats for the same seed
    people = chance.sample(_NAMES, chance.randint(4, 5))
    is_named = chance.random() < _NAMED_SHARE
    messages: list[NeutralMessage] = []
    questions: dict[str, tuple[int, ...]] = {}

    def say(text: str) -> int:
        shown = f"{chance.choice(people)}: {text}" if is_named else text
        messages.append(NeutralMessage(f"messenger-{seed}", len(messages), NeutralRole.USER, (Text(shown),)))
        return len(messages) - 1

    def fill(text: str, thread: tuple[str, tuple[str, ...], tuple[str, ...]], **more: str) -> str:
        a, b = chance.sample(thread[2], 2)
        return text.format(**({"s": thread[0], "a": a, "b": b} | more))

    for _ in range(_ARRANGEMENTS):
        thread, other = chance.sample(_THREADS, 2)
        kind = chance.choice(tuple(_KINDS))
        values, asked = _KINDS[kind]
        detail = chance.choice(thread[2])
        answers: list[int] = []
        for _ in range(2 if chance.random() < _CHANGED_SHARE else 1):
            say(fill(chance.choice(_TALK), thread, a=detail))
            for _ in range(chance.randint(0, 3)):
                say(fill(chance.choice(_TALK), chance.choice((thread, other))))
            answers.append(say(fill(chance.choice(_CHANGES), thread, v=chance.choice(values), a=detail)))
            for _ in range(chance.randint(1, 5)):
                say(fill(chance.choice(_TALK), chance.choice((thread, other))))
        word = thread[1][0] if chance.random() < _OWN_WORD_SHARE else thread[1][1]
        question = chance.choice(asked).format(q=word, a=detail)
        questions[question] = (*questions.get(question, ()), *answers)
    return Conversation(tuple(messages), tuple(Question(text, found) for text, found in questions.items()))
