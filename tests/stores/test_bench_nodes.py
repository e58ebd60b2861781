"""The benchmark of several gateways on one database, in its smallest form: what it counts is true."""

from pathlib import Path

from holdfast.lab.bench_nodes import NodesEffort, measure_kill, measure_rates, measure_sizes

TINY = NodesEffort(sessions=4, seconds=1.0, idle_sessions=4, streams=2, lease_seconds=1.0)


async def test_a_killed_node_loses_nothing_that_was_acknowledged(postgres_url: str, tmp_path: Path) -> None:
    lost, taken_over, others = await measure_kill(postgres_url, tmp_path, 2, TINY)

    assert (lost.name, lost.value, lost.ratio) == ("lost of what was acknowledged", 0.0, 1.0)
    assert (taken_over.unit, taken_over.reference) == ("s", 2.0)
    assert others.value > 0


async def test_rates_and_sizes_are_those_of_real_turns(postgres_url: str, tmp_path: Path) -> None:
    (rate,) = await measure_rates(postgres_url, tmp_path, 2, TINY)
    session, turn, streamed = await measure_sizes(postgres_url, tmp_path, 2, TINY)

    assert rate.name == "2 nodes against one"
    assert rate.value > 0
    assert rate.reference > 0
    assert (session.name, turn.unit, streamed.name) == ("session of one turn, of 4", "KiB", "turn beside 2 streams")
    assert streamed.value > 0
