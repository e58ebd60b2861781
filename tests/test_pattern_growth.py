"""Every regular expression of the package does work that grows with its input, not with the square of it.

Each pattern of each module is run on hostile texts made from its own letters: a long word, words, numbers, openings
without an end, and repeated pieces of the pattern itself. Processor time at one size is compared with that at a
multiple of it (`tests/growth.py`), so that the speed of the machine does not count. A timer of processor time ends a
pattern that would not end by itself.
"""

import importlib
import inspect
import pkgutil
import re
import signal
import sys
import time
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from statistics import median

import pytest

import holdfast
from holdfast.core.faults.classifier import classify
from holdfast.core.text.patterns import Pattern
from holdfast.types.faults import Phase, Refusal
from tests.growth import RATIO_MAX, TIMES, growth

# Inputs of the package are bounded at tens of kilobytes or split before; quadratic work shows far below that.
_CHARS = 500
# Quadratic work takes some ten milliseconds on the large text, linear work a hundredth of it.
_SECONDS_MIN = 0.003
# Below this a step of the clock decides.
_CLOCK_STEP = 0.00001
_ROUNDS = 5
# A pattern takes a tenth of a second on all its texts together.
_PATTERN_SECONDS_MAX = 10.0
_LITERAL = re.compile(r"[a-z_]{3,}|[\u0400-\u04ff\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]{2,}")
_OPENING = re.compile(r"[<\[({#`'\"][a-z_]{3,}")
_PIECES = (
    *("a", "a ", "a-", "a_", "A", "1", "1 ", "1,", "1.", " ", "\n", "\t", "(", "[", "{", "<", "'", '"', "\\", "."),
    *("/", ":", "a.b ", "é", "长", "=", "&", "#", "*", "`", "|"),
)


# Uses of a pattern that try one place of a text only.
_ANCHORED = re.compile(r"\.(?:match|fullmatch)\b")
# Tables whose patterns are read by another module, which only matches at the start of a text.
ANCHORED_TABLES = (
    "holdfast.core.proxy.client_profiles.INSTRUCTION_FRAMES",
    "holdfast.core.proxy.client_profiles.ASIDE",
)
# Patterns that search in a text of a bounded length, or in a lab's own file.
BOUNDED = {
    "holdfast.core.compaction.facts._FUNCTION_WORD": "a number and the word before it",
    "holdfast.core.compaction.facts._WORD_BEFORE": "the characters before a number",
    "holdfast.core.compaction.memory.checks._CHECK": "the first 200 characters of a command",
    "holdfast.core.compaction.memory.checks._EXIT": "the line of a verdict",
    "holdfast.core.compaction.memory.uses._LABEL": "the characters before a value",
    "holdfast.lab.benches.continuity._FAILED": "a bench's own file",
    "holdfast.lab.benches.generated.scripted._EXACT": "a bench's own sentences",
    "holdfast.lab.benches.ledger._IDENTIFIER": "a bench's own file",
}


def patterns_of(module: object) -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield the compiled patterns that a module or one of its tables holds, as text patterns."""
    for name, value in list(vars(module).items()):
        for found in _patterns_in(value, 0):
            yield name, found


def _patterns_in(value: object, depth: int) -> Iterator[re.Pattern[str]]:
    if isinstance(value, Pattern):
        yield re.compile(value.source, value.flags)
    elif isinstance(value, re.Pattern):
        source = value.pattern if isinstance(value.pattern, str) else value.pattern.decode("latin-1")
        yield re.compile(source, value.flags & ~re.UNICODE if isinstance(value.pattern, bytes) else value.flags)
    elif depth < 3 and isinstance(value, tuple | list | frozenset | set):
        for one in value:
            yield from _patterns_in(one, depth + 1)
    elif depth < 3 and isinstance(value, dict):
        for one in [*value, *value.values()]:
            yield from _patterns_in(one, depth + 1)


@cache
def package_patterns() -> dict[str, re.Pattern[str]]:
    """Return every pattern of the package by where it is; modules without their extra are skipped."""
    found: dict[str, re.Pattern[str]] = {}
    seen: set[tuple[str, int]] = set()
    for info in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        if info.name.endswith("__main__"):
            continue
        try:
            module = sys.modules.get(info.name) or importlib.import_module(info.name)
        except ImportError:
            continue
        for number, (name, pattern) in enumerate(patterns_of(module)):
            if (pattern.pattern, pattern.flags) not in seen:
                seen.add((pattern.pattern, pattern.flags))
                found[f"{info.name}.{name}#{number}"] = pattern
    return found


def texts_for(pattern: re.Pattern[str]) -> Iterator[str]:
    """Yield pieces that a backtracking pattern may be slow on when they are repeated."""
    literals = list(dict.fromkeys(_LITERAL.findall(pattern.pattern)))[:8]
    yield from _PIECES
    for literal in literals:
        yield literal
        yield f"{literal} "
        yield f"{literal} 1 "
    # A start that recurs: "<script" of `<script.*?</script>`.
    yield from dict.fromkeys(_OPENING.findall(pattern.pattern)[:8])
    for one, other in pairwise(literals):
        yield f"{one} {other} "


@cache
def is_anchored(where: str) -> bool:
    """Return whether a pattern is only tried at one place of a text: every use is `match` or `fullmatch`."""
    where = where.partition("#")[0]
    module, _, name = where.rpartition(".")
    uses = re.findall(rf"\b{re.escape(name)}\b(?! = )(\.\w+)?", inspect.getsource(sys.modules[module]))
    return where in ANCHORED_TABLES or (bool(uses) and all(_ANCHORED.match(use) for use in uses))


def seconds(pattern: re.Pattern[str], text: str, *, anchored: bool) -> float:
    # Not `process_time`: it moves in steps of milliseconds while the timer of `bounded_growth` runs.
    started = time.thread_time()
    for _ in (pattern.match(text), pattern.fullmatch(text)) if anchored else pattern.finditer(text):
        pass
    return time.thread_time() - started


def slowest_growth(pattern: re.Pattern[str], *, anchored: bool = False) -> tuple[float, str]:
    """Return the first ratio of work between two sizes that is too large and its piece, or the largest ratio."""
    worst = (0.0, "")
    prefixes = ["", *list(dict.fromkeys(_LITERAL.findall(pattern.pattern)))[:2]]
    for prefix, piece in ((prefix, piece) for piece in texts_for(pattern) for prefix in prefixes):
        large = (prefix + piece * (_CHARS * TIMES // len(piece)))[: _CHARS * TIMES] + "\x00"
        small = large[:_CHARS] + "\x00"
        ratio = _ratio(pattern, (small, large), rounds=1, anchored=anchored)
        if ratio > RATIO_MAX:
            ratio = _ratio(pattern, (small, large), rounds=_ROUNDS, anchored=anchored)
        worst = max(worst, (ratio, prefix + piece))
        if worst[0] > RATIO_MAX:
            break
    return worst


def _ratio(pattern: re.Pattern[str], texts: tuple[str, str], *, rounds: int, anchored: bool) -> float:
    """Return how many times longer the second text takes, by medians; 0 where it takes next to nothing."""
    slow = median(seconds(pattern, texts[1], anchored=anchored) for _ in range(rounds))
    if slow < _SECONDS_MIN:
        return 0.0
    quick = median(seconds(pattern, texts[0], anchored=anchored) for _ in range(rounds))
    return slow / max(quick, _CLOCK_STEP)


class _OutOfTimeError(Exception):
    """A pattern has used more processor time than any linear one."""


def bounded_growth(pattern: re.Pattern[str], *, anchored: bool = False) -> tuple[float, str]:
    """Return `slowest_growth`, or an infinite ratio for a pattern that does not end in time."""

    def end(_signal: int, _frame: object) -> None:
        raise _OutOfTimeError

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, _PATTERN_SECONDS_MAX)
    try:
        return slowest_growth(pattern, anchored=anchored)
    except _OutOfTimeError:
        return float("inf"), "out of time"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def test_the_package_has_patterns() -> None:
    names = {where.partition("#")[0] for where in package_patterns()}
    assert len(names) > 200
    # An entry that names nothing would hide a later pattern of that name.
    assert {*BOUNDED, *ANCHORED_TABLES} <= names


@pytest.mark.parametrize("share", range(4))
def test_the_work_of_every_pattern_grows_with_its_input(share: int) -> None:
    slow = {}
    for where in sorted(package_patterns())[share::4]:
        if where.partition("#")[0] in BOUNDED:
            continue
        found = bounded_growth(package_patterns()[where], anchored=is_anchored(where))
        if found[0] > RATIO_MAX:
            slow[where] = found
    assert slow == {}


@pytest.mark.parametrize(
    "source",
    [
        # Any word, then a bounded gap: every letter of a long word is a start.
        r"\w*.{0,40}exceeds",
        r"\d+(?:\.\d+)*x",
        r"<script.*?</script>",
    ],
)
def test_a_quadratic_pattern_is_found(source: str) -> None:
    assert bounded_growth(re.compile(source, re.DOTALL))[0] > RATIO_MAX


def test_a_pattern_that_does_not_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.test_pattern_growth._PATTERN_SECONDS_MAX", 0.2)
    assert bounded_growth(re.compile(r"(?:a|a)*b")) == (float("inf"), "out of time")


def test_a_long_word_of_a_user_in_an_error_costs_work_in_proportion() -> None:
    """G.A.2: 2 KB without a space, echoed in a 400, took seconds of processor time on the event loop."""

    def echoed(chars: int) -> Refusal:
        body = '{"error": {"message": "Invalid content: ' + "a" * chars + '", "code": "bad"}}'
        return Refusal("openai-chat", Phase.RESPONSE, 400, body=body)

    assert growth(echoed, classify, 2_048) <= RATIO_MAX
