"""Descriptions of parameters, the context of a call, progress, retries, sets of tools per session, and results."""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pydantic
import pytest

import holdfast
from holdfast.core.limits.bounds import Bounds
from holdfast.errors import BadInputError, UsageError
from holdfast.runtime.tools.toolbox import Toolbox
from holdfast.stores.memory import MemoryBlobs
from holdfast.types.messages import Media, ToolCall, ToolOutcome, text_of
from holdfast.types.records import ToolSettled
from tests.e2e.world import records_of

PNG = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\x9cc\xf8\xff\xff?"
    b"\0\x05\xfe\x02\xfe\xa7\x9a\xa0\xa0\0\0\0\0IEND\xaeB`\x82"
)


def descriptions(tool: Any) -> dict[str, str]:
    schema = json.loads(tool.spec.parameters)
    return {name: one.get("description", "") for name, one in schema["properties"].items()}


def google(place: str, depth: int = 3) -> str:
    """Find a berth.

    Args:
        place: The harbour
            to look in.
        depth (int): At least so deep.
    """
    return f"{place} {depth}"


def numpy(place: str, depth: int = 3) -> str:
    """Find a berth.

    Parameters
    ----------
    place : str
        The harbour to look in.
    depth : int
        At least so deep.
    """
    return f"{place} {depth}"


def sphinx(place: str, depth: int = 3) -> str:
    """Find a berth.

    :param place: The harbour to look in.
    :param depth: At least so deep.
    """
    return f"{place} {depth}"


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_descriptions_of_parameters_come_from_the_docstring(function: Any) -> None:
    declared = holdfast.tool(function)
    assert declared.spec.description == "Find a berth."
    assert descriptions(declared) == {"place": "The harbour to look in.", "depth": "At least so deep."}


def test_an_annotation_comes_before_the_docstring() -> None:
    @holdfast.tool
    def find(
        text: Annotated[str, "a text"],
        meta: Annotated[str, msgspec.Meta(description="a meta", min_length=2)],
        field: Annotated[str, pydantic.Field(description="a field")],
        default: str = pydantic.Field("x", description="a default"),
        other: int = 1,
    ) -> str:
        """Find.

        Args:
            text: not this.
            other: this one.
        """
        return text + meta + field + default + str(other)

    assert descriptions(find) == {
        "text": "a text",
        "meta": "a meta",
        "field": "a field",
        "default": "a default",
        "other": "this one.",
    }
    schema = json.loads(find.spec.parameters)
    assert schema["required"] == ["text", "meta", "field"]
    assert schema["properties"]["meta"]["minLength"] == 2


def test_a_tool_without_a_description_is_a_warning() -> None:
    def bare(place: str) -> str:
        return place

    with pytest.warns(UserWarning, match="tool bare has no description"):
        holdfast.tool(bare)


class Place(pydantic.BaseModel):
    name: str
    inner: "Inner | None" = None


class Inner(pydantic.BaseModel):
    depth: int


async def test_pydantic_models_are_arguments_and_results() -> None:
    @holdfast.tool
    def sound(place: Place) -> Place:
        """Sound a place."""
        assert isinstance(place, Place)
        return Place(name=place.name, inner=Inner(depth=12))

    schema = json.loads(sound.spec.parameters)
    assert "Inner" in schema["$defs"]
    async with holdfast.open(":memory:", tools=[sound]) as client:
        chat = await client.session("a")
        answer = await chat.send('call sound {"place": {"name": "Kiel"}}')
        assert answer.text == 'The tool sound returned: {"name":"Kiel","inner":{"depth":12}}'
        await chat.send('call sound {"place": {"name": 5}}')
        assert (await records_of(chat, ToolSettled))[-1].result.outcome is ToolOutcome.FAILED


class Fleet:
    ships = 3


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_tool_gets_its_context_and_the_model_does_not_see_it(*, is_async: bool) -> None:
    seen: list[holdfast.ToolContext[Fleet]] = []

    @holdfast.tool(seconds_max=50)
    def count(kind: str, context: holdfast.ToolContext[Fleet]) -> str:
        """Count ships."""
        seen.append(context)
        context.progress("counting")
        return f"{context.deps.ships} {kind}"

    @holdfast.tool(name="count", seconds_max=50)
    async def count_async(kind: str, context: holdfast.ToolContext[Fleet]) -> str:
        """Count ships."""
        return count(kind, context)

    fleet = Fleet()
    async with holdfast.open(":memory:", tools=[count_async if is_async else count], deps=fleet) as client:
        chat = await client.session("a")
        events = [event async for event in chat.stream('call count {"kind": "sloops"}')]
        state = await chat.state()
    (context,) = seen
    assert json.loads(count.spec.parameters)["properties"].keys() == {"kind"}
    assert (context.session, context.turn, context.attempt, context.deps) == ("a", 1, 1, fleet)
    assert 40 < context.seconds_left <= 50
    (progress,) = [event for event in events if isinstance(event, holdfast.ToolProgress)]
    assert (progress.text, progress.tool, progress.call_id) == ("counting", "count", context.call_id)
    assert state.number == 0
    assert "3 sloops" in "".join(event.text for event in events if isinstance(event, holdfast.TextDelta))


async def test_retries_are_for_failures_and_not_for_bad_arguments_or_timeouts() -> None:
    attempts: list[int] = []

    @holdfast.tool(retries=2)
    def flaky(context: holdfast.ToolContext[None]) -> str:
        """Fail at first."""
        attempts.append(context.attempt)
        if context.attempt < 3:
            raise ConnectionError("not yet")
        return "at last"

    @holdfast.tool(retries=5)
    def strict(number: int) -> str:
        """Take a number."""
        attempts.append(number)
        return "ok"

    @holdfast.tool(retries=5, seconds_max=0.01)
    async def slow() -> str:
        """Take too long."""
        attempts.append(0)
        await asyncio.Event().wait()
        return "never"

    async with holdfast.open(":memory:", tools=[flaky, strict, slow]) as client:
        chat = await client.session("a")
        assert (await chat.send("call flaky")).text == "The tool flaky returned: at last"
        assert attempts == [1, 2, 3]
        attempts.clear()
        await chat.send('call strict {"number": "x"}')
        assert attempts == []
        await chat.send("call slow")
        assert attempts == [0], "it may still run, and may not run twice"
        outcomes = [settled.result.outcome for settled in await records_of(chat, ToolSettled)]
        assert outcomes == [ToolOutcome.DONE, ToolOutcome.FAILED, ToolOutcome.TIMED_OUT]
    with pytest.raises(UsageError, match="retries is 11"):
        holdfast.tool(retries=11)(google)


async def test_a_session_has_its_own_set_of_tools_also_after_a_restart(tmp_path: Path) -> None:
    def names(view: holdfast.View) -> list[str]:
        return [spec.name for spec in view.tools]

    @holdfast.tool
    def special() -> str:
        """Do something special."""
        return "special"

    theirs = holdfast.ToolSpec("theirs", "Run by the client.", '{"type":"object"}')
    async with holdfast.open(tmp_path / "s.db", tools=[google, sphinx]) as client:
        chat = await client.session("a", tools=["sphinx", special, theirs])
        assert names(await chat.view()) == ["recall", "special", "sphinx", "theirs"]
        assert (await chat.send("call special")).text == "The tool special returned: special"
        other = await client.session("b")
        assert names(await other.view()) == ["google", "recall", "sphinx"]
        assert (await chat.send('call google {"place": "Kiel"}')).text.startswith('You said: "call google')
        with pytest.raises(BadInputError, match="no tool named 'none'"):
            await client.session("a", tools=["none"])
    async with holdfast.open(tmp_path / "s.db", tools=[google, sphinx, special]) as client:
        assert names(await (await client.session("a")).view()) == ["recall", "special", "sphinx", "theirs"]


async def test_a_call_of_a_tool_outside_the_set_is_told_what_there_is() -> None:
    box = Toolbox([google, sphinx], blobs=MemoryBlobs(), bounds=Bounds())
    result = await box.run(ToolCall("1", "google", "{}"), names=("sphinx",))
    assert text_of(result.parts) == "there is no tool named 'google'; available tools: sphinx"


async def test_results_are_structures_images_and_files(tmp_path: Path) -> None:
    (tmp_path / "chart.png").write_bytes(PNG)
    (tmp_path / "notes.txt").write_text("berth 17", "utf-8")

    @holdfast.tool
    def results(kind: str) -> Any:
        """Return something."""
        return {
            "struct": {"depth": 12},
            "image": PNG,
            "file": tmp_path / "chart.png",
            "both": ["see", tmp_path / "notes.txt", tmp_path / "chart.png"],
        }[kind]

    async with holdfast.open(":memory:", tools=[results]) as client:
        chat = await client.session("a")
        for kind in ("struct", "image", "file", "both"):
            await chat.send(f'call results {{"kind": "{kind}"}}')
        parts = [settled.result.parts for settled in await records_of(chat, ToolSettled)]
    assert parts[0] == (holdfast.Text('{"depth":12}'),)
    assert [type(part) for part in parts[1]] == [Media]
    assert [part.name for part in parts[2] if isinstance(part, Media)] == ["chart.png"]
    assert parts[3][0] == holdfast.Text("see\nberth 17")
    assert isinstance(parts[3][1], Media)
