"""What the gateway itself refuses at a drop-in endpoint, as the client's own library reads it."""

from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.http.keys import KeyFile
from tests.proxy.proxies import a_dropin

HELLO: Any = [{"role": "user", "content": "hello"}]


async def test_a_missing_key_is_told_as_each_library_knows_it(tmp_path: Path) -> None:
    KeyFile(tmp_path / "keys").add("alice")
    async with a_dropin(keys=tmp_path / "keys") as running:
        with pytest.raises(openai.AuthenticationError, match="needs one of its keys") as chat:
            await running.openai.chat.completions.create(model="sim", messages=HELLO)
        with pytest.raises(openai.AuthenticationError, match="needs one of its keys"):
            await running.openai.responses.create(model="sim", input="hello")
        with pytest.raises(anthropic.AuthenticationError, match="needs one of its keys") as messages:
            await running.anthropic.messages.create(model="sim", max_tokens=9, messages=HELLO)
        with pytest.raises(anthropic.AuthenticationError, match="needs one of its keys"):
            await running.anthropic.messages.count_tokens(model="sim", messages=HELLO)
        with pytest.raises(openai.AuthenticationError, match="needs one of its keys"):
            await running.openai.models.list()
        async with running.http.get(f"{running.url}/api/sessions") as native:
            assert native.content_type == "application/problem+json"
        assert await running.sessions() == []

    assert chat.value.code == "unauthorized"
    body: Any = messages.value.body
    assert (body["type"], body["error"]["type"]) == ("error", "authentication_error")
    assert chat.value.response.headers["www-authenticate"].startswith("Bearer")


async def test_a_body_that_is_too_long_is_told_in_the_dialect_and_nothing_is_sent_on() -> None:
    async with a_dropin(gateway_bounds=GatewayBounds(body_bytes_max=1_000)) as running:
        long: Any = [{"role": "user", "content": "x" * 2_000}]
        with pytest.raises(openai.APIStatusError) as chat:
            await running.openai.chat.completions.create(model="sim", messages=long)
        with pytest.raises(anthropic.APIStatusError) as messages:
            await running.anthropic.messages.create(model="sim", max_tokens=9, messages=long)
        assert running.sent == []

    assert (chat.value.status_code, chat.value.code) == (413, "too_large")
    body: Any = messages.value.body
    assert (messages.value.status_code, body["error"]["type"]) == (413, "request_too_large")
