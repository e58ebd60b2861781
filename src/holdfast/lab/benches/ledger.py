"""`holdfast bench ledger`: share of identifiers used again after real compactions that a digest with its ledger keeps.

An identifier is used again if it occurs before a compaction and in the agent's messages or calls after it, until the
next compaction or the end. This module finds identifiers by its own rules, not by those of the ledger.
"""

import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click
import msgspec

from holdfast.cli.options import passages_of
from holdfast.cli.output import json_option
from holdfast.core.compaction.digest import represent
from holdfast.core.limits.sizing import tokens_of_message
from holdfast.lab.benches.harness import corpus_option, is_held_out, sessions_of
from holdfast.rescue.neutral import NeutralMessage, NeutralRole
from holdfast.types.messages import Message, Role, Text, ToolCall, ToolResult

# Promised share in this many tokens; summaries by the agents' own models kept 34.8 %.
TOKENS_MAX = 3_000
HELD_FLOOR = 0.75
# Verbatim tail beside the summary; measured separately, because it keeps identifiers by itself.
TAIL_TOKENS = 20_000

_ENDINGS = "go|mod|sum|tsx?|jsx?|py|rs|md|jsonl?|toml|ya?ml|sh|sql|html|css|txt|log|lock|cfg|ini"
_IDENTIFIER = re.compile(
    r"(?P<url>https?://[^\s\"'<>()\[\]{}`\\]+)"
    r"|(?P<id>\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b)"
    rf"|(?P<path>(?<![\w/.])(?:[~.]{{0,2}}/)?[\w@+-][\w.@+-]*(?:/[\w.@+-]+)+|(?<![\w/.])[\w-]+\.(?:{_ENDINGS})\b)"
    r"|(?P<code>\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64}\b|\b[A-Z]{2,10}-\d+\b|\#\d+\b)"
    r"|(?P<symbol>\b[A-Za-z_][A-Za-z0-9_]{4,}\b)"
    r"|(?P<number>(?<![\w.])\d{3,}(?:\.\d+)?(?!\w))"
)
_COMPOUND = re.compile(r"[a-z][A-Z]|[A-Za-z0-9]_[A-Za-z0-9]")


class Cut(msgspec.Struct, frozen=True):
    """A real compaction: the messages before and after it, and the summary of the agent's own model."""

    session_id: str
    seq: int
    before: list[NeutralMessage]
    after: list[NeutralMessage]
    summary: str


class CutReport(msgspec.Struct, frozen=True):
    """Counts of identifiers used again after one compaction."""

    session_id: str
    seq: int
    is_held_out: bool
    used_again: int
    held_by_agents_summary: int
    # Kept by a digest of everything before the compaction, without a tail.
    held: int
    # With a tail: identifiers that are not in the tail, and those of them that the digest keeps.
    beyond_tail: int
    held_beyond_tail: int
    by_kind: dict[str, tuple[int, int]]
    megabytes: float
    milliseconds: float


class Coverage(msgspec.Struct, frozen=True):
    """Shares of identifiers kept: over all of them, and as the mean over compactions."""

    compactions: int
    used_again: int
    pooled: float
    mean: float
    pooled_beyond_tail: float
    pooled_with_tail: float
    pooled_agents_summary: float


class LedgerReport(msgspec.Struct, frozen=True):
    """JSON output of a run."""

    tokens_max: int
    all: Coverage
    held_out: Coverage
    by_kind: dict[str, tuple[int, int]]
    milliseconds_per_megabyte: float
    cuts: tuple[CutReport, ...]


def identifiers(text: str) -> dict[str, str]:
    """Return the identifiers of a text with their kinds."""
    found: dict[str, str] = {}
    for match in _IDENTIFIER.finditer(text):
        kind, word = str(match.lastgroup), match[0].rstrip(".")
        if kind != "symbol" or _COMPOUND.search(word):
            found[word] = "id" if kind == "code" else kind
    return found


def _texts(message: Message) -> Iterator[str]:
    for part in message.parts:
        match part:
            case Text():
                yield part.text
            case ToolCall():
                yield from _values(part.arguments)
            case ToolResult():
                yield from (inner.text for inner in part.parts if isinstance(inner, Text))
            case _:
                continue


def _values(arguments: str) -> Iterator[str]:
    """Yield the values of a call's arguments; parameter names belong to the tool, not to the agent."""
    try:
        pending = [msgspec.json.decode(arguments)]
    except msgspec.DecodeError:
        yield arguments
        return
    while pending:
        value = pending.pop()
        match value:
            case str():
                yield value
            case dict():
                pending.extend(value.values())
            case list():
                pending.extend(value)
            case _:
                yield str(value)


def texts_of(messages: Iterable[NeutralMessage]) -> Iterator[tuple[Role, str]]:
    """Yield every text of some messages with its role, including those in calls and results."""
    for found in messages:
        if found.message is not None:
            yield from ((found.message.role, text) for text in _texts(found.message))


def used_again(cut: Cut) -> dict[str, str]:
    """Return the identifiers that occur before a compaction and that the agent wrote after it, with their kinds.

    Numbers from tool output do not count: listings are full of line numbers.
    """
    known: dict[str, str] = {}
    for role, text in texts_of(cut.before):
        found = identifiers(text)
        known.update((word, kind) for word, kind in found.items() if kind != "number" or role is not Role.TOOL)
    later: dict[str, str] = {}
    for role, text in texts_of(cut.after):
        if role is Role.ASSISTANT:
            later.update(identifiers(text))
    return {word: kind for word, kind in later.items() if known.get(word) == kind}


def cuts_of(session: Sequence[NeutralMessage]) -> list[Cut]:
    """Return the real compactions of a session."""
    marks = [index for index, found in enumerate(session) if _is_compaction(found)]
    return [_cut(session, mark, end) for mark, end in zip(marks, [*marks, len(session)][1:], strict=True)]


def _cut(session: Sequence[NeutralMessage], mark: int, end: int) -> Cut:
    """Return the compaction at an index; the next one, or the end of the session, is at `end`."""
    summaries = [found for found in session[mark : mark + 3] if _is_compaction(found) or _is_summary(found)]
    texts = [part.text for found in summaries for part in found.parts if isinstance(part, Text)]
    return Cut(
        session[mark].session_id,
        session[mark].seq,
        [found for found in session[:mark] if found.role is not NeutralRole.SYSTEM and not _is_summary(found)],
        [found for found in session[mark + 1 : end] if not _is_summary(found)],
        "\n".join(texts),
    )


def _is_compaction(found: NeutralMessage) -> bool:
    return found.meta.get("subtype") in ("compact_boundary", "compaction")


def _is_summary(found: NeutralMessage) -> bool:
    return bool(found.meta.get("compact_summary"))


def _held(words: Iterable[str], text: str) -> set[str]:
    return {word for word in words if re.search(rf"(?<![A-Za-z0-9_]){re.escape(word)}(?![A-Za-z0-9_])", text)}


def _tail_start(messages: Sequence[NeutralMessage]) -> int:
    left, start = TAIL_TOKENS, len(messages)
    while start and left > 0:
        start -= 1
        message = messages[start].message
        left -= 0 if message is None else tokens_of_message(message)
    return start


def measure_cut(cut: Cut, tokens_max: int) -> CutReport:
    """Build the digest of a compaction, and count the identifiers that it keeps."""
    targets = used_again(cut)
    passages = passages_of(cut.before)
    start = time.process_time()
    summary = represent(passages, tokens_max=tokens_max)
    milliseconds = (time.process_time() - start) * 1e3
    held = _held(targets, summary)
    tail = _tail_start(cut.before)
    in_tail = _held(targets, "\n".join(text for _, text in texts_of(cut.before[tail:])))
    beyond = set(targets) - in_tail
    held_beyond = _held(beyond, represent(passages_of(cut.before[:tail]), tokens_max=tokens_max))
    kinds, kinds_held = Counter(targets.values()), Counter(targets[word] for word in held)
    return CutReport(
        session_id=cut.session_id,
        seq=cut.seq,
        is_held_out=is_held_out(cut.session_id),
        used_again=len(targets),
        held_by_agents_summary=len(_held(targets, cut.summary)),
        held=len(held),
        beyond_tail=len(beyond),
        held_beyond_tail=len(held_beyond),
        by_kind={kind: (kinds_held[kind], count) for kind, count in sorted(kinds.items())},
        megabytes=sum(len(text.encode()) for _, text in texts_of(cut.before)) / 1e6,
        milliseconds=milliseconds,
    )


def _coverage(cuts: Sequence[CutReport]) -> Coverage:
    used = sum(cut.used_again for cut in cuts)
    beyond = sum(cut.beyond_tail for cut in cuts)
    held_beyond = sum(cut.held_beyond_tail for cut in cuts)
    return Coverage(
        compactions=len(cuts),
        used_again=used,
        pooled=sum(cut.held for cut in cuts) / max(used, 1),
        mean=sum(cut.held / cut.used_again for cut in cuts) / max(len(cuts), 1),
        pooled_beyond_tail=held_beyond / max(beyond, 1),
        pooled_with_tail=(used - beyond + held_beyond) / max(used, 1),
        pooled_agents_summary=sum(cut.held_by_agents_summary for cut in cuts) / max(used, 1),
    )


def measure_ledger(corpus: Path | None, tokens_max: int = TOKENS_MAX) -> LedgerReport:
    """Measure every real compaction after which any identifier was used again."""
    reports = [measure_cut(cut, tokens_max) for session in sessions_of(corpus) for cut in cuts_of(session)]
    cuts = [report for report in reports if report.used_again]
    by_kind: dict[str, tuple[int, int]] = {}
    for cut in cuts:
        for kind, (held, count) in cut.by_kind.items():
            held_before, count_before = by_kind.get(kind, (0, 0))
            by_kind[kind] = (held_before + held, count_before + count)
    return LedgerReport(
        tokens_max=tokens_max,
        all=_coverage(cuts),
        held_out=_coverage([cut for cut in cuts if cut.is_held_out]),
        by_kind=by_kind,
        milliseconds_per_megabyte=sum(cut.milliseconds for cut in cuts) / max(sum(cut.megabytes for cut in cuts), 1e-9),
        cuts=tuple(cuts),
    )


@click.command()
@corpus_option
@click.option("--max-tokens", type=click.IntRange(min=1), default=TOKENS_MAX, show_default=True)
@json_option
def ledger(corpus: Path | None, max_tokens: int, *, as_json: bool) -> None:
    """Measure the share of identifiers used again after real compactions that is kept without a model."""
    report = measure_ledger(corpus, max_tokens)
    if as_json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
        return
    for cut in report.cuts:
        print(
            f"{cut.session_id[:36]:<36} #{cut.seq:<5} {cut.held:>4} of {cut.used_again:<4} kept, "
            f"{cut.held_by_agents_summary:>4} by the agent's own summary{', held out' if cut.is_held_out else ''}"
        )
    for name, coverage in (("all", report.all), ("held out", report.held_out)):
        print(
            f"{name}: {coverage.compactions} compactions, {coverage.used_again:,} identifiers used again; kept in "
            f"{report.tokens_max:,} tokens: {coverage.pooled:.1%} of all, {coverage.mean:.1%} mean per compaction; "
            f"with a tail of {TAIL_TOKENS:,} tokens {coverage.pooled_with_tail:.1%}, of those beyond it "
            f"{coverage.pooled_beyond_tail:.1%}; the agents' own summaries {coverage.pooled_agents_summary:.1%}"
        )
    print("by kind: " + ", ".join(f"{kind} {held} of {count}" for kind, (held, count) in report.by_kind.items()))
    print(f"{report.milliseconds_per_megabyte:.0f} ms per megabyte")
