"""A typed function as a tool: what the model is told, what is refused, and what comes back."""

import asyncio
import contextvars
import enum
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

import msgspec
import pytest

from holdfast.errors import BadInputError, RetryLaterError, UsageError
from holdfast.ports import Attachment, Tool
from holdfast.runtime.tools import function_tool
from holdfast.runtime.tools.function_tool import tool
from holdfast.types.messages import ToolSpec


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Place:
    city: str
    street: str = ""


class Range(msgspec.Struct):
    first: int
    last: int


@tool
def search(
    query: Annotated[str, msgspec.Meta(description="what to look for")],
    colours: list[Colour],
    where: Place | None = None,
    lines: Range | None = None,
    tags: list[str] = [],  # noqa: B006 - a default that can be altered is the case
    weight: float = 0.5,
) -> dict[str, Any]:
    """Search the shelf
    for something.

    This paragraph is for programmers.
    """
    return {
        "query": query,
        "colours": colours,
        "where": where,
        "lines": lines,
        "tags": tags,
        "weight": weight,
    }


def test_the_model_is_told_the_types_of_a_function() -> None:
    spec = search.spec

    assert (spec.name, spec.description) == ("search", "Search the shelf for something.")
    assert json.loads(spec.parameters) == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "what to look for"},
            "colours": {"type": "array", "items": {"$ref": "#/$defs/Colour"}},
            "where": {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}], "default": None},
            "lines": {"anyOf": [{"$ref": "#/$defs/Range"}, {"type": "null"}], "default": None},
            "tags": {"type": "array", "items": {"type": "string"}},
            "weight": {"type": "number", "default": 0.5},
        },
        "required": ["query", "colours"],
        "additionalProperties": False,
        "$defs": {
            "Colour": {"title": "Colour", "enum": ["blue", "red"]},
            "Place": {
                "title": "Place",
                "type": "object",
                "properties": {"city": {"type": "string"}, "street": {"type": "string", "default": ""}},
                "required": ["city"],
            },
            "Range": {
                "title": "Range",
                "type": "object",
                "properties": {"first": {"type": "integer"}, "last": {"type": "integer"}},
                "required": ["first", "last"],
            },
        },
    }


async def test_arguments_arrive_as_the_types_that_were_declared() -> None:
    seen: list[tuple[Colour, Place, Range]] = []

    @tool
    def look(colour: Colour, place: Place, lines: Range) -> None:
        seen.append((colour, place, lines))

    await look.run('{"colour": "red", "place": {"city": "Bern"}, "lines": {"first": 1, "last": 2}}')

    assert seen == [(Colour.RED, Place("Bern"), Range(1, 2))]


async def test_arguments_left_out_take_their_defaults() -> None:
    (text,) = await search.run('{"query": "x", "colours": []}')
    assert json.loads(cast("str", text)) == {
        "query": "x",
        "colours": [],
        "where": None,
        "lines": None,
        "tags": [],
        "weight": 0.5,
    }


def test_a_tool_is_still_the_function_it_was() -> None:
    @tool(name="add-up", description="Adds.", idempotent=True, seconds_max=3)
    def add(first: int, second: int = 1) -> int:
        """Not used."""
        return first + second

    total: int = add(2, second=3)

    assert (total, add.__doc__) == (5, "Not used.")
    assert (add.spec.name, add.spec.description, add.is_idempotent, add.seconds_max) == ("add-up", "Adds.", True, 3)
    as_port: Tool = add
    assert isinstance(as_port.spec, ToolSpec)


def test_a_tool_without_words_or_arguments_says_so_plainly() -> None:
    @tool
    def ping() -> None: ...

    assert ping.spec == ToolSpec(
        "ping", "", '{"type": "object", "properties": {}, "required": [], "additionalProperties": false}'
    )
    assert (ping.is_idempotent, ping.seconds_max) == (False, float("inf"))


async def test_a_bound_method_is_a_tool() -> None:
    class Counter:
        count = 0

        def add(self, amount: int) -> int:
            """Add to the count."""
            self.count += amount
            return self.count

    assert await tool(Counter().add).run('{"amount": 2}') == ["2"]


# --- what cannot be a tool ---------------------------------------------------------------------------------------


class Opaque:
    pass


def _takes_anything(**options: str) -> None: ...
def _takes_many(*names: str) -> None: ...
def _by_position(path: str, /) -> None: ...
def _untyped(path) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001 - a parameter without a type is the case
def _opaque(thing: Opaque) -> None: ...
def _unresolved(thing: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821 - the name must be missing


def _yields() -> Iterator[str]:
    yield "x"


WRONG: list[tuple[Callable[..., object], str]] = [
    (
        _takes_anything,
        (
            "tool _takes_anything, parameter 'options': variable arguments have no schema; name each argument, "
            "or use a list or a dict"
        ),
    ),
    (
        _takes_many,
        (
            "tool _takes_many, parameter 'names': variable arguments have no schema; name each argument, "
            "or use a list or a dict"
        ),
    ),
    (
        _by_position,
        "tool _by_position, parameter 'path': it is positional-only, and a model passes names; remove the '/'",
    ),
    (
        _untyped,
        (
            "tool _untyped, parameter 'path': it has no type; annotate it, as in `path: str`. "
            "Pass a method bound to its object"
        ),
    ),
    (
        _opaque,
        (
            f"tool _opaque, parameter 'thing': its type {Opaque} cannot be described in JSON; use str, int, float, "
            "bool, list, dict, Literal, an enum, a dataclass, a msgspec.Struct or a pydantic model"
        ),
    ),
    (
        _unresolved,
        (
            "tool _unresolved: its type hints cannot be read (name 'Nowhere' is not defined); "
            "define its types at the top of the module"
        ),
    ),
    (_yields, "tool _yields: it yields; return a list instead"),
    (len, "<built-in function len> is not a function; write a function that calls it and make that a tool"),
]


@pytest.mark.parametrize(("function", "sentence"), WRONG)
def test_what_cannot_be_a_tool_is_refused_where_it_is_declared(function: Callable[..., object], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        tool(function)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_deadline_that_is_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(UsageError, match="give a positive number of seconds"):
        tool(seconds_max=seconds)(search._function)


# --- what a model may get wrong ----------------------------------------------------------------------------------


@tool
def read(path: str, lines: int = 10, order: Literal["old", "new"] | None = None, where: Place | None = None) -> str:
    """Read a file."""
    return f"{path} {lines} {order} {where}"


TAKES = (
    'Write one JSON object with these arguments: path (string, required), lines (integer), order (one of "new", "old" '
    "or null), where (see its schema or null)"
)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ("", "Object missing required field `path`"),
        ('{"path": 1}', "Expected `str`, got `int` - at `$.path`"),
        ('{"path": "a", "lines": "ten"}', "Expected `int`, got `str` - at `$.lines`"),
        ('{"path": "a", "depth": 1}', "Object contains unknown field `depth`"),
        ('["a"]', "Expected `object`, got `array`"),
        ('{"path": ', "Input data was truncated"),
        ("path=a", "JSON is malformed: invalid character (byte 0)"),
    ],
)
async def test_wrong_arguments_are_answered_with_what_is_wrong_and_what_is_right(arguments: str, what: str) -> None:
    with pytest.raises(BadInputError) as caught:
        await read.run(arguments)
    assert str(caught.value) == f"the tool read did not run: {what}. {TAKES}"


@pytest.mark.parametrize("arguments", ['{"path": "\ud800"}', '{"path": "a", "where": ' + '{"city":' * 100_000])
async def test_arguments_no_parser_takes_are_answered_too(arguments: str) -> None:
    with pytest.raises(BadInputError, match="the tool read did not run"):
        await read.run(arguments)


async def test_a_tool_without_arguments_says_that_there_are_none() -> None:
    @tool
    def ping() -> None: ...

    assert await ping.run(" ") == ["done"]
    with pytest.raises(BadInputError, match="with these arguments: none"):
        await ping.run('{"x": 1}')


# --- what comes back ---------------------------------------------------------------------------------------------

IMAGE = Attachment(b"...", name="a.png")


@pytest.mark.parametrize(
    ("value", "output"),
    [
        ("plain", ["plain"]),
        (None, ["done"]),
        (b"\x00\x01", [Attachment(b"\x00\x01")]),
        (IMAGE, [IMAGE]),
        (["a", b"b", IMAGE], ["a", Attachment(b"b"), IMAGE]),
        (("a", "b"), ["a", "b"]),
        ([], ["[]"]),
        ([1, "a"], ['[1,"a"]']),
        ({"a": Place("Bern"), "b": Colour.RED}, ['{"a":{"city":"Bern","street":""},"b":"red"}']),
        ({"half": "\ud800"}, ['{"half": "\\ud800"}']),
        (True, ["true"]),
    ],
)
async def test_whatever_a_function_returns_becomes_text_or_attachments(value: object, output: list[object]) -> None:
    @tool
    def give() -> object:
        return value

    @tool
    async def give_later() -> object:
        await asyncio.sleep(0)
        return value

    assert await give.run("{}") == output
    assert await give_later.run("{}") == output


async def test_a_result_that_no_json_can_hold_is_told() -> None:
    @tool
    def give() -> object:
        return Opaque()

    with pytest.raises(TypeError) as caught:
        await give.run("{}")
    assert str(caught.value) == (
        "the tool ran, but its result of type Opaque cannot be encoded as JSON "
        "(Encoding objects of type Opaque is unsupported)"
    )


async def test_a_plain_function_that_returns_something_to_await_is_awaited() -> None:
    async def later() -> str:
        await asyncio.sleep(0)
        return "waited"

    @tool
    def give() -> object:
        return later()

    assert await give.run("{}") == ["waited"]


# --- threads -----------------------------------------------------------------------------------------------------


async def test_a_plain_function_runs_beside_the_loop_with_the_callers_context() -> None:
    asked_by = contextvars.ContextVar[str]("asked_by")
    asked_by.set("ada")

    @tool
    def who() -> str:
        return f"{asked_by.get()} {threading.current_thread() is threading.main_thread()}"

    assert await who.run("") == ["ada False"]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt()])
async def test_what_a_thread_raises_arrives_where_it_is_awaited(error: BaseException) -> None:
    @tool
    def fail() -> None:
        raise error

    caught: BaseException | None = None
    try:
        await fail.run("{}")
    except BaseException as raised:  # noqa: BLE001 - what ends a process is among the cases
        caught = raised
    assert caught is error


async def test_a_thread_that_raises_stop_iteration_does_not_hang_its_caller() -> None:
    @tool
    def drained() -> object:
        return next(iter([]))

    with pytest.raises(RuntimeError, match="StopIteration"):
        await drained.run("{}")


async def test_a_tool_whose_threads_never_return_is_not_started_again_until_one_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(function_tool, "STUCK_THREADS_MAX", 1)
    started, gate = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    @tool
    def stuck() -> None:
        threads.append(threading.current_thread())
        started.set()
        gate.wait()
        raise ValueError("nobody hears this")

    waiting = asyncio.create_task(stuck.run("{}"))
    await asyncio.to_thread(started.wait)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(RetryLaterError, match="the tool stuck did not run: 1 earlier runs passed their deadline"):
        await stuck.run("{}")

    gate.set()
    await asyncio.to_thread(threads[0].join)
    with pytest.raises(ValueError, match="nobody hears this"):
        await stuck.run("{}")


def test_a_thread_that_outlives_its_loop_ends_quietly() -> None:
    started, gate = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    @tool
    def slow() -> None:
        threads.append(threading.current_thread())
        started.set()
        gate.wait()

    async def give_up() -> None:
        waiting = asyncio.create_task(slow.run("{}"))
        await asyncio.to_thread(started.wait)
        waiting.cancel()
        await asyncio.wait([waiting])

    asyncio.run(give_up())
    gate.set()
    threads[0].join()
    # A thread that ended with an exception would be a warning, and warnings are errors here.
