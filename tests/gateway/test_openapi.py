"""The OpenAPI document: valid, complete, and what the gateway does."""

import asyncio
import json
import re
import sys
from pathlib import Path

import msgspec
from openapi_spec_validator import validate

from holdfast.gateway.api.openapi import document
from holdfast.gateway.api.routes import PREFIX, ROUTES
from holdfast.gateway.http.problems import STATUSES, RejectedError, statuses_of
from tests.gateway.gateways import DEADLINE_SECONDS, a_gateway

DOCUMENT = json.loads(msgspec.json.encode(document("0.1.0")))


def test_the_document_is_valid() -> None:
    validate(DOCUMENT)


def test_every_route_is_in_it_with_every_error_it_may_answer() -> None:
    told = {
        (method.upper(), path): set(operation["responses"])
        for path, operations in DOCUMENT["paths"].items()
        for method, operation in operations.items()
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
    assert len(set(names)) == len(names) == len(ROUTES)


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
    left_out = ["--exclude-path-regex=/events$", "--exclude-checks=positive_data_acceptance"]
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
