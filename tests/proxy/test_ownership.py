"""Answers and conversations that the provider stores in the operator's account belong to the tenant that got them."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.gateway.http.keys import KeyFile
from holdfast.gateway.http.problems import MalformedError
from holdfast.gateway.proxy.ownership import AnswerIds, OwnedIds, named_ids
from holdfast.models.fake import Simulation
from holdfast.ports import Store
from holdfast.runtime.clock import SystemClock
from holdfast.stores.memory import MemoryStore
from tests.proxy.proxies import DropInRunning, a_dropin
from tests.proxy.upstreams import a_raw_upstream

GATEWAY_KEY = "sk-of-the-operator-0001"
RESPONSES = "/v1/responses"


class Tenants:
    """A gateway with two keys, and what they ask."""

    def __init__(self, running: DropInRunning, keys: Mapping[str, str]) -> None:
        self.running = running
        self._keys = keys

    def headers(self, name: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self._keys[name]}", "content-type": "application/json"}

    async def post(self, name: str, body: Any, path: str = RESPONSES) -> tuple[int, Any]:
        content = body if isinstance(body, bytes) else json.dumps({"model": "sim", "input": "go on", **body}).encode()
        url = self.running.url + path
        async with self.running.http.post(url, data=content, headers=self.headers(name)) as response:
            return response.status, json.loads(await response.read())

    async def get(self, name: str, path: str) -> int:
        async with self.running.http.get(self.running.url + path, headers=self.headers(name)) as response:
            return response.status

    def sdk(self, name: str) -> openai.AsyncOpenAI:
        return self.running.openai.with_options(api_key=self._keys[name])


def _store() -> Store:
    return MemoryStore(clock=SystemClock(), bounds=Bounds())


def _keys(folder: Path) -> dict[str, str]:
    file = KeyFile(folder / "keys")
    return {name: file.add(name) for name in ("alice", "bob")}


@asynccontextmanager
async def tenants(folder: Path, made: Mapping[str, str], **more: Any) -> AsyncGenerator[Tenants]:
    async with a_dropin(keys=folder / "keys", **{"upstream_key": GATEWAY_KEY, **more}) as running:
        yield Tenants(running, made)


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_an_answer_is_continued_by_its_tenant_and_by_no_other(tmp_path: Path, *, is_streamed: bool) -> None:
    async with tenants(tmp_path, _keys(tmp_path)) as both:
        alice = both.sdk("alice")
        if is_streamed:
            stream = await alice.responses.create(model="sim", input="remember port = 8080", stream=True)
            (name,) = [event.response.id async for event in stream if event.type == "response.completed"]
        else:
            name = (await alice.responses.create(model="sim", input="remember port = 8080")).id
        asked = len(both.running.sent)
        with pytest.raises(openai.NotFoundError) as foreign:
            await both.sdk("bob").responses.create(model="sim", input="what is port?", previous_response_id=name)
        with pytest.raises(openai.NotFoundError):
            await alice.responses.create(model="sim", input="what is port?", previous_response_id="resp_of_nobody")
        assert len(both.running.sent) == asked
        own = await alice.responses.create(model="sim", input="what is port?", previous_response_id=name)
    assert foreign.value.code == "previous_response_not_found"
    assert "8080" in own.output_text


async def test_owners_are_known_after_a_restart_and_to_a_second_gateway_on_the_store(tmp_path: Path) -> None:
    simulation, store, made = Simulation(), _store(), _keys(tmp_path)
    async with (
        tenants(tmp_path, made, simulation=simulation, store=store) as first,
        tenants(tmp_path, made, simulation=simulation, store=store) as second,
    ):
        name = (await first.post("alice", {}))[1]["id"]
        beside = [(await second.post(one, {"previous_response_id": name}))[0] for one in ("alice", "bob")]
    async with tenants(tmp_path, made, simulation=simulation, store=store) as later:
        after = [(await later.post(one, {"previous_response_id": name}))[0] for one in ("alice", "bob")]
    # The operator has changed its provider key within the account.
    async with tenants(tmp_path, made, simulation=simulation, store=store, upstream_key="sk-another-0001") as rotated:
        changed = [(await rotated.post(one, {"previous_response_id": name}))[0] for one in ("alice", "bob")]
    assert beside == after == changed == [200, 404]


async def test_every_answer_can_be_continued_also_the_second_to_the_same_question(tmp_path: Path) -> None:
    async with tenants(tmp_path, _keys(tmp_path)) as both:
        first = (await both.post("alice", {}))[1]["id"]
        second = [(await both.post("alice", {"previous_response_id": first}))[1]["id"] for _ in range(2)]
        again = [(await both.post("alice", {"previous_response_id": one}))[0] for one in second]
    assert again == [200, 200]


async def test_with_a_provider_key_of_its_own_a_client_names_whatever_its_account_has(tmp_path: Path) -> None:
    made = _keys(tmp_path)
    async with a_raw_upstream() as upstream, tenants(tmp_path, made, upstream_url=upstream.url) as both:
        headers = {
            "x-holdfast-key": made["alice"],
            "authorization": "Bearer sk-of-alice-0001",
            "content-type": "application/json",
        }
        body = json.dumps({"model": "sim", "input": "go on", "previous_response_id": "resp_x"})
        async with both.running.http.post(both.running.url + RESPONSES, data=body, headers=headers) as response:
            assert response.status == 200
    assert json.loads(upstream.seen[0].body)["previous_response_id"] == "resp_x"


async def test_conversations_and_stored_answers_that_the_operator_allows_are_each_tenants_own(tmp_path: Path) -> None:
    allowed = ["/v1/conversations", "/v1/conversations/*", "/v1/responses/*"]
    async with a_raw_upstream() as upstream:
        upstream.body = b'{"id":"conv_1","object":"conversation"}'
        async with tenants(tmp_path, _keys(tmp_path), upstream_url=upstream.url, allowed_paths=allowed) as both:
            assert (await both.post("alice", {}, "/v1/conversations"))[1]["id"] == "conv_1"
            upstream.body = b'{"id":"resp_1","object":"response","output":[{"type":"message","id":"msg_1"}]}'
            assert (await both.post("alice", {"conversation": {"id": "conv_1"}}))[0] == 200
            seen = len(upstream.seen)
            paths = ["/v1/responses/resp_1", "/v1/responses/resp_1/input_items", "/v1/conversations/conv_1/items"]
            foreign = [await both.get("bob", path) for path in paths]
            foreign += [(await both.post("bob", {"conversation": one}))[0] for one in ("conv_1", {"id": "conv_1"})]
            foreign.append((await both.post("bob", {}, "/v1/responses/resp_1/cancel"))[0])
            assert len(upstream.seen) == seen
            own = [await both.get("alice", path) for path in paths]
    assert foreign == [404] * 6
    assert own == [200] * 3


ITEMS = (
    b'{"id":"resp_1","object":"response","output":[{"type":"reasoning","id":"rs_1"},{"type":"message","id":"msg_1"}]}'
)
STREAM = (
    b'event: response.created\ndata: {"type":"response.created","response":{"id":"resp_1"}}\n\n'
    b'event: response.output_item.added\ndata: {"type":"response.output_item.added","item":{"type":"reasoning",'
    b'"id":"rs_1"}}\n\ndata: {"type":"response.output_item.added","item":{"type":"message","id":"msg_1"}}\n\n'
    b'data: {"type":"response.output_text.delta","delta":"hi"}\n\n'
    b'data: {"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[]}}\n\n'
)


@pytest.mark.parametrize("answer", [ITEMS, STREAM])
async def test_items_of_an_answer_are_referred_to_by_its_tenant_alone(tmp_path: Path, answer: bytes) -> None:
    inputs: list[list[dict[str, Any]]] = [
        [{"type": "item_reference", "id": "msg_1"}],
        [{"id": "msg_1"}],
        [{"role": "user", "content": "x"}, {"type": "reasoning", "id": "rs_1", "summary": []}],
    ]
    inline = [{"type": "reasoning", "id": "rs_other", "summary": [], "encrypted_content": "x"}, {"role": "user"}]
    async with a_raw_upstream() as upstream:
        upstream.body = answer
        upstream.headers = b"content-type: text/event-stream\r\n" if answer is STREAM else upstream.headers
        async with tenants(tmp_path, _keys(tmp_path), upstream_url=upstream.url) as both:
            url = both.running.url + RESPONSES
            body = b'{"model":"sim","input":"hi","stream":true}'
            async with both.running.http.post(url, data=body, headers=both.headers("alice")) as response:
                assert await response.read() == answer
            upstream.body, upstream.headers = ITEMS, b"content-type: application/json\r\n"
            seen = len(upstream.seen)
            foreign = [(await both.post("bob", {"input": one}))[0] for one in inputs]
            assert len(upstream.seen) == seen
            own = [(await both.post("alice", {"input": one}))[0] for one in [*inputs, inline]]
    assert foreign == [404] * 3
    assert own == [200] * 4


@pytest.mark.parametrize("path", [RESPONSES, "/v1/responses/input_tokens", "/v1/responses/compact"])
async def test_no_form_of_a_body_hides_a_foreign_answer(tmp_path: Path, path: str) -> None:
    own, foreign = b'"resp_own"', b'"resp_1"'
    name, escaped = b'"previous_response_id"', b'"previous\\u005fresponse_id"'
    bodies = [
        b'{"input":"x",%s:%s}' % (name, foreign),
        b'{"input":"x",%s:%s}' % (escaped, foreign),
        b'{"input":"x",%s:%s,%s:%s}' % (name, own, name, foreign),
        b'{"input":"x",%s:%s,%s:%s}' % (name, foreign, name, own),
        b'{"input":"x",%s:%s,%s:null}' % (name, foreign, name),
        b'{"input":"x",%s:%s,%s:%s}' % (escaped, foreign, name, own),
        b'{"input":"x","conversation":{"id":%s,"id":%s}}' % (foreign, own),
        b'{"input":"x",%s:[%s]}' % (name, foreign),
        b'{"input":"x",%s:%s}}' % (name, foreign),
        b'{"input":"x",%s:%s,}' % (name, foreign),
        b'// note\n{"input":"x",%s:%s}' % (name, foreign),
        b'\xef\xbb\xbf{"input":"x",%s:%s}' % (name, foreign),
        '{"previous_response_id":"resp_1"}'.encode("utf-16"),
        b'{"input":"\xff",%s:%s}' % (name, foreign),
        b'{"input":[{"type":"item_reference","id":%s}]}' % foreign,
        b'{"input":[{"type":"item\\u005freference","id":%s}]}' % foreign,
        b'{"input":[{"type":"item_reference","id":%s,"id":%s}]}' % (foreign, own),
        b'{"input":[{"type":"item_reference","type":"message","role":"user","id":%s}]}' % foreign,
        b'{"input":[],"input":[{"type":"item_reference","id":%s}]}' % foreign,
        b'{"input":[{"type":"item_reference","id":%s}],"input":[]}' % foreign,
    ]
    store = _store()
    await OwnedIds(store).claim("bob", ["resp_own"])
    async with (
        a_raw_upstream() as upstream,
        tenants(tmp_path, _keys(tmp_path), upstream_url=upstream.url, store=store) as both,
    ):
        await both.post("alice", {})
        seen = len(upstream.seen)
        refused = [(await both.post("bob", body, path))[0] for body in bodies]
        assert len(upstream.seen) == seen
        assert (await both.post("bob", b'{"input":"x",%s:%s}' % (name, own), path))[0] == 200
    assert set(refused) <= {400, 404}


def test_ids_in_tools_and_texts_are_not_taken_for_stored_answers() -> None:
    schema = {"type": "object", "properties": {"conversation": {"type": "string"}, "previous_response_id": {}}}
    body = {"input": 'say "previous_response_id": "x" <b>', "tools": [{"parameters": schema}], "store": False}
    for text in (json.dumps(body), json.dumps(body).replace("<", "\\u003c")):
        found = named_ids("POST", RESPONSES, text.encode())
        assert (found.names, found.is_stored) == (frozenset(), False)


def test_more_elements_than_a_conversation_has_are_refused() -> None:
    body = b'{"input":[' + b",".join([b"1"] * 20_001) + b"]}"
    with pytest.raises(MalformedError, match="20,001 elements"):
        named_ids("POST", RESPONSES, body)


async def test_ids_are_recorded_before_the_client_can_read_them_however_the_answer_is_cut() -> None:
    for size in (1, 7, 64, 10_000):
        store = _store()
        owned = OwnedIds(store)
        ids, sent = AnswerIds(owned, "alice"), b""
        for start in range(0, len(STREAM), size):
            sent += await ids.relayed(STREAM[start : start + size])
            # An event is complete for a client at its empty line.
            complete = sent.rpartition(b"\n\n")[0]
            names = [name for name in ("resp_1", "rs_1", "msg_1") if f'"{name}"'.encode() in complete]
            assert await OwnedIds(store).foreign("alice", names) == []
        assert sent + await ids.rest() == STREAM
        held = AnswerIds(OwnedIds(store := _store()), "alice")
        parts = [await held.relayed(ITEMS[start : start + size]) for start in range(0, len(ITEMS), size)]
        assert (b"".join(parts), await held.rest()) == (b"", ITEMS)
        assert await OwnedIds(store).foreign("alice", ["resp_1", "rs_1", "msg_1"]) == []
        assert await OwnedIds(store).foreign("bob", ["resp_1"]) == ["resp_1"]


async def test_a_deleted_session_leaves_the_ids_of_others_with_their_owners(tmp_path: Path) -> None:
    made, store = _keys(tmp_path), _store()
    async with tenants(tmp_path, made, store=store) as both:
        first, second = [(await both.post("alice", {"input": text}))[1]["id"] for text in ("one", "two")]
        sessions = await both.running.sessions()
        for key in sessions:
            await both.running.hold.delete(key)
    assert await OwnedIds(store).foreign("alice", [first, second, "resp_x"]) == ["resp_x"]
