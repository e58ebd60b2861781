"""State layers of a digest: lines of a memory in order of preference, each with shorter variants.

A line is `label [#seq] text`, so that it can be found again and its record can be read.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.core.compaction.memory.agreements import CONTEXT, is_consent
from holdfast.core.compaction.memory.quotes import one_line
from holdfast.core.compaction.memory.state import Check, Doing, Memory, TaskStatus

_NEWEST_CHARS = 480
# Texts that begin with the same characters are the same request.
_SAME_CHARS = 60
_TASKS_DONE_MAX = 12


class Candidate(NamedTuple):
    """A line that may be shown: its place among the lines of its layer, and its variants, the longest first."""

    order: tuple[int, int]
    variants: tuple[str, ...]


def goal(memory: Memory) -> Iterator[Candidate]:
    """Yield the first and the newest request."""
    if memory.goal is not None:
        seq, text = memory.goal.seq, memory.goal.text
        yield Candidate((seq, 0), tuple(f"goal [#{seq}] {one_line(text, chars)}" for chars in (900, 400, 160, 80)))
    newest = memory.typed[-1].seq if memory.typed else None
    if newest is not None and (memory.goal is None or newest != memory.goal.seq):
        text = " ".join(one.text for one in memory.typed if one.seq == newest)
        if memory.goal is not None and text[:_SAME_CHARS] == memory.goal.text[:_SAME_CHARS]:
            # Some agents send the task again with every step.
            return
        variants = tuple(f"newest request [#{newest}] {one_line(text, chars)}" for chars in (_NEWEST_CHARS, 160, 80))
        yield Candidate((newest, 1), variants)


def tasks(memory: Memory) -> Iterator[Candidate]:
    """Yield the unfinished tasks of the newest lists, the plan, and a few finished ones."""
    done: list[Candidate] = []
    for place, listed in enumerate(reversed(memory.tasks.values())):
        for at, task in enumerate(listed):
            line = f"task [#{task.seq}] {task.status}: {task.text}"
            if task.status is TaskStatus.DONE:
                done.append(Candidate((-place, at), (line,)))
            else:
                short = f"task [#{task.seq}] {task.status}: {one_line(task.text, 80)}"
                yield Candidate((-place, at), (line, short))
    if memory.plan is not None:
        seq, text = memory.plan.seq, memory.plan.text
        yield Candidate((1, 0), tuple(f"plan [#{seq}] {one_line(text, chars)}" for chars in (600, 300)))
    yield from done[-_TASKS_DONE_MAX:]


def agreements(memory: Memory) -> Iterator[Candidate]:
    """Yield answers with their questions, the newest first."""
    for at, one in enumerate(reversed(memory.agreements)):
        bare = one.question.partition(CONTEXT)[0]
        questions = dict.fromkeys((one_line(one.question, 420), one_line(bare, 280), one_line(bare, 160)))
        label = "agreed" if is_consent(one.answer) else "answered"
        variants = tuple(
            f"{label} [#{one.question_seq}] {question} -> [#{one.answer_seq}] {one.answer}" for question in questions
        )
        yield Candidate((one.answer_seq, -at), variants)


def rules(memory: Memory) -> Iterator[Candidate]:
    """Yield standing instructions, the newest first."""
    for one in reversed(memory.rules):
        yield Candidate((one.seq, 0), (f"rule [#{one.seq}] {one.text}",))


def changes(memory: Memory) -> Iterator[Candidate]:
    """Yield changed files with a line of their last edit, the newest first."""
    telling: dict[int, str] = {}
    for event in memory.events:
        if event.doing is Doing.CHANGED:
            telling.setdefault(event.seq, event.text.partition(": ")[2])
    for path, seq in reversed(memory.changed.items()):
        line = f"changed, not committed [#{seq}] {path}"
        edit = telling.get(seq)
        variants = (f"{line}: {one_line(edit, 90)}", line) if edit else (line,)
        yield Candidate((seq, 0), variants)


def checks(memory: Memory) -> Iterator[Candidate]:
    """Yield the last verdict of each check, the newest first."""
    for check in reversed(memory.checks.values()):
        verdict = "failed" if check.failed else "passed"
        yield _of(check, f"check [#{check.seq}] {verdict}:")


def errors(memory: Memory) -> Iterator[Candidate]:
    """Yield errors that are still open, the newest first."""
    for error in reversed(memory.errors.values()):
        check = memory.checks.get(error.command)
        if check is None or check.line != error.line:
            yield _of(error, f"error, still open [#{error.seq}]")


def _of(check: Check, head: str) -> Candidate:
    variants = tuple(
        f"{head} {one_line(check.command, command)} => {one_line(check.line, line)}".removesuffix(" => ")
        for command, line in ((100, 200), (60, 120), (40, 80))
    )
    return Candidate((check.seq, 0), variants)


def last_words(memory: Memory) -> Iterator[Candidate]:
    """Yield the beginning of the agent's last message."""
    if memory.last_words is not None:
        seq, text = memory.last_words.seq, memory.last_words.text
        yield Candidate((seq, 0), tuple(f"last words [#{seq}] {_head(text, chars)}" for chars in (900, 500, 250, 120)))


def _head(text: str, chars: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= chars else f"{line[:chars].rstrip()} …"


def commits(memory: Memory) -> Iterator[Candidate]:
    """Yield the newest commits."""
    for one in reversed(memory.commits):
        yield Candidate((one.seq, 0), (f"committed [#{one.seq}] {one.text}",))


LABELS = (
    "goal|newest request|task|plan|agreed|answered|rule|changed, not committed|check|error, still open|last words|"
    "committed|user|assistant|ran|called|edit|solved|value|names"
)
# The beginning of a line: its label and the record that it cites.
LINE = re.compile(rf"(?:{LABELS}) \[#\d+\] ")
