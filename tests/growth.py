"""Growth of work with the size of an input: processor time at one size against that at a multiple of it.

Linear work takes `TIMES` as long for an input `TIMES` as large, quadratic work `TIMES` squared. The limit lies between
both, in processor time of this process, so that other work on the machine does not count.
"""

import gc
import time
from collections.abc import Callable
from typing import TypeVar

InputT = TypeVar("InputT")

TIMES = 8
# Linear work with the noise of caches and allocation; quadratic work takes 64 times as long.
RATIO_MAX = 2.5 * TIMES
_ROUNDS = 5
# Below this, a clock step decides.
_SECONDS_MIN = 0.002


def growth(make: Callable[[int], InputT], work: Callable[[InputT], object], size: int) -> float:
    """Return how many times longer `work` takes on an input that is `TIMES` as large; the best of some rounds."""
    small, large = make(size), make(size * TIMES)
    best = float("inf")
    for _ in range(_ROUNDS):
        best = min(best, _seconds(work, large) / max(_seconds(work, small), _SECONDS_MIN))
        if best <= RATIO_MAX:
            break
    return best


def _seconds(work: Callable[[InputT], object], given: InputT) -> float:
    gc.collect()
    gc.disable()
    try:
        started = time.process_time()
        work(given)
        return time.process_time() - started
    finally:
        gc.enable()
