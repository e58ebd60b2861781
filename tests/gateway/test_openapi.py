"""The OpenAPI document: valid, complete, and what the gateway does."""

import asyncio
import json
import re
import sys
from pathlib import Path

import aiohttp
import msgspec
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from holdfast.config.schema import GatewaySettings, Settings
from holdfast.gateway.api.routes import PREFIX, ROUTES
from holdfast.gateway.http.problems import STATUSES, RejectedError, statuses_of
from holdfast.gateway.openapi.document import document
from holdfast.gateway.openapi.proxy_paths import proxy_paths
from holdfast.gateway.proxy.access import FORWARDED
from holdfast.wiring import open_gateway
from tests.gateway.gateways import DEADLINE_SECONDS, a_gateway

DOCUMENT = json.loads(msgspec.json.encode(document("0.1.0")))


def test_the_document_is_valid() -> None:
    validate(DOCUMENT)


def test_every_route_is_in_it_with_every_error_it_may_answer() -> None:
    told = {
        (method.upper(), path): set(operation["responses"])
        for path, operations in DOCUMENT["paths"].items()
        for method, operation in operations.items()
        if path.startswith(PREFIX)
    }
    expected = {
        (route.method, PREFIX + route.path): {
            str(status)
            for status in (
                route.status,
                *(status for status, _ in route.other_responses),
                *statuses_of(*route.all_errors),
            )
        }
        for route in ROUTES
    }
    assert told == expected


def test_operations_have_names_of_their_own() -> None:
    names = [operation["operationId"] for operations in DOCUMENT["paths"].values() for operation in operations.values()]
    assert len(set(names)) == len(names) == len(ROUTES) + len(proxy_paths())


def test_every_body_has_an_example_that_its_schema_accepts() -> None:
    for route in ROUTES:
        if route.body is not None:
            operation = DOCUMENT["paths"][PREFIX + route.path][route.method.lower()]
            msgspec.convert(operation["requestBody"]["content"]["application/json"]["example"], route.body)


def test_the_proxy_endpoints_are_in_it_with_bodies_and_examples() -> None:
    calls = {f"POST {path}" for path in proxy_paths() if path != "/v1/models"}
    assert {call for call in FORWARDED if call.startswith("POST")} - calls == {
        "POST /v1/responses/input_tokens",
        "POST /v1/responses/compact",
    }
    for path, operations in proxy_paths().items():
        for operation in operations.values():
            body = operation.get("requestBody")
            if body is not None:
                media = body["content"]["application/json"]
                assert set(media["schema"]["required"]) <= set(media["example"]) <= set(media["schema"]["properties"])
                Draft202012Validator(media["schema"]).validate(media["example"])
            assert operation["responses"]["200"]["content"]["application/json"]["example"], path


async def test_examples_of_the_proxy_endpoints_are_answered_as_they_stand(tmp_path: Path) -> None:
    settings = Settings(store=str(tmp_path / "a.db"), gateway=GatewaySettings(port=0))
    async with open_gateway(settings) as url, aiohttp.ClientSession() as http:
        for path, operations in proxy_paths().items():
            for method, operation in operations.items():
                media = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
                address = url + path.replace("{model}", "sim")
                async with http.request(method, address, json=media.get("example")) as answer:
                    told = await answer.json()
                example = operation["responses"]["200"]["content"]["application/json"]["example"]
                if isinstance(example, list):
                    # Of a list, the last element has everything.
                    told, example = told[-1], example[-1]
                assert (answer.status, set(example) - set(told)) == (200, set()), told


def test_every_refusal_of_the_gateway_has_a_status_and_a_code_of_its_own() -> None:
    kinds = RejectedError.__subclasses__()
    assert {kind for kind in kinds if kind not in STATUSES} == set()
    assert len({kind.code for kind in kinds}) == len(kinds)


async def test_the_document_is_served() -> None:
    async with a_gateway() as running:
        answer = await running.client.get("/api/openapi.json")
    assert (answer.status, answer.body) == (200, DOCUMENT)


async def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    # Left out: the watches, which have no end; and that whatever the schema allows is accepted, because a schema cannot
    # say that a message must not be blank or that an upload must exist.
    options = ["--max-examples=4", "--phases=coverage,fuzzing", "--seed=1", "--request-timeout=20", "--no-color"]
    # The proxy endpoints are those of other APIs, and this gateway has none.
    left_out = ["--exclude-path-regex=/events$|^/v1(beta)?/", "--exclude-checks=positive_data_acceptance"]
    async with a_gateway() as running:
        await running.client.send("known", "hello")
        program = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).with_name("schemathesis")),
            "run",
            f"{running.url}/api/openapi.json",
            *options,
            *left_out,
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(5 * DEADLINE_SECONDS):
                said, _ = await program.communicate()
        finally:
            if program.returncode is None:
                program.kill()
                await program.wait()
    told = said.decode(errors="replace")
    assert program.returncode == 0, told[-6_000:]
    assert re.search(rf"Tested: +{len(ROUTES) - 2}\b", told), told[-2_000:]
