"""The acts of the demo, in order: each shows one thing the engine does, and says what to look at."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from msgspec.structs import replace

from holdfast.cli.demo.children import Child
from holdfast.cli.demo.errand import Line
from holdfast.cli.demo.stage import SMALL_WINDOW_TOKENS, Stage
from holdfast.core.ladder import SUMMARIES, Rung
from holdfast.core.messages import text_of
from holdfast.core.records import (
    AttemptStarted,
    CompactionApplied,
    Logged,
    NoticePosted,
    ReplyRecorded,
    RungFinished,
    RungStarted,
    ToolSettled,
    ToolStarted,
    TurnEnded,
    WindowWarned,
)

MAIN = "demo:main"
KILLED_IN_TOOL = "demo:killed-in-a-tool"
KILLED_IN_COMPACTION = "demo:killed-in-a-compaction"

# Facts of the kinds that a person would miss: a name, a number, a path, a date, a phrase.
FACTS = {
    "harbour": "Kiel",
    "berth": "17-B",
    "chart": "/charts/baltic/2031.pdf",
    "departure": "2031-04-09 06:40",
    "password-hint": "the blue door",
}
# A window that holds a few long pages, so that making a digest of them takes long enough to be killed in.
LARGE_WINDOW_TOKENS = 24_000
_LONG_PAGE_SENTENCES = 400
# About a tenth of the small window.
_WORDS_PER_LEG = 400
# More than it takes to fill the small window several times; a bound, so that it ends whatever happens.
_LEGS_MAX = 60
# Another process's records are seen within 25 ms, and a step takes longer than that: the first try mostly hits.
_TRIES_MAX = 4
# Enough of those pages to fill that window.
_LONG_PAGES = 7
# What shortens the view: by a model's summary, or without one.
_COMPACTING = frozenset({*SUMMARIES, Rung.DIGEST, Rung.KEEP_NEWEST})
_ANCHOR = "12 fathoms"
# A tool that is killed does not come back; this only has to outlast the kill.
_LONG_PAY_SECONDS = 60.0
# More than any session of the demo has.
_RECORDS_MAX = 2_000


# Words from which pages are made: a sentence takes one of each, so pages differ and yet read like a logbook.
_WHEN = ("At dawn", "Before noon", "In the dog watch", "After the squall", "At dusk", "During the night watch", "Later")
_WHO = ("the captain", "our cook", "a sailor", "the carpenter", "the pilot")
_DID = ("mended", "inspected", "painted", "took down", "complained about", "praised", "lost", "found again", "sketched")
_WHAT = ("the main sail", "a lamp", "the rudder", "some rope", "the pump", "a chart", "the bell", "an anchor chain")
_WHY = (
    "as the wind fell",
    "while it rained",
    "without a word",
    "to pass the time",
    "for the third time",
    "in good cheer",
)


def page(number: int, sentences: int) -> str:
    """Return a page of a logbook; the same number gives the same page."""
    chosen = random.Random(number)  # noqa: S311 - the same pages every time are the point
    return " ".join(
        f"{chosen.choice(_WHEN)} {chosen.choice(_WHO)} {chosen.choice(_DID)} {chosen.choice(_WHAT)} "
        f"{chosen.choice(_WHY)}."
        for _ in range(sentences)
    )


async def an_answer_streams_in(stage: Stage) -> None:
    """Show a plain turn."""
    stage.title("1. An answer streams in")
    session = await stage.hold.session(MAIN)
    await stage.send(session, "Hello! Are you there?")
    stage.say("The message was on disk before the model was asked; the answer is on disk as well.")


async def a_tool_runs_once(stage: Stage) -> None:
    """Show the intent and the receipt of a tool."""
    stage.title("2. A tool is called: the intent is on disk before it runs, the receipt after")
    session = await stage.hold.session(MAIN)
    records = await stage.send(session, 'call pay {"to": "Ada", "amount": 40}')
    for logged in records:
        if isinstance(logged.record, ToolStarted | ToolSettled):
            stage.quote(logged)


async def the_provider_refuses(stage: Stage) -> None:
    """Show the waiting after a rate limit and an overload."""
    stage.title("3. The provider refuses twice (429 rate limit, 529 overloaded): wait and try again")
    session = await stage.hold.session(MAIN)
    stage.simulation.set_faults("429,529")
    await stage.send(session, "Still there?")


async def the_window_overflows(stage: Stage) -> None:
    """Plant facts, outgrow the window several times, and ask for the facts again."""
    stage.title(f"4. The conversation outgrows the model's window of {SMALL_WINDOW_TOKENS:,} tokens")
    session = await stage.hold.session(MAIN)
    await stage.send(session, "; ".join(f"remember {name} = {value}" for name, value in FACTS.items()))
    stage.say("Now the conversation grows:")
    # Nobody wants to watch thousands of words being written.
    stage.simulation.delta_seconds = 0.0
    seen = compactions = 0
    for leg in range(1, _LEGS_MAX + 1):
        await stage.send_quietly(session, f"Leg {leg} of the journey: write {_WORDS_PER_LEG} words")
        records = await session.history(after=seen, limit=_RECORDS_MAX)
        seen = records[-1].seq
        compactions += _tell_growth(stage, leg, records)
        if compactions >= stage.pace.compactions:
            break
    stage.simulation.delta_seconds = stage.pace.delta_seconds
    stage.say("What was said at the beginning is no longer in view word for word. Is it still known?")
    for name, value in FACTS.items():
        _count_fact(stage, value, await stage.send(session, f"what is {name}?"))


def _tell_growth(stage: Stage, leg: int, records: list[Logged]) -> int:
    """Show how full the window is and what was done about it; return how many compactions there were."""
    filled = compactions = 0
    for logged in records:
        match logged.record:
            case AttemptStarted(tokens_estimated=tokens):
                filled = tokens
            case CompactionApplied():
                stage.quote(logged)
                compactions += 1
            case NoticePosted(sentence=sentence) | WindowWarned(sentence=sentence):
                stage.say(f"notice to you: {sentence}")
            case _:
                pass
    stage.say(f"leg {leg}: about {filled:,} of {SMALL_WINDOW_TOKENS:,} tokens")
    return compactions


def _count_fact(stage: Stage, value: str, records: list[Logged]) -> None:
    """Count a fact that was planted, and whether the last answer has it to the letter."""
    answers = [text_of(logged.record.reply.parts) for logged in records if isinstance(logged.record, ReplyRecorded)]
    stage.facts_planted += 1
    stage.facts_recalled += bool(answers) and value in answers[-1]


async def killed_while_a_tool_runs(stage: Stage) -> None:
    """Kill a process that has paid and not said so yet, and let the next one go on."""
    stage.title("5. kill -9 while a tool runs")
    lines = [Line('call pay {"to": "Grace", "amount": 75}', "pay-grace")]
    errand = stage.errand(KILLED_IN_TOOL, lines, window_tokens=LARGE_WINDOW_TOKENS)
    stage.say("Another process is asked to pay Grace 75. Its tool pays, and then takes its time.")

    async def paid(child: Child) -> None:
        await child.has_paid.wait()

    life = await stage.live(replace(errand, pay_seconds=_LONG_PAY_SECONDS), paid)
    if life.was_killed:
        stage.kills.append("while a tool ran")
    session = await stage.hold.session(KILLED_IN_TOOL)
    before = await session.history(limit=_RECORDS_MAX)
    stage.say("It was killed with SIGKILL after it had paid and before it could say so. The log ends with the intent:")
    stage.quote(before[-1])
    stage.say("The next process starts, and recovers by starting:")
    await stage.live(errand)
    for logged in (await session.history(limit=_RECORDS_MAX))[len(before) :]:
        if isinstance(logged.record, ToolSettled | ReplyRecorded | TurnEnded):
            stage.quote(logged)
    stage.say("Nobody can know whether the payment went out, so it was not repeated, and the model was told.")


async def killed_while_compacting(stage: Stage) -> None:
    """Kill a process between the beginning and the end of a compaction, and let the next one go on."""
    stage.title("6. kill -9 while a compaction is under way")
    for number in range(1, _TRIES_MAX + 1):
        if await _killed_while_compacting(stage, f"{KILLED_IN_COMPACTION}-{number}"):
            return
        stage.say("That was not the moment. Once more.")


async def _killed_while_compacting(stage: Stage, key: str) -> bool:
    """Return whether the kill came in the middle."""
    pages = [Line(f"Page {n} of the log. {page(n, _LONG_PAGE_SENTENCES)}", f"page-{n}") for n in range(_LONG_PAGES)]
    lines = [Line(f"remember anchor = {_ANCHOR}", "plant"), *pages, Line("what is anchor?", "ask")]
    errand = stage.errand(key, lines, window_tokens=LARGE_WINDOW_TOKENS)
    stage.say(f"Another process fills a window of {LARGE_WINDOW_TOKENS:,} tokens until it has to compact.")
    session = await stage.hold.session(key)

    async def in_the_middle(child: Child) -> None:
        async with aclosing(session.watch()) as feed:
            async for logged in feed:
                if isinstance(logged.record, RungStarted) and logged.record.rung in _COMPACTING:
                    # A step may be over before it is seen here: look again while nothing can move.
                    child.pause()
                    if _is_compacting(await session.history(after=logged.seq - 1, limit=_RECORDS_MAX)):
                        return
                    child.resume()

    life = await stage.live(errand, in_the_middle)
    before = await session.history(limit=_RECORDS_MAX)
    is_hit = life.was_killed and _is_compacting(before)
    if life.was_killed:
        stage.kills.append(_moment(before, is_hit=is_hit))
        stage.say("It was killed with SIGKILL. The log ends with:")
    else:
        stage.say("It was done before it could be killed. The log ends with:")
    stage.quote(before[-1])
    stage.say("The next process starts:")
    await stage.live(errand)
    records = await session.history(limit=_RECORDS_MAX)
    for logged in records[len(before) :]:
        if isinstance(logged.record, RungFinished | CompactionApplied):
            stage.quote(logged)
    _count_fact(stage, _ANCHOR, records)
    return is_hit


def _moment(records: list[Logged], *, is_hit: bool) -> str:
    """Say in words what a kill hit."""
    if is_hit:
        return "while a compaction was under way"
    is_over = any(isinstance(logged.record, CompactionApplied) for logged in records)
    return "just after a compaction" if is_over else "between two steps of a compaction"


def _is_compacting(records: list[Logged]) -> bool:
    """Return whether a log ends in the middle of a compaction."""
    steps = [logged.record for logged in records if isinstance(logged.record, RungStarted | RungFinished)]
    return bool(steps) and isinstance(steps[-1], RungStarted) and steps[-1].rung in _COMPACTING


async def one_message_sent_twice(stage: Stage) -> None:
    """Send one message twice at once, as a client does that did not hear the acknowledgement."""
    stage.title("7. The same message sent twice with one client id is one message")
    session = await stage.hold.session(MAIN)
    text = 'call pay {"to": "Linus", "amount": 10}'
    stage.say(f"you, twice: {text}")
    answers = await asyncio.gather(*(session.send(text, client_id="pay-linus") for _ in range(2)))
    stage.accepted.add((session.key, "pay-linus"))
    stage.say(f"turns {answers[0].turn} and {answers[1].turn}, and both were told: {answers[0].text}")


Act = Callable[[Stage], Awaitable[None]]
ACTS: tuple[Act, ...] = (
    an_answer_streams_in,
    a_tool_runs_once,
    the_provider_refuses,
    the_window_overflows,
    killed_while_a_tool_runs,
    killed_while_compacting,
    one_message_sent_twice,
)
