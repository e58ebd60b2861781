"""How far something long is, for whoever waits for it."""

from collections.abc import Callable
from typing import TypeAlias

# What is being done, the step, and how many steps there are. Called from whichever thread does the work.
Progress: TypeAlias = Callable[[str, int, int], None]


def ignore(_what: str, _step: int, _steps: int) -> None:
    """Nobody wants to know how far it is."""
