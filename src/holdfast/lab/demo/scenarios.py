"""Scenarios of the demo, in order: one session goes through one fault after the other."""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.cli.output import shorten
from holdfast.core.limits.sizing import tokens_of_text
from holdfast.gateway.api.schemas import Compacted
from holdfast.lab.demo.client import MISLEADING_WORDS, Race, flip_bit
from holdfast.lab.demo.context import KEY, DemoContext
from holdfast.types.faults import FaultKind
from holdfast.types.records import (
    AnyRecord,
    AttemptFailed,
    CompactionApplied,
    CompactionOutcome,
    CompactionSettled,
    SummaryKind,
    TurnEnded,
)

# Enough pages to fill the window several times; an upper bound.
_LEGS_MAX = 40
# Turns after a compaction until the next one has something to do.
_LEGS_BETWEEN = 3
# Deltas of the summary before the gateway is killed.
_DELTAS_BEFORE_KILL = 3
_POLL_SECONDS = 0.02
# A proactive compaction may finish before the requested one, though rarely twice.
_TRIES_MAX = 4
_QUOTED_CHARS = 70
# Refusals whose numbers are no limits of the model, with some of their words.
MISLEADING = dict(zip(("count-cap", "pixel-range"), MISLEADING_WORDS, strict=True))
_UNCACHED_REPLIES = 100


async def facts_are_planted(demo: DemoContext) -> None:
    """Tell the model facts that it must know at the end."""
    demo.observed.facts = dict(demo.inputs.facts)
    for name, value in demo.inputs.facts.items():
        await demo.send(f"remember {name} = {value}")
    demo.display.say(f"The model was told {len(demo.inputs.facts)} facts. It is asked for them at the end.")


async def it_outgrows_the_window(demo: DemoContext) -> None:
    """Let the conversation grow until it was compacted often enough."""
    tokens = 0
    for _ in range(_LEGS_MAX):
        await demo.add_page()
        compactions = sum(isinstance(one.record, CompactionApplied) for one in demo.watcher.seen)
        tokens = sum(tokens_of_text(sent.text) + tokens_of_text(sent.answer or "") for sent in demo.observed.sent)
        if compactions >= demo.pace.compactions and tokens > demo.observed.window_tokens:
            break
    await demo.wait_until_idle()
    demo.display.say(f"The conversation has about {tokens:,} tokens; the window has {demo.observed.window_tokens:,}.")


async def the_summariser_is_refused(demo: DemoContext) -> None:
    """Reject every summary call until the window is full, so that the engine must use a digest."""
    await demo.client.set_model(summary_tokens_max=0)
    after = demo.watcher.last_seq
    for _ in range(_LEGS_MAX):
        await demo.add_page()
        if any(_is_digest(one.record) for one in demo.watcher.seen[after:]):
            break
    await demo.wait_until_idle()
    await demo.client.set_model(summary_tokens_max=None)
    demo.display.say("Every message was answered. A model replaces the digest by a summary later.")


def _is_digest(record: AnyRecord) -> bool:
    return isinstance(record, CompactionApplied) and record.kind is SummaryKind.DIGEST


async def rate_limits(demo: DemoContext) -> None:
    """Answer the next two requests with 429 and Retry-After."""
    for _ in range(_TRIES_MAX):
        await demo.wait_until_idle()
        before = len(demo.watcher.seen)
        await demo.client.set_model(faults=f"429:retry-after={demo.pace.retry_after_seconds:g}*2")
        sent = await demo.send("Are you still there?")
        demo.display.say(f"answer: {shorten(sent.answer or sent.reason, _QUOTED_CHARS)}")
        await demo.wait_until_idle()
        if any(isinstance(one.record, AttemptFailed) for one in demo.watcher.seen[before:]):
            return


async def every_model_is_down(demo: DemoContext) -> None:
    """Kill the model server, send a message, and restart the server."""
    await demo.wait_until_idle()
    await demo.kill_model()
    demo.display.say("The server of both models was killed. A message is sent:")
    sent = await demo.send("Is anybody there?", expected_code=FaultKind.TRANSIENT.value)
    demo.display.say(f"error message: {shorten(sent.reason, _QUOTED_CHARS * 2)}")
    await demo.start_model()
    again = await demo.send("And now, is anybody there?")
    demo.display.say(f"The server is back. answer: {shorten(again.answer or again.reason, _QUOTED_CHARS)}")


async def an_image_of_30_mb(demo: DemoContext) -> None:
    """Send an image six times as large as the provider's limit."""
    image = await asyncio.to_thread(demo.inputs.image)
    demo.display.say(f"A PNG of {len(image):,} bytes is uploaded; the provider's limit is 5 MiB.")
    sent = await demo.send_image("What do you see on this chart?", image)
    demo.display.say(f"answer: {shorten(sent.answer or sent.reason, _QUOTED_CHARS)}")


async def it_is_misled(demo: DemoContext) -> None:
    """Refuse requests with numbers that are no limits of the model, then report usage without cached tokens."""
    await demo.wait_until_idle()
    demo.observed.windows.append((await demo.client.view()).limits.window_tokens)
    for word, words in MISLEADING.items():
        await demo.client.set_model(faults=word)
        sent = await demo.send("What is the next port?")
        demo.display.say(f'refused with "{words}"; answer: {shorten(sent.answer or sent.reason, _QUOTED_CHARS)}')
    await demo.client.set_model(faults=f"uncached*{_UNCACHED_REPLIES}")
    demo.display.say("The provider leaves cached tokens out of the usage that it reports:")
    for _ in range(_LEGS_BETWEEN):
        await demo.add_page()
    await demo.wait_until_idle()
    await demo.client.set_model(faults="")
    demo.observed.windows.append((await demo.client.view()).limits.window_tokens)
    demo.display.say(f"The window is taken for {demo.observed.windows[-1] or 0:,} tokens, as before.")


async def a_text_is_refused(demo: DemoContext) -> None:
    """Refuse every request with one of two texts until the end of the demo: by a content filter, and without a word."""
    refused = {
        "the cargo of the Vasa": ("content-filter", FaultKind.CONTENT_POLICY),
        "the log of the Batavia": ("bare-400", FaultKind.BAD_REQUEST),
    }
    await demo.wait_until_idle()
    await demo.client.set_model(refuses={text: word for text, (word, _) in refused.items()})
    for text, (_, kind) in refused.items():
        demo.display.say(f'The provider refuses every request with "{text}", from now on:')
        sent = await demo.send(f"Tell me about {text}.", expected_code=kind.value)
        demo.display.say(f"error message: {shorten(sent.reason, _QUOTED_CHARS * 2)}")
        after = await demo.send("Then tell me about the weather.")
        demo.display.say(f"The next message: {shorten(after.answer or after.reason, _QUOTED_CHARS)}")


async def killed_while_compacting(demo: DemoContext) -> None:
    """Kill the gateway while a summary streams and a message is queued."""
    for _ in range(_TRIES_MAX):
        await _grow(demo)
        await demo.client.set_model(faults=f"stall:after={_DELTAS_BEFORE_KILL}")
        wanted = asyncio.create_task(demo.client.compact())
        try:
            if await _is_being_summarised(demo, wanted):
                sent = await demo.send("This message waits for the compaction. Does it arrive?", mode="post")
                await demo.watcher.reach(sent.turn)
                await demo.kill_gateway()
                break
        finally:
            wanted.cancel()
            await asyncio.gather(wanted, return_exceptions=True)
        # A proactive compaction was faster and left nothing to do.
        await demo.client.set_model(faults="")
    demo.display.say("SIGKILL, with an incomplete summary and an accepted message.")


async def _grow(demo: DemoContext) -> None:
    """Let the conversation grow until another compaction has something to do."""
    await demo.wait_until_idle()
    for _ in range(_LEGS_MAX):
        if _turns_since_compaction(demo) < _LEGS_BETWEEN:
            await demo.add_page()
            continue
        # A proactive compaction meanwhile resets the count.
        await demo.wait_until_idle()
        if _turns_since_compaction(demo) >= _LEGS_BETWEEN:
            return


def _turns_since_compaction(demo: DemoContext) -> int:
    since = 0
    for logged in demo.watcher.seen:
        since = 0 if isinstance(logged.record, CompactionApplied) else since + isinstance(logged.record, TurnEnded)
    return since


async def _is_being_summarised(demo: DemoContext, wanted: "asyncio.Task[Compacted]") -> bool:
    """Wait until the summary streams and stalls; False if there was nothing to summarise."""
    while not wanted.done():
        if not (await demo.client.model_state()).faults_left:
            return True
        await asyncio.sleep(_POLL_SECONDS)
    return False


async def it_is_started_again(demo: DemoContext) -> None:
    """Restart the gateway and watch it recover."""
    before = demo.watcher.last_seq
    await demo.start_gateway()
    demo.display.say("No client sends anything; the start recovers the session:")
    await demo.watcher.until(lambda one: isinstance(one, CompactionSettled), after=before)
    waiting = next(sent for sent in demo.observed.sent if sent.answer is None and not sent.reason)
    await demo.collect(waiting)
    demo.display.say(f"the queued message: {shorten(waiting.answer or waiting.reason, _QUOTED_CHARS)}")


async def two_race_for_one_compaction(demo: DemoContext) -> None:
    """Request a compaction from two gateways on one store at the same time."""
    other, _ = await asyncio.gather(demo.another_gateway(), _grow(demo))
    demo.display.say("A second gateway was started on the same store. Both receive a compaction request at once:")
    for _ in range(_TRIES_MAX):
        await _grow(demo)
        demo.observed.race = await _race(demo, other.url)
        demo.display.say(f"outcomes: {' and '.join(outcome.value for outcome in demo.observed.race.outcomes)}")
        # With nothing to do for one of them it was not a race; try again.
        if CompactionOutcome.NOTHING_TO_DO not in demo.observed.race.outcomes:
            break
    await other.stop()


async def _race(demo: DemoContext, other: str) -> Race:
    after = demo.watcher.last_seq
    await demo.client.set_model(delta_seconds=demo.pace.race_delta_seconds)
    results = await asyncio.gather(demo.client.compact(), demo.client.compact(other))
    await demo.client.set_model(delta_seconds=0.0)
    await demo.wait_until_idle()
    return Race(after, demo.watcher.last_seq, tuple(one.outcome for one in results))


async def a_bit_is_flipped(demo: DemoContext) -> None:
    """Flip a bit in the closed store, run doctor, and continue the session."""
    await _grow(demo)
    boundary = (await demo.client.detail()).boundary
    await demo.stop_gateway()
    flip = await flip_bit(demo.store, KEY, boundary, demo.inputs.chance("flip"))
    demo.observed.flip = flip
    if flip is None:
        demo.display.say("There was no record to flip a bit in.")
    else:
        demo.display.say(f"Bit {flip.bit} of byte {flip.at:,} of the store file was flipped, in record {flip.seq}.")
    demo.observed.found_after_flip = await demo.doctor()
    for finding in demo.observed.found_after_flip:
        demo.display.say(f"doctor: record {finding.seq}: {finding.what}")
    await demo.start_gateway()
    sent = await demo.send("Does anything hurt?")
    await demo.wait_until_idle()
    demo.display.say(f"answer: {shorten(sent.answer or sent.reason, _QUOTED_CHARS)}")


async def facts_are_asked_for(demo: DemoContext) -> None:
    """Ask the model for every fact, and search for it."""
    for name in demo.inputs.facts:
        hits = await demo.client.search(f"remember {name}")
        # Only the original message counts, not later ones that mention the fact.
        planted = {sent.turn for sent in demo.observed.sent if sent.text.startswith(f"remember {name} =")}
        demo.observed.searched[name] = " ".join(hit.excerpt for hit in hits.hits if hit.seq in planted)
        sent = await demo.send(f"what is {name}?")
        demo.observed.recalled[name] = sent.answer or ""
        demo.display.say(f"what is {name}? {shorten(sent.answer or sent.reason, _QUOTED_CHARS)}")


Scenario = Callable[[DemoContext], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {
    "Facts are planted": facts_are_planted,
    "The conversation outgrows the window": it_outgrows_the_window,
    "The summariser is refused": the_summariser_is_refused,
    "Rate limits": rate_limits,
    "Every model is down": every_model_is_down,
    "An image of 30 MB": an_image_of_30_mb,
    "Refusals and usage that mislead": it_is_misled,
    "A text that the provider refuses": a_text_is_refused,
    "kill -9 in the middle of a compaction": killed_while_compacting,
    "Restart": it_is_started_again,
    "A second process races for the same compaction": two_race_for_one_compaction,
    "A flipped bit in the store": a_bit_is_flipped,
    "The facts are asked for": facts_are_asked_for,
}
