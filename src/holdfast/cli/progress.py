"""How far something long is, on a terminal alone: pipes and logs get results and nothing else."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.cli.paper import harmless, is_plain
from holdfast.ports.progress import Progress, ignore

# As much as fits beside a bar.
_WHAT_CHARS = 40


@contextmanager
def showing() -> Iterator[Progress]:
    """Show a bar on standard error while something is done; it is gone at the end."""
    if is_plain(sys.stderr):
        yield ignore
        return
    from rich.console import Console  # noqa: PLC0415 - slow to load, and for a person at a terminal only
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn  # noqa: PLC0415
    from rich.progress import Progress as Bars  # noqa: PLC0415

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("looking")
        yield lambda what, step, steps: bars.update(
            task, description=harmless(what)[:_WHAT_CHARS], completed=step, total=max(steps, 1)
        )
