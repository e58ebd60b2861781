"""Fits the weights of words by which a failure is likened to a kind: `python -m tests.core.fitting` writes them.

The rows are the refusals that tests keep. The fit is logistic regression over all kinds at once, in small steps that
shrink for words seen often (AdaGrad). Of 149 refusals of later rounds that only the status explained, 66 had been read
right; fitted to the rows before each round, words and status together read 110 right.
"""

import random
import textwrap
from collections import Counter, defaultdict
from collections.abc import Sequence
from math import exp, sqrt
from pathlib import Path

import msgspec

from holdfast.core.faults.body import Evidence, read
from holdfast.core.faults.fallback_classifier import BIAS, LETTERS, features, stems
from holdfast.types.faults import FaultKind, Phase, Refusal
from tests.house.places import ROOT

WRITTEN = ROOT / "src" / "holdfast" / "core" / "faults" / "fallback_classifier.py"
# Words that stand in fewer refusals are names.
_ROWS_MIN = 3
# With a quarter of the rounds later ones were read as well, and a few of the rows themselves not any more.
_ROUNDS, _STEP = 60, 0.1
# Errors this small teach nothing and take most of the time.
_ERROR_MIN = 0.01
# Smaller weights are left out: with them nothing was read better.
_WEIGHT_MIN = 0.3
# A Chinese character is as wide as two.
_LINE_CHARS = 100

Weights = dict[str, dict[FaultKind, float]]


def text_of(body: object) -> str:
    """Return a body as it came: rows have JSON as JSON."""
    return body if isinstance(body, str) else msgspec.json.encode(body).decode()


class Taught(msgspec.Struct, frozen=True):
    """A refusal with its kind."""

    kind: FaultKind
    status: int | None
    body: object
    api: str = ""

    @property
    def evidence(self) -> Evidence:
        """What the classifier sees of it."""
        return read(Refusal(self.api, Phase.RESPONSE, self.status, body=text_of(self.body)))


def rows_kept() -> list[Taught]:
    """Return all refusals that tests keep."""
    files = [Path(__file__).with_name(name) for name in ("refusals.jsonl", "fault_examples.jsonl")]
    return [msgspec.json.decode(line, type=Taught) for file in files for line in file.read_bytes().splitlines()]


def fitted(rows: Sequence[Taught]) -> Weights:
    """Return the weight of each word for each kind, in natural logarithms."""
    known = [(row.kind, row.evidence) for row in rows]
    counts = Counter(word for _, evidence in known for word in {*stems(evidence.text), str(evidence.status)})
    vocabulary = {word for word, count in counts.items() if count >= _ROWS_MIN}
    seen = [(kind, sorted({BIAS, *features(evidence, vocabulary)})) for kind, evidence in known]
    weights: Weights = defaultdict(lambda: dict.fromkeys(FaultKind, 0.0))
    squares: Weights = defaultdict(lambda: dict.fromkeys(FaultKind, 1e-6))
    order = random.Random(1)
    for _ in range(_ROUNDS):
        order.shuffle(seen)
        for kind, words in seen:
            for other, chance in _chances(weights, words).items():
                error = chance - (other is kind)
                if abs(error) < _ERROR_MIN:
                    continue
                for word in words:
                    squares[word][other] += error * error
                    weights[word][other] -= _STEP * error / sqrt(squares[word][other])
    return weights


def _chances(weights: Weights, words: Sequence[str]) -> dict[FaultKind, float]:
    votes = {kind: sum(weights[word][kind] for word in words) for kind in FaultKind}
    most = max(votes.values())
    odds = {kind: exp(vote - most) for kind, vote in votes.items()}
    total = sum(odds.values())
    return {kind: one / total for kind, one in odds.items()}


def table(weights: Weights) -> str:
    """Return the weights as the code has them, in tenths."""
    letters = {kind: letter for letter, kind in LETTERS.items()}
    entries = []
    for word, of_word in sorted(weights.items()):
        told = [
            f"{letters[kind]}{round(10 * of_word[kind])}" for kind in FaultKind if abs(of_word[kind]) >= _WEIGHT_MIN
        ]
        if told or word == BIAS:
            entries.append(f"{word}={''.join(told)}")
    return "\n".join(textwrap.wrap(" ".join(entries), _LINE_CHARS, break_long_words=False, break_on_hyphens=False))


def module(weights: Weights) -> str:
    """Return the text of the classifier with this table in place of the one it has."""
    before, opening, behind = WRITTEN.read_text("utf-8").partition('WEIGHTS = """\n')
    _, closing, after = behind.partition('\n"""\n')
    assert opening, "the classifier has a table"
    assert closing, "the table ends"
    return f"{before}{opening}{table(weights)}{closing}{after}"


if __name__ == "__main__":
    WRITTEN.write_text(module(fitted(rows_kept())), "utf-8")
