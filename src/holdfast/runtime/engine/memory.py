"""Memory of a session for digests and ledgers, continued from the stored one: each message is observed once.

A compaction observes the messages since the last one. If many more are unobserved (after an import, after an update of
the rules, after an exclusion far back), it observes a bounded share of the oldest of them, which later compactions
continue, and meanwhile uses a memory of the newest messages alone.
"""

from collections.abc import Sequence

import msgspec

from holdfast.core.compaction.facts import Judge
from holdfast.core.compaction.memory.kept import keep, memory_of, newest, retained
from holdfast.core.compaction.memory.observe import observe
from holdfast.core.compaction.memory.state import Memory
from holdfast.core.compaction.plan import Plan
from holdfast.core.fold.session_state import KeptMemory
from holdfast.core.limits.sizing import bytes_of_message
from holdfast.core.view import ViewMessage
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.learning import Known
from holdfast.runtime.engine.log import Log
from holdfast.runtime.engine.originals import messages_before, place_shown, with_whole_texts

# Bytes that one compaction observes beyond the content of a window, while somebody waits for an answer and while nobody
# does; and the bytes that a message counts as beside its own. A megabyte takes a tenth of a second.
_WAITED_BYTES, _IDLE_BYTES, _MESSAGE_BYTES = 2**20, 4 * 2**20, 500
# Bytes of a token, so that everything that leaves the view of a usual compaction is observed; and the window of a model
# that does not declare one.
_TOKEN_BYTES, _WINDOW_USUAL = 5, 128_000
# Records read at first, and at most, to find the newest messages.
_RECORDS_FIRST, _RECORDS_MAX = 512, 16_384


class _Observed(msgspec.Struct, frozen=True):
    """A memory of the messages between two places."""

    memory: Memory
    until: int
    since: int = 0


async def memory_before(log: Log, engine: Engine, cut: Plan, known: Known) -> Memory:
    """Return the memory of the messages that a planned compaction represents, and keep it for the next one."""
    until = place_shown(log, cut.boundary, cut.step)
    share = _share(log, known)
    before = newest(log.kept, log.turn, until=until, is_whole=True)
    whole = await _continued(log, engine, cut, before, share)
    if whole.until >= until:
        _keep(log, before, whole)
        return whole.memory
    known_recent = newest(log.kept, log.turn, until=until, is_whole=False)
    recent = await _continued(log, engine, cut, known_recent, share) if known_recent is not None else None
    if recent is None or recent.until < until:
        recent = await _newest(log, engine, cut, share)
    _keep(log, before, whole, recent)
    return recent.memory


def _share(log: Log, known: Known) -> int:
    """Return the bytes that one compaction may observe."""
    window = known.limits.window_tokens or _WINDOW_USUAL
    return (_WAITED_BYTES if log.turn.number else _IDLE_BYTES) + _TOKEN_BYTES * window


def _keep(log: Log, before: KeptMemory | None, whole: _Observed, recent: _Observed | None = None) -> None:
    if log.turn.calls_asked or log.turn.calls_running:
        # The results of open calls may still change the last messages.
        return
    kept = keep(whole.memory, log.turn, until=whole.until)
    last = keep(recent.memory, log.turn, until=recent.until, since=recent.since) if recent is not None else None
    if kept is not None:
        log.kept = retained(before, kept, last)


async def _continued(log: Log, engine: Engine, cut: Plan, kept: KeptMemory | None, share: int) -> _Observed:
    """Observe the messages after a stored memory, the oldest first and up to a share."""
    stored = memory_of(kept) if kept is not None else None
    memory, start, since = (stored, kept.until, kept.since) if kept is not None and stored else (Memory(), 0, 0)
    until = place_shown(log, cut.boundary, cut.step)
    found = await messages_before(engine, log, cut, since=start, tokens_max=share // 2)
    fitting = _fitting(found.messages, share)
    await _observe(memory, engine, found.messages[:fitting])
    if fitting < len(found.messages):
        return _Observed(memory, found.messages[fitting].place, since)
    return _Observed(memory, until if found.is_complete else _end(found.messages, start), since)


async def _newest(log: Log, engine: Engine, cut: Plan, share: int) -> _Observed:
    """Observe the newest messages alone, up to a share."""
    until = place_shown(log, cut.boundary, cut.step)
    # The records of the view are at hand.
    records = max(_RECORDS_FIRST, until - place_shown(log, log.turn.boundary, log.turn.first_step))
    while True:
        since = max(until - records, 0)
        messages = (await messages_before(engine, log, cut, since=since)).messages
        fitting = _fitting(messages[::-1], share)
        if fitting < len(messages) or since == 0 or records >= _RECORDS_MAX:
            break
        records *= 2
    chosen = messages[len(messages) - fitting :]
    memory = Memory(is_part=True)
    await _observe(memory, engine, chosen)
    return _Observed(memory, until, max(chosen[0].place if chosen else until, 1))


def _fitting(messages: Sequence[ViewMessage], share: int) -> int:
    """Return how many messages fit into a share: at least one of them."""
    for number, said in enumerate(messages):
        share -= bytes_of_message(said.message) + _MESSAGE_BYTES
        if share < 0:
            return max(number, 1)
    return len(messages)


async def _observe(memory: Memory, engine: Engine, messages: Sequence[ViewMessage]) -> None:
    judge = Judge()
    for said in messages:
        observe(memory, said.seq, (await with_whole_texts(said, engine.blobs)).message, judge)


def _end(messages: Sequence[ViewMessage], start: int) -> int:
    return messages[-1].place + 1 if messages else start
