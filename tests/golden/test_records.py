"""Records: the bytes that an earlier version wrote are read and written as they were."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from holdfast.types.records import AnyRecord, decode_record, encode_record
from tests.golden import samples
from tests.golden.files import read_json, read_lines
from tests.golden.shapes import at_default, choices, expanded, record_types, structs_in, with_spelling

FULL, MINIMAL = read_lines("records_full.jsonl"), read_lines("records_minimal.jsonl")
MEANINGS = read_lines("records_minimal_meaning.jsonl")
CHOICES: dict[str, dict[str, list[str]]] = read_json("choices.json")


def _tag(body: bytes) -> str:
    return str(msgspec.json.decode(body)["type"])


@pytest.mark.parametrize("body", [*FULL, *MINIMAL], ids=_tag)
def test_a_stored_record_is_written_again_as_the_same_bytes(body: bytes) -> None:
    assert encode_record(decode_record(body)) == body


@pytest.mark.parametrize(
    ("records", "bodies"), [(samples.FULL, FULL), (samples.MINIMAL, MINIMAL)], ids=["full", "minimal"]
)
def test_a_record_made_today_has_the_stored_bytes_and_is_read_from_them(
    records: Sequence[AnyRecord], bodies: list[bytes]
) -> None:
    for record, body in zip(records, bodies, strict=True):
        assert (encode_record(record), decode_record(body)) == (body, record)


def test_a_field_that_is_not_stored_has_the_default_of_the_version_that_left_it_out() -> None:
    for body, meaning in zip(MINIMAL, MEANINGS, strict=True):
        assert expanded(decode_record(body)) == msgspec.json.decode(meaning)


@pytest.mark.parametrize("bodies", [FULL, MINIMAL], ids=["full", "minimal"])
def test_every_type_of_record_has_a_sample_and_no_tag_is_lost(bodies: list[bytes]) -> None:
    assert {_tag(body) for body in bodies} == set(record_types())


@pytest.mark.parametrize("body", FULL, ids=_tag)
def test_no_field_of_a_full_sample_stands_at_its_default(body: bytes) -> None:
    record = decode_record(body)

    assert [(type(one).__name__, at_default(one)) for one in structs_in(record) if at_default(one)] == []


def test_every_stored_choice_has_the_spellings_that_it_had() -> None:
    assert choices() == CHOICES


@pytest.mark.parametrize("place", CHOICES["enums"])
def test_every_spelling_of_a_choice_is_read_and_written_as_it_is(place: str) -> None:
    tag, *steps = place.split(".")
    for spelling in CHOICES["enums"][place]:
        plain = [expanded(decode_record(body)) for body in FULL if _tag(body) == tag]
        spelled = [one for one in plain if with_spelling(one, steps, spelling)]

        assert spelled, "a full sample has the choice"
        assert [expanded(decode_record(msgspec.json.encode(one))) for one in spelled] == spelled
        records = [decode_record(msgspec.json.encode(one)) for one in spelled]
        assert [decode_record(encode_record(record)) for record in records] == records


def _tags_in(plain: Any) -> set[str]:
    if isinstance(plain, dict):
        own = {plain["type"]} if "type" in plain else set()
        return own.union(*map(_tags_in, plain.values()))
    return set().union(*map(_tags_in, plain)) if isinstance(plain, list) else set()


@pytest.mark.parametrize("place", CHOICES["unions"])
def test_every_tag_of_a_union_is_in_a_sample(place: str) -> None:
    tag = place.partition(".")[0]
    samples_of = [msgspec.json.decode(body) for body in FULL if _tag(body) == tag]

    assert set(CHOICES["unions"][place]) <= _tags_in(samples_of)
