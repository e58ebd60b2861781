"""Decide whether a summary request can reuse the provider's prompt cache, and build it.

The last request is in the provider's cache and is read again at a fraction of the price. If the session's own model
also writes the summary, the request may extend exactly that prefix: the next request, and one message after it. The
prefix must not differ, tools and reasoning included, so the reply may be anything; it is validated like any other
summary. The expected cache hit is derived from the cache use that the last replies reported.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec

from holdfast.core.compaction.reading import render
from holdfast.core.compaction.summary import NOTES_ONLY, focus_line, length_and_headings
from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.fit import Sizes, misfit
from holdfast.core.limits.prices import Prices
from holdfast.core.limits.sizing import tokens_of_message, tokens_of_text
from holdfast.core.view import ViewMessage
from holdfast.types.limits import Calibration, Limits
from holdfast.types.messages import Effort, Message, Part, Reasoning, Role, Text, Usage, text_of
from holdfast.types.records import AttemptStarted, EffortChanged, Logged, ReplyRecorded, SummaryRefused

# The shortest documented cache lifetime is five minutes from the last use; the call itself takes some of them.
_WARM_SECONDS = 240.0
# Replies used to estimate the cache hit rate. A single one may have met another machine.
_REPLIES_USED = 4
# Length of the head of each message that may be cited, and size of the whole list. It is billed at full price: a tenth
# of what is saved if a window of 128,000 tokens is three quarters full.
_HEAD_CHARS = 72
_LIST_TOKENS_MAX = 2_000
# A model that reasons by default does so before a summary, too: to request less would invalidate the cache.
_REASONING_TOKENS = 4_096

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
    """A summary to request: its originals, its length limit and its focus."""

    originals: Sequence[ViewMessage]
    tokens_max: int
    focus: str = ""


class Question(msgspec.Struct, frozen=True):
    """The message after the prefix, and the records that the summary may cite."""

    message: Message
    seqs: tuple[int, ...]


# --- Eligibility ---


def may_ride(turn: Turn, tail: Iterable[Logged], model: str, bounds: Bounds) -> bool:
    """Return whether the session state allows a cached summary by a model.

    Not during recovery from a fault: a rejected request cannot be extended. Not while tool calls are pending: the view
    would show them as not run. And not if a cached summary by this model was unusable since the tail began.
    """
    is_for_a_fault = turn.climbing is not None and not turn.is_wanted_climb
    if not bounds.summary_rides or is_for_a_fault or turn.calls_asked:
        return False
    refused = (logged.record for logged in tail if isinstance(logged.record, SummaryRefused))
    return not any(one.is_riding and one.model == model for one in refused)


def stands_verbatim(
    originals: Sequence[ViewMessage], view: Sequence[ViewMessage], beats: frozenset[int] = frozenset()
) -> bool:
    """Return whether originals are verbatim in a view; masked or replaced parts cannot be summarised.

    Nor can messages with a heartbeat among them: the summary would read it.
    """
    last = originals[-1].place
    if any(one.turn in beats and one.place < last for one in view):
        return False
    shown = {one.place: _spoken(one.message) for one in view}
    return all(shown.get(one.place) == _spoken(one.message) for one in originals)


def _spoken(message: Message) -> tuple[Part, ...]:
    """Return the parts without reasoning, which summaries ignore."""
    return tuple(part for part in message.parts if not isinstance(part, Reasoning))


# --- Cache hit ---


class _Answered(msgspec.Struct, frozen=True):
    """An answered request: time, model, record of its start, raw estimate and reported usage."""

    at: float
    model: str
    started: int
    raw: int
    usage: Usage


def warm_tokens(tail: Iterable[Logged], view: Sequence[ViewMessage], *, model: str, raw: int, now: float) -> int:
    """Return the tokens of the next request that the provider will likely read from its cache; 0: the cache is cold.

    `view` is the conversation of the next request, `raw` its full uncalibrated estimate. A changed prefix is detected
    by its size: without the messages since the last request, the estimate then differs.
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
    """Return the cache hit rate of consecutive requests within the cache lifetime, over the last replies."""
    shares = [
        min(after.usage.cached_input_tokens / before.usage.input_tokens, 1.0)
        for before, after in pairwise(answered)
        if before.model == after.model and after.at - before.at <= _WARM_SECONDS
    ][-_REPLIES_USED:]
    return sum(shares) / len(shares) if shares else 0.0


# --- Price and room ---


def expected(sizes: Sizes, calibration: Calibration, *, warm: int, tokens_max: int) -> Usage:
    """Return the expected usage of a summary call with this cache hit. The rest is a cache write."""
    tokens = calibration.estimate(sizes.tokens)
    cached = min(warm, tokens)
    return Usage(tokens, tokens_max, cached, cache_write_tokens=tokens - cached)


def is_cheaper(prices: Prices, riding: Usage, usual: Usage) -> bool:
    """Return whether a cached summary costs less by declared prices; False without prices."""
    one, other = prices.cost(riding), prices.cost(usual)
    return one is not None and other is not None and one < other


def has_room(sizes: Sizes, limits: Limits, calibration: Calibration, bounds: Bounds, *, tokens_max: int) -> bool:
    """Return whether a request surely fits, with room for twice the summary. False for an unknown window."""
    if limits.window_tokens is None or misfit(sizes, limits, calibration, bounds) is not None:
        return False
    return calibration.upper(sizes.tokens) + 2 * tokens_max <= limits.window_tokens


def output_asked(usual: int | None, effort: Effort | None, *, tokens_max: int) -> int | None:
    """Return the output limit of a cached summary; `usual` is that of the next regular request.

    It has room for the summary, and for reasoning by default. With a requested effort some dialects derive the
    reasoning budget from the output limit, so that it must not change.
    """
    if effort is not None:
        return usual
    most = 2 * tokens_max + _REASONING_TOKENS
    return most if usual is None else min(most, usual)


# --- Request ---


def ask_behind(sought: SummaryRequest, view: Sequence[ViewMessage]) -> Question:
    """Return the message that requests a summary of a part of the conversation before it.

    The prefix has no record numbers, so a list gives them, within its bound: the first message, then user messages,
    then assistant messages, each newest first. Messages that are not listed cannot be cited.
    """
    heads = {one.place: head for one in sought.originals if (head := _head(one))}
    listed = _listed(sought.originals, heads)
    last = sought.originals[-1]
    following = next((head for one in view if one.place > last.place and (head := _head(one))), "")
    lines = [line for _, line in sorted(listed.items())]
    task = _TASK.format(
        order=NOTES_ONLY,
        some=_SOME if len(listed) < len(heads) else "",
        end=_ENDS_BEFORE if following else _ENDS_WITH,
        asked=length_and_headings(sought.tokens_max),
        focus=focus_line(sought.focus),
        listed="\n".join([*lines, _BEHIND + following] if following else lines),
    )
    seqs = tuple(one.seq for one in sought.originals if one.place in listed)
    return Question(Message(Role.USER, (Text(task),)), seqs)


def _listed(originals: Sequence[ViewMessage], heads: Mapping[int, str]) -> dict[int, str]:
    """Return the lines of the list by place, as many as fit, the most important first."""
    candidates = [one for one in originals if one.place in heads]
    candidates.sort(key=lambda one: (one is not originals[0], _rank(one.message), -one.place))
    listed: dict[int, str] = {}
    room = _LIST_TOKENS_MAX
    for one in candidates:
        line = f"[#{one.seq}] {heads[one.place]}"
        room -= tokens_of_text(line)
        if room < 0:
            break
        listed[one.place] = line
    return listed


def _head(message: ViewMessage) -> str:
    """Return the beginning of a message, on one line."""
    rendered = render(message).text
    return " ".join(rendered.removeprefix(f"[#{message.seq}]")[: 8 * _HEAD_CHARS].split())[:_HEAD_CHARS]


def _rank(message: Message) -> int:
    """Return the priority of a message in the list. Tool results directly follow the message with their calls."""
    if message.role is Role.USER:
        return 0
    return 1 if message.role is Role.ASSISTANT and text_of(message.parts).strip() else 2
