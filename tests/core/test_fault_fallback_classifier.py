"""What no rule explains is likened by its words to what was seen before, carefully."""

import pytest

from holdfast.core.faults import fallback_classifier
from holdfast.core.faults.body import Evidence, read
from holdfast.core.faults.classifier import classify
from holdfast.core.faults.fallback_classifier import BIAS, LETTERS, features, most_likely_kind, stems
from holdfast.types.faults import Confidence, FaultKind, Phase, Refusal, Sent, Unit
from tests.core import fitting

K = FaultKind


def said(text: str, status: int | None = 400) -> Refusal:
    return Refusal("other", Phase.RESPONSE, status, body=text)


def evidence_of(text: str, status: int | None = 400) -> Evidence:
    return read(said(text, status))


@pytest.fixture
def few_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of four words in place of the fitted one."""
    weights = {
        BIAS: {K.BAD_REQUEST: 5},
        "pigeon": {K.TRANSIENT: 10},
        "carrier": {K.TRANSIENT: 10},
        "parchme": {K.WIRE_OVERFLOW: 12},
        "heavy": {K.WIRE_OVERFLOW: 4},
    }
    monkeypatch.setattr(fallback_classifier, "_weights", lambda: weights)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("the carrier pigeon is tired", K.TRANSIENT),
        # One word alone decides nothing, and neither do words that nobody knows.
        ("the pigeon is tired", None),
        ("something odd", None),
        # An overflow must be well ahead, and something must be said of a size.
        ("parchment too long and heavy", K.WIRE_OVERFLOW),
        ("parchment and heavy", None),
    ],
)
@pytest.mark.usefixtures("few_weights")
def test_words_vote_where_there_are_enough_of_them(text: str, kind: FaultKind | None) -> None:
    assert most_likely_kind(evidence_of(text)) is kind


@pytest.mark.usefixtures("few_weights")
def test_an_overflow_that_is_only_just_ahead_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback_classifier, "_LEAD_MIN", 12)

    assert most_likely_kind(evidence_of("parchment too long and heavy")) is None


@pytest.mark.usefixtures("few_weights")
def test_what_is_voted_is_a_guess_with_what_the_status_says_behind_it() -> None:
    fault = classify(said("the carrier pigeon is tired"))

    assert (fault.kind, fault.confidence, fault.second_kind) == (K.TRANSIENT, Confidence.GUESS, K.BAD_REQUEST)


@pytest.mark.usefixtures("few_weights")
def test_what_a_voted_overflow_states_is_read_in_its_unit() -> None:
    fault = classify(said("parchment is 70000, heavy, and at most 65536 is short enough"))

    assert (fault.kind, fault.confidence, fault.unit) == (K.WIRE_OVERFLOW, Confidence.GUESS, Unit.BYTES)


@pytest.mark.usefixtures("few_weights")
def test_a_request_that_was_suspected_of_its_size_is_not_acquitted_by_words() -> None:
    large = Sent(tokens=99_000, window_tokens=100_000)

    assert classify(said("the carrier pigeon is tired"), large).kind is K.TOKEN_OVERFLOW


@pytest.mark.usefixtures("few_weights")
def test_a_status_that_is_sure_of_itself_is_not_outvoted() -> None:
    assert classify(said("the carrier pigeon is tired", 401)).kind is K.AUTH


def test_words_are_found_in_codes_and_in_sentences_by_their_beginnings() -> None:
    evidence = evidence_of('{"error": {"code": "IMAGE_UNSUPPORTED", "message": "authorizing it is 2 odd"}}', 415)

    assert stems("Authorizing it") == {"Authori", "it"}
    known = {"image", "authori", "415", "odd", "unsuppo", "it", "cow"}
    assert features(evidence, known) == {"image", "authori", "415", "odd", "unsuppo", "it"}


def test_every_weight_in_the_table_is_of_a_kind() -> None:
    weights = fallback_classifier._weights()

    assert len(LETTERS) == len(FaultKind)
    assert {kind for of_word in weights.values() for kind in of_word} == set(FaultKind)
    assert BIAS in weights


def test_words_of_one_half_of_the_refusals_tell_the_kind_of_most_of_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    # A quarter of the rounds is enough for this, and takes a quarter of the time.
    monkeypatch.setattr(fitting, "_ROUNDS", 15)
    rows = fitting.rows_kept()
    fitted = fitting.fitted(rows[::2])
    tenths = {word: {kind: round(10 * one) for kind, one in of_word.items()} for word, of_word in fitted.items()}
    monkeypatch.setattr(fallback_classifier, "_weights", lambda: tenths)

    votes = [(row.kind, most_likely_kind(row.evidence)) for row in rows[1::2]]

    voted = [(kind, vote) for kind, vote in votes if vote is not None]
    assert len(voted) > len(votes) * 0.8
    assert sum(kind is vote for kind, vote in voted) > len(voted) * 0.75


def test_the_table_that_is_written_is_the_one_that_is_read() -> None:
    weights: fitting.Weights = {
        BIAS: dict.fromkeys(FaultKind, 0.0),
        "pigeon": dict.fromkeys(FaultKind, 0.0) | {K.TRANSIENT: 1.26, K.AUTH: -0.31, K.QUOTA: 0.29},
        "nothing": dict.fromkeys(FaultKind, 0.1),
    }

    letters = {kind: letter for letter, kind in LETTERS.items()}
    assert fitting.table(weights) == f"{BIAS}= pigeon={letters[K.TRANSIENT]}13{letters[K.AUTH]}-3"
    assert fitting.table(weights) in fitting.module(weights)
