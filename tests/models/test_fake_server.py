"""Simulated server besides the dialects: control path, model list and the `sim` command."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from typing import Any

import aiohttp
import pytest
from click.testing import CliRunner

from holdfast.cli.commands.models import sim
from holdfast.models.fake import Simulation
from holdfast.models.fake.server import serve_simulation
from holdfast.types.limits import Limits


async def fetched(url: str, body: object = None) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session:
        sent = session.get(url) if body is None else session.post(url, data=json.dumps(body))
        async with sent as response:
            return response.status, await response.json()


async def test_faults_and_limits_are_set_and_counters_read_over_the_wire() -> None:
    simulation = Simulation()
    async with serve_simulation(simulation) as url:
        settings = {"faults": "429,ok", "limits": {"window_tokens": 500}, "delta_seconds": 0.0}
        assert (await fetched(f"{url}/simulation", settings))[0] == 200
        refused, _ = await fetched(
            f"{url}/v1/chat/completions", {"model": "sim", "messages": [{"role": "user", "content": "a"}]}
        )
        status, counters = await fetched(f"{url}/simulation")
    assert (refused, status) == (429, 200)
    assert counters == {
        "request_count": 1,
        "faults_left": 1,
        "limits": {
            "window_tokens": 500,
            "output_tokens_max": None,
            "wire_bytes_max": None,
            "media_count_max": None,
            "media_bytes_max": None,
            "media_pixels_max": None,
        },
        "summary_tokens_max": None,
        "refuses": {},
        "requests": [{"number": 1, "dialect": "openai-chat", "status": 429, "fault": "429", "tokens": 5}],
    }
    assert simulation.limits == Limits(window_tokens=500)


@pytest.mark.parametrize(
    "settings",
    [
        {"faults": "nonsense"},
        {"fault": "ok"},
        [],
        {"limits": 5},
        {"faults": "", "refuses": {"a": "nonsense"}},
        {"faults": "nonsense", "refuses": {"a": "500"}},
        {"refuses": {"a": "429*2"}},
        {"refuses": {"a": ""}},
    ],
)
async def test_settings_that_make_no_sense_change_nothing(settings: object) -> None:
    simulation = Simulation(faults="ok")
    async with serve_simulation(simulation) as url:
        status, told = await fetched(f"{url}/simulation", settings)
    assert (status, "error" in told) == (400, True)
    assert (simulation.faults_left, simulation.refuses) == (1, {})


async def test_every_request_with_a_refused_text_gets_its_fault_and_others_follow_the_script() -> None:
    def saying(text: str) -> dict[str, Any]:
        return {"model": "sim", "messages": [{"role": "user", "content": text}]}

    async with serve_simulation(Simulation(faults="529")) as url:
        refuses = {"zqxj": "template-500", "wvut": "content-filter", "limited": "429:retry-after=2"}
        _, told = await fetched(f"{url}/simulation", {"refuses": refuses})
        texts = ["a zqxj", "the wvut", "zqxj again", "limited", "hello", "hello"]
        seen = [await fetched(f"{url}/v1/chat/completions", saying(text)) for text in texts]
    assert told["refuses"] == {"zqxj": "template-500", "wvut": "content-filter", "limited": "429"}
    assert [status for status, _ in seen] == [500, 400, 500, 429, 529, 200]
    assert seen[0][1]["error"]["message"] == "Failed to apply the chat template at row 41"


async def test_summaries_alone_are_refused_where_that_is_set() -> None:
    def saying(text: str) -> dict[str, Any]:
        return {"model": "sim", "messages": [{"role": "user", "content": text}]}

    async with serve_simulation(Simulation()) as url:
        await fetched(f"{url}/simulation", {"summary_tokens_max": 0})
        refused, why = await fetched(f"{url}/v1/chat/completions", saying("Please summarise all of this."))
        answered, _ = await fetched(f"{url}/v1/chat/completions", saying("what is harbour?"))
        await fetched(f"{url}/simulation", {"summary_tokens_max": None})
        summarised, _ = await fetched(f"{url}/v1/chat/completions", saying("Please summarise all of this."))
    assert (refused, why["error"]["code"], answered, summarised) == (400, "invalid_prompt", 200, 200)


async def test_settings_that_are_left_out_stay_as_they_are() -> None:
    simulation = Simulation(Limits(window_tokens=9), faults="ok", delta_seconds=0.5)
    async with serve_simulation(simulation) as url:
        status, _ = await fetched(f"{url}/simulation", {})
    assert (status, simulation.limits, simulation.faults_left, simulation.delta_seconds) == (
        200,
        Limits(window_tokens=9),
        1,
        0.5,
    )


async def test_the_length_of_what_is_summarised_is_set_over_the_wire_and_stays_until_it_is_set_again() -> None:
    simulation = Simulation()
    async with serve_simulation(simulation) as url:
        status, _ = await fetched(f"{url}/simulation", {"summary_tokens_max": 40})
        _, told = await fetched(f"{url}/simulation", {"delta_seconds": 0.0})
    assert (status, simulation.summary_tokens_max, told["summary_tokens_max"]) == (200, 40, 40)


async def test_an_address_that_is_not_served_names_those_that_are() -> None:
    async with serve_simulation(Simulation()) as url:
        status, told = await fetched(f"{url}/v2/chat")
    assert status == 404
    assert "/v1/responses, /v1beta/models/, /v1/models and /simulation" in told["error"]["message"]


async def test_a_server_stops_although_a_stream_is_open() -> None:
    simulation = Simulation(faults="stall")
    body = {"model": "sim", "stream": True, "messages": [{"role": "user", "content": "a"}]}
    async with aiohttp.ClientSession() as session, asyncio.timeout(5):
        async with serve_simulation(simulation) as url:
            response = await session.post(f"{url}/v1/chat/completions", data=json.dumps(body))
            assert response.status == 200
        with pytest.raises(aiohttp.ClientError):
            await response.read()
    assert simulation.requests[0].was_closed_early


async def test_a_server_listens_on_the_other_family_too() -> None:
    async with serve_simulation(Simulation(), host="::1") as url:
        assert re.fullmatch(r"http://\[::1\]:\d+", url)
        assert (await fetched(f"{url}/v1/models"))[1]["data"][0]["id"] == "sim"


def test_the_command_prints_its_address_and_runs_until_it_is_interrupted() -> None:
    command = "from holdfast.cli.commands.models import sim; sim()"
    arguments = ["--window", "8000", "--wire-bytes", "5000", "--faults", "429,ok"]
    arguments += ["--refuse", "a=b=content-filter", "--refuse", "zqxj=template-500"]
    running = subprocess.Popen(
        [sys.executable, "-u", "-c", command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with running:
        assert running.stdout is not None
        first = running.stdout.readline()
        running.stdout.readline()
        running.stdout.readline()
        found = re.fullmatch(r"simulated model on (http://127\.0\.0\.1:\d+)\n", first)
        assert found is not None
        _, counters = asyncio.run(fetched(f"{found[1]}/simulation"))
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=10)
    assert (counters["faults_left"], counters["limits"]["window_tokens"]) == (2, 8000)
    assert counters["refuses"] == {"a=b": "content-filter", "zqxj": "template-500"}
    assert (out, err, running.returncode) == ("stopped\n", "", 0)


def test_the_command_names_the_faults_that_it_knows() -> None:
    told = CliRunner().invoke(sim, ["--faults", "nonsense"])
    assert told.exit_code == 2
    assert "Known are: ok, 401" in " ".join(told.output.split())


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("zqxj", "'zqxj' is not TEXT=FAULT"),
        ("=500", "'=500' is not TEXT=FAULT"),
        ("zqxj=nonsense", "Known are: ok, 401"),
        ("zqxj=500*2", "'500*2' has 2 faults; give one"),
    ],
)
def test_the_command_says_what_is_wrong_with_a_refused_text(option: str, sentence: str) -> None:
    told = CliRunner().invoke(sim, ["--refuse", option])
    assert told.exit_code == 2
    assert "--refuse" in told.output
    assert sentence in " ".join(told.output.split())


def test_the_command_says_that_a_port_is_taken() -> None:
    async def taken() -> tuple[int, str]:
        async with serve_simulation(Simulation()) as url:
            port = url.rpartition(":")[2]
            told = await asyncio.to_thread(CliRunner().invoke, sim, ["--port", port])
            return told.exit_code, str(told.exception)

    code, output = asyncio.run(taken())
    assert code == 1
    assert re.search(r"cannot listen on 127\.0\.0\.1:\d+: Address already in use", output)
