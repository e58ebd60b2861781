"""`holdfast bench recall`: recall of the search in sessions of several shapes.

Tool steps by path: the query is each path that an agent read. Correct hits are the steps that read that file, not those
that grep, edit or mention it. Recall at five is the share of correct steps among the first five hits, or of five if
there are more. The same is measured for the last two names of the path and for the file name alone, which other files
may share, and for the sessions of a second agent.

Dialogue: meetings with questions and the turns that answer them. A hit at five means that one of the first five hits is
such a turn.

Chats and essays: generated conversations with questions (`conversations`), from seeds that were not
used to choose the settings of the ranking. Group chats (`messenger`) have another vocabulary and another style of
questions, and no setting was chosen with them. Recall at five is the share of the answering messages among the first
five hits.
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
from holdfast.lab.benches.generated.conversations import Conversation, answers_found, long_turns, short_turns
from holdfast.lab.benches.generated.messenger import group_chat
from holdfast.lab.benches.harness import corpus_option
from holdfast.rescue.importing import Turns, turns_of
from holdfast.rescue.neutral import NeutralMessage, read_neutral
from holdfast.types.messages import ToolCall
from holdfast.types.records import Logged, ReplyRecorded, origin_of

# Promised values.
PATH_RECALL_FLOOR = 0.95
HIT_5_FLOOR = 0.76
HIT_10_FLOOR = 0.85
CHAT_5_FLOOR, CHAT_10_FLOOR = 0.62, 0.72
GROUP_5_FLOOR, GROUP_10_FLOOR = 0.50, 0.62
ESSAYS_10_FLOOR = 0.85
# Seeds of the generated conversations. The settings were chosen with the seeds 0 to 9.
CHAT_SEEDS = range(100, 116)
ESSAYS_SEEDS = range(100, 104)
_FIRST, _MORE = 5, 10

_AGENT, _OTHER_AGENT = "claude_code_dev.jsonl.gz", "pi.jsonl.gz"
_MEETINGS, _QUESTIONS = "qmsum_dev.jsonl.gz", "qmsum_dev.questions.jsonl"
# Names of tools that read a file, and of the argument with its path.
_READERS = frozenset({"read", "read_file", "view", "open", "cat"})
_PATH_ARGUMENTS = ("file_path", "path")


class ShapeRecall(msgspec.Struct, frozen=True):
    """Recall in conversations of one shape: the number of questions, and shares."""

    questions: int
    recall_5: float
    recall_10: float


class RecallReport(msgspec.Struct, frozen=True):
    """JSON output: shares."""

    paths: int
    path_recall_5: float
    path_end_recall_5: float
    file_name_recall_5: float
    other_agent_paths: int
    other_agent_recall_5: float
    questions: int
    hit_5: float
    hit_10: float
    short_turns: ShapeRecall
    group_chats: ShapeRecall
    long_turns: ShapeRecall

    @property
    def is_kept(self) -> bool:
        """Return whether every promise is kept."""
        pairs = (
            (self.path_recall_5, PATH_RECALL_FLOOR),
            (self.other_agent_recall_5, PATH_RECALL_FLOOR),
            (self.hit_5, HIT_5_FLOOR),
            (self.hit_10, HIT_10_FLOOR),
            (self.short_turns.recall_5, CHAT_5_FLOOR),
            (self.short_turns.recall_10, CHAT_10_FLOOR),
            (self.group_chats.recall_5, GROUP_5_FLOOR),
            (self.group_chats.recall_10, GROUP_10_FLOOR),
            (self.long_turns.recall_10, ESSAYS_10_FLOOR),
        )
        return all(share >= floor for share, floor in pairs)


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
    """Search every session of the transcripts and the generated conversations, and count the hits."""
    folder = corpus / "transcripts" / "neutral"
    steps, other_steps = _steps(folder / _AGENT), _steps(folder / _OTHER_AGENT)
    hits_first, hits_more = _dialogue(folder)
    return RecallReport(
        paths=len(steps),
        path_recall_5=_mean([full for full, _, _ in steps]),
        path_end_recall_5=_mean([end for _, end, _ in steps]),
        file_name_recall_5=_mean([name for _, _, name in steps]),
        other_agent_paths=len(other_steps),
        other_agent_recall_5=_mean([full for full, _, _ in other_steps]),
        questions=len(hits_first),
        hit_5=_mean(hits_first),
        hit_10=_mean(hits_more),
        short_turns=measure_shape(short_turns(seed) for seed in CHAT_SEEDS),
        group_chats=measure_shape(group_chat(seed) for seed in CHAT_SEEDS),
        long_turns=measure_shape(long_turns(seed) for seed in ESSAYS_SEEDS),
    )


def _steps(path: Path) -> list[tuple[float, float, float]]:
    """Return the recall of each path that was read: by the whole path, its last two names, and the file name."""
    found: list[tuple[float, float, float]] = []
    for messages in _sessions(path):
        session = Searchable(messages)
        for read, right in session.reads().items():
            names = read.split("/")
            queries = (read, "/".join(names[-2:]), names[-1])
            full, end, name = (_recall(session, query, right) for query in queries)
            found.append((full, end, name))
    return found


def measure_shape(conversations: Iterable[Conversation]) -> ShapeRecall:
    """Ask the questions of generated conversations."""
    first: list[float] = []
    more: list[float] = []
    for conversation in conversations:
        session = Searchable(conversation.messages)
        for question in conversation.questions:
            found = session.origins(question.text, _MORE)
            first.append(answers_found(found[:_FIRST], question))
            more.append(answers_found(found, question))
    return ShapeRecall(len(first), _mean(first), _mean(more))


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


def _lines(report: RecallReport) -> Iterator[str]:
    at_5 = _against(report.path_recall_5, PATH_RECALL_FLOOR)
    yield f"tool steps by path, {report.paths:,} paths, recall at 5: {at_5}"
    yield f"  by its last two names {report.path_end_recall_5:.1%}, by the file's name {report.file_name_recall_5:.1%}"
    other = _against(report.other_agent_recall_5, PATH_RECALL_FLOOR)
    yield f"  another agent, {report.other_agent_paths:,} paths: {other}"
    at_5, at_10 = _against(report.hit_5, HIT_5_FLOOR), _against(report.hit_10, HIT_10_FLOOR)
    yield f"meetings, {report.questions:,} questions, hit at 5: {at_5}, at 10: {at_10}"
    yield _shape_line("generated chats", report.short_turns, CHAT_5_FLOOR, CHAT_10_FLOOR)
    yield _shape_line("generated group chats", report.group_chats, GROUP_5_FLOOR, GROUP_10_FLOOR)
    at_10 = _against(report.long_turns.recall_10, ESSAYS_10_FLOOR)
    yield (
        f"generated essays, {report.long_turns.questions:,} questions,"
        f" recall at 5: {report.long_turns.recall_5:.1%}, at 10: {at_10}"
    )


def _shape_line(name: str, found: ShapeRecall, floor_5: float, floor_10: float) -> str:
    at_5, at_10 = _against(found.recall_5, floor_5), _against(found.recall_10, floor_10)
    return f"{name}, {found.questions:,} questions, recall at 5: {at_5}, at 10: {at_10}"


def _against(share: float, floor: float) -> str:
    return f"{share:.1%} (goal {floor:.0%})"


@click.command()
@corpus_option
@json_option
def recall(corpus: Path | None, *, as_json: bool) -> None:
    """Measure how well searches find earlier tool steps and turns; exit with 1 if a promise is broken."""
    if corpus is None:
        raise UsageError("this benchmark needs real transcripts: choose their folder with --corpus or HOLDFAST_CORPUS")
    missing = [
        file
        for file in (_AGENT, _OTHER_AGENT, _MEETINGS, _QUESTIONS)
        if not (corpus / "transcripts" / "neutral" / file).exists()
    ]
    if missing:
        raise UsageError(f"{corpus} has no transcripts/neutral/{missing[0]}; choose another folder with --corpus")
    report = measure_recall(corpus)
    if as_json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    else:
        print("\n".join(_lines(report)))
    if not report.is_kept:
        sys.exit(BROKEN)
