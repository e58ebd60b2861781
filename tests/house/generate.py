"""Parts of the docs that are made from the code: `python -m tests.house.generate` writes them, `--check` compares.

A part stands between two comments that name it; whatever is outside of them belongs to whoever wrote it.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from holdfast.config.schema import reference as settings_reference
from holdfast.core.fold.session_state import InFlight
from holdfast.core.proxy.agent_profiles import agents_table
from holdfast.core.turn.ladder import LADDER
from holdfast.core.turn.transitions import TRANSITIONS, WHEN_NOTHING_RUNS
from holdfast.gateway.api import schemas
from holdfast.gateway.api.routes import PREFIX, ROUTES
from holdfast.gateway.http.problems import STATUSES
from holdfast.gateway.openapi.document import event_descriptions
from holdfast.lab.bench_all import COMMANDS
from holdfast.runtime.sessions.record_text import FAULTS, OUTCOMES, RESULTS, RUNGS, TRIGGERS
from tests.house.benchmarks import benchmark_table
from tests.house.places import ROOT
from tests.house.references import (
    commands_reference,
    errors_table,
    exit_codes,
    faults_table,
    ladder_drawn,
    metrics_table,
    python_reference,
    records_table,
)


@dataclass(frozen=True)
class Generated:
    """One part: the file it stands in, the name in its comments, and what makes its text."""

    path: str
    name: str
    text: Callable[[], str]

    @property
    def begin(self) -> str:
        return self._comment(f"generated: {self.name}, by `make docs`")

    @property
    def end(self) -> str:
        return self._comment(f"end of generated: {self.name}")

    def _comment(self, text: str) -> str:
        return f"// {text}" if self.path.endswith(".js") else f"<!-- {text} -->"


def state_diagram() -> str:
    """Return the states of a turn and the records that lead from one to another, as a mermaid diagram."""
    steps: dict[tuple[InFlight, InFlight], list[str]] = {}
    for (before, record), after in TRANSITIONS.items():
        steps.setdefault((before, after), []).append(record.__name__)
    for before, after in WHEN_NOTHING_RUNS.items():
        steps.setdefault((before, after), []).append("nothing runs any more")
    lines = [
        f"    {before.value} --> {after.value}: {', '.join(reasons)}" for (before, after), reasons in steps.items()
    ]
    return "\n".join(["```mermaid", "stateDiagram-v2", f"    [*] --> {next(iter(InFlight)).value}", *lines, "```"])


def ladder_table() -> str:
    """Return the rungs per kind of fault, as a table."""
    rows = [f"| {kind.value} | {_spoken([rung.value for rung in rungs])} |" for kind, rungs in LADDER.items()]
    return "\n".join(["| fault | rungs, in this order |", "|---|---|", *rows])


def _spoken(rungs: list[str]) -> str:
    """Join names of rungs; one that may be climbed several times in a row is named once, with the number."""
    runs = [(rung, len(list(run))) for rung, run in groupby(rungs)]
    return " · ".join(rung if times == 1 else f"{rung} (up to {times} times)" for rung, times in runs)


def address_table() -> str:
    """Return every address of the native API with what it takes and answers."""
    lines = ["| address | what it does | takes | answers |", "|---|---|---|---|"]
    for route in ROUTES:
        fields = [field.name for field in msgspec.structs.fields(route.query)]
        takes = [f"`{route.body.__name__}`"] if route.body is not None and route.body is not schemas.Nothing else []
        takes += ["bytes"] if route.takes_bytes else []
        takes += ["?" + ", ".join(f"`{field}`" for field in fields)] if fields else []
        answers = [f"`{route.response.__name__}`"] if route.response is not None else []
        answers += [f"{status}: `{shape.__name__}`" for status, shape in route.other_responses]
        answers += ["a file"] if route.file_types else []
        answers += ["events"] if route.may_stream else []
        lines.append(
            f"| `{route.method} {PREFIX}{route.path}` | {route.summary} | {' · '.join(takes)} | {' · '.join(answers)} |"
        )
    return "\n".join(lines)


def problem_table() -> str:
    """Return every kind of problem by its status."""
    rows = sorted((status, kind.code, title) for kind, (status, title) in STATUSES.items())
    return "\n".join(
        [
            "| status | code | what happened |",
            "|---|---|---|",
            *(f"| {row[0]} | `{row[1]}` | {row[2]} |" for row in rows),
        ]
    )


def event_table() -> str:
    """Return every kind of event."""
    return "\n".join(
        ["| event | what it says |", "|---|---|", *(f"| `{name}` | {told} |" for name, told in event_descriptions())]
    )


def page_words() -> str:
    """Return the words for what records name, for the page."""
    tables: dict[str, Mapping[Any, str]] = {
        "FAULTS": FAULTS,
        "RUNGS": RUNGS,
        "TOOL_OUTCOMES": OUTCOMES,
        "RESULTS": RESULTS,
        "TRIGGERS": TRIGGERS,
    }
    lines = [
        f"/** @type {{Record<string, string>}} */\nexport const {name} = {{\n"
        + "".join(f"  {key.value}: {msgspec.json.encode(words).decode()},\n" for key, words in table.items())
        + "};"
        for name, table in tables.items()
    ]
    return "\n".join(lines)


GENERATED: tuple[Generated, ...] = (
    Generated("docs/agents.md", "agents", agents_table),
    Generated("docs/architecture.md", "states of a turn", state_diagram),
    Generated("docs/architecture.md", "the ladder", ladder_table),
    *(Generated("docs/benchmarks.md", f"benchmarks of {name}", partial(benchmark_table, name)) for name in COMMANDS),
    Generated("docs/commands.md", "exit codes", exit_codes),
    Generated("docs/commands.md", "commands", commands_reference),
    Generated("docs/configuration.md", "settings", settings_reference),
    Generated("docs/errors.md", "exceptions", errors_table),
    Generated("docs/errors.md", "faults", faults_table),
    Generated("docs/events.md", "records", records_table),
    Generated("docs/http.md", "addresses", address_table),
    Generated("docs/http.md", "problems", problem_table),
    Generated("docs/http.md", "events", event_table),
    Generated("docs/metrics.md", "metrics", metrics_table),
    Generated("docs/python.md", "public names", python_reference),
    Generated("docs/survival.md", "the ladder drawn", ladder_drawn),
    Generated("src/holdfast/page/app/tables.js", "words", page_words),
)


class MarkersMissingError(Exception):
    """A file has no place, or more than one, for what is generated into it."""

    def __init__(self, part: Generated) -> None:
        super().__init__(f"{part.path} must have these two lines once, in this order:\n{part.begin}\n{part.end}")


def with_part(document: str, part: Generated) -> str:
    """Return a document with one part brought up to date."""
    before, begin, rest = document.partition(part.begin)
    _, end, after = rest.partition(part.end)
    if not (begin and end) or part.begin in rest or part.end in before + after:
        raise MarkersMissingError(part)
    return f"{before}{begin}\n\n{part.text()}\n\n{end}{after}"


def outdated(root: Path, parts: tuple[Generated, ...] = GENERATED) -> dict[Path, str]:
    """Return the files that are out of date, with the text they should have."""
    documents = {root / part.path: (root / part.path).read_text("utf-8") for part in parts}
    wanted = dict(documents)
    for part in parts:
        wanted[root / part.path] = with_part(wanted[root / part.path], part)
    return {path: text for path, text in wanted.items() if text != documents[path]}


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write what is out of date, or with `--check` only name it and return 1."""
    if arguments not in ([], ["--check"]):
        sys.stderr.write("usage: python -m tests.house.generate [--check]\n")
        return 2
    stale = outdated(root)
    for path, text in stale.items():
        shown = path.relative_to(root)
        if arguments:
            sys.stdout.write(f"{shown} is out of date: run `make docs`\n")
        else:
            path.write_text(text, "utf-8")
            sys.stdout.write(f"{shown} written\n")
    return 1 if stale and arguments else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
