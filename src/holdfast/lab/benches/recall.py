"""`holdfast bench recall`: recall of the search in real sessions.

Tool steps by path: the query is each path that an agent read. Correct hits are the steps that read that file, not those
that grep, edit or mention it. Recall at five is the share of correct steps among the first five hits, or of five if
there are more. The same is measured for the last two names of the path and for the file name alone, which other files
may share.

Dialogue: meetings with questions and the turns that answer them. A hit at five means that one of the first five hits is
such a turn.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import msgspec

from holdfast.cli.exit_codes import BROKEN
from holdfast.cli.output import json_option
from holdfast.core.search.rank import Index, read_rows
from holdfast.errors import UsageError
from holdfast.lab.benches.harness import corpus_option
from holdfast.rescue.importing import Turns, turns_of
from holdfast.rescue.neutral import NeutralMessage, read_neutral
from holdfast.types.messages import ToolCall
from holdfast.types.records import Logged, ReplyRecorded, origin_of

# Promised values.
PATH_RECALL_FLOOR = 0.75
HIT_5_FLOOR = 0.76
HIT_10_FLOOR = 0.86
_FIRST, _MORE = 5, 10

_AGENT, _MEETINGS, _QUESTIONS = "claude_code_dev.jsonl.gz", "qmsum_dev.jsonl.gz", "qmsum_dev.questions.jsonl"
# Names of tools that read a file, and of the argument with its path.
_READERS = frozenset({"read", "read_file", "view", "open", "cat"})
_PATH_ARGUMENTS = ("file_path", "path")


class RecallReport(msgspec.Struct, frozen=True):
    """JSON output: shares."""

    paths: int
    path_recall_5: float
    path_end_recall_5: float
    file_name_recall_5: float
    questions: int
    hit_5: float
    hit_10: float

    @property
    def is_kept(self) -> bool:
        """Return whether every promise is kept."""
        return self.path_recall_5 >= PATH_RECALL_FLOOR and self.hit_5 >= HIT_5_FLOOR and self.hit_10 >= HIT_10_FLOOR


class _Question(msgspec.Struct):
    session_id: str
    question: str
    gold_seqs: list[int]


class Searchable:
    """An imported session with its search index."""

    def __init__(self, messages: Iterable[NeutralMessage]) -> None:
        turns = Turns(0)
        records = [record for turn in turns_of(messages) for record in turns.records(turn)]
        self.log = [Logged(seq, 0.0, record) for seq, record in enumerate(records, start=1)]
        self._index = Index()
        for row in read_rows(self.log, after=0).rows:
            self._index.add(row)

    def find(self, query: str, limit: int) -> list[tuple[int, int]]:
        """Return the records of the hits, each with the record of its call; 0 for a message."""
        sizes = (self._index.rows[scored.row] for scored in self._index.find(query, limit=limit))
        return [(size.seq, size.call) for size in sizes]

    def origins(self, query: str, limit: int) -> list[int | None]:
        """Return the original numbers of the messages found."""
        return [origin_of(self.log[seq - 1].record) for seq, _ in self.find(query, limit)]

    def reads(self) -> dict[str, set[tuple[int, str]]]:
        """Return each path that was read, with the record and the id of the calls that read it."""
        found: defaultdict[str, set[tuple[int, str]]] = defaultdict(set)
        for logged in self.log:
            if isinstance(logged.record, ReplyRecorded):
                for part in logged.record.reply.parts:
                    if isinstance(part, ToolCall) and (path := _path_read(part)):
                        found[path].add((logged.seq, part.call_id))
        return found


def _path_read(call: ToolCall) -> str:
    if call.name.lower() not in _READERS:
        return ""
    try:
        arguments = msgspec.json.decode(call.arguments, type=dict[str, object])
    except msgspec.DecodeError:
        return ""
    return next((str(arguments[name]) for name in _PATH_ARGUMENTS if arguments.get(name)), "")


def _sessions(path: Path) -> Iterator[list[NeutralMessage]]:
    gathered: list[NeutralMessage] = []
    for message in read_neutral(path):
        if gathered and message.session_id != gathered[0].session_id:
            yield gathered
            gathered = []
        gathered.append(message)
    if gathered:
        yield gathered


def _recall(session: Searchable, query: str, right: set[tuple[int, str]]) -> float:
    calls = {seq for seq, _ in right}
    found = sum(call in calls for _, call in session.find(query, _FIRST))
    return min(found / min(len(right), _FIRST), 1.0)


def measure_recall(corpus: Path) -> RecallReport:
    """Search every session of the transcripts and count the hits."""
    folder = corpus / "transcripts" / "neutral"
    full_path: list[float] = []
    end: list[float] = []
    name: list[float] = []
    for messages in _sessions(folder / _AGENT):
        session = Searchable(messages)
        for path, right in session.reads().items():
            names = path.split("/")
            full_path.append(_recall(session, path, right))
            end.append(_recall(session, "/".join(names[-2:]), right))
            name.append(_recall(session, names[-1], right))
    hits_first, hits_more = _dialogue(folder)
    return RecallReport(
        paths=len(full_path),
        path_recall_5=_mean(full_path),
        path_end_recall_5=_mean(end),
        file_name_recall_5=_mean(name),
        questions=len(hits_first),
        hit_5=_mean(hits_first),
        hit_10=_mean(hits_more),
    )


def _dialogue(folder: Path) -> tuple[list[float], list[float]]:
    by_session: defaultdict[str, list[_Question]] = defaultdict(list)
    for line in (folder / _QUESTIONS).read_bytes().splitlines():
        question = msgspec.json.decode(line, type=_Question)
        by_session[question.session_id].append(question)
    first: list[float] = []
    more: list[float] = []
    for messages in _sessions(folder / _MEETINGS):
        session = Searchable(messages)
        for question in by_session[messages[0].session_id]:
            found = session.origins(question.question, _MORE)
            right = set(question.gold_seqs)
            first.append(float(not right.isdisjoint(found[:_FIRST])))
            more.append(float(not right.isdisjoint(found)))
    return first, more


def _mean(shares: list[float]) -> float:
    return sum(shares) / len(shares) if shares else 0.0


@click.command()
@corpus_option
@json_option
def recall(corpus: Path | None, *, as_json: bool) -> None:
    """Measure how well searches find earlier tool steps and turns; exit with 1 if a promise is broken."""
    if corpus is None:
        raise UsageError("this benchmark needs real transcripts: choose their folder with --corpus or HOLDFAST_CORPUS")
    missing = [
        file for file in (_AGENT, _MEETINGS, _QUESTIONS) if not (corpus / "transcripts" / "neutral" / file).exists()
    ]
    if missing:
        raise UsageError(f"{corpus} has no transcripts/neutral/{missing[0]}; choose another folder with --corpus")
    report = measure_recall(corpus)
    if as_json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    else:
        print(f"tool steps by path, {report.paths:,} paths, recall at 5: {report.path_recall_5:.1%}", end=" ")
        print(f"(goal {PATH_RECALL_FLOOR:.0%})")
        print(
            f"  by its last two names {report.path_end_recall_5:.1%},"
            f" by the file's name {report.file_name_recall_5:.1%}"
        )
        print(
            f"dialogue, {report.questions:,} questions, hit at 5: {report.hit_5:.1%} (goal {HIT_5_FLOOR:.0%})", end=", "
        )
        print(f"at 10: {report.hit_10:.1%} (goal {HIT_10_FLOOR:.0%})")
    if not report.is_kept:
        sys.exit(BROKEN)
