"""What a bench gives: a figure, what it is held against, and whether that holds."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from holdfast.cli.exits import BROKEN

folder_option = click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Measure on the disk of this folder instead of the one for temporary files.",
)


class Measured(msgspec.Struct, frozen=True):
    """One figure and what it is held against. At least `floor` is promised of `ratio`, where more is better."""

    name: str
    value: float
    reference: float
    ratio: float
    floor: float
    unit: str

    def line(self) -> str:
        """Return the figure for a person to read."""
        verdict = "ok" if self.ratio >= self.floor else "BELOW"
        return (
            f"{self.name:32} {self.value:10,.1f} {self.unit:10} reference {self.reference:8,.1f}"
            f"   ratio {self.ratio:6.2f}   floor {self.floor:.2f}   {verdict}"
        )


class Effort(msgspec.Struct, frozen=True):
    """How much work a run does."""

    # Turns in which the sides alternate; the median over them is what counts.
    turns: int
    # Appends of one side in one turn.
    appends: int
    # Appends before the first turn: a new log file grows, and only then is written over, which is quicker for all.
    appends_before: int
    # Records of the two sessions that are opened, and how often each is.
    short_records: int = 1_000
    long_records: int = 100_000
    openings: int = 25
    # Fresh interpreters that are started for each figure.
    starts: int = 25


FULL = Effort(turns=25, appends=200, appends_before=1_500)
QUICK = Effort(turns=7, appends=100, appends_before=700, openings=7, starts=5)


def tell(figures: Sequence[Measured], *, as_json: bool) -> None:
    """Print figures, and exit with 1 where one is below its floor."""
    if as_json:
        click.echo(msgspec.json.encode(figures).decode())
    else:
        for figure in figures:
            click.echo(figure.line())
    if any(figure.ratio < figure.floor for figure in figures):
        sys.exit(BROKEN)
