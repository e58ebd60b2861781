"""The recovery ladder: a row of rungs for each kind of fault.

A rung is one recovery step. The table is the whole policy; `next_rung` only reads it. A rung may be climbed as often as
its row lists it, so recovery always ends.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from holdfast.core.limits.bounds import Bounds
from holdfast.types.faults import Confidence, Fault, FaultKind, Rung

# Messages that are left out one by one; more are left out in as many groups.
SUSPECTS_MAX = 6

# Three backoffs cover the bursts seen in practice; a fourth rarely helps and takes minutes.
_WAIT_THEN_SWITCH = (Rung.BACKOFF, Rung.BACKOFF, Rung.BACKOFF, Rung.FALLBACK_MODEL)
# The three summary methods, tried again with each next summariser.
SUMMARIES = (Rung.SUMMARISE, Rung.SUMMARISE_LESS, Rung.SUMMARISE_PIECES)
_WITHOUT_A_MODEL = (Rung.DIGEST, Rung.KEEP_NEWEST)
# Rolling over drops pinned messages and the work of the open turn, so every model is tried first.
_AT_LAST = (Rung.SEND_ANYWAY, Rung.FALLBACK_MODEL, Rung.ROLL_OVER)
# One large part may hide behind another; the digest handles more than three in one step.
_REPLACE = (Rung.REPLACE_LARGEST,) * 3

# Content that a provider refuses: leave out what came last, reversibly; only then give up the past, the second
# roll-over without a word of it. If nothing helps, the cause is another one, and everything is taken back. What came
# last is left out one by one, then all of it, then the last reply.
_LEAVE_OUT = (Rung.LEAVE_OUT_UNANSWERED, *(Rung.LEAVE_OUT_NEW,) * (SUSPECTS_MAX + 2))
_REFUSED_CONTENT = (
    *_LEAVE_OUT,
    Rung.FALLBACK_MODEL,
    *_WITHOUT_A_MODEL,
    Rung.ROLL_OVER,
    Rung.ROLL_OVER,
    Rung.TAKE_BACK,
)
# The row of a transient fault that came with the same error response for the same request after every backoff.
REPEATED_TRANSIENT = (*_WAIT_THEN_SWITCH[:3], *_LEAVE_OUT, Rung.FALLBACK_MODEL, Rung.TAKE_BACK)
_REPEATS_MIN = 3
# The row of a status 403 that may be a firewall's, which refuses content: the key was good for the last answer.
FORBIDDEN = (Rung.FALLBACK_MODEL, *_LEAVE_OUT, Rung.TAKE_BACK)
# Faults that content may cause.
CONTENT_KINDS = frozenset(
    {FaultKind.CONTENT_POLICY, FaultKind.BAD_REQUEST, FaultKind.TOOL_PAIRING, FaultKind.TRANSIENT}
)
# Faults of a turn after which its input is a suspect in the next one.
REFUSED_TURN_KINDS = CONTENT_KINDS | {FaultKind.EMPTY_RESPONSE}
# Rungs that remove much of the view.
_DRASTIC = frozenset({Rung.DIGEST, Rung.KEEP_NEWEST, Rung.ROLL_OVER})

# Providers name one refused parameter at a time. Agents send at most four that some model refuses: the output limit,
# which has two names, sampling, and parallel tool calls.
_DROP_PARAMETERS = (Rung.DROP_PARAMETER,) * 4

LADDER: Mapping[FaultKind, tuple[Rung, ...]] = MappingProxyType(
    {
        FaultKind.TOKEN_OVERFLOW: (
            Rung.CLAMP_OUTPUT,
            Rung.MASK,
            *SUMMARIES,
            Rung.NEXT_SUMMARISER,
            *_WITHOUT_A_MODEL,
            Rung.REPLACE_LARGEST,
            *_AT_LAST,
        ),
        # Never a model's summary: its request would carry the same bytes.
        FaultKind.WIRE_OVERFLOW: (Rung.SHRINK_IMAGE, *_REPLACE, *_WITHOUT_A_MODEL, *_AT_LAST),
        FaultKind.MEDIA_OVERFLOW: (Rung.SHRINK_IMAGE, *_REPLACE, *_WITHOUT_A_MODEL, *_AT_LAST),
        FaultKind.RATE_LIMIT: _WAIT_THEN_SWITCH,
        FaultKind.OVERLOADED: _WAIT_THEN_SWITCH,
        FaultKind.TRANSIENT: _WAIT_THEN_SWITCH,
        FaultKind.STREAM_STALL: (Rung.RETRY, Rung.BACKOFF, Rung.FALLBACK_MODEL),
        FaultKind.QUOTA: (Rung.FALLBACK_MODEL,),
        FaultKind.AUTH: (Rung.FALLBACK_MODEL,),
        FaultKind.MODEL_NOT_FOUND: (Rung.FALLBACK_MODEL,),
        FaultKind.BAD_REQUEST_REASONING: (
            *_DROP_PARAMETERS,
            Rung.DROP_REASONING,
            Rung.CHANGE_EFFORT,
            Rung.FALLBACK_MODEL,
        ),
        # A history that cannot be replayed is replaced by a digest.
        FaultKind.TOOL_PAIRING: (
            Rung.REPAIR_PAIRS,
            Rung.DROP_REASONING,
            *_WITHOUT_A_MODEL,
            Rung.FALLBACK_MODEL,
            Rung.ROLL_OVER,
        ),
        FaultKind.CONTENT_POLICY: _REFUSED_CONTENT,
        # Some filters return nothing in place of an answer.
        FaultKind.EMPTY_RESPONSE: (Rung.RETRY, Rung.FALLBACK_MODEL, *_LEAVE_OUT, Rung.TAKE_BACK),
        FaultKind.BAD_REQUEST: (*_DROP_PARAMETERS, Rung.CLAMP_OUTPUT, *_REFUSED_CONTENT),
    }
)

# Faults whose cure changes the view, so that a guess is tried out first.
_COSTLY_KINDS = frozenset(
    {FaultKind.TOKEN_OVERFLOW, FaultKind.WIRE_OVERFLOW, FaultKind.MEDIA_OVERFLOW}
    | {FaultKind.TOOL_PAIRING, FaultKind.CONTENT_POLICY, FaultKind.BAD_REQUEST}
)
# Rungs that a guess may not be reason enough for: nothing takes a replaced part back.
DESTRUCTIVE = _DRASTIC | {Rung.REPLACE_LARGEST}
# Rungs for the second kind of a guess: one call each, and the view stays as it is.
_SECOND_KIND_RUNGS = (Rung.BACKOFF, Rung.REPAIR_PAIRS, Rung.DROP_REASONING)
# Rungs of a row that have another place in the row of a guess.
_NOT_TRIED_OUT = DESTRUCTIVE | {Rung.SEND_ANYWAY, Rung.FALLBACK_MODEL, Rung.TAKE_BACK, Rung.DROP_PARAMETER, *_LEAVE_OUT}


def guessed_row(kind: FaultKind, second: FaultKind | None) -> tuple[Rung, ...]:
    """Return the row of an error response whose kind is only guessed: cheap and reversible rungs first.

    A parameter that the response names is left out; this costs no call where it names none. Then the request is
    repeated once, then changed in ways that can be taken back: for its kind, for its second kind, and without what came
    last. Only a fault that comes again after all of them is reason to give up a part of the view, and if that does not
    help either, the view is restored.
    """
    own = LADDER[kind]
    named = (Rung.DROP_PARAMETER,) * own.count(Rung.DROP_PARAMETER)
    changes = [rung for rung in own if rung not in _NOT_TRIED_OUT]
    others = [rung for rung in _SECOND_KIND_RUNGS if second and rung in LADDER[second] and rung not in changes]
    destructive = [rung for rung in own if rung in DESTRUCTIVE]
    return (*named, Rung.RETRY, *changes, *others, *_LEAVE_OUT, Rung.FALLBACK_MODEL, *destructive, Rung.TAKE_BACK)


# Rungs for compaction requests. A person gets a summary, else a digest; automatic requests try summaries only.
ASKED_BY_A_PERSON = (*SUMMARIES, Rung.NEXT_SUMMARISER, Rung.DIGEST)
ASKED_BY_US = (*SUMMARIES, Rung.NEXT_SUMMARISER)

# Rungs for a failed summary request. The others change the view, which such a request does not use.
SUMMARY_RUNGS = frozenset({Rung.RETRY, Rung.BACKOFF, Rung.CLAMP_OUTPUT, Rung.CHANGE_EFFORT, Rung.DROP_PARAMETER})
# A compaction blocks its caller, so a summary request is retried once and with a short backoff; a refused parameter,
# which costs one short call in the life of a store, does not count.
SUMMARY_CLIMBS_MAX = 1
SUMMARY_BACKOFF_SECONDS_MAX = 20.0


class Evidence(msgspec.Struct, frozen=True):
    """What a session knows about the cause of a refusal beside the refusal itself."""

    # The fault is that of an error response, not of an answer or of our own estimate.
    is_refused: bool = False
    # How often in a row this request got the same error response; the ladder has left something out since.
    times: int = 0
    has_left_out: bool = False
    # Turns in a row that ended with such a refusal, although the input of each was left out of the next.
    refused_turns: int = 0
    # The newest input is not the suspect: the model has read it, or has not read what came before it.
    is_past_suspect: bool = False
    # The refused parameter is left out already, or was not in the request.
    is_parameter_out: bool = False


NO_EVIDENCE = Evidence()


def next_rung(fault: Fault, climbed: Sequence[Rung], bounds: Bounds, evidence: Evidence = NO_EVIDENCE) -> Rung | None:
    """Return the first rung left in the row of a fault; None if all are used."""
    return first_left(rungs_for(fault, bounds, evidence), climbed)


def rungs_for(fault: Fault, bounds: Bounds, evidence: Evidence = NO_EVIDENCE) -> Sequence[Rung]:
    """Return the row of a fault, without rungs that it gives no reason for."""
    unfit: frozenset[Rung] = frozenset()
    if (fault.retry_after_seconds or 0) > bounds.back_off_seconds_max:
        # Retry-After exceeds the longest backoff, so a retry would fail again.
        unfit |= {Rung.BACKOFF}
    if fault.kind in CONTENT_KINDS and not _may_be_drastic(fault, evidence):
        unfit |= _DRASTIC
    if fault.kind is FaultKind.EMPTY_RESPONSE and not _is_content_suspect(fault, evidence):
        unfit |= {*_LEAVE_OUT, Rung.TAKE_BACK}
    if not fault.parameter or evidence.is_parameter_out:
        unfit |= {Rung.DROP_PARAMETER}
    return tuple(rung for rung in _row(fault, evidence) if rung not in unfit)


def _row(fault: Fault, evidence: Evidence) -> Sequence[Rung]:
    row = _row_of_kind(fault, evidence)
    # A named parameter is the cause, whatever else the words of the error suggest.
    return row if Rung.DROP_PARAMETER in row or not fault.parameter else (*_DROP_PARAMETERS, *row)


def _row_of_kind(fault: Fault, evidence: Evidence) -> Sequence[Rung]:
    match fault.kind:
        case FaultKind.AUTH if fault.second_kind is FaultKind.CONTENT_POLICY:
            return FORBIDDEN
        case FaultKind.EMPTY_RESPONSE if fault.second_kind is FaultKind.TOKEN_OVERFLOW:
            # The window was almost full, so there may have been no room for an answer.
            return (Rung.RETRY, *_LEAVE_OUT, *LADDER[FaultKind.TOKEN_OVERFLOW], Rung.TAKE_BACK)
        case FaultKind.TRANSIENT if evidence.times >= _REPEATS_MIN or evidence.has_left_out:
            return REPEATED_TRANSIENT
        case kind if kind in _COSTLY_KINDS and fault.confidence is Confidence.GUESS and evidence.is_refused:
            return guessed_row(kind, fault.second_kind)
        case _:
            return LADDER[fault.kind]


def _is_content_suspect(fault: Fault, evidence: Evidence) -> bool:
    """Return whether content may be the cause of an empty answer.

    It is if the turn before failed as well. Else a full window is likelier, and so is a model that has nothing to say
    to the results of its own calls.
    """
    is_other_likelier = evidence.is_past_suspect or fault.second_kind is FaultKind.TOKEN_OVERFLOW
    return evidence.refused_turns > 0 or not is_other_likelier


def _may_be_drastic(fault: Fault, evidence: Evidence) -> bool:
    """Return whether the past may be given up for a refusal.

    Not if the newest input is the likelier cause, nor on a guess, unless leaving out inputs has not helped before.
    """
    is_guess = fault.confidence is Confidence.GUESS
    is_suspect = fault.kind is FaultKind.TOOL_PAIRING or evidence.is_past_suspect
    return evidence.refused_turns > 0 or (is_suspect and not is_guess)


def first_left(row: Sequence[Rung], climbed: Sequence[Rung]) -> Rung | None:
    """Return the first rung that was climbed fewer times than the row lists it."""
    left = Counter(climbed)
    for rung in row:
        if left[rung] == 0:
            return rung
        left[rung] -= 1
    return None


def next_summary_rung(fault: Fault, climbed: Sequence[Rung], bounds: Bounds) -> Rung | None:
    """Return the next rung for a failed summary request; None if the summariser is given up."""
    row = tuple(rung for rung in rungs_for(fault, bounds) if rung in SUMMARY_RUNGS)
    if (fault.retry_after_seconds or 0) > SUMMARY_BACKOFF_SECONDS_MAX:
        row = tuple(rung for rung in row if rung is not Rung.BACKOFF)
    is_spent = sum(rung is not Rung.DROP_PARAMETER for rung in climbed) >= SUMMARY_CLIMBS_MAX
    return first_left([rung for rung in row if rung is Rung.DROP_PARAMETER or not is_spent], climbed)


def backoff_seconds(fault: Fault, climbed: Sequence[Rung], bounds: Bounds) -> float:
    """Return the backoff: Retry-After if given, else exponential with factor 4, within the bounds."""
    waits = sum(rung is Rung.BACKOFF for rung in climbed)
    wanted = fault.retry_after_seconds or bounds.back_off_seconds_min * 4**waits
    return min(max(wanted, bounds.back_off_seconds_min), bounds.back_off_seconds_max)
