"""The end of a demo: what it came to, for a person or for a program, and the exit code that stands for it."""

from pathlib import Path
from typing import TextIO

import msgspec

from holdfast.cli.demo.performing import Performance
from holdfast.cli.demo.reckoning import Figures, table
from holdfast.cli.exits import BROKEN
from holdfast.cli.paper import columns, harmless, shows_colours


class Told(msgspec.Struct, frozen=True):
    """What is printed for programs. `store` is where the store was kept to look at; empty: it is gone."""

    seed: int
    store: str
    figures: Figures


def conclude(performance: Performance, store: Path, out: TextIO, *, as_json: bool) -> int:
    """Print what a demo came to, and return the exit code: 0 where every promise held, else 1."""
    figures = performance.figures
    kept = str(store) if figures.broken else ""
    if as_json:
        out.write(msgspec.json.encode(Told(performance.seed, kept, figures)).decode() + "\n")
    elif shows_colours(out):
        _print_tables(figures, out)
    else:
        out.writelines(f"{line}\n" for line in _lines(figures))
    if not as_json:
        out.writelines(f"{harmless(line)}\n" for line in _verdict(figures, kept))
    out.flush()
    return BROKEN if figures.broken else 0


def _lines(figures: Figures) -> list[str]:
    survived = [(disaster.name, disaster.evidence or "NOT SHOWN") for disaster in figures.disasters]
    return [
        *("", "What was survived, and what shows it"),
        *(f"  {harmless(line)}" for line in columns(survived)),
        *("", "What it came to"),
        *(f"  {line}" for line in columns(table(figures))),
        "",
    ]


def _verdict(figures: Figures, kept: str) -> list[str]:
    if not figures.broken:
        return ["Every promise held."]
    return [
        *(f"BROKEN: {sentence}" for sentence in figures.broken),
        f"The store is kept: {kept}",
        f"Look at it with `holdfast show KEY --store {kept}`, and remove its folder when you are done.",
    ]


def _print_tables(figures: Figures, out: TextIO) -> None:
    from rich import box  # noqa: PLC0415 - slow to load, and for a person at a terminal only
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(file=out)
    survived = Table("disaster", "what shows that it was survived", box=box.SIMPLE_HEAD)
    for disaster in figures.disasters:
        evidence = Text(harmless(disaster.evidence)) if disaster.evidence else Text("nothing", "bold red")
        survived.add_row(disaster.name, evidence)
    counted = Table("what it came to", "", box=box.SIMPLE_HEAD)
    for name, count in table(figures):
        counted.add_row(name, count, style="bold" if name == "lost" else "")
    console.print(survived)
    console.print(counted)
