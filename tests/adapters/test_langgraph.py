"""`HoldfastSaver` under LangGraph's conformance suite, and what it does not test: deltas, crashes, processes, cost."""

import copy
import operator
import os
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langgraph.graph", reason="langgraph is not installed; `make adapters/langgraph` runs this")

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

import holdfast.blocking
from holdfast.adapters.langgraph import HoldfastSaver
from tests.adapters.suites import KILLS, at_once, fetched_sdist, killed_writer, run_page, run_suite

pytestmark = pytest.mark.adapter

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t/1 é"}}


class State(TypedDict):
    values: Annotated[list[str], operator.add]


def _add(state: list[str], writes: Any) -> list[str]:
    return [*state, *(one for write in writes for one in write)]


class DeltaState(TypedDict):
    values: Annotated[list[str], DeltaChannel(_add)]


def a_graph(saver: HoldfastSaver, state: Any = State) -> Any:
    builder = StateGraph(state)
    builder.add_node("step", lambda found: {"values": [f"step {len(found['values'])}"]})
    builder.add_edge(START, "step")
    return builder.compile(checkpointer=saver)


@pytest.fixture
def client() -> Iterator[holdfast.blocking.Client]:
    with holdfast.blocking.open(":memory:") as made:
        yield made


@pytest.fixture
def saver(client: holdfast.blocking.Client) -> HoldfastSaver:
    return HoldfastSaver(client)


async def test_the_conformance_suite_passes() -> None:
    @checkpointer_test(name="holdfast")
    async def savers() -> AsyncIterator[HoldfastSaver]:
        with holdfast.blocking.open(":memory:") as client:
            yield HoldfastSaver(client)

    report = await validate(savers)

    results = report.results.values()
    assert [failure for one in results for failure in one.failures or ()] == []
    assert (sum(one.tests_passed for one in results), sum(one.tests_failed for one in results)) == (81, 0)


@pytest.mark.skipif(not os.environ.get("HOLDFAST_SUITES"), reason="a minute and a half; HOLDFAST_SUITES=all runs it")
def test_langgraphs_own_tests_of_graphs_pass() -> None:
    files = ["tests/test_pregel.py", "tests/test_pregel_async.py"]
    options = ["-n", "2", "-k", "sqlite and not aes"]

    passed, failed = run_suite(fetched_sdist("langgraph", "1.2.20"), "langgraph_plugin", files, options)

    assert (passed, failed) == (258, [])


VALUES: dict[str, Any] = {
    "messages": [
        HumanMessage(["find the harbour", {"type": "image_url", "image_url": f"data:image/png;base64,{'A' * 80_000}"}]),
        AIMessage(
            "",
            tool_calls=[{"id": "c1", "name": "depth", "args": {"place": "é"}}],
            additional_kwargs={"reasoning": {"id": "rs_1", "encrypted_content": "gAAAA" * 2_000}},
        ),
        ToolMessage("12", tool_call_id="c1", artifact={"unknown": [None, b"\0\xff"]}),
    ],
    "unknown": {"kind": [1, None], "bytes": bytes(range(256)), "when": datetime(2026, 11, 18, tzinfo=UTC)},
}


async def test_values_come_back_equal(saver: HoldfastSaver) -> None:
    versions = dict.fromkeys(VALUES, "1")
    checkpoint: Any = {**empty_checkpoint(), "channel_values": VALUES, "channel_versions": versions}
    config: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    placed = saver.put(config, checkpoint, {"source": "loop", "step": 1, "parents": {}}, versions)
    saver.put_writes(placed, list(VALUES.items()), "task")

    for found in (saver.get_tuple(config), await saver.aget_tuple(config)):
        assert found is not None
        assert found.checkpoint["channel_values"] == VALUES
        assert [(channel, value) for _, channel, value in found.pending_writes or ()] == list(VALUES.items())


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_graph_continues_in_another_process_object(tmp_path: Path, durability: Any) -> None:
    path = tmp_path / "s.db"
    for number in range(3):
        with holdfast.blocking.open(path) as client:
            found = a_graph(HoldfastSaver(client)).invoke({"values": ["in"]}, CONFIG, durability=durability)
            assert len(found["values"]) == 2 * (number + 1)


async def test_synchronous_and_asynchronous_calls_see_the_same_thread(saver: HoldfastSaver) -> None:
    graph = a_graph(saver)
    await graph.ainvoke({"values": ["a"]}, CONFIG)
    state = graph.get_state(CONFIG)

    assert (await graph.aget_state(CONFIG)).values == state.values == {"values": ["a", "step 1"]}
    assert [one.config async for one in saver.alist(CONFIG)] == [one.config for one in saver.list(CONFIG)]


def travelled(saver: BaseCheckpointSaver[Any]) -> list[Any]:
    """Interrupt, resume, resume again from the past, fork the past; return all that a caller sees."""
    builder = StateGraph(State)
    builder.add_node("ask", lambda _: {"values": [interrupt("which?")]})
    builder.add_edge(START, "ask")
    graph = builder.compile(checkpointer=saver)
    seen = [graph.invoke({"values": ["in"]}, CONFIG)["values"]]
    waiting = graph.get_state(CONFIG)
    seen += [[one.value for one in waiting.interrupts], graph.invoke(Command(resume="this"), CONFIG)]
    seen.append(graph.invoke(Command(resume="that"), waiting.config))
    forked = graph.update_state(waiting.config, {"values": ["forked"]})
    seen += [graph.get_state(forked).values, graph.get_state(CONFIG).values]
    history = list(graph.get_state_history(CONFIG))
    return [*seen, [(one.values, one.next, one.metadata["step"]) for one in history if one.metadata]]


def test_time_travel_gives_what_the_saver_in_memory_gives(saver: HoldfastSaver) -> None:
    assert travelled(saver) == travelled(InMemorySaver())


@pytest.mark.parametrize("way", ["prune", "copy"])
def test_a_delta_channel_survives(saver: HoldfastSaver, way: str) -> None:
    graph, config = a_graph(saver, DeltaState), CONFIG
    for number in range(5):
        graph.invoke({"values": [f"in {number}"]}, config)
    before = graph.get_state(config).values
    assert len(before["values"]) == 10

    if way == "prune":
        saver.prune(["t/1 é"])
    else:
        saver.copy_thread("t/1 é", "other")
        saver.delete_thread("t/1 é")
        config = {"configurable": {"thread_id": "other"}}

    assert graph.get_state(config).values == before
    assert len(graph.invoke({"values": ["more"]}, config)["values"]) == 12


def test_a_pruned_thread_without_deltas_has_one_checkpoint_and_continues(saver: HoldfastSaver) -> None:
    graph = a_graph(saver)
    graph.invoke({"values": ["a"]}, CONFIG)

    saver.prune(["t/1 é"])

    assert len(list(saver.list(CONFIG))) == 1
    assert graph.invoke({"values": ["b"]}, CONFIG)["values"] == ["a", "step 1", "b", "step 3"]


def test_a_deleted_thread_leaves_nothing(client: holdfast.blocking.Client, saver: HoldfastSaver) -> None:
    a_graph(saver).invoke({"values": ["x" * 100_000]}, CONFIG)

    saver.delete_thread("t/1 é")

    assert client.sessions() == []
    assert saver.get_tuple(CONFIG) is None


def test_checkpoints_that_are_put_out_of_order_are_listed_by_their_ids(saver: HoldfastSaver) -> None:
    graph = a_graph(saver)
    graph.invoke({"values": ["a"]}, CONFIG)
    newest = saver.get_tuple(CONFIG)
    assert newest is not None
    old = {**newest.checkpoint, "id": "0" * 36}
    saver.put({"configurable": {"thread_id": "t/1 é", "checkpoint_ns": ""}}, old, {}, {})  # type: ignore[arg-type]

    ids = [one.checkpoint["id"] for one in saver.list(CONFIG)]

    assert ids == sorted(ids, reverse=True)
    assert saver.get_tuple(CONFIG) == newest


def test_a_shallow_copy_is_a_saver(saver: HoldfastSaver) -> None:
    a_graph(copy.copy(saver)).invoke({"values": ["a"]}, CONFIG)

    assert len(list(saver.list(CONFIG))) == 3


PROGRAM = """
import sys, operator, holdfast.blocking
from typing import Annotated, TypedDict
from langgraph.graph import START, StateGraph
from holdfast.adapters.langgraph import HoldfastSaver
class State(TypedDict):
    values: Annotated[list, operator.add]
builder = StateGraph(State)
builder.add_node("step", lambda found: {"values": [f"{len(found['values'])}"]})
builder.add_edge(START, "step")
graph = builder.compile(checkpointer=HoldfastSaver(holdfast.blocking.open(sys.argv[1])))
for number in range(int(sys.argv[2])):
    graph.invoke({"values": ["in"]}, {"configurable": {"thread_id": sys.argv[3]}}, durability="sync")
    print(number, flush=True)
"""


@pytest.mark.parametrize("kill", KILLS)
def test_acknowledged_steps_survive_a_kill(tmp_path: Path, kill: str) -> None:
    path = tmp_path / "s.db"

    acknowledged = killed_writer(PROGRAM, str(path), "1000", "t", lines=8, kill=kill)

    config: RunnableConfig = {"configurable": {"thread_id": "t"}}
    with holdfast.blocking.open(path) as client:
        saver = HoldfastSaver(client)
        graph, found = a_graph(saver), saver.get_tuple(config)
        assert found is not None
        # A new input discards what an unfinished step has written, as with every checkpointer.
        stored = found.checkpoint["channel_values"]["values"]
        assert len(stored) >= 2 * len(acknowledged)
        assert graph.get_state(config).values["values"][: len(stored)] == stored
        assert graph.invoke({"values": ["in"]}, config)["values"] == [*stored, "in", f"step {len(stored) + 1}"]


def test_two_processes_at_once_write_threads_of_their_own_and_one_together(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    at_once(PROGRAM, str(path), "5")

    with holdfast.blocking.open(path) as client:
        saver = HoldfastSaver(client)
        found = [list(saver.list({"configurable": {"thread_id": one}})) for one in "01"]
    assert [len(one) for one in found] == [15, 15]


def test_two_processes_on_one_thread_lose_no_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    at_once(PROGRAM.replace("sys.argv[3]", "'same'"), str(path), "5")

    with holdfast.blocking.open(path) as client:
        found = list(HoldfastSaver(client).list({"configurable": {"thread_id": "same"}}))
    assert len({one.checkpoint["id"] for one in found}) == 30


def test_the_hundredth_invoke_costs_what_the_tenth_did(
    client: holdfast.blocking.Client, saver: HoldfastSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, counts = client.client.engine.store, list[int]()
    read, find = store.read, store.find  # type: ignore[attr-defined]  # an optional port

    async def counted_read(key: str, *, after: int = 0, limit: int | None = None) -> Any:
        found = await read(key, after=after, limit=limit)
        counts[-1] += len(found)
        return found

    async def counted_find(key: str, client_ids: Any) -> Any:
        counts[-1] += 1
        return await find(key, client_ids)

    monkeypatch.setattr(store, "read", counted_read)
    monkeypatch.setattr(store, "find", counted_find)
    builder = StateGraph(dict)
    builder.add_node("step", lambda found: {"n": found.get("n", 0) + 1})
    builder.add_edge(START, "step")
    graph = builder.compile(checkpointer=saver)
    for _ in range(100):
        counts.append(0)
        graph.invoke({"n": 1}, CONFIG)

    assert counts[99] <= 1.5 * counts[9]


def test_the_program_of_the_page_prints_what_it_says(tmp_path: Path) -> None:
    printed, shown = run_page("langgraph.md", tmp_path)

    assert printed == shown
