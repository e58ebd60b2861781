"""Generated conversations with questions, for `holdfast bench recall`.

Two shapes: two people who chat over many days in short turns, and a person whose requests a model answers with essays.
A question names its subject by another word than the answer does in most cases, other days return to the same subject
without the answer, and the turns around an answer share words with it. A seed gives the same conversations everywhere.
"""

import random
from collections.abc import Sequence

import msgspec

from holdfast.rescue.neutral import NeutralMessage, NeutralRole
from holdfast.types.messages import Text


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


# A subject: the word in conversations, the word in questions, and words that come with it.
_SUBJECTS = tuple(
    (said, asked, tuple(related.split()))
    for said, asked, related in (
        line.split("|")
        for line in (
            "pottery|ceramics|clay wheel kiln glaze bowl studio mug bench apron shelf",
            "marathon|long run|shoes pace knee training finish medal blister hill crowd water",
            "adoption|adopting a child|agency papers interview home family social worker waiting list",
            "violin|music lessons|strings bow teacher scales recital practice tune rosin case sheet",
            "puppy|dog|leash vet walk collar treats crate bark fur park vaccine",
            "garden|growing vegetables|tomatoes soil seeds shovel compost rain beans fence weeds basil",
            "camping|trip outdoors|tent fire lake stove marshmallows stars hike bears sleeping bag",
            "startup|new business|investors office product pitch customers logo funding team launch website",
            "painting|artwork|canvas brush sunset colours oil gallery frame portrait easel sketch",
            "surgery|operation|hospital doctor nurse recovery pain stitches clinic scan pills bed",
            "wedding|getting married|dress guests cake venue ring flowers band vows aunt speech",
            "novel|writing a book|chapter draft publisher characters plot editor ending pages reader title",
            "car|vehicle|engine brakes garage mechanic tyre oil insurance dent road keys",
            "guitar|instrument|chords amplifier band song stage gig pick record fans riff",
            "recipe|cooking|oven flour butter onions soup spices dinner pan dough taste",
            "yoga|exercise class|mat stretch breathing pose studio balance calm morning teacher back",
            "exam|test at university|professor library notes grades lecture essay deadline semester library campus",
            "apartment|place to live|rent landlord kitchen balcony boxes lease keys neighbour stairs lamp",
            "volunteering|charity work|shelter food donation homeless kitchen shift kids clothes organiser drive",
            "photography|taking pictures|camera lens light portrait album prints exhibition tripod shutter flash",
            "chess|board games|tournament opening rook club clock opponent trophy moves king board",
            "swimming|water sport|pool lanes coach goggles strokes beach waves towel laps shore",
            "job|career change|interview manager salary contract office colleagues offer boss desk shift",
            "cat|kitten|litter whiskers sofa purr vet food scratch tail window collar",
            "theatre|acting|stage script rehearsal audience costume role director lines curtain play",
            "bicycle|cycling|helmet chain trail gears wheel hill lane race repair bell",
            "grandmother|older relative|stories village letters necklace recipes photos kitchen visit birthday garden",
            "mountain|climbing|rope summit snow guide boots cliff view weather cabin trail",
            "bakery|pastry shop|croissant bread oven queue counter cinnamon opening morning coffee sign",
            "migraine|headaches|light pills doctor sleep screen nausea diary trigger rest dark",
            "museum|exhibition|dinosaurs tickets guide paintings hall statue tour kids history shop",
            "podcast|audio show|microphone episode listeners guest editing topic studio sponsor voice intro",
        )
    )
)

_NAMES = _phrases("Ana,Bruno,Carla,Deniz,Elif,Farid,Greta,Hugo,Ines,Jonas,Kira,Luca,Mona,Nils,Olga,Pavel,Rosa,Sami")
_PLACES = _phrases(
    "Lisbon,the old harbour,Maple Street,the community centre,Boston,my cousin's farm,the north shore,Kyoto,"
    "the university,the church hall,Denver,the river bank,Vermont,the mall,Camden"
)
_TIMES = _phrases(
    "last Friday,two weeks ago,on my birthday,the Sunday before Easter,yesterday morning,in early June,last summer,"
    "the week after Thanksgiving,on the ninth,three years ago"
)
_THINGS = _phrases(
    "a blue scarf,a silver whistle,an old map,two lamps,a wooden box,a red notebook,a jar of honey,a paper lantern,"
    "a small drum,a signed poster,a green hat,a pocket knife"
)
_MOODS = _phrases("proud,scared,relieved,exhausted,thankful,nervous,over the moon,a bit lost,at peace,jealous")
# Circumstances that tell one occasion from another.
_DETAILS = _phrases(
    "during the storm,before the flight,after the flu,with a broken phone,in the fog,on a tight budget,at sunrise,"
    "despite the traffic,between two meetings,with the twins,after the funeral,for the anniversary,without a map,"
    "under the bridge,with borrowed money,because of the strike,over the holidays,in heavy snow,after the graduation,"
    "with the choir,for the reunion,after the power cut,in the heat wave,before the move,with a sprained ankle,"
    "at the festival,for the magazine,during the parade,after the promotion,with the exchange student"
)
_FORMS = {"place": _PLACES, "time": _TIMES, "person": _NAMES, "thing": _THINGS, "mood": _MOODS}

# Ways to say a fact and to ask for it. {a} and {b} are words that come with the subject {s}; {v} is the answer.
_FACTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "place": (
        (
            "Went over to {v} with my {a}, it was so worth the drive!",
            "{v}, actually! They have a proper {a} there and the {b} was lovely.",
            "I found one at {v}. The {a} is a little worn but I love the {s}.",
            "We ended up in {v} because the {a} was closed, can you believe it?",
        ),
        (
            "Where did {who} go for the {q}?",
            "In which location did {who} have the {q} and the {a}?",
            "What place did {who} choose for {q}?",
        ),
    ),
    "time": (
        (
            "It was {v}, I still have the {a} on my desk.",
            "{v}! Time flies, I had barely unpacked the {a} and the {b}.",
            "I finally did the {s} thing {v} and I can't stop smiling.",
            "Started {v}. My {a} already looks used, haha.",
        ),
        ("When did {who} start with {q}?", "When was {who}'s {q}?", "What date did {who} do the {q} with the {a}?"),
    ),
    "person": (
        (
            "{v} came with me and held my {a} the whole time.",
            "My friend {v} taught me, she is amazing with a {a}.",
            "{v} did! We shared one {a} and laughed about the {s} all evening.",
            "Mostly {v}. Without that help the {a} would still be broken.",
        ),
        (
            "Who helped {who} with the {q}?",
            "Who accompanied {who} for {q}?",
            "Which friend supported {who} with the {a}?",
        ),
    ),
    "thing": (
        (
            "They gave me {v} at the end, next to the {a}. I nearly cried.",
            "I bought {v} for it, and a new {a} too.",
            "You should see {v} that I made, it sits beside the {a}.",
            "{v}, from the {s} people! It goes so well with my {b}.",
        ),
        (
            "What did {who} receive after the {q}?",
            "What item did {who} get for the {q}?",
            "What object does {who} keep near the {a}?",
        ),
    ),
    "mood": (
        (
            "Honestly I felt {v}, standing there with the {a}.",
            "A bit {v}, to tell you the truth. The {a} did not help.",
            "{v}! After all that work on the {s}, finally.",
            "I was {v} for days, even the {b} reminded me.",
        ),
        (
            "How did {who} feel about the {q}?",
            "What were {who}'s emotions during the {q}?",
            "How did the {q} affect {who}?",
        ),
    ),
}
_OPENERS = (
    "So how is the {s} going?",
    "Any news about the {s}?",
    "Tell me more about the {a}, I am curious!",
    "Last time you mentioned the {s}. And then?",
    "How did you manage the {a} and the {b}?",
    "What happened with the {s} in the end?",
)
_REMARKS = (
    "Wow, that sounds wonderful! I love how you keep going.",
    "The {a} again, haha. You and your {s}!",
    "I know the feeling. My {a} was the same back then.",
    "That is so cool, keep me posted about the {s}.",
    "It takes patience, but the {b} makes up for it.",
    "I have been thinking about {s} too, maybe one day.",
    "Thanks, {other}! It means a lot to me.",
    "Right? And the {a} was the best part of the whole {s}.",
    "Sorry to hear that. Take it slowly and rest.",
    "Hope you get some time for yourself this weekend.",
    "Here is a picture of the {a}, look at the {b}!",
    "Yes, the {s} keeps me busy, and work is work as usual.",
)
_GREETINGS = (
    "Hey {other}! Long time no see. How have you been?",
    "Hi {other}, good to hear from you! What's new?",
    "Morning {other}! I had such a busy week.",
)

_REQUESTS = (
    "I'm looking into {q} at the moment. {fact} Could you suggest how to choose a {a} and a {b}?",
    "{fact} Anyway, can you give me some tips on {s}?",
    "Can you explain what matters most about the {a}? By the way, {fact}",
    "I need a plan for next month. {fact} What should I do about the {b}?",
)
_PLAIN_REQUESTS = (
    "Could you give me an overview of {s} for beginners?",
    "What are the pros and cons of the {a} compared with the {b}?",
    "Thanks, that helps. Can you go deeper into the {a}?",
    "How do people usually combine {s} with a {a}?",
)
_ESSAY = (
    "When it comes to {s}, the {a} deserves attention before the {b} does.",
    "Many people start {s} with a simple {a} and improve it over time.",
    "**{a}**: consider the cost, the quality and the time that {s} needs.",
    "A good {b} will help you to feel comfortable, whether you are at home or on a trip.",
    "Where possible, choose a {a} that fits your budget and ask a friend who knows {q}.",
    "Research shows that people who plan the {b} early receive better results with {q}.",
    "You may want to start with the {a}, then move on to the {b} when you are ready.",
    "Remember that every person is different: what helped one may not help another with {s}.",
    "In summary, keep the {a} in good condition and review the {b} once a month.",
    "Here are some tips: check the {a}, compare the {b}, and write down what you did.",
    "Things may go differently {d}: keep a second {a} at hand, and note how you feel about it.",
    "Did a friend support you, or did you start on your own? Either way, {q} {d} takes some care.",
    "When you receive a {b} or get a new {a}, note the date and the location where you keep it.",
    "It sounds like {q} has been on your mind {d}, so let us go through the {a} step by step.",
    "Finally, do not forget to enjoy {q}; it is supposed to be rewarding!",
)
# Facts in essays: the form, the sentence and the question.
_TOLD = (
    ("place", "One place that stands out is {v}, known for its {a}.", "Which place did you recommend for {q}?"),
    ("person", "A specialist that I would name here is {v}, who works with the {a}.", "Who is the specialist for {q}?"),
    (
        "thing",
        "As a small present I would suggest {v}, which goes with a {b}.",
        "What present did you suggest for {q}?",
    ),
)


class Question(msgspec.Struct, frozen=True):
    """A question, and the numbers of the messages that answer it."""

    text: str
    answers: tuple[int, ...]


class Conversation(msgspec.Struct, frozen=True):
    """A generated conversation with its questions."""

    messages: tuple[NeutralMessage, ...]
    questions: tuple[Question, ...]


class _Occasion:
    """A talk about a subject: fills the gaps of sentences, mostly with the two words that this talk is about."""

    def __init__(self, chance: random.Random, subject: tuple[str, str, tuple[str, ...]]) -> None:
        self._chance = chance
        self._said, self._asked, self._related = subject
        self._focus = chance.sample(self._related, 2)
        self._detail = chance.choice(_DETAILS)

    def fill(self, sentence: str, **more: str) -> str:
        """Return a sentence about this subject."""
        words = self._focus if self._chance.random() < _FOCUS_SHARE else self._related
        a, b = self._chance.sample(words, 2)
        detail = self._detail if self._chance.random() < _FOCUS_SHARE else self._chance.choice(_DETAILS)
        return sentence.format(**({"s": self._said, "q": self._asked, "a": a, "b": b, "d": detail} | more))

    def fact(self, kind: str, answer: str) -> str:
        """Return a sentence with a fact, often with the circumstances."""
        said = self.fill(self._chance.choice(_FACTS[kind][0]), v=answer)
        return (
            said[0].upper() + said[1:] + (f" That was {self._detail}." if self._chance.random() < _DETAIL_SHARE else "")
        )

    def question(self, sentences: Sequence[str], who: str = "") -> str:
        """Return a question for a fact, which names the occasion by a word or by its circumstances."""
        asked = self._asked if self._chance.random() < _OTHER_WORD_SHARE else self._said
        a, b = self._chance.sample(self._focus, 2)
        sentence = self._chance.choice(sentences).format(q=asked, a=a, b=b, who=who)
        hint = self._chance.choice((f" with the {a}", f" and the {b}", f" {self._detail}", f" {self._detail}"))
        return sentence.removesuffix("?") + hint + "?"


# Share of the sentences with the words that a talk is about.
_FOCUS_SHARE = 0.6
# Share of the questions that name the subject by another word than the conversation.
_OTHER_WORD_SHARE = 0.4
# Share of the facts that are said with their circumstances.
_DETAIL_SHARE = 0.65
# Share of the talks with a fact.
_FACT_SHARE = 0.7
_CHAT_DAYS, _CHAT_SUBJECTS = 24, 12
_ESSAY_TALKS, _ESSAY_TOLD_SHARE = 200, 0.04


class _Writer:
    """Collects the messages of a conversation."""

    def __init__(self, session: str) -> None:
        self._session = session
        self.messages: list[NeutralMessage] = []

    def say(self, role: NeutralRole, text: str) -> int:
        """Add a message and return its number."""
        number = len(self.messages)
        self.messages.append(NeutralMessage(self._session, number, role, (Text(text),)))
        return number


def short_turns(seed: int) -> Conversation:
    """Return a chat of two people over many days, in short turns."""
    chance = random.Random(f"chat {seed}")  # noqa: S311 - the same conversations for the same seed
    people = chance.sample(_NAMES, 2)
    # A person chats with a model, or the turns of two people are imported, each with a name.
    is_named = chance.choice((True, False))
    writer = _Writer(f"chat-{seed}")
    subjects = chance.sample(_SUBJECTS, _CHAT_SUBJECTS)
    questions: dict[str, list[int]] = {}

    def say(who: int, text: str) -> int:
        role = NeutralRole.USER if is_named or not who else NeutralRole.ASSISTANT
        return writer.say(role, f"{people[who]}: {text}" if is_named else text)

    for _ in range(_CHAT_DAYS):
        who = chance.randrange(2)
        say(who, chance.choice(_GREETINGS).format(other=people[1 - who]))
        for subject in chance.sample(subjects, chance.randint(2, 4)):
            occasion = _Occasion(chance, subject)
            say(1 - who, occasion.fill(chance.choice(_OPENERS)))
            if chance.random() < _FACT_SHARE:
                kind = chance.choice(tuple(_FACTS))
                answer = chance.choice([value for value in _FORMS[kind] if value not in people])
                number = say(who, occasion.fact(kind, answer) + _remark(occasion, chance, people[1 - who], 0.5))
                questions.setdefault(occasion.question(_FACTS[kind][1], people[who]), []).append(number)
                who = 1 - who
            for _ in range(chance.randint(1, 5)):
                say(
                    who,
                    (_remark(occasion, chance, people[1 - who]) + _remark(occasion, chance, people[1 - who], 0.5))[1:],
                )
                who = 1 - who
    return _conversation(writer, questions)


def _remark(occasion: _Occasion, chance: random.Random, other: str, share: float = 1.0) -> str:
    return " " + occasion.fill(chance.choice(_REMARKS), other=other) if chance.random() < share else ""


def long_turns(seed: int) -> Conversation:
    """Return the requests of a person, with facts about that person, and the essays that answer them."""
    chance = random.Random(f"essays {seed}")  # noqa: S311 - the same conversations for the same seed
    writer = _Writer(f"essays-{seed}")
    questions: dict[str, list[int]] = {}
    for _ in range(_ESSAY_TALKS):
        occasion = _Occasion(chance, chance.choice(_SUBJECTS))
        kind = chance.choice(tuple(_FACTS))
        rounds = chance.randint(2, 4)
        telling = chance.randrange(rounds)
        for order in range(rounds):
            wish = chance.choice(_REQUESTS if order == telling else _PLAIN_REQUESTS)
            fact = occasion.fact(kind, chance.choice(_FORMS[kind]))
            number = writer.say(NeutralRole.USER, occasion.fill(wish, fact=fact))
            if order == telling:
                asked = occasion.question(_FACTS[kind][1], "I").replace("I's", "my")
                questions.setdefault(asked, []).append(number)
            told = chance.choice(_TOLD) if chance.random() < _ESSAY_TOLD_SHARE else None
            number = writer.say(NeutralRole.ASSISTANT, _essay(occasion, chance, told))
            if told is not None:
                questions.setdefault(occasion.question((told[2],)), []).append(number)
    return _conversation(writer, questions)


def _essay(occasion: _Occasion, chance: random.Random, told: tuple[str, str, str] | None) -> str:
    sentences = [occasion.fill(chance.choice(_ESSAY)) for _ in range(chance.randint(8, 36))]
    if told is not None:
        kind, said, _ = told
        sentences.insert(chance.randrange(len(sentences)), occasion.fill(said, v=chance.choice(_FORMS[kind])))
    return "\n".join(sentences)


def _conversation(writer: _Writer, questions: dict[str, list[int]]) -> Conversation:
    asked = tuple(Question(text, tuple(answers)) for text, answers in questions.items())
    return Conversation(tuple(writer.messages), asked)


def answers_found(found: Sequence[int | None], question: Question) -> float:
    """Return the share of the answers of a question among the messages found."""
    return len(set(found) & set(question.answers)) / len(question.answers)
