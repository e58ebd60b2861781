"""`holdfast bench continuity`: share of what was live at a compaction that a digest still tells.

At each compaction of a transcript, or every so many messages where there are none, this collects what the next answer
must know, by its own rules and not by those of the digest, and looks for it in the digest. A sentence is told if most
of its content words stand together outside of bare lists of names.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

import click
import msgspec

from holdfast.cli.options import passages_of
from holdfast.cli.output import json_option
from holdfast.core.compaction.digest import represent
from holdfast.core.limits.sizing import tokens_of_text
from holdfast.errors import UsageError
from holdfast.lab.benches.harness import corpus_option, is_held_out, sessions_of
from holdfast.lab.benches.ledger import TOKENS_MAX, Cut, cuts_of, texts_of, used_again
from holdfast.rescue.neutral import NeutralMessage, NeutralRole, read_neutral
from holdfast.types.messages import Role, Text, ToolCall, ToolOutcome, ToolResult

# Messages after a compaction in which names are needed again, and before it in which the agent's last words are found.
_MESSAGES_AFTER, _MESSAGES_LAST = 60, 12
# Most of a digest that may be names, and the characters of a name in a list beside itself.
_NAMES_SHARE, _NAME_CHARS = 0.25, 3
# Share of content words that must stand together, and the characters that count as together.
_TOLD_SHARE, _TOGETHER_CHARS = 0.65, 800
_SENTENCES_PER_MESSAGE = 8
_ANSWER_CHARS_MAX = 160
_CONTENT_WORDS_MIN = 4
_WORD = re.compile(r"[A-Za-z0-9_./-]{3,}")
_SMALL = frozenset(
    re.findall(
        r"\w+",
        "about all also and any are because been but can could did does done for from had has have here how into its "
        "just like made make more need not only other our over should some such than that the their them then there "
        "these they this those use used very want was were what when where which while who will with would you your",
    )
)
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_NOT_PROSE = re.compile(r"\s*(?:[-+@|{}<>$#/]|\S+:\d|\d{4}-|\[|\"|at |File )|.*[;{}]\s*$")
_NAME_LIKE = re.compile(r"[a-z][A-Z]|_|/|\.\w|\d|^\[#")
_EDITING = re.compile(r"^(?:multi_?edit|notebookedit|edit\w*|write\w*|create\w*|str_replace\w*)$", re.IGNORECASE)
_RUNNING = re.compile(r"pytest|\b(?:test|lint|check|vet|build)\b", re.IGNORECASE)
_RUNNERS = re.compile(r"\b(?:go|cargo|npm|npx|yarn|pnpm|make|mise|uv|mvn|gradle|pytest|ruff|mypy|tsc|eslint)\b")
_FAILED = re.compile(
    r"^\s*(?:--- FAIL|FAIL|panic:|fatal:|[Ee]rror|npm error)|\b[1-9]\d* (?:failed|errors?|issues)\b", re.MULTILINE
)
_VERDICT = re.compile(r"\bpass|\bfail|^ok\s|\b\d+ (?:issues|tests?)\b", re.IGNORECASE)
_AGREES = re.compile(
    r"(?:yes|yep|yeah|ok|okay|sure|great|good|perfect|go ahead|do it|let'?s|sounds good|option \w)\b", re.IGNORECASE
)
_ASKS = re.compile(
    r"\?\W*$|\b(?:should I|shall I|want me to|would you like|I suggest|I recommend|I can)\b", re.IGNORECASE
)

Unit = tuple[str, str]


class Row(msgspec.Struct, frozen=True):
    """Units of one kind: how many were live, and how many the digest tells; the same of held-out sessions."""

    live: int = 0
    told: int = 0
    held_out_live: int = 0
    held_out_told: int = 0

    @property
    def share(self) -> float:
        """Share of the units that the digest tells, 1 without units."""
        return self.told / self.live if self.live else 1.0


class ContinuityReport(msgspec.Struct, frozen=True):
    """JSON output: rows by kind, the median share of characters in bare lists of names, and what was lost."""

    tokens_max: int
    cuts: int
    rows: dict[str, Row]
    # Names that a digest of the same size could tell, if it were known which ones are needed.
    names_foreseen: int
    bare_names: float
    lost: tuple[Unit, ...]


# --- What is live ---


def _text(found: NeutralMessage) -> str:
    return "\n".join(part.text for part in found.parts if isinstance(part, Text)).strip()


def _words(text: str) -> set[str]:
    found = (word.strip("./-") for word in _WORD.findall(text.lower()))
    return {word for word in found if len(word) > 2 and word not in _SMALL and not word.isdigit()}  # noqa: PLR2004


def _prose(text: str) -> list[str]:
    lines = [line for line in _FENCE.sub("\n", text).split("\n") if not _NOT_PROSE.match(line)]
    sentences = re.split(r"(?<=[.?!])\s+|\n+", "\n".join(lines))
    return [one for one in sentences if len(_words(one)) >= _CONTENT_WORDS_MIN and len(_words(one)) < len(one.split())]


def _is_typed(found: NeutralMessage, before: NeutralMessage | None) -> bool:
    """Return whether a person wrote a message; a text after a call without an id is its result."""
    is_result = before is not None and any(isinstance(part, ToolCall) and not part.call_id for part in before.parts)
    is_meta = bool(found.meta.get("isMeta") or found.meta.get("compact_summary"))
    return found.role is NeutralRole.USER and not is_meta and not is_result and not _text(found).startswith(("<", "["))


def _results(messages: Sequence[NeutralMessage]) -> Iterator[tuple[ToolCall, dict[str, object], str, bool]]:
    """Yield each call with its arguments, its output, and whether it failed."""
    calls: dict[str, ToolCall] = {}
    for part in (part for found in messages for part in found.parts):
        if isinstance(part, ToolCall):
            calls[part.call_id] = part
        elif isinstance(part, ToolResult) and part.call_id in calls:
            call = calls[part.call_id]
            output = "\n".join(inner.text for inner in part.parts if isinstance(inner, Text))
            yield call, _arguments(call), output, part.outcome is not ToolOutcome.DONE


def _arguments(call: ToolCall) -> dict[str, object]:
    decoded: object = msgspec.json.decode(call.arguments)
    return decoded if isinstance(decoded, dict) else {}


def _typed_units(messages: Sequence[NeutralMessage]) -> Iterator[Unit]:
    """Yield sentences that people typed, and the proposals that a short yes agreed to."""
    proposal, before = "", None
    for found in messages:
        if found.role is NeutralRole.ASSISTANT:
            proposal = _text(found) or proposal
        elif _is_typed(found, before) and (text := _text(found)):
            yield from (("typed", sentence) for sentence in _prose(text)[:_SENTENCES_PER_MESSAGE])
            if agreed := _agreed(text, proposal):
                yield "agreed", agreed
            proposal = ""
        before = found


def _agreed(answer: str, proposal: str) -> str:
    """Return the proposal that an answer agrees to, or ""."""
    if len(answer) >= _ANSWER_CHARS_MAX or not _AGREES.match(answer):
        return ""
    sentences = _prose(proposal)
    return " ".join(([one for one in sentences if _ASKS.search(one)] or sentences)[-2:])[:400]


def _work_units(messages: Sequence[NeutralMessage]) -> Iterator[Unit]:
    """Yield changed files, open errors, and the last verdict."""
    changed: dict[str, None] = {}
    errors: dict[str, str] = {}
    verdict = ""
    for call, arguments, output, failed in _results(messages):
        command = str(arguments.get("command", ""))
        if not failed:
            _change(changed, call.name, arguments, command)
        if _RUNNERS.search(command) and _RUNNING.search(command):
            # The last run counts, also if it ends without a line that can be looked for.
            verdict = _verdict(command, output, failed=failed)
            _settle(errors, command, output)
    yield from (("changed", path) for path in changed)
    yield from (("error", line) for line in list(errors.values())[-3:] if len(_words(line)) > 1)
    if verdict:
        yield "verdict", verdict


def _change(changed: dict[str, None], name: str, arguments: dict[str, object], command: str) -> None:
    """Add the file of an edit, or drop all files after a commit."""
    path = arguments.get("file_path") or arguments.get("path")
    if _EDITING.match(name):
        changed.update({str(path): None} if path and command != "view" else {})
    elif re.search(r"\bgit commit\b", command):
        changed.clear()


def _verdict(command: str, output: str, *, failed: bool) -> str:
    """Return the verdict with the last line that tells it, or with the command if no line does."""
    lines = [line.strip() for line in output.split("\n") if _VERDICT.search(line) and not line.startswith(("> ", "$ "))]
    bad = failed or _FAILED.search(output) is not None
    return f"{'failed' if bad else 'passed'} {lines[-1][:160] if lines else _name(command)}"


def _name(command: str) -> str:
    """Return a command without the pipe behind it."""
    return re.sub(r"\s*(?:2>&1.*|\|.*)$", "", command, flags=re.DOTALL).strip()


def _settle(errors: dict[str, str], command: str, output: str) -> None:
    """Keep the error of a command, or drop it if the command succeeds."""
    name = _name(command)
    errors.pop(name, None)
    if bad := _FAILED.search(output):
        errors[name] = output[bad.start() :].strip().split("\n")[0][:200]


def _task_units(messages: Sequence[NeutralMessage]) -> Iterator[Unit]:
    """Yield unfinished tasks: of the newest list, and those that were created one by one."""
    listed: list[list[str]] = []
    single: dict[str, list[str]] = {}
    for part in _calls(messages):
        arguments = _arguments(part)
        listed = _listed(arguments) or listed
        if part.name == "TaskCreate":
            single[str(len(single) + 1)] = [str(arguments.get("subject", "")), "pending"]
        elif part.name == "TaskUpdate" and str(arguments.get("taskId")) in single and "status" in arguments:
            single[str(arguments["taskId"])][1] = str(arguments["status"])
    for text, status in [*listed, *single.values()]:
        if status not in ("completed", "deleted", "cancelled") and len(_words(text)) > 1:
            yield "task", text


def _calls(messages: Sequence[NeutralMessage]) -> list[ToolCall]:
    return [part for found in messages for part in found.parts if isinstance(part, ToolCall)]


def _listed(arguments: dict[str, object]) -> list[list[str]]:
    rows = arguments.get("todos") or arguments.get("plan")
    found = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return [[str(row.get("content") or row.get("step") or ""), str(row.get("status"))] for row in found]


def units_of(cut: Cut, since: Sequence[NeutralMessage]) -> list[Unit]:
    """Return everything that was live at a cut, by kind; `since` are the messages after the cut before it."""
    found = [*_typed_units(since), *_work_units(since), *_task_units(since)]
    said = [text for one in since[-_MESSAGES_LAST:] if one.role is NeutralRole.ASSISTANT and (text := _text(one))]
    if said and len(_words(said[-1].split("\n")[0][:200])) > 2:  # noqa: PLR2004 - enough words to be recognised
        found.append(("last words", said[-1].split("\n")[0][:200]))
    soon = msgspec.structs.replace(cut, before=list(since), after=cut.after[:_MESSAGES_AFTER])
    names = sorted(used_again(soon))
    found += [("name", name) for name in names]
    return list(dict.fromkeys([*found, *(("unread name", name) for name in _unread(names, soon.after))]))


def _unread(names: Sequence[str], after: Sequence[NeutralMessage]) -> list[str]:
    """Return the names that the agent wrote before anything showed them to it again."""
    unread: list[str] = []
    waiting = list(names)
    for role, text in texts_of(after):
        now = {name for name in waiting if name in text}
        unread += [name for name in waiting if name in now and role is Role.ASSISTANT]
        waiting = [name for name in waiting if name not in now]
    return unread


# --- What is told ---


def is_bare(line: str) -> bool:
    """Return whether a line is a bare list of names."""
    tokens = line.split()
    small = sum(
        token.lower().strip(".,:;()") in _SMALL or token.lower() in ("in", "is", "to", "of") for token in tokens
    )
    named = sum(_NAME_LIKE.search(token) is not None for token in tokens)
    return len(tokens) >= 8 and small <= 0.05 * len(tokens) and named >= 0.5 * len(tokens)  # noqa: PLR2004


class Told:
    """A digest, prepared for looking things up."""

    def __init__(self, text: str) -> None:
        lines = [line for line in text.split("\n") if line.strip()]
        told = [line for line in lines if not is_bare(line)]
        self.text = text
        self.bare_share = 1 - sum(map(len, told)) / max(1, sum(map(len, lines)))
        joined = [" ".join(told[at : at + 3]) for at in range(len(told))]
        half = _TOGETHER_CHARS // 2
        self._windows = [
            _words(stretch[at : at + _TOGETHER_CHARS]) for stretch in joined for at in range(0, len(stretch) or 1, half)
        ]

    def tells(self, unit: Unit) -> bool:
        """Return whether the digest tells a unit."""
        kind, text = unit
        if kind in ("name", "unread name"):
            return text in self.text
        if kind == "changed":
            return text.rpartition("/")[2] in self.text
        words = _words(text)
        return any(len(words & window) >= _TOLD_SHARE * len(words) for window in self._windows)


def names_foreseen(digest: str, names: Sequence[str], tokens_max: int) -> int:
    """Return how many of these names a digest can tell if its lists of names hold no others."""
    others = "\n".join(line for line in digest.split("\n") if not line.startswith("names "))
    chars = len(others) * _NAMES_SHARE / (1 - _NAMES_SHARE)
    tokens = tokens_max - tokens_of_text(others)
    told = sum(name in others for name in names)
    for name in sorted((name for name in names if name not in others), key=len):
        chars -= len(name) + _NAME_CHARS
        tokens -= tokens_of_text(f", {name}")
        if min(chars, tokens) < 0:
            break
        told += 1
    return told


def _regular_cuts(session: Sequence[NeutralMessage], every: int) -> list[Cut]:
    points = range(every, len(session), every)
    spoken = [found for found in session if found.role is not NeutralRole.SYSTEM]
    return [
        Cut(session[0].session_id, spoken[at].seq, spoken[:at], spoken[at:], "") for at in points if at < len(spoken)
    ]


def measure_continuity(
    sessions: Iterator[list[NeutralMessage]], *, tokens_max: int = TOKENS_MAX, every: int | None = None
) -> ContinuityReport:
    """Measure every real compaction, or with `every` a cut after every so many messages."""
    counts: dict[str, list[int]] = {}
    bare: list[float] = []
    lost: list[Unit] = []
    foreseen = 0
    for session in sessions:
        start = 0
        for cut in cuts_of(session) if every is None else _regular_cuts(session, every):
            told = Told(represent(passages_of(cut.before), tokens_max=tokens_max))
            bare.append(told.bare_share)
            units = units_of(cut, cut.before[start:])
            foreseen += names_foreseen(told.text, [text for kind, text in units if kind == "name"], tokens_max)
            for unit in units:
                is_told = told.tells(unit)
                count = counts.setdefault(unit[0], [0, 0, 0, 0])
                for at in (0, 2) if is_held_out(cut.session_id) else (0,):
                    count[at] += 1
                    count[at + 1] += is_told
                lost += [] if is_told else [unit]
            start = len(cut.before)
    rows = {kind: Row(*count) for kind, count in counts.items()}
    return ContinuityReport(tokens_max, len(bare), rows, foreseen, median(bare) if bare else 0.0, tuple(lost))


def sessions_in(path: Path) -> Iterator[list[NeutralMessage]]:
    """Yield the sessions of a file in the neutral format, without messages of sub-agents."""
    sessions: dict[str, list[NeutralMessage]] = {}
    for found in read_neutral(path):
        if not found.meta.get("isSidechain"):
            sessions.setdefault(found.session_id, []).append(found)
    yield from sessions.values()


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@corpus_option
@click.option("--max-tokens", type=click.IntRange(min=1), default=TOKENS_MAX, show_default=True)
@click.option(
    "--every", type=click.IntRange(min=2), help="Cut after every so many messages. Default: real compactions."
)
@click.option("--lost", is_flag=True, help="Show what the digests lost.")
@json_option
def continuity(
    file: Path | None, corpus: Path | None, max_tokens: int, every: int | None, *, lost: bool, as_json: bool
) -> None:
    """Measure the share of what was live at a compaction that a digest tells. FILE is in the neutral format."""
    found: Callable[[], Iterator[list[NeutralMessage]]] = (
        (lambda: sessions_of(corpus)) if file is None else (lambda: sessions_in(file))
    )
    report = measure_continuity(found(), tokens_max=max_tokens, every=every)
    if not report.cuts:
        raise UsageError("no session has a compaction; cut after every so many messages with --every")
    if as_json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
        return
    print(f"{report.cuts} compactions; digests of {report.tokens_max:,} tokens")
    for kind, row in report.rows.items():
        print(
            f"{kind:11} {row.told:5} of {row.live:5} {row.share:7.1%}; "
            f"held out {row.held_out_told} of {row.held_out_live}"
        )
    if "name" in report.rows:
        print(f"with foresight {report.names_foreseen} of {report.rows['name'].live} names")
    print(f"bare names  {report.bare_names:.1%} of the characters (median)")
    for kind, text in report.lost if lost else ():
        print(f"lost {kind}: {' '.join(text.split())[:160]}")
