"""Sub-agents: tools that run another session, with an outcome that survives a crash."""

import asyncio
from pathlib import Path

import holdfast
from holdfast.runtime.subagents import DEPTH_MAX, child_key
from holdfast.testing.engines import FunctionModel, says
from holdfast.types.messages import Reply, Request, Role, ToolCall, ToolResult, text_of
from holdfast.types.records import SessionLinked, ToolSettled
from holdfast.wiring import Tuning

SURVEY = holdfast.Agent("survey", "Survey a harbour.", system="You survey harbours.")


class Team:
    """A model that delegates, and the model of the sub-agent; both are told apart by the system text."""

    def __init__(self, *calls: ToolCall) -> None:
        self.calls = calls or (ToolCall("c1", "survey", '{"task": "How deep is Kiel?"}'),)
        self.surveys = 0
        self.gate: asyncio.Event | None = None
        self.entered = asyncio.Event()
        self.model = FunctionModel(self._respond)
        respond = self.model.stream

        async def stream(request: Request, blobs: object) -> object:
            if request.system == SURVEY.system and self.gate is not None:
                self.entered.set()
                await self.gate.wait()
            async for one in respond(request, blobs):  # type: ignore[arg-type]  # as it came
                yield one

        self.model.stream = stream  # type: ignore[assignment,method-assign]  # a gate before the model

    def _respond(self, request: Request) -> Reply:
        if request.system == SURVEY.system:
            self.surveys += 1
            return says(f"surveyed: {text_of(request.messages[-1].parts)}")
        if request.messages[-1].role is Role.TOOL:
            results = [part for one in request.messages for part in one.parts if isinstance(part, ToolResult)]
            return says(" | ".join(text_of(result.parts) for result in results))
        return says("", *self.calls)


async def test_a_call_runs_a_session_of_its_own_and_returns_its_answer(tmp_path: Path) -> None:
    team = Team()
    async with holdfast.open(tmp_path / "s.db", model=team.model, agents=[SURVEY]) as client:
        chat = await client.session("s")

        answer = await chat.send("survey Kiel")

        assert answer.text == "surveyed: How deep is Kiel?"
        (link,) = [one.record for one in await chat.history() if isinstance(one.record, SessionLinked)]
        assert (link.call_id, link.tool, link.turn) == ("c1", "survey", answer.turn)
        child = await client.session(link.session)
        assert [text_of(one.parts) for one in (await child.view()).messages] == [
            "How deep is Kiel?",
            "surveyed: How deep is Kiel?",
        ]


async def test_two_calls_with_the_same_task_run_two_sessions(tmp_path: Path) -> None:
    same = '{"task": "How deep is Kiel?"}'
    team = Team(ToolCall("a", "survey", same), ToolCall("b", "survey", same))
    async with holdfast.open(tmp_path / "s.db", model=team.model, agents=[SURVEY]) as client:
        chat = await client.session("s")
        await chat.send("survey Kiel twice")

        links = [one.record for one in await chat.history() if isinstance(one.record, SessionLinked)]

        assert {link.call_id for link in links} == {"a", "b"}
        assert (len({link.session for link in links}), team.surveys) == (2, 2)


async def test_a_call_that_a_stop_interrupts_waits_for_the_same_session_after_the_start(tmp_path: Path) -> None:
    first = Team()
    first.gate = asyncio.Event()
    tuning = Tuning(grace_seconds=0.0)
    async with holdfast.open(tmp_path / "s.db", model=first.model, agents=[SURVEY], tuning=tuning) as client:
        turn = await (await client.session("s")).post("survey Kiel")
        await first.entered.wait()

    second = Team()
    async with holdfast.open(tmp_path / "s.db", model=second.model, agents=[SURVEY]) as client:
        chat = await client.session("s")
        answer = await chat.wait(turn)

        assert answer.text == "surveyed: How deep is Kiel?"
        records = [one.record for one in await chat.history()]
        assert sum(isinstance(record, SessionLinked) for record in records) == 1
        assert sum(isinstance(record, ToolSettled) for record in records) == 1
        assert (first.surveys, second.surveys) == (0, 1)


async def test_a_failed_sub_agent_is_told_to_the_caller(tmp_path: Path) -> None:
    team = Team(ToolCall("a", "survey", "{}"))
    async with holdfast.open(tmp_path / "s.db", model=team.model, agents=[SURVEY]) as client:
        assert "the arguments are invalid" in (await (await client.session("s")).send("survey")).text


async def test_agents_call_each_other_to_a_bounded_depth(tmp_path: Path) -> None:
    def respond(request: Request) -> Reply:
        if request.messages[-1].role is Role.TOOL:
            return says(text_of(request.messages[-1].parts[0].parts))  # type: ignore[union-attr]  # a result
        return says("", ToolCall("c", "again", '{"task": "again"}'))

    agent = holdfast.Agent("again", "Call yourself.")
    async with holdfast.open(tmp_path / "s.db", model=FunctionModel(respond), agents=[agent]) as client:
        answer = await (await client.session("s")).send("go")

        assert f"{DEPTH_MAX} levels deep at most" in answer.text
        assert len(await client.sessions()) == DEPTH_MAX + 1


def test_the_session_of_a_sub_agent_belongs_to_the_tenant_of_its_caller() -> None:
    key = child_key("@alice/" + "k" * 240, "survey", 1, "c")

    assert key.startswith("@alice/")
    assert len(key.encode()) < 256
    assert child_key("a", "survey", 1, "c") != child_key("a", "survey", 1, "d")
