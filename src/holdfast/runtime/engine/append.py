"""Append work records after the last record seen, and fold them.

Input of other writers may arrive in between. Then the log catches up and the append is repeated; records that depend
on the state are built again from the new one.
"""

from collections.abc import Callable, Sequence

from holdfast.core.fold.session_state import Turn
from holdfast.errors import SeqMovedError
from holdfast.ports import Lease
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.log import Log
from holdfast.types.records import LeasedRecord, Logged


async def append_after(
    engine: Engine, lease: Lease, log: Log, build: Callable[[Turn], Sequence[LeasedRecord]]
) -> Sequence[Logged]:
    """Append the records that `build` returns for the current state, and return them with their seqs."""
    # Only inbox records can come in between, and a session accepts a bounded number of them.
    for _ in range(engine.bounds.inputs_waiting_max + 1):
        records = build(log.turn)
        if not records:
            return ()
        try:
            last = await engine.store.append(lease, records, after=log.turn.seq)
        except SeqMovedError:
            await log.catch_up(engine.store)
        else:
            break
    else:
        raise SeqMovedError(lease.session, log.turn.seq, log.turn.seq + 1)
    at, first = engine.clock.now(), last - len(records) + 1
    logged = [Logged(first + place, at, record) for place, record in enumerate(records)]
    log.extend(logged)
    for one in logged:
        engine.observe(lease.session, one)
    return logged
