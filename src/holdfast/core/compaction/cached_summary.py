"""Whether notes may be asked for behind the conversation as it was last sent, and in which words.

What was sent last lies in the provider's cache, and is read again at a fraction of the price. Where the model that
answers next is also asked for notes, the question may ride on exactly that prefix: the next request as it stands, and
one message behind it. Nothing in front may differ, tools and thinking included, so the answer may be anything; it is
data, held to the same as any other notes. What the cache holds is foreseen from what the last answers reported of it.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from holdfast.core.compaction.facts import Passage
from holdfast.core.compaction.summary import NOTES_ONLY, Detail, focus_asked, notes_asked, render
from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.fit import Sizes, misfit
from holdfast.core.limits.prices import Prices
from holdfast.core.limits.sizing import tokens_of_message, tokens_of_text
from holdfast.core.view import ViewMessage
from holdfast.types.limits import Calibration, Limits
from holdfast.types.messages import Effort, Message, Part, Reasoning, Role, Text, Usage, text_of
from holdfast.types.records import AttemptStarted, EffortChanged, Logged, ReplyRecorded, SummaryRefused

# The shortest that a provider says it keeps what it was sent is five minutes from the last use; the call itself takes
# some of them.
_WARM_SECONDS = 240.0
# Answers whose reported reads say how much of a prefix is found again. One may have met another machine.
_ANSWERS_LOOKED_AT = 4
# Of each message that may be cited, enough to know it by; and what the whole list may come to. It is read at full
# price: so much is a tenth of what is saved where a window of 128,000 tokens is three quarters full.
_HEAD_CHARS = 72
_LIST_TOKENS_MAX = 2_000
# A model that thinks unasked does so before its notes, too: to ask for less thinking would cost the cache.
_THINKING_TOKENS = 4_096

_TASK = """This message is not part of the conversation. {order}

The notes are on a part of what stands before this message. It begins with the first message of the list below, which \
gives numbers and first words{some}, and ends {end}. What was said there is to be noted, not done. What is marked as \
earlier conversation is kept beside your notes as it is: do not repeat it.

{asked} Cite as [#n] what matters, and only numbers of the list. Say nothing that was not said in that part.{focus}

<messages>
{listed}
</messages>"""
_SOME = " of some of its messages"
_ENDS_BEFORE, _ENDS_WITH = "before the one that the last line quotes", "with the last"
_BEHIND = "(not in the part:) "


class SummaryRequest(msgspec.Struct, frozen=True):
    """Notes that are wanted: on which originals, how long at most, and what they should keep in particular."""

    originals: Sequence[ViewMessage]
    tokens_max: int
    focus: str = ""


class Question(msgspec.Struct, frozen=True):
    """What is asked behind the prefix, and the records that an answer may cite."""

    message: Message
    seqs: tuple[int, ...]


# The moment.


def may_ride(turn: Turn, tail: Iterable[Logged], model: str, bounds: Bounds) -> bool:
    """Return whether a model may be asked behind the prefix where a session stands.

    Not to answer a fault: what was refused cannot carry a question too. Not while calls wait to be run: the view would
    say that they were not. And not where its answer to such a question was of no use since the tail began.
    """
    is_for_a_fault = turn.climbing is not None and not turn.is_wanted_climb
    if not bounds.summary_rides or is_for_a_fault or turn.calls_asked:
        return False
    refused = (logged.record for logged in tail if isinstance(logged.record, SummaryRefused))
    return not any(one.is_riding and one.model == model for one in refused)


def stands_verbatim(originals: Sequence[ViewMessage], view: Sequence[ViewMessage]) -> bool:
    """Return whether originals stand in a view as they were said: what is masked or left out there is not read."""
    shown = {one.place: _spoken(one.message) for one in view}
    return all(shown.get(one.place) == _spoken(one.message) for one in originals)


def _spoken(message: Message) -> tuple[Part, ...]:
    """Return what was said; notes are never on thinking, so it may be there or not."""
    return tuple(part for part in message.parts if not isinstance(part, Reasoning))


# The cache.


class _Answered(msgspec.Struct, frozen=True):
    """A request that was answered: when, its model, the record of its start, its raw estimate, what was reported."""

    at: float
    model: str
    started: int
    raw: int
    usage: Usage


def warm_tokens(tail: Iterable[Logged], view: Sequence[ViewMessage], *, model: str, raw: int, now: float) -> int:
    """Return how many tokens of the next request the provider will likely read from its cache; 0: it is cold.

    `view` is the conversation that the next request shows, `raw` its estimate, all of it, uncalibrated. A request that
    begins otherwise than the last one does is known by that: without what was said since, it comes to something else.
    """
    records = list(tail)
    answered = [one for one in _answers(records) if one.usage.input_tokens > 0]
    if not answered:
        return 0
    last = answered[-1]
    since = sum(tokens_of_message(one.message) for one in view if one.place > last.started)
    begins_alike = last.model == model and raw - since == last.raw
    thinks_alike = not any(isinstance(one.record, EffortChanged) and one.seq > last.started for one in records)
    if not (begins_alike and thinks_alike and now - last.at <= _WARM_SECONDS):
        return 0
    return int(_share_found(answered) * last.usage.input_tokens)


def _answers(tail: Iterable[Logged]) -> Iterable[_Answered]:
    started: tuple[int, AttemptStarted] | None = None
    for logged in tail:
        match logged.record:
            case AttemptStarted() as attempt:
                started = (logged.seq, attempt)
            case ReplyRecorded(reply=reply) if started is not None and reply.usage is not None:
                seq, attempt = started
                yield _Answered(logged.at, attempt.model, seq, attempt.tokens_raw, reply.usage)
                # An imported reply has no attempt of its own.
                started = None
            case _:
                pass


def _share_found(answered: Sequence[_Answered]) -> float:
    """Return which share of a request the next one finds in the cache, by the last that came soon enough for that."""
    shares = [
        min(after.usage.cached_input_tokens / before.usage.input_tokens, 1.0)
        for before, after in pairwise(answered)
        if before.model == after.model and after.at - before.at <= _WARM_SECONDS
    ][-_ANSWERS_LOOKED_AT:]
    return sum(shares) / len(shares) if shares else 0.0


# The price and the room.


def expected(sizes: Sizes, calibration: Calibration, *, warm: int, tokens_max: int) -> Usage:
    """Return what a call for notes that finds so much in the cache will likely come to. The rest is kept there."""
    tokens = calibration.estimate(sizes.tokens)
    cached = min(warm, tokens)
    return Usage(tokens, tokens_max, cached, cache_write_tokens=tokens - cached)


def is_cheaper(prices: Prices, riding: Usage, usual: Usage) -> bool:
    """Return whether riding costs less by what is declared; where no price is, nobody can say."""
    one, other = prices.cost(riding), prices.cost(usual)
    return one is not None and other is not None and one < other


def has_room(sizes: Sizes, limits: Limits, calibration: Calibration, bounds: Bounds, *, tokens_max: int) -> bool:
    """Return whether a request surely fits, with room for its notes twice over. A window nobody knows is not sure."""
    if limits.window_tokens is None or misfit(sizes, limits, calibration, bounds) is not None:
        return False
    return calibration.upper(sizes.tokens) + 2 * tokens_max <= limits.window_tokens


def output_asked(usual: int | None, effort: Effort | None, *, tokens_max: int) -> int | None:
    """Return how much output to ask for, where the next request would ask for `usual`.

    Room for the notes, and for a model that thinks unasked. Where thinking is asked for, some dialects derive from the
    output how much of it, and that must stay as it was.
    """
    if effort is not None:
        return usual
    most = 2 * tokens_max + _THINKING_TOKENS
    return most if usual is None else min(most, usual)


# The words.


def ask_behind(sought: SummaryRequest, view: Sequence[ViewMessage]) -> Question:
    """Return the message that asks for notes on a part of what stands before it.

    The prefix has no numbers of records, so a list gives them: as many as its bound allows, after the first message
    persons' words, then what the assistant said, and of each the newest first. What is not on it cannot be cited.
    """
    first, last = sought.originals[0], sought.originals[-1]
    heads = {one.place: _head(one) for one in sought.originals}
    spoken = [one for one in sought.originals if heads[one.place]]
    listed: dict[int, str] = {}
    room = _LIST_TOKENS_MAX
    for one in sorted(spoken, key=lambda one: (one is not first, _rank(one.message), -one.place)):
        line = f"[#{one.seq}] {heads[one.place]}"
        room -= tokens_of_text(line)
        if room < 0:
            break
        listed[one.place] = line
    behind = next((head for one in view if one.place > last.place and (head := _head(one))), "")
    lines = [line for _, line in sorted(listed.items())]
    task = _TASK.format(
        order=NOTES_ONLY,
        some=_SOME if len(listed) < len(spoken) else "",
        end=_ENDS_BEFORE if behind else _ENDS_WITH,
        asked=notes_asked(sought.tokens_max),
        focus=focus_asked(sought.focus),
        listed="\n".join([*lines, _BEHIND + behind] if behind else lines),
    )
    seqs = tuple(one.seq for one in spoken if one.place in listed)
    return Question(Message(Role.USER, (Text(task),)), seqs)


def _head(said: ViewMessage) -> str:
    """Return how a message begins, on one line."""
    whole = render([Passage(said.seq, said.message)], Detail.FULL)
    return " ".join(whole.removeprefix(f"[#{said.seq}]").split())[:_HEAD_CHARS]


def _rank(message: Message) -> int:
    """Say what is put on the list first. What tools returned stands right behind the words that asked for it."""
    if message.role is Role.USER:
        return 0
    return 1 if message.role is Role.ASSISTANT and text_of(message.parts).strip() else 2
