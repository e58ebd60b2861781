"""Typed outputs: values from every kind of type and dialect, repairs within a bound, and restarts."""

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any, TypedDict

import msgspec
import pydantic
import pytest

import holdfast
from holdfast.core.limits.bounds import Bounds
from holdfast.errors import TurnFailedError, UsageError
from holdfast.models.dialects import DIALECTS
from holdfast.runtime.outputs import OutputChecks, bare_json, output_type, repair_text
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import ManualClock
from holdfast.testing.crashes import CrashingStore, CrashPoint, check_log, every_point
from holdfast.testing.engines import FunctionModel, ScriptedModel, a_hold, an_engine, says
from holdfast.types.messages import Reply, Request, Role, text_of
from holdfast.types.records import InputAdmitted, OutputRefused
from holdfast.types.settings import OutputSpec
from tests.crashes.test_in_process import LEASE_SECONDS
from tests.e2e.world import HASTY, a_world, records_of


class Berth(msgspec.Struct):
    number: int
    note: str = ""


class Port(msgspec.Struct):
    harbour: str
    depth: Annotated[int, msgspec.Meta(ge=1)]
    berths: list[Berth] = []


@dataclasses.dataclass
class PortData:
    harbour: str
    depth: int


class PortDict(TypedDict):
    harbour: str
    depth: int


class PortModel(pydantic.BaseModel):
    harbour: str
    depth: int

    @pydantic.field_validator("depth")
    @classmethod
    def deep(cls, value: int) -> int:
        if value % 2:
            raise ValueError("the depth must be even")
        return value


GOOD = '{"harbour": "Kiel", "depth": 12}'


@pytest.mark.parametrize("model", [f"sim:{dialect}" for dialect in sorted(DIALECTS)])
@pytest.mark.parametrize(
    ("wanted", "value"),
    [
        (Port, Port("Kiel", 12)),
        (PortData, PortData("Kiel", 12)),
        (PortDict, {"harbour": "Kiel", "depth": 12}),
        (PortModel, PortModel(harbour="Kiel", depth=12)),
    ],
)
async def test_every_dialect_gives_a_value_of_every_kind_of_type(model: str, wanted: type[Any], value: object) -> None:
    async with holdfast.open(":memory:", model=model) as client:
        chat = await client.session("a")
        answer = await chat.send("harbour = Kiel, depth = 12", output=wanted)
        assert answer.output == value
        assert type(answer.output) is type(value)
        assert json.loads(answer.text) == {"harbour": "Kiel", "depth": 12}
        assert (await chat.send("what is harbour?")).text == "harbour = Kiel.", "the next message is plain again"


async def test_types_that_are_no_objects_are_values_too() -> None:
    async with holdfast.open(":memory:") as client:
        chat = await client.session("a")
        assert (await chat.send("value = 7", output=int)).output == 7
        assert (await chat.send("value = a/b", output=list[str])).output == ["a", "b"]
    listed = output_type(list[PortModel], bytes_max=10_000)
    assert json.loads(listed.spec.schema)["required"] == ["value"]
    assert listed.read(f'{{"value": [{GOOD}]}}') == [PortModel(harbour="Kiel", depth=12)]


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
async def test_the_answer_is_streamed_as_text(dialect: str) -> None:
    async with holdfast.open(":memory:", model=f"sim:{dialect}") as client:
        chat = await client.session("a")
        events = [event async for event in chat.stream("harbour = Kiel, depth = 12", output=Port)]
    text = "".join(event.text for event in events if isinstance(event, holdfast.TextDelta))
    assert json.loads(text) == {"harbour": "Kiel", "depth": 12}


async def test_a_bad_answer_is_repaired_and_the_model_is_shown_why() -> None:
    model = ScriptedModel(["Kiel, I think", '{"harbour": "Kiel", "depth": 0}', f"```json\n{GOOD}\n```"])
    async with a_hold(an_engine(model)) as client:
        chat = await client.session("a")
        answer = await chat.send("where?", output=Port)
        assert answer.output == Port("Kiel", 12)
        records = await chat.history(limit=1_000)
        check_log(records, accepted=[answer.turn])
        await chat.send("and now?")
    assert len(model.requests) == 4
    shown = [text_of(message.parts) for message in model.requests[2].messages]
    assert [message.role for message in model.requests[2].messages] == [
        *(Role.USER, Role.ASSISTANT, Role.USER, Role.ASSISTANT, Role.USER)
    ]
    assert "Your answer is not a valid Port:\nJSON is malformed" in shown[2]
    assert "Expected `int` >= 1" in shown[4]
    assert '"harbour"' in shown[4], "the schema, for models that were not told it otherwise"
    assert [request.output is not None for request in model.requests] == [True, True, True, False]


async def test_repairs_are_bounded_and_the_next_message_works() -> None:
    model = ScriptedModel(["no", "no", "no", "fine"])
    async with a_hold(an_engine(model)) as client:
        chat = await client.session("a")
        with pytest.raises(TurnFailedError) as failed:
            await chat.send("where?", output=Port)
        assert failed.value.reason == "output_invalid"
        assert len(model.requests) == 1 + Bounds().output_repairs_max
        assert (await chat.send("hello")).text == "fine"


async def test_a_types_own_checks_count_beyond_its_schema() -> None:
    model = ScriptedModel(['{"harbour": "Kiel", "depth": 13}', GOOD])
    async with a_hold(an_engine(model)) as client:
        answer = await (await client.session("a")).send("where?", output=PortModel)
        assert answer.output.depth == 12
    assert "the depth must be even" in text_of(model.requests[1].messages[-1].parts)


async def test_tools_run_before_the_output() -> None:
    @holdfast.tool
    def sound() -> str:
        """Sound the depth."""
        return "depth = 14"

    for dialect in sorted(DIALECTS):
        async with holdfast.open(":memory:", model=f"sim:{dialect}", tools=[sound]) as client:
            answer = await (await client.session("a")).send("harbour = Kiel; call sound", output=Port)
            assert answer.output == Port("Kiel", 14), dialect


async def test_a_server_without_json_schemas_gets_a_tool_from_then_on(tmp_path: Path) -> None:
    async with a_world(tmp_path, "openai", holdfast.Limits(window_tokens=100_000)) as world:
        world.simulation.refused_parameters = ("response_format",)
        async with world.open(bounds=HASTY) as client:
            for number in range(2):
                chat = await client.session(f"s:{number}")
                answer = await chat.send("harbour = Kiel, depth = 12", output=Port)
                assert answer.output == Port("Kiel", 12)
        assert len(world.refused) == 1
        assert b"final_answer" in world.simulation.requests[-1].body
        assert b"response_format" not in world.simulation.requests[-1].body


async def test_a_posted_message_is_awaited_with_its_type_and_a_wrong_type_is_told() -> None:
    async with holdfast.open(":memory:") as client:
        chat = await client.session("a")
        turn = await chat.post("harbour = Kiel, depth = 12", output=Port)
        assert (await chat.wait(turn, output=Port)).output == Port("Kiel", 12)
        assert (await chat.wait(turn, output=PortData)).output == PortData("Kiel", 12)
        with pytest.raises(TurnFailedError, match="not of the requested type"):
            await chat.wait(turn, output=Berth)


@pytest.mark.parametrize("wanted", [type("Opaque", (), {}), type(print)])
async def test_a_type_without_a_json_form_is_refused_before_anything_is_stored(wanted: type[Any]) -> None:
    async with holdfast.open(":memory:") as client:
        chat = await client.session("a")
        with pytest.raises(UsageError, match="cannot be described in JSON"):
            await chat.send("hi", output=wanted)
        assert await chat.known() is None


def test_a_schema_is_bounded() -> None:
    with pytest.raises(UsageError, match="the maximum is 10"):
        output_type(Port, bytes_max=10)


def test_without_the_type_the_schema_decides() -> None:
    """A process that resumes a turn has the schema only."""
    checks, spec = OutputChecks(), output_type(Port, bytes_max=10_000).spec
    assert checks.problem(spec, GOOD) == ""
    assert checks.problem(spec, f"```\n{GOOD}\n```") == ""
    assert "'depth' is a required property" in checks.problem(spec, '{"harbour": "Kiel"}')
    assert "$.depth" in checks.problem(spec, '{"harbour": "Kiel", "depth": 0}')
    assert "$.berths[0]" in checks.problem(spec, '{"harbour": "Kiel", "depth": 1, "berths": [{"number": "x"}]}')
    assert checks.problem(spec, "Kiel")
    assert len(repair_text(OutputSpec("x", "y" * 100_000), "z" * 100_000)) < 12_000
    assert bare_json("no fence") == "no fence"


def test_remembered_types_are_bounded() -> None:
    checks = OutputChecks()
    for number in range(300):
        checks.remember(output_type(msgspec.defstruct(f"T{number}", [("a", int)]), bytes_max=10_000))
    assert len(checks._types) == 256


# --- Crashes ---


def respond(request: Request) -> Reply:
    """Answer badly first, then well, by what the request shows."""
    return says(GOOD if "not a valid" in text_of(request.messages[-1].parts) else "Kiel")


async def live(store: MemoryStore, clock: ManualClock, point: CrashPoint | None, *, has_type: bool) -> CrashingStore:
    """Be a process that sends the message, or one that only resumes it, until it is done or dead."""
    crashing = CrashingStore(store, point)

    async def work() -> None:
        engine = an_engine(FunctionModel(respond), store=crashing, clock=clock, bounds=Bounds(interruptions_max=50))
        async with a_hold(engine, lease_seconds=LEASE_SECONDS) as client:
            chat = await client.session("a")
            if has_type:
                await chat.send("where?", output=Port, client_id="one")
            else:
                await chat.wait(1)

    tasks = [asyncio.create_task(work()), asyncio.create_task(crashing.died.wait())]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    clock.advance(LEASE_SECONDS + 1)
    return crashing


async def test_a_typed_message_survives_a_crash_before_and_after_each_write(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL")
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    clock = ManualClock()
    writes = (await live(MemoryStore(clock=clock, bounds=Bounds()), clock, None, has_type=True)).writes
    assert writes > 4
    for point in every_point(writes):
        store = MemoryStore(clock=clock, bounds=Bounds())
        await live(store, clock, point, has_type=True)
        records = await store.read("a")
        # Another process takes over, without the type if the message is on disk.
        await live(store, clock, None, has_type=not any(isinstance(one.record, InputAdmitted) for one in records))
        records = await store.read("a")
        check_log(records, accepted=[1])
        async with a_hold(an_engine(FunctionModel(respond), store=store, clock=clock)) as client:
            chat = await client.session("a")
            assert (await chat.wait(1, output=Port)).output == Port("Kiel", 12), f"died {point}"
            assert len(await records_of(chat, OutputRefused)) == 1, f"died {point}"


# --- JSON Schemas in place of types ---

PORT = {
    "title": "A port!",
    "type": "object",
    "properties": {"harbour": {"type": "string"}, "depth": {"type": "integer"}},
    "required": ["harbour", "depth"],
}


@pytest.mark.parametrize("model", [f"sim:{dialect}" for dialect in sorted(DIALECTS)])
async def test_a_json_schema_gives_a_plain_value_in_every_dialect(model: str) -> None:
    async with holdfast.open(":memory:", model=model) as client:
        chat = await client.session("a")
        answer = await chat.send("harbour = Kiel, depth = 12", output=PORT)
        assert answer.output == {"harbour": "Kiel", "depth": 12}
        (admitted,) = await records_of(chat, InputAdmitted)
    assert admitted.output == OutputSpec("A_port", json.dumps(PORT))


async def test_an_answer_that_differs_from_its_schema_is_repaired() -> None:
    model = ScriptedModel(['{"harbour": "Kiel"}', '{"harbour": "Kiel", "depth": NaN}', GOOD])
    async with a_hold(an_engine(model)) as client:
        answer = await (await client.session("a")).send("where?", output=PORT)
        assert answer.output == {"harbour": "Kiel", "depth": 12}
    shown = [text_of(message.parts) for message in model.requests[2].messages]
    assert "'depth' is a required property" in shown[2]
    assert "NaN is not JSON" in shown[4]


DEEP: dict[str, Any] = {"type": "object"}
for _ in range(400):
    DEEP = {"type": "object", "properties": {"a": DEEP}}


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ({}, 'must be of type "object"'),
        ({"type": "array"}, 'must be of type "object"'),
        ({"type": "object", "properties": 5}, r"not a valid JSON Schema at \$.properties: 5 is not of type 'object'"),
        ({"type": "object", "$ref": "https://example.com/port.json"}, r"put that into \$defs"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}, "which it does not have"),
        ({"type": "object", "patternProperties": {"^(a+)+$": {}}}, "patternProperties, which is not supported"),
        ({"type": "object", "description": "x" * 70_000}, "the maximum is"),
        ({"type": "object", "default": float("nan")}, "the schema is not JSON"),
        ({"type": "object", "default": object()}, "the schema is not JSON"),
        (DEEP, "nested too deep"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_with_the_reason(schema: dict[str, Any], sentence: str) -> None:
    with pytest.raises(holdfast.BadInputError, match=sentence):
        output_type(schema, bytes_max=Bounds().output_schema_bytes_max)


def test_checking_by_a_schema_is_bounded_and_runs_no_regular_expression() -> None:
    doubling = {f"d{number}": {"allOf": [{"$ref": f"#/$defs/d{number + 1}"}] * 2} for number in range(40)}
    schema = {"type": "object", "$ref": "#/$defs/d0", "$defs": {**doubling, "d40": {"type": "object"}}}
    checks = OutputChecks()
    assert "takes more than 100,000 steps" in checks.problem(OutputSpec("a", json.dumps(schema)), "{}")
    slow = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    assert not checks.problem(OutputSpec("a", json.dumps(slow)), json.dumps({"a": "a" * 60 + "!"}))
    unique = {"type": "object", "properties": {"a": {"uniqueItems": True}}}
    spec = OutputSpec("a", json.dumps(unique))
    assert "non-unique elements" in checks.problem(spec, json.dumps({"a": [{"b": 1}, {"b": 1}]}))
    assert not checks.problem(spec, json.dumps({"a": [{"b": number} for number in range(30_000)]}))
    missing = OutputSpec("a", json.dumps({"type": "object", "$ref": "#/$defs/none"}))
    assert "something that it does not have" in checks.problem(missing, "{}")
