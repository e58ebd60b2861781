"""The acts of the demo, in order: one session is walked through one disaster after the other."""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.cli.output import shortened
from holdfast.core.limits.sizing import tokens_of_text
from holdfast.gateway.api.schemas import Compacted
from holdfast.lab.demo.client import Race
from holdfast.lab.demo.inputs import flip_a_bit
from holdfast.lab.demo.stage import KEY, Stage
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


async def facts_are_planted(stage: Stage) -> None:
    """Tell the model what will be asked for at the end."""
    stage.witness.facts = dict(stage.made.facts)
    for name, value in stage.made.facts.items():
        await stage.send(f"remember {name} = {value}")
    stage.screen.say(f"{len(stage.made.facts)} facts were told. They will be asked for at the end.")


async def it_outgrows_the_window(stage: Stage) -> None:
    """Let the conversation grow until it was compacted as often as the pace says."""
    said = 0
    for _ in range(_LEGS_MAX):
        await stage.travel()
        compactions = sum(isinstance(one.record, CompactionApplied) for one in stage.watcher.seen)
        said = sum(tokens_of_text(sent.text) + tokens_of_text(sent.answer or "") for sent in stage.witness.sent)
        if compactions >= stage.pace.compactions and said > stage.witness.window_tokens:
            break
    await stage.rest()
    stage.screen.say(f"About {said:,} tokens were said; the window has {stage.witness.window_tokens:,}.")


async def the_summariser_is_refused(stage: Stage) -> None:
    """Refuse every summary until the window is full, so that it must do without a model."""
    await stage.caller.set_model(summary_tokens_max=0)
    after = stage.watcher.last_seq
    for _ in range(_LEGS_MAX):
        await stage.travel()
        if any(_is_digest(one.record) for one in stage.watcher.seen[after:]):
            break
    await stage.rest()
    await stage.caller.set_model(summary_tokens_max=None)
    stage.screen.say("Every message was answered all the same. A digest is debt: a model redoes it when it can.")


def _is_digest(record: AnyRecord) -> bool:
    return isinstance(record, CompactionApplied) and record.kind is SummaryKind.DIGEST


async def rate_limits(stage: Stage) -> None:
    """Refuse the next two requests with 429 and Retry-After."""
    for _ in range(_TRIES_MAX):
        await stage.rest()
        before = len(stage.watcher.seen)
        await stage.caller.set_model(faults=f"429:retry-after={stage.pace.retry_after_seconds:g}*2")
        sent = await stage.send("Are you still there?")
        stage.screen.say(f"answer: {shortened(sent.answer or sent.reason, _QUOTED_CHARS)}")
        await stage.rest()
        if any(isinstance(one.record, AttemptFailed) for one in stage.watcher.seen[before:]):
            return


async def every_model_is_down(stage: Stage) -> None:
    """Kill the model, ask, and start it again."""
    await stage.rest()
    await stage.kill_model()
    stage.screen.say("The server of both models was killed. A message is sent all the same:")
    sent = await stage.send("Is anybody there?", expects_reason=True)
    stage.screen.say(f"the sender is told: {shortened(sent.reason, _QUOTED_CHARS * 2)}")
    await stage.start_model()
    again = await stage.send("And now, is anybody there?")
    stage.screen.say(f"It is back. answer: {shortened(again.answer or again.reason, _QUOTED_CHARS)}")


async def an_image_of_30_mb(stage: Stage) -> None:
    """Send an image that is six times as large as the provider takes."""
    image = await asyncio.to_thread(stage.made.image)
    stage.screen.say(f"A PNG of {len(image):,} bytes is uploaded; the provider takes 5 MiB.")
    sent = await stage.send_image("What do you see on this chart?", image)
    stage.screen.say(f"answer: {shortened(sent.answer or sent.reason, _QUOTED_CHARS)}")


async def killed_while_compacting(stage: Stage) -> None:
    """Kill the gateway while a summary is half written and a message waits."""
    for _ in range(_TRIES_MAX):
        await _grow(stage)
        await stage.caller.set_model(faults=f"stall:after={_DELTAS_BEFORE_KILL}")
        wanted = asyncio.create_task(stage.caller.compact())
        try:
            if await _is_being_summarised(stage, wanted):
                sent = await stage.send("This message waits behind the compaction. Does it arrive?", mode="post")
                await stage.watcher.reach(sent.turn)
                await stage.kill_gateway()
                break
        finally:
            wanted.cancel()
            await asyncio.gather(wanted, return_exceptions=True)
        # One of those that are made ahead of need was quicker, and left nothing to do.
        await stage.caller.set_model(faults="")
    stage.screen.say("SIGKILL: a summary was half written, and a message had been accepted.")


async def _grow(stage: Stage) -> None:
    """Let the conversation grow until there is enough behind the last compaction to make another one of."""
    await stage.rest()
    for _ in range(_LEGS_MAX):
        if _turns_since_compaction(stage) < _LEGS_BETWEEN:
            await stage.travel()
            continue
        # One that was made ahead of need meanwhile begins the count anew.
        await stage.rest()
        if _turns_since_compaction(stage) >= _LEGS_BETWEEN:
            return


def _turns_since_compaction(stage: Stage) -> int:
    since = 0
    for logged in stage.watcher.seen:
        since = 0 if isinstance(logged.record, CompactionApplied) else since + isinstance(logged.record, TurnEnded)
    return since


async def _is_being_summarised(stage: Stage, wanted: "asyncio.Task[Compacted]") -> bool:
    """Wait until the summariser has begun to write and fallen silent; False where there was nothing to summarise."""
    while not wanted.done():
        if not (await stage.caller.model_state()).faults_left:
            return True
        await asyncio.sleep(_POLL_SECONDS)
    return False


async def it_is_started_again(stage: Stage) -> None:
    """Start the gateway again, and see what it makes of what it finds."""
    before = stage.watcher.last_seq
    await stage.start_gateway()
    stage.screen.say("Nobody sends anything. Starting is recovering:")
    await stage.watcher.until(lambda one: isinstance(one, CompactionSettled), after=before)
    waiting = next(sent for sent in stage.witness.sent if sent.answer is None and not sent.reason)
    await stage.collect(waiting)
    stage.screen.say(f"the message that waited: {shortened(waiting.answer or waiting.reason, _QUOTED_CHARS)}")


async def two_race_for_one_compaction(stage: Stage) -> None:
    """Ask two gateways on one store for a compaction at the same time."""
    other, _ = await asyncio.gather(stage.another_gateway(), _grow(stage))
    stage.screen.say("A second gateway was started on the same store. Both are asked for a compaction at once:")
    for _ in range(_TRIES_MAX):
        await _grow(stage)
        stage.witness.race = await _race(stage, other.url)
        stage.screen.say(f"told: {' and '.join(outcome.value for outcome in stage.witness.race.outcomes)}")
        # Where one of them came too late, or there was nothing to do, it was no race. Two compactions would be two.
        if CompactionOutcome.NOTHING_TO_DO not in stage.witness.race.outcomes:
            break
    await other.stop()


async def _race(stage: Stage, other: str) -> Race:
    after = stage.watcher.last_seq
    await stage.caller.set_model(delta_seconds=stage.pace.race_delta_seconds)
    told = await asyncio.gather(stage.caller.compact(), stage.caller.compact(other))
    await stage.caller.set_model(delta_seconds=0.0)
    await stage.rest()
    return Race(after, stage.watcher.last_seq, tuple(one.outcome for one in told))


async def a_bit_is_flipped(stage: Stage) -> None:
    """Flip a bit of the file while nobody has it open, look with doctor, and go on."""
    await _grow(stage)
    boundary = (await stage.caller.detail()).boundary
    await stage.stop_gateway()
    flip = await flip_a_bit(stage.store, KEY, boundary, stage.made.chance("flip"))
    stage.witness.flip = flip
    if flip is None:
        stage.screen.say("There was no record in which a bit could be flipped.")
    else:
        stage.screen.say(f"Bit {flip.bit} of byte {flip.at:,} of the store's file was flipped, in record {flip.seq}.")
    stage.witness.found_after_flip = await stage.doctor()
    for finding in stage.witness.found_after_flip:
        stage.screen.say(f"doctor: record {finding.seq}: {finding.what}")
    await stage.start_gateway()
    sent = await stage.send("Does anything hurt?")
    await stage.rest()
    stage.screen.say(f"answer: {shortened(sent.answer or sent.reason, _QUOTED_CHARS)}")


async def facts_are_asked_for(stage: Stage) -> None:
    """Ask the model for everything that was planted, and search for it."""
    for name in stage.made.facts:
        hits = await stage.caller.search(f"remember {name}")
        # Only the message itself counts, not what was said about it since.
        planted = {sent.turn for sent in stage.witness.sent if sent.text.startswith(f"remember {name} =")}
        stage.witness.searched[name] = " ".join(hit.excerpt for hit in hits.hits if hit.seq in planted)
        sent = await stage.send(f"what is {name}?")
        stage.witness.recalled[name] = sent.answer or ""
        stage.screen.say(f"what is {name}? {shortened(sent.answer or sent.reason, _QUOTED_CHARS)}")


Act = Callable[[Stage], Awaitable[None]]
ACTS: dict[str, Act] = {
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
