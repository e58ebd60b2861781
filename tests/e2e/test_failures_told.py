"""A message that fails names the true cause and the setting to change: the address, the model, or each of several."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

import holdfast
from holdfast.errors import TurnFailedError
from tests.e2e.world import HASTY, KEY, a_world, ended_well

NGINX = "<html><head><title>404 Not Found</title></head><body><center><h1>404 Not Found</h1></center></body></html>"


@asynccontextmanager
async def answering(status: int, body: str, kind: str) -> AsyncGenerator[str]:
    """Run a server that is no provider, and yield its address."""

    async def answer(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=status, text=body, content_type=kind)

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("body", "kind"),
    [('{"detail":"Not Found"}', "application/json"), ("404 page not found", "text/plain"), (NGINX, "text/html")],
)
async def test_a_wrong_base_url_is_told_as_that(tmp_path: Path, body: str, kind: str) -> None:
    async with (
        answering(404, body, kind) as url,
        holdfast.open(tmp_path / "a.db", model="openai:gpt-5", base_url=url) as hold,
    ):
        with pytest.raises(TurnFailedError, match="base_url"):
            await (await hold.session(KEY)).send("hello")


async def test_an_unknown_model_is_told_as_that(tmp_path: Path) -> None:
    async with a_world(tmp_path, "openai") as world:
        world.simulation.set_faults("404")
        async with world.open(bounds=HASTY) as hold:
            session = await hold.session(KEY)
            with pytest.raises(TurnFailedError, match="does not exist") as failure:
                await session.send("hello")
            assert "base_url" not in str(failure.value)
            await ended_well(session)


async def test_each_of_several_models_is_told_with_its_own_failure(tmp_path: Path) -> None:
    async with a_world(tmp_path, "openai") as world:
        faults = {b'"model":"first"': "401", b'"model":"second"': "quota", b'"model":"third"': "404"}
        world.simulation.fault_of = lambda body: next(fault for name, fault in faults.items() if name in body)
        models = [world.model(name) for name in ("first", "second", "third")]
        async with world.open(*models, bounds=HASTY) as hold:
            session = await hold.session(KEY)
            with pytest.raises(TurnFailedError) as failure:
                await session.send("hello")
            told = "No model answered: openai:first (auth); openai:second (quota); openai:third (model not found)."
            assert str(failure.value).endswith(told)
            await ended_well(session)
