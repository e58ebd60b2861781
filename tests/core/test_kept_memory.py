"""Stored memories: what is encoded comes back, and only one that would be made again now is continued."""

import os

from msgspec.structs import replace

from holdfast.core.compaction.digest import DIGEST, digest_text, remember, render_fitting
from holdfast.core.compaction.memory.kept import BODY_BYTES_MAX, is_valid, keep, memory_of, newest, retained
from holdfast.core.compaction.memory.observe import observe
from holdfast.core.compaction.memory.state import Memory, Said, without_input
from holdfast.core.fold.session_state import KeptMemory, Turn
from holdfast.core.limits.sizing import tokens_of_text
from holdfast.types.records import MessageExcluded
from tests.core.passages import answered, called, returned, said

TALK = [
    said(1, "Please mend src/parser.py; the port is 8080. Never push to main."),
    called(2, "bash", command="pytest -q"),
    returned(3, "1 failed"),
    answered(4, "HAF-4711 is open. Should I go on?"),
    said(5, "yes"),
]


def kept_until(until: int, turn: Turn | None = None, *, since: int = 0) -> KeptMemory:
    kept = keep(remember(TALK), turn or Turn(), until=until, since=since)
    assert kept is not None
    return kept


def test_a_stored_memory_comes_back_as_it_was_and_can_be_continued() -> None:
    first = keep(remember(TALK[:3]), Turn(), until=4)
    assert first is not None
    memory = memory_of(first)
    assert memory == remember(TALK[:3])
    for passage in TALK[3:]:
        observe(memory, passage.seq, passage.message)
    assert memory == remember(TALK)
    assert memory_of(first) == remember(TALK[:3]), "each time a copy"


def test_a_memory_that_is_too_large_is_not_stored() -> None:
    noise = Memory(messages=1, last_words=Said(1, os.urandom(BODY_BYTES_MAX).hex()))
    assert keep(noise, Turn(), until=2) is None


def test_a_memory_that_cannot_be_read_is_made_again() -> None:
    kept = kept_until(9)
    assert memory_of(replace(kept, body=b"not compressed")) is None
    assert memory_of(replace(kept, body=b"x\x9c\x03\x00\x00\x00\x00\x01")) is None


def test_the_newest_valid_memory_before_a_place_is_continued() -> None:
    older, newer, part = kept_until(5), kept_until(9), kept_until(9, since=3)
    assert newest((older, newer, part), Turn(), until=9, is_whole=True) is newer
    assert newest((older, newer, part), Turn(), until=8, is_whole=True) is older
    assert newest((older, newer, part), Turn(), until=9, is_whole=False) is part
    assert newest((newer,), Turn(), until=8, is_whole=True) is None
    assert newest((replace(newer, version=0),), Turn(), until=9, is_whole=True) is None


def test_an_exclusion_makes_memories_of_its_message_invalid_until_it_is_taken_back() -> None:
    kept = kept_until(9)
    for one in (MessageExcluded(4, is_excluded=True), MessageExcluded(4, is_excluded=True, place=0)):
        excluding = Turn(excluded=(one,))
        assert not is_valid(kept, excluding)
        assert is_valid(kept_until(9, excluding), excluding)
        assert not is_valid(kept_until(9, excluding), Turn())
    later = Turn(excluded=(MessageExcluded(10, is_excluded=True),))
    assert is_valid(kept, later)


def test_a_retraction_makes_memories_of_its_messages_invalid() -> None:
    kept, retracting = kept_until(9), Turn(retracted=((4, 6),))
    assert not is_valid(kept, retracting)
    assert is_valid(kept_until(9, retracting), retracting)
    assert is_valid(kept, Turn(retracted=((9, 12),)))
    # A retraction that reaches further takes nothing more from the messages before the place.
    assert is_valid(kept_until(9, Turn(retracted=((4, 9),))), Turn(retracted=((4, 12),)))


def test_the_memory_before_the_new_one_is_stored_for_an_undo() -> None:
    first, second, part = kept_until(5), kept_until(9), kept_until(9, since=3)
    assert retained(None, first, None) == (first,)
    assert retained(first, second, None) == (first, second)
    assert retained(second, second, part) == (second, part)


def test_an_input_that_is_still_shown_is_not_told() -> None:
    memory = remember(TALK)
    told = render_fitting(without_input(memory, 1), 2_000, tokens_of_text, DIGEST)
    assert "Please mend" in digest_text(TALK, tokens_max=2_000)
    assert "Please mend" not in told
    assert "Never push" not in told
    assert "pytest" in told
    assert without_input(memory, 99) == memory


def test_a_digest_of_the_newest_messages_alone_says_so() -> None:
    memory = replace(remember(TALK), is_part=True)
    told = render_fitting(memory, 2_000, tokens_of_text, DIGEST)
    assert "Messages before #1 are not read for this text yet." in told
    assert "not read" not in digest_text(TALK, tokens_max=2_000)
