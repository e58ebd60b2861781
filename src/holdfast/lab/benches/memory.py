"""`holdfast bench memory`: facts that a session still knows after many compactions, and what a compaction costs.

Messages with facts in prose, identifiers and `name = value` form go through a small window, with scripted summarisers
of several kinds. At the end each fact is asked for: it counts if its value is in the view, or in the result of one
recall with the question, which has other words than the fact. Facts are made from a seed. No figure depends on the
machine.
"""

import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

import click
import msgspec
from msgspec.structs import replace

import holdfast
from holdfast.cli.exit_codes import BROKEN
from holdfast.cli.output import json_option
from holdfast.core.limits.bounds import Bounds
from holdfast.lab.benches.generated.scripted import FETCH, KINDS, Fact, Scripted, a_fact, message_of
from holdfast.lab.benches.harness import Measured, print_figures
from holdfast.ports import Lease
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.session import Session
from holdfast.runtime.tools.tool_context import CallPlace
from holdfast.types.messages import Message, Reply, StopReason, Text, ToolCall, ToolResult, text_of
from holdfast.types.records import (
    AttemptStarted,
    CompactionApplied,
    CompactionOutcome,
    InputAdmitted,
    LeasedRecord,
    Outcome,
    PieceSummarised,
    ReplyRecorded,
    SummaryRefused,
    TurnEnded,
    TurnStarted,
)

# Promised share of facts that are answerable, and calls per compaction.
ANSWERABLE_FLOOR = 0.95
MIDDLE_FLOOR = 0.90
CALLS_MAX = 12
_KEY = "bench"


# --- Measuring ---


class Shape(msgspec.Struct, frozen=True):
    """Messages of a session: their number, the bytes of each, and how many of them carry a fact.

    With `has_outputs` the text is not in the message, but in the output of a tool that the model calls for it.
    """

    name: str
    messages: int
    size_bytes: int
    facts_every: int = 4
    has_outputs: bool = False


class Figures(msgspec.Struct, frozen=True):
    """Figures of one session."""

    kind: str
    shape: str
    messages: int
    facts: int
    in_view: int
    by_recall: int
    # Facts that neither shows, by form.
    lost: dict[str, int]
    compactions: int
    calls: int
    calls_per_compaction_max: int
    refused: int

    @property
    def share(self) -> float:
        """Share of the facts that are answerable."""
        return (self.in_view + self.by_recall) / max(self.facts, 1)


async def measure(kind: str, shape: Shape, seed: int) -> Figures:
    """Run a session and ask for every fact."""
    chance = random.Random(seed)  # noqa: S311 - makes facts, guards nothing
    facts = [a_fact(chance, number) for number in range(-(-shape.messages // shape.facts_every))]
    model = Scripted(kind)
    with tempfile.TemporaryDirectory() as folder:
        tuning = holdfast.Tuning(bounds=Bounds())
        pages: list[str] = []

        def fetch() -> str:
            """Fetch a page."""
            return pages[-1]

        path = Path(folder) / "bench.db"
        async with holdfast.open(path, model=model, tuning=tuning, tools=[fetch]) as client:
            session = await client.session(_KEY)
            for number, page in enumerate(_pages(chance, shape, facts)):
                pages.append(page)
                await session.send(f"{FETCH}, number {number}." if shape.has_outputs else page)
            view = "\n".join(_text_of(message) for message in (await session.view()).messages)
            in_view = [fact for fact in facts if fact.value in view]
            rest = [fact for fact in facts if fact.value not in view]
            lost = [fact for fact in rest if not await _recalls(client, fact)]
            by_recall = len(rest) - len(lost)
            figures = Figures(kind, shape.name, shape.messages, len(facts), len(in_view), by_recall, {}, 0, 0, 0, 0)
            return await _figures(session, replace(figures, lost=dict(Counter(fact.form for fact in lost))))


def _pages(chance: random.Random, shape: Shape, facts: Sequence[Fact]) -> Iterator[str]:
    for number in range(shape.messages):
        fact = facts[number // shape.facts_every] if number % shape.facts_every == 0 else None
        yield message_of(chance, shape.size_bytes, fact)


def _text_of(message: Message) -> str:
    parts = [inner for part in message.parts for inner in (part.parts if isinstance(part, ToolResult) else (part,))]
    return text_of(tuple(parts))


async def _recalls(client: Client, fact: Fact) -> bool:
    arguments = msgspec.json.encode({"query": fact.question}).decode()
    result = await client.engine.toolbox.run(ToolCall("1", "recall", arguments), place=CallPlace(_KEY))
    return fact.value in text_of(tuple(result.parts))


async def _figures(session: Session, figures: Figures) -> Figures:
    calls = calls_all = calls_max = compactions = refused = after = 0
    while page := await session.history(after=after, limit=1_000):
        for logged in page:
            match logged.record:
                case PieceSummarised():
                    calls, calls_all = calls + 1, calls_all + 1
                case SummaryRefused():
                    calls, calls_all, refused = calls + 1, calls_all + 1, refused + 1
                case CompactionApplied():
                    compactions, calls_max, calls = compactions + 1, max(calls_max, calls), 0
                case _:
                    pass
        after = page[-1].seq
    return replace(
        figures, compactions=compactions, calls=calls_all, calls_per_compaction_max=calls_max, refused=refused
    )


# --- Growth: processor time of a compaction, by the length of the history before it ---

# A compaction after the longest history may take this many times the processor time of one after the shortest.
RATIO_MAX = 1.5
HISTORIES = (400, 4_000, 20_000)
_NEW_MESSAGES, _GROWTH_BYTES = 20, 500
_ROUNDS = 5
_BATCH_TURNS = 100
# Compactions that read the whole of the longest history; more means that one makes no progress.
_COMPACTIONS_MAX = 60


class Growth(msgspec.Struct, frozen=True):
    """Milliseconds of processor time of a compaction after a history of so many messages, and its first message."""

    messages: int
    compaction_ms: float
    first_message_ms: float
    snapshot_kb: float


async def measure_growth(messages: tuple[int, ...] = HISTORIES, *, rounds: int = _ROUNDS) -> list[Growth]:
    """Return the figures of each length."""
    chance = random.Random(1)  # noqa: S311 - makes text, guards nothing
    with tempfile.TemporaryDirectory() as folder:
        tuning = holdfast.Tuning(bounds=Bounds(compacts_ahead=False))
        async with holdfast.open(Path(folder) / "bench.db", model=Scripted("good"), tuning=tuning) as client:
            first = {count: await _begin(client, chance, count) for count in messages}
            times: dict[int, list[float]] = {count: [] for count in messages}
            for _ in range(rounds):
                for count in messages:
                    times[count].append(await _timed(await client.session(str(count)), chance))
            sizes = {count: await _snapshot_kb(client, str(count)) for count in messages}
    return [Growth(count, median(times[count]), first[count], sizes[count]) for count in messages]


async def _begin(client: Client, chance: random.Random, count: int) -> float:
    """Write a history, send the first message after it, and let everything be read. Return the time of that message."""
    store = client.engine.store
    lease = await store.acquire(str(count), "bench", seconds=600)
    assert lease is not None, "nobody else knows this store"
    await _append(client, lease, chance, count)
    await store.release(lease)
    session = await client.session(str(count))
    start = time.process_time()
    await session.send("And now?")
    first_ms = 1_000 * (time.process_time() - start)
    for _ in range(_COMPACTIONS_MAX):
        if (await session.compact()).outcome is not CompactionOutcome.APPLIED:
            break
    return first_ms


async def _append(client: Client, lease: Lease, chance: random.Random, count: int) -> None:
    seq = 0
    batch: list[LeasedRecord] = []
    reply = Reply((Text("Noted. The crew goes on."),), StopReason.END, None, "bench")
    for number in range(count // 2):
        turn = seq + len(batch) + 1
        text = message_of(chance, _GROWTH_BYTES, a_fact(chance, number) if number % 4 == 0 else None)
        batch += [
            InputAdmitted((Text(text),)),
            TurnStarted(turn),
            AttemptStarted(turn, 1, "bench", 100),
            ReplyRecorded(turn, 1, reply),
            TurnEnded(turn, Outcome.ANSWERED),
        ]
        if len(batch) >= 5 * _BATCH_TURNS or number == count // 2 - 1:
            seq = await client.engine.store.append(lease, batch, after=seq)
            batch = []


async def _timed(session: Session, chance: random.Random) -> float:
    """Return the milliseconds of a compaction of some new messages."""
    for _ in range(_NEW_MESSAGES):
        await session.send(message_of(chance, _GROWTH_BYTES, None))
    start = time.process_time()
    await session.compact()
    return 1_000 * (time.process_time() - start)


async def _snapshot_kb(client: Client, key: str) -> float:
    return len((await open_log(client.engine.store, key)).snapshot().body) / 1_000


def lines_of(found: list[Growth]) -> list[str]:
    """Return the figures as lines of text, the last with the verdict."""
    lines = [
        f"{one.messages:6,} messages  a compaction {one.compaction_ms:6.0f} ms, the first message "
        f"{one.first_message_ms:6.0f} ms of processor time, snapshot {one.snapshot_kb:,.0f} KB"
        for one in found
    ]
    verdict = "ok" if is_flat(found) else "ABOVE"
    return [*lines, f"the longest history against the shortest {ratio_of(found):.2f}, at most {RATIO_MAX}   {verdict}"]


def ratio_of(found: list[Growth]) -> float:
    """Return the time of a compaction after the longest history, in times of one after the shortest."""
    return found[-1].compaction_ms / max(found[0].compaction_ms, 1e-3)


def is_flat(found: list[Growth]) -> bool:
    """Return whether the promise is kept."""
    return ratio_of(found) <= RATIO_MAX


# --- The command ---

_SHORT = (
    Shape("chat", 160, 500),
    Shape("6 kB outputs", 60, 6_000, 2, has_outputs=True),
    Shape("20 kB messages", 16, 20_000, 1),
)
_LONG = (
    Shape("chat", 1_000, 500),
    Shape("long chat", 5_000, 500),
    Shape("6 kB outputs", 300, 6_000, 2, has_outputs=True),
    Shape("20 kB messages", 60, 20_000, 1),
    Shape("50 kB messages", 40, 50_000, 1),
)


def is_kept(figures: Figures) -> bool:
    """Return whether the promises are kept."""
    floor = MIDDLE_FLOOR if "kB" in figures.shape else ANSWERABLE_FLOOR
    return figures.share >= floor and figures.calls_per_compaction_max <= CALLS_MAX


@click.command()
@click.option("--long", "is_long", is_flag=True, help="Sessions of 1,000 and 5,000 messages.")
@click.option("--kind", type=click.Choice(list(KINDS)), multiple=True, help="Kinds of summarisers. Default: all.")
@click.option("--growth", is_flag=True, help="Processor time of a compaction after 400, 4,000 and 20,000 messages.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the facts.")
@json_option
def memory(kind: tuple[str, ...], seed: int, *, is_long: bool, growth: bool, as_json: bool) -> None:
    """Measure the share of facts that a session still knows; exit with 1 if it is less than promised."""
    if growth:
        _show_growth(as_json=as_json)
        return
    found: list[Figures] = []
    for shape in _LONG if is_long else _SHORT:
        for one in kind or KINDS:
            figures = asyncio.run(measure(one, shape, seed))
            found.append(figures)
            if not as_json:
                click.echo(_line(figures))
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    if not all(map(is_kept, found)):
        sys.exit(BROKEN)


def _show_growth(*, as_json: bool) -> None:
    found = asyncio.run(measure_growth())
    if as_json:
        print_figures(figures_of(found), as_json=True)
        return
    click.echo("\n".join(lines_of(found)))
    if not is_flat(found):
        sys.exit(BROKEN)


def figures_of(found: list[Growth]) -> list[Measured]:
    """Return a compaction after the longest history beside one after the shortest, and each first message."""
    shortest, longest = found[0], found[-1]
    name = f"compaction after {longest.messages:,} messages"
    compaction = Measured(name, longest.compaction_ms, shortest.compaction_ms, RATIO_MAX / ratio_of(found), 1.0, "ms")
    # Per message: an import is read once.
    first = [
        Measured(
            f"first message after {one.messages:,}",
            one.first_message_ms,
            shortest.first_message_ms,
            shortest.first_message_ms * one.messages / shortest.messages / max(one.first_message_ms, 1e-3),
            0.0,
            "ms",
        )
        for one in found[1:]
    ]
    return [compaction, *first]


def _line(figures: Figures) -> str:
    verdict = "ok" if is_kept(figures) else "BELOW"
    count = max(figures.facts, 1)
    known = f"{figures.in_view / count:.1%} in view, {figures.by_recall / count:.1%} by recall"
    mean = figures.calls / max(figures.compactions, 1)
    return (
        f"{figures.shape:15} {figures.messages:6,} messages  {figures.kind:16} {figures.share:6.1%} of "
        f"{figures.facts:5,} facts ({known})  {figures.compactions:,} compactions, {mean:.1f} calls "
        f"each, at most {figures.calls_per_compaction_max}, {figures.refused:,} refused  {verdict}"
    )
