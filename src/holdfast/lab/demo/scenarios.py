"""The acts of the demo, in order: one session is walked through one disaster after the other."""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.cli.output import shorten
from holdfast.core.limits.sizing import tokens_of_text
from holdfast.gateway.api.schemas import Compacted
from holdfast.lab.demo.client import Race
from holdfast.lab.demo.context import KEY, DemoContext
from holdfast.lab.demo.inputs import flip_bit
from holdfast.types.records import (
    AnyRecord,
    AttemptFailed,
    CompactionApplied,
    CompactionOutcome,
    CompactionSettled,
    SummaryKind,
    TurnEnded,
)

# More than it takes to fill the window several times; a bound, so that it ends whatever happens.
_LEGS_MAX = 40
# What a compaction that is asked for leaves in the view is small; so much more makes another one worth it.
_LEGS_BETWEEN = 3
# Of a summary that is being written when the gateway is killed, so much has come.
_DELTAS_BEFORE_KILL = 3
_POLL_SECONDS = 0.02
# A compaction that is made ahead of need may be quicker than the one that is asked for, though rarely twice.
_TRIES_MAX = 4
_QUOTED_CHARS = 70


async def facts_are_planted(demo: DemoContext) -> None:
    """Tell the model what will be asked for at the end."""
    demo.observed.facts = dict(demo.inputs.facts)
    for name, value in demo.inputs.facts.items():
        await demo.send(f"remember {name} = {value}")
    demo.display.say(f"{len(demo.inputs.facts)} facts were told. They will be asked for at the end.")


async def it_outgrows_the_window(demo: DemoContext) -> None:
    """Let the conversation grow until it was compacted as often as the pace says."""
    output = 0
    for _ in range(_LEGS_MAX):
        await demo.travel()
        compactions = sum(isinstance(one.record, CompactionApplied) for one in demo.watcher.seen)
        output = sum(tokens_of_text(sent.text) + tokens_of_text(sent.answer or "") for sent in demo.observed.sent)
        if compactions >= demo.pace.compactions and output > demo.observed.window_tokens:
            break
    await demo.rest()
    demo.display.say(f"About {output:,} tokens were said; the window has {demo.observed.window_tokens:,}.")


async def the_summariser_is_refused(demo: DemoContext) -> None:
    """Refuse every summary until the window is full, so that it must do without a model."""
    await demo.client.set_model(summary_tokens_max=0)
    after = demo.watcher.last_seq
    for _ in range(_LEGS_MAX):
        await demo.travel()
        if any(_is_digest(one.record) for one in demo.watcher.seen[after:]):
            break
    await demo.rest()
    await demo.client.set_model(summary_tokens_max=None)
    demo.display.say("Every message was answered all the same. A digest is debt: a model redoes it when it can.")


def _is_digest(record: AnyRecord) -> bool:
    return isinstance(record, CompactionApplied) and record.kind is SummaryKind.DIGEST


async def rate_limits(demo: DemoContext) -> None:
    """Refuse the next two requests with 429 and Retry-After."""
    for _ in range(_TRIES_MAX):
        await demo.rest()
        before = len(demo.watcher.seen)
        await demo.client.set_model(faults=f"429:retry-after={demo.pace.retry_after_seconds:g}*2")
        sent = await demo.send("Are you still there?")
        demo.display.say(f"answer: {shorten(sent.answer or sent.reason, _QUOTED_CHARS)}")
        await demo.rest()
        if any(isinstance(one.record, AttemptFailed) for one in demo.watcher.seen[before:]):
            return


async def every_model_is_down(demo: DemoContext) -> None:
    """Kill the model, ask, and start it again."""
    await demo.rest()
    await demo.kill_model()
    demo.display.say("The server of both models was killed. A message is sent all the same:")
    sent = await demo.send("Is anybody there?", expects_reason=True)
    demo.display.say(f"the sender is told: {shorten(sent.reason, _QUOTED_CHARS * 2)}")
    await demo.start_model()
    again = await demo.send("And now, is anybody there?")
    demo.display.say(f"It is back. answer: {shorten(again.answer or again.reason, _QUOTED_CHARS)}")


async def an_image_of_30_mb(demo: DemoContext) -> None:
    """Send an image that is six times as large as the provider takes."""
    image = await asyncio.to_thread(demo.inputs.image)
    demo.display.say(f"A PNG of {len(image):,} bytes is uploaded; the provider takes 5 MiB.")
    sent = await demo.send_image("What do you see on this chart?", image)
    demo.display.say(f"answer: {shorten(sent.answer or sent.reason, _QUOTED_CHARS)}")


async def killed_while_compacting(demo: DemoContext) -> None:
    """Kill the gateway while a summary is half written and a message waits."""
    for _ in range(_TRIES_MAX):
        await _grow(demo)
        await demo.client.set_model(faults=f"stall:after={_DELTAS_BEFORE_KILL}")
        wanted = asyncio.create_task(demo.client.compact())
        try:
            if await _is_being_summarised(demo, wanted):
                sent = await demo.send("This message waits behind the compaction. Does it arrive?", mode="post")
                await demo.watcher.reach(sent.turn)
                await demo.kill_gateway()
                break
        finally:
            wanted.cancel()
            await asyncio.gather(wanted, return_exceptions=True)
        # One of those that are made ahead of need was quicker, and left nothing to do.
        await demo.client.set_model(faults="")
    demo.display.say("SIGKILL: a summary was half written, and a message had been accepted.")


async def _grow(demo: DemoContext) -> None:
    """Let the conversation grow until there is enough behind the last compaction to make another one of."""
    await demo.rest()
    for _ in range(_LEGS_MAX):
        if _turns_since_compaction(demo) < _LEGS_BETWEEN:
            await demo.travel()
            continue
        # One that was made ahead of need meanwhile begins the count anew.
        await demo.rest()
        if _turns_since_compaction(demo) >= _LEGS_BETWEEN:
            return


def _turns_since_compaction(demo: DemoContext) -> int:
    since = 0
    for logged in demo.watcher.seen:
        since = 0 if isinstance(logged.record, CompactionApplied) else since + isinstance(logged.record, TurnEnded)
    return since


async def _is_being_summarised(demo: DemoContext, wanted: "asyncio.Task[Compacted]") -> bool:
    """Wait until the summariser has begun to write and fallen silent; False where there was nothing to summarise."""
    while not wanted.done():
        if not (await demo.client.model_state()).faults_left:
            return True
        await asyncio.sleep(_POLL_SECONDS)
    return False


async def it_is_started_again(demo: DemoContext) -> None:
    """Start the gateway again, and see what it makes of what it finds."""
    before = demo.watcher.last_seq
    await demo.start_gateway()
    demo.display.say("Nobody sends anything. Starting is recovering:")
    await demo.watcher.until(lambda one: isinstance(one, CompactionSettled), after=before)
    waiting = next(sent for sent in demo.observed.sent if sent.answer is None and not sent.reason)
    await demo.collect(waiting)
    demo.display.say(f"the message that waited: {shorten(waiting.answer or waiting.reason, _QUOTED_CHARS)}")


async def two_race_for_one_compaction(demo: DemoContext) -> None:
    """Ask two gateways on one store for a compaction at the same time."""
    other, _ = await asyncio.gather(demo.another_gateway(), _grow(demo))
    demo.display.say("A second gateway was started on the same store. Both are asked for a compaction at once:")
    for _ in range(_TRIES_MAX):
        await _grow(demo)
        demo.observed.race = await _race(demo, other.url)
        demo.display.say(f"told: {' and '.join(outcome.value for outcome in demo.observed.race.outcomes)}")
        # Where one of them came too late, or there was nothing to do, it was no race. Two compactions would be two.
        if CompactionOutcome.NOTHING_TO_DO not in demo.observed.race.outcomes:
            break
    await other.stop()


async def _race(demo: DemoContext, other: str) -> Race:
    after = demo.watcher.last_seq
    await demo.client.set_model(delta_seconds=demo.pace.race_delta_seconds)
    told = await asyncio.gather(demo.client.compact(), demo.client.compact(other))
    await demo.client.set_model(delta_seconds=0.0)
    await demo.rest()
    return Race(after, demo.watcher.last_seq, tuple(one.outcome for one in told))


async def a_bit_is_flipped(demo: DemoContext) -> None:
    """Flip a bit of the file while nobody has it open, look with doctor, and go on."""
    await _grow(demo)
    boundary = (await demo.client.detail()).boundary
    await demo.stop_gateway()
    flip = await flip_bit(demo.store, KEY, boundary, demo.inputs.chance("flip"))
    demo.observed.flip = flip
    if flip is None:
        demo.display.say("There was no record in which a bit could be flipped.")
    else:
        demo.display.say(f"Bit {flip.bit} of byte {flip.at:,} of the store's file was flipped, in record {flip.seq}.")
    demo.observed.found_after_flip = await demo.doctor()
    for finding in demo.observed.found_after_flip:
        demo.display.say(f"doctor: record {finding.seq}: {finding.what}")
    await demo.start_gateway()
    sent = await demo.send("Does anything hurt?")
    await demo.rest()
    demo.display.say(f"answer: {shorten(sent.answer or sent.reason, _QUOTED_CHARS)}")


async def facts_are_asked_for(demo: DemoContext) -> None:
    """Ask the model for everything that was planted, and search for it."""
    for name in demo.inputs.facts:
        hits = await demo.client.search(f"remember {name}")
        # Only the message itself counts, not what was said about it since.
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
    "kill -9 in the middle of a compaction": killed_while_compacting,
    "Restart": it_is_started_again,
    "A second process races for the same compaction": two_race_for_one_compaction,
    "A flipped bit in the store": a_bit_is_flipped,
    "The facts are asked for": facts_are_asked_for,
}
