"""Scripted sessions for the benches of memory: facts, messages that carry them, and summarisers of several kinds."""

import random
import re
from collections.abc import AsyncGenerator, Callable, Mapping

import msgspec

from holdfast.core.limits.prices import NO_PRICES
from holdfast.core.limits.sizing import tokens_of_request, tokens_of_text
from holdfast.ports import Delta
from holdfast.types.faults import Refusal
from holdfast.types.limits import Limits
from holdfast.types.messages import Reply, Request, StopReason, Text, ToolCall, Usage, text_of

_LENGTH = re.compile(r"at most ([\d,]+) tokens")
_SENTENCE = re.compile(r"[^.\n]+[.\n]?")
_RECORD = re.compile(r"\[#\d+\]")
_PLACES = ("Bergen", "Tromso", "Vardo", "Bodo", "Molde", "Narvik", "Alta", "Florø", "Mandal", "Risør")
_THINGS = ("pilot ladder", "tide table", "harbour light", "anchor chain", "cargo hatch", "fog horn", "radio mast")
_FILLER = "the crew checked the ropes and wrote the usual lines into the book before the watch changed again"
_WINDOW = 16_000
FETCH = "Fetch the next page"
# A number of a page is no exact detail.
_EXACT = re.compile(r"\d{5,}|=|[A-Z]{2,}-")


class Fact(msgspec.Struct, frozen=True):
    """A sentence, a question for it in other words, the value that answers it, and its form."""

    sentence: str
    question: str
    value: str
    form: str


def a_fact(chance: random.Random, number: int) -> Fact:
    """Return a fact of one of three forms. Many facts share their words; a number makes each question unique."""
    place, thing, value = chance.choice(_PLACES), chance.choice(_THINGS), chance.randrange(100_000, 999_999)
    match number % 3:
        case 0:
            return Fact(
                f"By the way, the {thing} of {place} pier {number} weighs {value} grams.",
                f"How heavy is the {thing} at pier {number} in {place}?",
                str(value),
                "prose",
            )
        case 1:
            return Fact(
                f"Ticket HAF-{value} is about the {thing} at {place} berth {number}.",
                f"Which ticket did we open for the {thing}, berth {number} of {place}?",
                f"HAF-{value}",
                "identifier",
            )
        case _:
            name = f"depth_{place.lower()}_{number}"
            return Fact(f"{name} = {value}mm", f"What is {name} set to?", f"{value}mm", "name = value")


# --- Scripted summarisers: each reads what a model would read, and answers with what its kind keeps of it ---


class Answer(msgspec.Struct, frozen=True):
    """Notes, and whether they end in the middle because the output limit was reached."""

    text: str
    is_cut: bool = False


def _asked(request: Request) -> tuple[str, int]:
    text = text_of(request.messages[-1].parts)
    found = _LENGTH.search(text)
    return text.partition("<conversation>\n")[2], int(found[1].replace(",", "")) if found else 400


def _exact(text: str) -> list[str]:
    """Return the sentences with exact details, each with the number of the record before it."""
    cited, found = "", []
    for sentence in _SENTENCE.findall(text):
        number = _RECORD.search(sentence)
        cited = number[0] if number else cited
        if _EXACT.search(_RECORD.sub("", sentence)):
            found.append(sentence.strip() if number else f"{cited} {sentence.strip()}".strip())
    return found


def _fitting(sentences: list[str], tokens_max: int) -> str:
    """Return the newest sentences that fit."""
    chosen: list[str] = []
    left = tokens_max
    for sentence in reversed(sentences):
        left -= tokens_of_text(sentence) + 1
        if left < 0:
            break
        chosen.append(sentence)
    return "\n".join(reversed(chosen)) or "The crew worked on."


def _good(text: str, tokens_max: int, _call: int) -> Answer:
    return Answer(f"State:\n{_fitting(_exact(text), tokens_max - 5)}")


def _terse(text: str, _tokens_max: int, _call: int) -> Answer:
    return Answer(f"The crew worked on the piers and filed tickets. {_fitting(_exact(text), 40)}")


def _forgetful(text: str, tokens_max: int, call: int) -> Answer:
    kept = [sentence for place, sentence in enumerate(_exact(text)) if (place + call) % 3 == 0]
    return Answer(f"State:\n{_fitting(kept, tokens_max)}")


def _verbose(text: str, tokens_max: int, _call: int) -> Answer:
    told = [f"At this point in the conversation it was mentioned in passing that: {one}" for one in _exact(text)]
    return Answer("\n".join(told)[: 12 * tokens_max] or "Nothing in particular was said, at some length.")


def _wrong_citations(text: str, tokens_max: int, call: int) -> Answer:
    return Answer(_RECORD.sub("[#99999999]", _good(text, tokens_max, call).text))


def _refusing(text: str, tokens_max: int, call: int) -> Answer:
    return Answer("I'm sorry, but I can't help with that.") if call % 3 == 0 else _good(text, tokens_max, call)


def _truncating(text: str, tokens_max: int, _call: int) -> Answer:
    whole = "Summary of the conversation so far.\n" + "\n".join(_exact(text))
    return Answer(whole[: 2 * tokens_max], is_cut=True)


def _looping(text: str, tokens_max: int, call: int) -> Answer:
    return Answer("and again the ropes " * 500) if call % 3 == 0 else _good(text, tokens_max, call)


KINDS: Mapping[str, Callable[[str, int, int], Answer]] = {
    "good": _good,
    "terse": _terse,
    "forgetful": _forgetful,
    "verbose": _verbose,
    "wrong citations": _wrong_citations,
    "refusing": _refusing,
    "truncating": _truncating,
    "looping": _looping,
}


class Scripted:
    """A model that answers every message briefly and summarises as its kind does."""

    name = "bench:scripted"
    issuer = "bench:nowhere:scripted"
    prices = NO_PRICES
    limits = Limits(window_tokens=_WINDOW, output_tokens_max=2_000)

    def __init__(self, kind: str) -> None:
        self._summarise = KINDS[kind]
        self.summaries = 0

    async def stream(
        self, request: Request, blobs: Mapping[str, bytes]
    ) -> AsyncGenerator[Delta | Reply | Refusal, None]:
        """Yield one reply."""
        del blobs
        answer = Answer("Noted. " + _FILLER.capitalize() + ".")
        newest = text_of(request.messages[-1].parts)
        if newest.startswith(FETCH):
            call = ToolCall(f"call-{tokens_of_request(request)}", "fetch", "{}")
            yield Reply((call,), StopReason.TOOL_CALLS, Usage(tokens_of_request(request), 10), self.name)
            return
        if request.system.startswith("You write the working notes"):
            self.summaries += 1
            answer = self._summarise(*_asked(request), self.summaries)
        usage = Usage(tokens_of_request(request), tokens_of_text(answer.text))
        yield Reply((Text(answer.text),), StopReason.LENGTH if answer.is_cut else StopReason.END, usage, self.name)

    async def close(self) -> None:
        """No-op."""


def message_of(chance: random.Random, size_bytes: int, fact: Fact | None) -> str:
    """Return filler of a size, with a fact in its middle."""
    lines = [
        f"{_FILLER}, at {chance.choice(_PLACES)} on page {chance.randrange(10_000)}."
        for _ in range(max(size_bytes // 125, 1))
    ]
    if fact is not None:
        lines.insert(len(lines) // 2, fact.sentence)
    return "\n".join(lines)
