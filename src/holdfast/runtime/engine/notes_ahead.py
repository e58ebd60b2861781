"""Notes made ahead: the summary of the next compaction of a proxied session, requested while nobody waits for it.

The view changes only when a compaction uses them. It cuts where they end, so that it needs no model. The call is paid
with the key of the request that led to it, which is held in memory until the call ends.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from holdfast.core.compaction.plan import (
    Keeps,
    Plan,
    cut_before,
    is_filling,
    percent_full,
    summary_tokens_max,
    tokens_behind,
)
from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.fit import as_estimated, misfit
from holdfast.core.view import conversation
from holdfast.errors import HoldfastError
from holdfast.runtime.engine.compaction import (
    applied,
    keep_pieces,
    plan,
    planned_with,
    records_of,
    text_of_past,
)
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.learning import Known
from holdfast.runtime.engine.log import Log, open_log
from holdfast.runtime.engine.requests import prepare
from holdfast.runtime.engine.summary import Summariser
from holdfast.types.faults import Rung
from holdfast.types.messages import Reply
from holdfast.types.records import PieceSummarised, SummaryRefused, WorkRecord

logger = logging.getLogger(__name__)

# Background calls of one gateway at once: they compete with the calls of waiting clients.
_TASKS_MAX = 8
# Sessions whose last attempt is remembered.
_SESSIONS_MAX = 5_000


async def prepare_summary(log: Log, engine: Engine) -> bool:
    """Request the summary of the next compaction now, and return whether there is one. The view does not change.

    Only the first model is asked, and after an unusable answer no more: a compaction that needs one asks again.
    """
    planned = await plan(log, engine, Keeps.LITTLE)
    if planned is None or not planned.plan.moves(log.turn):
        return False
    refused: list[SummaryRefused] = []

    async def keep(*records: PieceSummarised | SummaryRefused) -> None:
        refused.extend([one for one in records if isinstance(one, SummaryRefused)])
        await keep_pieces(log, engine, records)

    summariser = Summariser(engine.summariser_for(log.turn), log, engine, keep, focus="")
    for rung in (Rung.SUMMARISE, Rung.SUMMARISE_PIECES):
        if not refused and await summariser.notes(planned.plan, rung, tokens_max=planned.story_tokens) is not None:
            return True
    return False


async def apply_prepared(log: Log, engine: Engine, record: Callable[..., Awaitable[None]]) -> list[WorkRecord] | None:
    """Return a compaction whose summary was made ahead; None if there is none or it does not free enough."""
    turn = log.turn
    if not turn.has_notes_ahead:
        return None
    said = conversation(log.tail, first_turn=turn.boundary, first_step=turn.first_step)
    cut = cut_before(said, turn.pieces[-1].until)
    if cut is None:
        return None
    known = await engine.known(engine.model_for(turn), turn)
    tokens = prepare(log, engine, known).sizes.tokens
    room = summary_tokens_max(as_estimated(known.limits, known.calibration), tokens)
    planned = await planned_with(log, engine, known, Plan(*cut, tokens, room))
    summariser = Summariser(engine.summariser_for(turn), log, engine, record, focus="")
    notes = await summariser.notes(planned.plan, Rung.SUMMARISE, tokens_max=planned.story_tokens)
    if notes is None:
        return None
    text = text_of_past(planned, notes)
    made = applied(log, engine, planned, text, model=summariser.name, unread=notes.unread)
    if made is None:
        return None
    sizes = prepare(log, engine, known, turn=replace(turn, compaction=made)).sizes
    if misfit(sizes, known.limits, known.calibration, engine.bounds, is_lenient=True) is not None:
        return None
    return records_of(log, made)


class AheadSummaries:
    """Starts background summaries, at most one per session and compaction."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # The compaction after which a summary was tried last, by session: a failure is not repeated before the next.
        self._tried: OrderedDict[str, int] = OrderedDict()

    def consider(self, key: str, turn: Turn, reply: Reply, known: Known, engine: Callable[[], Engine]) -> None:
        """Start a summary if the answered request left the window filling up; `engine` pays for it."""
        bounds = self._bounds
        if not bounds.compacts_ahead or turn.has_notes_ahead or len(self._tasks) >= _TASKS_MAX:
            return
        if key in self._tasks or self._tried.get(key) == turn.shown_from:
            return
        percent = percent_full(tokens_behind(turn, reply), known.limits, known.calibration, bounds)
        if not is_filling(percent):
            return
        self._tried[key] = turn.shown_from
        self._tried.move_to_end(key)
        while len(self._tried) > _SESSIONS_MAX:
            self._tried.popitem(last=False)
        self._tasks[key] = asyncio.create_task(self._summarise(key, engine()), name=f"ahead {key}")

    async def _summarise(self, key: str, engine: Engine) -> None:
        try:
            is_made = await prepare_summary(await open_log(engine.store, key), engine)
            logger.info("summary made ahead" if is_made else "no summary made ahead", extra={"session": key})
        except HoldfastError as error:
            logger.warning("summary ahead failed", extra={"session": key, "code": error.code})
        finally:
            del self._tasks[key]

    async def close(self) -> None:
        """Cancel what runs: a request that needs its summary asks for it."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
