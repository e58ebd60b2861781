"""What holds whatever the world does: one outcome each, an end to every climb, and a view without gaps or doubles."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.fold.session_state import InFlight, Turn
from holdfast.core.limits.sizing import bytes_of_message
from holdfast.core.turn.ladder import (
    ASKED_BY_A_PERSON,
    DESTRUCTIVE,
    LADDER,
    REPEATED_TRANSIENT,
    SUMMARIES,
    guessed_row,
)
from holdfast.core.turn.transitions import evolve
from holdfast.core.view import EMPTY, MASKED_BYTES_MIN, conversation, messages_in_view
from holdfast.core.view.exclusion import NO_ANSWER, excluded_places, parts_shown
from holdfast.core.view.offending_part import find_culprit
from holdfast.types.faults import Confidence, FaultKind, Rung, Unit
from holdfast.types.messages import (
    ContentPart,
    LargeText,
    Media,
    Message,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from holdfast.types.records import (
    AnyRecord,
    AttemptStarted,
    CompactionApplied,
    CompactionRequested,
    CompactionSettled,
    CompactionUndone,
    GenerationStarted,
    InputAdmitted,
    Logged,
    MessageExcluded,
    MessagePinned,
    Outcome,
    OutputMasked,
    PartReplaced,
    ReasoningDropped,
    ReplyRecorded,
    RungFinished,
    RungResult,
    RungStarted,
    ToolSettled,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    decode_record,
    encode_record,
    owed,
)
from tests.core.worlds import BOUNDS, World, narrow_worlds, worlds

# Records that change what the view shows of the past; all others only add to its end.
CHANGES_THE_VIEW = (
    CompactionApplied,
    CompactionUndone,
    GenerationStarted,
    MessageExcluded,
    MessagePinned,
    OutputMasked,
    PartReplaced,
    ReasoningDropped,
)

LEFT_OUT = re.compile(r"^\[.* is left out here, because .*; recall\(seq=(\d+)\).*$")


def seqs(world: World, kind: type[AnyRecord]) -> list[int]:
    return [logged.seq for logged in world.log if isinstance(logged.record, kind)]


# Outcomes and ends.


@given(world=worlds | narrow_worlds)
def test_every_input_and_every_request_gets_exactly_one_outcome_whatever_the_world_does(world: World) -> None:
    ended = [logged.record.turn for logged in world.log if isinstance(logged.record, TurnEnded)]
    settled = [logged.record.request for logged in world.log if isinstance(logged.record, CompactionSettled)]

    # Inputs are answered in the order in which they came; requests may be met together.
    assert ended == seqs(world, InputAdmitted)
    assert sorted(settled) == seqs(world, CompactionRequested)
    assert sum(owed(logged.record) for logged in world.log) == 0


@given(world=worlds | narrow_worlds)
def test_no_rung_is_climbed_more_often_than_its_row_allows(world: World) -> None:
    """Counted by what stands in the log: since the last reply, for each model, and for each summariser."""
    climbed: Counter[Rung] = Counter()
    asked: Counter[Rung] = Counter()
    counted = climbed
    for logged in world.log:
        match logged.record:
            case RungStarted(rung=rung, kind=kind):
                counted = climbed if kind else asked
                counted[rung] += 1
                rows = [LADDER[kind] if kind else ASKED_BY_A_PERSON]
                rows += [REPEATED_TRANSIENT] if kind is FaultKind.TRANSIENT else []
                rows += [guessed_row(kind, second) for second in (None, *FaultKind)] if kind else []
                assert counted[rung] <= max(row.count(rung) for row in rows)
            case RungFinished(rung=rung, result=RungResult.INTERRUPTED):
                counted[rung] -= 1
            case RungFinished(rung=Rung.NEXT_SUMMARISER, result=RungResult.CHANGED):
                for rung in (*SUMMARIES, Rung.NEXT_SUMMARISER):
                    climbed[rung] = asked[rung] = 0
            case RungFinished(rung=Rung.FALLBACK_MODEL, result=RungResult.CHANGED) | TurnStarted() | ReplyRecorded():
                climbed.clear()
            case CompactionSettled():
                asked.clear()
            case _:
                pass


@given(world=worlds)
def test_a_guess_costs_nothing_of_the_view_before_everything_reversible_was_tried(world: World) -> None:
    """Neither for the first refusal nor for a later one, whatever kinds they were taken for."""
    for before, logged in zip(world.turns, world.log, strict=False):
        record, fault = logged.record, before.fault
        is_destructive = isinstance(record, RungStarted) and record.kind is not None and record.rung in DESTRUCTIVE
        if is_destructive and fault is not None and fault.confidence is Confidence.GUESS:
            row = guessed_row(fault.kind, fault.second_kind)
            gentle = row[: next(place for place, rung in enumerate(row) if rung in DESTRUCTIVE)]
            # No parameter is named, so none is left out; a long Retry-After rules a backoff out.
            wanted = Counter(rung for rung in gentle if rung not in {Rung.DROP_PARAMETER, Rung.BACKOFF})
            assert wanted <= Counter(before.climbed), (fault, before.climbed)


@given(world=worlds)
def test_no_tool_is_started_again_unless_it_is_idempotent_and_then_only_a_few_times(world: World) -> None:
    starts: Counter[str] = Counter()
    for logged in world.log:
        match logged.record:
            case ReplyRecorded():
                starts.clear()
            case ToolStarted(call_id=call_id, is_idempotent=is_idempotent):
                starts[call_id] += 1
                assert starts[call_id] <= (BOUNDS.tool_starts_max if is_idempotent else 1)
            case _:
                pass


# The fold.


@given(world=worlds)
def test_where_a_session_stands_is_always_consistent(world: World) -> None:
    for turn in world.turns:
        assert list(turn.waiting) == sorted(turn.waiting)
        assert set(turn.cancelled) <= {turn.number, *turn.waiting} - {0}
        assert (turn.in_flight is InFlight.TOOLS) == bool(turn.calls_running)
        assert (turn.in_flight is InFlight.RUNG) == (turn.climbing is not None)
        if turn.in_flight is not InFlight.RUNG:
            assert (turn.in_flight is InFlight.REST) == (turn.number == 0)
        if turn.number == 0:
            assert msgspec.structs.replace(turn, interruptions=0) == _without_a_turn(turn)
        assert [piece.until for piece in turn.pieces] == sorted({piece.until for piece in turn.pieces})
        assert turn.boundary <= turn.last_turn
        assert 1 <= turn.generation <= turn.generations


def _without_a_turn(turn: Turn) -> Turn:
    return msgspec.structs.replace(
        turn,
        attempts=0,
        steps=0,
        has_answer=False,
        calls_asked=(),
        calls_running=(),
        fault=None,
        climbed=(),
        models_passed=0,
        interruptions=0,
    )


@given(world=worlds, share=st.floats(0, 1))
def test_a_fold_from_a_snapshot_of_any_prefix_equals_the_fold_from_the_start(world: World, share: float) -> None:
    kept = [msgspec.json.encode(turn) for turn in world.turns]
    assert [msgspec.json.decode(body, type=Turn) for body in kept] == world.turns

    place = int(share * len(world.log))
    turn = msgspec.json.decode(kept[place], type=Turn)
    for logged in world.log[place:]:
        turn = evolve(turn, Logged(logged.seq, logged.at, decode_record(encode_record(logged.record))))

    assert turn == world.turn


# The view.


def tail_of(world: World, place: int) -> tuple[list[Logged], list[Logged]]:
    """Return what the view after `place` records is made of: records from the boundary on, and pinned ones."""
    turn = world.turns[place]
    pinned = [world.log[seq - 1] for seq in turn.pins if seq < turn.boundary]
    return world.log[max(turn.boundary - 1, 0) : place], pinned


def view_at(world: World, place: int) -> tuple[Message, ...]:
    tail, pinned = tail_of(world, place)
    return messages_in_view(tail, world.turns[place], pinned=pinned)


def some_places(world: World) -> range:
    """About forty places all over the log: views of long logs are what takes time."""
    return range(1, len(world.log) + 1, max(1, len(world.log) // 40))


def shown(part: Part) -> list[str]:
    """Return what a part is told apart by."""
    match part:
        case Text() | Reasoning():
            return [part.text]
        case LargeText():
            return [part.head]
        case Media():
            return [part.name]
        case ToolResult():
            return [text for piece in part.parts for text in shown(piece)]
        case _:
            return []


def expected_texts(world: World, place: int) -> Iterator[str]:
    """Say by the plainest rules what must be shown after `place` records, in order."""
    turn = world.turns[place]
    replaced: dict[tuple[int, int], Text | Media] = {(one.seq, one.place): one.shown for one in turn.replaced}
    whole = {one.excluded for one in turn.excluded if one.place is None}
    replaced |= {
        (one.excluded, one.place): Text(f"(left out: {one.excluded})") for one in turn.excluded if one.place is not None
    }

    def through(seq: int, parts: tuple[Text | LargeText | Media, ...]) -> list[str]:
        if seq in whole:
            return [f"(left out: {seq})"]
        # A part that is shown as nothing stands in the line for the whole message.
        return [text for at, part in enumerate(parts) for text in shown(replaced.get((seq, at), part)) if text]

    for seq in turn.pins:
        pinned = world.log[seq - 1].record if seq < turn.boundary else None
        if isinstance(pinned, InputAdmitted):
            yield from through(seq, pinned.parts)
    if turn.compaction:
        yield turn.compaction.summary
    open_step: dict[str, list[str]] = {}
    started: set[int] = set()
    for logged in world.log[:place]:
        match logged.record:
            case TurnStarted(turn=number) if number >= turn.boundary:
                started.add(number)
                yield from _flushed(open_step)
                admitted = world.log[number - 1].record
                assert isinstance(admitted, InputAdmitted)
                yield from through(number, admitted.parts)
            case ReplyRecorded(turn=number, reply=reply) if number >= turn.boundary and logged.seq >= turn.first_step:
                yield from _flushed(open_step)
                if logged.seq in whole:
                    yield f"(left out: {logged.seq})"
                    reply = replace(reply, parts=tuple(part for part in reply.parts if isinstance(part, ToolCall)))
                spoken = Text if logged.seq < turn.reasoning_from else Text | Reasoning
                yield from (part.text for part in reply.parts if isinstance(part, spoken) and part.text.strip())
                open_step.update((part.call_id, []) for part in reply.parts if isinstance(part, ToolCall))
            case ToolSettled(turn=number, result=result) if result.call_id in open_step:
                texts = through(logged.seq, result.parts)
                size = sum(_size(replaced.get((logged.seq, at), part)) for at, part in enumerate(result.parts))
                is_masked = logged.seq not in whole and logged.seq < turn.masked_before and size >= MASKED_BYTES_MIN
                line = f"[{size:,} bytes of output, no longer shown; recall(seq={logged.seq}) reads them]"
                open_step[result.call_id] = [line] if is_masked else texts
            case TurnEnded(turn=number, outcome=outcome) if number in started and outcome is not Outcome.ANSWERED:
                yield from _flushed(open_step)
                yield NO_ANSWER
            case _:
                pass
    yield from _flushed(open_step)


def _flushed(open_step: dict[str, list[str]]) -> list[str]:
    texts = [text for call_texts in open_step.values() for text in call_texts or ["(no result)"]]
    open_step.clear()
    return texts


def _size(part: Text | LargeText | Media) -> int:
    return len(part.text) if isinstance(part, Text) else part.blob.size_bytes


@settings(max_examples=60)
@given(world=worlds | narrow_worlds)
def test_everything_is_shown_exactly_once_in_order_or_is_behind_the_boundary_or_waits(world: World) -> None:
    for place in some_places(world):
        texts = [text for message in view_at(world, place) for part in message.parts for text in shown(part)]
        without_result = ("Not run:", "Outcome unknown: this call was started")
        told = ["(no result)" if text.startswith(without_result) else text for text in texts]
        told = [
            re.sub(r"^\[.* is left out here, because .*; recall\(seq=(\d+)\).*$", r"(left out: \1)", one)
            for one in told
        ]

        assert told == list(expected_texts(world, place))


@settings(max_examples=60)
@given(world=narrow_worlds)
def test_where_a_generation_begins_only_its_seed_and_the_newest_input_are_in_the_view(world: World) -> None:
    """Everything else is left out for one reason: it is of an old generation. Pins come along only if made anew."""
    for place in seqs(world, GenerationStarted):
        turn = world.turns[place]
        started = world.log[place - 1].record
        assert isinstance(started, GenerationStarted)
        view = view_at(world, place)

        carried = [pin for pin in turn.pins if pin < turn.boundary]
        pinned_anew = [seq for seq in carried if seq not in started.pins_left]
        assert carried == pinned_anew
        assert view[-2] == Message(Role.USER, (Text(started.summary),))
        assert view[-1] == _shown_input(world, turn)
        assert len(view) <= len(carried) + 2
        assert (started.generation, turn.generation) == (world.turns[place - 1].generations + 1, started.generation)


@settings(max_examples=60)
@given(world=narrow_worlds)
def test_undoing_a_generation_shows_again_what_was_shown_before_it(world: World) -> None:
    for place in seqs(world, GenerationStarted):
        before, turn = world.turns[place - 1], world.turns[place]
        undone = evolve(turn, Logged(place + 1, 0.0, CompactionUndone(place, before.compaction, before.compaction_seq)))

        assert (undone.boundary, undone.first_step) == (before.boundary, before.first_step)
        assert (undone.pins, undone.generation) == (before.pins, before.generation)


def _shown_input(world: World, turn: Turn) -> Message:
    """Return the input being answered, with whatever stands for parts of it."""
    admitted = world.log[turn.number - 1].record
    assert isinstance(admitted, InputAdmitted)
    replaced = {one.place: one.shown for one in turn.replaced if one.seq == turn.number}
    parts: tuple[ContentPart, ...] = tuple(replaced.get(at, part) for at, part in enumerate(admitted.parts))
    parts = parts_shown(excluded_places(turn), turn.number, parts, "A message")
    return Message(Role.USER, tuple(part for part in parts if part != Text("")))


@settings(max_examples=60)
@given(world=worlds)
def test_messages_enter_the_conversation_at_places_that_rise_strictly(world: World) -> None:
    for place in some_places(world):
        places = [said.place for said in conversation(world.log[:place])]
        assert places == sorted(set(places))


@settings(max_examples=60)
@given(world=worlds)
def test_every_call_in_every_view_has_exactly_one_result_right_behind_it(world: World) -> None:
    for place in some_places(world):
        messages = view_at(world, place)
        for at, message in enumerate(messages):
            following = messages[at + 1] if at + 1 < len(messages) else None
            calls = [part.call_id for part in message.parts if isinstance(part, ToolCall)]
            results = [part.call_id for part in following.parts if isinstance(part, ToolResult)] if following else []
            assert calls == results
            assert message.parts
            assert (message.role is Role.TOOL) == any(isinstance(part, ToolResult) for part in message.parts)


@settings(max_examples=60)
@given(world=worlds)
def test_every_request_starts_with_a_user_and_does_not_end_with_the_assistant(world: World) -> None:
    for place in seqs(world, AttemptStarted):
        messages = view_at(world, place)
        assert messages[0].role is Role.USER
        assert messages[-1].role is not Role.ASSISTANT or messages[-1].parts == (Text(EMPTY),)


@settings(max_examples=60)
@given(world=worlds)
def test_the_newest_input_is_in_every_request_verbatim_or_as_what_replaced_it(world: World) -> None:
    for place in seqs(world, AttemptStarted):
        assert view_at(world, place).count(_shown_input(world, world.turns[place])) == 1


@settings(max_examples=60)
@given(world=worlds)
def test_what_does_not_change_the_past_only_adds_to_the_end_of_the_view(world: World) -> None:
    for earlier, later in pairwise(some_places(world)):
        if any(isinstance(one.record, CHANGES_THE_VIEW) for one in world.log[earlier:later]):
            continue
        before, after = view_at(world, earlier), view_at(world, later)
        # Results of a step that is still open come in one by one.
        settled = before[:-1] if before and before[-1].role is Role.TOOL else before
        assert after[: len(settled)] == settled
        assert len(after) >= len(before)


@settings(max_examples=60)
@given(world=worlds)
def test_between_changes_each_request_begins_with_the_one_before_it(world: World) -> None:
    for earlier, later in pairwise(seqs(world, AttemptStarted)):
        if not any(isinstance(one.record, CHANGES_THE_VIEW) for one in world.log[earlier:later]):
            before = view_at(world, earlier)
            assert view_at(world, later)[: len(before)] == before


@settings(max_examples=60)
@given(world=worlds)
def test_the_view_needs_no_record_from_before_the_boundary(world: World) -> None:
    for place in some_places(world):
        _, pinned = tail_of(world, place)
        assert messages_in_view(world.log[:place], world.turns[place], pinned=pinned) == view_at(world, place)


@settings(max_examples=60)
@given(
    world=worlds, kind=st.sampled_from([FaultKind.WIRE_OVERFLOW, FaultKind.MEDIA_OVERFLOW]), unit=st.sampled_from(Unit)
)
def test_leaving_out_whatever_is_to_blame_makes_the_request_smaller_until_nothing_is(
    world: World, kind: FaultKind, unit: Unit
) -> None:
    for place in seqs(world, AttemptStarted)[-3:]:
        turn = world.turns[place]
        tail, pinned = tail_of(world, place)
        size = sum(map(bytes_of_message, messages_in_view(tail, turn, pinned=pinned)))
        while (culprit := find_culprit([*pinned, *tail], turn, kind, unit=unit)) is not None:
            gone = PartReplaced(turn.number, culprit.seq, culprit.place, culprit.shown, "x")
            turn = msgspec.structs.replace(turn, replaced=(*turn.replaced, gone))
            smaller = sum(map(bytes_of_message, messages_in_view(tail, turn, pinned=pinned)))
            assert smaller < size
            size = smaller
