"""`savings = "safe"`: folded and masked output in every dialect, and savings that every reader of the log agrees on."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from click.testing import CliRunner

from holdfast.cli.commands.keys import usage
from holdfast.config.schema import GatewaySettings, Settings, UpstreamSettings
from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.prices import Prices
from holdfast.core.limits.savings import balance_usd
from holdfast.core.proxy.folding import unfold
from holdfast.errors import UsageError
from holdfast.models.fake import Simulation
from holdfast.models.fake.server import serve_simulation
from holdfast.models.limits import Overrides
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.log import open_log
from holdfast.stores.memory import MemoryStore
from holdfast.types.accounts import OwnRequest
from holdfast.types.limits import Limits
from holdfast.types.messages import Text
from holdfast.types.records import OutputMasked, ReplyRecorded, ToolSettled
from holdfast.wiring import open_gateway
from tests.proxy.proxies import DropInRunning, a_dropin
from tests.proxy.recallers import DIALECTS, Recaller, forgetful

LOG = "\n".join(
    f"2026-11-18T12:{number // 60:02}:{number % 60:02}Z INFO heartbeat of worker 7 ok, id={number + 17}"
    for number in range(120)
)
ERRORS = "\n".join(["connection to the harbour lost, trying again in 5 seconds"] * 90)
# Output without repeated lines, which is worth masking only.
PROSE = " ".join(f"sounding{number * 7919 % 10_007} fathoms{number * 104_729 % 9_973}" for number in range(120))
PRICES = Prices(3.0, 0.3, 15.0, 3.75)
PRICED = Overrides(prices_by_name={"*": PRICES})
# No cache is read at the price of the input, so a mask pays at once.
UNCACHED = Overrides(prices_by_name={"*": Prices(3.0, None, 15.0)})
# A beginning that is long enough for a prompt cache.
LONG: tuple[Any, ...] = ({"role": "user", "content": PROSE * 3}, {"role": "assistant", "content": "Noted."})
FEW_KEPT = Bounds(back_off_seconds_min=0.01, compacts_ahead=False, outputs_kept=1)


def _outputs(body: bytes) -> list[str]:
    """Return the tool output in a request of whichever dialect."""
    found: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if value.get("role") == "tool":
                found.append(value["content"])
            elif "functionResponse" in value:
                found.extend(value["functionResponse"]["response"].values())
            elif value.get("type") in ("tool_result", "function_call_output"):
                content: Any = value.get("content", value.get("output"))
                found.append(content if isinstance(content, str) else "".join(one["text"] for one in content))
            else:
                for one in value.values():
                    walk(one)
        elif isinstance(value, list):
            for one in value:
                walk(one)

    walk(json.loads(body))
    return found


def _tools(body: bytes) -> list[str]:
    tools = json.loads(body).get("tools") or ()
    flat = [declared for one in tools for declared in one.get("functionDeclarations", [one])]
    return [one.get("name") or one["function"]["name"] for one in flat]


async def _uses_tool(client: Recaller, output: str) -> None:
    """Have the model call the client's tool, and return its output."""
    called = await client.ask("call depth {}")
    assert [name for _, name in called.calls] == ["depth"]
    await client.returns(called, output)


async def _records(running: DropInRunning) -> list[Any]:
    (key,) = await running.sessions()
    return await running.records(key)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_repeated_lines_are_folded_without_loss_and_stay_folded(dialect: str) -> None:
    async with a_dropin(savings="safe", overrides=PRICED) as running:
        client = Recaller(running, dialect, messages=[*LONG])
        await _uses_tool(client, LOG)
        first = running.sent[-1]
        await _uses_tool(client, ERRORS)
        await client.ask("write 5 words")
        records = await _records(running)
        (key,) = await running.sessions()
        state = (await open_log(running.engine.store, key)).turn
    folded = _outputs(running.sent[-1])
    assert [unfold(text) for text in folded] == [LOG, ERRORS]
    assert sum(map(len, folded)) < 0.1 * len(LOG + ERRORS)
    # The beginning of later requests is the same, and a session without hidden parts has no tool to read them with.
    assert _outputs(first) == folded[:1]
    assert _tools(running.sent[-1]) == ["depth"]
    # The log has the output as it came.
    originals = [record.result.parts for record in records if isinstance(record, ToolSettled)]
    assert originals == [(Text(LOG),), (Text(ERRORS),)]
    own = [record.own_request for record in records if isinstance(record, ReplyRecorded) and record.reply.usage]
    assert [one is None for one in own] == [True, False, False, False, False]
    assert state.saved.changed == 4
    assert state.saved.refused == 0
    assert state.saved.input_tokens > 3 * len(LOG) // 4
    assert balance_usd(state.saved) == state.saved.usd > 0


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_requests_are_forwarded_byte_for_byte_while_savings_are_off(dialect: str) -> None:
    async with a_dropin(savings="off", overrides=UNCACHED, bounds=FEW_KEPT) as running:
        client = Recaller(running, dialect, messages=[])
        for output in (LOG, PROSE * 3, ERRORS):
            await _uses_tool(client, output)
        records = await _records(running)
    assert _outputs(running.sent[-1]) == [LOG, PROSE * 3, ERRORS]
    assert [record.own_request for record in records if isinstance(record, ReplyRecorded)] == [None] * 6


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_old_output_is_masked_before_the_window_is_full_and_recall_reads_it(dialect: str) -> None:
    simulation = Simulation()
    simulation.caches = False
    async with a_dropin(simulation, savings="safe", overrides=UNCACHED, bounds=FEW_KEPT) as running:
        client = Recaller(running, dialect, messages=[])
        await _uses_tool(client, PROSE * 3)
        await _uses_tool(client, "12 fathoms")
        masked = running.sent[-1]
        records = await _records(running)
        (mask,) = [record for record in records if isinstance(record, OutputMasked)]
        settled = next(place for place, record in enumerate(records, start=1) if isinstance(record, ToolSettled))
        await client.ask(f'call recall {{"seq": {settled}}}')
        recalled = running.sent[-1]
        (key,) = await running.sessions()
        state = (await open_log(running.engine.store, key)).turn
        records = await _records(running)
    assert mask.payback_requests == 0.0
    first, second = _outputs(masked)
    assert f"recall(seq={settled}) reads them" in first
    assert (second, _tools(masked)) == ("12 fathoms", ["depth", "recall"])
    # The output of the recall is the first of it, and the beginning of the request is the same.
    assert _outputs(recalled)[:2] == [first, second]
    assert PROSE[:1_000] in _outputs(recalled)[2]
    # The call for the recall counts as one that the client would not have made.
    own = [record.own_request for record in records if isinstance(record, ReplyRecorded)]
    compared = [one for one in own if one is not None]
    assert [one.is_added for one in compared] == [False, True, False]
    assert compared[1] == OwnRequest(usd=0.0, is_added=True)
    assert (state.saved.changed, state.saved.refused) == (2, 0)


async def test_a_warm_cache_that_costs_more_to_rewrite_than_it_saves_is_left_alone() -> None:
    async with a_dropin(savings="safe", overrides=PRICED, bounds=FEW_KEPT) as running:
        client = Recaller(running, "chat", messages=[])
        await client.ask("write 5 words " + PROSE * 20)
        await _uses_tool(client, PROSE * 3)
        for _ in range(3):
            await _uses_tool(client, "12 fathoms")
        records = await _records(running)
    assert not [record for record in records if isinstance(record, OutputMasked)]
    assert _outputs(running.sent[-1])[0] == PROSE * 3


async def test_a_session_with_a_negative_balance_is_not_changed_any_more() -> None:
    async with a_dropin(savings="safe", overrides=UNCACHED, bounds=FEW_KEPT) as running:
        client = Recaller(running, "chat", messages=[])
        await _uses_tool(client, PROSE * 3)
        await _uses_tool(client, "12 fathoms")
        for _ in range(4):
            # Each recall is a request more, with the whole output in it.
            await client.ask('call recall {"query": "sounding"} ' + "the harbour " * 1_000)
        (key,) = await running.sessions()
        state = (await open_log(running.engine.store, key)).turn
        await _uses_tool(client, LOG)
        sent = _outputs(running.sent[-1])[-1]
    assert balance_usd(state.saved) < 0
    assert sent == LOG


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_second_gateway_and_a_restart_decide_alike(dialect: str) -> None:
    outputs = (LOG, PROSE * 3, "12 fathoms", ERRORS)
    store = MemoryStore(clock=SystemClock(), bounds=FEW_KEPT)
    simulation = Simulation()
    simulation.caches = False
    settings: dict[str, Any] = {"savings": "safe", "overrides": UNCACHED, "bounds": FEW_KEPT}
    messages: list[Any] = []
    async with (
        a_dropin(simulation, store=store, **settings) as one,
        a_dropin(simulation, store=store, **settings) as two,
    ):
        client = Recaller(one, dialect, messages=messages)
        for output in outputs[:3]:
            client.running = one
            called = await client.ask("call depth {}")
            client.running = two
            await client.returns(called, output)
        masked = _outputs(simulation.requests[-1].body)
    async with a_dropin(simulation, store=store, **settings) as again:
        client = Recaller(again, dialect, messages=messages)
        await _uses_tool(client, outputs[3])
        shared = _outputs(simulation.requests[-1].body)
        (key,) = await again.sessions()
        state = (await open_log(store, key)).turn
    alone = Simulation()
    alone.caches = False
    async with a_dropin(alone, **settings) as running:
        client = Recaller(running, dialect, messages=[])
        for output in outputs:
            await _uses_tool(client, output)
        (key,) = await running.sessions()
        expected = (await open_log(running.engine.store, key)).turn
        assert shared == _outputs(running.sent[-1])
    assert unfold(masked[0]) == LOG
    assert "no longer shown" in masked[1]
    assert (state.saved, state.view_changes) == (expected.saved, expected.view_changes)


async def test_a_request_that_would_have_been_rejected_says_so_and_costs_nothing() -> None:
    async with a_dropin(forgetful(), overrides=PRICED) as running:
        client = Recaller(running, "chat")
        await client.ask("write 5 words")
        await client.ask("write 6 words")
        (key,) = await running.sessions()
        state = (await open_log(running.engine.store, key)).turn
        records = await _records(running)
    own = [record.own_request for record in records if isinstance(record, ReplyRecorded) and record.reply.usage]
    assert own == [OwnRequest(usd=0.0, is_refused=True)] * 2
    assert (state.saved.changed, state.saved.refused) == (2, 2)
    assert state.saved.usd < 0
    # Those requests do not count against the setting.
    assert balance_usd(state.saved) == 0


async def test_output_that_is_too_long_for_the_log_is_sent_whole_beside_a_fold() -> None:
    long = "\n".join(f"{number * 7919 % 1_000_003:x} {PROSE[number % 900 :][:80]}" for number in range(900))
    async with a_dropin(Simulation(Limits(200_000, 8_000)), savings="safe", overrides=PRICED) as running:
        client = Recaller(running, "chat", messages=[*LONG])
        await _uses_tool(client, LOG)
        await _uses_tool(client, long)
        outputs = _outputs(running.sent[-1])
    assert [unfold(outputs[0]), outputs[1]] == [LOG, long]


async def test_metrics_http_and_command_line_report_the_same_savings(tmp_path: Path) -> None:
    prices = tmp_path / "models.toml"
    prices.write_text('[models."*"]\ninput_usd = 3.0\ncached_input_usd = 0.3\noutput_usd = 15.0\n', "utf-8")
    store = tmp_path / "store.db"
    called: Any = {"id": "c1", "type": "function", "function": {"name": "depth", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "read the log"},
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "c1", "content": LOG},
    ]
    async with serve_simulation(Simulation()) as upstream, aiohttp.ClientSession() as http:
        settings = Settings(
            store=str(store),
            models=str(prices),
            gateway=GatewaySettings(port=0),
            upstream=UpstreamSettings(openai_base_url=f"{upstream}/v1", savings="safe"),
        )
        async with open_gateway(settings) as url:
            # The end of a stream comes after its answer is recorded.
            body = {"model": "m", "messages": messages, "stream": True, "stream_options": {"include_usage": True}}
            async with http.post(f"{url}/v1/chat/completions", json=body) as answer:
                assert answer.status == 200, await answer.text()
                await answer.read()
                session = answer.headers["x-holdfast-session"]
            async with http.get(f"{url}/api/usage") as answer:
                (row,) = (await answer.json())["rows"]
            async with http.get(f"{url}/api/sessions/{session}") as answer:
                detail = await answer.json()
            async with http.get(f"{url}/metrics") as answer:
                counted = dict(line.rsplit(" ", 1) for line in (await answer.text()).splitlines() if line[0] != "#")
    own, saved = row["without_changes"], row["totals"]["saved"]
    # The answer in the history was another call, by whoever made it.
    assert (row["totals"]["calls"], saved["changed"]) == (1, 1)
    assert own["usd"] == pytest.approx(row["totals"]["usd"] + saved["usd"])
    assert own["usd"] > 3 * row["totals"]["usd"]
    assert detail["without_changes"] == own
    for direction in ("input", "cached_input", "output"):
        name = f'holdfast_dropin_tokens_total{{direction="{direction}",request='
        assert float(counted[name + '"own"}']) == own[f"{direction}_tokens"]
        assert float(counted[name + '"sent"}']) == row["totals"].get(f"{direction}_tokens", 0)
    assert float(counted['holdfast_dropin_cost_usd_total{request="own"}']) == pytest.approx(own["usd"])
    assert float(counted["holdfast_dropin_refused_unchanged_total"]) == 0
    listed = await _printed("--store", str(store), "--json")
    assert json.loads(listed)["rows"][0]["without_changes"] == own
    table = await _printed("--store", str(store))
    assert "without the changes of the proxy, estimated:" in table
    assert f"saved: ${saved['usd']:,.4f}" in table
    of_session = await _printed("--store", str(store), "--session", session, "--json")
    assert json.loads(of_session)["without_changes"] == own
    text = await _printed("--store", str(store), "--session", session)
    assert text.splitlines()[2].split() == ["saved:", f"${saved['usd']:,.4f}"]
    with pytest.raises(UsageError, match="there is no session 'nothing'"):
        await _printed("--store", str(store), "--session", "nothing")


async def _printed(*options: str) -> str:
    """Return the output of `holdfast usage`."""
    return (await asyncio.to_thread(CliRunner().invoke, usage, options, catch_exceptions=False)).output
