"""Run crash tests in parallel lanes, each a process, and add up their figures.

Lanes share only the disk. The parent process opens no store; it adds up figures, and kills the lanes if it ends early.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from holdfast.lab.crashlab.children import Child, Work, warm_up
from holdfast.lab.crashlab.flips import FlipFigures, flip_all
from holdfast.lab.crashlab.lane import Figures, Lane, LaneConfig, Oracle
from holdfast.lab.crashlab.powerloss import PowerFigures, lose_power

# Distance between the seeds of runs, so that seeds of lanes do not repeat.
_SEED_STEP = 1_000
_POLL_SECONDS = 0.05
# Disks per recording; making a recording takes as long as about a hundred disks.
_STATES_PER_ROUND = 500

_FiguresT = TypeVar("_FiguresT", Figures, PowerFigures, FlipFigures)


class Plan(msgspec.Struct, frozen=True):
    """Size of a run: it ends after this many kills or seconds, whichever comes first. None: no such limit."""

    seed: int
    kills: int | None
    seconds: float | None
    lanes: int


def run(folder: Path, plan: Plan, show: Callable[[Figures], None]) -> Figures:
    """Kill and check as planned in a folder, and report the figures as they grow."""
    began = time.monotonic()
    deadline = None if plan.seconds is None else began + plan.seconds
    total = Figures()
    prefilled = Oracle.prefilled(folder / "seasoned", plan.seed)
    total.acknowledged = prefilled.acknowledged

    works = []
    for number in range(plan.lanes):
        kills = None if plan.kills is None else len(range(number, plan.kills, plan.lanes))
        config = LaneConfig(plan.seed * _SEED_STEP + number, kills, deadline)
        works.append(partial(_run_lane, prefilled, config))
    try:
        total.third_states += _run_children(works, _adder(total, show, began))
    finally:
        shutil.rmtree(prefilled.folder)
    return total


def run_power_losses(states: int, seed: int, lanes: int, show: Callable[[PowerFigures], None]) -> PowerFigures:
    """Simulate this many power losses, and report the figures as they grow."""
    warm_up()
    began = time.monotonic()
    total = PowerFigures()

    # Each recording has another workload.
    rounds = [(number, min(_STATES_PER_ROUND, states - start)) for number, start in _numbered(states)]
    works = [partial(_lose_power, seed * _SEED_STEP, rounds[lane::lanes]) for lane in range(lanes)]
    total.third_states += _run_children(works, _adder(total, show, began))
    return total


def run_flips(flips: int, seed: int, lanes: int, show: Callable[[FlipFigures], None]) -> FlipFigures:
    """Flip this many bits, each in a copy of a store, and report the figures as they grow."""
    warm_up()
    began = time.monotonic()
    total = FlipFigures()

    first = seed * _SEED_STEP
    works = [partial(_flip, range(first + lane, first + flips, lanes)) for lane in range(lanes)]
    total.undetected += _run_children(works, _adder(total, show, began))
    return total


def _adder(total: _FiguresT, show: Callable[[_FiguresT], None], began: float) -> Callable[[list[bytes]], None]:
    """Return a function that adds the figures in the lines of a lane to the total and reports it."""

    def take(lines: list[bytes]) -> None:
        for line in lines:
            total.add(msgspec.json.decode(line, type=type(total)))
        total.seconds = time.monotonic() - began
        show(total)

    return take


def _flip(seeds: Sequence[int], send: Callable[[bytes], None]) -> None:
    flip_all(seeds, lambda figures: send(msgspec.json.encode(figures)))


def _numbered(states: int) -> Iterator[tuple[int, int]]:
    return enumerate(range(0, states, _STATES_PER_ROUND))


def _lose_power(seed: int, rounds: Sequence[tuple[int, int]], send: Callable[[bytes], None]) -> None:
    for number, states in rounds:
        send(msgspec.json.encode(lose_power(states, seed + number)))


def _run_children(works: Sequence[Work], take: Callable[[list[bytes]], None]) -> list[str]:
    """Run all work in child processes and pass on their lines. Returns a sentence for each child that failed."""
    failed: list[str] = []
    children: dict[int, Child] = {}
    try:
        for number, work in enumerate(works):
            children[number] = Child(work)
        while children:
            for number, child in list(children.items()):
                has_ended = child.read_for(_POLL_SECONDS)
                take(child.take_lines())
                if has_ended:
                    del children[number]
                    code, lines = child.reap()
                    take(lines)
                    if code:
                        failed.append(f"lane {number} exited with {code}")
    finally:
        for child in children.values():
            child.kill()
    return failed


def _run_lane(prefilled: Oracle, config: LaneConfig, send: Callable[[bytes], None]) -> None:
    Lane(prefilled, config, lambda figures: send(msgspec.json.encode(figures))).run()
