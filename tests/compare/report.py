"""Tables and plots of a comparison, as Markdown and SVG."""

from collections.abc import Mapping, Sequence
from html import escape
from statistics import median

import msgspec


class Cell(msgspec.Struct, frozen=True):
    """One figure of one store over all rounds."""

    values: tuple[float, ...]

    @property
    def middle(self) -> float:
        """The median."""
        return median(self.values)

    def text(self, digits: int) -> str:
        """Return the median with the smallest and the largest value behind it."""
        middle = f"{self.middle:,.{digits}f}"
        if len(self.values) == 1:
            return middle
        return f"{middle} ({min(self.values):,.{digits}f} to {max(self.values):,.{digits}f})"


class Row(msgspec.Struct, frozen=True):
    """All figures of one store, by their name."""

    peer: str
    title: str
    version: str
    cells: dict[str, Cell]


class Survived(msgspec.Struct, frozen=True):
    """Outcome of one conversation."""

    framework: str
    scenario: str
    side: str
    answered: int
    knows: bool


class Report(msgspec.Struct, frozen=True):
    """A whole run, and where it ran."""

    date: str
    system: str
    python: str
    cores: int
    rounds: int
    lengths: tuple[int, ...]
    rows: tuple[Row, ...]
    survival: tuple[Survived, ...]
    messages: int


def columns(lengths: Sequence[int]) -> list[tuple[str, str, int]]:
    """Return name, heading and digits of the columns of figures."""
    found = [(f"append_ms@{length}", f"append at {length:,}, ms", 2) for length in lengths]
    found += [(f"turn_ms@{length}", f"turn with three tools at {length:,}, ms", 1) for length in lengths[-1:]]
    found += [(f"load_ms@{length}", f"load at {length:,}, ms", 1) for length in lengths]
    found += [(f"memory_mib@{length}", f"memory at {length:,}, MiB", 0) for length in lengths[-1:]]
    found += [(f"disk_mib@{length}", f"disk at {length:,}, MiB", 1) for length in lengths[-1:]]
    return [*found, ("import_ms", "import, ms of processor time", 0), ("lost", "acknowledged and lost by kill -9", 0)]


def markdown(report: Report) -> str:
    """Return the tables, one per figure group, stores as rows."""
    wanted = [column for column in columns(report.lengths) if any(column[0] in row.cells for row in report.rows)]
    heading = ["store", "version", *(title for _, title, _ in wanted)]
    lines = [
        _where(report),
        "",
        "| " + " | ".join(heading) + " |",
        "|" + "---|" * len(heading),
    ]
    for row in report.rows:
        cells = [row.cells[name].text(digits) if name in row.cells else "-" for name, _, digits in wanted]
        lines.append("| " + " | ".join([row.title, row.version or "-", *cells]) + " |")
    return "\n".join([*lines, "", *_survival(report)])


def _where(report: Report) -> str:
    machine = f"{report.cores} cores, {report.system}, Python {report.python}, {report.date}"
    return f"{report.rounds} rounds in turns, {machine}. Medians, with the smallest and the largest value."


def _survival(report: Report) -> list[str]:
    if not report.survival:
        return []
    scenarios = list(dict.fromkeys(one.scenario for one in report.survival))
    sides = list(dict.fromkeys(one.side for one in report.survival))
    heading = ["framework", *(f"{scenario}, {side}" for scenario in scenarios for side in sides)]
    lines = ["| " + " | ".join(heading) + " |", "|" + "---|" * len(heading)]
    found = {(one.framework, one.scenario, one.side): one for one in report.survival}
    for framework in dict.fromkeys(one.framework for one in report.survival):
        cells = []
        for scenario in scenarios:
            for side in sides:
                one = found.get((framework, scenario, side))
                known = "" if one is None else ", fact known" if one.knows else ", fact lost"
                cells.append("-" if one is None else f"{one.answered} of {report.messages}{known}")
        lines.append("| " + " | ".join([framework, *cells]) + " |")
    return lines


# --- Plots ---

_LIGHT = {"ink": "#1f2328", "line": "#d0d7de", "bar": "#8c959f", "ours": "#0969da", "back": "#ffffff"}
_DARK = {"ink": "#e6edf3", "line": "#30363d", "bar": "#6e7681", "ours": "#58a6ff", "back": "#0d1117"}
THEMES: Mapping[str, Mapping[str, str]] = {"light": _LIGHT, "dark": _DARK}
_WIDTH, _LEFT, _ROW, _TOP, _RIGHT = 760, 270, 26, 46, 90


def plot(title: str, bars: Sequence[tuple[str, Cell]], ours: str, theme: Mapping[str, str]) -> str:
    """Return horizontal bars with their spread as SVG, the smallest first. Less is better."""
    ordered = sorted(bars, key=lambda bar: bar[1].middle)
    most = max((max(cell.values) for _, cell in ordered), default=0.0) or 1.0
    height = _TOP + _ROW * len(ordered) + 14
    scale = (_WIDTH - _LEFT - _RIGHT) / most
    box = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img"'
    parts = [
        f'<svg {box} font-family="system-ui, sans-serif" font-size="13"><title>{escape(title)}</title>',
        f'<rect width="{_WIDTH}" height="{height}" fill="{theme["back"]}"/>',
        f'<text x="16" y="27" font-size="15" font-weight="600" fill="{theme["ink"]}">{escape(title)}</text>',
    ]
    for place, (name, cell) in enumerate(ordered):
        y = _TOP + _ROW * place
        colour = theme["ours"] if name == ours else theme["bar"]
        low, high = (_LEFT + scale * value for value in (min(cell.values), max(cell.values)))
        end = _LEFT + scale * cell.middle
        parts += [
            f'<text x="{_LEFT - 10}" y="{y + 14}" text-anchor="end" fill="{theme["ink"]}">{escape(name)}</text>',
            f'<rect x="{_LEFT}" y="{y + 2}" width="{max(end - _LEFT, 1):.1f}" height="16" rx="2" fill="{colour}"/>',
            f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y + 10}" y2="{y + 10}" stroke="{theme["ink"]}"/>',
            f'<text x="{max(end, high) + 8:.1f}" y="{y + 14}" fill="{theme["ink"]}">{cell.middle:,.2f}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def plots(report: Report) -> dict[str, str]:
    """Return the files of all plots, by name: appends and loading at the longest length, light and dark."""
    length = report.lengths[-1]
    wanted = {
        "append": (f"append_ms@{length}", f"One durable message at {length:,} messages, ms (less is better)"),
        "load": (f"load_ms@{length}", f"Load what the next turn needs at {length:,} messages, ms (less is better)"),
    }
    files = {}
    for name, (key, title) in wanted.items():
        bars = [(row.title, row.cells[key]) for row in report.rows if key in row.cells]
        for theme, colours in THEMES.items():
            files[f"compare-{name}-{theme}.svg"] = plot(title, bars, "Holdfast", colours)
    return files
