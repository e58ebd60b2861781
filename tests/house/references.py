"""References that are made from the code: commands, public Python names, records, metrics, errors, the ladder drawn."""

import inspect
import re
import textwrap
from collections.abc import Iterator
from itertools import groupby
from typing import get_args

import click
import msgspec
from prometheus_client.metrics import MetricWrapperBase

import holdfast
from holdfast.cli import BENCHES, COMMANDS, command_line
from holdfast.cli.examples import EXAMPLES
from holdfast.cli.exit_codes import EXITS
from holdfast.config.schema import comments
from holdfast.core.turn.ladder import LADDER
from holdfast.errors import HoldfastError
from holdfast.gateway.http.metrics import Metrics
from holdfast.runtime.sessions.record_text import FAULTS, RUNGS
from holdfast.types.faults import FaultKind, Rung
from holdfast.types.records import AnyRecord

# Module paths in signatures; readers want the name alone.
_ROOM = re.compile(r"\b(?:holdfast|collections|asyncio|pathlib|typing|msgspec)(?:\.[a-z_]+)*\.(?=[A-Z])")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


# --- commands ----------------------------------------------------------------------------------------------------


def exit_codes() -> str:
    """Return what each exit code means, as a table."""
    return "\n".join(["| code | meaning |", "|---|---|", *(f"| {code} | {told} |" for code, told in EXITS.items())])


def commands_reference() -> str:
    """Return every command with its arguments, options and examples."""
    parts: list[str] = []
    context = click.Context(command_line, info_name="holdfast")
    for name in COMMANDS:
        command = command_line.get_command(context, name)
        assert command is not None
        parts += [f"### {name}", "", *_command(command, context, name)]
        parts += ["```sh", *(_example(line, told) for line, told in EXAMPLES[name]), "```", ""]
    return "\n".join(parts).rstrip()


def _command(command: click.Command, above: click.Context, name: str) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=above)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"`{context.command_path} {usage}`"
    yield ""
    yield _unwrapped(command.help or "")
    yield ""
    yield from _options(command, context)
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            if name == "bench":
                yield f"- `holdfast bench {below}`: {BENCHES[below][2]}"
                continue
            found = command.get_command(context, below)
            assert found is not None
            words = " ".join(found.collect_usage_pieces(click.Context(found, info_name=below, parent=context)))
            yield f"- `{context.command_path} {below} {words}`: {_unwrapped(found.help or '')}"
        yield ""


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    rows = [record for parameter in command.params if (record := parameter.get_help_record(context)) is not None]
    rows = [(option, told) for option, told in rows if told]
    if rows:
        yield from ("| option | what it does |", "|---|---|")
        yield from (f"| `{_cell(option)}` | {_cell(told)} |" for option, told in rows)
        yield ""


def _example(line: str, told: str) -> str:
    return f"{line}  # {told}" if told else line


def _unwrapped(text: str) -> str:
    """Return paragraphs as one line each."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in inspect.cleandoc(text).split("\n\n"))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# --- Python ------------------------------------------------------------------------------------------------------


def python_reference() -> str:
    """Return every public name with its signature and docstring, functions first, then classes, then errors."""
    names = {name: getattr(holdfast, name) for name in holdfast.__all__}
    functions = [name for name, found in names.items() if inspect.isfunction(found)]
    errors = [name for name, found in names.items() if isinstance(found, type) and issubclass(found, Exception)]
    classes = [name for name, found in names.items() if isinstance(found, type) and name not in errors]
    aliases = [name for name in names if name not in {*functions, *errors, *classes}]
    parts: list[str] = ["### Functions", ""]
    for name in functions:
        parts += [*_callable(f"holdfast.{name}", names[name]), ""]
    parts += ["### Classes", ""]
    for name in classes:
        parts += [*_class(name, names[name]), ""]
    parts += [f"`{name}` is `{_plain(str(names[name]))}`." for name in aliases]
    parts += ["", "### Errors", "", "| error | code | when |", "|---|---|---|"]
    parts += [f"| `{name}` | `{names[name].code}` | {_cell(names[name].__doc__ or '')} |" for name in errors]
    return "\n".join(parts)


def _callable(name: str, found: object) -> Iterator[str]:
    assert callable(found)
    yield f"#### `{name}`"
    yield ""
    yield from ("```python", _signature(name, found), "```", "")
    yield _doc(found)


def _class(name: str, found: type) -> Iterator[str]:
    yield f"#### `holdfast.{name}`"
    yield ""
    yield _doc(found)
    yield ""
    if issubclass(found, msgspec.Struct):
        yield from _fields(found)
    # A session is made of several classes of ours.
    methods = {name: one for base in reversed(found.__mro__) if _is_ours(base) for name, one in vars(base).items()}
    for method, function in methods.items():
        if not method.startswith("_") and inspect.isfunction(function):
            told = _doc(function).replace("\n\n", "\n\n  ")
            yield f"- `{_signature(method, function)}`  "
            yield f"  {told}"


def _is_ours(base: type) -> bool:
    return base.__module__.startswith("holdfast")


def _fields(kind: type[msgspec.Struct]) -> Iterator[str]:
    told = {name: text for base in reversed(kind.__mro__) if _is_ours(base) for name, text in comments(base).items()}
    yield from ("| field | default | what it is |", "|---|---|---|")
    for field in msgspec.structs.fields(kind):
        default = "" if field.required else f"`{_default(field)}`"
        yield f"| `{field.name}` | {default} | {_cell(told.get(field.name, ''))} |"
    yield ""


_PORT = "PORTS_MODEL"
# All fields at their defaults, which the table of the class has.
_DEFAULT_SETTINGS = re.compile(r"Settings\(temperature=None.*?extra=\{\}\)")


def _default(field: msgspec.structs.FieldInfo) -> str:
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory
    if isinstance(value, msgspec.Struct):
        return f"{type(value).__name__}(…)"
    return value.__name__ if callable(value) else str(_cell(repr(value)))


def _signature(name: str, function: object) -> str:
    assert callable(function)
    drawn = _plain(str(inspect.signature(function))).replace("(self, ", "(").replace("(self)", "()")
    if inspect.isasyncgenfunction(inspect.unwrap(function)) and hasattr(function, "__wrapped__"):
        # A reader writes `async with`.
        drawn = re.sub(r"AsyncGenerator\[(\w+), None\]", r"AbstractAsyncContextManager[\1]", drawn)
    asynchronous = "async " if inspect.iscoroutinefunction(function) else ""
    return f"{asynchronous}{name}{drawn}"


def _plain(text: str) -> str:
    # Two public names are `Model`: what users configure, and the port that they implement.
    text = _DEFAULT_SETTINGS.sub("Settings()", text.replace("holdfast.ports.model.Model", _PORT))
    drawn = _ADDRESS.sub("", _ROOM.sub("", text)).replace("NoneType", "None").replace("~", "")
    return drawn.replace(_PORT, "ports.Model")


def _doc(found: object) -> str:
    """Return a docstring; what is indented in it is code, and stays as it is."""
    lines = inspect.getdoc(found) or ""
    paragraphs = re.split(r"\n\n+", lines)
    return "\n\n".join(
        f"```python\n{textwrap.dedent(paragraph)}\n```" if paragraph.startswith("    ") else " ".join(paragraph.split())
        for paragraph in paragraphs
    )


# --- the ladder --------------------------------------------------------------------------------------------------


def ladder_drawn() -> str:
    """Return the ladder as one drawing per row, in words: what happened, then what is tried, top to bottom."""
    rows: dict[tuple[Rung, ...], list[FaultKind]] = {}
    for kind, rungs in LADDER.items():
        rows.setdefault(tuple(rungs), []).append(kind)
    return "\n\n".join(_drawing(kinds, rungs) for rungs, kinds in rows.items())


def _drawing(kinds: list[FaultKind], rungs: tuple[Rung, ...]) -> str:
    steps = [(rung, len(list(run))) for rung, run in groupby(rungs)]
    happened = " or ".join(FAULTS[kind] for kind in kinds)
    lines = ["```mermaid", "flowchart TD", f'    fault["{happened}"]']
    before = "fault"
    for number, (rung, times) in enumerate(steps, start=1):
        often = f" (up to {times} times)" if times > 1 else ""
        lines += [f'    {before} --> r{number}["{RUNGS[rung]}{often}"]', f"    r{number} -. it helped .-> answer"]
        before = f"r{number}"
    lines += [f'    {before} --> sentence["the turn ends with what to do; the next message works"]']
    lines += ['    answer(["the answer"])', "```"]
    return "\n".join(lines)


# --- events, metrics and errors ----------------------------------------------------------------------------------


def records_table() -> str:
    """Return every type of record with what it says and its fields."""
    found = sorted(get_args(AnyRecord), key=lambda record: str(record.__name__))
    rows = (
        f"| `{record.__name__}` | {_told(record)} | {', '.join(f'`{name}`' for name in record.__struct_fields__)} |"
        for record in found
    )
    return "\n".join(["| record | what it says | fields |", "|---|---|---|", *rows])


def metrics_table() -> str:
    """Return every metric with its kind and labels."""
    metrics = Metrics()
    made = (one for one in vars(metrics).values() if isinstance(one, MetricWrapperBase))
    labels = {next(iter(one.describe())).name: one._labelnames for one in made}
    rows = (
        f"| `{one.name}{'_total' if one.type == 'counter' else ''}` | {one.type} | "
        f"{', '.join(f'`{label}`' for label in labels.get(one.name, ()))} | {one.documentation} |"
        for one in metrics.registry.collect()
        if one.name.startswith("holdfast_")
    )
    return "\n".join(["| metric | kind | labels | what it counts |", "|---|---|---|---|", *rows])


def errors_table() -> str:
    """Return every exception with its code, in the order of their tree."""
    rows = (f"| {'· ' * depth}`{kind.__name__}` | `{kind.code}` | {_told(kind)} |" for depth, kind in _tree())
    return "\n".join(["| exception | code | who must act |", "|---|---|---|", *rows])


def faults_table() -> str:
    """Return every kind of failure of a provider."""
    rows = (f"| `{kind.value}` | {words} |" for kind, words in FAULTS.items())
    return "\n".join(["| kind | what happened |", "|---|---|", *rows])


def _tree(kind: type[HoldfastError] = HoldfastError, depth: int = 0) -> Iterator[tuple[int, type[HoldfastError]]]:
    yield depth, kind
    for below in kind.__subclasses__():
        if below.__module__ == kind.__module__:
            yield from _tree(below, depth + 1)


def _told(kind: type) -> str:
    """Return the first paragraph of a docstring, for a cell of a table."""
    return " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split()).replace("|", "\\|")
