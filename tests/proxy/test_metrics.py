"""Counters of the drop-in endpoints: what passed, what was rescued and how, what upstreams did, own compactions."""

from pathlib import Path
from typing import Any

import aiohttp

from holdfast.config.schema import GatewaySettings, Settings, UpstreamSettings
from holdfast.core.limits.bounds import Bounds
from holdfast.models.fake import Simulation
from holdfast.models.fake.server import serve_simulation
from holdfast.types.limits import Limits
from holdfast.wiring import open_gateway
from tests.proxy.test_client_compaction import CODEX


def counted(shown: str) -> dict[str, float]:
    """Return the counters of the drop-in endpoints by name and labels."""
    lines = [line.rpartition(" ") for line in shown.splitlines() if line.startswith("holdfast_dropin_")]
    return {name: float(value) for name, _, value in lines if "_created" not in name}


async def test_passes_rescues_faults_and_compaction_calls_are_counted_apart(tmp_path: Path) -> None:
    simulation = Simulation(Limits(window_tokens=8_000, output_tokens_max=1_000), faults="ok, 529")
    long = [{"role": "user", "content": f"message {number}: " + "a long letter came. " * 120} for number in range(30)]
    async with serve_simulation(simulation) as upstream, aiohttp.ClientSession() as http:
        settings = Settings(
            store=str(tmp_path / "store.db"),
            gateway=GatewaySettings(port=0),
            upstream=UpstreamSettings(openai_base_url=f"{upstream}/v1"),
            bounds=Bounds(back_off_seconds_min=0.01),
        )
        async with open_gateway(settings) as url:

            async def ask(messages: list[dict[str, str]]) -> Any:
                body = {"model": "m", "messages": messages}
                async with http.post(f"{url}/v1/chat/completions", json=body) as answer:
                    assert answer.status == 200, await answer.text()
                    return await answer.json()

            await ask([{"role": "user", "content": "hello"}])
            await ask([{"role": "user", "content": "hello again"}])
            await ask([{"role": "user", "content": CODEX}])
            await ask(long)
            async with http.get(f"{url}/metrics") as answer:
                seen = counted(await answer.text())

    assert seen['holdfast_dropin_requests_total{dialect="openai-chat",result="passed"}'] == 3
    assert seen['holdfast_dropin_requests_total{dialect="openai-chat",result="rescued"}'] == 1
    assert seen['holdfast_dropin_faults_total{kind="overloaded"}'] == 1
    assert seen['holdfast_dropin_compactions_total{dialect="openai-chat"}'] == 1
    assert any(name.startswith("holdfast_dropin_rungs_total") and 'result="changed"' in name for name in seen)
