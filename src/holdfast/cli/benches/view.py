"""`holdfast bench view`: how long it takes to build what the model sees, for a tail that fills a window.

The tail is made of real messages, one after the other until they come to 200,000 tokens. The reference, run in turns
with it, is Python's own `json` reading the same records: what any program pays that keeps a conversation as JSON.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median

import click
import msgspec

from holdfast.cli.benches.corpus import corpus_option, sessions_of
from holdfast.cli.benches.measured import Measured
from holdfast.cli.exits import BROKEN
from holdfast.cli.paper import json_option
from holdfast.core.fold import Turn
from holdfast.core.records import Logged
from holdfast.core.sizing import tokens_of_message
from holdfast.core.view import conversation, messages_in_view
from holdfast.rescue.importing import Turns, turns_of
from holdfast.rescue.neutral import NeutralMessage
from holdfast.runtime.log import Log

TAIL_TOKENS = 200_000
VIEW_MS_MAX = 30.0
# The view must take no longer than half of what reading the same records as JSON takes.
RATIO_FLOOR = 2.0
_ROUNDS = 15
_FILE = "claude_code_dev.jsonl.gz"


class ViewReport(msgspec.Struct, frozen=True):
    """The figures of one run: the median of the rounds."""

    tokens: int
    records: int
    messages: int
    view: Measured


def full_tail(sessions: Iterable[list[NeutralMessage]], tokens_max: int) -> Log:
    """Return a log whose tail comes to this many tokens, made of the messages of real sessions."""
    log, turns = Log("measured", Turn()), Turns(0)
    left = tokens_max
    for session in sessions:
        for turn in turns_of(session):
            first = turns.seq
            logged = [Logged(seq, 0.0, record) for seq, record in enumerate(turns.records(turn), start=first + 1)]
            log.extend(logged)
            left -= sum(tokens_of_message(said.message) for said in conversation(logged))
            if left <= 0:
                return log
    return log


def _milliseconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return 1_000 * (time.process_time() - start)


def measure_view(corpus: Path | None, *, tokens_max: int = TAIL_TOKENS, rounds: int = _ROUNDS) -> ViewReport:
    """Build the view of a full tail again and again, and read its records as JSON in between."""
    log = full_tail(sessions_of(corpus, only=_FILE), tokens_max)
    encoded = msgspec.json.encode(log.tail)
    messages = messages_in_view(log.tail, log.turn)
    builds, reads = [], []
    for _ in range(rounds):
        builds.append(_milliseconds(lambda: messages_in_view(log.tail, log.turn)))
        reads.append(_milliseconds(lambda: json.loads(encoded)))
    built, read = max(median(builds), 1e-6), median(reads)
    return ViewReport(
        tokens=sum(tokens_of_message(message) for message in messages),
        records=len(log.tail),
        messages=len(messages),
        view=Measured("view of a full tail", built, read, read / built, RATIO_FLOOR, "ms"),
    )


@click.command()
@corpus_option
@json_option
def view(corpus: Path | None, *, as_json: bool) -> None:
    """Measure how long the view of a full window takes; exit with 1 where it is longer than promised."""
    report = measure_view(corpus)
    if as_json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    else:
        print(f"{report.tokens:,} tokens in {report.records:,} records, {report.messages:,} messages")
        print(report.view.line())
    if report.view.value > VIEW_MS_MAX or report.view.ratio < RATIO_FLOOR:
        sys.exit(BROKEN)
