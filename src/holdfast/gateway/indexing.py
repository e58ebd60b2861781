"""Makes sessions findable before somebody looks for something: their records are indexed while the gateway runs.

A store indexes a session when it is searched. Over ten thousand sessions that nobody ever searched, the first search
would spend its time with that and be cut off. So each is indexed here, the newest first, a part of the time.
"""

import asyncio
import logging
from time import monotonic

from holdfast.core.limits import RESERVED_KEYS
from holdfast.errors import HoldfastError, StoppingError
from holdfast.ports import Clock, Store
from holdfast.runtime.log import every_session

log = logging.getLogger(__name__)

# Of the time of one reader of the store so much at most, so that nobody waits for it: ten thousand sessions of a usual
# size take a minute or two.
_SHARE = 0.2
# Sessions that are indexed together: a store gathers what they write into one sync.
_AT_ONCE = 8
# What has come since is looked for so often. A search indexes what is newer by itself; that is little then.
_AGAIN_SECONDS = 60.0
# Sessions that are known to be indexed, some 150 bytes each; of more the oldest are looked at again each time.
_KNOWN_MAX = 100_000
# Any word makes a store index; this one finds little.
_WORD = "holdfast"


class Indexer:
    """Goes through a store again and again, and has it index what it has not yet."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        # How far each session was indexed, by its key.
        self._until: dict[str, int] = {}

    async def run(self) -> None:
        """Index, without end."""
        while True:
            try:
                await self.index_all()
            except StoppingError:
                return
            except HoldfastError as error:
                log.warning("sessions are not indexed", extra={"code": error.code})
            await self._clock.sleep(_AGAIN_SECONDS)

    async def index_all(self) -> int:
        """Index every session that has something new, those that were used last first, and return how many."""
        waiting = [
            (known.updated_at, known.key, known.last_seq)
            async for known in every_session(self._store)
            if self._until.get(known.key) != known.last_seq and not known.key.startswith(RESERVED_KEYS)
        ]
        waiting.sort(reverse=True)
        for first in range(0, len(waiting), _AT_ONCE):
            some, began = waiting[first : first + _AT_ONCE], monotonic()
            await asyncio.gather(*(self._store.search(key, _WORD, limit=1) for _, key, _ in some))
            for _, key, last_seq in some:
                if len(self._until) < _KNOWN_MAX or key in self._until:
                    self._until[key] = last_seq
            await self._clock.sleep((monotonic() - began) * (1 - _SHARE) / _SHARE)
        return len(waiting)
