"""A run of the laboratory: several lanes at once, each a process of its own, and their figures added up.

Lanes share nothing but the disk. The process that starts them opens no store; it waits, adds, and ends them if it is
ended itself.
"""

import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from holdfast.crashlab.children import Child, warm_up
from holdfast.crashlab.lane import Lane, Oracle, Orders
from holdfast.crashlab.report import Figures

# Seeds of lanes lie so far apart that those of neighbouring runs do not meet.
_SEED_STEP = 1_000
_POLL_SECONDS = 0.05


class Plan(msgspec.Struct, frozen=True):
    """How much to do: until so many kills or seconds, whichever comes first. None: that does not end it."""

    seed: int
    kills: int | None
    seconds: float | None
    lanes: int


def run(folder: Path, plan: Plan, show: Callable[[Figures], None]) -> Figures:
    """Kill and judge as planned in a folder, showing the figures as they grow."""
    warm_up()
    began = time.monotonic()
    deadline = None if plan.seconds is None else began + plan.seconds
    total = Figures()
    seasoned = Oracle.seasoned(folder / "seasoned", plan.seed)
    total.acknowledged = seasoned.acknowledged
    lanes: dict[int, Child] = {}
    try:
        for number in range(plan.lanes):
            kills = None if plan.kills is None else len(range(number, plan.kills, plan.lanes))
            orders = Orders(plan.seed * _SEED_STEP + number, kills, deadline)
            lanes[number] = Child(partial(_be_lane, seasoned, orders))
        while lanes:
            for number, lane in list(lanes.items()):
                has_ended = lane.listen(_POLL_SECONDS)
                _take(total, lane.take())
                if has_ended:
                    del lanes[number]
                    code, lines = lane.reap()
                    _take(total, lines)
                    if code:
                        total.third_states.append(f"lane {number} ended with {code}")
            total.seconds = time.monotonic() - began
            show(total)
    finally:
        for lane in lanes.values():
            lane.kill()
        shutil.rmtree(seasoned.folder)
    return total


def _be_lane(seasoned: Oracle, orders: Orders, say: Callable[[bytes], None]) -> None:
    Lane(seasoned, orders, lambda figures: say(msgspec.json.encode(figures))).run()


def _take(total: Figures, lines: list[bytes]) -> None:
    for line in lines:
        total.add(msgspec.json.decode(line, type=Figures))
